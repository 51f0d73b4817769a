"""Verbs that exchange graphs with other tools: import, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Json, OnPlatform, print_json, replace, show_diagnostics, sources

Format = Annotated[str, typer.Option("--format", help="`sdf3`: the XML of the SDF3 tools.")]


def import_(
    file: Annotated[Path, typer.Argument(help="An SDF3 XML file.", show_default=False, metavar="GRAPH.xml")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The .flow text to write (default: STEM.flow).", show_default=False),
    ] = None,
    processor: Annotated[
        str | None,
        typer.Option(help="Take the execution times of this processor type.", metavar="TYPE", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Turn a graph of another tool into a .flow text: SDF and CSDF from SDF3."""
    from ..interop import sdf3
    from ..model.diagnostic import Diagnostic, Faults

    target = output or Path(f"{file.stem}.flow")
    _refuse(target, force)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Faults([Diagnostic("F701", f"cannot read `{file}`: {error.strerror}", None)]) from error
    imported = sdf3.read(str(file), content, processor)
    show_diagnostics(imported.warnings, sources(imported.warnings))
    replace(target, imported.text)
    if as_json:
        print_json({"text": str(target)})
    else:
        print(target)
    return 0


def _refuse(target: Path, force: bool) -> None:
    from ..model.diagnostic import Diagnostic, Faults

    if target.exists() and not force:
        help_text = "choose another --output, or say --force"
        raise Faults([Diagnostic("F604", f"`{target}` exists", None, "", (), help_text)])


def export(
    file: Annotated[
        Path, typer.Argument(help="The .flow text, or an .onnx network.", show_default=False, metavar="APP.flow")
    ],
    format: Format = "sdf3",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write (default: APP.xml).", show_default=False)
    ] = None,
    app: Annotated[
        str | None, typer.Option(help="Which app, where there are several.", metavar="NAME", show_default=False)
    ] = None,
    platform: OnPlatform = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write an app for another tool: SDF3 XML with the times that `analyze` would use."""
    from .. import steps
    from ..steps import analyses

    if format != "sdf3":
        raise typer.BadParameter(f"there is no format {format}: there is sdf3", param_hint="--format")
    checked = analyses.check_network(file) if file.suffix == ".onnx" else steps.check(file, platform=platform)
    profile, stale = analyses.usable_profile(checked)
    name, text = analyses.export_sdf3(checked, profile, app)
    show_diagnostics(stale, {})
    target = output or Path(f"{name}.xml")
    _refuse(target, force)
    replace(target, text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0
