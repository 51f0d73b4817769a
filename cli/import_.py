"""The verb `import`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import Json, print_json, show_diagnostics, sources
from ._formats import completed

if TYPE_CHECKING:
    from ..interop.registry import Options


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file or a project of another tool.", show_default=False, metavar="FILE"
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write (default: STEM.flow, STEM.onnx).",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Import a graph of another tool as .flow, a network as .onnx."""
    from ..driver.exchange.import_ import foreign_options, importer_of
    from ..driver.exchange.import_ import import_ as driver_import
    from ..interop.registry import importers

    words = {option.name: option.word for each in importers() for option in each.options}
    for option in foreign_options(file, options):
        raise typer.BadParameter(
            f"it has no effect for {importer_of(file).about}", param_hint=f"--{words[option]}"
        )
    done = driver_import(file, output, force=force, **options.values)
    show_diagnostics(done.warnings, sources(done.warnings))
    if done.said:
        print(f"flowc: {done.said}", file=sys.stderr)
    if as_json:
        print_json({done.key: str(done.target)})
    else:
        print(done.target)
    return 0


def import_with_formats() -> Callable[..., int]:
    """The verb for the installed formats. Raises Errors."""
    from ..interop.registry import importers

    known = importers()
    kinds = ", ".join(each.about for each in known)
    inputs = "|".join(each.inputs for each in known if each.inputs)
    argument = typer.Argument(
        help=f"{kinds[:1].upper()}{kinds[1:]}.", show_default=False, metavar=inputs
    )
    options = [
        (option, f"{each.title or each.name}: {option.about}.")
        for each in known
        for option in each.options
    ]
    return completed(import_, options, file=Annotated[Path, argument])
