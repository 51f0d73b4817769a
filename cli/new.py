"""The verb `new`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ._common import replace


def new(directory: Annotated[Path, typer.Argument(help="Where to write it; must not exist or be empty.")]) -> int:
    """Write a working starter: a .flow text, its tasks, what to try."""
    from ..templates import starter

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        from ..model.diagnostic import Diagnostic, Errors

        raise Errors([Diagnostic("F604", f"`{directory}` is not empty", None, help="choose a new directory")])
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in directory.resolve().name) or "app"
    for path, text in starter(name).items():
        replace(directory / path, text)
    print(f"{directory}: {', '.join(starter(name))}")
    print(f"try: flowc run {shlex.quote(str(directory / f'{name}.flow'))} --frames 5")
    return 0
