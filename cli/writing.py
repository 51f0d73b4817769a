"""Verbs that write source text: new, fmt, headers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .common import Json, Text, print_json, replace


def new(directory: Annotated[Path, typer.Argument(help="Where to write it; must not exist or be empty.")]) -> int:
    """Write a working starter: a .flow text, its tasks, and how to go on."""
    from ..templates import starter

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        from ..model.diagnostic import Diagnostic, Faults

        raise Faults([Diagnostic("F604", f"`{directory}` is not empty", None, "", (), "choose a new directory")])
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in directory.resolve().name) or "app"
    for path, text in starter(name).items():
        replace(directory / path, text)
    print(f"{directory}: {', '.join(starter(name))}")
    print(f"try: flowc run {shlex.quote(str(directory / f'{name}.flow'))} --frames 5")
    return 0


def fmt(
    files: Annotated[list[Path], typer.Argument(help="The .flow texts.", show_default=False)],
    only_check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something would change.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Format texts in place; line breaks and comments are kept."""
    from ..dsl.format import format_text
    from ..dsl.load import read_text
    from ..model.diagnostic import Diagnostic, Faults

    changed, faults = [], []
    for file in files:
        text = read_text(str(file))
        if isinstance(text, Diagnostic):
            faults.append(text)
            continue
        try:
            formatted = format_text(str(file), text)
        except Faults as found:
            faults += found.diagnostics
            continue
        if formatted != text:
            changed.append(str(file))
            if not only_check:
                replace(file, formatted, follow=True)  # the user named the link
    if faults:
        raise Faults(faults)
    if as_json:
        print_json({"changed": changed})
    else:
        for name in changed:
            print(f"{'would change' if only_check else 'formatted'}: {name}")
    return 1 if only_check and changed else 0


def headers(file: Text, as_json: Json = False) -> int:
    """Write the C prototypes of the tasks beside their sources (dsp.c gets dsp.flow.h)."""
    from .. import steps
    from ..codegen.emit import header
    from ..model.application import Task
    from ..model.diagnostic import Faults

    checked = steps.check(file)
    # The header is what makes missing C code easy to write: a function that is not there yet is no obstacle.
    hard = [d for d in checked.diagnostics if d.severity == "error" and d.code != "F302"]
    if hard:
        raise Faults(checked.diagnostics)
    sources: dict[str, list[Task]] = {}
    for task in (t for a in checked.system.apps for t in a.tasks):
        for code in task.implementations:
            if code.language == "c":
                sources.setdefault(code.path, []).append(task)
    written = []
    for path, tasks in sources.items():
        target = Path(path).with_suffix(".flow.h")
        replace(target, header(Path(path).name, tuple(tasks)))
        written.append(str(target))
    if as_json:
        print_json({"headers": written})
    else:
        print("\n".join(written) or "no task has C code")
    return 0
