"""The verb `import`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ._common import Json, print_json, show_diagnostics, sources


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
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write (default: STEM.flow, STEM.onnx).",
            show_default=False,
        ),
    ] = None,
    processor: Annotated[
        str | None,
        typer.Option(
            help="SDF3: take the execution times of this processor type.",
            metavar="TYPE",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Darknet: the weights (default: beside the .cfg).", show_default=False),
    ] = None,
    times: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            help="HOPES: worst-case times of tasks (JSON).",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    modes: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            help="HOPES: the mode of a task that has several.",
            metavar="TASK=MODE",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="HOPES: only what runs in this state of a control task.",
            metavar="STATE",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="HOPES: only what runs on this device, with a source or sink for each link.",
            metavar="DEVICE",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Import SDF3, PREESM, HOPES, JEDI as .flow, Darknet as .onnx."""
    from ..driver.exchange.import_ import foreign_options, importer_of
    from ..driver.exchange.import_ import import_ as driver_import
    from ..interop.registry import Request

    chosen = tuple(modes or ()) or None
    request = Request(file, output or Path("x"), processor, weights, times, chosen, state, device)
    for option in foreign_options(request):
        name = {"times": "profile", "modes": "mode"}.get(option, option)
        raise typer.BadParameter(
            f"it has no effect for {importer_of(file).about}", param_hint=f"--{name}"
        )
    found = driver_import(
        file,
        output,
        processor=processor,
        weights=weights,
        times=times,
        modes=modes or (),
        state=state,
        device=device,
        force=force,
    )
    show_diagnostics(found.warnings, sources(found.warnings))
    if found.said:
        print(f"flowc: {found.said}", file=sys.stderr)
    if as_json:
        print_json({found.key: str(found.target)})
    else:
        print(found.target)
    return 0
