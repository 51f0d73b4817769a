"""Loop notation, latency, and self-timed execution."""

from __future__ import annotations

import random
from fractions import Fraction

from flowc.analysis.dataflow import looped
from flowc.analysis.dataflow.buffers import least_capacities
from flowc.analysis.dataflow.dependence import DependencePath, newest
from flowc.analysis.dataflow.graph import Graph, bounded, graph_of
from flowc.analysis.dataflow.latency import latency, sources_and_sinks
from flowc.analysis.dataflow.liveness import Execution
from flowc.analysis.dataflow.looped import Loop, folded, memory, single_appearance
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.self_timed import self_timed
from flowc.analysis.dataflow.throughput import least_period
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import slow

SEEDS = st.integers(0, 2**32)


def live(rng: random.Random, most_tasks: int = 5) -> Graph | None:
    app, _ = graphs.consistent(rng, most_tasks=most_tasks)
    graph = graph_of(app, repetition(app).vector, graphs.times(rng, app))
    return graph if Execution(graph).run() and sum(graph.firings) < 200 else None


def test_the_notation() -> None:
    loops = [Loop(7, 0), Loop(3, (Loop(2, 1), Loop(1, 2)))]
    assert looped.text(loops, "abc") == "(7a)(3(2b)c)"
    assert looped.text(loops, ["read", "filter", "write"]) == "(7 read) (3 (2 filter) write)"
    assert folded([(0, 7), (1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1)]) == tuple(loops)


def test_the_single_appearance_schedule_of_the_sample_rate_converter() -> None:
    """The loop nests of Murthy, Bhattacharyya, Lee need 264 tokens at the least; without nesting it
    takes 1021."""
    app, _ = graphs.known("samplerate")
    graph = graph_of(app, repetition(app).vector)
    loops = single_appearance(graph)
    assert loops is not None
    assert sum(memory(graph, loops).values()) == 264
    flat = [Loop(n, t) for t, n in enumerate(graph.firings)]
    assert sum(memory(graph, flat).values()) == 147 + 294 + 196 + 224 + 160


@settings(max_examples=300)
@given(SEEDS)
def test_folding_loses_nothing(seed: int) -> None:
    rng = random.Random(seed)
    graph = live(rng)
    if graph is None:
        return
    runs: list[tuple[int, int]] = []
    Execution(graph).run(record=runs)
    loops = folded(runs)
    assert loops is not None
    assert [t for loop in loops for t in loop.firings()] == [t for t, n in runs for _ in range(n)]


@settings(max_examples=300)
@given(SEEDS)
def test_the_schedule_within_the_least_capacities_needs_no_more(seed: int) -> None:
    graph = live(random.Random(seed))
    if graph is None:
        return
    found = least_capacities(graph)
    runs: list[tuple[int, int]] = []
    assert Execution(bounded(graph, found.capacities)).run(record=runs)
    needed = memory(graph, [Loop(n, t) for t, n in runs])
    assert all(needed[c] <= n for c, n in found.capacities.items())


@settings(max_examples=300)
@given(SEEDS)
def test_single_appearance_schedules_are_admissible(seed: int) -> None:
    graph = live(random.Random(seed))
    if graph is None:
        return
    loops = single_appearance(graph)
    if loops is None:
        return
    tokens = {i: e.tokens for i, e in enumerate(graph.edges) if e.kind == "data"}
    fired = [0] * len(graph.names)
    for task in (t for loop in loops for t in loop.firings()):
        for i, e in enumerate(graph.edges):
            if e.kind == "data" and e.destination == task:
                tokens[i] -= e.consumed[fired[task] % len(e.consumed)]
                assert tokens[i] >= 0
        for i, e in enumerate(graph.edges):
            if e.kind == "data" and e.source == task:
                tokens[i] += e.produced[fired[task] % len(e.produced)]
        fired[task] += 1
    assert tuple(fired) == graph.firings
    assert all(tokens[i] == graph.edges[i].tokens for i in tokens)
    assert len([t for loop in loops for t in looped._tasks(loop)]) == len(graph.names)


@settings(max_examples=300)
@given(SEEDS)
def test_latency_is_what_releases_lead_to(seed: int) -> None:
    """Release the sources by the rule, many times: the worst iteration and the worst paths take
    exactly so long."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=4)
    vector, times = repetition(app).vector, graphs.times(rng, app)
    graph = graph_of(app, vector, times)
    if not Execution(graph).run() or sum(vector.values()) > 40:
        return
    least = graph.ns(least_period(graph).lower)
    period = least * rng.choice((1, Fraction(5, 4), 2)) + rng.choice((0, 1))
    spaced = rng.random() < 0.5
    sources, sinks = sources_and_sinks(graph)
    gap = {t: period / graph.firings[t] if spaced else Fraction(0) for t in sources}
    release = {graph.names[t]: tuple(gap[t] * k for k in range(graph.firings[t])) for t in sources}
    begun = slow.starts(app, vector, times, 25, overlap=False, release=release, every=period)
    worst = max(
        begun[n][k] + times[n][k % len(times[n])] - k // vector[n] * period
        for n in (graph.names[t] for t in sinks)
        for k in range(25 * vector[n])
    )
    ways = [
        DependencePath(source.name, sink, behind, None)
        for source in app.tasks
        if not source.inputs
        for sink, behind in newest(app, vector, source.name).items()
    ]
    found = latency(graph, period * graph.per_ns, spaced=spaced, paths=ways)
    assert worst == graph.ns(found.longest)
    for way, longest in zip(ways, found.paths, strict=True):
        q = vector[way.source]
        taken = []
        for k in range(25 * vector[way.sink]):
            data = k // vector[way.sink] * q + way.newest[k % vector[way.sink]]
            if data >= 0:
                released = (
                    data // q * period + release[way.source][data % q]
                    if spaced
                    else begun[way.source][data]
                )
                taken.append(
                    begun[way.sink][k] + times[way.sink][k % len(times[way.sink])] - released
                )
        assert longest is not None and max(taken) == graph.ns(longest)


@settings(max_examples=200)
@given(SEEDS)
def test_self_timed_execution_starts_every_firing_when_it_can(seed: int) -> None:
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=4)
    vector, times = repetition(app).vector, graphs.times(rng, app)
    graph = graph_of(app, vector, times)
    if not Execution(graph).run():
        return
    begun = slow.starts(app, vector, times, 3, overlap=False)
    mine: dict[str, list[Fraction]] = {n: [] for n in graph.names}
    for firing in self_timed(graph, 3):
        mine[graph.names[firing.task]].append(graph.ns(firing.start))
    assert mine == begun


def test_processors_fire_in_their_order() -> None:
    app = graphs.app(
        [
            graphs.task("A.a", {}, {"o": [1]}),
            graphs.task("A.b", {"i": [1]}, {"o": [1]}),
            graphs.task("A.c", {"i": [1]}, {}),
        ],
        [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.c", "i", 0)],
    )
    graph = graph_of(
        app,
        repetition(app).vector,
        {"A.a": (Fraction(2),), "A.b": (Fraction(3),), "A.c": (Fraction(1),)},
    )
    firings = self_timed(graph, 2, [[(0, 0), (2, 0), (0, 1), (2, 1)], [(1, 0), (1, 1)]])
    assert [(f.task, f.processor, f.start, f.end) for f in firings] == [
        (0, 0, 0, 2), (1, 1, 2, 5), (2, 0, 5, 6), (0, 0, 6, 8), (1, 1, 8, 11), (2, 0, 11, 12),
    ]  # fmt: skip
    late = self_timed(graph, 2, releases={0: [0, 10]})
    assert [f.start for f in late if f.task == 0] == [0, 10]


def test_a_deadlock_ends_the_execution() -> None:
    graph = graph_of(*_sample())
    assert len(self_timed(bounded(graph, {0: 3, 1: 7, 2: 5}), 5)) < sum(graph.firings)


def _sample():  # type: ignore[no-untyped-def]
    app, _ = graphs.known("sample")
    return app, repetition(app).vector, {t.name: t.wcet_ns for t in app.tasks}
