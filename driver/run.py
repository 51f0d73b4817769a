"""Running what was built: the program itself, its harness, and the comparison of a twin with the reference.

How a program is waited for, here or on a board, is `attending.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..dsl.load import Loaded, load
from ..machines.host import HERE, Host, own_platform
from ..machines.rig import Site
from ..model.diagnostic import Diagnostic, Errors, has_errors, listed
from ..model.files import reason, scratch
from ..model.json_reader import parse, read
from ..profiling.measure import signal_name
from ..report.measured import read_run
from ..runtime.files import Output
from .aftermath import Bounded, Slower, bounded, slower
from .attending import Hear, attend, reached, there
from .build import Built, OnMeasure, build
from .check import Report
from .rig import sites_for

#: What a run gets to know as soon as something is built, before anything starts.
OnBuilt = Callable[[Built], None]


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished run: its exit status, and its report as JSON text (None where it wrote none).

    `disagreed` is what the harness said where a twin did not give the results of the reference: nothing was run then.
    Of a run on `host`, `slower` are tasks that took much longer than in the profile, `bounded` the longest latencies
    beside the bounds of the stored mapping, where the program ran at its own pace. On several machines `parts` is the
    report of all of them together.
    """

    built: Built
    status: int
    report: str | None = None
    disagreed: str = ""
    slower: tuple[Slower, ...] = ()
    bounded: tuple[Bounded, ...] = ()
    parts: dict[str, Any] | None = None

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from .notebook import ran

        return ran(self)


@dataclass(frozen=True, slots=True)
class States:
    """The state to begin in, files with events or with the report of a run to repeat, a path for a socket, and what
    becomes of clock rates: `set`, `model` (they stay as they are) or `emulate` (work takes as long as at these)."""

    start: str | None = None
    events: Path | None = None
    control: Path | None = None
    replay: Path | None = None
    clocks: str = "model"

    def words(self) -> list[str]:
        """The options of a program."""
        files = {"--events": self.events, "--control": self.control, "--replay": self.replay}
        found = [] if self.start is None else ["--start", self.start]
        found += ["--clocks", self.clocks] if self.clocks != "model" else []
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
    outcome: Literal["passed", "failed", "error", "skipped"]
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """What `runtime.outcomes` writes."""

    seconds: float = 0.0
    tests: tuple[Outcome, ...] = ()


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

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from .notebook import tested

        return tested(self)


def run(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    frames: int | None = None,
    full_speed: bool = False,
    strict: bool = False,
    trace: str | Path | None = None,
    trace_frames: str | None = None,
    trace_bands: bool = False,
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
    host: Host = HERE,
    live: int | None = None,
    hear: Hear | None = None,
    on_played: Callable[[str], None] | None = None,
    report: Report | None = None,
    machines: Path | None = None,
) -> Ran:
    """Build if needed, then run the program until its stream ends, or somebody stops it. Raises Errors of the build.

    `frames` ends it after so many iterations of each app; `full_speed` ignores periods; `strict` waits after
    each kernel on a GPU; `trace` is a file for ui.perfetto.dev (of these `trace_frames` only, `100:120` say; with
    `trace_bands` what networks in bands of rows fire as well), `report_to` one for the report as JSON. `settings` are
    values of parameters, `App.task.name=value`; `fail_on_miss` makes missed deadlines a failure; `watchdog` is in
    seconds, `states` for a scenario. With `twin`, threads of a CPU play the GPU and the DLAs, and a few frames are
    compared with the sequential reference before (`on_agreed` is called then).
    `quiet` leaves progress and table out. With `document` the report is in the answer, and standard output is left
    alone: what tasks print goes to standard error. `measure` and `on_measure` are those of `build`. The program runs
    on `host`; `on_played` gets the name of a platform that it is not. `live` is a file descriptor that it writes a line
    of JSON to every half second, if it runs here; `hear` gets what it says. With a file of `machines` its parts run
    where that says, which leaves out traces, twins and states.
    """
    named = host.name if platform == HERE.name else platform
    loaded = load(path, platform=named, builtin=[own_platform(host)])
    _refuse_open_ends(loaded, path)
    sites = _sites(machines, loaded)
    built = build(
        path,
        output,
        platform=platform,
        force=force,
        measure=measure,
        on_measure=on_measure,
        host=host,
        report=report,
    )
    if on_built is not None:
        on_built(built)
    if sites:
        plain = _options(frames, full_speed, strict, fail_on_miss, watchdog)
        return _run_parts(built, sites, plain, settings, report_to, document, report)
    if on_played is not None and _is_played(loaded, twin, host):
        on_played(built.mapping.platform)
    if twin:
        if report is not None:
            report("comparing the twin with the sequential reference")
        said = _disagreement(built.directory, host)
        if said:
            return Ran(built, 1, disagreed=said)
        if on_agreed is not None:
            on_agreed()
    words = _options(frames, full_speed, strict, fail_on_miss, watchdog)
    words += ["--twin"] if twin else []
    words += ["--trace-frames", trace_frames] if trace_frames is not None else []
    words += ["--trace-bands"] if trace_bands else []
    words += [word for text in settings for word in ("--set", text)]
    words += [] if states is None else states.words()
    words += ["--quiet"] if document or quiet else []
    words += ["--live", str(live)] if live is not None else []
    outputs: dict[str, Path | None] = {"--report": None if report_to is None else Path(report_to)}
    outputs |= {} if trace is None else {"--trace": Path(trace)}
    with reached(host), host.writing(outputs) as files:
        tree = there(built, host, report)
        before = host.read(files["--report"])
        words += [word for option, name in files.items() for word in (option, name)]
        main = f"{Path(tree).resolve() if host is HERE else tree}/main.py"
        # Here it runs where the user stands; there, nobody stands anywhere.
        status = attend(
            host,
            [*host.python, main, *words],
            silent=document,
            cwd=None if host is HERE else tree,
            handed=() if live is None else (live,),
            hear=hear,
        )
        written = host.read(files["--report"])
    told = None if written is None or written == before else written.decode(errors="replace") or None
    slow, bounds = _compared(loaded, built, told, host, paced=not full_speed)
    return Ran(built, status, told if document else None, slower=slow, bounded=bounds)


def _options(
    frames: int | None, full_speed: bool, strict: bool, fail_on_miss: bool, watchdog: float | None
) -> list[str]:
    """Those that a program and its parts have alike."""
    words = ["--frames", str(frames)] if frames is not None else []
    words += ["--full-speed"] if full_speed else []
    words += ["--strict"] if strict else []
    words += ["--fail-on-miss"] if fail_on_miss else []
    return words + (["--watchdog", str(watchdog)] if watchdog is not None else [])


def _sites(machines: Path | None, loaded: Loaded) -> tuple[Site, ...]:
    """Where the machines of the platform are, if somebody says so. Raises Errors."""
    if machines is None or loaded.platform is None or has_errors(loaded.diagnostics):
        return ()  # the build tells what is wrong
    return sites_for(machines, loaded.platform, loaded.system.platforms)


def _run_parts(
    built: Built,
    sites: Sequence[Site],
    words: Sequence[str],
    settings: Sequence[str],
    report_to: str | Path | None,
    document: bool,
    report: Report | None,
) -> Ran:
    from .rig import placed, run_parts

    output = None if report_to is None else _output(report_to)
    with placed(built, sites, report) as rig:
        status, found = run_parts(rig, words, settings, silent=document)
    text = json.dumps(found, indent=1)
    if output is not None:
        try:
            with output.written() as stream:
                stream.write(text)
        except OSError as error:
            raise _unwritable(output.name, error) from error
    return Ran(built, status, text if document else None, parts=found)


def _output(path: str | Path) -> Output:
    """A file that is written after the run. Raises Errors."""
    try:
        return Output(str(path))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: str | Path, error: OSError) -> Errors:
    return Errors([Diagnostic("F605", f"cannot write `{path}`: {reason(error)}", None)])


def _is_played(loaded: Loaded, twin: bool, host: Host) -> bool:
    """Is the platform another one than the machine that runs the program, as far as that can be seen?"""
    platform = loaded.platform
    if platform is None or platform.name == host.name:
        return False
    if twin:
        return True
    if all(pool.kind == "cpu" for pool in platform.pools):
        return host is HERE
    return not host.has_gpu()


def _compared(
    loaded: Loaded, built: Built, said: str | None, host: Host, *, paced: bool
) -> tuple[tuple[Slower, ...], tuple[Bounded, ...]]:
    """A run beside what was known of its machine; times of other platforms say nothing of it."""
    if said is None or (host is HERE and built.mapping.platform != HERE.name):
        return (), ()
    try:
        ran = read_run(said.encode())
    except ValueError as error:
        if host is HERE:  # the disk was full
            return (), ()
        raise Errors([_unreadable("the report of the program", error)]) from error
    waiting = [t.name for a in loaded.system.apps for t in a.tasks if t.live]
    return slower(built, ran, waiting), bounded(built, ran) if paced else ()


def _unreadable(what: str, error: ValueError) -> Diagnostic:
    help_text = "the board may have no space left, or another program writes its files"
    return Diagnostic("F657", f"{what} cannot be read: {error}", None, help=help_text)


def _refuse_open_ends(loaded: Loaded, path: str | Path) -> None:
    """Nobody puts anything in where a program runs by itself. Raises Errors."""
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
    host: Host = HERE,
    report: Report | None = None,
    machines: Path | None = None,
) -> Tested:
    """Build if needed, then run the harness on `host`: the program against a sequential reference.

    With a file of `machines`, what its parts did where that says is compared here. Raises Errors of the build.
    """
    sites: tuple[Site, ...] = ()
    if machines is not None:
        sites = _sites(machines, load(path, platform=platform, builtin=[own_platform(host)]))
    built = build(
        path,
        output,
        platform=platform,
        force=force,
        measure=measure,
        on_measure=on_measure,
        host=host,
        report=report,
    )
    if on_built is not None:
        on_built(built)
    environment = {"FLOWC_TEST_FRAMES": str(frames)} if frames is not None else {}
    environment |= {"FLOWC_TWIN": "1"} if twin else {}
    with ExitStack() as stack:
        if sites:
            recorded = stack.enter_context(scratch())
            status = _record_parts(built, sites, frames, recorded, report, quiet)
            if status:
                outcome = Outcome("parts", None, "error", 0.0, _end_in_words(status))
                return Tested(built, Path(path).stem, 1, (outcome,), 0.0)
            environment["FLOWC_RECORDED"] = str(recorded)
        stack.enter_context(reached(host))
        folder = stack.enter_context(host.folder())
        tree = there(built, host, report)
        written = f"{folder}/outcomes.json"
        words = [*host.python, "-X", "faulthandler", "-m", "runtime.outcomes", written]
        status = attend(host, words, silent=quiet, cwd=tree, environment=environment)
        content = host.read(written)
    found, why = _Outcomes(), _end_in_words(status)
    if content is not None:
        try:
            found, why = read(_Outcomes, parse(content)), ""
        except ValueError as error:
            why = f"what became of the tests cannot be read: {error}"
    tests = found.tests
    if why and status not in (130, 143):  # the process was gone before it was written
        tests, status = (Outcome("harness", None, "error", 0.0, why),), 1
    return Tested(built, Path(path).stem, status, tests, found.seconds)


def _record_parts(
    built: Built, sites: Sequence[Site], frames: int | None, folder: Path, report: Report | None, quiet: bool
) -> int:
    """Run all parts for a few frames, and keep what their firings read and made."""
    from ..runtime.harness import frames_of
    from ..runtime.reference import load_deployment
    from .rig import placed, record_parts

    count = frames or frames_of(load_deployment(str(built.directory)))
    with placed(built, sites, report) as rig:
        return record_parts(rig, count, folder, silent=quiet)


def _end_in_words(status: int) -> str:
    import signal

    killed = status - 128 in signal.valid_signals()
    how = f"was killed by {signal_name(status - 128)}" if killed else f"exited with status {status}"
    return f"the process of the tests {how}"


def _disagreement(directory: Path, host: Host) -> str:
    """What the harness says where the twin does not give the results of the sequential reference; else nothing."""
    with reached(host):
        tree = host.put(directory, str(directory.resolve()))
        words = [*host.python, "-m", "unittest", "discover", "-s", "tests"]
        done = host.execute(words, cwd=tree, environment={"FLOWC_TWIN": "1"})
    return done.stderr or f"exit status {done.status}" if done.status else ""
