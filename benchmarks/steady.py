"""The time between frames of a warm program, in runs without disturbance.

The ratio of two runs in turns is only fair if a disturbance hits both alike. Threads that spin
share a core differently from threads that sleep: a network alone has to be measured while no other
process computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from flowc.profiling.measure import run_build
from paired import Others

#: This share of a run does not count: caches fill, pipelines too.
WARM_UP = 0.25
#: A run has so many frames, within these seconds.
FRAMES, SHORTEST, LONGEST = 60, 3.0, 10.0
#: Others may take this share of the machine (it is less than the clock of the kernel can tell in a
#: short run).
MOST = 0.04
#: Seconds without others before a run begins, and seconds of waiting after which a run counts as it
#: is.
CALM, PATIENCE = 1.0, 300.0


def long_enough(period_ns: float) -> float:
    """Seconds for a run."""
    return min(max(FRAMES * period_ns / 1e9, SHORTEST), LONGEST)


def program(build: Path, seconds: float) -> float:
    """ns between frames of a generated program with one app."""
    (period,) = run_build(build, seconds, strict=False).period_ns.values()
    return period


def loop(frame: Callable[[], object], seconds: float) -> float:
    """ns between frames of a function that is called again and again."""
    begin = now = time.perf_counter()
    while now < begin + seconds * WARM_UP:
        frame()
        now = time.perf_counter()
    first, count = now, 0
    while now < begin + seconds or not count:
        frame()
        now, count = time.perf_counter(), count + 1
    return 1e9 * (now - first) / count


class Watch(Others):
    """How much of the machine others took since this was made."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        seconds, busy = time.monotonic() - self._begin[0], self._busy() - self._begin[1]
        return max(busy, 0.0) / (seconds * (os.cpu_count() or 1))


class Quiet:
    """Calls functions while no other process computes, again if one did; counts the
    disturbances."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self.runs = self.repeated = self.disturbed = 0

    def wait(self) -> None:
        """Wait until no other process has computed for a moment, or for a limited time."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            watch = Watch()
            time.sleep(CALM)
            if watch.share <= MOST:
                return

    def run(self, call: Callable[[], float]) -> float:
        """What the call returns of a run that was left alone."""
        deadline = time.monotonic() + self._patience
        self.runs += 1
        while True:
            self.wait()
            watch = Watch()
            value = call()
            if watch.share <= MOST:
                return value
            if time.monotonic() > deadline:
                self.disturbed += 1
                return value
            self.repeated += 1

    def side(self, call: Callable[[], float]) -> Callable[[], float]:
        """The same call, but left alone."""
        return lambda: self.run(call)

    def text(self) -> str:
        """In words."""
        return (
            f"{self.runs} runs; others disturbed {self.repeated}, which were repeated, and"
            f" {self.disturbed} that count"
        )
