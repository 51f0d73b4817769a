"""The verbs of the command line. A verb is imported when the command line names it, or when all are
listed: importing all of them takes longer than checking a small text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ._common import verb
from ._formats import completed
from ._values import without_pydantic


@dataclass(frozen=True, slots=True)
class Verb:
    """The function of a verb, and its module in `cli`.

    `complete` names the function of the same module that makes the verb for the installed formats.
    It is called if the command line has one of `words` (None: always), not before: looking for
    formats takes longer than importing all verbs.
    """

    module: str
    function: str
    complete: str | None = None
    words: frozenset[str] | None = None

    def of_formats(self, line: Iterable[str]) -> bool:
        """Does this command line need the verb for the installed formats?"""
        if self.complete is None:
            return False
        return self.words is None or any(word.partition("=")[0] in self.words for word in line)

    def load(self) -> Callable[..., int]:
        """The verb without options of formats."""
        function: Callable[..., int] = getattr(self._imported(), self.function)
        return function if self.complete is None else completed(function)

    def load_with_formats(self) -> Callable[..., int]:
        """The verb for the installed formats. Raises Errors."""
        assert self.complete is not None
        function: Callable[..., int] = getattr(self._imported(), self.complete)()
        return function

    def _imported(self) -> Any:
        return import_module(f".{self.module}", __package__)


class _Command(TyperCommand):
    """The command of a verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        without_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Verbs(TyperGroup):
    """The group of all verbs."""

    #: By their names, in the order in which `--help` lists them.
    verbs: Mapping[str, Verb] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        without_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.verbs and cmd_name not in self.commands:
            self.commands[cmd_name] = _command(cmd_name, self.verbs[cmd_name].load())
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from ..model.diagnostic import Errors

        if args and args[0] not in self.verbs:
            for each in self.verbs:  # one of them may be meant
                self.get_command(ctx, each)
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and self.verbs[name].of_formats(rest):
            # The verb itself reports formats that cannot be loaded.
            with contextlib.suppress(Errors):
                command = _command(name, self.verbs[name].load_with_formats())
        return name, command, rest


def _command(name: str, function: Callable[..., int]) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=_Command)(verb(function))
    return typer.main.get_command(alone)
