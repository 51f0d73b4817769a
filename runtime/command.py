"""The command line of a generated program."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import signal
import sys
import threading
import time
from typing import Any, Callable, List, Optional

from .adapt import Front
from .code import Network
from .program import Program
from .report import report, table
from .tokens import TaskError
from .trace import Tracer

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
#: Two signals within so many seconds are one.
SAME_SIGNAL = 0.15


def main(build: Callable[[], Program], arguments: Optional[List[str]] = None) -> int:
    """Build the program and run it as the command line says; the exit status.

    0 done, 1 something failed, 130 interrupted, 143 terminated.
    """
    options = _parser().parse_args(arguments)
    program = build()
    if options.twin:
        try:
            program.twin()
        except TaskError as error:
            print("flowc: %s" % error, file=sys.stderr)
            return 1
    if arguments is None and any(isinstance(t.code, (Network, Front)) for a in program.apps for t in a.tasks):
        _with_huge_pages()
    program.speak = lambda text: print("flowc: %s" % text, file=sys.stderr)
    received: List[int] = []

    last = [0.0]

    def on_signal(number: int, frame: Any) -> None:
        # `flowc run` hands on what a terminal may have sent here as well: that is one signal.
        again, last[0] = time.monotonic() - last[0] < SAME_SIGNAL, time.monotonic()
        if again:
            return
        received.append(number)
        program.interrupts += 1
        if not program.begin:
            raise SystemExit(128 + number)  # nothing has begun: a task is still being opened
        if program.interrupts > 2:
            os._exit(128 + number)

    if threading.current_thread() is threading.main_thread():
        faulthandler.enable()  # a crash in C code says at least where
        signal.signal(signal.SIGINT, on_signal)
        signal.signal(signal.SIGTERM, on_signal)
    for path in (options.trace, options.report):
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            print("flowc: there is no directory for %s" % path, file=sys.stderr)
            return 2
    if options.trace:
        program.tracer = Tracer()
    show = _Progress() if sys.stderr.isatty() and not options.quiet else None
    good = program.run(options.frames, options.full_speed, options.strict, options.watchdog, progress=show)
    if show is not None:
        show.clear()
    if program.tracer is not None:
        program.tracer.write(options.trace, program.begin)
    document = report(program)
    if options.report:
        with open(options.report, "w") as stream:
            json.dump(document, stream, indent=1)
    if not options.quiet and (good or any(a["frames"] for a in document["apps"].values())):
        try:
            print(table(document), flush=True)
        except BrokenPipeError:  # whoever read has seen enough
            sys.stdout = open(os.devnull, "w")
    status = 0
    if not good and program.failure is not None:
        if program.failure.details:
            print(program.failure.details, end="", file=sys.stderr)
        print("flowc: %s" % program.failure, file=sys.stderr)
        status = 1
    elif received:
        status = 128 + received[0]
    return _leave(program, status)


def _leave(program: Program, status: int) -> int:
    """A firing that never returns must not keep the process alive."""
    if any(w.is_alive() for w in program.workers):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 1)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run this program.")
    parser.add_argument("--frames", type=_count, metavar="N", help="stop after N iterations of each app")
    parser.add_argument("--full-speed", action="store_true", help="ignore periods: run as fast as data allows")
    parser.add_argument("--strict", action="store_true", help="check what tasks return at every firing")
    parser.add_argument("--twin", action="store_true", help="let CPU threads play the GPU and the DLAs")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    parser.add_argument("--report", metavar="FILE", help="write the measurements as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")
    parser.add_argument(
        "--watchdog", type=float, default=60.0, metavar="S",
        help="stop when a firing (not of a source) takes longer than S seconds; 0 = never (default 60)",
    )  # fmt: skip
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _with_huge_pages() -> None:
    """Start again with memory in large pages, unless somebody has said how memory is to be had.

    Networks walk through all their weights for every frame; that is 0 to 8 % faster (3 % in the mean over 14 networks),
    and malloc of glibc is asked for it by a variable that it reads when a process starts.
    """
    if "GLIBC_TUNABLES" in os.environ or platform.libc_ver()[0] != "glibc":
        return
    command = list(getattr(sys, "orig_argv", [sys.executable] + sys.argv))
    sys.stdout.flush()
    os.execve(sys.executable, command, dict(os.environ, **HUGE_PAGES))


class _Progress:
    """One line on the terminal, a few times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, program: Program) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 0.2
        seconds = max((time.perf_counter_ns() - program.begin) / 1e9, 1e-9)
        apps = ["%s %d frames, %.1f fps" % (a.name, a.frames, a.frames / seconds) for a in program.apps]
        sys.stderr.write("\r\033[K" + "; ".join(apps)[:110])
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
