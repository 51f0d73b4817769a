"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._common import Json, OnPlatform, print_json, refuse_existing, replace, show_diagnostics, sources

Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="`sdf3`: the XML of the SDF3 tools. `jedi`: a configuration of JEDI. `hopes`: mapping and profile, with "
        "`--into`.",
    ),
]


def export(
    file: Annotated[
        Path, typer.Argument(help="The .flow text, or an .onnx network.", show_default=False, metavar="APP.flow")
    ],
    format: Format = "sdf3",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write (default: APP.xml, APP.cfg).", show_default=False),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="A HOPES project that the text was imported from: its mapping and profile are written anew.",
            show_default=False,
            metavar="PROJECT",
        ),
    ] = None,
    app: Annotated[
        str | None, typer.Option(help="Which app, where there are several.", metavar="NAME", show_default=False)
    ] = None,
    platform: OnPlatform = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write an app for another tool: SDF3, or JEDI with its mapping. SDF3 gets the times that `analyze` uses.

    With `--into`, a mapping goes back into the HOPES project that the text came from.
    """
    from ..driver.export import export as driver_export
    from ..driver.export import export_into
    from ..interop.registry import EXPORTERS

    known = {e.name: e for e in EXPORTERS}
    if format not in known:
        names = " or ".join(known)
        raise typer.BadParameter(f"unknown format {format}; expected {names}", param_hint="--format")
    if file.suffix == ".onnx" and not known[format].networks:
        raise typer.BadParameter("JEDI runs an app with its mapping: give a .flow text", param_hint="APP.flow")
    if into is not None:
        if output is not None or app is not None:
            raise typer.BadParameter("`--into` writes files of the project", param_hint="--output, --app")
        done = export_into(file, into, "hopes" if format == "sdf3" else format, platform=platform)
        show_diagnostics(done.warnings, sources(done.warnings))
        for target, text in done.files.items():
            replace(target, text)
        if as_json:
            print_json({"files": [str(target) for target in done.files]})
        else:
            for target in done.files:
                print(target)
        return 0
    found = driver_export(file, format, app=app, platform=platform)
    target = output or Path(f"{found.name}{found.suffix}")
    show_diagnostics(found.warnings, sources(found.warnings))
    refuse_existing(target, force)
    replace(target, found.text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0
