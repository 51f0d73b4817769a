"""Verbs that exchange graphs with other tools: import, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Json, OnPlatform, print_json, replace, show_diagnostics, sources

#: What `export` writes, and how its files are called.
FORMATS = {"sdf3": ".xml", "jedi": ".cfg"}
Format = Annotated[
    str, typer.Option("--format", help="`sdf3`: the XML of the SDF3 tools. `jedi`: a configuration of JEDI.")
]


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="An SDF3 XML file, the .cfg of a Darknet network, a configuration of JEDI, a HOPES project.",
            show_default=False,
            metavar="GRAPH.xml|NET.cfg|APP.cfg|DIR",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write (default: STEM.flow, STEM.onnx).", show_default=False),
    ] = None,
    processor: Annotated[
        str | None,
        typer.Option(help="SDF3: take the execution times of this processor type.", metavar="TYPE", show_default=False),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Darknet: the weights (default: beside the .cfg).", show_default=False)
    ] = None,
    times: Annotated[
        Path | None,
        typer.Option("--profile", help="HOPES: worst-case times of tasks (JSON).", metavar="FILE", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Turn a graph (SDF3, HOPES) or a configuration (JEDI) into a .flow text, or a Darknet network into an .onnx."""
    if times is not None and not file.is_dir():
        raise typer.BadParameter("it is for HOPES projects", param_hint="--profile")
    if file.is_dir():
        for given, option in ((processor, "--processor"), (weights, "--weights")):
            if given is not None:
                raise typer.BadParameter("it is not for HOPES projects", param_hint=option)
        target = output or Path(f"{file.resolve().name}.flow")
        _refuse(target, force)
        _import_hopes(file, target, times, force)
        written = {"text": str(target)}
    elif file.suffix == ".cfg" and processor is not None:
        raise typer.BadParameter("it is for SDF3 files", param_hint="--processor")
    elif file.suffix == ".cfg" and _is_darknet(file):
        target = output or Path(f"{file.stem}.onnx")
        _refuse(target, force)
        _import_network(file, weights or file.with_suffix(".weights"), target)
        written = {"network": str(target)}
    else:
        if weights is not None:
            raise typer.BadParameter("it is for Darknet networks", param_hint="--weights")
        target = output or Path(f"{file.stem}.flow")
        _refuse(target, force)
        if file.suffix == ".cfg":
            _import_jedi(file, target)
        else:
            _import_sdf3(file, processor, target)
        written = {"text": str(target)}
    if as_json:
        print_json(written)
    else:
        print(target)
    return 0


def _import_sdf3(file: Path, processor: str | None, target: Path) -> None:
    from ..interop import sdf3

    imported = sdf3.read(str(file), _content(file, "F701"), processor)
    show_diagnostics(imported.warnings, sources(imported.warnings))
    replace(target, imported.text)


def _import_hopes(folder: Path, target: Path, times: Path | None, force: bool) -> None:
    from .. import steps
    from ..interop import hopes

    imported = hopes.read(folder, target.stem)
    given = imported.given(str(times), _content(times, "F721")) if times is not None else None
    for name in imported.files:
        _refuse(target.parent / name, force)
    show_diagnostics(imported.warnings, sources(imported.warnings))
    for name, text in {target.name: imported.text, **imported.files}.items():
        replace(target.parent / name, text)
    stubs, code = imported.stubs
    if not (target.parent / stubs).exists():  # --force must not destroy code that was filled in
        replace(target.parent / stubs, code)
    if imported.platform:
        checked = steps.check(target, platform=str(target.parent / imported.platform_file))
        path = steps.profile_path(checked)
        _refuse(path, force)
        replace(path, imported.profile(steps.content_hashes(checked), given).to_json())


def _import_jedi(file: Path, target: Path) -> None:
    from ..interop import jedi
    from ..model.diagnostic import Diagnostic, Faults

    try:
        imported = jedi.read(str(file), _content(file, "F705"), target)
    except jedi.NotJedi as fault:  # tools that are no relatives name their files .cfg, too
        message = f"`{file}` is no Darknet network: it does not begin with [net]"
        network = Diagnostic("F402", message, None, help="a .cfg of Darknet describes the layers of a network")
        raise Faults([network, *fault.diagnostics]) from fault
    show_diagnostics(imported.warnings, sources(imported.warnings))
    replace(target, imported.text)


def _content(file: Path, code: str) -> bytes:
    from ..model.diagnostic import Diagnostic, Faults
    from ..model.files import read_bytes

    try:
        return read_bytes(file)
    except OSError as error:
        raise Faults([Diagnostic(code, f"cannot read `{file}`: {error.strerror}", None)]) from error


def _is_darknet(file: Path) -> bool:
    from ..model.diagnostic import Diagnostic, Faults
    from ..networks import darknet
    from ..networks.onnx_import import NetworkFault

    try:
        return darknet.is_darknet(file)
    except NetworkFault as fault:
        raise Faults([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault


def _import_network(file: Path, weights: Path, target: Path) -> None:
    from ..model.diagnostic import Diagnostic, Faults
    from ..networks import darknet
    from ..networks.onnx_import import NetworkFault

    try:
        content = darknet.read_darknet(file, weights).SerializeToString()
    except darknet.CfgFaults as faults:
        raise Faults(faults.diagnostics) from faults
    except NetworkFault as fault:
        raise Faults([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault
    replace(target, content)


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
        Path | None,
        typer.Option("-o", "--output", help="The file to write (default: APP.xml, APP.cfg).", show_default=False),
    ] = None,
    app: Annotated[
        str | None, typer.Option(help="Which app, where there are several.", metavar="NAME", show_default=False)
    ] = None,
    platform: OnPlatform = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write an app for another tool: as SDF3 with the times that `analyze` would use, or for JEDI with its mapping."""
    if format not in FORMATS:
        raise typer.BadParameter(f"there is no format {format}: there is sdf3 and jedi", param_hint="--format")
    name, text = _jedi(file, app, platform) if format == "jedi" else _sdf3(file, app, platform)
    target = output or Path(f"{name}{FORMATS[format]}")
    _refuse(target, force)
    replace(target, text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0


def _sdf3(file: Path, app: str | None, platform: str) -> tuple[str, str]:
    from .. import steps
    from ..steps import analyses

    checked = analyses.check_network(file) if file.suffix == ".onnx" else steps.check(file, platform=platform)
    profile, stale = analyses.usable_profile(checked)
    name, text = analyses.export_sdf3(checked, profile, app)
    show_diagnostics(stale, {})
    return name, text


def _jedi(file: Path, app: str | None, platform: str) -> tuple[str, str]:
    from .. import steps
    from ..dsl.load import load
    from ..interop import jedi
    from ..model.diagnostic import Faults
    from ..profiling.host import host_platform

    if file.suffix == ".onnx":
        raise typer.BadParameter("JEDI runs an app with its mapping: give a .flow text", param_hint="APP.flow")
    checked = steps.check(file, platform=platform)
    if not checked.ok or checked.platform is None:
        raise Faults(checked.diagnostics)
    # What was checked has stages as tasks; JEDI is told where the whole is cut.
    also = [platform] if platform.endswith(".flow") else []
    whole = load(file, builtin=[host_platform()], also=also).system
    written = jedi.write(whole, checked.platform, checked.mapping, app)
    show_diagnostics(written.warnings, sources(written.warnings))
    return written.name, written.text
