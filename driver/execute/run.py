"""Running a build: the program itself, its harness, and the comparison of a twin with the
reference.

`live_output.py` waits for programs, here or on a board.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...codegen.native.files import PROGRAM
from ...dsl.load import Loaded, load
from ...machines.host import HERE, Host, has_accelerators, own_platform
from ...machines.rig import Site
from ...model.diagnostic import Diagnostic, Errors, has_errors, listed
from ...model.extras import require
from ...model.files import scratch
from ...model.json_reader import parse, read
from ...model.supports import refusal
from ...profiling.measure import signal_name
from ...report.measured import read_run
from ...runtime.options import RunOptions
from ..build.build import BuildOptions, Built, build_with
from ..text.asked import asked_of
from ..text.check import Report
from ..text.notebook_result import NotebookResult
from .live_output import Hear, attend, reached, there
from .native import record_native
from .post_run_report import Bounded, Slower, bounded, slower
from .recordings import Recorded, recording
from .rig import sites_for


@dataclass(frozen=True, slots=True)
class FinishedRun(NotebookResult):
    """A finished run: its exit status, and its report as JSON text (None if it wrote none).

    `disagreed` is the harness's message if a twin did not give the results of the reference: the
    program was not run then. For a run on `host`, `slower` are tasks that took much longer than in
    the profile, and `bounded` the longest latencies beside the bounds of the stored mapping, if the
    program ran at its own pace; `unbounded` is the platform that they are for, if this machine
    stood in for it. On several machines `parts` is the joined report, and `recorded` what parts
    have recorded.
    """

    built: Built
    status: int
    report: str | None = None
    disagreed: str = ""
    slower: tuple[Slower, ...] = ()
    bounded: tuple[Bounded, ...] = ()
    unbounded: str = ""
    parts: dict[str, Any] | None = None
    recorded: Recorded | None = None


def _nothing(*_: object) -> None:
    """A listener that does nothing."""


@dataclass(frozen=True, slots=True)
class RunListener:
    """Called before and while a program is built and run.

    `built` gets the build as soon as it exists. `played` gets the name of a platform that differs
    from this machine, and `agreed` is called when a twin has given the results of the reference.
    `heard` gets the output of the program.
    """

    built: Callable[[Built], None] = _nothing
    played: Callable[[str], None] = _nothing
    agreed: Callable[[], None] = _nothing
    heard: Hear | None = None


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The result of a test: `outcome` is `passed`, `failed`, `error` or `skipped`, and `message` is
    the reason.

    `app` is None for a test of no single app.
    """

    name: str
    app: str | None
    outcome: Literal["passed", "failed", "error", "skipped"]
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """The file that `runtime.outcomes` writes."""

    seconds: float = 0.0
    tests: tuple[TestOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Tested(NotebookResult):
    """A finished run of the harness: its exit status, and the result of each test.

    `name` is the text's stem, `seconds` the total time.
    """

    built: Built
    name: str
    status: int
    tests: tuple[TestOutcome, ...]
    seconds: float


def run(
    path: str | Path,
    output: str | Path | None = None,
    *,
    machines: Path | None = None,
    document: bool = False,
    listener: RunListener | None = None,
    real_time: bool = False,
    reserve: bool = False,
    **asked: Any,
) -> FinishedRun:
    """Build if needed, then run the program until its stream ends, or it is stopped. Raises Errors
    of the build.

    `asked` are fields of `BuildOptions` and of `RunOptions`: the program runs on the `host` of the
    build. With `document` the answer holds the report, and standard output is not used: what tasks
    print goes to standard error. With a `twin`, threads of a CPU stand in for GPU, DLAs and NPUs,
    and a few frames are compared with the sequential reference first. With `real_time` a program in
    C++ asks the system for priorities and memory that stays, with `reserve` also for the time that
    the text says. With a file of `machines` the
    parts run on those machines, and options about one machine are left out.
    """
    building = BuildOptions.taken_from(asked)
    options = _with_whole_paths(RunOptions(**asked))
    listener = listener or RunListener()
    host = building.host
    named = host.name if building.platform == HERE.name else building.platform
    if options.record is not None and host is HERE and not building.native:
        require("mcap", "record", "--record")
    loaded = load(path, platform=named, builtin=[own_platform(host)])
    if options.replay is None:
        _refuse_open_ends(loaded, path, building.native)
    sites = _sites(machines, loaded)
    built = build_with(building, path, output)
    listener.built(built)
    if sites:
        return _run_parts(built, sites, options, document, building.report)
    if _is_played(loaded, options.twin, host):
        listener.played(built.mapping.platform)
    if options.twin:
        if building.report is not None:
            building.report("comparing the twin with the sequential reference")
        disagreement = _disagreement(built.directory, host)
        if disagreement:
            return FinishedRun(built, 1, disagreed=disagreement)
        listener.agreed()
    more = ["--real-time"] * real_time + ["--reserve"] * reserve
    return _run_alone(loaded, built, (options, more), document, building, listener)


def _run_alone(
    loaded: Loaded,
    built: Built,
    asked: tuple[RunOptions, list[str]],
    document: bool,
    building: BuildOptions,
    listener: RunListener,
) -> FinishedRun:
    """Run a program on one machine; with its options further words are `asked` of it."""
    host, (options, more) = building.host, asked
    own = replace(options, report_to=None, trace=None, table=None, record=None)
    words = replace(own, quiet=options.quiet or document).words()
    words += more
    with reached(host), host.writing(_outputs(options)) as files:
        tree = there(built, host, building.report)
        before = host.read(files["--report"])
        for option, name in files.items():
            words += [option, name]
        # A local program runs in the folder of the user; on a board it has a folder of its own.
        cwd: str | None = tree
        if host is HERE:
            tree, cwd = str(Path(tree).resolve()), None
        program = [f"{tree}/{PROGRAM}"] if building.native else [*host.python, f"{tree}/main.py"]
        status = attend(
            host,
            [*program, *words],
            silent=document,
            cwd=cwd,
            handed=() if options.live is None else (options.live,),
            hear=listener.heard,
        )
        written = host.read(files["--report"])
    report = _new_report(before, written)
    if options.replay is not None:  # its times are not those of the recording
        return FinishedRun(built, status, report if document else None)
    paced = not options.full_speed
    slow, bounds = _compared(loaded, built, report, host, paced=paced)
    return FinishedRun(
        built,
        status,
        report if document else None,
        slower=slow,
        bounded=bounds,
        unbounded=built.mapping.platform if paced and _bounds_another(built, host) else "",
    )


def _bounds_another(built: Built, host: Host) -> bool:
    """Does the mapping bound latencies of a platform that this machine stands in for?"""
    if host is not HERE or built.mapping.platform == HERE.name:
        return False
    return any(
        group.response_ns is not None or any(p.latency_ns is not None for p in group.paths)
        for group in built.mapping.groups
    )


def _outputs(options: RunOptions) -> dict[str, Path | None]:
    """The files that the program writes, by option; the report is always written."""
    outputs: dict[str, Path | None] = {"--report": None}
    if options.report_to is not None:
        outputs["--report"] = Path(options.report_to)
    if options.trace is not None:
        outputs["--trace"] = Path(options.trace)
    if options.table is not None:
        outputs["--table"] = Path(options.table)
    if options.record is not None:
        outputs["--record"] = Path(options.record)
    return outputs


def _new_report(before: bytes | None, after: bytes | None) -> str | None:
    """The report that a program has written, if it has: the file may be older."""
    if after is None or after == before:
        return None
    return after.decode(errors="replace") or None


def _with_whole_paths(options: RunOptions) -> RunOptions:
    """Files that the program reads, as paths that are valid in any folder."""
    whole: dict[str, Any] = {}
    for name in ("events", "control", "replay"):
        path = getattr(options, name)
        if path is not None:
            whole[name] = str(Path(path).resolve())
    return replace(options, **whole)


def _sites(machines: Path | None, loaded: Loaded) -> tuple[Site, ...]:
    """The addresses of the platform's machines, if `--machines` gives them. Raises Errors."""
    if machines is None or loaded.platform is None or has_errors(loaded.diagnostics):
        return ()  # the build reports the error
    return sites_for(machines, loaded.platform, loaded.system.platforms)


def _run_parts(
    built: Built, sites: Sequence[Site], options: RunOptions, document: bool, report: Report | None
) -> FinishedRun:
    """Run the parts of a program on their machines."""
    from .rig import placed, run_parts

    own = replace(options.in_parts(), settings=(), report_to=None, quiet=False)
    words = replace(own, record=None, channels=None).words()
    path = None if options.record is None else Path(options.record)
    with placed(built, sites, report) as rig, recording(rig, path, options.channels) as asked:
        status, document_of_parts = run_parts(
            rig, words, options.settings, asked.words, silent=document
        )
    text = json.dumps(document_of_parts, indent=1)
    if options.report_to is not None:
        Path(options.report_to).write_text(text)
    if asked.recorded is not None and asked.recorded.missing:
        status = status or 1
    return FinishedRun(
        built,
        status,
        text if document else None,
        parts=document_of_parts,
        recorded=asked.recorded,
    )


def _is_played(loaded: Loaded, twin: bool, host: Host) -> bool:
    """Does the platform differ from the machine that runs the program, as far as can be
    detected?"""
    platform = loaded.platform
    if platform is None or platform.name == host.name:
        return False
    if twin:
        return True
    if all(pool.kind == "cpu" for pool in platform.pools):
        return host is HERE
    return not has_accelerators(host, platform)


def _compared(
    loaded: Loaded, built: Built, report: str | None, host: Host, *, paced: bool
) -> tuple[tuple[Slower, ...], tuple[Bounded, ...]]:
    """A run beside what was known of its machine; times of other platforms do not apply to it."""
    if report is None or (host is HERE and built.mapping.platform != HERE.name):
        return (), ()
    try:
        ran = read_run(report.encode())
    except ValueError as error:
        if host is HERE:  # the disk was full
            return (), ()
        raise Errors([_unreadable("the report of the program", error)]) from error
    waiting = []
    for app in loaded.system.apps:
        waiting += [task.name for task in app.tasks if task.live]
    return slower(built, ran, waiting), bounded(built, ran) if paced else ()


def _unreadable(what: str, error: ValueError) -> Diagnostic:
    help_text = "the board may have no space left, or another program writes its files"
    return Diagnostic("F657", f"{what} cannot be read: {error}", None, help=help_text)


def _refuse_open_ends(loaded: Loaded, path: str | Path, native: bool) -> None:
    """Reject open ends: a program that runs by itself gets no input from a caller. Raises
    Errors."""
    if has_errors(loaded.diagnostics):
        return  # the build reports all of them
    faults = []
    for app in loaded.system.apps:
        ends = [t for t in app.tasks if t.border is not None]
        if ends:
            shown = listed([f"{t.border} {t.name.partition('.')[2]}" for t in ends])
            cell = refusal("open ends", "native" if native else "program")
            words = {
                "app": app.name,
                "ends": shown,
                "path": path,
            }
            faults.append(cell.at(ends[0].span, words))
    if faults:
        raise Errors(faults)


def test(
    path: str | Path,
    output: str | Path | None = None,
    *,
    frames: int | None = None,
    twin: bool = False,
    quiet: bool = False,
    machines: Path | None = None,
    listener: RunListener | None = None,
    **asked: Any,
) -> Tested:
    """Build if needed, then run the harness: the program against a sequential reference. Raises
    Errors of the build.

    `asked` are fields of `BuildOptions`. With a file of `machines`, the results of the parts on
    those machines are compared.
    """
    building = asked_of(BuildOptions, "test", asked)
    host, report = building.host, building.report
    sites: tuple[Site, ...] = ()
    if machines is not None:
        sites = _sites(
            machines, load(path, platform=building.platform, builtin=[own_platform(host)])
        )
    built = build_with(building, path, output)
    (listener or RunListener()).built(built)
    environment = {}
    if frames is not None:
        environment["FLOWC_TEST_FRAMES"] = str(frames)
    if twin:
        environment["FLOWC_TWIN"] = "1"
    with ExitStack() as stack:
        if sites or building.native:
            handed = stack.enter_context(scratch())
            recorded = handed / "recorded"
            recorded.mkdir()
            status = 0
            if sites:
                status = _record_parts(built, sites, frames, recorded, report, quiet)
            else:
                with reached(host):
                    status = record_native(
                        built.directory, frames, recorded, silent=quiet, host=host
                    )
            if status:
                name = "parts" if sites else PROGRAM
                outcome = TestOutcome(name, None, "error", 0.0, _end_in_words(status))
                return Tested(built, Path(path).stem, 1, (outcome,), 0.0)
            environment["FLOWC_RECORDED"] = f"{host.put(handed, 'recorded')}/recorded"
        stack.enter_context(reached(host))
        folder = stack.enter_context(host.folder())
        tree = there(built, host, report)
        written = f"{folder}/outcomes.json"
        words = _harness(host, written)
        status = attend(host, words, silent=quiet, cwd=tree, environment=environment)
        content = host.read(written)
    outcomes, fault = _read_outcomes(content, status)
    tests = outcomes.tests
    if fault and status not in (130, 143):  # the process ended before it wrote them
        tests, status = (TestOutcome("harness", None, "error", 0.0, fault),), 1
    return Tested(built, Path(path).stem, status, tests, outcomes.seconds)


def _harness(host: Host, written: str) -> list[str]:
    """The command of the harness. The program runs in the folder in which `run` runs it."""
    words = [*host.python, "-X", "faulthandler", "-m", "runtime.outcomes", written]
    return [*words, str(Path.cwd())] if host is HERE else words


def _read_outcomes(content: bytes | None, status: int) -> tuple[_Outcomes, str]:
    """The results that the process of the tests wrote, or why there are none."""
    if content is None:
        return _Outcomes(), _end_in_words(status)
    try:
        return read(_Outcomes, parse(content)), ""
    except ValueError as error:
        return _Outcomes(), f"the results of the tests cannot be read: {error}"


def _record_parts(
    built: Built,
    sites: Sequence[Site],
    frames: int | None,
    folder: Path,
    report: Report | None,
    quiet: bool,
) -> int:
    """Run all parts for a few frames, and keep the inputs and outputs of their firings."""
    from ...runtime.harness import frames_of
    from ...runtime.reference import load_deployment
    from .rig import placed, record_parts

    count = frames or frames_of(load_deployment(str(built.directory)))
    with placed(built, sites, report) as rig:
        return record_parts(rig, count, folder, silent=quiet)


def _end_in_words(status: int) -> str:
    import signal

    killed = status - 128 in signal.valid_signals()
    if killed:
        return f"the process of the tests was killed by {signal_name(status - 128)}"
    return f"the process of the tests exited with status {status}"


def _disagreement(directory: Path, host: Host) -> str:
    """The harness's message if the twin does not give the results of the sequential reference; else
    empty."""
    with reached(host), host.folder() as folder:
        tree = host.put(directory, str(directory.resolve()))
        words = _harness(host, f"{folder}/outcomes.json")
        done = host.execute(words, cwd=tree, environment={"FLOWC_TWIN": "1"})
    if not done.status:
        return ""
    return done.stderr or f"exit status {done.status}"
