"""What a graph can do: period, latency, buffers, schedules, each exact or with its bounds.

In: an app with its verdicts, and the times of its tasks (`model.times` decides which). Out: an
Analysis, in the names that people wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import monotonic
from typing import Any, Literal, get_args

from ...model.application import Application
from ...model.times import AppTimes
from ...model.verdict import AppVerdicts, Verdict
from . import looped
from .buffers import Buffers, least_capacities, trade_off
from .dependence import DependencePath, paths, spans
from .graph import Graph, bounded, graph_of
from .latency import latency
from .liveness import Execution
from .throughput import CycleStep, Deadlocked, Period, least_period, without_serial
from .unfinished import OutOfTime, Unfinished, Why

Answer = Literal["period", "latency", "least_buffers", "pareto", "period_buffers"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a critical cycle: the next task waits for `task`.

    `kind` says for what: "data" on `channel`, "space" that it frees on `channel`, or "serial": its
    own next firing.
    """

    task: str
    kind: Literal["data", "space", "serial"]
    channel: str


@dataclass(frozen=True, slots=True)
class Capacities:
    """Channel capacities in tokens by name; `bytes` is what they take, None where a channel has no
    type.

    What is minimized is the bytes, or the tokens where those are not known: no distribution that
    does the same has less than `lower` of it. `period` in ns is what they allow, at the most where
    it is not `exact`.
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
class LoopedSchedule:
    """A sequential schedule of one iteration in loop notation, and the capacities it needs
    together, in tokens."""

    text: str
    total: int


@dataclass(frozen=True, slots=True)
class PathLatency:
    """From the release of the newest data of `source` that a firing of `sink` depends on, to its
    end; times in ns.

    `latency` is the longest at the period that latencies are for, and on no mapping it is below
    `lower`; None: unknown.
    """

    source: str
    sink: str
    latency: Fraction | None
    lower: Fraction | None
    deadline: Fraction | None

    @property
    def too_late(self) -> bool:
        """Is the deadline shorter than what the path takes on any mapping?"""
        return self.deadline is not None and self.lower is not None and self.lower > self.deadline


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that was asked about one app. Times in ns; None = not asked, or not found.

    `answered` are the questions that are done with, in this order: the analysis grows with each.
    `cut` says which searches ended before they were through, and why: after `seconds`, or because
    of the size of the graph.

    `period` is the least period of an iteration, with one firing of a task at a time; where it is
    not proved it is the best schedule found, and `period_lower` is below it. `critical_cycle`
    explains the bound, with the firings of one round of it and their times. No mapping is
    faster than `mapping_lower`: it may fire some tasks on several processors at once. `latency`
    holds at `latency_period`: the app's period if it has one, else the least; on no mapping is
    it below `latency_lower`. `paths` are those with deadlines, and those from sources to sinks
    where they tell more. `least_buffers` keep the graph alive, `period_buffers` keep that
    period. `mean_period` is the period with measured mean times instead of worst cases.
    """

    verdicts: AppVerdicts
    times: AppTimes
    period: Fraction | None = None
    period_lower: Fraction | None = None
    critical_cycle: tuple[Hop, ...] = ()
    critical_firings: tuple[tuple[str, Fraction], ...] = ()
    mapping_lower: Fraction | None = None
    mean_period: Fraction | None = None
    latency: Fraction | None = None
    latency_sink: str = ""
    latency_period: Fraction | None = None
    latency_lower: Fraction | None = None
    paths: tuple[PathLatency, ...] = ()
    least_buffers: Capacities | None = None
    period_buffers: Capacities | None = None
    pareto: tuple[Capacities, ...] | None = None
    pareto_complete: bool = True
    schedule: LoopedSchedule | None = None
    looped_schedule: LoopedSchedule | None = None
    answered: tuple[Answer, ...] = ()
    cut: dict[Answer, Why] = field(default_factory=dict)
    seconds: float = 0.0

    def too_slow(self, app: Application) -> bool:
        """Is the period of an app below what any mapping can keep with these times?"""
        return (
            app.period_ns is not None
            and self.mapping_lower is not None
            and self.mapping_lower > app.period_ns
        )

    def too_late(self, app: Application) -> bool:
        """Is the deadline of an app shorter than an iteration takes on any mapping with these
        times?"""
        return (
            app.due_ns is not None
            and self.latency_lower is not None
            and self.latency_lower > app.due_ns
        )

    def impossible(self, app: Application) -> bool:
        """Do the times that the text gives forbid the period or a deadline on every mapping?"""
        late = self.too_late(app) or any(p.too_late for p in self.paths)
        return self.times.source == "wcet" and (self.too_slow(app) or late)

    def and_answer(self, answer: Answer, cut: Why | None = None, **fields: Any) -> Analysis:
        """With an answer more."""
        cuts = dict(self.cut)
        if cut is not None:
            cuts[answer] = cut
        return replace(self, answered=(*self.answered, answer), cut=cuts, **fields)


def limits(
    app: Application,
    verdicts: AppVerdicts,
    times: AppTimes,
    *,
    overlap: bool = False,
    seconds: float = 10.0,
) -> Analysis:
    """The least period and the cycle that dictates it; nothing else is filled in."""
    if not verdicts.consistent.holds or verdicts.deadlock_free.holds is False:
        return Analysis(verdicts, times)
    graph = graph_of(app, verdicts.repetition, times.ns, overlap=overlap)
    try:
        least = least_period(graph, seconds=seconds)
        free = _freest(app, verdicts, times, graph, overlap)
        anywhere = least if free is graph else least_period(free, seconds=seconds)
    except Deadlocked:  # found only now: an iteration is too long to be executed
        blocked = Verdict(False, "after many firings tasks of a cycle block each other")
        return Analysis(replace(verdicts, deadlock_free=blocked), times)
    return Analysis(verdicts, times, seconds=seconds).and_answer(
        "period",
        least.cut,
        period=_ns(graph, least.upper),
        period_lower=graph.ns(least.lower),
        critical_cycle=_hops(graph, least),
        critical_firings=tuple((graph.names[t], graph.ns(time)) for t, time in least.firings),
        mapping_lower=free.ns(anywhere.lower),
    )


def _ns(graph: Graph, amount: Fraction | None) -> Fraction | None:
    return None if amount is None else graph.ns(amount)


def _freest(
    app: Application, verdicts: AppVerdicts, times: AppTimes, graph: Graph, overlap: bool
) -> Graph:
    """The graph on the best mapping there could be: every task where it is fastest, some on several
    processors."""
    least = {**times.ns, **times.least_ns}
    if least != times.ns:
        graph = graph_of(app, verdicts.repetition, least, overlap=overlap)
    shared = {i for i, t in enumerate(app.tasks) if t.replicable}
    if not shared:
        return graph
    return without_serial(graph, shared)


def analyze(
    app: Application,
    verdicts: AppVerdicts,
    times: AppTimes,
    *,
    overlap: bool = False,
    for_period: bool = False,
    pareto: bool = False,
    seconds: float = 10.0,
    progress: Callable[[str], None] | None = None,
    answered: Callable[[Analysis], None] | None = None,
) -> Analysis:
    """Analyze one app. `for_period` also looks for the least buffers that keep the period, `pareto`
    for the trade-off.

    `overlap` lets firings of one task overlap (auto-concurrency). Each potentially exponential part
    ends after `seconds` with the best it has. `answered` gets what is known whenever an answer has
    been found.
    """
    questions = _Questions(app, verdicts, times, overlap, for_period, pareto, seconds, progress)
    for answer in _answers(questions):
        if answered is not None:
            answered(answer)
    return answer


@dataclass(frozen=True, slots=True)
class _Questions:
    """The arguments of `analyze`."""

    app: Application
    verdicts: AppVerdicts
    times: AppTimes
    overlap: bool
    for_period: bool
    pareto: bool
    seconds: float
    progress: Callable[[str], None] | None


def _answers(asked: _Questions) -> Iterator[Analysis]:
    app, verdicts, times = asked.app, asked.verdicts, asked.times
    overlap, seconds = asked.overlap, asked.seconds
    answer = limits(app, verdicts, times, overlap=overlap, seconds=seconds)
    yield answer
    if answer.period_lower is None:
        return
    graph = graph_of(app, verdicts.repetition, times.ns, overlap=overlap)
    free = _freest(app, verdicts, times, graph, overlap)
    timed = app.period_ns is not None and not times.unknown
    period = _kept(app.period_ns if timed else answer.period, answer.period)
    wanted = paths(app, verdicts.repetition)
    late_by = times.wakeup_ns[0] if timed else 0
    answer = _with_latency(answer, graph, free, period, wanted, timed, seconds, late_by)
    if not timed and answer.paths:
        answer = _unpaced(answer, app, times)
    yield answer
    search = _Search(app, graph, seconds, asked.progress)
    least, cut, schedule, compact = search.least()
    answer = answer.and_answer(
        "least_buffers", cut, least_buffers=least, schedule=schedule, looped_schedule=compact
    )
    yield answer
    if asked.pareto and answer.period:  # what nothing slows down is slower with any buffers
        front, complete, cut = search.front()
        answer = answer.and_answer("pareto", cut, pareto=front, pareto_complete=complete)
    if asked.for_period and period:
        answer = _with_period_buffers(answer, search, period)
    yield replace(answer, answered=get_args(Answer))


def _kept(asked: Fraction | None, least: Fraction | None) -> Fraction | None:
    """The period that is asked for, if the graph is known to keep it."""
    if asked is None or least is None or asked < least:
        return None
    return asked


def _with_period_buffers(answer: Analysis, search: _Search, period: Fraction) -> Analysis:
    best, cut = _keeping(answer, search, period)
    proved = best is not None and best.proved and best.period is not None and best.period <= period
    return answer.and_answer("period_buffers", None if proved else cut, period_buffers=best)


def _keeping(
    answer: Analysis, search: _Search, period: Fraction
) -> tuple[Capacities | None, Why | None]:
    """The smallest point of the trade-off that keeps the period, if there is one."""
    for point in answer.pareto or ():
        if point.period is not None and point.period <= period:
            return point, answer.cut.get("pareto")
    return _better(answer.least_buffers, search, period)


def _better(
    least: Capacities | None, search: _Search, period: Fraction
) -> tuple[Capacities | None, Why | None]:
    """The least capacities of all, if they keep the period; else what a search finds, unless that
    is slower still."""
    if least is None or least.period is None:
        return search.keeping(period)
    if least.period <= period:
        return least, None
    faster, cut = search.keeping(period)
    if faster is None or faster.period is None or faster.period >= least.period:
        return least, cut
    return replace(faster, lower=max(faster.lower, least.lower)), cut


def _with_latency(
    answer: Analysis,
    graph: Graph,
    free: Graph,
    period: Fraction | None,
    wanted: Sequence[DependencePath],
    spaced: bool,
    seconds: float,
    late_by: int,
) -> Analysis:
    """Without a period there is none: that of the graph is not known, or the one asked for is too
    short. On any mapping a thread knows of a release so many ns late."""
    if period is None:
        return answer.and_answer("latency", answer.cut.get("period"))

    def spent(graph: Graph) -> tuple[str, Fraction, list[Fraction | None]]:
        worst = latency(graph, period * graph.per_ns, spaced=spaced, paths=wanted, seconds=seconds)
        taken = [None if path is None else graph.ns(path) + late_by for path in worst.paths]
        return graph.names[worst.sink], graph.ns(worst.longest) + late_by, taken

    try:
        sink, longest, taken = spent(graph)
    except Unfinished as ended:
        return answer.and_answer("latency", ended.why)
    least: Fraction | None = longest
    lower = taken
    if free is not graph:
        try:
            _, least, lower = spent(free)
        except Unfinished:
            least, lower = None, [None] * len(wanted)
    latencies = []
    for path, time, low in zip(wanted, taken, lower, strict=True):
        latencies.append(PathLatency(path.source, path.sink, time, low, path.deadline))
    return answer.and_answer(
        "latency",
        latency=longest,
        latency_sink=sink,
        latency_period=period,
        latency_lower=least,
        paths=tuple(latencies),
    )


def _unpaced(answer: Analysis, app: Application, times: AppTimes) -> Analysis:
    """Where nothing paces an app, a mapping may be slower, and its paths shorter for it: only their
    firings count."""
    least = {**times.ns, **times.least_ns}
    vector = answer.verdicts.repetition
    behind = {p.source: spans(app, vector, p.source, least) for p in answer.paths}
    latencies = [replace(p, lower=max(behind[p.source][p.sink])) for p in answer.paths]
    return replace(answer, paths=tuple(latencies))


def _hops(graph: Graph, period: Period) -> tuple[Hop, ...]:
    def hop(step: CycleStep) -> Hop:
        edge = graph.edges[step.edge]
        channel = graph.channels[edge.channel] if edge.channel >= 0 else ""
        return Hop(graph.names[step.task], edge.kind, channel)

    return tuple(hop(s) for s in period.cycle)


class _Search:
    """The searches for buffers and schedules, translated from indices to names."""

    def __init__(
        self, app: Application, graph: Graph, seconds: float, progress: Callable[[str], None] | None
    ) -> None:
        self.graph, self.seconds, self.progress = graph, seconds, progress
        sizes: dict[int, int] = {}
        tasks = {t.name: t for t in app.tasks}
        for i, c in enumerate(app.channels):
            kind = tasks[c.source].port(c.source_port).type
            if kind is not None:
                sizes[i] = kind.bytes
        self.weights = sizes if sizes and len(sizes) == len(app.channels) else None
        self.short = [n.partition(".")[2] for n in graph.names]

    def capacities(self, buffers: Buffers) -> Capacities:
        period = _ns(self.graph, buffers.period)
        channels = {self.graph.channels[c]: n for c, n in buffers.capacities.items()}
        cost = None if self.weights is None else buffers.cost
        return Capacities(channels, cost, buffers.lower, period, buffers.exact)

    def least(
        self,
    ) -> tuple[Capacities | None, Why | None, LoopedSchedule | None, LoopedSchedule | None]:
        """The least capacities, a schedule within them, and the schedule that is shortest to
        write."""
        graph = self.graph
        try:
            buffers = least_capacities(graph, weights=self.weights, seconds=self.seconds)
        except Unfinished as ended:
            return None, ended.why, None, self._compact()
        limited = bounded(graph, buffers.capacities)
        runs: list[tuple[int, int]] = []
        with suppress(OutOfTime):
            Execution(limited, monotonic() + self.seconds).run(record=runs)
        reached = least_period(limited, seconds=self.seconds)
        schedule = None
        if sum(n for _, n in runs) == sum(graph.firings):
            loops = looped.folded(runs)
            if loops is not None:
                schedule = LoopedSchedule(looped.text(loops, self.short), buffers.total)
        buffers = replace(buffers, period=reached.upper, exact=reached.exact)
        return self.capacities(buffers), buffers.cut or reached.cut, schedule, self._compact()

    def _compact(self) -> LoopedSchedule | None:
        loops = looped.single_appearance(self.graph)
        if loops is None or sum(self.graph.firings) > looped.MOST_FIRINGS:
            return None
        tokens = sum(looped.memory(self.graph, loops).values())
        return LoopedSchedule(looped.text(loops, self.short), tokens)

    def keeping(self, period: Fraction) -> tuple[Capacities | None, Why | None]:
        """The least capacities that keep a period in ns, or the fastest ones found in time."""
        front = trade_off(
            self.graph, weights=self.weights, until=period * self.graph.per_ns, seconds=self.seconds
        )
        fastest = self.capacities(front.points[-1]) if front.points else None
        return fastest, "time"

    def front(self) -> tuple[tuple[Capacities, ...], bool, Why | None]:
        """The trade-off, and whether it reaches full speed."""
        front = trade_off(
            self.graph, weights=self.weights, seconds=self.seconds, progress=self.progress
        )
        proved = front.complete and all(p.proved for p in front.points)
        points = tuple(self.capacities(p) for p in front.points)
        return points, front.complete, None if proved else "time"
