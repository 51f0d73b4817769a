"""Running what was built: the program itself, its harness, and the comparison of a twin with the reference.

Children handle signals themselves: they are waited for, and what they decide is handed on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dsl.load import load
from ..machines.board import Board, Lost, lost_way
from ..machines.host import HERE, Host, own_platform
from ..model.diagnostic import Diagnostic, Errors, has_errors, listed
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
    trace_frames: str | None = None,
    report_to: str | Path | None = None,
    settings: Sequence[str] = (),
    fail_on_miss: bool = False,
    watchdog: float | None = None,
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
    report: Report | None = None,
) -> Ran:
    """Build if needed, then run the program until its stream ends, or somebody stops it. Raises Errors of the build.

    `frames` ends it after so many iterations of each app; `full_speed` ignores periods; `strict` waits after
    each kernel on a GPU; `trace` is a file for ui.perfetto.dev (of these `trace_frames` only, `100:120` say),
    `report_to` one for the report as JSON. `settings` are values of parameters, `App.task.name=value`; `fail_on_miss`
    makes missed deadlines a failure; `watchdog` is in seconds. With `twin`, threads of a CPU play the GPU and the DLAs,
    and a few frames are compared with the sequential reference before (`on_agreed` is called then).
    `quiet` leaves progress and table out. With `document` the report is in the answer, and standard output is left
    alone: what tasks print goes to standard error. `measure` and `on_measure` are those of `build`. The program runs
    on `host`. `live` is a file descriptor that it writes a line of JSON to every half second, if it runs here.
    """
    _refuse_open_ends(path, platform, host)
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
    if twin:
        if report is not None:
            report("comparing the twin with the sequential reference")
        said = _disagreement(built.directory, host)
        if said:
            return Ran(built, 1, disagreed=said)
        if on_agreed is not None:
            on_agreed()
    words: list[str] = []
    words += ["--frames", str(frames)] if frames is not None else []
    words += ["--full-speed"] if full_speed else []
    words += ["--strict"] if strict else []
    words += ["--twin"] if twin else []
    words += ["--trace-frames", trace_frames] if trace_frames is not None else []
    words += [word for text in settings for word in ("--set", text)]
    words += ["--fail-on-miss"] if fail_on_miss else []
    words += ["--watchdog", str(watchdog)] if watchdog is not None else []
    words += ["--quiet"] if document or quiet else []
    words += ["--live", str(live)] if live is not None else []
    with _reached(host), host.folder() as folder:
        tree = _there(built, host, report)
        files = _files(host, folder, trace, report_to)
        if document:
            files.setdefault("--report", f"{folder}/report.json")
        before = _stamp(host, files.get("--report"))
        words += [word for option, name in files.items() for word in (option, name)]
        main = f"{Path(tree).resolve() if host is HERE else tree}/main.py"
        # Here it runs where the user stands; there, nobody stands anywhere.
        status = _execute(
            host,
            [*host.python, main, *words],
            silent=document,
            cwd=None if host is HERE else tree,
            handed=() if live is None else (live,),
        )
        if host is not HERE:
            for option, named in (("--trace", trace), ("--report", report_to)):
                if named is not None and (content := host.read(files[option])) is not None:
                    Path(named).write_bytes(content)
        told = None
        if document and _stamp(host, files["--report"]) != before:
            told = (host.read(files["--report"]) or b"").decode() or None
    return Ran(built, status, told)


def _files(host: Host, folder: str, trace: str | Path | None, report_to: str | Path | None) -> dict[str, str]:
    """Files that a program is to write, by option. What the user named here is written by the program itself."""
    named = {"--trace": trace, "--report": report_to}
    return {
        option: str(Path(file).resolve()) if host is HERE else f"{folder}/{option[2:]}.json"
        for option, file in named.items()
        if file is not None
    }


def _stamp(host: Host, file: str | None) -> int | None:
    """When a file here was written, None where there is none; files elsewhere are in folders that were empty."""
    if file is None:
        return None
    if host is not HERE:
        return None if host.read(file) is None else 1
    return Path(file).stat().st_mtime_ns if Path(file).exists() else None


def _there(built: Built, host: Host, report: Report | None) -> str:
    """Where a build is on its host, with its engines built, if that is another machine. Raises Errors."""
    tree = host.put(built.directory, str(built.directory.resolve()))
    if host is not HERE and (built.directory / "build_engines.py").exists():
        if report is not None:
            report("building TensorRT engines, which takes minutes the first time")
        done = host.execute([*host.python, "build_engines.py"], cwd=tree)
        if done.status:
            said = "\n".join(done.stderr.strip().splitlines()[-10:])
            raise Errors([Diagnostic("F606", f"the engines cannot be built there\n{said}", None)])
    return tree


@contextmanager
def _reached(host: Host) -> Iterator[None]:
    """What is under way is not begun again when the way to a board is lost. Raises Errors then."""
    try:
        yield
    except Lost as lost:
        assert isinstance(host, Board)
        raise Errors([lost_way(host.address, str(lost))]) from lost


def _refuse_open_ends(path: str | Path, platform: str, host: Host) -> None:
    """Nobody puts anything in where a program runs by itself. Raises Errors."""
    platform = host.name if platform == HERE.name else platform
    loaded = load(path, platform=platform, builtin=[own_platform(host)])
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
) -> Tested:
    """Build if needed, then run the harness on `host`: the program against a sequential reference.

    Raises Errors of the build.
    """
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
    with _reached(host), host.folder() as folder:
        tree = _there(built, host, report)
        written = f"{folder}/outcomes.json"
        words = [*host.python, "-X", "faulthandler", "-m", "runtime.outcomes", written]
        status = _execute(host, words, silent=quiet, cwd=tree, environment=environment)
        content = host.read(written)
    found: dict[str, Any] = {"seconds": 0.0, "tests": []}
    found |= json.loads(content) if content is not None else {}
    tests = tuple(Outcome(**t) for t in found["tests"])
    if content is None and status not in (130, 143):  # nobody was left to write it
        tests, status = (Outcome("harness", None, "error", 0.0, _end_in_words(status)),), 1
    return Tested(built, Path(path).stem, status, tests, found["seconds"])


def _end_in_words(status: int) -> str:
    import signal

    killed = status - 128 in signal.valid_signals()
    how = f"was killed by {signal.Signals(status - 128).name}" if killed else f"exited with status {status}"
    return f"the process of the tests {how}"


def _disagreement(directory: Path, host: Host) -> str:
    """What the harness says where the twin does not give the results of the sequential reference; else nothing."""
    with _reached(host):
        tree = host.put(directory, str(directory.resolve()))
        words = [*host.python, "-m", "unittest", "discover", "-s", "tests"]
        done = host.execute(words, cwd=tree, environment={"FLOWC_TWIN": "1"})
    return done.stderr or f"exit status {done.status}" if done.status else ""


def _execute(
    host: Host,
    words: list[str],
    *,
    silent: bool,
    cwd: str | None,
    environment: MappingABC[str, str] | None = None,
    handed: Sequence[int] = (),
) -> int:
    """Run a program that handles signals itself: wait for it, and hand on what it decides."""
    import signal

    hand_on: list[Callable[[int], None]] = []
    early: list[int] = []

    def signaled(number: int, frame: object) -> None:
        if hand_on:
            hand_on[0](number)
        else:
            early.append(number)

    def started(send: Callable[[int], None]) -> None:
        hand_on.append(send)
        for missed in early:
            send(missed)

    sys.stdout.flush()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends SIGINT to the child too; it takes both as one
        before[number] = signal.signal(number, signaled)
    try:
        if isinstance(host, Board):
            status = _heard(host, words, silent, cwd, environment, started)
        else:
            status = _waited(words, silent, cwd, environment, handed, started)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _waited(
    words: list[str],
    silent: bool,
    cwd: str | None,
    environment: MappingABC[str, str] | None,
    handed: Sequence[int],
    started: Callable[[Callable[[int], None]], None],
) -> int:
    """Here, with the standard input and output of this process, and the descriptors that are `handed` to it."""
    import subprocess

    child = subprocess.Popen(
        words,
        stdout=sys.stderr if silent else None,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        preexec_fn=_ends_with_me(),
        pass_fds=handed,
    )
    started(child.send_signal)
    return child.wait()


def _heard(
    board: Board,
    words: list[str],
    silent: bool,
    cwd: str | None,
    environment: MappingABC[str, str] | None,
    started: Callable[[Callable[[int], None]], None],
) -> int:
    """On a board: what it says is written as it comes."""
    streams = {"out": (sys.stderr if silent else sys.stdout).buffer, "err": sys.stderr.buffer}

    def hear(name: str, piece: bytes) -> None:
        streams[name].write(piece)
        streams[name].flush()

    return board.attend(words, hear, cwd=cwd, environment=environment, started=started)


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
