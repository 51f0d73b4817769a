"""What installed formats of other tools add to verbs: options, choices and words of help.

`_verbs.py` asks for them when such a verb is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..interop.registry import Option

#: The parameter of a verb that stands for the options of formats.
OPTIONS = "options"
KEYWORD = inspect.Parameter.KEYWORD_ONLY

#: An option with the words that say what it is for.
Described = tuple["Option", str]


def completed(
    verb: Callable[..., int], options: Iterable[Described] = (), **annotations: object
) -> Callable[..., int]:
    """The verb with options in place of its parameter `options`, and with other annotations of its
    parameters."""
    signature = inspect.signature(verb, locals={"Options": object}, eval_str=True)
    added: dict[str, inspect.Parameter] = {}
    for option, about in options:  # those of flowc come first: a package cannot replace one
        added.setdefault(option.name, _parameter(option, about))
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name == OPTIONS:
            parameters += added.values()
        else:
            annotation = annotations.get(name, parameter.annotation)
            parameters.append(parameter.replace(kind=KEYWORD, annotation=annotation))

    @functools.wraps(verb)
    def called(**given: Any) -> int:
        from ..interop.registry import Options

        if OPTIONS in signature.parameters:
            given[OPTIONS] = Options({name: _plain(given.pop(name)) for name in added})
        return verb(**given)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    return called


def choice(words: Iterable[str]) -> Any:
    """A type with these values, for an option."""
    make: Any = StrEnum
    return make("Choice", {word.upper().replace("-", "_"): word for word in words})


def _parameter(option: Option, about: str) -> inspect.Parameter:
    annotation: Any = option.kind | None
    default = None
    if option.kind is bool:
        annotation, default = bool, False
    elif option.choices:
        annotation = choice(option.choices) | None
    elif option.several:
        annotation = list[str] | None
    described = typer.Option(
        f"--{option.word}",
        help=about,
        metavar=option.metavar or None,
        show_default=option.shown_default or False,
    )
    return inspect.Parameter(
        option.name, KEYWORD, default=default, annotation=Annotated[annotation, described]
    )


def _plain(value: object) -> object:
    """A value as formats know it."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, list):
        return tuple(value)
    return value
