"""Which data a firing depends on: the newest firing of a source behind each firing of a task.

The latency of a path is counted from there: data that are older are older by their own period, whatever the program
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate

from ...model.application import Application, Channel, Task

#: A source, a task, `newest` of the task, and the deadline in ns.
Path = tuple[str, str, tuple[int, ...], Fraction | None]
#: Firings of one iteration up to which dependences are worked out.
MOST_FIRINGS = 20_000


def newest(app: Application, vector: Mapping[str, int], source: str) -> dict[str, tuple[int, ...]]:
    """For every task that data of `source` reach: the newest firing of it that each firing of an iteration depends on.

    Firings are counted from the first one of the same iteration, so that negative ones belong to earlier iterations
    (behind delays). Of every input a firing depends on all tokens up to the last one that it has taken. Empty where an
    iteration has more than MOST_FIRINGS firings.

    An edge from firing f of A to firing j of B exists where B's j-th firing reads a token of f; what is looked for is
    the longest path in this graph, whose weights repeat with each iteration; cycles lead into the past, so that it
    ends.
    """
    if sum(vector.values()) > MOST_FIRINGS:
        return {}
    tasks = {t.name: t for t in app.tasks}
    found: dict[str, list[int | None]] = {source: list(range(vector[source]))}
    leading: dict[str, list[tuple[Channel, list[int]]]] = {name: [] for name in tasks}
    for channel in app.channels:
        leading[channel.source].append((channel, _writers(channel, tasks, vector)))
    waiting = [source]
    while waiting:
        name = waiting.pop(0)
        own = found[name]
        for channel, writers in leading[name]:
            if channel.destination == source:
                continue
            theirs = found.setdefault(channel.destination, [None] * vector[channel.destination])
            changed = False
            for j, writer in enumerate(writers):
                iteration, f = divmod(writer, vector[name])
                before = own[f]
                if before is None:
                    continue
                now = before + iteration * vector[source]
                then = theirs[j]
                if then is None or now > then:
                    theirs[j], changed = now, True
            if changed and channel.destination not in waiting:
                waiting.append(channel.destination)
    return {n: tuple(x for x in f if x is not None) for n, f in found.items() if n != source and None not in f}


def arrivals(app: Application, vector: Mapping[str, int]) -> dict[str, tuple[Fraction, ...]]:
    """When the newest data of every firing arrive, in iterations, where firings of sources are spread evenly."""
    found: dict[str, list[Fraction]] = {}
    for source in (t.name for t in app.tasks if not t.inputs):
        own = tuple(range(vector[source]))
        for name, behind in ((source, own), *newest(app, vector, source).items()):
            times = [Fraction(n, vector[source]) for n in behind]
            found[name] = [max(a, b) for a, b in zip(found.get(name, times), times, strict=True)]
    return {name: tuple(times) for name, times in found.items()}


def _writers(channel: Channel, tasks: Mapping[str, Task], vector: Mapping[str, int]) -> list[int]:
    """For every firing of the reader: the firing of the writer that makes the last token it has taken by then."""
    reads = tasks[channel.destination].port(channel.destination_port).rates
    writes = tasks[channel.source].port(channel.source_port).rates
    firings = vector[channel.source]
    made = list(accumulate(writes[k % len(writes)] for k in range(firings)))
    whole = made[-1]
    owner = [k for k in range(firings) for _ in range(writes[k % len(writes)])]
    taken = 0
    found = []
    for j in range(vector[channel.destination]):
        taken += reads[j % len(reads)]
        iteration, token = divmod(taken - 1 - channel.delay, whole)
        found.append(iteration * firings + owner[token])
    return found


def paths(app: Application, vector: Mapping[str, int], most: int) -> list[Path]:
    """Paths worth a latency of their own: (source, task, `newest` of the task, deadline).

    Those with a deadline, and those from a source to a sink as long as there are at most so many; none where an app
    has one source and one sink that fire once in an iteration, whose latency is that of the frame.
    """
    wanted: dict[tuple[str, str], Fraction | None] = {(p.source, p.sink): p.deadline_ns for p in app.paths}
    sources = [t for t in app.tasks if not t.inputs and not (t.link is not None and t.link.latest)]
    sinks = [t for t in app.tasks if not t.outputs]
    plain = len(sources) == len(sinks) == 1 and vector[sources[0].name] == vector[sinks[0].name] == 1
    if not plain and len(sources) * len(sinks) <= most:
        for source in sources:
            for sink in sinks:
                wanted.setdefault((source.name, sink.name), None)
    reached = {name: newest(app, vector, name) for name, _ in wanted}
    return [
        (source, sink, reached[source][sink], deadline)
        for (source, sink), deadline in wanted.items()
        if sink in reached[source]
    ]
