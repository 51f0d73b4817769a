"""Runs a build and writes the times of firings and frames: a separate process, because it runs the
user's code."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from bisect import bisect_left
from itertools import accumulate
from pathlib import Path
from typing import Any

from .interpreter import Holding

#: Seconds for the first frame.
LONGEST_FRAME = 30.0
#: Seconds for a start, a firing or a close.
WATCHDOG = 60.0
#: The share of the time before frames are counted: caches fill, pipelines too.
WARM_UP = 0.25
#: Seconds for watching which task holds the interpreter.
HOLDING = 0.5
#: Nanoseconds of a firing in which a source may wait without counting as waiting for data.
WAITING = 1_000_000
#: Nanoseconds in which it may wait in total: few firings that other tasks have delayed prove
#: nothing.
WAITING_IN_ALL = 50_000_000


class _Times:
    """Replaces the tracer: keeps durations by task."""

    def __init__(self) -> None:
        self.samples: dict[str, list[int]] = {}
        self.holding: Holding | None = None

    def firing(
        self, processor: str, task: Any, firing: int, group: int, start: int, end: int
    ) -> None:
        if self.holding is not None:  # deliberate contention: no sample
            self.holding.fired(task.name)
            return
        self.samples.setdefault(task.name, []).append((end - start) // group)

    def release(self, *told: Any) -> None:
        """Not needed: the period gives the release of a source."""

    def frame(self, *told: Any) -> None:
        """Not needed: frames are counted elsewhere."""

    def late(self, *told: Any) -> None:
        """Not needed: deadlines are counted elsewhere."""


class _Paced(_Times):
    """Keeps the times of firings from when they were ready, including the overheads of runtime and
    kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[int, int, str, int, int, int]] = []

    def firing(
        self, processor: str, task: Any, firing: int, group: int, start: int, end: int
    ) -> None:
        self.events.append((end, start, task.name, firing, group, threading.get_ident()))

    def summed_up(self, program: Any) -> None:
        """Fill `samples`.

        A firing was ready when its worker had finished the one before, and the firing that made its
        last token had ended; that of a source, when it was released.
        """
        tasks = {t.name: t for app in program.apps for t in app.tasks}
        ends = {
            (name, firing + k): end
            for end, _, name, firing, group, _ in self.events
            for k in range(group)
        }
        counts: dict[str, int] = {}
        for name, firing in ends:
            counts[name] = max(counts.get(name, 0), firing + 1)
        makers = {
            id(c): (t, port)
            for t in tasks.values()
            for port, cs in zip(t.outputs, t.readers)
            for c in cs
        }
        made: dict[int, list[int]] = {}
        for channel, (task, port) in makers.items():
            made[channel] = list(accumulate(port.rate(k) for k in range(counts.get(task.name, 0))))
        needed: dict[str, list[tuple[str, list[int], list[int], int]]] = {}
        for task in tasks.values():
            for port, channel in zip(task.inputs, task.feeders):
                maker, _ = makers[id(channel)]
                taken = list(accumulate(port.rate(k) for k in range(counts.get(task.name, 0))))
                needed.setdefault(task.name, []).append(
                    (maker.name, made[id(channel)], taken, channel.delay)
                )
        before: dict[int, int] = {}
        for end, start, name, firing, group, thread in sorted(self.events):
            task = tasks[name]
            ready = before.get(thread, 0)
            before[thread] = end
            if task.is_source and task.app.period is not None:
                ready = max(
                    ready, program.run.begin + int(firing * task.app.period / task.per_iteration)
                )
            for maker, totals, taken, delay in needed.get(name, ()):
                wanted = taken[firing + group - 1] - delay
                if wanted > 0:  # otherwise initial tokens were enough
                    ready = max(ready, ends.get((maker, bisect_left(totals, wanted)), 0))
            self.samples.setdefault(name, []).append((end - min(start, ready or start)) // group)


class _Load:
    """The CPU time of this process's threads, and the time in which they were ready but had no
    core."""

    def __init__(self) -> None:
        self.seen = self._read()

    @staticmethod
    def _read() -> dict[str, tuple[int, int]]:
        found = {}
        for file in Path("/proc/self/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):
                # a thread that has just ended, or a kernel without it
                computed, waited, _ = file.read_text().split()
                found[file.parent.name] = int(computed), int(waited)
        return found

    def delayed(self) -> float:
        """The share of the time since then in which ready threads had no core."""
        computed = waited = 0
        for thread, (c, w) in self._read().items():
            c0, w0 = self.seen.get(thread, (0, 0))
            computed, waited = computed + c - c0, waited + w - w0
        return waited / (computed + waited) if waited else 0.0


def _waits(task: Any) -> bool:
    """Does a source wait for most of its time, and for more than a moment?"""
    return bool(task.waited > max(task.busy / 2, task.firings * WAITING, WAITING_IN_ALL))


class _Frames:
    """The end of the last frame of each app, and the number of frames until then."""

    def __init__(self, apps: Any) -> None:
        self._apps = apps
        self.seen = [(a.frames, a.last_end) for a in apps]

    def period_ns(self, later: _Frames) -> dict[str, float]:
        """Mean time between frames from then on, for apps that had at least one more."""
        found = {}
        for app, (n, t), (m, u) in zip(self._apps, self.seen, later.seen):
            if m > n and t:
                found[app.name] = (u - t) / (m - n)
        return found


def main(directory: str, seconds: str, output: str, mode: str) -> int:
    """Run for about `seconds`; the output gets the samples and the periods, or the failure in
    words.

    `mode`: at full speed with checked results ("strict"), without checks (""), or at its own pace
    ("paced").
    """
    sys.stdout = sys.stderr  # tasks may print; that is not this program's output
    spec = importlib.util.spec_from_file_location(
        "measured_program", os.path.join(directory, "main.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # the copy in the build, found by its main.py
    failures = importlib.import_module("runtime.failures")
    program = module.program()
    importlib.import_module("runtime.ends").feed(program)
    importlib.import_module("runtime.keeper").keep(program.run, WATCHDOG)
    paced = mode == "paced"
    times = _Paced() if paced else _Times()
    if mode:
        # otherwise single firings are not needed, and a tracer would only slow the program down
        program.run.tracer = times
    marks: list[_Frames] = []
    before = _Load()
    delayed: list[float] = []

    def stop_when_seen() -> None:
        """Wait for the time, and until every app has finished a frame, within a limit."""
        wanted = float(seconds)
        time.sleep(wanted * WARM_UP)
        marks.append(_Frames(program.apps))
        time.sleep(wanted * (1 - WARM_UP))
        give_up = time.monotonic() + max(LONGEST_FRAME, 10 * wanted)
        while waiting := [a.name for a in program.apps if a.frames == 0 and a.limit > 0]:
            if time.monotonic() > give_up:
                said = f"no frame of {waiting[0]} was finished; {program.run.who_waits()}"
                program.run.fail(failures.Failure("", "", None, said))
                return
            time.sleep(0.05)
        marks.append(_Frames(program.apps))
        delayed.append(before.delayed())
        if mode == "strict":
            # one thread fires everything: its hold on the interpreter can be measured
            times.holding = Holding()
            times.holding.watch(HOLDING)
        program.run.interrupts += 1

    threading.Thread(target=stop_when_seen, daemon=True).start()
    good = importlib.import_module("runtime.lifecycle").execute(
        program,
        full_speed=not paced,
        strict=mode == "strict",
        watchdog=WATCHDOG,
        drain=float("inf"),
    )
    if isinstance(times, _Paced):
        times.summed_up(program)
    if not good:
        document: dict[str, Any] = {
            "failure": f"{program.run.failure.details}{program.run.failure}"
        }
    else:
        first, last = (*marks, _Frames(program.apps), _Frames(program.apps))[:2]
        periods = first.period_ns(last)
        for app in program.apps:  # a stream that ended early, or few frames: use everything
            if app.name not in periods and app.frames > 0 and app.first_start is not None:
                periods[app.name] = (app.last_end - app.first_start) / app.frames
        busy: dict[str, float] = {}
        for worker in program.run.workers:
            busy[worker.processor] = (
                busy.get(worker.processor, 0.0) + worker.busy / 1e9 / program.run.seconds
            )
        latency = {a.name: a.total_latency / a.frames for a in program.apps if a.frames}
        held = times.holding.shares() if times.holding is not None else {}
        tasks = [t for app in program.apps for t in app.tasks]
        document = {
            "samples": times.samples,
            "mean_ns": {t.name: t.busy / t.firings for t in tasks if t.firings},
            "held": held,
            "waits": [t.name for t in tasks if t.is_source and not t.live and _waits(t)],
            "period_ns": periods,
            "latency_ns": latency,
            "longest_ns": {a.name: a.longest_latency for a in program.apps if a.frames},
            "frames": {a.name: a.frames for a in program.apps},
            "misses": {a.name: a.misses for a in program.apps},
            "paths": {
                a.name: [(p.longest if p.count else None, p.count, p.misses) for p in a.paths]
                for a in program.apps
            },
            "busy": busy,
            "delayed": delayed[0] if delayed else 0.0,
        }
    Path(output).write_text(json.dumps(document))
    program.run.board.leave(0)
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
