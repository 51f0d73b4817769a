"""The verb `fmt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._common import Json, print_json, replace


def fmt(
    files: Annotated[list[Path], typer.Argument(help="The .flow texts.", show_default=False)],
    only_check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit status 1 if something would change."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Format texts in place; line breaks and comments are kept."""
    from ..dsl.format import format_text
    from ..dsl.load import read_text
    from ..model.diagnostic import Diagnostic, Errors

    changed, faults = [], []
    for file in files:
        text = read_text(str(file))
        if isinstance(text, Diagnostic):
            faults.append(text)
            continue
        try:
            formatted = format_text(str(file), text)
        except Errors as broken:
            faults += broken.diagnostics
            continue
        if formatted != text:
            changed.append(str(file))
            if not only_check:
                replace(file, formatted, follow=True)  # the user named the link
    if faults:
        raise Errors(faults)
    if as_json:
        print_json({"changed": changed})
    else:
        done = "would change" if only_check else "formatted"
        for name in changed:
            print(f"{done}: {name}")
    return 1 if only_check and changed else 0
