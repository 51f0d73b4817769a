"""Waiting for a program on its host: what it says appears here, and signals are handed on.

Children handle signals themselves: they are waited for, and what they decide counts.
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

#: Seconds in which what an ended program has said arrives; what it has left behind may hold its output for ever.
GRACE = 5.0
#: Gets what a program says: on `out` or `err`, in pieces.
Hear = Callable[[str, bytes], None]


def there(built: Built, host: Host, report: Report | None) -> str:
    """Where a build is on its host, with its engines built, if that is another machine. Raises Errors."""
    tree = host.put(built.directory, str(built.directory.resolve()))
    why_not = "" if host is HERE else build_engines(built.directory, tree, host, report)
    if why_not:
        raise Errors([Diagnostic("F606", why_not, None)])
    return tree


@contextmanager
def reached(host: Host) -> Iterator[None]:
    """What is under way is not begun again when the way to a board is lost. Raises Errors then."""
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
    """Run a program that handles signals itself: wait for it, and hand on what it decides.

    Here it gets the descriptors that are `handed` to it. What it says goes to `hear`, else to the outputs of this
    process.
    """
    with signals() as started:
        return follow(
            host, words, silent=silent, cwd=cwd, environment=environment, handed=handed, hear=hear, started=started
        )


@contextmanager
def signals() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """Signals of this process go to what is started meanwhile: it hands over what sends them there."""
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
    """Whoever wants this process to end is heard by `signaled` meanwhile."""
    import signal

    sys.stdout.flush()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends SIGINT to the child too; it takes both as one
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
    """Run a program and wait for it; `started` gets what hands signals on to it, and `fed` what gives it all that it
    reads, if that is not what this process reads. See `attend`."""
    if isinstance(host, Board):
        status = host.attend(words, hear or _loudly(silent), cwd=cwd, environment=environment, started=started, fed=fed)
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
    """Here, with the standard input of this process, and its output unless somebody wants to hear it."""
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
            threads.append(threading.Thread(target=_hand_on, args=(stream, name, hear), daemon=True))
            threads[-1].start()
    status = child.wait()  # no limit: a program runs as long as it runs, and signals are handed on to it
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
    """What is said is written as it comes."""
    streams = {"out": (sys.stderr if silent else sys.stdout).buffer, "err": sys.stderr.buffer}

    def hear(name: str, piece: bytes) -> None:
        streams[name].write(piece)
        streams[name].flush()

    return hear
