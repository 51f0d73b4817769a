"""What a graph can do: period, latency, buffers, schedules, each exact or with its bounds.

In: an app with its verdicts, and the times of its tasks. Out: an Analysis, in the names that people wrote. Which times
to take is decided here too (`execution_times`); measuring them is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from ..model.application import Application
from ..model.verdict import AppVerdicts
from . import looped
from .buffers import Buffers, least_capacities, trade_off
from .graph import Graph, bounded, graph_of
from .latency import latency
from .liveness import Execution, TooManySteps
from .throughput import Deadlocked, Period, Step, least_period, without_serial

Source = Literal["wcet", "profile", "unit"]


@dataclass(frozen=True, slots=True)
class Times:
    """Execution times in ns, per phase or one for all. `guessed` are the tasks whose time nobody knows: 1 ns.

    `source` is the weakest origin among them; `measured` are the tasks whose time comes from a profile.
    """

    ns: dict[str, tuple[Fraction, ...]]
    source: Source
    measured: tuple[str, ...]
    guessed: tuple[str, ...]


def execution_times(
    app: Application, pinned: Mapping[str, Fraction] | None = None, measured: Mapping[str, Fraction] | None = None
) -> Times:
    """The time of every task: pinned for the platform, else its `wcet`, else as measured, else 1 ns."""
    pinned, measured = pinned or {}, measured or {}
    ns: dict[str, tuple[Fraction, ...]] = {}
    guessed, profiled = [], []
    for t in app.tasks:
        if t.name in pinned:
            ns[t.name] = (pinned[t.name],)
        elif t.wcet_ns:
            ns[t.name] = t.wcet_ns
        elif t.name in measured:
            ns[t.name] = (measured[t.name],)
            profiled.append(t.name)
        else:
            ns[t.name] = (Fraction(1),)
            guessed.append(t.name)
    source: Source = "unit" if guessed else "profile" if profiled else "wcet"
    return Times(ns, source, tuple(profiled), tuple(guessed))


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a critical cycle: the next task waits for `task`.

    `kind` says for what: "data" on `channel`, "space" that it frees on `channel`, or "serial": its own next firing.
    """

    task: str
    kind: Literal["data", "space", "serial"]
    channel: str


@dataclass(frozen=True, slots=True)
class Capacities:
    """Channel capacities in tokens by name; `bytes` is what they take, None where a channel has no type.

    What is minimised is the bytes, or the tokens where those are not known: no distribution that does the same has
    less than `lower` of it. `period` in ns is what they allow, at the most where it is not `exact`.
    """

    channels: dict[str, int]
    bytes: int | None
    lower: int
    period: Fraction | None
    exact: bool

    @property
    def total(self) -> int:
        """All capacities together."""
        return sum(self.channels.values())

    @property
    def proved(self) -> bool:
        """True when nothing smaller does the same."""
        return self.lower == (self.total if self.bytes is None else self.bytes)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A sequential schedule of one iteration in loop notation, and the capacities it needs together, in tokens."""

    text: str
    total: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that was asked about one app. Times in ns; None = not asked, or not found in time.

    `period` is the least period of an iteration, with one firing of a task at a time; where it is not proved it is the
    best schedule found, and `period_lower` is below it. `critical_cycle` explains the bound. No mapping is faster than
    `mapping_lower`: it may fire some tasks on several processors at once. `latency` holds at `latency_period`: the
    app's period if it has one, else the least; on no mapping is it below `latency_lower`. `least_buffers` keep the
    graph alive, `period_buffers` keep that period. `mean_period` is the period with measured mean times instead of
    worst cases.
    """

    verdicts: AppVerdicts
    times: Times
    period: Fraction | None = None
    period_lower: Fraction | None = None
    critical_cycle: tuple[Hop, ...] = ()
    mapping_lower: Fraction | None = None
    mean_period: Fraction | None = None
    latency: Fraction | None = None
    latency_sink: str = ""
    latency_period: Fraction | None = None
    latency_lower: Fraction | None = None
    least_buffers: Capacities | None = None
    period_buffers: Capacities | None = None
    pareto: tuple[Capacities, ...] | None = None
    pareto_complete: bool = True
    schedule: Schedule | None = None
    looped_schedule: Schedule | None = None


def limits(
    app: Application, verdicts: AppVerdicts, times: Times, *, overlap: bool = False, seconds: float = 10.0
) -> Analysis:
    """The least period and the cycle that dictates it; nothing else is filled in."""
    if not verdicts.consistent.holds or verdicts.deadlock_free.holds is False:
        return Analysis(verdicts, times)
    graph = graph_of(app, verdicts.repetition, times.ns, overlap=overlap)
    try:
        found = least_period(graph, seconds=seconds)
        anywhere = least_period(without_serial(graph, _replicable(app)), seconds=seconds)
    except Deadlocked:  # found only now: an iteration is too long to be executed
        return Analysis(verdicts, times)
    return Analysis(
        verdicts,
        times,
        period=None if found.upper is None else graph.ns(found.upper),
        period_lower=graph.ns(found.lower),
        critical_cycle=_hops(graph, found),
        mapping_lower=graph.ns(anywhere.lower),
    )


def _replicable(app: Application) -> set[int]:
    return {i for i, t in enumerate(app.tasks) if t.replicable}


def analyze(
    app: Application,
    verdicts: AppVerdicts,
    times: Times,
    *,
    overlap: bool = False,
    for_period: bool = False,
    pareto: bool = False,
    seconds: float = 10.0,
    progress: Callable[[str], None] | None = None,
) -> Analysis:
    """Analyse one app. `for_period` also looks for the least buffers that keep the period, `pareto` for the trade-off.

    `overlap` lets firings of one task overlap (auto-concurrency). Each potentially exponential part ends after
    `seconds` with the best it has.
    """
    answer = limits(app, verdicts, times, overlap=overlap, seconds=seconds)
    if answer.period_lower is None:
        return answer
    search = _Search(app, graph_of(app, verdicts.repetition, times.ns, overlap=overlap), seconds, progress)
    least, schedule, compact = search.least()
    answer = replace(answer, least_buffers=least, schedule=schedule, looped_schedule=compact)
    timed = app.period_ns is not None and len(times.guessed) < len(app.tasks)
    asked = app.period_ns if timed else answer.period
    kept = asked is not None and answer.period is not None and asked >= answer.period
    if asked is not None and kept:
        answer = _with_latency(answer, app, search.graph, asked, timed, seconds)
    if pareto and answer.period:  # what nothing slows down is slower with any buffers
        front, complete = search.front()
        answer = replace(answer, pareto=front, pareto_complete=complete)
    if asked and kept and for_period:
        fitting = (p for p in answer.pareto or () if p.period is not None and p.period <= asked)
        answer = replace(answer, period_buffers=next(fitting, None) or _better(least, search.keeping, asked))
    return answer


def _better(
    least: Capacities | None, keeping: Callable[[Fraction], Capacities | None], period: Fraction
) -> Capacities | None:
    """The least capacities of all, if they keep the period; else what a search finds, unless that is slower still."""
    if least is None or least.period is None:
        return keeping(period)
    if least.period <= period:
        return least
    found = keeping(period)
    if found is None or found.period is None or found.period >= least.period:
        return least
    return replace(found, lower=max(found.lower, least.lower))


def _with_latency(
    answer: Analysis, app: Application, graph: Graph, period: Fraction, spaced: bool, seconds: float
) -> Analysis:
    spent = latency(graph, period * graph.per_ns, spaced=spaced, seconds=seconds)
    if spent is None:
        return answer
    free = without_serial(graph, _replicable(app))
    least = latency(free, period * graph.per_ns, spaced=spaced, seconds=seconds)
    return replace(
        answer,
        latency=graph.ns(spent.longest),
        latency_sink=graph.names[spent.sink],
        latency_period=period,
        latency_lower=None if least is None else graph.ns(least.longest),
    )


def _hops(graph: Graph, period: Period) -> tuple[Hop, ...]:
    def hop(step: Step) -> Hop:
        edge = graph.edges[step.edge]
        return Hop(graph.names[step.task], edge.kind, graph.channels[edge.channel] if edge.channel >= 0 else "")

    return tuple(hop(s) for s in period.cycle)


class _Search:
    """The searches for buffers and schedules, translated from indices to names."""

    def __init__(self, app: Application, graph: Graph, seconds: float, progress: Callable[[str], None] | None) -> None:
        self.graph, self.seconds, self.progress = graph, seconds, progress
        types = {(t.name, p.name): p.type for t in app.tasks for p in t.outputs}
        sizes = {i: types[c.source, c.source_port] for i, c in enumerate(app.channels)}
        known = {i: kind.bytes for i, kind in sizes.items() if kind is not None}
        self.weights = known if known and len(known) == len(sizes) else None
        self.short = [n.partition(".")[2] for n in graph.names]

    def capacities(self, found: Buffers) -> Capacities:
        period = None if found.period is None else self.graph.ns(found.period)
        channels = {self.graph.channels[c]: n for c, n in found.capacities.items()}
        cost = None if self.weights is None else found.cost
        return Capacities(channels, cost, found.lower, period, found.exact)

    def least(self) -> tuple[Capacities | None, Schedule | None, Schedule | None]:
        """The least capacities, a schedule within them, and the schedule that is shortest to write."""
        graph = self.graph
        try:
            found = least_capacities(graph, weights=self.weights, seconds=self.seconds)
            limited = bounded(graph, found.capacities)
            runs: list[tuple[int, int]] = []
            Execution(limited).run(record=runs)
        except TooManySteps:
            return None, None, self._compact()
        reached = least_period(limited, seconds=self.seconds)
        loops = looped.folded(runs)
        schedule = None if loops is None else Schedule(looped.text(loops, self.short), found.total)
        found = replace(found, period=reached.upper, exact=reached.exact)
        return self.capacities(found), schedule, self._compact()

    def _compact(self) -> Schedule | None:
        loops = looped.single_appearance(self.graph)
        if loops is None or sum(self.graph.firings) > looped.MOST_FIRINGS:
            return None
        return Schedule(looped.text(loops, self.short), sum(looped.memory(self.graph, loops).values()))

    def keeping(self, period: Fraction) -> Capacities | None:
        """The least capacities that keep a period in ns, or the fastest ones found in time."""
        try:
            front = trade_off(self.graph, weights=self.weights, until=period * self.graph.per_ns, seconds=self.seconds)
        except TooManySteps:
            return None
        return self.capacities(front.points[-1]) if front.points else None

    def front(self) -> tuple[tuple[Capacities, ...] | None, bool]:
        try:
            front = trade_off(self.graph, weights=self.weights, seconds=self.seconds, progress=self.progress)
        except TooManySteps:
            return None, False
        return tuple(self.capacities(p) for p in front.points), front.complete
