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
import traceback
from collections.abc import Collection
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Optional

from .full import Watched, watch
from .interpreter import Holding
from .ready import Fired, Need, counts_of, times_since_ready
from .samples import Spread, go_on

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


#: Nanoseconds after which a source waits for something rare.
RARE = 500_000_000


class _Times:
    """Replaces the tracer: keeps durations by task. A run of a batch may compute fewer firings than
    it stands for, where tokens are missing: these share its time."""

    def __init__(self) -> None:
        self.samples: dict[str, list[int]] = {}
        #: Durations of whole runs of networks with a batch, by how many firings they compute.
        self.runs: dict[str, dict[int, list[int]]] = {}
        self._before: dict[str, int] = {}
        self.spreads: dict[str, Spread] = {}
        self.holding: Holding | None = None

    def firing(
        self, processor: str, task: Any, firing: int, group: int, start: int, end: int
    ) -> None:
        if self.holding is not None:  # deliberate contention: no sample
            self.holding.fired(task.name)
            return
        name = task.name
        computed = max(1, min(group, task.firings - self._before.get(name, 0)))
        self._before[name] = task.firings
        ns = (end - start) // computed
        if name not in self.samples:
            self.samples[name], self.spreads[name] = [], Spread()
        # the first run counts once, since the first sample is left out
        self.samples[name] += [ns] * (computed if self.samples[name] else 1)
        self.spreads[name].add(ns)
        if task.code.batch > 1:
            runs = self.runs.setdefault(name, {})
            runs.setdefault(computed, []).append(end - start)

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
        self.events: list[Fired] = []

    def firing(
        self, processor: str, task: Any, firing: int, group: int, start: int, end: int
    ) -> None:
        self.events.append(Fired(end, start, task.name, firing, group, threading.get_ident()))

    def summed_up(self, program: Any) -> None:
        """Fill `samples`."""
        tasks = {t.name: t for app in program.apps for t in app.tasks}
        needs = _needs(list(tasks.values()), counts_of(self.events, tasks))
        live = {t.name for t in tasks.values() if t.live}
        sources = [t for t in tasks.values() if t.is_source and not t.live]
        paced = [t for t in sources if t.app.period is not None]
        released = {t.name: partial(_release, program.run.begin, t) for t in paced}
        self.samples = times_since_ready(self.events, needs, released, live)


def _release(begin: int, task: Any, firing: int) -> int:
    """When a firing of a source was released."""
    return begin + int(firing * task.app.period / task.per_iteration)


def _needs(tasks: list[Any], counts: dict[str, int]) -> dict[str, list[Need]]:
    """By task; `counts` are the firings of each."""
    makers: dict[int, tuple[str, list[int]]] = {}
    for task in tasks:
        for port, channels in zip(task.outputs, task.readers):
            made = _totals(port, counts[task.name])
            makers.update((id(channel), (task.name, made)) for channel in channels)
    needs: dict[str, list[Need]] = {}
    for task in tasks:
        needs[task.name] = []
        for port, channel in zip(task.inputs, task.feeders):
            taken = _totals(port, counts[task.name])
            needs[task.name].append(Need(*makers[id(channel)], taken, channel.delay))
    return needs


def _totals(port: Any, firings: int) -> list[int]:
    """The tokens of a port after each firing."""
    return list(accumulate(port.rate(k) for k in range(firings)))


class _Load:
    """The CPU time of this process's threads, and the time in which they were ready but had no
    core."""

    def __init__(self) -> None:
        self.seen = self._read()

    @staticmethod
    def _read() -> dict[str, tuple[int, int]]:
        threads = {}
        for file in Path("/proc/self/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):
                # a thread that has just ended, or a kernel without it
                computed, waited, _ = file.read_text().split()
                threads[file.parent.name] = int(computed), int(waited)
        return threads

    def delayed(self, below: Collection[str] = ()) -> float:
        """The share of the time since then in which ready threads had no core, without those that
        are `below` others of the program, for which they wait."""
        computed = waited = 0
        for thread, (computed_now, waited_now) in self._read().items():
            if thread in below:
                continue
            computed_then, waited_then = self.seen.get(thread, (0, 0))
            computed += computed_now - computed_then
            waited += waited_now - waited_then
        return waited / (computed + waited) if waited else 0.0


def _is_below(worker: Any) -> bool:
    """Is it in the background?"""
    return worker.scheduling is not None and worker.scheduling.below


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
        periods = {}
        for app, (frames, end), (frames_later, end_later) in zip(self._apps, self.seen, later.seen):
            if frames_later > frames and end:
                periods[app.name] = (end_later - end) / (frames_later - frames)
        return periods


class _Watch:
    """Ends a run when it has been watched for long enough: a thread of its own."""

    def __init__(
        self, program: Any, seconds: float, times: Optional[_Times], *, silence: bool
    ) -> None:
        self._program, self._seconds = program, seconds
        #: May an app have no data as long as it is measured?
        self._silence = silence
        #: The times of tasks, if these are to be measured, with who holds the interpreter.
        self._times = times
        self._marks: list[_Frames] = []
        self._before = _Load()
        #: See `_Load`.
        self.delayed = 0.0
        self._failure: type = importlib.import_module("runtime.failures").Failure

    def start(self) -> None:
        """Begin to watch; the program is started after it."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        """Without this thread the program would go on for ever."""
        try:
            self._stop_when_seen()
        except BaseException:
            reason = f"internal error: {traceback.format_exc()}"
            self._program.run.fail(self._failure("", "", None, reason))

    def _stop_when_seen(self) -> None:
        """Wait for the time, until every app has finished a frame or waits for data, and until the
        times of tasks are known, within limits."""
        program = self._program
        time.sleep(self._seconds * WARM_UP)
        self._marks.append(_Frames(program.apps))
        time.sleep(self._seconds * (1 - WARM_UP))
        give_up = time.monotonic() + max(LONGEST_FRAME, 10 * self._seconds)
        while waiting := [a for a in program.apps if a.frames == 0 and a.limit > 0]:
            over = time.monotonic() > give_up
            enough = any if over else all  # a source that is not live holds up other apps
            if self._silence and enough(self._has_no_data(app, over) for app in waiting):
                break
            if over:
                reason = f"no frame of {waiting[0].name} was finished; {program.run.who_waits()}"
                program.run.fail(self._failure("", "", None, reason))
                return
            time.sleep(0.05)
        if self._times is not None:
            self._go_on(self._times, give_up)
        self._marks.append(_Frames(program.apps))
        below = {str(w.native_id) for w in program.run.workers if _is_below(w)}
        self.delayed = self._before.delayed(below)
        if self._times is not None:
            self._times.holding = Holding()
            self._times.holding.watch(HOLDING)
        program.run.interrupts += 1

    def _has_no_data(self, app: Any, over: bool) -> bool:
        """Has a source of the app waited for a while, one that is `live` unless the time is over?
        What triggers it may be rare."""
        for worker in self._program.run.workers:
            firing = worker.firing
            if firing is not None and firing[0].app is app and firing[0].is_source:
                waits = time.perf_counter_ns() - firing[2] > RARE
                return waits and (over or firing[0].live)
        return False

    def _go_on(self, times: _Times, give_up: float) -> None:
        """Wait until the times of tasks are known well enough, or that takes too long. The tasks of
        apps whose streams have ended fire no more."""
        begin = time.monotonic()
        while True:
            running = [f"{a.name}." for a in self._program.apps if a.done < a.limit]
            worth = go_on(s for n, s in list(times.spreads.items()) if n.startswith(tuple(running)))
            if time.monotonic() >= min(give_up, begin + worth * self._seconds):
                return
            time.sleep(0.05)

    def periods(self) -> dict[str, float]:
        """Mean time between frames in ns, by app."""
        apps = self._program.apps
        first, last = (*self._marks, _Frames(apps), _Frames(apps))[:2]
        periods = first.period_ns(last)
        for app in apps:  # a stream that ended early, or few frames: use everything
            if app.name not in periods and app.frames > 0 and app.first_start is not None:
                periods[app.name] = (app.last_end - app.first_start) / app.frames
        return periods


def _loaded(directory: str) -> Any:
    """The module of a build's main.py."""
    path = os.path.join(directory, "main.py")
    spec = importlib.util.spec_from_file_location("measured_program", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(directory: str, seconds: str, output: str, mode: str) -> int:
    """Run for about `seconds`; the output gets the samples and the periods, or the failure in
    words.

    `mode`: at full speed with checked results ("strict"), without checks (""), or at its own pace
    ("paced").
    """
    sys.stdout = sys.stderr  # tasks may print; that is not this program's output
    strict, paced = mode == "strict", mode == "paced"
    program = _loaded(directory).program()
    # the copy in the build, found by its main.py
    importlib.import_module("runtime.ends").feed(program)
    importlib.import_module("runtime.supervisor").supervise(program.run, WATCHDOG)
    times = _Paced() if paced else _Times()
    if mode:
        # otherwise single firings are not needed, and a tracer would only slow the program down
        program.run.tracer = times
    # one thread fires everything if strict: its hold on the interpreter can be measured
    watched = watch(program.tasks) if strict else {}
    watching = _Watch(program, float(seconds), times if strict else None, silence=bool(mode))
    watching.start()
    execute = importlib.import_module("runtime.lifecycle").execute
    good = execute(
        program, full_speed=not paced, strict=strict, watchdog=WATCHDOG, drain=float("inf")
    )
    if isinstance(times, _Paced):
        times.summed_up(program)
    skipped = [told for told in (app.without_results() for app in program.apps) if told]
    if not good:
        document = {"failure": f"{program.run.failure.details}{program.run.failure}"}
    elif skipped:
        document = {"failure": "\n".join(skipped)}
    else:
        document = {**_measured(program, times, watching), **_full(program, times, watched)}
    Path(output).write_text(json.dumps(document))
    program.run.cells.leave(0)
    return 0


def _measured(program: Any, times: _Times, watching: _Watch) -> dict[str, Any]:
    """What was seen of a program that has ended well, as a document."""
    return {
        "samples": times.samples,
        **_of_tasks([t for app in program.apps for t in app.tasks]),
        "held": {} if times.holding is None else times.holding.shares(),
        "period_ns": watching.periods(),
        **_of_apps(program.apps),
        "busy": _busy(program),
        "delayed": watching.delayed,
    }


def _full(program: Any, times: _Times, watched: dict[str, Watched]) -> dict[str, Any]:
    """With how much tasks have fired that may fire with less than bounds count, and times of
    firings with as much."""
    beat = program.run.cells.beat
    runs = {name: [*by_size.items()] for name, by_size in times.runs.items()}
    for name, task in watched.items():
        runs[name] = [*runs.get(name, ()), *task.runs(beat).items()]
    full = {name: task.full(beat) for name, task in watched.items()}
    return {
        "runs": {name: found for name, found in runs.items() if found},
        "full": {name: found for name, found in full.items() if found},
        "counts": {n: [(p, *c) for p, c in t.counts.items()] for n, t in watched.items()},
    }


def _of_tasks(tasks: list[Any]) -> dict[str, Any]:
    """What was seen of tasks."""
    return {
        "mean_ns": {t.name: t.busy / t.firings for t in tasks if t.firings},
        "fired": {t.name: t.firings / (t.firings + t.absent) for t in tasks if t.absent},
        "lists": {t.name: _lists(t) for t in tasks if t.lists is not None},
        "waits": [t.name for t in tasks if t.is_source and not t.live and _waits(t)],
    }


def _of_apps(apps: list[Any]) -> dict[str, Any]:
    """What was seen of apps."""
    finished = [a for a in apps if a.frames]
    return {
        "latency_ns": {a.name: median(a.latencies) for a in finished if a.latencies},
        "longest_ns": {a.name: a.longest_latency for a in finished},
        "frames": {a.name: a.frames - a.skipped + a.not_begun for a in apps},
        "misses": {a.name: a.misses for a in apps},
        "paths": {a.name: [_path(p) for p in a.paths] for a in apps},
    }


def _lists(task: Any) -> list[tuple[str, float, int]]:
    """The lists that a task has written: port, tokens in one on average, and at most."""
    written = task.lists.told(task.outputs).get("lists", {})
    return [(port, seen["mean"], seen["most"]) for port, seen in written.items() if seen["written"]]


def _path(path: Any) -> tuple[Optional[float], int, int]:
    """The longest latency of a path, if there was any, how many there were, and how many of them
    too long."""
    return path.longest if path.count else None, path.count, path.misses


def _busy(program: Any) -> dict[str, float]:
    """The share of the time in which processors fired tasks."""
    busy: dict[str, float] = {}
    for worker in program.run.workers:
        share = worker.busy / 1e9 / program.run.seconds
        busy[worker.processor] = busy.get(worker.processor, 0.0) + share
    return busy


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
