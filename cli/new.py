"""The verb `new`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import replace

if TYPE_CHECKING:
    from ..model.diagnostic import Errors


def new(
    directory: Annotated[
        Path, typer.Argument(help="Where to write it; must not exist or be empty, but for --kit.")
    ],
    kit: Annotated[
        bool,
        typer.Option(
            "--kit",
            help=(
                "Also a Dockerfile, a systemd unit, a recipe for GitHub Actions; beside a .flow"
                " text only these."
            ),
        ),
    ] = False,
) -> int:
    """Write a working starter: a .flow text, its tasks, what to try."""
    texts = sorted(p.stem for p in directory.glob("*.flow")) if directory.is_dir() else []
    if kit and texts:
        files = _kit_beside(directory, _only_text(directory, texts))
    else:
        files = _starter(directory, kit)
    for path, text in files.items():
        replace(directory / path, text)
    print(f"{directory}: {', '.join(files)}")
    if not texts:
        new_text = directory / f"{_name_for(directory)}.flow"
        print(f"try: flowc run {shlex.quote(str(new_text))} --frames 5")
    return 0


def _kit_beside(directory: Path, text: str) -> dict[str, str]:
    """The files that deploy a text that is there. Raises Errors."""
    from ..model.diagnostic import listed
    from ..templates import kit

    files = kit(text)
    there = [path for path in files if (directory / path).exists()]
    if there:
        message = f"`{directory}` has {listed(there)} already"
        raise _refusal(message, "move these files; nothing was written")
    return files


def _starter(directory: Path, with_kit: bool) -> dict[str, str]:
    """The files of a new app. Raises Errors."""
    from ..templates import kit, starter

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise _refusal(f"`{directory}` is not empty", "choose a new directory")
    name = _name_for(directory)
    return starter(name) | kit(name) if with_kit else starter(name)


def _name_for(directory: Path) -> str:
    """An identifier like the name of the directory."""
    characters = directory.resolve().name
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in characters)
    return name or "app"


def _refusal(message: str, help_text: str) -> Errors:
    from ..model.diagnostic import Diagnostic, Errors

    return Errors([Diagnostic("F604", message, None, help=help_text)])


def _only_text(directory: Path, texts: list[str]) -> str:
    """The name of the text that a kit deploys. Raises Errors."""
    from ..model.diagnostic import listed

    if len(texts) > 1:
        message = f"`{directory}` has several texts: {listed([f'{t}.flow' for t in texts])}"
        raise _refusal(message, "a kit deploys one: put it in a folder of its own")
    if not re.fullmatch(r"\w[\w.-]*", texts[0], re.ASCII):
        message = f"`{texts[0]}.flow` has a name that would need quotes everywhere in a kit"
        raise _refusal(message, "rename it with letters, digits, `_`, `-` and `.`")
    return texts[0]
