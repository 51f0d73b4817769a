"""`build --target fmu`: a graph, or an app with open ends, as a Functional Mock-up Unit for
co-simulation.

In: a path and a name. Out: a file. Nothing is measured or run (except for quantizing networks to 8
bits). Pins and stored mappings do not count: a unit runs where its simulator runs.
"""

from __future__ import annotations

import platform as machine
import zipfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from ...analysis.dataflow.order import TooLong
from ...codegen.deploy import deploy, missing, sequential
from ...codegen.fmu.files import UnitFiles, files
from ...codegen.fmu.limits import refusals, version
from ...codegen.fmu.pack import pack
from ...codegen.fmu.unit import unit
from ...codegen.fmu.variables import Variable
from ...dsl.modules import local_modules
from ...model.diagnostic import Diagnostic, Errors, has_errors, in_order
from ...model.files import make_folders, read_bytes, reason, replace_file
from ...model.version import __version__
from ...networks.quantization.quantize import QuantizationLoss
from ...targets.inference import engines_in
from ..plan.program import too_long, without_gpu
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
    force: bool = False,
    report: Report | None = None,
) -> BuiltFmu:
    """From a graph, or an app with open ends, to a unit. Raises Errors.

    `output` is a file that ends with .fmu, or the folder for `GRAPH.fmu`; the default is `build`.
    """
    valid = prepare(path, opened=graph, report=report).require()
    diagnostics = _require_unit(valid)
    target = _target(graph, output)
    _refuse_foreign(target, force)
    made, content, why = _made(valid)
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


def _require_unit(valid: Valid) -> tuple[Diagnostic, ...]:
    """All warnings, if there is no error. Raises Errors."""
    (app,) = valid.system.apps
    faults = [
        *refusals(app, valid.repetition[app.name]),
        *missing(valid.system),
        *without_gpu(valid),
    ]
    diagnostics = in_order((*valid.diagnostics, *faults, *in_full(valid.system)))
    if has_errors(diagnostics):
        raise Errors(diagnostics)
    return diagnostics


def _made(valid: Valid) -> tuple[UnitFiles, bytes, str]:
    """The files of the unit, its archive, and the reason for FMI 3.0, if it needs that. Raises
    Errors."""
    (app,) = valid.system.apps
    firings = valid.repetition[app.name]
    number, why = version(app, firings)
    try:
        engines = engines_in(valid.system, valid.platform)
        placed = sequential(valid.system, valid.platform, engines)
        deployed = deploy(valid.system, valid.platform, placed, valid.repetition, {}, local_modules)
        made = files(
            unit(app, deployed, firings, number, f"flowc {__version__}"),
            deployed,
            machine.machine(),
        )
    except TooLong as error:
        raise too_long(valid.system, error) from error
    try:
        return made, pack(made, deployed.c_tasks), why
    except OSError as error:
        message = f"a temporary folder cannot be written: {reason(error)}"
        raise Errors(
            [Diagnostic("F605", message, None, help="name another one in TMPDIR")]
        ) from error


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
