"""Running what was built: the program itself, its harness, and the comparison of a twin with the reference.

Children handle signals themselves: they are waited for, and what they decide is handed on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dsl.load import load
from ..model.diagnostic import Diagnostic, Errors, has_errors, listed
from ..profiling.host import host_platform
from .build import Built, OnMeasure, build
from .check import Report

#: What a run gets to know as soon as something is built, before anything starts.
OnBuilt = Callable[[Built], None]


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished run: its exit status, and its report as JSON text (None where it wrote none).

    `disagreed` is what the harness said where a twin did not give the results of the reference: nothing was run then.
    """

    built: Built
    status: int
    report: str | None = None
    disagreed: str = ""


@dataclass(frozen=True, slots=True)
class States:
    """The state to begin in, files with events or with the report of a run to repeat, a path for a socket."""

    start: str | None = None
    events: Path | None = None
    control: Path | None = None
    replay: Path | None = None

    def words(self) -> list[str]:
        """The options of a program."""
        files = {"--events": self.events, "--control": self.control, "--replay": self.replay}
        found = [] if self.start is None else ["--start", self.start]
        return found + [
            word for option, path in files.items() if path is not None for word in (option, str(path.resolve()))
        ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a test: `outcome` is `passed`, `failed`, `error` or `skipped`, and `message` says why.

    `app` is None for what is about no single app.
    """

    name: str
    app: str | None
    outcome: str
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class Tested:
    """A finished run of the harness: its exit status, and what became of each test.

    `name` is the text's stem, `seconds` all that it took.
    """

    built: Built
    name: str
    status: int
    tests: tuple[Outcome, ...]
    seconds: float


def run(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    frames: int | None = None,
    full_speed: bool = False,
    strict: bool = False,
    trace: str | Path | None = None,
    report_to: str | Path | None = None,
    settings: Sequence[str] = (),
    fail_on_miss: bool = False,
    watchdog: float | None = None,
    states: States | None = None,
    twin: bool = False,
    force: bool = False,
    quiet: bool = False,
    document: bool = False,
    measure: bool = True,
    on_measure: OnMeasure | None = None,
    on_built: OnBuilt | None = None,
    on_agreed: Callable[[], None] | None = None,
    report: Report | None = None,
) -> Ran:
    """Build if needed, then run the program until its stream ends, or somebody stops it. Raises Errors of the build.

    `frames` ends it after so many iterations of each app; `full_speed` ignores periods; `strict` waits after
    each kernel on a GPU; `trace` is a file for ui.perfetto.dev, `report_to` one for the report as JSON. `settings`
    are values of parameters, `App.task.name=value`; `fail_on_miss` makes missed deadlines a failure; `watchdog` is in
    seconds, `states` for a program with a scenario. With `twin`, threads of a CPU play the
    GPU and the DLAs, and a few frames are compared with the sequential reference before (`on_agreed` is called then).
    `quiet` leaves progress and table out. With `document` the report is in the answer, and standard output is left
    alone: what tasks print goes to standard error. `measure` and `on_measure` are those of `build`.
    """
    _refuse_open_ends(path, platform)
    built = build(path, output, platform=platform, force=force, measure=measure, on_measure=on_measure, report=report)
    if on_built is not None:
        on_built(built)
    if twin:
        if report is not None:
            report("comparing the twin with the sequential reference")
        said = _disagreement(built.directory)
        if said:
            return Ran(built, 1, disagreed=said)
        if on_agreed is not None:
            on_agreed()
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "report.json" if report_to is None else Path(report_to).resolve()
        command = [sys.executable, str(built.directory.resolve() / "main.py")]
        command += ["--frames", str(frames)] if frames is not None else []
        command += ["--full-speed"] if full_speed else []
        command += ["--strict"] if strict else []
        command += ["--twin"] if twin else []
        command += ["--trace", str(Path(trace).resolve())] if trace is not None else []
        command += [word for text in settings for word in ("--set", text)]
        command += ["--fail-on-miss"] if fail_on_miss else []
        command += ["--watchdog", str(watchdog)] if watchdog is not None else []
        command += [] if states is None else states.words()
        command += ["--report", str(written)] if document or report_to is not None else []
        command += ["--quiet"] if document or quiet else []
        before = _stamp(written)
        status = _execute(command, silent=document)
        there = document and written.is_file() and written.stat().st_size and _stamp(written) != before
        return Ran(built, status, written.read_text() if there else None)


def _stamp(file: Path) -> int | None:
    """When a file was written, None where there is none."""
    return file.stat().st_mtime_ns if file.exists() else None


def _refuse_open_ends(path: str | Path, platform: str) -> None:
    """Nobody puts anything in where a program runs by itself. Raises Errors."""
    loaded = load(path, platform=platform, builtin=[host_platform()])
    if has_errors(loaded.diagnostics):
        return  # the build tells all of them
    found = []
    for app in loaded.system.apps:
        ends = [t for t in app.tasks if t.border is not None]
        if ends:
            shown = listed([f"{t.border} {t.name.partition('.')[2]}" for t in ends])
            message = f"app `{app.name}` has open ends ({shown}): it does not run by itself"
            help_text = f'open it from Python: `with flowc.open("{path}") as running: ...`'
            found.append(Diagnostic("F617", message, ends[0].span, help=help_text))
    if found:
        raise Errors(found)


def test(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    frames: int | None = None,
    twin: bool = False,
    force: bool = False,
    quiet: bool = False,
    measure: bool = True,
    on_measure: OnMeasure | None = None,
    on_built: OnBuilt | None = None,
    report: Report | None = None,
) -> Tested:
    """Build if needed, then run the harness: the program against a sequential reference. Raises Errors of the build."""
    built = build(path, output, platform=platform, force=force, measure=measure, on_measure=on_measure, report=report)
    if on_built is not None:
        on_built(built)
    environment = dict(os.environ, **({"FLOWC_TEST_FRAMES": str(frames)} if frames is not None else {}))
    environment |= {"FLOWC_TWIN": "1"} if twin else {}
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "outcomes.json"
        command = [sys.executable, "-X", "faulthandler", "-m", "runtime.outcomes", str(written)]
        status = _execute(command, silent=quiet, cwd=built.directory, environment=environment)
        found: dict[str, Any] = {"seconds": 0.0, "tests": []}
        found |= json.loads(written.read_text()) if written.is_file() else {}
        lost = not written.is_file() and status not in (130, 143)
    tests = tuple(Outcome(**t) for t in found["tests"])
    if lost:  # nobody was left to write it
        tests, status = (Outcome("harness", None, "error", 0.0, _end_in_words(status)),), 1
    return Tested(built, Path(path).stem, status, tests, found["seconds"])


def _end_in_words(status: int) -> str:
    import signal

    killed = status - 128 in signal.valid_signals()
    how = f"was killed by {signal.Signals(status - 128).name}" if killed else f"exited with status {status}"
    return f"the process of the tests {how}"


def _disagreement(directory: Path) -> str:
    """What the harness says where the twin does not give the results of the sequential reference; else nothing."""
    import subprocess

    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
    done = subprocess.run(
        command,
        cwd=directory,
        env=dict(os.environ, FLOWC_TWIN="1"),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stderr or f"exit status {done.returncode}" if done.returncode else ""


def _execute(
    command: list[str], *, silent: bool, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> int:
    """Run a program that handles signals itself: wait for it, and hand on what it decides."""
    import signal
    import subprocess

    stdout = sys.stderr if silent else None
    sys.stdout.flush()
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def hand_on(number: int, frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends SIGINT to the child too; it takes both as one
        before[number] = signal.signal(number, hand_on)
    try:
        child = subprocess.Popen(command, stdout=stdout, cwd=cwd, env=environment, preexec_fn=_ends_with_me())
        for missed in early:
            child.send_signal(missed)
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _ends_with_me() -> Callable[[], None]:
    """What a child does before it becomes another program: it asks to be terminated when this process is killed."""
    import ctypes
    import signal

    me, prctl = os.getpid(), ctypes.CDLL(None).prctl
    PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != me:  # too late
            os._exit(1)

    return ask
