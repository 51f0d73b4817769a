"""Least capacities and the trade-off with the period, against published answers and exhaustive
search."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.dataflow.buffers import least_capacities, start_capacities, trade_off
from flowc.analysis.dataflow.graph import Graph, bounded, graph_of
from flowc.analysis.dataflow.liveness import Execution, deadlock, fewest_tokens
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.throughput import least_period
from flowc.model.application import Application
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import slow

SEEDS = st.integers(0, 2**32)


def with_tokens(graph: Graph, more: dict[int, int]) -> Graph:
    """The graph with more initial tokens on some edges."""
    return replace(
        graph,
        edges=tuple(
            replace(e, tokens=e.tokens + more.get(i, 0)) for i, e in enumerate(graph.edges)
        ),
    )


#: Totals of the least that runs and of the least at full speed (Stuijk, Geilen, Basten 2006, table
#: 1).
PUBLISHED = {"samplerate": (32, 34), "modem": (38, 40), "satellite": (1542, 1544)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_graphs_need_what_was_published(name: str) -> None:
    app, period = graphs.known(name)
    graph = graph_of(app, repetition(app).vector, {t.name: t.wcet_ns for t in app.tasks})
    front = trade_off(graph)
    least, full = PUBLISHED[name]
    assert front.complete and all(p.proved for p in front.points)
    assert (front.points[0].total, front.points[-1].total) == (least, full)
    assert front.points[-1].period == Fraction(period)
    found = least_capacities(graph)
    assert (found.total, found.proved) == (least, True)


def test_each_channel_of_the_sample_rate_converter() -> None:
    app, _ = graphs.known("samplerate")
    found = least_capacities(graph_of(app, repetition(app).vector))
    assert list(found.capacities.values()) == [1, 4, 8, 14, 5]


def distributions(
    app: Application, total: int, least: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Every way to give the channels so many tokens of capacity together."""
    names = [c.name for c in app.channels]
    spare = total - sum(least.values())
    for cut in itertools.combinations(range(spare + len(names) - 1), len(names) - 1):
        edges = [-1, *cut, spare + len(names) - 1]
        parts = [b - a - 1 for a, b in itertools.pairwise(edges)]
        yield {n: least[n] + k for n, k in zip(names, parts, strict=True)}


def floor(app: Application) -> dict[str, int]:
    """What every channel needs whatever the others have: its initial tokens, its largest firing."""
    tasks = {t.name: t for t in app.tasks}
    return {
        c.name: max(
            c.delay,
            *tasks[c.source].port(c.source_port).rates,
            *tasks[c.destination].port(c.destination_port).rates,
        )
        for c in app.channels
    }


def small(rng: random.Random) -> tuple[Application, dict[str, int]] | None:
    app, _ = graphs.consistent(rng, most_tasks=4)
    vector = repetition(app).vector
    if (
        not 1 <= len(app.channels) <= 4
        or sum(vector.values()) > 40
        or not graphs.iterates(app, vector)
    ):
        return None
    return app, vector


@settings(max_examples=500)
@given(SEEDS)
def test_least_capacities_run_and_nothing_smaller_does(seed: int) -> None:
    rng = random.Random(seed)
    made = small(rng)
    if made is None:
        return
    app, vector = made
    app = graphs.windowed(rng, app)
    found = least_capacities(graph_of(app, vector))
    assert found.proved
    assert slow.runs_with(
        app, vector, {app.channels[c].name: n for c, n in found.capacities.items()}
    )
    least = floor(app)
    if found.total - sum(least.values()) > 9:
        return
    for smaller in range(sum(least.values()), found.total):
        for capacities in distributions(app, smaller, least):
            assert not slow.runs_with(app, vector, capacities), capacities


@settings(max_examples=60)
@given(SEEDS)
def test_every_point_of_the_front_is_the_least_for_its_period(seed: int) -> None:
    rng = random.Random(seed)
    made = small(rng)
    if made is None:
        return
    app, vector = made
    times = graphs.times(rng, app)
    graph = graph_of(app, vector, times)
    front = trade_off(graph)
    assert front.complete and all(p.proved for p in front.points)
    assert front.points[-1].period == least_period(graph).lower
    least = floor(app)
    if len(app.channels) > 3 or front.points[-1].total - sum(least.values()) > 8:
        return
    best: Fraction | None = None
    expected = []
    for total in range(sum(least.values()), front.points[-1].total + 1):
        periods = [slow.period_of(app, vector, times, c) for c in distributions(app, total, least)]
        reached = min((p for p in periods if p is not None), default=None)
        if reached is not None and (best is None or reached < best):
            best = reached
            expected.append((total, reached))
    assert [(p.total, graph.ns(p.period or 0)) for p in front.points] == expected


@settings(max_examples=100)
@given(SEEDS)
def test_the_least_for_a_period_is_the_point_of_the_front(seed: int) -> None:
    rng = random.Random(seed)
    made = small(rng)
    if made is None:
        return
    app, vector = made
    graph = graph_of(app, vector, graphs.times(rng, app))
    front = trade_off(graph)
    wanted = rng.choice(front.points)
    assert wanted.period is not None
    found = trade_off(graph, until=wanted.period)
    assert found.complete and found.points[-1].total == wanted.total


@settings(max_examples=60)
@given(SEEDS)
def test_without_time_the_answer_is_larger_but_right(seed: int) -> None:
    rng = random.Random(seed)
    made = small(rng)
    if made is None:
        return
    app, vector = made
    graph = graph_of(app, vector, graphs.times(rng, app))
    goal = least_period(graph).lower
    exact = trade_off(graph, until=goal)
    hurried = trade_off(graph, until=goal, seconds=0.0001)
    for point in hurried.points:
        assert (
            point.period is not None
            and least_period(bounded(graph, point.capacities)).lower <= point.period
        )
        assert point.lower <= point.total
    if hurried.complete:
        last = hurried.points[-1]
        assert last.period is not None and last.period <= goal
        assert last.lower <= exact.points[-1].total <= last.total


@settings(max_examples=400)
@given(SEEDS)
def test_the_fewest_initial_tokens(seed: int) -> None:
    """What is added makes an iteration complete, and no placement of fewer tokens does."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=4)
    vector = repetition(app).vector
    graph = graph_of(app, vector, overlap=True)
    if sum(vector.values()) > 60 or Execution(graph).run():
        return
    cure = fewest_tokens(graph)
    total = sum(cure.tokens.values())
    assert Execution(with_tokens(graph, cure.tokens)).run()
    if not cure.least or total > 5:
        return
    edges = range(len(graph.edges))
    for count in range(total):
        for chosen in itertools.combinations_with_replacement(edges, count):
            more = {e: chosen.count(e) for e in set(chosen)}
            assert not Execution(with_tokens(graph, more)).run(), more


@settings(max_examples=300)
@given(SEEDS)
def test_the_witness_of_a_deadlock_is_a_ring_that_waits(seed: int) -> None:
    app, _ = graphs.consistent(random.Random(seed))
    graph = graph_of(app, repetition(app).vector)
    found = deadlock(graph)
    assert (found is None) == graphs.iterates(app, repetition(app).vector)
    if found is None:
        return
    for wait, after in zip(found.cycle, [*found.cycle[1:], *found.cycle[:1]], strict=True):
        edge = graph.edges[wait.edge]
        assert (edge.source, edge.destination) == (after.task, wait.task) and wait.missing > 0
    assert {w.task for w in found.cycle} <= {w.task for w in found.blocked}
    # The tasks of the ring block each other whatever the rest does: alone they are blocked as well.
    ring = {w.edge for w in found.cycle}
    alone = with_tokens(graph, {i: 10**9 for i in range(len(graph.edges)) if i not in ring})
    assert not Execution(alone).run()


def test_a_start_is_never_above_the_least() -> None:
    app, _ = graphs.known("satellite")
    graph = graph_of(app, repetition(app).vector)
    start, found = start_capacities(graph), least_capacities(graph).capacities
    assert all(start[c] <= found[c] for c in found)


@settings(max_examples=200)
@given(SEEDS, st.integers(0, 3))
def test_a_search_that_is_cut_short_still_answers(seed: int, most: int) -> None:
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=7)
    vector = repetition(app).vector
    graph = graph_of(app, vector)
    if sum(vector.values()) > 200 or not Execution(graph).run():
        return
    hurried, exact = least_capacities(graph, most=most), least_capacities(graph)
    assert hurried.lower <= exact.cost <= hurried.cost
    assert Execution(bounded(graph, hurried.capacities)).run()


@settings(max_examples=200)
@given(SEEDS)
def test_tokens_may_differ_in_size(seed: int) -> None:
    rng = random.Random(seed)
    made = small(rng)
    if made is None:
        return
    app, vector = made
    weights = {i: rng.choice((1, 2, 7)) for i in range(len(app.channels))}
    found = least_capacities(graph_of(app, vector), weights=weights)
    assert found.proved and found.cost == sum(n * weights[c] for c, n in found.capacities.items())
    least = floor(app)
    plain = sum(found.capacities.values())
    if plain - sum(least.values()) > 6:
        return
    for total in range(sum(least.values()), plain + 3):
        for capacities in distributions(app, total, least):
            if (
                sum(capacities[c.name] * weights[i] for i, c in enumerate(app.channels))
                < found.cost
            ):
                assert not slow.runs_with(app, vector, capacities), capacities
