"""The command line of a generated program."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from functools import partial
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, TypeVar, Union

from .bag import Bag
from .ends import refusal
from .failures import Failure, describe
from .files import Output
from .flight import FlightRecorder, kept_where
from .lifecycle import Interrupted, execute
from .options import SETTINGS, Mistake, RunOptions, frames_of, parsed, require_no_states
from .parameters import give
from .program import Program
from .record import Recorder
from .replay import Replay
from .replaying import is_report, replay_of
from .report import (
    above_wcet,
    build_of,
    left_out,
    missed_deadlines,
    report,
    table,
    uncounted,
    unfinished,
)
from .run import Run
from .shared_cells import STARTING
from .status import LiveStatus, LogStatus, TerminalStatus
from .streams import (
    complain,
    flush_streams,
    give_up,
    is_terminal,
    keep_streams,
    open_streams,
    put_back_streams,
    write_to,
)
from .supervisor import END, supervise
from .tokens import TaskError
from .trace import Tracer

_T = TypeVar("_T")
#: Calls inside of each other that Python code may count on.
DEPTH = sys.getrecursionlimit()
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def main(build: Callable[[], Program], arguments: Optional[List[str]] = None) -> int:
    """Build the program and run it as the command line says; the exit status.

    0 done, 1 something failed, 2 it cannot be run so, 130 interrupted, 143 terminated. Without
    `arguments` this process is all about the program: the program goes on in a child of it, and it
    keeps an eye on the child.
    """
    open_streams()
    options = parsed(arguments)
    program = build()
    program.run.warn = complain
    mistakes = _refusals(program, options)
    outside = None
    try:
        outside = None if mistakes else _outside(program, options)
    except Mistake as refused:
        mistakes = [str(refused)]
    if mistakes:
        for mistake in mistakes:
            complain(mistake)
        return 2
    if options.twin:
        try:
            program.twin()
        except TaskError as error:
            return _failed_outside(program, options, str(error))
    received: List[int] = []
    if arguments is None:
        if any(t.code.has_weights for t in program.tasks):
            _with_huge_pages()
        _listen(program, received)
        supervise(
            program.run,
            options.watchdog,
            _report_in_place(program, options.report_to, counted=False),
            partial(_put_back, program, outside),
        )
        keep_streams()
    try:
        if outside is not None:
            outside.start()
        status = _run(program, options, received)
    except Mistake as refused:
        complain(str(refused))
        status = 2
    except (MemoryError, RecursionError) as error:  # what tasks have left for others is not enough
        reason = "the program failed outside of its tasks: " + describe(error)
        status = _failed_outside(program, options, reason)
    except BaseException:
        program.run.cells.leave(1)
        raise
    finally:
        _put_back(program, outside)
        if arguments is None:
            put_back_streams()
    program.run.cells.leave(status)
    if any(w.is_alive() for w in program.run.workers):
        os._exit(status)  # a firing that never returns must not keep the process alive
    return status


def _refusals(program: Program, options: RunOptions) -> List[str]:
    """Why it cannot be run so; tasks have their settings where it can."""
    mistakes = give(program, options.settings, os.environ.get(SETTINGS, ""))
    replayed = options.replay is not None and not is_report(options.replay)
    reason = "" if replayed else refusal(program)
    if program.run.transport is not None:
        reason = program.run.transport.unready()
    if program.bridge is not None:
        reason = program.bridge.unready()
    return [*mistakes, reason] if reason else mistakes


def _failed_outside(program: Program, options: RunOptions, reason: str) -> int:
    """It has failed where no task is at work: say so, here and in the report; the exit status."""
    failure = Failure("", "", None, reason)
    complain(str(failure))
    _report_in_place(program, options.report_to)(failure, 1)
    return 1


def _outside(program: Program, options: RunOptions) -> Any:
    """Who raises events, where there are states. Raises Mistake."""
    if program.control is None:
        require_no_states(options)
        return None
    return program.control.outside(options)


def _put_back(program: Program, outside: Any) -> None:
    """Undo what the program has changed on this machine."""
    if outside is not None:
        outside.close()
    if program.control is not None and program.control.clocks is not None:
        program.control.clocks.restore()


def _listen(program: Program, received: List[int]) -> None:
    def on_signal(number: int, frame: Any) -> None:
        asked = program.run.cells.asked
        if asked == program.run.interrupts:
            # what a terminal sends reaches this process as well; the supervisor decides what counts
            return
        program.run.interrupts = asked
        received.append(number)
        if program.run.cells.phase == STARTING:
            raise Interrupted

    for number in END:
        signal.signal(number, on_signal)


def _run(program: Program, options: RunOptions, received: Sequence[int]) -> int:
    run = program.run
    replay = replay_of(program, options, _settings(options))
    for note in [] if replay is None else replay.notes:
        complain(note)
    try:  # now, not after hours of running
        trace = _opened(options.trace, Output)
        measured = _opened(options.report_to, Output)
        table_file = _opened(options.table, Output)
        shows = _shows(options)
        flight = _traced(program, options)
        recording = _opened(options.record, partial(_recording, program, options))
    except _Unwritable as reason:
        complain("cannot write " + str(reason))
        return 1
    if flight is not None:
        shows.append(flight)
    good = False
    delivered = True
    try:
        good = _executed(program, options, shows)
    finally:
        if recording is not None:
            delivered &= _recorded(recording, options)
    if replay is not None:
        delivered &= _compared(replay, options)
    if flight is not None:
        flight.finish(failed=not good)
    document = report(program, _status(program, options, good, received))
    if trace is not None:
        delivered &= _write(trace, partial(json.dump, run.tracer.events(build_of(run.home))))
    if measured is not None:
        delivered &= _write(measured, partial(json.dump, document, indent=1))
    ran = good or any(a["frames"] for a in document["apps"].values())
    if table_file is not None:
        text = table(document) + "\n" if ran else ""
        delivered &= _write(table_file, lambda stream: stream.write(text))
    shown = ran and table_file is None and not options.quiet
    delivered &= _print(table(document) + "\n" if shown else "")
    _say_end(program, options, good, document)
    status = _status(program, options, good, received)
    return status if delivered else status or 1


class _Unwritable(Exception):
    """An output cannot be written; the message says which, and why."""


def _opened(name: Optional[str], opened: Callable[[str], _T]) -> Optional[_T]:
    """What is opened by a name, if there is one. Raises _Unwritable."""
    if name is None:
        return None
    try:
        return opened(name)
    except OSError as error:
        raise _Unwritable("%s: %s" % (name, error.strerror)) from None


def _traced(program: Program, options: RunOptions) -> Optional[FlightRecorder]:
    """Let the program be traced, if it is to be; who keeps the end of the trace, where that is all
    that is wanted."""
    if options.trace is not None:
        first, end = (0, None) if options.trace_frames is None else frames_of(options.trace_frames)
        program.run.tracer = Tracer(program, first, end, options.trace_bands)
    if options.flight_recorder is None:
        return None
    recorder = program.run.tracer = _flight(program, options.flight_recorder)
    return recorder


def _say_end(program: Program, options: RunOptions, good: bool, document: Dict[str, Any]) -> None:
    """Why it has failed, or what was dropped or left out, and what deadlines were missed."""
    failure = program.run.failure
    missed = ", ".join(missed_deadlines(document))
    if good and not options.quiet and program.control is None:
        for dropped in unfinished(program.apps):
            complain("warning: " + dropped)
    if not good and failure is not None:
        complain(str(failure), failure.details)
        return
    above = ", ".join(above_wcet(document))
    as_it_is = not options.twin and options.clocks == "model"
    if above and as_it_is and not options.quiet:
        words = "firings took longer than the `wcet` that bounds rest on, or were interrupted"
        complain("warning: %s: %s" % (words, above))
    left = ", ".join(left_out(document))
    if left:
        _say_loss(options, "%s were left out by `on error`" % left, _lost_in_time(program))
    if missed:
        _say_loss(options, "deadlines were missed: %s" % missed, True)


def _say_loss(options: RunOptions, lost: str, counts: bool) -> None:
    """Say what frames have lost: `counts` tells whether --fail-on-miss makes it a failure."""
    if counts and options.fail_on_miss:
        complain(lost)
    elif not options.quiet:
        hint = "; --fail-on-miss makes it a failure" if counts else ""
        complain("warning: %s%s" % (lost, hint))


def _lost_in_time(program: Program) -> bool:
    """Was a frame left out that had a deadline?"""
    return any(app.skipped and app.has_deadlines for app in program.apps)


def _flight(program: Program, asked: str) -> FlightRecorder:
    """A flight recorder that says where it writes."""
    seconds, path = kept_where(asked)

    def write(events: Dict[str, Any]) -> None:
        try:
            written = _write(Output(path), partial(json.dump, events))
        except OSError as error:
            written = False
            complain("cannot write %s: %s" % (path, error.strerror))
        if written:
            complain("the last %g s are in %s (flowc report --around)" % (seconds, path))

    return FlightRecorder(program, seconds, write)


def _recording(program: Program, options: RunOptions, path: str) -> Recorder:
    """Who records. Raises Mistake and OSError."""
    return Recorder(program, path, options.channels, _settings(options))


def _settings(options: RunOptions) -> List[str]:
    """The values of parameters that the program is started with."""
    return [*filter(None, os.environ.get(SETTINGS, "").split(";")), *options.settings]


def _recorded(recording: Recorder, options: RunOptions) -> bool:
    """Finish a recording; True if everything is in it."""
    missing = recording.finish()
    if missing:
        complain(missing)
    elif not options.quiet:
        complain(recording.told())
    return not missing


def _compared(replay: Union[Replay, Bag], options: RunOptions) -> bool:
    """Say what a replay has shown; True if everything was equal."""
    equal, lines = replay.told(options.frames)
    for line in lines if not (equal and options.quiet) else ():
        complain(line)
    return equal


def _shows(options: RunOptions) -> List[Any]:
    """What shows how far the program is. Raises _Unwritable."""
    shows: List[Any] = []
    if not options.quiet:
        shows.append(TerminalStatus() if is_terminal("stderr") else LogStatus(complain))
    if options.live is not None:
        try:
            shows.append(LiveStatus(options.live))
        except OSError as error:
            reason = "to descriptor %s: %s" % (options.live, error.strerror)
            raise _Unwritable(reason) from None
    return shows


def _executed(program: Program, options: RunOptions, shows: Sequence[Any]) -> bool:
    """True unless something failed, or it was to end before it began."""

    def show(run: Run) -> None:
        for status in shows:
            status(run)

    try:
        good = execute(
            program,
            options.frames,
            options.full_speed or program.run.replayed,
            options.strict,
            options.watchdog,
            progress=show if shows else None,
            seconds=options.seconds,
        )
    except Interrupted:
        good = False
    finally:
        # a task may have set a lower one
        sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    for status in shows:
        status.clear()
    return good


def _status(program: Program, options: RunOptions, good: bool, received: Sequence[int]) -> int:
    if not good and program.run.failure is not None:
        return 1
    if received:
        return 128 + received[0]
    late = any(app.late() for app in program.apps) or _lost_in_time(program)
    return 1 if options.fail_on_miss and late else 0


def _write(output: Output, write: Callable[[IO[str]], Any]) -> bool:
    """Write an output by a function of its stream; False, and said, where that is not possible."""
    try:
        with output.written() as stream:
            write(stream)
    except OSError as error:
        complain("cannot write %s: %s" % (output.name, error.strerror))
        return False
    return True


def _report_in_place(
    program: Program, path: Optional[str], counted: bool = True
) -> Callable[[Failure, int], None]:
    """Who writes the report of a program that cannot do it: the failure is known, and what was
    `counted` if it was counted in this process."""

    def write(failure: Failure, status: int) -> None:
        if path is None:
            return
        program.run.failure = failure
        try:
            output = Output(path, wait=False)  # there may be no reader of a pipe any more
        except OSError as error:
            complain("cannot write %s: %s" % (path, error.strerror))
        else:
            document = report(program, status)
            told = document if counted else uncounted(document)
            _write(output, partial(json.dump, told, indent=1))

    return write


def _print(text: str) -> bool:
    """On standard output, behind what the tasks have printed. A closed pipe is no failure."""
    try:
        flush_streams()
        write_to("stdout", text)
        return True
    except (OSError, ValueError) as error:
        give_up("stdout")
        if isinstance(error, BrokenPipeError):
            return True
        complain(
            "cannot write to standard output: %s" % (getattr(error, "strerror", None) or error)
        )
        return False


def _with_huge_pages() -> None:
    """Start again with memory in large pages, unless the environment says how to allocate memory.

    Networks walk through all their weights for every frame; that is 0 to 8 % faster (3 % in the
    mean over 14 networks), and malloc of glibc is asked for it by a variable that it reads when a
    process starts.
    """
    if "GLIBC_TUNABLES" in os.environ or platform.libc_ver()[0] != "glibc":
        return
    command = list(getattr(sys, "orig_argv", [sys.executable] + sys.argv))
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, END)  # they wait until the supervisor takes them
    os.execve(sys.executable, command, dict(os.environ, **HUGE_PAGES))
