"""Calls of the C compiler, and of tools that call it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..machines.children import run
from ..model.diagnostic import Diagnostic
from ..model.span import Span

#: Seconds for one call: enough for a large file of templates on a small, busy board.
COMPILES = 600.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that compiles: its usual name, what it is, and the package that has it."""

    command: str
    what: str
    package: str


#: By the variables that name other ones.
TOOLS = {
    "CC": Tool("cc", "C compiler", "gcc"),
    "CXX": Tool("g++", "C++ compiler", "g++"),
    "OBJCOPY": Tool("objcopy", "copier of object files", "binutils"),
    "LD": Tool("ld", "linker", "binutils"),
}


def absent(variable: str, span: Span | None = None) -> Diagnostic:
    """The error that a tool is not there."""
    tool = TOOLS[variable]
    message = f"there is no {tool.what} `{_command(variable)}`"
    help_text = f"install one (`apt install {tool.package}`), or name it in the variable {variable}"
    return Diagnostic("F307", message, span, help=help_text)


def absent_tools(variables: Iterable[str]) -> list[Diagnostic]:
    """Errors for those of some tools that are not there."""
    return [absent(variable) for variable in variables if shutil.which(_command(variable)) is None]


def command_of(variable: str) -> list[str]:
    """The words with which a tool is called."""
    return (os.environ.get(variable) or TOOLS[variable].command).split()


def _command(variable: str) -> str:
    return command_of(variable)[0]


def failure_of(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> str | None:
    """The output of a failed command in a folder, else empty. It has no input; `environment` are
    variables of its own. Raises FileNotFoundError.

    It gets SIGTERM if flowc ends first, to remove its temporary files.
    """
    try:
        done = run(command, cwd=folder, environment=environment, by=signal.SIGTERM, limit=COMPILES)
    except subprocess.TimeoutExpired:
        return f"`{command[0]}` has not ended after {COMPILES:g} s"
    return None if done.returncode == 0 else done.stderr + done.stdout
