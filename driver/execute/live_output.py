"""Waiting for a program on its host: its output appears here, and signals are forwarded to it.

Children handle signals themselves: this process waits for them, and their exit status counts.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, TextIO

from ...machines.board import Board, Lost, lost_way
from ...machines.children import ends_with_me
from ...machines.host import HERE, Host
from ...model.diagnostic import Diagnostic, Errors
from ...profiling.engines import build_engines
from ..build.build import Built
from ..text.check import Report

if TYPE_CHECKING:
    import subprocess

#: Seconds for the output of an ended program to arrive; processes that it left may keep its output
#: open for ever.
GRACE = 5.0
#: Gets the output of a program, from `out` or `err`, in pieces.
Hear = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start: its words, folder, additional variables, and the descriptors that a local
    one gets."""

    words: list[str]
    cwd: str | None
    environment: MappingABC[str, str]
    handed: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Wires:
    """The connections to a program.

    `started` gets the function that forwards signals to it. `hear` gets its output; without it, the
    output goes to that of this process, if `silent` all of it to standard error. `fed` gets the
    function that writes its input and closes it; without it, it inherits that of this process.
    """

    started: Callable[[Callable[[int], None]], None]
    hear: Hear | None = None
    silent: bool = False
    fed: Callable[[Callable[[bytes], None]], None] | None = None


def there(built: Built, host: Host, report: Report | None) -> str:
    """The path of a build on its host, with engines built if that is another machine. Raises
    Errors."""
    tree = host.put(built.directory, str(built.directory.resolve()))
    why_not = "" if host is HERE else build_engines(built.directory, tree, host, report)
    if why_not:
        raise Errors([Diagnostic("F606", why_not, None)])
    return tree


@contextmanager
def reached(host: Host) -> Iterator[None]:
    """Running work is not restarted if the connection to a board is lost. Raises Errors then."""
    try:
        yield
    except Lost as lost:
        assert isinstance(host, Board)
        raise Errors([lost_way(host.address, str(lost))]) from lost


def attend(
    host: Host,
    words: list[str],
    *,
    silent: bool,
    cwd: str | None,
    environment: MappingABC[str, str] | None = None,
    handed: Sequence[int] = (),
    hear: Hear | None = None,
) -> int:
    """Run a program that handles signals itself: wait for it, and return its status.

    A local program gets the descriptors in `handed`. Its output goes to `hear`, else to the outputs
    of this process.
    """
    command = Command(words, cwd, environment or {}, handed)
    with signals() as started:
        return follow(host, command, Wires(started, hear, silent))


@contextmanager
def signals() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """Forward signals of this process to the program started meanwhile, which registers how to send
    them."""
    hand_on: list[Callable[[int], None]] = []
    early: list[int] = []

    def signaled(number: int) -> None:
        if hand_on:
            hand_on[0](number)
        else:
            early.append(number)

    def started(send: Callable[[int], None]) -> None:
        hand_on.append(send)
        for missed in early:
            send(missed)

    with signals_for(signaled):
        yield started


@contextmanager
def signals_for(signaled: Callable[[int], None]) -> Iterator[None]:
    """While this runs, `signaled` gets the signals that ask this process to end."""
    import signal

    sys.stdout.flush()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        # a terminal sends SIGINT to the child too; it counts both as one
        before[number] = signal.signal(number, lambda number, frame: signaled(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(host: Host, command: Command, wires: Wires) -> int:
    """Run a program and wait for it. See `attend`."""
    if isinstance(host, Board):
        status = host.attend(
            command.words,
            wires.hear or _loudly(wires.silent),
            cwd=command.cwd,
            environment=command.environment,
            started=wires.started,
            fed=wires.fed,
        )
    else:
        status = _waited(command, wires)
    return status if status >= 0 else 128 - status


def _waited(command: Command, wires: Wires) -> int:
    """Run it here, and wait for it."""
    import signal
    import subprocess

    out: int | TextIO | None = None
    if wires.hear is not None:
        out = subprocess.PIPE
    elif wires.silent:
        out = sys.stderr
    child = subprocess.Popen(
        command.words,
        stdin=None if wires.fed is None else subprocess.PIPE,
        stdout=out,
        stderr=None if wires.hear is None else subprocess.PIPE,
        cwd=command.cwd,
        env={**os.environ, **command.environment},
        preexec_fn=ends_with_me(signal.SIGTERM),
        pass_fds=command.handed,
    )
    wires.started(child.send_signal)
    if wires.fed is not None and child.stdin is not None:
        wires.fed(partial(_feed, child.stdin))
    threads = [] if wires.hear is None else _listeners(child, wires.hear)
    for thread in threads:
        thread.start()
    status = child.wait()  # no limit: a program may run for ever, and signals are forwarded to it
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()
    for thread in threads:
        thread.join(GRACE)
    return status


def _listeners(child: subprocess.Popen[bytes], hear: Hear) -> list[threading.Thread]:
    """Threads that forward the output of a program."""
    threads = []
    for name, stream in (("out", child.stdout), ("err", child.stderr)):
        if stream is not None:
            arguments = (stream, name, hear)
            threads.append(threading.Thread(target=_hand_on, args=arguments, daemon=True))
    return threads


def _feed(stream: IO[bytes], content: bytes) -> None:
    with suppress(OSError, ValueError):  # it has just ended
        stream.write(content)
        stream.close()


def _hand_on(stream: IO[bytes], name: str, hear: Hear) -> None:
    with stream:
        for line in stream:
            hear(name, line)


def _loudly(silent: bool) -> Hear:
    """Write output as it arrives."""
    streams = {"out": (sys.stderr if silent else sys.stdout).buffer, "err": sys.stderr.buffer}

    def hear(name: str, piece: bytes) -> None:
        streams[name].write(piece)
        streams[name].flush()

    return hear
