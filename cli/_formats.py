"""What installed formats of other tools add to verbs: options, choices and words of help.

They are read when such a verb is called, not before: looking for them takes longer than loading all
verbs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from ..interop.registry import Option

#: The parameter of a verb that stands for the options of formats.
OPTIONS = "options"
KEYWORD = inspect.Parameter.KEYWORD_ONLY

#: An option with the words that say what it is for.
Described = tuple["Option", str]


class Verbs(TyperGroup):
    """Verbs, some of which are completed when they are called."""

    #: By the name of a verb: what makes the complete one.
    late: Mapping[str, Callable[[], Callable[..., None]]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from ..model.diagnostic import Errors

        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.late and not _is_plain_build(name, rest):
            # The verb itself reports formats that cannot be loaded.
            with contextlib.suppress(Errors):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(name)(self.late[name]())
                command = typer.main.get_command(alone)
        return name, command, rest


def _is_plain_build(name: str, words: list[str]) -> bool:
    """A build that names no target needs no formats of other tools: looking for them takes time."""
    named = any(word.startswith("--t") or word in ("-h", "--help") for word in words)
    return name == "build" and not named


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
