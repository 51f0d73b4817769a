"""The share of a task's firing time with the interpreter lock held: 0 is code that releases it, 1
is pure Python.

In: a call after every firing, from the thread that fires. Out: a share for each task. Consequences,
such as a separate process, are decided elsewhere.

A second thread requests the lock all the time and watches the CPU clock of the firing thread: CPU
time of that thread while the second one has the lock is without the lock; CPU time until the second
one gets it back is with it. CPU clocks stop while a thread waits for the lock or for a core, so
neither the contention nor other processes on the machine count. Waiting for a device or for a time
is recognized in stretches without contention in between.

On two nearly idle cores, half a second gives 0.9 to 1 for pure Python, 0 to 0.1 for long calls that
release the lock, and 0.1 to 0.3 for calls of a tenth of a millisecond, because the second thread
needs some time to notice that the lock is free. With twice as many busy threads as cores: 0.7, 0.1
and 0.6. `python benchmarks/held_shares.py` measures them.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

#: Seconds after which the lock has to be released; the firing thread waits that long for it each
#: time.
INTERVAL = 0.0005
#: Seconds without and with contention, in turns.
ALONE, CONTENDING = 0.03, 0.03
#: During a longer step of the contender (ns), it may have been without the lock.
STEP = 5_000


def held_share(fire: Callable[[], object], seconds: float = 0.5) -> float | None:
    """The share for something that can be called repeatedly, in this thread; None if there are too
    few samples."""
    holding = Holding()
    holding.fired("")
    watcher = threading.Thread(target=holding.watch, args=(seconds,), daemon=True)
    watcher.start()
    while watcher.is_alive():
        fire()
        holding.fired("")
    return holding.shares().get("")


@dataclass
class _Spent:
    """Times of the firing thread in ns, first without contention, then with it.

    `delay` is waiting for a core; for `unclear` it is unknown whether it was computed with the lock
    or without.
    """

    wall: int = 0
    cpu: int = 0
    delay: int = 0
    contended_cpu: int = 0
    released: int = 0
    unclear: int = 0

    def add(self, other: _Spent) -> None:
        """Called after every firing: this has to be quick."""
        self.wall += other.wall
        self.cpu += other.cpu
        self.delay += other.delay
        self.contended_cpu += other.contended_cpu
        self.released += other.released
        self.unclear += other.unclear

    def share(self) -> float | None:
        """None if there are too few samples."""
        clear = self.contended_cpu - self.unclear
        if clear <= 0 or self.wall <= 0:
            return None
        computing = self.cpu / max(self.cpu, self.wall - self.delay, 1)
        return min(1.0, max(0.0, (1 - self.released / clear) * computing))


class Holding:
    """The shares of tasks that one thread fires one after the other, while another one is in
    `watch`.

    The firing thread's work between two firings counts for the later one.
    """

    def __init__(self, clocks: MachineClocks | None = None) -> None:
        self._clocks = clocks or MachineClocks()
        self._tasks: dict[str, _Spent] = {}
        self._open = _Spent()  # since the last firing
        self._firings = self._before = 0
        self._thread: Watched | None = None
        self._known = threading.Event()
        self._several = self._over = self._contending = False
        self._released = 0
        # firings since the contender was without the lock
        self._passed: list[tuple[int, int, _Spent]] = []
        self._mark = (0, 0, 0)
        # either thread may lose the interpreter in the middle of it
        self._cutting = threading.Lock()

    def fired(self, task: str) -> None:
        """A firing of that task has ended; called by the thread that fired it. The first call only
        starts."""
        if self._thread is None:
            self._thread = self._clocks.thread()
            self._mark = self._now(self._thread)
            self._known.set()
        elif self._thread.ident != threading.get_ident():
            self._several = True
        else:
            with self._cutting:
                self._cut(self._thread)
                spent = self._tasks.setdefault(task, _Spent())
                spent.add(self._open)
                self._open = _Spent()
                self._firings += 1
                if self._contending:
                    self._passed.append((self._clocks.wall(), self._mark[0], spent))

    def watch(self, seconds: float) -> None:
        """Watch for about `seconds`; called by another thread."""
        clocks = self._clocks
        end = clocks.wall() + int(1e9 * seconds)
        if not self._known.wait(seconds) or self._thread is None:
            return
        own, thread = clocks.thread(), self._thread
        with suppress(OSError, KeyError), clocks.apart(own, thread):  # when the thread has ended
            while clocks.wall() < end:
                clocks.sleep(ALONE)
                self._turn(thread, contending=True)
                self._contend(clocks.wall() + int(1e9 * CONTENDING), own, thread)
                self._turn(thread, contending=False)
        with self._cutting:
            self._over = True
        own.close()
        thread.close()

    def shares(self) -> dict[str, float]:
        """Shares by task, without those with too few samples. Empty if several threads fired."""
        if self._several:
            return {}
        shares_of = {task: spent.share() for task, spent in self._tasks.items()}
        return {task: share for task, share in shares_of.items() if share is not None}

    # -- where the times go ------------------------------------------------------------------------
    def _now(self, thread: Watched) -> tuple[int, int, int]:
        if self._contending:
            return thread.cpu(), self._released, 0
        return thread.cpu(), self._clocks.wall(), thread.delay()

    def _cut(self, thread: Watched) -> None:
        """Add the time since the last cut to the current firing."""
        if self._over:
            return
        before, self._mark = self._mark, self._now(thread)
        now, spent = self._mark, self._open
        if self._contending:
            spent.contended_cpu += now[0] - before[0]
            spent.released += now[1] - before[1]
        else:
            spent.cpu += now[0] - before[0]
            spent.wall += now[1] - before[1]
            spent.delay += now[2] - before[2]

    def _turn(self, thread: Watched, contending: bool) -> None:
        with self._cutting:
            # Whether it waits for a core now, and since when, is only visible after it got one: if
            # possible, no stretch ends at a report of another thread.
            if self._contending or self._firings == self._before:
                self._cut(thread)
            self._contending, self._before = contending, self._firings
            self._mark = self._now(thread)

    # -- the contender -----------------------------------------------------------------------------
    def _contend(self, end: int, own: Watched, thread: Watched) -> None:
        """Hold the lock whenever possible, and detect when the other thread computes."""
        look, wall = self._clocks.look, self._clocks.wall
        waits, place, delay = own.waits(), (self._firings, thread.place()), own.delay()
        last, before = wall(), thread.cpu()
        while last < end:
            now, used = look(thread)
            if now - last <= STEP:
                self._released += used - before
            elif own.waits() != waits or (self._firings, thread.place()) != place:
                # This thread has waited, or the other one has progressed in its Python code: it had
                # the lock.
                total = own.delay()
                now, used = wall(), thread.cpu()
                queued, delay = min(total - delay, now - last), total
                self._settle((last, before), (now, used), now - queued)
                waits, place = own.waits(), (self._firings, thread.place())
                now = wall()
            elif 10 * (used - before) > now - last:
                self._released += used - before  # this thread had the lock, but no core
            else:
                self._open.unclear += used - before  # it has only polled for the lock
            last, before = now, used

    def _settle(self, begin: tuple[int, int], end: tuple[int, int], ready: int) -> None:
        """The lock was away from begin to end, each a wall and a CPU time.

        From `ready` on this thread was ready, but had no core: the other one may have computed with
        the lock or without.
        """
        with self._cutting:
            for wall, cpu, spent in [*self._passed, (*end, self._open)]:
                if begin[0] < wall <= end[0]:
                    late = max(0, wall - max(begin[0], ready))
                    spent.unclear += (cpu - begin[1]) * late // (wall - begin[0])
                    begin = wall, cpu
            self._passed.clear()


class Watched:
    """The calling thread, for others to watch."""

    def __init__(self) -> None:
        self.ident, self.native = threading.get_ident(), threading.get_native_id()
        #: Its CPU time in ns.
        self.cpu: Callable[[], int] = partial(
            time.clock_gettime_ns, time.pthread_getcpuclockid(self.ident)
        )
        try:
            self._delays = os.open(f"/proc/self/task/{self.native}/schedstat", os.O_RDONLY)
        except FileNotFoundError:  # not every kernel counts them
            self._delays = -1

    def delay(self) -> int:
        """How long it was ready without a core, in ns."""
        return int(os.pread(self._delays, 99, 0).split()[1]) if self._delays >= 0 else 0

    def place(self) -> tuple[int, int]:
        """Its position in its Python code. Raises KeyError after its end."""
        frame = sys._current_frames()[self.ident]
        return id(frame), frame.f_lasti

    def waits(self) -> int:
        """How often it has waited, called by itself; a contender only waits for the lock."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

    def close(self) -> None:
        """Stop watching."""
        if self._delays >= 0:
            os.close(self._delays)


class MachineClocks:
    """The clocks of this machine. In a test, time passes differently."""

    wall = staticmethod(time.perf_counter_ns)
    sleep = staticmethod(time.sleep)
    thread = Watched

    @staticmethod
    def look(thread: Watched) -> tuple[int, int]:
        """Wall time and the thread's CPU time; a contender with the lock does nothing else."""
        return time.perf_counter_ns(), thread.cpu()

    @staticmethod
    @contextmanager
    def apart(own: Watched, thread: Watched) -> Iterator[None]:
        """Two threads on separate cores, if available, that exchange the lock often."""
        cores, theirs = os.sched_getaffinity(own.native), os.sched_getaffinity(thread.native)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(INTERVAL)
        try:
            if len(cores) > 1:
                # on one core, waiting for the other thread looks like waiting for the lock
                os.sched_setaffinity(own.native, {max(cores)})
                os.sched_setaffinity(thread.native, cores - {max(cores)})
            yield
        finally:
            sys.setswitchinterval(interval)
            os.sched_setaffinity(own.native, cores)
            with suppress(OSError):
                os.sched_setaffinity(thread.native, theirs)
