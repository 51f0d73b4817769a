"""How much of a task holds the interpreter, in a time of the test's own: a lock, two threads, and
who has a core."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from flowc.profiling.there.interpreter import INTERVAL, Holding, MachineClocks, held_share

from limits import HANGS, ended

US, MS = 1_000, 1_000_000
TICK = 4 * US
#: What a thread does, for how many ns, and the task whose firing ends with it. With the lock
#: ("python"), without it ("library"), or asleep.
Part = tuple[str, int, str]


class Simulated(MachineClocks):
    """A thread that does these parts again and again, and the contender, which reads these clocks.

    One that wants the lock while the other one has it waits for it INTERVAL long. Of every ten
    ticks other programs take `taken` on the core of the thread; every 5 ms they take the
    contender's for `away` ns.
    """

    def __init__(self, *parts: Part, taken: int = 0, away: int = 0) -> None:
        self._parts, self._taken, self._away = cycle(parts), taken, away
        self._doing, self._left, self._task = next(self._parts)
        self._now = self._used = self._ready = self._queued = self._lost = self._steps = (
            self._wanted
        ) = 0
        self._asked = False
        self._holding = Holding(self)
        self._holding.fired("")

    def shares(self, seconds: float = 0.5) -> dict[str, float]:
        """The shares that a watch of so many seconds finds."""
        self._holding.watch(seconds)
        return self._holding.shares()

    def _tick(self, lock: bool) -> None:
        """Time passes. Can the thread have the lock?"""
        self._now += TICK
        if self._doing == "python" and not lock:
            return
        if self._doing != "asleep":
            if self._now // TICK % 10 < self._taken:
                self._ready += TICK
                return
            self._used += TICK
            self._steps += self._doing == "python"
        self._left -= TICK
        if self._left <= 0:
            task = self._task
            self._doing, self._left, self._task = next(self._parts)
            if task:
                self._holding.fired(task)

    def _for(self, ns: int, lock: bool) -> None:
        end = self._now + ns
        while self._now < end and (self._doing == "python" or not lock):
            self._tick(lock)

    # -- the clocks --------------------------------------------------------------------------------
    def wall(self) -> int:  # type: ignore[override]
        return self._now

    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        for _ in range(int(1e9 * seconds) // TICK):
            self._tick(lock=True)

    def look(self, thread: object) -> tuple[int, int]:  # type: ignore[override]
        before = self._now
        self._tick(lock=False)
        if self._away and self._now // (5 * MS) > before // (5 * MS):
            self._for(self._away, lock=False)
            self._queued += self._away
        self._wanted = self._wanted + self._now - before if self._doing == "python" else 0
        if self._wanted >= 1e9 * INTERVAL:
            self._wanted = 0
            self._lost += 1
            self._for(int(1e9 * INTERVAL), lock=True)
        return self._now, self._used

    def apart(self, own: object, thread: object) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()

    def thread(self) -> Any:
        """The one that fires asks first."""
        ready = (lambda: self._queued) if self._asked else (lambda: self._ready)
        self._asked = True
        return SimpleNamespace(
            ident=threading.get_ident(),
            cpu=lambda: self._used,
            delay=ready,
            place=lambda: (0, self._steps),
            waits=lambda: self._lost,
            close=lambda: None,
        )


@pytest.mark.parametrize(
    ("parts", "share"),
    [
        ([("python", 700 * US, "a")], 1.0),
        ([("library", 2 * MS, "a")], 0.0),
        ([("python", 8 * US, ""), ("asleep", 2 * MS, "a")], 0.0),
        ([("python", 2 * MS, ""), ("asleep", 2 * MS, "a")], 0.5),
        ([("python", 3 * MS, ""), ("library", 3 * MS, "a")], 0.5),
        ([("python", 2 * MS, ""), ("library", 6 * MS, "a")], 0.25),
        ([("python", 100 * MS, "a")], 1.0),  # one firing may outlast many changes
        ([("python", MS, ""), ("asleep", 70 * MS, "a")], 0.0),
    ],
)
@pytest.mark.parametrize("taken", [0, 5])
@pytest.mark.parametrize("away", [0, 2 * MS])
def test_the_held_share_is_what_is_computed_with_the_lock(
    parts: list[Part], share: float, taken: int, away: int
) -> None:
    """Waiting by itself counts as without it; that others take half a core or two fifths of the
    other counts nothing."""
    found = Simulated(*parts, taken=taken, away=away).shares()
    assert found == pytest.approx({"a": share}, abs=0.08)


def test_tasks_of_one_thread_have_held_shares_of_their_own() -> None:
    product = [("python", 100 * US, ""), ("library", 900 * US, "product")]
    found = Simulated(
        ("python", 2 * MS, "python"), *product, ("python", 8 * US, ""), ("asleep", MS, "camera")
    ).shares()
    assert found == pytest.approx({"python": 1.0, "product": 0.1, "camera": 0.0}, abs=0.08)


# -- on this machine -------------------------------------------------------------------------------
def test_looking_on_changes_nothing_for_good() -> None:
    before = sys.getswitchinterval(), os.sched_getaffinity(0)
    share = held_share(lambda: sum(range(1000)), 0.1)
    assert share is None or 0.0 <= share <= 1.0
    Holding().watch(0.01)  # no task fires
    assert (sys.getswitchinterval(), os.sched_getaffinity(0)) == before


def test_several_threads_have_no_held_shares() -> None:
    holding, all_fired = Holding(), threading.Barrier(3)

    def fire() -> None:
        holding.fired("")
        all_fired.wait(HANGS)

    threads = [threading.Thread(target=fire) for _ in range(2)]
    for one in threads:
        one.start()
    all_fired.wait(HANGS)
    ended(*threads)
    holding.watch(0.01)  # the thread is gone
    assert holding.shares() == {}
