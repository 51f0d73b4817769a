"""Which data a firing depends on: the newest firing of a source behind each firing of a task.

The latency of a path is counted from there: data that are older are older by their own period,
whatever the program does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Protocol

from ...model.application import Application, Task

#: Firings of one iteration up to which dependences are worked out.
MOST_FIRINGS = 20_000
#: Ways from a source to a sink that are paths without a deadline, in each app.
MOST_PATHS = 12


class DependenceChannel(Protocol):
    """A channel as far as it matters here: rates per firing (cyclic when they differ), `delay`
    initial tokens."""

    @property
    def source(self) -> str: ...

    @property
    def destination(self) -> str: ...

    @property
    def produced(self) -> tuple[int, ...]: ...

    @property
    def consumed(self) -> tuple[int, ...]: ...

    @property
    def delay(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: str
    destination: str
    produced: tuple[int, ...]
    consumed: tuple[int, ...]
    delay: int


#: Where arrows lead from each task, and of each the writing firing behind every reading one.
_Leading = dict[str, list[tuple[str, list[int]]]]


@dataclass(frozen=True, slots=True)
class DependencePath:
    """From a source to a task that its data reach; `newest` of that task, and the `deadline` in ns,
    if it has one. It may be only a `part` of chains, whose own latency is of no interest."""

    source: str
    sink: str
    newest: tuple[int, ...]
    deadline: Fraction | None
    part: bool = False

    def latencies(
        self, ends: Sequence[Fraction], period: Fraction, begins: Sequence[Fraction]
    ) -> list[Fraction]:
        """How long each firing of the sink takes, from its newest data to its end.

        `ends` of its firings and `begins` of those of the source count from the release of an
        iteration.
        """
        latencies = []
        for end, firing in zip(ends, self.newest, strict=True):
            iteration, k = divmod(firing, len(begins))
            latencies.append(end - iteration * period - begins[k])
        return latencies


def newest(app: Application, vector: Mapping[str, int], source: str) -> dict[str, tuple[int, ...]]:
    """For every task that data of `source` reach: the newest firing of it that each firing of an
    iteration depends on.

    Firings are counted from the first one of the same iteration, so that negative ones belong to
    earlier iterations (behind delays). Of every input a firing depends on all tokens up to the last
    one that it has taken. Empty where an iteration has more than MOST_FIRINGS firings.
    """
    reached = _reached(_leading(_arrows(app), vector), vector, source)
    return {name: tuple(n for n, _ in firings) for name, firings in reached.items()}


@dataclass(frozen=True, slots=True)
class Burst:
    """A task that fires several `times` in a row: data at its input `held` wait there, for up to so
    many further `firings` of the source, until newer data of the source come to `awaited`."""

    task: str
    held: str
    awaited: str
    times: int
    firings: int


def bursts(app: Application, vector: Mapping[str, int], source: str) -> list[Burst]:
    """The longest burst of each task that has one.

    Firings that depend on the same newest firing of the source are in a row, while another input of
    theirs gets data of one firing of the source after the other.
    """
    behind = newest(app, vector, source)
    behind[source] = tuple(range(vector[source]))
    own: dict[str, dict[str, list[int]]] = {}
    for arrow, channel in zip(_arrows(app), app.channels, strict=True):
        if arrow.source in behind and arrow.destination in behind:
            writers = [divmod(w, vector[arrow.source]) for w in _writers(arrow, vector)]
            made = [i * vector[source] + behind[arrow.source][f] for i, f in writers]
            own.setdefault(arrow.destination, {})[channel.destination_port] = made
    found = []
    for task, ports in own.items():
        rows = _rows(behind[task])
        here = [b for first, last in rows for b in _in_row(task, ports, first, last)]
        found += sorted(here, key=lambda b: -b.firings)[:1]
    return found


def _rows(newest_of: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last one of firings with the same newest data."""
    starts = [j for j, n in enumerate(newest_of) if j == 0 or n != newest_of[j - 1]]
    return [(j, k - 1) for j, k in pairwise([*starts, len(newest_of)])]


def _in_row(
    task: str, ports: Mapping[str, Sequence[int]], first: int, last: int
) -> Iterator[Burst]:
    awaited = max(ports, key=lambda port: ports[port][first])
    for held, made in ports.items():
        if ports[awaited][first] >= made[last] > made[first]:
            yield Burst(task, held, awaited, last - first + 1, made[last] - made[first])


def spans(
    app: Application,
    vector: Mapping[str, int],
    source: str,
    times: Mapping[str, Sequence[Fraction]],
) -> dict[str, tuple[Fraction, ...]]:
    """For every task that data of `source` reach: the least time from the start of that newest
    firing to its own end.

    It is the time of the firings that the data go through, one after the other. `times` are those
    of a firing, by phase or one for all.
    """
    reached = _reached(_leading(_arrows(app), vector), vector, source, times)
    return {name: tuple(time for _, time in firings) for name, firings in reached.items()}


def _arrows(app: Application) -> list[_Arrow]:
    tasks = {t.name: t for t in app.tasks}
    arrows = []
    for c in app.channels:
        produced = tasks[c.source].port(c.source_port).rates
        consumed = tasks[c.destination].port(c.destination_port).rates
        arrows.append(_Arrow(c.source, c.destination, produced, consumed, c.delay))
    return arrows


def _leading(arrows: Iterable[DependenceChannel], vector: Mapping[str, int]) -> _Leading:
    """Where arrows lead; nothing where an iteration is too long."""
    if sum(vector.values()) > MOST_FIRINGS:
        return {}
    leading: _Leading = {name: [] for name in vector}
    for arrow in arrows:
        leading[arrow.source].append((arrow.destination, _writers(arrow, vector)))
    return leading


def _reached(
    leading: _Leading,
    vector: Mapping[str, int],
    source: str,
    times: Mapping[str, Sequence[Fraction]] | None = None,
) -> dict[str, list[tuple[int, Fraction]]]:
    """For the firings of each task that the source reaches: its newest firing, and the time from
    its start.

    An edge from firing f of A to firing j of B exists where B's j-th firing reads a token of f;
    what is looked for is the longest path in this graph, whose weights repeat with each iteration;
    cycles lead into the past, so that it ends. Of paths from the same firing the one that takes
    longest counts.
    """
    if not leading:
        return {}

    def time(task: str, firing: int) -> Fraction:
        phases = times[task] if times is not None else ()
        return phases[firing % len(phases)] if phases else Fraction(0)

    newest: dict[str, list[tuple[int, Fraction] | None]] = {
        source: [(k, time(source, k)) for k in range(vector[source])]
    }
    waiting = {source: None}  # in their order, each once
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        by_writer = newest[name]
        for destination, writers in leading[name]:
            if destination == source:
                continue
            by_reader = newest.setdefault(destination, [None] * vector[destination])
            changed = False
            for j, writer in enumerate(writers):
                iteration, f = divmod(writer, vector[name])
                before = by_writer[f]
                if before is None:
                    continue
                now = before[0] + iteration * vector[source], before[1] + time(destination, j)
                then = by_reader[j]
                if then is None or now > then:
                    by_reader[j], changed = now, True
            if changed:
                waiting.setdefault(destination)
    del newest[source]
    complete: dict[str, list[tuple[int, Fraction]]] = {}
    for name, firings in newest.items():
        known = [firing for firing in firings if firing is not None]
        if len(known) == len(firings):
            complete[name] = known
    return complete


def arrivals(app: Application, vector: Mapping[str, int]) -> dict[str, tuple[Fraction, ...]]:
    """When the newest data of every firing arrive, in iterations, where firings of sources are
    spread evenly."""
    return arrivals_over(_arrows(app), vector, [t.name for t in app.tasks if not t.inputs])


def arrivals_over(
    arrows: Sequence[DependenceChannel], vector: Mapping[str, int], sources: Iterable[str]
) -> dict[str, tuple[Fraction, ...]]:
    """The same for other graphs."""
    latest: dict[str, list[Fraction]] = {}
    leading = _leading(arrows, vector)
    for source in sources:
        own = [(k, Fraction(0)) for k in range(vector[source])]
        for name, behind in ((source, own), *_reached(leading, vector, source).items()):
            times = [Fraction(n, vector[source]) for n, _ in behind]
            others = latest.get(name, times)
            latest[name] = [max(pair) for pair in zip(others, times, strict=True)]
    return {name: tuple(times) for name, times in latest.items()}


def _writers(arrow: DependenceChannel, vector: Mapping[str, int]) -> list[int]:
    """For every firing of the reader: the firing of the writer that makes the last token it has
    taken by then."""
    reads, writes = arrow.consumed, arrow.produced
    firings = vector[arrow.source]
    made = list(accumulate(writes[k % len(writes)] for k in range(firings)))
    whole = made[-1]
    taken = 0
    writers = []
    for j in range(vector[arrow.destination]):
        taken += reads[j % len(reads)]
        iteration, token = divmod(taken - 1 - arrow.delay, whole)
        writers.append(iteration * firings + bisect_right(made, token))
    return writers


def paths(app: Application, vector: Mapping[str, int]) -> tuple[DependencePath, ...]:
    """Paths worth a latency of their own.

    Those with a deadline, parts of chains, and those from a source to a sink as long as there are
    at most MOST_PATHS; none where an app has one source and one sink that fire once in an
    iteration, whose latency is that of the frame.
    """
    wanted = _wanted(app, vector)
    parts = [part for part in app.parts if part not in wanted]
    wanted |= dict.fromkeys(parts)
    begins = dict.fromkeys(source for source, _ in wanted)
    reached = {source: newest(app, vector, source) for source in begins}
    selected = []
    for (begin, end), deadline in wanted.items():
        if end in reached[begin]:
            is_part = (begin, end) in parts
            path = DependencePath(begin, end, reached[begin][end], deadline, is_part)
            selected.append(path)
    return tuple(selected)


def _wanted(app: Application, vector: Mapping[str, int]) -> dict[tuple[str, str], Fraction | None]:
    """Source and sink of each path except parts of chains, and the shortest of its deadlines."""
    wanted: dict[tuple[str, str], Fraction | None] = {}
    for p in app.paths:
        shortest = wanted.get((p.source, p.sink))
        if shortest is None or p.deadline_ns < shortest:
            wanted[p.source, p.sink] = p.deadline_ns
    sources = [t for t in app.tasks if not t.inputs and (t.link is None or not t.link.latest)]
    sinks = [t for t in app.tasks if not t.outputs]
    if len(sources) * len(sinks) <= MOST_PATHS and not _plain(sources, sinks, vector):
        for source in sources:
            for sink in sinks:
                wanted.setdefault((source.name, sink.name), None)
    return wanted


def _plain(sources: Sequence[Task], sinks: Sequence[Task], vector: Mapping[str, int]) -> bool:
    """Is there one source and one sink, which fire once in an iteration?"""
    ends = (*sources, *sinks)
    return len(sources) == len(sinks) == 1 and all(vector[t.name] == 1 for t in ends)
