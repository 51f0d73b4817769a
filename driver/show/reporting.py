"""All results for an application, collected for a report: predicted, proved and measured, side by
side.

In: a text, and the files of a run. Out: a `report.document.Document`. Only `run` executes anything,
and nothing is measured; missing results are named with the command that would compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...codegen.deploy import missing as without_code
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import read_bytes, reason, scratch
from ...report.document import Document
from ...report.measured import MeasuredRun, Traced, read_run, read_trace
from ...runtime.flight import RECORDED
from ..execute.run import run as run_program
from ..plan.program import deployment, digests
from ..text import store
from ..text.check import Report
from .report_document import DocumentRows
from .show import Shown, look

#: Most bytes of a report or a trace of a run that the user named.
MOST_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The document, diagnostics, and the exit status of the run (0 if there was none)."""

    document: Document
    diagnostics: tuple[Diagnostic, ...]
    status: int
    traced: Traced | None = None


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A finished run: its report and its trace, if it wrote them, and its exit status."""

    ran: MeasuredRun | None = None
    traced: Traced | None = None
    status: int = 0


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run of the program that a build would write now has written: its report, its trace."""

    report: str | Path | None = None
    trace: str | Path | None = None


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run of so many frames, or of that many `seconds`, that is still to be made (None: until its
    streams end); the two callbacks are those of `run`."""

    frames: int | None
    on_measure: Callable[[str], None] | None = None
    report: Report | None = None
    seconds: float | None = None


NO_RUN = ReportedRun()


def report(
    path: str | Path,
    *,
    platform: str = "host",
    run: ReportedRun | RunFiles | NewRun = NO_RUN,
    compare: str | Path | None = None,
) -> ReportAnswer:
    """Collect all results for a text, and of a `run`. Raises Errors.

    `compare` is a mapping, another report, or a build.
    """
    if isinstance(run, NewRun):
        run = run_for(
            path,
            platform=platform,
            frames=run.frames,
            seconds=run.seconds,
            on_measure=run.on_measure,
            report=run.report,
        )
    shown = look(path, platform=platform)
    if isinstance(run, RunFiles):
        run, shown = _read_files(run, shown, partial(look, path, platform=platform, native=True))
    document = DocumentRows(shown, Path(path), platform, run.ran, run.traced).document(compare)
    return ReportAnswer(document, shown.diagnostics, run.status, run.traced)


def _read_files(
    files: RunFiles, shown: Shown, look_native: Callable[[], Shown]
) -> tuple[ReportedRun, Shown]:
    """The content of the files of a run, and what is shown of the program that ran: the one in
    Python, or in C++ by its own mapping. Raises Errors."""
    if files == RunFiles():
        return NO_RUN, shown
    ran = None if files.report is None else _read(_RUN, Path(files.report))
    traced = None if files.trace is None else _read(_TRACE, Path(files.trace))
    named = [(files.report, ran), (files.trace, traced)]
    theirs = {Path(file): content.build for file, content in named if file and content}
    builds, ours = set(theirs.values()), _digests(shown)
    # without a file of either, both programs may have these places
    own = store.has_native_files(shown.valid) or (shown.profile is None and builds <= set(ours))
    if own and not builds <= {ours[0]}:
        native = look_native()
        of_native = _digests(native)
        if builds & set(of_native[1:]):
            shown, ours = native, of_native
    for file, build in theirs.items():
        _require_same(file, build, ours)
    return ReportedRun(ran, traced), shown


# -- what ran --------------------------------------------------------------------------------------
def run_for(path: str | Path, *, trace: bool = True, **asked: Any) -> ReportedRun:
    """Build and run the program, with a trace if requested (which slows firings down). Raises
    Errors of the build.

    `asked` are options of `run`.
    """
    with scratch() as folder:
        written, traced = folder / "run.json", folder / "trace.json"
        status = run_program(
            path,
            report_to=str(written),
            trace=str(traced) if trace else None,
            quiet=True,
            document=True,
            **asked,
        ).status
        return ReportedRun(_if_written(_RUN, written), _if_written(_TRACE, traced), status)


def _digests(shown: Shown) -> tuple[str, ...]:
    """The digests of the programs that a build would write now, in Python and in C++. Raises Errors
    if none can be built."""
    faults = without_code(shown.built.system)
    if faults:
        raise Errors(faults)
    deployed = deployment(shown.built, shown.profile)[1]
    return digests(deployed, shown.built.system)


M = TypeVar("M", MeasuredRun, Traced)


@dataclass(frozen=True, slots=True)
class _Written(Generic[M]):
    """A file that a run writes: its name in messages, the option that asks for it, and the function
    that reads its content."""

    name: str
    option: str
    read: Callable[[bytes], M]


_RUN = _Written("report of a run", "--report", read_run)
_TRACE = _Written("trace of a run", "--trace", read_trace)


def _if_written(written: _Written[M], file: Path) -> M | None:
    """The content of a file of a run that has ended; None if it wrote nothing."""
    content = read_bytes(file, MOST_BYTES) if file.is_file() else b""
    return written.read(content) if content else None


def _read(written: _Written[M], file: Path) -> M:
    """The content of a file of a run. Raises Errors."""
    try:
        return written.read(read_bytes(file, MOST_BYTES))
    except (OSError, ValueError) as error:
        message = f"cannot use `{file}` as the {written.name}: {reason(error)}"
        help_text = f"`flowc run APP.flow {written.option} FILE` writes one"
        if file.name == RECORDED and not file.exists():
            help_text = (
                "a program with `--flight-recorder` writes it when a deadline is missed, or it"
                f" fails; whatever happens, {help_text}"
            )
        raise Errors([Diagnostic("F620", message, None, help=help_text)]) from error


def _require_same(file: Path, theirs: str | None, ours: tuple[str, ...]) -> None:
    """Reject numbers of another program: they do not match the predictions of this one. Raises
    Errors."""
    if theirs not in ours:
        other = f"build {theirs[:12]}" if theirs else "an unnamed build"
        message = f"`{file}` is of {other}, but the current text builds {ours[0][:12]}"
        help_text = (
            "run it again: code, profile or mapping have changed, or it belongs to another text"
        )
        raise Errors([Diagnostic("F621", message, None, help=help_text)])
