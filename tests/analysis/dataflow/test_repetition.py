"""Repetition vectors, deadlock and static orders, against a slow simulator and known answers."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import gcd
from pathlib import Path

import flowc
import pytest
from flowc.analysis.dataflow import liveness
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.order import iteration_order
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.static_order import MOST_JOBS, NoRound, schedule
from flowc.model.application import Application
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs

SEEDS = st.integers(0, 2**32)


def cd_to_dat() -> Application:
    """The sample-rate converter of the SDF3 benchmark: rates 1:1, 2:3, 2:7, 8:7, 5:1."""
    rates = [(1, 1), (2, 3), (2, 7), (8, 7), (5, 1)]
    tasks = []
    for i in range(6):
        ins = {"i": [rates[i - 1][1]]} if i else {}
        outs = {"o": [rates[i][0]]} if i < 5 else {}
        tasks.append(graphs.task(f"A.{'abcdef'[i]}", ins, outs))
    return graphs.app(
        tasks, [(f"A.{a}", "o", f"A.{b}", "i", 0) for a, b in zip("abcde", "bcdef", strict=True)]
    )


def test_the_sample_rate_converter_repeats_as_published() -> None:
    assert list(repetition(cd_to_dat()).vector.values()) == [147, 147, 98, 28, 32, 160]


@settings(max_examples=400)
@given(SEEDS)
def test_repetition_vectors_balance_and_are_the_least(seed: int) -> None:
    graph, made_from = graphs.consistent(random.Random(seed))
    vector = repetition(graph).vector
    assert graphs.balanced(graph, vector)
    cycles = [vector[t.name] // t.phases for t in graph.tasks]
    assert gcd(*cycles) == 1
    ratio = {Fraction(made_from[n], vector[n]) for n in vector}
    assert len(ratio) == 1  # connected: the vector it was made from is a multiple


@settings(max_examples=200)
@given(SEEDS)
def test_an_unbalanced_arrow_is_found_with_a_conflict_that_is_real(seed: int) -> None:
    rng = random.Random(seed)
    graph, made_from = graphs.consistent(rng)
    a, b = (rng.choice(graph.tasks).name for _ in range(2))
    if made_from[a] == 2 * made_from[b]:
        return  # that arrow balances
    tasks = [
        graphs.task(
            t.name,
            {p.name: p.rates for p in t.inputs} | ({"extra_in": [2]} if t.name == b else {}),
            {p.name: p.rates for p in t.outputs} | ({"extra_out": [1]} if t.name == a else {}),
        )
        for t in graph.tasks
    ]
    channels = [
        (c.source, c.source_port, c.destination, c.destination_port, c.delay)
        for c in graph.channels
    ]
    conflict = repetition(
        graphs.app(tasks, [*channels, (a, "extra_out", b, "extra_in", 0)])
    ).conflict
    assert conflict is not None
    assert conflict.demanded != conflict.given


@settings(max_examples=400)
@given(SEEDS)
def test_deadlock_verdict_equals_the_simulator(seed: int) -> None:
    graph, _ = graphs.consistent(random.Random(seed))
    verdicts, diagnostics = check(graph)
    alive = graphs.iterates(graph, verdicts.repetition)
    assert verdicts.deadlock_free.holds is alive
    assert [d.code for d in diagnostics] == ([] if alive else ["F204"] * len(diagnostics))
    assert alive or diagnostics


@settings(max_examples=200)
@given(SEEDS)
def test_blocked_tasks_wait_for_each_other(seed: int) -> None:
    graph, _ = graphs.consistent(random.Random(seed))
    order = iteration_order(graph, repetition(graph).vector)
    for blocked, following in zip(
        order.blocked, [*order.blocked[1:], *order.blocked[:1]], strict=True
    ):
        assert blocked.missing > 0
        assert blocked.channel.source == following.task


@settings(max_examples=300)
@given(SEEDS, st.booleans())
def test_static_orders_never_block_on_their_capacities(seed: int, pipelined: bool) -> None:
    """Any placement, any interleaving, replicas included: every processor reaches the end of its
    order."""
    rng = random.Random(seed)
    graph, _ = graphs.consistent(rng)
    vector = repetition(graph).vector
    if not graphs.iterates(graph, vector):
        return
    cores = [f"p{i}" for i in range(rng.randint(1, 3))]
    in_cycle = {
        n
        for c in graph.channels
        for n in (c.source, c.destination)
        if c.delay or c.source == c.destination
    }
    placement = {}
    for t in graph.tasks:
        share = t.replicable and t.name not in in_cycle and rng.random() < 0.4
        placement[t.name] = tuple(rng.sample(cores, len(cores))) if share else (rng.choice(cores),)
    if any(len(p) > 1 for p in placement.values()) and _has_cycle(graph):
        placement = {n: p[:1] for n, p in placement.items()}
    period = None if pipelined else Fraction(10**9)
    timed = Application("A", graph.tasks, graph.channels, period, period, 0, "", graph.span)
    times = {t.name: rng.choice((0.0, 1.0, 5.0)) for t in graph.tasks}
    made = schedule([timed], {"A": vector}, placement, times)
    iterations = 7
    machine = graphs.Machine(graph, vector, made.orders, made.capacities, iterations)
    assert machine.run(rng)
    for name, count in vector.items():
        assert sorted(machine.fired[name]) == list(range(count * iterations))


def _has_cycle(graph: Application) -> bool:
    from flowc.analysis.dataflow.order import components

    return bool(components(graph))


def _paced(name: str, period: Fraction) -> Application:
    a, b = graphs.task(f"{name}.a", {}, {"o": [1]}), graphs.task(f"{name}.b", {"i": [1]}, {})
    made = graphs.app([a, b], [(f"{name}.a", "o", f"{name}.b", "i", 0)])
    return Application(name, made.tasks, made.channels, period, period, 0, "", made.span)


def test_apps_of_different_periods_share_a_round() -> None:
    fast, slow = _paced("F", Fraction(20)), _paced("S", Fraction(30))
    vectors = {"F": {"F.a": 1, "F.b": 1}, "S": {"S.a": 1, "S.b": 1}}
    placement = {n: ("p",) for v in vectors.values() for n in v}
    order = schedule([fast, slow], vectors, placement, {}).orders["p"]
    assert [(s.task, s.index, s.per_round) for s in order if s.task.endswith(".a")] == [
        ("F.a", 0, 3), ("S.a", 0, 2), ("F.a", 1, 3), ("S.a", 1, 2), ("F.a", 2, 3),
    ]  # fmt: skip


def test_what_the_end_of_an_iteration_waits_for_comes_first() -> None:
    """a -> save and a -> b -> c: on one core, the long way first, once times are known and a period
    asks for it."""
    names = {
        "A.a": ({}, {"o": [1], "p": [1]}),
        "A.save": ({"i": [1]}, {}),
        "A.b": ({"i": [1]}, {"o": [1]}),
        "A.c": ({"i": [1]}, {}),
    }
    tasks = [graphs.task(name, ins, outs) for name, (ins, outs) in names.items()]
    made = graphs.app(
        tasks,
        [("A.a", "o", "A.save", "i", 0), ("A.a", "p", "A.b", "i", 0), ("A.b", "o", "A.c", "i", 0)],
    )
    places = dict.fromkeys(names, ("p",))
    times = {"A.a": 1.0, "A.save": 4.0, "A.b": 2.0, "A.c": 3.0}

    def order(period: Fraction | None, known: dict[str, float]) -> list[str]:
        timed = replace(made, period_ns=period, deadline_ns=period)
        steps = schedule([timed], {"A": dict.fromkeys(names, 1)}, places, known).orders["p"]
        return [s.task.removeprefix("A.") for s in steps]

    assert order(Fraction(100), times) == ["a", "b", "save", "c"]
    assert order(None, times) == order(Fraction(100), {}) == ["a", "save", "b", "c"]


def test_periods_without_a_short_round_are_refused() -> None:
    fast, slow = _paced("F", Fraction(1)), _paced("S", Fraction(MOST_JOBS + 1, MOST_JOBS))
    vectors = {"F": {"F.a": 1, "F.b": 1}, "S": {"S.a": 1, "S.b": 1}}
    with pytest.raises(NoRound):
        schedule([fast, slow], vectors, {n: ("p",) for v in vectors.values() for n in v}, {})


def test_a_period_that_one_task_cannot_keep_is_not_schedulable(tmp_path: Path) -> None:

    text = "task S { out o  wcet 2 ms }  task K { in i rate 3  wcet 1 ms }  app A { period 5 ms  s: S  k: K  s -> k }"
    (tmp_path / "t.flow").write_text(text)
    checked = flowc.check(tmp_path / "t.flow")
    assert checked.verdicts["A"].schedulable.holds is False
    assert [d.code for d in checked.diagnostics] == ["F211"]
    # The third firing is released at two thirds of the period; then 3 ms are still to be done.
    for period, holds in (("7 ms", False), ("9 ms", True), ("9 ms deadline 8 ms", False)):
        (tmp_path / "t.flow").write_text(text.replace("5 ms", period))
        checked = flowc.check(tmp_path / "t.flow")
        assert checked.verdicts["A"].schedulable.holds is holds
        assert [d.code for d in checked.diagnostics] == (["F216"] if holds is False else [])


def test_huge_repetition_vectors_are_exact_and_not_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(liveness, "MOST_STEPS", 50_000)
    p, q = 10**15 + 37, 10**15 + 91

    def loop(delay: int) -> Application:
        tasks = [
            graphs.task("A.a", {"back": [p]}, {"o": [p]}),
            graphs.task("A.b", {"i": [q]}, {"o": [q]}),
        ]
        return graphs.app(tasks, [("A.a", "o", "A.b", "i", 0), ("A.b", "o", "A.a", "back", delay)])

    # Two tasks on a cycle run for ever with p + q - gcd(p, q) tokens, and not with fewer.
    for delay, holds, codes in (
        (0, False, ["F204"]),
        (p + q - 2, None, ["F213"]),
        (p + q - 1, True, []),
    ):
        verdicts, diagnostics = check(loop(delay))
        assert verdicts.repetition == {"A.a": q // gcd(p, q), "A.b": p // gcd(p, q)}
        assert (verdicts.consistent.holds, verdicts.deadlock_free.holds) == (True, holds)
        assert [d.code for d in diagnostics] == codes


def test_graphs_that_are_too_large_to_be_looked_at_are_not_decided(tmp_path: Path) -> None:
    """Whether a deadline can be kept at all is looked at for a moment, and not at any size."""

    text = "task S { out o rate 999983 wcet 1 ns } task K { in i rate 1000003 wcet 1 ns } app A { period 1 s s: S k: K s -> k }"
    (tmp_path / "t.flow").write_text(text)
    checked = flowc.check(tmp_path / "t.flow")
    assert checked.ok and checked.verdicts["A"].schedulable.holds is None


def test_a_file_that_no_system_could_have_is_missing(tmp_path: Path) -> None:

    text = 'task A { out x: float32  python "a/%s/b.py:f" }' % ("c" * 300)
    (tmp_path / "t.flow").write_text(text)
    assert [d.code for d in flowc.check(tmp_path / "t.flow").diagnostics] == ["F301"]
