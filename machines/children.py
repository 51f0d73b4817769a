"""Child processes of flowc on this machine: none outlives its parent, however that ends.

In: a command. Out: its result (`run`), or a function for other ways to start a child
(`ends_with_me`): the system signals the child when its parent ends, by SIGKILL as well. A process
that `adopts` gets the processes that its descendants leave behind, so that `descendants` finds all.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

#: <linux/prctl.h>
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def run(
    words: Sequence[str],
    *,
    cwd: str | Path | None,
    environment: Mapping[str, str] | None = None,
    by: signal.Signals = signal.SIGKILL,
    limit: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without input; `by` ends it when this process ends.

    Its output goes to files: what it leaves running may hold a pipe open for ever. Raises OSError,
    and subprocess.TimeoutExpired after `limit` seconds.
    """
    with _output() as out, _output() as err:
        done = subprocess.run(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=False,
            timeout=limit,
            env={**os.environ, **(environment or {})},
            preexec_fn=ends_with_me(by),
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, done.returncode, out.read(), err.read())


def _output() -> IO[str]:
    """A file for what a command prints; code prints arbitrary bytes."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def ends_with_me(by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """The first call of a child of this process: for `preexec_fn` of subprocess, or in a process of
    multiprocessing.

    The system counts the end of the *thread* that starts the child as the end of the parent: that
    thread has to wait for it. Children that need to clean up, such as a compiler with temporary
    files, get SIGTERM.
    """
    _prctl()  # a fork of a process with threads must not load anything
    return partial(_end_with, os.getpid(), by)


def _end_with(parent: int, by: signal.Signals) -> None:
    _prctl()(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # the parent ended before
        os._exit(1)


def adopt() -> None:
    """Processes whose parents have ended, and that descend from this one, become its children."""
    _prctl()(PR_SET_CHILD_SUBREAPER, 1)


def adopting(by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """As `ends_with_me`, for a child that adopts what its descendants leave behind."""
    ends = ends_with_me(by)

    def begin() -> None:
        ends()
        adopt()

    return begin


def children(pid: int) -> list[int]:
    """The children of a process; none where the system does not tell."""
    return _children().get(pid, [])


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    known = _children()
    found = list(known.get(pid, []))
    for each in found:
        found += known.get(each, [])
    return found


def _children() -> dict[int, list[int]]:
    """All processes of this machine, by their parents."""
    known: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parent = int(file.read_text(errors="replace").rpartition(")")[2].split()[1])
            known.setdefault(parent, []).append(int(file.parent.name))
    return known


@lru_cache(maxsize=None)
def _prctl() -> Any:
    return ctypes.CDLL(None).prctl
