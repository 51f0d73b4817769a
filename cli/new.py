"""The verb `new`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ._common import replace


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
    from ..model.diagnostic import Diagnostic, Errors, listed
    from ..templates import kit as deployment_kit
    from ..templates import starter

    texts = sorted(p.stem for p in directory.glob("*.flow")) if directory.is_dir() else []
    if kit and texts:
        files = deployment_kit(_only_text(directory, texts))
        there = [path for path in files if (directory / path).exists()]
        if there:
            message = f"`{directory}` has {listed(there)} already"
            raise Errors(
                [Diagnostic("F604", message, None, help="move these files; nothing was written")]
            )
    else:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Errors(
                [
                    Diagnostic(
                        "F604", f"`{directory}` is not empty", None, help="choose a new directory"
                    )
                ]
            )
        name = (
            "".join(c if c.isascii() and c.isalnum() else "_" for c in directory.resolve().name)
            or "app"
        )
        files = starter(name) | (deployment_kit(name) if kit else {})
    for path, text in files.items():
        replace(directory / path, text)
    print(f"{directory}: {', '.join(files)}")
    if not texts:
        print(f"try: flowc run {shlex.quote(str(directory / f'{name}.flow'))} --frames 5")
    return 0


def _only_text(directory: Path, texts: list[str]) -> str:
    """The name of the text that a kit deploys. Raises Errors."""
    from ..model.diagnostic import Diagnostic, Errors, listed

    if len(texts) > 1:
        message = f"`{directory}` has several texts: {listed([f'{t}.flow' for t in texts])}"
        raise Errors(
            [
                Diagnostic(
                    "F604", message, None, help="a kit deploys one: put it in a folder of its own"
                )
            ]
        )
    if not re.fullmatch(r"\w[\w.-]*", texts[0], re.ASCII):
        message = f"`{texts[0]}.flow` has a name that would need quotes everywhere in a kit"
        raise Errors(
            [
                Diagnostic(
                    "F604", message, None, help="rename it with letters, digits, `_`, `-` and `.`"
                )
            ]
        )
    return texts[0]
