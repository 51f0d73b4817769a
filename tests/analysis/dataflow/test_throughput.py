"""Least periods against published answers, a slow simulator, and brute force."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from math import gcd

import networkx as nx
import pytest
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.cycle_ratio import Arc, OutOfTime, arcs_of, largest_cycle_ratio
from flowc.analysis.dataflow.graph import Graph, bounded, condensed, graph_of
from flowc.analysis.dataflow.latency import latency
from flowc.analysis.dataflow.liveness import Execution
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.throughput import Deadlocked, least_period
from flowc.model.application import Application
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphs
import slow
from builds import in_a_moment

SEEDS = st.integers(0, 2**32)


def graph_with_wcets(app: Application) -> Graph:
    return graph_of(app, repetition(app).vector, {t.name: t.wcet_ns for t in app.tasks})


@pytest.mark.parametrize("name", ["samplerate", "modem", "satellite", "h263decoder", "sample"])
def test_published_graphs_have_their_published_period(name: str) -> None:
    app, period = graphs.known(name)
    found = least_period(graph_with_wcets(app))
    assert found.exact and found.lower == Fraction(period)


def test_the_sample_rate_converter_is_slower_with_the_least_buffers() -> None:
    app, _ = graphs.known("samplerate")
    assert (
        least_period(bounded(graph_with_wcets(app), dict(enumerate((1, 4, 8, 14, 5))))).lower
        == 1088
    )


def test_the_csdf_sample_with_capacities() -> None:
    graph = graph_with_wcets(graphs.known("sample")[0])
    assert least_period(bounded(graph, dict(enumerate((8, 9, 5))))).lower == 25
    with pytest.raises(Deadlocked):
        least_period(bounded(graph, dict(enumerate((3, 7, 5)))))


def test_a_capacity_below_the_initial_tokens_is_refused() -> None:
    graph = graph_with_wcets(graphs.known("sample")[0])
    with pytest.raises(ValueError, match="4 initial tokens"):
        bounded(graph, {2: 3})


@settings(max_examples=1200)
@given(SEEDS)
def test_periods_equal_those_of_the_simulator(seed: int) -> None:
    """Without bounds, and with random capacities that may deadlock; sliding windows among them."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng)
    vector, times = repetition(app).vector, graphs.times(rng, app)
    graph = graph_of(app, vector, times)
    if not Execution(graph).run():
        with pytest.raises(Deadlocked):
            least_period(graph)
        return
    found = least_period(graph)
    assert found.exact and graph.ns(found.lower) == slow.period_of(app, vector, times)
    app = graphs.windowed(rng, app)
    graph = graph_of(app, vector, times)
    capacities = {}
    for i, e in enumerate(e for e in graph.edges if e.kind == "data"):
        capacities[i] = max(e.tokens, *e.produced, *e.consumed) + rng.choice((0, 0, 1, 2, 5, 9))
    named = {app.channels[i].name: n for i, n in capacities.items()}
    expected = slow.period_of(app, vector, times, named)
    try:
        limited = least_period(bounded(graph, capacities))
    except Deadlocked:
        assert expected is None
    else:
        assert limited.exact and graph.ns(limited.lower) == expected


@settings(max_examples=300)
@given(SEEDS)
def test_the_cycle_that_is_shown_dictates_the_period(seed: int) -> None:
    """It is closed, and it alone, without the rest of the graph, has the same period."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng)
    graph = graph_of(app, repetition(app).vector, graphs.times(rng, app))
    if not Execution(graph).run():
        return
    found = least_period(graph)
    edges = [graph.edges[s.edge] for s in found.cycle]
    for step, edge, after in zip(
        found.cycle, edges, [*found.cycle[1:], *found.cycle[:1]], strict=True
    ):
        assert (edge.source, edge.destination) == (step.task, after.task) or (
            edge.kind == "serial" and edge.source == step.task
        )
    on_cycle = {e.source for e in edges}
    only = [e for e in graph.edges if e in edges or (e.kind == "serial" and e.source in on_cycle)]
    alone = Graph(
        graph.names, graph.channels, graph.times, graph.per_ns, graph.cycles, tuple(only), graph.frees
    )  # fmt: skip
    if found.lower:
        assert least_period(alone).lower == found.lower


@settings(max_examples=300)
@given(SEEDS)
def test_firings_that_may_overlap(seed: int) -> None:
    """Start times by the rule itself settle to the least period, or grow without limit where
    nothing dictates one."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=4)
    vector, times = repetition(app).vector, graphs.times(rng, app)
    graph = graph_of(app, vector, times, overlap=True)
    if not Execution(graph).run() or sum(vector.values()) > 60:
        return
    found = least_period(graph)
    assert found.exact
    count = 60
    begun = slow.starts(app, vector, times, count, overlap=True)
    period = graph.ns(found.lower)
    reached = []
    for task, starts in begun.items():
        q = vector[task]
        last = [max(starts[i * q : (i + 1) * q]) for i in range(count)]
        reached.append((last[-1] - last[count // 2 - 1]) / (count - count // 2))
    slack = sum((sum(times[t]) * vector[t] for t in times), Fraction(0)) * 3 / count
    assert abs(max(reached) - period) <= slack


def brute_force(nodes: int, arcs: list[Arc]) -> Fraction | None:
    best = Fraction(0)
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    graph.add_nodes_from(range(nodes))
    by_pair: dict[tuple[int, int], list[Arc]] = {}
    for a in arcs:
        by_pair.setdefault((a.source, a.destination), []).append(a)
    simple = nx.DiGraph(list(by_pair))
    infeasible = False
    ratios = []
    for cycle in nx.simple_cycles(simple):
        hops = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        for chosen in itertools.product(*(by_pair[h] for h in hops)):
            length, height = sum(a.length for a in chosen), sum(a.height for a in chosen)
            if height > 0:
                ratios.append(Fraction(length, height))
            elif length > 0:
                infeasible = True
    best = max(ratios, default=Fraction(0))
    return None if infeasible else best


@settings(max_examples=500)
@given(SEEDS)
def test_cycle_ratios_equal_those_of_all_cycles(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(1, 5)
    arcs = [
        Arc(i, (i + 1) % nodes, rng.randint(0, 9), rng.choice((0, 1, 1, 2, 3)), i)
        for i in range(nodes)
    ]
    for _ in range(rng.randint(0, 7)):
        arcs.append(
            Arc(
                rng.randrange(nodes),
                rng.randrange(nodes),
                rng.randint(1, 9),
                rng.randint(-1, 4),
                len(arcs),
            )
        )
    found = largest_cycle_ratio(arcs_of(nodes, arcs))
    assert found.ratio == brute_force(nodes, arcs)
    length, height = sum(a.length for a in found.cycle), sum(a.height for a in found.cycle)
    if found.ratio is None:
        assert height <= 0 < length
    elif found.ratio:
        assert Fraction(length, height) == found.ratio


def test_out_of_time_gives_bounds() -> None:
    """Coprime rates make the exact expansion huge: what is known then is said, and it holds."""
    p, q = 10**9 + 7, 10**9 + 9
    tasks = [
        graphs.task("A.a", {"back": [p]}, {"o": [p]}),
        graphs.task("A.b", {"i": [q]}, {"o": [q]}),
    ]
    app = graphs.app(
        tasks, [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.a", "back", p + q - gcd(p, q))]
    )
    graph = graph_of(app, repetition(app).vector)
    found = least_period(graph, seconds=0.5)
    assert not found.exact and found.upper is not None and 0 < found.lower < found.upper


def test_phases_without_tokens_and_tasks_without_ports() -> None:
    app = graphs.app(
        [
            graphs.task("A.a", {}, {"o": [0, 0, 4]}),
            graphs.task("A.b", {"i": [1, 0]}, {}),
            graphs.task("A.c", {}, {}),
        ],
        [("A.a", "o", "A.b", "i", 0)],
    )
    graph = graph_of(app, repetition(app).vector)
    assert graph.firings == (3, 8, 1)
    assert least_period(graph).lower == 8
    assert least_period(graph_of(app, repetition(app).vector, overlap=True)).lower == 0


def test_a_cycle_that_only_allows_the_ratio_zero() -> None:
    """No time, and tokens run backwards: fine at a period of 0, impossible at any other."""
    arcs = [Arc(0, 0, 0, -1, 0), Arc(0, 0, 0, 0, 1)]
    assert largest_cycle_ratio(arcs_of(1, arcs)).ratio == 0
    assert largest_cycle_ratio(arcs_of(1, [*arcs, Arc(0, 0, 2, 1, 2)])).ratio is None


@settings(max_examples=300)
@given(SEEDS)
def test_mostly_without_time(seed: int) -> None:
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng)
    times = {
        n: tuple(t if rng.random() < 0.3 else Fraction(0) for t in ts)
        for n, ts in graphs.times(rng, app).items()
    }
    graph = graph_of(app, repetition(app).vector, times)
    if Execution(graph).run():
        found = least_period(graph)
        assert found.exact and graph.ns(found.lower) == slow.period_of(
            app, repetition(app).vector, times
        )


def test_long_lists_of_phases_keep_to_the_budget() -> None:
    """Coprime totals: every phase of one task meets every phase of the other."""
    tasks = [
        graphs.task("A.a", {"i": [2] + [1] * 9999}, {"o": [2] + [1] * 9999}),
        graphs.task("A.b", {"i": [1] * 9999}, {"o": [1] * 9999}),
    ]
    app = graphs.app(tasks, [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.a", "i", 30000)])
    with in_a_moment():
        least_period(graph_of(app, repetition(app).vector), seconds=1)


@settings(max_examples=200)
@given(SEEDS, st.sampled_from([10**9 + 7, 10**18 + 9, 10**30 + 57]))
@example(792593, 10**18 + 9)  # each number is a machine word, and their sum is none
def test_numbers_beyond_machine_words(seed: int, factor: int) -> None:
    """Times may be as long as they like: period and latency grow with them, and nothing is
    rounded."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng)
    graph = graph_of(app, repetition(app).vector, graphs.times(rng, app))
    if not Execution(graph).run():
        return
    slower = replace(graph, times=tuple(tuple(factor * x for x in ts) for ts in graph.times))
    period = least_period(graph).lower
    assert least_period(slower).lower == factor * period
    spent = latency(graph, period, spaced=True).longest
    assert latency(slower, factor * period, spaced=True).longest == factor * spent


@settings(max_examples=60)
@given(SEEDS)
def test_rows_of_tasks_with_hardly_any_room(seed: int) -> None:
    """Nearly every firing is on a critical cycle; with many firings per iteration, as in coded
    signal processing."""
    rng = random.Random(seed)
    cycles = [rng.choice((1, 2, 3, 4, 6, 8, 12, 24)) for _ in range(rng.randint(2, 7))]
    ports: list[tuple[dict[str, list[int]], dict[str, list[int]]]] = [({}, {}) for _ in cycles]
    channels = []
    room = {}
    for i, (a, b) in enumerate(itertools.pairwise(cycles)):
        traffic = a * b // gcd(a, b) * rng.choice((1, 2))
        ports[i][1][f"o{i}"] = [traffic // a]
        ports[i + 1][0][f"i{i}"] = [traffic // b]
        channels.append((f"A.t{i}", f"o{i}", f"A.t{i + 1}", f"i{i}", 0))
        grain = gcd(traffic // a, traffic // b)
        room[i] = traffic // a + traffic // b - grain + rng.choice((0, 0, 1, 2)) * grain
    app = graphs.app([graphs.task(f"A.t{i}", *ends) for i, ends in enumerate(ports)], channels)
    times = {t.name: (Fraction(rng.randint(1, 50)),) for t in app.tasks}
    vector = repetition(app).vector
    graph = bounded(graph_of(app, vector, times), room)
    expected = slow.period_of(
        app, vector, times, {app.channels[i].name: n for i, n in room.items()}
    )
    assert graph.ns(least_period(graph).lower) == expected


def test_a_limit_of_time_or_size_leaves_bounds_and_says_which() -> None:
    graph = graph_with_wcets(graphs.known("modem")[0])
    late = least_period(graph, seconds=-1.0)
    assert (late.cut, late.exact) == ("time", False) and late.lower <= 16
    with pytest.raises(OutOfTime):
        latency(graph, Fraction(16), spaced=False, seconds=-1.0)
    p, q = 10**9 + 7, 10**9 + 9
    tasks = [
        graphs.task("A.a", {"back": [p]}, {"o": [p]}),
        graphs.task("A.b", {"i": [q]}, {"o": [q]}),
    ]
    app = graphs.app(tasks, [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.a", "back", p + q - 1)])
    assert least_period(graph_of(app, repetition(app).vector)).cut == "size"
    assert least_period(graph).cut is None


@pytest.mark.parametrize("missing", [0, 1])
def test_loops_with_many_firings_are_decided(missing: int) -> None:
    """Of coprime rates p and q, p + q - 1 tokens are the fewest with which two tasks in a loop go
    on."""
    p, q = 20011, 30011
    tasks = [
        graphs.task("A.a", {"back": [p]}, {"o": [p]}),
        graphs.task("A.b", {"i": [q]}, {"o": [q]}),
    ]
    app = graphs.app(
        tasks, [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.a", "back", p + q - 1 - missing)]
    )
    verdicts, _ = check(app)
    assert verdicts.deadlock_free.holds is (missing == 0)


@given(nodes=st.integers(1, 12), data=st.data())
def test_components_are_those_of_networkx(nodes: int, data: st.DataObject) -> None:
    """Those of cyclic graphs are found without networkx, which takes long to import."""
    ends = st.integers(0, nodes - 1)
    arrows = data.draw(st.lists(st.tuples(ends, ends), max_size=30))
    whole: nx.DiGraph[int] = nx.DiGraph(arrows)
    whole.add_nodes_from(range(nodes))
    home, components = condensed(nodes, arrows)
    assert sorted(map(sorted, nx.strongly_connected_components(whole))) == sorted(components)
    assert all(n in components[home[n]] for n in range(nodes))
