"""The command line of a generated program."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from functools import partial
from typing import Any, Callable, List, Optional, Sequence

from .board import STARTING
from .ends import refusal
from .failures import Failure, describe
from .files import Output
from .keeper import END, keep
from .options import SETTINGS, Mistake, RunOptions, frames_of, parsed, require_no_states
from .parameters import give
from .program import Interrupted, Program
from .report import build_of, report, table
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
from .tokens import TaskError
from .trace import Tracer

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
    program.speak = complain
    mistakes = give(program, options.settings, os.environ.get(SETTINGS, ""))
    reason, outside = refusal(program), None
    if program.mesh is not None:
        reason = program.mesh.unready()
    if program.face is not None:
        reason = program.face.unready()
    if reason:
        mistakes = [*mistakes, reason]
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
            failure = Failure("", "", None, str(error))
            complain(str(failure))
            _report_in_place(program, options.report_to)(failure, 1)
            return 1
    received: List[int] = []
    if arguments is None:
        if any(t.code.has_weights for t in program.tasks):
            _with_huge_pages()
        _listen(program, received)
        keep(
            program,
            options.watchdog,
            _report_in_place(program, options.report_to),
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
        failure = Failure(
            "", "", None, "the program failed outside of its tasks: " + describe(error)
        )
        complain(str(failure))
        _report_in_place(program, options.report_to)(failure, 1)
        status = 1
    except BaseException:
        program.board.leave(1)
        raise
    finally:
        _put_back(program, outside)
        if arguments is None:
            put_back_streams()
    program.board.leave(status)
    if any(w.is_alive() for w in program.workers):
        os._exit(status)  # a firing that never returns must not keep the process alive
    return status


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
        asked = program.board.asked
        if asked == program.interrupts:
            # what a terminal sends reaches this process as well; the keeper decides what counts
            return
        program.interrupts = asked
        received.append(number)
        if program.board.phase == STARTING:
            raise Interrupted

    for number in END:
        signal.signal(number, on_signal)


def _run(program: Program, options: RunOptions, received: Sequence[int]) -> int:
    try:  # now, not after hours of running
        trace, measured = [
            Output(path) if path else None for path in (options.trace, options.report_to)
        ]
    except OSError as error:
        complain("cannot write %s: %s" % (error.filename, error.strerror))
        return 1
    if trace is not None:
        first, end = (0, None) if options.trace_frames is None else frames_of(options.trace_frames)
        program.tracer = Tracer(program, first, end, options.trace_bands)
    shows: List[Any] = []
    if not options.quiet:
        shows.append(TerminalStatus() if is_terminal("stderr") else LogStatus(complain))
    if options.live is not None:
        try:
            shows.append(LiveStatus(options.live))
        except OSError as error:
            complain("cannot write to descriptor %d: %s" % (options.live, error.strerror))
            return 1

    def show(program: Program) -> None:
        for status in shows:
            status(program)

    try:
        progress = show if shows else None
        good = program.run(
            options.frames, options.full_speed, options.strict, options.watchdog, progress=progress
        )
    except Interrupted:
        good = False
    finally:
        # a task may have set a lower one
        sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    for status in shows:
        status.clear()
    document = report(program, _status(program, options, good, received))
    delivered = True
    if trace is not None:
        delivered &= _write(trace, program.tracer.events(build_of(program.home)))
    if measured is not None:
        delivered &= _write(measured, document, indent=1)
    wanted = not options.quiet and (good or any(a["frames"] for a in document["apps"].values()))
    delivered &= _print(table(document) + "\n" if wanted else "")
    if not good and program.failure is not None:
        complain(str(program.failure), program.failure.details)
    elif options.fail_on_miss and any(a.late() for a in program.apps):
        complain(
            "deadlines were missed in %s" % ", ".join(a.name for a in program.apps if a.late())
        )
    return _status(program, options, good, received) or (0 if delivered else 1)


def _status(program: Program, options: RunOptions, good: bool, received: Sequence[int]) -> int:
    if not good and program.failure is not None:
        return 1
    if received:
        return 128 + received[0]
    return 1 if options.fail_on_miss and any(a.late() for a in program.apps) else 0


def _write(output: Output, document: Any, indent: Optional[int] = None) -> bool:
    try:
        with output.written() as stream:
            json.dump(document, stream, indent=indent)
    except OSError as error:
        complain("cannot write %s: %s" % (output.name, error.strerror))
        return False
    return True


def _report_in_place(program: Program, path: Optional[str]) -> Callable[[Failure, int], None]:
    """Who writes the report of a program that cannot do it: it has counted nothing, but the failure
    is known."""

    def write(failure: Failure, status: int) -> None:
        if path is None:
            return
        program.failure = failure
        try:
            output = Output(path, wait=False)  # there may be no reader of a pipe any more
        except OSError as error:
            complain("cannot write %s: %s" % (path, error.strerror))
        else:
            _write(output, report(program, status), indent=1)

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
    signal.pthread_sigmask(signal.SIG_BLOCK, END)  # they wait until the keeper takes them
    os.execve(sys.executable, command, dict(os.environ, **HUGE_PAGES))
