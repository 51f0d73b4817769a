"""Firings of a network that are computed in one run, as the analysis has them: one firing.

In: a timed system whose tasks fire one by one, and how many firings each run of a task computes.
Out: the same with runs as firings. A run begins when the tokens of all its firings are there, takes
as long as these together, and hands on all results at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from ...model.deployment import DeployedWorker
from .system import (
    RoundFiring,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedSystem,
    TimedTask,
    TimedWorker,
    per_iteration,
)

#: By task, the firings of each run of an iteration, in order.
Runs = Mapping[str, tuple[int, ...]]


def runs_of(workers: Iterable[DeployedWorker], batches: Mapping[str, int]) -> Runs:
    """The runs of tasks with a batch: no run goes beyond an entry of an order."""
    runs: dict[str, dict[int, int]] = {}
    for worker in workers:
        for entry in worker.order:
            batch, end = batches.get(entry.task, 1), entry.first + entry.times
            if batch > 1:
                for first in range(entry.first, end, batch):
                    runs.setdefault(entry.task, {})[first] = min(batch, end - first)
    found = {task: tuple(n for _, n in sorted(of.items())) for task, of in runs.items()}
    return {task: sizes for task, sizes in found.items() if max(sizes) > 1}


def in_runs(system: TimedSystem, runs: Runs) -> TimedSystem:
    """The system with runs as firings."""
    if not runs:
        return system
    return replace(
        system,
        groups=tuple(_group(group, runs) for group in system.groups),
        workers=tuple(_worker(worker, runs) for worker in system.workers),
    )


def _group(group: TimedGroup, runs: Runs) -> TimedGroup:
    firings = {task.name: task.firings for task in group.tasks}
    return replace(
        group,
        tasks=tuple(_task(t, runs[t.name]) if t.name in runs else t for t in group.tasks),
        channels=tuple(_channel(channel, firings, runs) for channel in group.channels),
        paths=tuple(_path(path, runs) for path in group.paths),
    )


def _task(task: TimedTask, sizes: tuple[int, ...]) -> TimedTask:
    """A curve of single firings says nothing of runs. Each of several kernels takes as long as all
    of its firings."""
    if len(task.wcet) > 1:
        wcet = tuple(max(sizes) * ns for ns in task.wcet)
        return replace(task, wcet=wcet, bcet=(), firings=len(sizes), curve=None)
    times = tuple(
        sum(task.parts(k)[0] for k in range(first, first + size))
        for first, size in zip(_firsts(sizes), sizes, strict=True)
    )
    phases = times if len(set(times)) > 1 else ()
    return replace(task, wcet=(max(times),), bcet=(), firings=len(sizes), curve=None, phases=phases)


def _firsts(sizes: tuple[int, ...]) -> list[int]:
    """The first firing of each run."""
    return [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _channel(channel: TimedChannel, firings: Mapping[str, int], runs: Runs) -> TimedChannel:
    return replace(
        channel,
        produced=_rates(channel.produced, channel.source, firings, runs),
        consumed=_rates(channel.consumed, channel.destination, firings, runs),
    )


def _rates(
    rates: tuple[int, ...], task: str, firings: Mapping[str, int], runs: Runs
) -> tuple[int, ...]:
    """The tokens of each run."""
    if task not in runs:
        return rates
    single = per_iteration(rates, firings[task])
    sizes = runs[task]
    return tuple(
        sum(single[first : first + size]) for first, size in zip(_firsts(sizes), sizes, strict=True)
    )


def _path(path: TimedPath, runs: Runs) -> TimedPath:
    """The end of a run is that of its firing with the oldest data."""
    if path.sink not in runs:
        return path
    sizes = runs[path.sink]
    newest = tuple(
        min(path.newest[first : first + size])
        for first, size in zip(_firsts(sizes), sizes, strict=True)
    )
    return replace(path, newest=newest)


def _worker(worker: TimedWorker, runs: Runs) -> TimedWorker:
    numbers = {
        task: {first: number for number, first in enumerate(_firsts(sizes))}
        for task, sizes in runs.items()
    }
    sequence: list[RoundFiring] = []
    for firing in worker.sequence:
        number = numbers.get(firing.task, {firing.firing: firing.firing}).get(firing.firing)
        if number is not None:
            sequence.append(replace(firing, firing=number))
    return replace(worker, sequence=tuple(sequence))
