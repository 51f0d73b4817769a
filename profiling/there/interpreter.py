"""How much of its firing time a task holds the interpreter lock: 0 is code that releases it, 1 is pure Python.

In: word of every firing, from the thread that fires. Out: a share for each task. What follows from it, such as a
process of its own, is decided elsewhere.

A second thread wants the lock all the time and keeps looking at the CPU clock of the firing thread: what that thread
computes while the lock is here, it computes without it; what it has computed when the lock comes back, it has
computed with it. CPU clocks stand still while a thread waits, for the lock or for a core, so that neither the
contention nor other processes on the machine count. What waits by itself, for a device or for a time, is told apart
in stretches without contention in between.

On two cores that others hardly use, half a second gives 0.9 to 1 for pure Python, 0 to 0.1 for long calls that
release the lock, and 0.1 to 0.3 for calls of a tenth of a millisecond, because the second thread needs some time to
notice that it can have the lock. With twice as many busy threads as cores: 0.7, 0.1 and 0.6.
`python benchmarks/held_shares.py` measures them.
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

#: Seconds after which the lock has to be given away; so long the firing thread waits for it, each time.
INTERVAL = 0.0005
#: Seconds without and with contention, in turns.
ALONE, CONTENDING = 0.03, 0.03
#: A step of the contender that takes longer (ns) may be one in which it was without the lock.
STEP = 5_000


def held_share(fire: Callable[[], object], seconds: float = 0.5) -> float | None:
    """The share for something that can be called again and again, in this thread; None if too little was seen."""
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

    `delay` is waiting for a core; of `unclear` nobody knows whether it was computed with the lock or without.
    """

    wall: int = 0
    cpu: int = 0
    delay: int = 0
    contended_cpu: int = 0
    released: int = 0
    unclear: int = 0

    def add(self, other: _Spent) -> None:
        """After every firing: this has to be quick."""
        self.wall += other.wall
        self.cpu += other.cpu
        self.delay += other.delay
        self.contended_cpu += other.contended_cpu
        self.released += other.released
        self.unclear += other.unclear

    def share(self) -> float | None:
        """None when too little was seen."""
        clear = self.contended_cpu - self.unclear
        if clear <= 0 or self.wall <= 0:
            return None
        computing = self.cpu / max(self.cpu, self.wall - self.delay, 1)
        return min(1.0, max(0.0, (1 - self.released / clear) * computing))


class Holding:
    """The shares of tasks that one thread fires one after the other, while another one is in `watch`.

    What the firing thread does between two firings counts for the later one.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._tasks: dict[str, _Spent] = {}
        self._open = _Spent()  # since the last firing
        self._firings = self._before = 0
        self._thread: Watched | None = None
        self._known = threading.Event()
        self._several = self._over = self._contending = False
        self._released = 0
        self._passed: list[tuple[int, int, _Spent]] = []  # firings since the contender was without the lock
        self._mark = (0, 0, 0)
        self._cutting = threading.Lock()  # either thread may lose the interpreter in the middle of it

    def fired(self, task: str) -> None:
        """A firing of that task is over; called by the thread that fired it. The first call only begins."""
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
        """Look on for about so long; called by another thread."""
        clocks = self._clocks
        end = clocks.wall() + int(1e9 * seconds)
        if not self._known.wait(seconds) or self._thread is None:
            return
        own, thread = clocks.thread(), self._thread
        with suppress(OSError, KeyError), clocks.apart(own, thread):  # when the thread is gone
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
        """By task, without those of which too little was seen. Empty when several threads fired."""
        if self._several:
            return {}
        found = {task: spent.share() for task, spent in self._tasks.items()}
        return {task: share for task, share in found.items() if share is not None}

    # -- where the times go --------------------------------------------------------------------------------------------
    def _now(self, thread: Watched) -> tuple[int, int, int]:
        if self._contending:
            return thread.cpu(), self._released, 0
        return thread.cpu(), self._clocks.wall(), thread.delay()

    def _cut(self, thread: Watched) -> None:
        """What was spent since the last cut goes to the firing that is under way."""
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
            # Whether it waits for a core just now, and since when, shows only when it has got one: without need, no
            # stretch ends where another thread says so.
            if self._contending or self._firings == self._before:
                self._cut(thread)
            self._contending, self._before = contending, self._firings
            self._mark = self._now(thread)

    # -- the contender -------------------------------------------------------------------------------------------------
    def _contend(self, end: int, own: Watched, thread: Watched) -> None:
        """Hold the lock whenever it can be had, and see when the other thread computes."""
        look, wall = self._clocks.look, self._clocks.wall
        waits, place, delay = own.waits(), (self._firings, thread.place()), own.delay()
        last, before = wall(), thread.cpu()
        while last < end:
            now, used = look(thread)
            if now - last <= STEP:
                self._released += used - before
            elif own.waits() != waits or (self._firings, thread.place()) != place:
                # This thread has waited, or the other one has moved on in its Python code: the lock was there.
                total = own.delay()
                now, used = wall(), thread.cpu()
                queued, delay = min(total - delay, now - last), total
                self._settle((last, before), (now, used), now - queued)
                waits, place = own.waits(), (self._firings, thread.place())
                now = wall()
            elif 10 * (used - before) > now - last:
                self._released += used - before  # the lock was here, only the core was not
            else:
                self._open.unclear += used - before  # it has only looked for the lock now and then
            last, before = now, used

    def _settle(self, begin: tuple[int, int], end: tuple[int, int], ready: int) -> None:
        """The lock was away from begin to end, each a wall and a CPU time.

        From `ready` on this thread could have had it, but had no core: what the other one computed then, it may have
        computed with it or without.
        """
        with self._cutting:
            for wall, cpu, spent in [*self._passed, (*end, self._open)]:
                if begin[0] < wall <= end[0]:
                    late = max(0, wall - max(begin[0], ready))
                    spent.unclear += (cpu - begin[1]) * late // (wall - begin[0])
                    begin = wall, cpu
            self._passed.clear()


class Watched:
    """The calling thread, for others to look at."""

    def __init__(self) -> None:
        self.ident, self.native = threading.get_ident(), threading.get_native_id()
        #: Its CPU time in ns.
        self.cpu: Callable[[], int] = partial(time.clock_gettime_ns, time.pthread_getcpuclockid(self.ident))
        try:
            self._delays = os.open(f"/proc/self/task/{self.native}/schedstat", os.O_RDONLY)
        except FileNotFoundError:  # not every kernel counts them
            self._delays = -1

    def delay(self) -> int:
        """How long it was ready and had no core, in ns."""
        return int(os.pread(self._delays, 99, 0).split()[1]) if self._delays >= 0 else 0

    def place(self) -> tuple[int, int]:
        """Where it is in its Python code. Raises KeyError when it has ended."""
        frame = sys._current_frames()[self.ident]
        return id(frame), frame.f_lasti

    def waits(self) -> int:
        """How often it has waited for something, asked by itself; the lock is all that a contender waits for."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

    def close(self) -> None:
        """Nobody looks any more."""
        if self._delays >= 0:
            os.close(self._delays)


class Clocks:
    """What is looked at on this machine. In a test time passes in another way."""

    wall = staticmethod(time.perf_counter_ns)
    sleep = staticmethod(time.sleep)
    thread = Watched

    @staticmethod
    def look(thread: Watched) -> tuple[int, int]:
        """Wall time and the thread's CPU time; a contender that has the lock does nothing else."""
        return time.perf_counter_ns(), thread.cpu()

    @staticmethod
    @contextmanager
    def apart(own: Watched, thread: Watched) -> Iterator[None]:
        """Two threads on cores of their own, as far as there are, that change the lock often."""
        cores, theirs = os.sched_getaffinity(own.native), os.sched_getaffinity(thread.native)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(INTERVAL)
        try:
            if len(cores) > 1:  # on one core, who waits for the other seems to wait for the lock
                os.sched_setaffinity(own.native, {max(cores)})
                os.sched_setaffinity(thread.native, cores - {max(cores)})
            yield
        finally:
            sys.setswitchinterval(interval)
            os.sched_setaffinity(own.native, cores)
            with suppress(OSError):
                os.sched_setaffinity(thread.native, theirs)
