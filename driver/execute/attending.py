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
from functools import partial
from typing import IO, TYPE_CHECKING

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
    with signals() as started:
        return follow(
            host,
            words,
            silent=silent,
            cwd=cwd,
            environment=environment,
            handed=handed,
            hear=hear,
            started=started,
        )


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


def follow(
    host: Host,
    words: list[str],
    *,
    silent: bool,
    cwd: str | None,
    started: Callable[[Callable[[int], None]], None],
    environment: MappingABC[str, str] | None = None,
    handed: Sequence[int] = (),
    hear: Hear | None = None,
    fed: Callable[[Callable[[bytes], None]], None] | None = None,
) -> int:
    """Run a program and wait for it; `started` gets the function that forwards signals to it, and
    `fed` the function that writes to its input, if it does not inherit that of this process. See
    `attend`."""
    if isinstance(host, Board):
        status = host.attend(
            words,
            hear or _loudly(silent),
            cwd=cwd,
            environment=environment,
            started=started,
            fed=fed,
        )
    else:
        status = _waited(words, silent, cwd, environment, handed, hear, started, fed)
    return status if status >= 0 else 128 - status


def _waited(
    words: list[str],
    silent: bool,
    cwd: str | None,
    environment: MappingABC[str, str] | None,
    handed: Sequence[int],
    hear: Hear | None,
    started: Callable[[Callable[[int], None]], None],
    fed: Callable[[Callable[[bytes], None]], None] | None,
) -> int:
    """Run it here, with the standard input of this process, and its output too unless `hear` gets
    that."""
    import signal
    import subprocess

    child = subprocess.Popen(
        words,
        stdin=None if fed is None else subprocess.PIPE,
        stdout=subprocess.PIPE if hear is not None else sys.stderr if silent else None,
        stderr=None if hear is None else subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        preexec_fn=ends_with_me(signal.SIGTERM),
        pass_fds=handed,
    )
    started(child.send_signal)
    if fed is not None:
        fed(partial(_feed, child))
    threads = []
    for name, stream in (("out", child.stdout), ("err", child.stderr)):
        if hear is not None and stream is not None:
            threads.append(
                threading.Thread(target=_hand_on, args=(stream, name, hear), daemon=True)
            )
            threads[-1].start()
    status = child.wait()  # no limit: a program may run for ever, and signals are forwarded to it
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()
    for thread in threads:
        thread.join(GRACE)
    return status


def _feed(child: subprocess.Popen[bytes], content: bytes) -> None:
    assert child.stdin is not None
    with suppress(OSError, ValueError):  # it has just ended
        child.stdin.write(content)
        child.stdin.close()


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
