"""What installed formats of other tools add to verbs: options, choices and words of help.

They are read when such a verb is called, not before: looking for them takes longer than loading all
verbs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class LateVerb:
    """A verb that `complete` completes when it is called with one of these `words` (None: always)
    on its command line."""

    complete: Callable[[], Callable[..., None]]
    words: frozenset[str] | None = None

    def needed_by(self, line: Iterable[str]) -> bool:
        """Does this command line need the complete verb?"""
        return self.words is None or any(word.partition("=")[0] in self.words for word in line)


class Verbs(TyperGroup):
    """Verbs, some of which are completed when they are called."""

    #: By the names of verbs.
    late: Mapping[str, LateVerb] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from ..model.diagnostic import Errors

        name, command, rest = super().resolve_command(ctx, args)
        late = None if name is None else self.late.get(name)
        if name is not None and late is not None and late.needed_by(rest):
            # The verb itself reports formats that cannot be loaded.
            with contextlib.suppress(Errors):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(name)(late.complete())
                command = typer.main.get_command(alone)
        return name, command, rest


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
