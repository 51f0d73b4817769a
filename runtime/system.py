"""What the system knows of processes, and does for them."""

from __future__ import annotations

import os
import select
import signal

#: Seconds that a child gets to leave after its task is closed.
FAREWELL = 0.8


def how_it_ended(status: int) -> str:
    """An exit status in words; that of a signal is negative."""
    if status >= 0:
        return "exited with status %d" % status
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "signal %d" % -status
    return "was ended by %s (%s)" % (name, signal.strsignal(-status) or "no description")


def is_stopped(pid: int) -> bool:
    """Is that process suspended, or in the hands of a debugger?"""
    return _state(pid) in ("T", "t")


def is_debugged(pid: int) -> bool:
    """Does a debugger hold that process?"""
    return _state(pid) == "t"


def _state(pid: int) -> str:
    """The letter that the system has for what a process is at; none where it does not say."""
    try:
        with open("/proc/%d/stat" % pid) as stream:
            return stream.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def anonymous_memory() -> int:
    """A file without a name, in memory where the system has that: nothing of it is left behind when
    a process dies."""
    try:
        return os.memfd_create("flowc")
    except (AttributeError, OSError):
        import tempfile

        folder = "/dev/shm"
        with tempfile.TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None) as file:
            return os.dup(file.fileno())


def die_with_the_parent(lifeline: int) -> None:
    """The system kills this process when no process holds the other end any more: in a firing, and
    stopped, as well."""
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if has_news(lifeline, 0.0):  # it was gone before
        os._exit(1)


def has_news(end: int, seconds: float) -> bool:
    """Is there something to read, or has the other end been closed, within that time?"""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
