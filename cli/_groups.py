"""Groups of options: a parameter of a verb may be a dataclass, whose fields are options.

A field is annotated like a parameter of Typer. A field of `RunOptions`, which does not know Typer,
is described by its metadata (`runtime/options.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_type_hints

import typer

from ..runtime.options import flag

#: Options of a verb that replace those of the program.
_OWN = {"live"}
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def grouped(verb: Callable[..., int]) -> Callable[..., int]:
    """The verb as Typer takes it: fields of dataclasses are options, and the verb gets them as one
    value."""
    signature = inspect.signature(verb, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if is_dataclass(parameter.annotation):
            own = _parameters(parameter.annotation)
            groups[name] = parameter.annotation, [option.name for option in own]
            parameters += own
        else:
            parameters.append(parameter.replace(kind=KEYWORD))

    names = [parameter.name for parameter in parameters]

    @functools.wraps(verb)
    def called(*arguments: Any, **given: Any) -> int:
        given |= dict(zip(names, arguments, strict=False))
        for name, (group, options) in groups.items():
            own = {option: given.pop(option) for option in options if option in given}
            given[name] = _made(group, own)
        return verb(**given)

    taken = {p.name: p for p in parameters}
    called.__signature__ = signature.replace(parameters=list(taken.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in taken.values()} | {"return": int}
    return called


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for each in fields(group):
        if "about" in each.metadata:
            if each.name not in _OWN:
                found.append(_parameter(each, hints[each.name]))
        else:
            found.append(_keyword(each.name, hints[each.name], each.default))
    return found


def _parameter(option: Field[Any], hint: Any) -> inspect.Parameter:
    """An option of a program."""
    said = option.metadata
    about = said["about"][0].upper() + said["about"][1:] + "."
    if not said["metavar"]:
        return _keyword(
            option.name, Annotated[bool, typer.Option(flag(option), help=about)], option.default
        )
    given: dict[str, Any] = {"help": about, "metavar": said["metavar"], "show_default": False}
    if said["choices"]:
        make: Any = StrEnum
        choice = make("Choice", {word.upper(): word for word in said["choices"]})
        return _keyword(
            option.name,
            Annotated[choice, typer.Option(flag(option), help=about)],
            choice(option.default),
        )
    if isinstance(option.default, tuple):
        return _keyword(
            option.name, Annotated[list[str] | None, typer.Option(flag(option), **given)], None
        )
    given["parser"] = _parser(said["parse"])
    return _keyword(
        option.name, Annotated[Any, typer.Option(flag(option), **given)], option.default
    )


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, KEYWORD, default=default, annotation=annotation)


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same for Typer, which shows the reason of a BadParameter."""

    @functools.wraps(parse)
    def parse_or_say(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_say


def _made(group: Any, given: dict[str, Any]) -> Any:
    """The value of a group; an option that may be repeated, and is not given, has its default."""
    plain = {
        name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()
    }
    return group(**{name: value for name, value in plain.items() if value is not None})
