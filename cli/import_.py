"""The verb `import`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ._common import Json, print_json, show_diagnostics, sources
from ._groups import grouped


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The file to write, and what formats need beside the imported file."""

    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write (default: STEM.flow, STEM.onnx).",
            show_default=False,
        ),
    ] = None
    processor: Annotated[
        str | None,
        typer.Option(
            help="SDF3: take the execution times of this processor type.",
            metavar="TYPE",
            show_default=False,
        ),
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option(help="Darknet: the weights (default: beside the .cfg).", show_default=False),
    ] = None
    times: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            help="HOPES: worst-case times of tasks (JSON).",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    modes: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            help="HOPES: the mode of a task that has several.",
            metavar="TASK=MODE",
            show_default=False,
        ),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(
            help="HOPES: only what runs in this state of a control task.",
            metavar="STATE",
            show_default=False,
        ),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            help="HOPES: only what runs on this device, with a source or sink for each link.",
            metavar="DEVICE",
            show_default=False,
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False


@grouped
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "An SDF3 XML file, a scenario or graph of PREESM, the .cfg of a Darknet network, a"
                " configuration of "
                "JEDI, a HOPES project (its folder, or NAME_algorithm.xml)."
            ),
            show_default=False,
            metavar="GRAPH.xml|APP.scenario|TOP.pi|NET.cfg|APP.cfg|DIR",
        ),
    ],
    options: ImportOptions,
    as_json: Json = False,
) -> int:
    """Import SDF3, PREESM, HOPES, JEDI as .flow, Darknet as .onnx."""
    from ..driver.exchange.import_ import import_ as driver_import

    _require_known(file, options)
    imported = driver_import(
        file,
        options.output,
        processor=options.processor,
        weights=options.weights,
        times=options.times,
        modes=options.modes or (),
        state=options.state,
        device=options.device,
        force=options.force,
    )
    show_diagnostics(imported.warnings, sources(imported.warnings))
    if imported.said:
        print(f"flowc: {imported.said}", file=sys.stderr)
    if as_json:
        print_json({imported.key: str(imported.target)})
    else:
        print(imported.target)
    return 0


def _require_known(file: Path, options: ImportOptions) -> None:
    """Raises BadParameter for an option that the format of the file does not have."""
    from ..driver.exchange.import_ import foreign_options, importer_of
    from ..interop.registry import Request

    request = Request(
        file,
        options.output or Path("x"),
        options.processor,
        options.weights,
        options.times,
        tuple(options.modes or ()) or None,
        options.state,
        options.device,
    )
    for field in foreign_options(request):
        option = {"times": "profile", "modes": "mode"}.get(field, field)
        raise typer.BadParameter(
            f"it has no effect for {importer_of(file).about}", param_hint=f"--{option}"
        )
