"""`build --target fmu` and `native-fmu`: a graph, or an app with open ends, as a Functional Mock-up
Unit for co-simulation.

In: a path and a name. Out: a file. Nothing is measured or run (except for quantizing networks to 8
bits). Pins and stored mappings do not count: a unit runs where its simulator runs.
"""

from __future__ import annotations

import platform as machine
import zipfile
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from ...analysis.dataflow.order import TooLong
from ...codegen.deploy import Deployed, deploy, missing, sequential
from ...codegen.features import of_text, refused
from ...codegen.fmu.files import UnitFiles, files
from ...codegen.fmu.limits import refusals, refusals_in_c, version
from ...codegen.fmu.native import native_unit, native_unit_files
from ...codegen.fmu.pack import pack
from ...codegen.fmu.unit import unit
from ...codegen.fmu.variables import Variable
from ...dsl.modules import local_modules
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors, has_errors, in_order
from ...model.files import make_folders, read_bytes, reason, replace_file
from ...model.system import System
from ...model.version import __version__
from ...networks.quantization.quantize import QuantizationLoss
from ...targets.inference import engines_in
from ..plan.program import require_native_places, too_long, without_gpu
from ..text.check import Report, Valid, prepare
from .external import in_full

#: An existing archive of at most this size is compared with the new one.
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class BuiltFmu:
    """A finished unit. `fresh` is false if the file already held exactly this unit.

    `version` is the version of FMI, 2 or 3; `why` is the reason for 3. `python`: the unit needs the
    Python that made it, because some of its tasks are not in C.
    """

    file: Path
    version: int
    why: str
    token: str
    step: str
    variables: tuple[Variable, ...]
    python: bool
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool
    losses: dict[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)


def build_fmu(
    path: str | Path,
    graph: str,
    output: str | Path | None = None,
    *,
    native: bool = False,
    force: bool = False,
    report: Report | None = None,
) -> BuiltFmu:
    """From a graph, or an app with open ends, to a unit; a `native` one is in C and C++, and needs
    no Python. Raises Errors.

    `output` is a file that ends with .fmu, or the folder for `GRAPH.fmu`; the default is `build`.
    """
    valid = prepare(path, opened=graph, report=report).require()
    diagnostics = _require_unit(valid, native)
    target = _target(graph, output)
    _refuse_foreign(target, force)
    made, content, why = _made(valid, native)
    fresh = not _holds(target, content)
    if fresh:
        _write(target, content)
    return BuiltFmu(
        target,
        made.unit.version,
        why,
        made.unit.token,
        made.unit.step,
        made.unit.variables,
        made.unit.called > 0,
        diagnostics,
        fresh,
        valid.losses,
    )


def _require_unit(valid: Valid, native: bool) -> tuple[Diagnostic, ...]:
    """All warnings, if there is no error. Raises Errors."""
    (app,) = valid.system.apps
    if native:
        without_pins = replace(valid.system, pins=())
        of_code = refused(of_text(without_pins, valid.platform, None), "native")
    else:
        of_code = refusals_in_c(app)
    faults = [
        *refusals(app, valid.repetition[app.name]),
        *of_code,
        *missing(valid.system),
        *without_gpu(valid),
    ]
    diagnostics = in_order((*valid.diagnostics, *faults, *in_full(valid.system)))
    if has_errors(diagnostics):
        raise Errors(diagnostics)
    return diagnostics


def _made(valid: Valid, native: bool) -> tuple[UnitFiles, bytes, str]:
    """The files of the unit, its archive, and the reason for FMI 3.0, if it needs that. Raises
    Errors."""
    (app,) = valid.system.apps
    firings = valid.repetition[app.name]
    number, why = version(app, firings)
    try:
        tool, here = f"flowc {__version__}", machine.machine()
        if native:
            deployed = _deployed(valid, stepped(valid.system))
            require_native_places(valid, deployed)
            of_native = native_unit(app, deployed, firings, number, tool)
            made = native_unit_files(of_native, deployed, here)
        else:
            deployed = _deployed(valid, valid.system)
            made = files(unit(app, deployed, firings, number, tool), deployed, here)
    except TooLong as error:
        raise too_long(valid.system, error) from error
    try:
        return made, pack(made, deployed.c_tasks), why
    except OSError as error:
        message = f"a temporary folder cannot be written: {reason(error)}"
        raise Errors(
            [Diagnostic("F605", message, None, help="name another one in TMPDIR")]
        ) from error


def _deployed(valid: Valid, system: System) -> Deployed:
    """Everything on one processor. Raises TooLong."""
    placed = sequential(system, valid.platform, engines_in(system, valid.platform))
    return deploy(system, valid.platform, placed, valid.repetition, {}, local_modules)


def stepped(system: System) -> System:
    """The same without what has no meaning in a unit: it waits for nothing, and a step that fails
    has failed."""
    apps = []
    for app in system.apps:
        tasks = tuple(replace(task, live=False, on_error="stop") for task in app.tasks)
        apps.append(_unpaced(replace(app, tasks=tasks)))
    return replace(system, apps=tuple(apps))


def _unpaced(app: Application) -> Application:
    return replace(app, period_ns=None, deadline_ns=None, paths=(), chains=(), share=None)


# -- the file --------------------------------------------------------------------------------------
def _target(graph: str, output: str | Path | None) -> Path:
    place = Path("build") if output is None else Path(output)
    return place if place.suffix == ".fmu" and not place.is_dir() else place / f"{graph}.fmu"


def _refuse_foreign(target: Path, force: bool) -> None:
    """Raise Errors if the file exists and is not a unit of flowc (unless forced)."""
    if force or not target.exists():
        return
    if not _is_ours(target):
        help_text = "choose another place with `-o`, or replace it with `--force`"
        raise Errors(
            [Diagnostic("F604", f"`{target}` is not a unit made by flowc", None, help=help_text)]
        )


def _is_ours(target: Path) -> bool:
    try:
        with zipfile.ZipFile(BytesIO(read_bytes(target, _MOST))) as archive:
            description = archive.getinfo("modelDescription.xml")
            if description.compress_type != zipfile.ZIP_DEFLATED:
                # other methods decompress any number of bytes at once
                return False
            with archive.open(description) as stream:
                return b'generationTool="flowc ' in stream.read(1 << 16)
    except Exception:  # zipfile passes on whatever its decompressors raise on damaged archives
        return False


def _holds(target: Path, content: bytes) -> bool:
    try:
        return read_bytes(target, _MOST) == content
    except OSError:
        return False


def _write(target: Path, content: bytes) -> None:
    try:
        make_folders(target.parent, ".")
        replace_file(target, content)
    except OSError as error:
        help_text = "choose another place with `-o`"
        raise Errors(
            [Diagnostic("F605", f"cannot write `{target}`: {reason(error)}", None, help=help_text)]
        ) from error
