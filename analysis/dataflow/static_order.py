"""Static orders of a mapped system: which processor fires what, one after the other, and how large
channels must be.

One global sequence of firings is built and projected on the processors. The sequence itself is a
valid sequential execution, and dataflow execution is monotone: processors that follow their
projections, on channels at least as large as the sequence needs, cannot deadlock.

Where an app is pipelined, a task behind a processor border works `stage` iterations behind
(retiming by whole iterations), so that both sides of the border are busy at once. Tasks of one
cycle share a stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm

from ...model.application import Application
from ...model.full_counts import run_sizes
from ...model.priorities import priorities
from .contracted import contracted
from .dependence import arrivals
from .order import Time, components, iteration_order, work_ahead

#: A round of several periodic apps has at most this many iterations in total; longer hyperperiods
#: have no round.
MOST_JOBS = 1000
#: Long runs of one task may take this much more channel memory than the shortest order.
CHEAP_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class OrderStep:
    """`times` firings of `task` from firing `first` of iteration (`round` x per_round + index -
    stage)."""

    app: str
    task: str
    times: int
    first: int
    stage: int
    replica: int
    replicas: int
    index: int
    per_round: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The step sequence of every processor, and the capacity of every channel in tokens."""

    orders: dict[str, tuple[OrderStep, ...]]
    capacities: dict[str, int]


class NoRound(Exception):
    """The periods of the apps have no short common multiple; the message names them."""


@dataclass(frozen=True, slots=True)
class AppOrder:
    """One iteration of an app as a sequence of runs, with the processors of its tasks.

    `stage[task]` is how many iterations the task works behind, `runs` are (task, times, first
    firing), `places[task]` are its processors, `capacities` the tokens that each channel has to
    hold.
    """

    app: Application
    stage: Mapping[str, int]
    runs: tuple[tuple[str, int, int], ...]
    places: Mapping[str, tuple[str, ...]]
    capacities: Mapping[str, int]


def app_order(
    app: Application,
    vector: Mapping[str, int],
    placement: Mapping[str, tuple[str, ...]],
    wcet_ns: Mapping[str, Time],
    in_one_stage: bool = False,
) -> AppOrder:
    """The order of one iteration of an app, which is pipelined unless it is to stay `in_one_stage`.

    `placement[task]` lists its processors (several = iterations alternate); `wcet_ns[task]` is the
    worst-case time of one firing there, where it is known. It decides whether a periodic app is
    pipelined, and what is urgent in it; an app without a period does not ask for it.
    """
    work: dict[str, Time] = {t.name: wcet_ns.get(t.name, 0) * vector[t.name] for t in app.tasks}
    pipelined = _pipelined(app, sum(work.values())) and not in_one_stage
    stage = _stages(app, placement, pipelined)
    runs, capacities = _sequence(app, vector, placement, stage, work)
    places = {t.name: placement[t.name] for t in app.tasks}
    return AppOrder(app, stage, tuple(runs), places, capacities)


def interleaved(apps: Iterable[AppOrder]) -> Schedule:
    """Orders and capacities for apps that share processors under static orders. Raises NoRound."""
    by_app = {a.app.name: a for a in apps}
    orders: dict[str, list[OrderStep]] = {}
    for app, index, per_round in _round([a.app for a in by_app.values()]):
        own = by_app[app.name]
        for task, times, first in own.runs:
            places = own.places[task]
            for r, processor in enumerate(places):
                step = OrderStep(
                    app.name, task, times, first, own.stage[task], r, len(places), index, per_round
                )
                orders.setdefault(processor, []).append(step)
    capacities: dict[str, int] = {}
    for own in by_app.values():
        capacities.update(own.capacities)
    return Schedule({p: _shortest(steps) for p, steps in orders.items()}, capacities)


def schedule(
    apps: Iterable[Application],
    repetition: Mapping[str, Mapping[str, int]],
    placement: Mapping[str, tuple[str, ...]],
    wcet_ns: Mapping[str, Time],
) -> Schedule:
    """Orders and capacities for apps that share processors under static orders; see `app_order`.
    Raises NoRound."""
    return interleaved([app_order(a, repetition[a.name], placement, wcet_ns) for a in apps])


def _pipelined(app: Application, work_ns: Time) -> bool:
    """Overlap iterations when nothing paces the app, or when one iteration alone would be too
    slow."""
    if app.period_ns is None:
        return True
    return work_ns > min(app.period_ns, app.deadline_ns or app.period_ns)


def _round(apps: list[Application]) -> list[tuple[Application, int, int]]:
    """The iterations of one round, by release: (app, index, iterations of that app per round)."""
    periods = {a.period_ns for a in apps if a.period_ns is not None}
    counts = {a.name: 1 for a in apps}
    if len(periods) > 1:
        whole = hyperperiod(periods)
        counts.update((a.name, int(whole / a.period_ns)) for a in apps if a.period_ns is not None)
    if sum(counts.values()) > MOST_JOBS:
        paced = [(a.name, a.period_ns) for a in apps if a.period_ns is not None]
        shown = ", ".join(f"{name} {float(period) / 1e6:g} ms" for name, period in paced)
        raise NoRound(f"one round of {shown} has {sum(counts.values())} iterations")
    jobs = []
    urgency = priorities(apps)
    for position, app in enumerate(apps):
        for index in range(counts[app.name]):
            release = (app.period_ns or Fraction(0)) * index
            key = release, -urgency[app.name], position, index
            jobs.append((key, (app, index, counts[app.name])))
    return [job for _, job in sorted(jobs, key=lambda j: j[0])]


def hyperperiod(periods: Collection[Fraction]) -> Fraction:
    """Least common multiple of periods."""
    return Fraction(lcm(*(p.numerator for p in periods)), gcd(*(p.denominator for p in periods)))


def _shortest(steps: list[OrderStep]) -> tuple[OrderStep, ...]:
    """On a processor that serves one app only, a round of one iteration says the same."""
    if len({s.app for s in steps}) == 1 and steps[0].per_round > 1:
        steps = [replace(s, per_round=1) for s in steps if s.index == 0]
    return tuple(steps)


def _stages(
    app: Application, placement: Mapping[str, tuple[str, ...]], pipelined: bool
) -> dict[str, int]:
    if not pipelined:
        return {t.name: 0 for t in app.tasks}
    graph = contracted(
        (t.name for t in app.tasks), ((c.source, c.destination) for c in app.channels)
    )
    lags: list[dict[int, int]] = [{} for _ in graph.components]
    for c in app.channels:
        a, b = graph.home[c.source], graph.home[c.destination]
        if a != b:
            crosses = placement[c.source] != placement[c.destination]
            lag = len(placement[c.source]) if crosses else 0
            lags[b][a] = max(lags[b].get(a, 0), lag)
    stage: list[int] = []
    for before in lags:
        stage.append(max((stage[a] + lag for a, lag in before.items()), default=0))
    return {name: stage[i] for name, i in graph.home.items()}


def _sequence(
    app: Application,
    vector: Mapping[str, int],
    placement: Mapping[str, tuple[str, ...]],
    stage: dict[str, int],
    work: Mapping[str, Time],
) -> tuple[list[tuple[str, int, int]], dict[str, int]]:
    """The runs of one iteration and the capacities they need.

    Long runs are easier to read and cost less, so they are taken unless they cost memory, or unless
    a periodic app gets its data bit by bit and should work on it as it comes. What the end of a
    periodic iteration waits for does not wait for the rest.
    """
    grouped = any(size > 1 for size in batches(app).values())
    in_parts = any(vector[t.name] > 1 for t in app.tasks if not t.inputs)
    timed = app.period_ns is not None or any(t.live for t in app.tasks)
    if timed and in_parts and not grouped:
        bit_by_bit = _runs(app, vector, stage, upstream_first=False, due=arrivals(app, vector))
        return bit_by_bit, _capacities(app, vector, placement, stage, bit_by_bit)
    short = _runs(app, vector, stage, upstream_first=False)
    small = _capacities(app, vector, placement, stage, short)
    arrows = ((c.source, c.destination) for c in app.channels)
    urgent = app.period_ns is not None and any(work.values())
    ahead = work_ahead(work, arrows) if urgent else None
    long = _runs(app, vector, stage, upstream_first=True, ahead=ahead)
    large = _capacities(app, vector, placement, stage, long)
    cheap = _memory(app, large) <= _memory(app, small) + CHEAP_BYTES
    if cheap or grouped:
        return long, large
    return short, small


def _memory(app: Application, capacities: dict[str, int]) -> int:
    tasks = {t.name: t for t in app.tasks}
    total = 0
    for c in app.channels:
        kind = tasks[c.source].port(c.source_port).type
        total += capacities[c.name] * (kind.bytes if kind is not None else 1)
    return total


def _runs(
    app: Application,
    vector: Mapping[str, int],
    stage: dict[str, int],
    *,
    upstream_first: bool,
    ahead: Mapping[str, Time] | None = None,
    due: Mapping[str, Sequence[Time]] | None = None,
) -> list[tuple[str, int, int]]:
    """(task, times, first): older iterations first, inside an iteration the sequential order."""
    fired = dict.fromkeys(vector, 0)
    runs = []
    order = iteration_order(app, vector, upstream_first=upstream_first, ahead=ahead, due=due)
    for task, times in order.firings:
        runs.append((task, times, fired[task]))
        fired[task] += times
    # sorted() keeps the sequence within a stage
    return sorted(runs, key=lambda run: -stage[run[0]])


def _capacities(
    app: Application,
    vector: Mapping[str, int],
    placement: Mapping[str, tuple[str, ...]],
    stage: dict[str, int],
    runs: list[tuple[str, int, int]],
) -> dict[str, int]:
    """The most tokens in one steady round of the sequence (space is claimed when a firing starts,
    freed when it ends).

    A channel between processors gets room for one more firing at each end, so that neither waits
    for the other.
    """
    tasks = {t.name: t for t in app.tasks}
    sizes = batches(app)
    tokens: dict[str, int] = {}
    most: dict[str, int] = {}
    out: dict[str, list[tuple[str, str]]] = {t: [] for t in tasks}
    into: dict[str, list[tuple[str, str]]] = {t: [] for t in tasks}
    for c in app.channels:
        rates = tasks[c.source].port(c.source_port).rates
        per_iteration = sum(rates) * vector[c.source] // len(rates)
        lag = stage[c.destination] - stage[c.source]
        tokens[c.name] = most[c.name] = c.delay + lag * per_iteration
        out[c.source].append((c.name, c.source_port))
        into[c.destination].append((c.name, c.destination_port))
    for name, times, first in runs:
        task = tasks[name]
        batch = sizes[name]
        ins = [(channel, task.port(port)) for channel, port in into[name]]
        outs = [(channel, task.port(port)) for channel, port in out[name]]
        for start in range(first, first + times, batch):
            group = min(batch, first + times - start)
            for channel, port in outs:
                tokens[channel] += port.rate(start) * group
                most[channel] = max(most[channel], tokens[channel])
            for channel, port in ins:
                tokens[channel] -= port.rate(start) * group
    for c in app.channels:
        here, there = placement[c.source], placement[c.destination]
        if here != there or len(here) > 1:
            made = max(tasks[c.source].port(c.source_port).rates)
            taken = max(tasks[c.destination].port(c.destination_port).rates)
            most[c.name] += made * sizes[c.source] * len(here)
            most[c.name] += taken * sizes[c.destination] * len(there)
    return most


def batches(app: Application) -> dict[str, int]:
    """How many firings of each task are grouped into one: the batch of networks, but 1 inside a
    cycle.

    A cycle may not have tokens for a whole group.
    """
    cyclic = frozenset[str]().union(*components(app))
    sizes = {}
    for task in app.tasks:
        sizes[task.name] = 1
        if task.network is not None and task.name not in cyclic:
            sizes[task.name] = task.network.batch
    return sizes


def grouped_runs(app: Application, vector: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Of tasks whose firings are grouped: how many there are in each run of an iteration."""
    sizes = batches(app)
    return {
        name: run_sizes(vector[name], size)
        for name, size in sizes.items()
        if size > 1 and vector.get(name, 1) > 1
    }
