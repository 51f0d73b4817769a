"""Tasks and networks mapped together under deadlines: candidates, placing, bounds, optimum, and the
verb."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import inf
from pathlib import Path

import flowc
import numpy as np
import pytest
from flowc.analysis.timing.system import TimedPath, utilization
from flowc.analysis.timing.terms import WorstCases
from flowc.cli import app
from flowc.cli._deadlines import joint_table
from flowc.driver.measure.measure import run_deployed
from flowc.driver.plan.program import place, plan
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.deadlines import Joint, reasons
from flowc.driver.solve.map import find_mapping
from flowc.driver.text import store
from flowc.machines.search_workers import ALONE
from flowc.model.mapping import Mapping
from flowc.model.platform import Platform, Pool
from flowc.model.times import times_of
from flowc.networks.onnx.cuts import read_chain
from flowc.profiling.measure import MeasuredTimes
from flowc.search.budget import Budget
from flowc.search.deadline import candidates, exact, limits
from flowc.search.deadline.answer import mapping_of
from flowc.search.deadline.auto import POWER_SEARCHES, SEARCHES, search
from flowc.search.deadline.candidates import KernelRow, front
from flowc.search.deadline.exact import solve
from flowc.search.deadline.genetic import THESIS, heuristic_ga
from flowc.search.deadline.limits import LIMITS, BrokenLimit, Deadlines, Engines
from flowc.search.deadline.loads import RESOLUTION, LoadModel, alike, told_apart
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.place import Placer, plain
from flowc.search.deadline.problem import (
    Assignment,
    Candidate,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from flowc.search.deadline.program import timed
from flowc.search.deadline.relaxed import relax
from flowc.search.deadline.states import CommonPlaces, pinned_in
from flowc.search.deadline.verdict import utilizations, verdict
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from builds import Write, pretend_runs, store_profile
from options import options_of

MS = 1_000_000


def board(cores: int = 2, dlas: int = 2, engines: int | None = None) -> Platform:
    pools = (
        Pool("arm", "cpu", cores, True, "fixed_priority"),
        Pool("volta", "gpu", 1, False, "fifo"),
        Pool("nvdla", "dla", dlas, True, "fifo", engines=engines, engines_total=True),
    )
    return Platform("board", pools, (), "", None)


def _around(channel: JointChannel, net: str, firings: int) -> JointChannel:
    """The channel with rates for a network that fires so often in an iteration, and its neighbors
    once."""
    if channel.destination == net:
        return replace(channel, produced=(firings,))
    return replace(channel, consumed=(firings,)) if channel.source == net else channel


def chain(names: list[str]) -> tuple[JointChannel, ...]:
    return tuple(JointChannel(a, b) for a, b in pairwise(names))


@st.composite
def problems(draw: st.DrawFn, cores: int = 2) -> JointProblem:
    """One to three groups: a row of tasks with a network in the middle, which may fire several
    times an iteration."""
    teams, items, nets = [], [], []
    for g in range(draw(st.integers(1, 3))):
        name = f"G{g}"
        period = Fraction(draw(st.sampled_from([40, 50, 100])) * MS)
        row = []
        firings = draw(st.integers(1, 3))
        for t in range(draw(st.integers(1, 3))):
            kinds = draw(st.sampled_from([("cpu",), ("cpu", "gpu"), ("gpu",)]))
            row.append(f"{name}.t{t}")
            items.append(
                DeadlineTask(row[-1], name, {k: draw(st.integers(1, 8)) * MS for k in kinds})
            )
        if draw(st.booleans()):
            row.insert(1, f"{name}.net")
            rows = draw(st.lists(st.sampled_from([("gpu",), ("dla",), ("dla", "gpu"), ("gpu", "dla", "gpu")]),
                                 min_size=1, max_size=3))  # fmt: skip
            candidates = tuple(
                Candidate(
                    "-".join(r),
                    tuple(
                        CandidateStage(k, (draw(st.integers(1, 6)) * MS,), f"l{s}", firings=firings)
                        for s, k in enumerate(r)
                    ),
                )
                for r in rows
            )
            nets.append(DeadlineNetwork(row[1], name, candidates))
        channels = tuple(_around(c, f"{name}.net", firings) for c in chain(row))
        paths: tuple[TimedPath, ...] = ()
        if len(row) > 1 and draw(st.booleans()):
            due = draw(st.none() | st.integers(5, 60).map(lambda ms: ms * MS))
            paths = (
                TimedPath(
                    row[0], row[-1], (0,) * (firings if row[-1].endswith(".net") else 1), due
                ),
            )
        teams.append(TaskGroup(name, period, None, g, channels, paths))
    return JointProblem(
        board(cores, 2, draw(st.sampled_from([None, 2, 3]))),
        tuple(teams),
        tuple(items),
        tuple(nets),
        {},
    )


# -- candidates ------------------------------------------------------------------------------------
def test_options_of_a_xavier_contain_those_of_the_paper() -> None:
    options = options_of(board(8, 2), ["gpu", "dla"])
    for paper in ("dla gpu", "gpu dla gpu", "dla dla gpu", "gpu dla dla gpu", "gpu"):
        assert tuple(paper.split()) in options


@settings(max_examples=200)
@given(st.data())
def test_the_front_leaves_nothing_out(data: st.DataObject) -> None:
    """Every way to cut a network is beaten or equalled by a candidate of the front."""
    count = data.draw(st.integers(1, 6))
    times = {
        kind: [data.draw(st.one_of(st.integers(0, 9), st.just(inf))) for _ in range(count)]
        for kind in ("gpu", "dla")
    }
    if any(min(times[k][i] for k in times) == inf for i in range(count)):
        return
    border = data.draw(st.integers(0, 2))
    nothing_left_out(times, border)


@pytest.mark.parametrize(
    ("gpu", "dla", "border"),
    [
        ([inf, inf, inf, 1], [4, 1, 3, inf], 2),  # the border moves the balance of two DLAs
        ([inf, inf, 5], [0, 0, inf], 0),
    ],
)
def test_the_front_balances_parts(gpu: list[float], dla: list[float], border: int) -> None:
    nothing_left_out({"gpu": gpu, "dla": dla}, border)


def nothing_left_out(times: dict[str, list[float]], border: int) -> None:
    count = len(times["gpu"])
    network = KernelRow(tuple(f"l{i}" for i in range(count)), times, tuple(range(1, count)), border)
    platform = board(2, 2, 4)
    found = front(network, platform)
    vectors = [_vector([(s.type, float(s.work)) for s in c.stages]) for c in found.candidates]
    for option in options_of(platform, ["gpu", "dla"]):
        for ends in product(range(1, count), repeat=len(option) - 1):
            cuts = [0, *ends, count]
            if any(b <= a for a, b in pairwise(cuts)):
                continue
            stages = [
                (kind, sum(times[kind][a:b]) + (border if a else 0))
                for kind, a, b in zip(option, cuts, cuts[1:], strict=False)
            ]
            wanted = _vector(stages)
            if inf not in wanted:
                assert any(all(x <= y for x, y in zip(v, wanted, strict=True)) for v in vectors), (
                    option,
                    ends,
                )
    for c in found.candidates:
        assert sum(len(s.kernels) if s.type == "gpu" else 1 for s in c.stages) >= len(c.stages)


def _vector(stages: list[tuple[str, float]]) -> tuple[float, float, int]:
    gpu = sum(t for k, t in stages if k == "gpu")
    dla = [t for k, t in stages if k == "dla"]
    return gpu, max(dla, default=0.0) if len(dla) <= 2 else sum(dla), len(dla)


# -- placing and bounds ----------------------------------------------------------------------------
def test_with_too_many_cuts_some_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly over the network; what they give is no better than all of them, and said not to be
    exact."""
    rng = np.random.default_rng(3)
    times = {"gpu": rng.integers(1, 9, 24).tolist(), "dla": rng.integers(2, 18, 24).tolist()}
    times["dla"][7] = inf
    network = KernelRow(tuple(f"l{i}" for i in range(24)), times, tuple(range(1, 24)))
    platform = board(2, 2, 4)
    exact = front(network, platform)
    monkeypatch.setattr(candidates, "MOST_CUTS", 12)
    found = front(network, platform)
    assert exact.exact and not found.exact and len(found.candidates) > 5

    def vector(c: Candidate) -> tuple[float, ...]:
        return _vector([(s.type, float(s.work)) for s in c.stages])

    best = [vector(c) for c in exact.candidates]
    for c in found.candidates:
        assert any(all(x <= y for x, y in zip(b, vector(c), strict=True)) for b in best)
    assert found.candidates[0].latency <= 1.2 * min(c.latency for c in exact.candidates)


@settings(max_examples=80)
@given(problems(), st.booleans(), st.randoms(use_true_random=False))
def test_populations_are_placed_like_individuals(
    problem: JointProblem, at_home: bool, random: object
) -> None:
    rng = np.random.default_rng(random.randrange(10**6))  # type: ignore[attr-defined]
    choices = np.stack([rng.integers(0, len(n.candidates), size=5) for n in problem.networks], axis=1) if problem.networks else (
        np.zeros((5, 0), int)
    )  # fmt: skip
    placed = Placer(problem).place(choices, at_home=np.full(5, at_home))
    for i in range(5):
        used, expected = plain(problem, tuple(int(c) for c in choices[i]), at_home)
        assert placed.assignment(problem, i, choices[i]) == expected
        exact = utilizations(problem, expected)
        assert placed.used[i] == pytest.approx([float(exact[p]) for p in problem.processors])
        assert used == pytest.approx({p: float(u) for p, u in exact.items()})
        assert bool(placed.engines[i]) == crowded(problem, expected)


@pytest.mark.parametrize("name", ["orin", "orin_jetpack7", "orin_nx", "xavier"])
def test_contention_of_the_boards_that_come_with_flowc_makes_bounds_longer(
    name: str, tmp_path: Path
) -> None:
    """Their files speak of kinds of processors, and call their pools otherwise."""
    (tmp_path / "a.flow").write_text(
        "task T { out x: float32 wcet 1 ms } app A { period 9 ms t: T }"
    )
    platform = flowc.check(tmp_path / "a.flow", platform=name).platform
    assert platform is not None and platform.contention
    teams = tuple(TaskGroup(k, Fraction(100 * MS), None, 0, ()) for k in ("gpu", "dla"))
    problem = JointProblem(
        platform,
        teams,
        tuple(DeadlineTask(f"{k}.t", k, {k: 10 * MS}) for k in ("gpu", "dla")),
        (),
        {},
    )
    places = Assignment((), (), (problem.of_type["gpu"][0], problem.of_type["dla"][0]))
    apart = verdict(
        replace(problem, platform=replace(platform, contention=())), places
    ).worst.groups
    together = verdict(problem, places).worst.groups
    factors = {c.victim: c.factor for c in platform.contention}
    assert all(apart[k] == 10 * MS and together[k] > 10 * MS for k in factors)
    # No longer than if the other one was busy all the time.
    assert all((together[k] or 0) <= 10 * MS * factors[k] + 1 for k in factors)


def crowded(problem: JointProblem, assignment: Assignment) -> bool:
    """Would a pool hold too many engines?"""
    return any(Engines().broken(problem, assignment, WorstCases({}, {}, {})))


def everything(problem: JointProblem) -> list[Assignment]:
    found = []
    for choice in product(*(range(len(n.candidates)) for n in problem.networks)):
        rows = [
            list(product(*(problem.of_type[s.type] for s in n.candidates[c].stages)))
            for n, c in zip(problem.networks, choice, strict=True)
        ]
        for steps_ in product(*rows):
            for items in product(*(problem.places(i) for i in problem.tasks)):
                found.append(Assignment(tuple(choice), tuple(steps_), tuple(items)))
    return found


@settings(max_examples=25)
@given(problems())
def test_searches_and_bounds_count_the_same_work(problem: JointProblem) -> None:
    every = everything(problem)
    for found in every[:: max(1, len(every) // 20)]:
        assert utilization(timed(problem, found)) == utilizations(problem, found)


@settings(max_examples=25)
@given(problems(cores=1).filter(lambda p: len(p.tasks) <= 4))
def test_the_optimum_is_that_of_brute_force(problem: JointProblem) -> None:
    every = everything(problem)
    if len(every) > 400:
        return
    feasible = [v.maximum for v in (verdict(problem, a) for a in every) if v.feasible]
    allowed = [max(utilizations(problem, a).values()) for a in every if not crowded(problem, a)]
    found = solve(problem, seed=0, budget=Budget(60))
    if allowed:
        relaxed = relax(problem)
        assert relaxed is not None and relaxed.bound <= float(min(allowed)) + 1e-9
        assert float(found.bound) <= float(min(feasible, default=Fraction(1))) + 1e-6
    if feasible:
        assert found.verdict is not None and found.verdict.feasible
        assert float(found.verdict.maximum) == pytest.approx(float(min(feasible)), rel=2e-4)
    else:
        assert found.verdict is None or not found.verdict.feasible


def rows_of(problem: JointProblem, group: TaskGroup, assignment: Assignment) -> list[int]:
    """The time of every row of tasks and networks from a first to a last one, found by walking."""
    times = {}
    for task, there in zip(problem.tasks, assignment.tasks, strict=True):
        times[task.name] = task.wcet_ns[problem.type[there]]
    for network, c in zip(problem.networks, assignment.choice, strict=True):
        times[network.name] = sum(sum(s.kernels) for s in network.candidates[c].stages)

    def walked(name: str) -> list[int]:
        after = [c.destination for c in group.channels if c.source == name]
        return [times[name] + rest for other in after for rest in walked(other)] or [times[name]]

    return [length for name in times if name.startswith(group.name) for length in walked(name)]


@settings(max_examples=40)
@given(problems(cores=1).filter(lambda p: len(p.tasks) <= 4), st.integers(4, 30))
def test_a_bound_that_knows_deadlines_is_not_above_what_keeps_them(
    problem: JointProblem, ms: int
) -> None:
    """Nor below the bound without them."""
    groups = tuple(replace(g, deadline_ns=Fraction(ms * MS)) for g in problem.groups)
    late = replace(problem, groups=groups)
    every = everything(problem)
    if len(every) > 1000:
        return
    relaxed, loads = relax(late), relax(problem)
    if relaxed is None or loads is None:
        return
    assert relaxed.bound >= loads.bound - 1e-6
    for found in every:
        rows = [row for g in groups for row in rows_of(late, g, found)]
        if max(rows) <= ms * MS and not crowded(late, found):
            used = float(max(utilizations(late, found).values()))
            assert relaxed.bound <= used + 1e-9
            for rises, c in zip(relaxed.rises, found.choice, strict=True):
                assert relaxed.bound + rises[c] <= used + 1e-6


def test_a_bound_knows_that_a_slow_processor_is_too_late() -> None:
    """A task takes 2 ms on the GPU and 10 ms on a CPU: only a deadline keeps it on the GPU."""
    tasks = tuple(DeadlineTask(f"G.{n}", "G", {"cpu": 10 * MS, "gpu": 2 * MS}) for n in "ab")
    group = TaskGroup("G", Fraction(100 * MS), None, 0, chain(["G.a", "G.b"]))
    problem = JointProblem(board(cores=8), (group,), tasks, (), {})
    bounds = []
    for ms in (20, 12, 4, 3):
        due = replace(group, deadline_ns=Fraction(ms * MS))
        relaxed = relax(replace(problem, groups=(due,)))
        assert relaxed is not None
        bounds.append(relaxed.bound)
    # Where nothing is in time, deadlines are left out. A CPU that has more of a task has more to do
    # than the GPU: with a fraction x of each there, 0.02 + 0.08 x = 2 (0.02 - 0.02 x).
    assert bounds == pytest.approx([1 / 30, 1 / 30, 0.04, 1 / 30], abs=1e-4)


def test_a_bound_knows_the_largest_task() -> None:
    """One of four processors has all of it, beside what is pinned there."""
    tasks = tuple(DeadlineTask(n, "G", {"cpu": ms * MS}) for n, ms in (("a", 40), ("b", 10)))
    group = TaskGroup("G", Fraction(100 * MS), None, 0, ())
    problem = JointProblem(board(cores=4), (group,), tasks, (), {})
    relaxed = relax(problem)
    assert relaxed is not None and relaxed.bound == pytest.approx(0.4, abs=1e-6)
    pinned = {f"p{n}": f"arm[{n}]" for n in range(4)}
    beside = tuple(DeadlineTask(n, "G", {"cpu": 5 * MS}) for n in pinned)
    relaxed = relax(replace(problem, tasks=(*tasks, *beside), pins=pinned))
    assert relaxed is not None and relaxed.bound == pytest.approx(0.45, abs=1e-6)


class Quick:
    """A limit that flowc does not have: no app takes more than a part of its period."""

    def broken(
        self, problem: JointProblem, assignment: Assignment, worst: WorstCases
    ) -> Iterator[BrokenLimit]:
        for name, bound in worst.groups.items():
            if bound is None or bound > problem.period[name] / 2:
                yield BrokenLimit(self, name, f"`{name}` is slow")


@settings(max_examples=15)
@given(problems(cores=1).filter(lambda p: len(p.tasks) <= 4))
def test_a_limit_is_kept_by_every_search(problem: JointProblem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LIMITS", (*LIMITS, Quick()))
        every = everything(problem)
        if len(every) > 100:
            return
        verdicts = [verdict(problem, assignment) for assignment in every]
        least = min((v.maximum for v in verdicts if v.feasible), default=None)
        for name in ("exact", "auto"):
            found = search(problem, name=name, seed=0, budget=Budget(60))
            if least is None:
                assert found.kept_maximum is None
            else:
                assert found.kept_maximum == pytest.approx(least, rel=2e-4)
            if found.assignment is not None and found.kept_maximum is not None:
                assert verdict(problem, found.assignment).feasible


@settings(max_examples=25)
@given(problems(cores=1).filter(lambda p: len(p.tasks) <= 4))
def test_a_bound_of_some_candidates_holds_for_all(problem: JointProblem) -> None:
    """Whatever the one candidate of each network is that the exact search looks at."""
    every = everything(problem)
    if len(every) > 100:
        return
    verdicts = [verdict(problem, assignment) for assignment in every]
    least = min((v.maximum for v in verdicts if v.feasible), default=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "ATTEMPTS", ((1, False, 1),))
        found = solve(problem, seed=0, budget=Budget(60))
    assert least is None or found.bound <= least + RESOLUTION


def doubled(problem: JointProblem) -> JointProblem:
    """The problem with a copy of each group: all tasks are there twice."""

    def copied(name: str) -> str:
        return f"{name}'"

    items = [
        replace(i, name=copied(i.name), group=copied(i.group))
        for i in problem.tasks
        if i.name not in problem.pins
    ]
    nets = [replace(n, name=copied(n.name), group=copied(n.group)) for n in problem.networks]
    groups = [
        replace(
            g,
            name=copied(g.name),
            channels=tuple(
                replace(c, source=copied(c.source), destination=copied(c.destination))
                for c in g.channels
            ),
            paths=(),
        )
        for g in problem.groups
    ]
    return replace(
        problem,
        groups=(*problem.groups, *groups),
        tasks=(*problem.tasks, *items),
        networks=(*problem.networks, *nets),
    )


@settings(max_examples=20)
@given(problems().map(doubled))
def test_tasks_that_are_alike_change_no_optimum_of_loads(problem: JointProblem) -> None:
    """An exchange of them is one solution less, and nothing else. Some problems with loads near 1
    take a solver hours: what it has not decided in time is compared with nothing."""
    allowed = tuple(tuple(range(len(n.candidates))) for n in problem.networks)
    items = alike(problem)
    assert sorted(t for own in items for t in own) == list(range(len(problem.tasks)))
    assert all(len(own) > 1 for own in items)
    found = []
    for classes in (items, told_apart(problem)):
        model = LoadModel(problem, allowed, classes, Fraction(0))
        found.append(model.solve(0, Budget(3), threads=1))
    together, apart = found
    assume({together.status, apart.status} <= {"optimal", "infeasible"})
    assert together.status == apart.status
    if apart.assignment is None or together.assignment is None:
        return
    loads = [
        max(utilizations(problem, a).values()) for a in (together.assignment, apart.assignment)
    ]
    assert abs(loads[0] - loads[1]) <= RESOLUTION
    assert together.bound <= loads[1] <= together.bound + RESOLUTION
    assert not crowded(problem, together.assignment)
    assert all(
        place in problem.places(task)
        for task, place in zip(problem.tasks, together.assignment.tasks, strict=True)
    )


def test_tasks_of_other_times_places_or_engines_are_not_alike() -> None:
    task = DeadlineTask("G.a", "G", {"cpu": MS})
    group = TaskGroup("G", Fraction(10 * MS), None, 0, ())
    half = TaskGroup("H", Fraction(5 * MS), None, 0, ())
    others = (
        replace(task, name="G.b"),
        replace(task, name="G.slow", wcet_ns={"cpu": 2 * MS}),
        replace(task, name="G.both", wcet_ns={"cpu": MS, "gpu": MS}),
        replace(task, name="G.engine", engine=True),
        replace(task, name="G.pinned"),
        replace(task, name="H.often", group="H"),
        replace(task, name="H.as_slow", group="H", wcet_ns={"cpu": MS // 2}),
    )
    pins = {"G.pinned": "arm[0]"}
    problem = JointProblem(board(), (group, half), (task, *others), (), pins)
    # What is half as long and twice as frequent loads a processor as much.
    assert alike(problem) == ((0, 1, 7), (2, 6), (3,), (4,), (5,))


@settings(max_examples=8, derandomize=True)  # some problems take every search its whole budget
@given(problems())
def test_searches_agree_on_what_is_possible_and_none_beats_the_bound(problem: JointProblem) -> None:
    found = {
        name: run(problem, 0, Budget(60), None, ALONE)
        for name, run in SEARCHES.items()
        if name not in ("entire-ga", *POWER_SEARCHES)
    }
    bound = found["auto"].bound
    for name, outcome in found.items():
        if outcome.verdict is not None and outcome.verdict.feasible:
            assert bound is None or float(outcome.verdict.maximum) >= float(bound) - 1e-9, name
    if found["exact"].verdict is not None and found["exact"].verdict.feasible:
        auto = found["auto"].verdict
        assert auto is not None and auto.feasible
        assert float(auto.maximum) <= float(found["exact"].verdict.maximum) * 1.001


@given(problem=problems(), which=st.integers(0, 10**6))
@settings(max_examples=30, database=None)
def test_what_one_state_has_placed_is_pinned_in_the_next(problem: JointProblem, which: int) -> None:
    """Stages that are tasks take the same time; that their kernels are not told apart makes no
    bound shorter."""
    assignments = everything(problem)
    assignment = assignments[which % len(assignments)]
    nets = {
        n.name: (c, s)
        for n, c, s in zip(problem.networks, assignment.choice, assignment.stages, strict=True)
    }
    items = {i.name: p for i, p in zip(problem.tasks, assignment.tasks, strict=True)}
    fixed = pinned_in(problem, CommonPlaces(items, nets))
    there = CommonPlaces(dict(fixed.pins)).of(fixed)
    assert (
        not fixed.networks
        and verdict(fixed, there).utilization == verdict(problem, assignment).utilization
    )
    whole = verdict(problem, assignment).worst.groups
    for name, bound in verdict(fixed, there).worst.groups.items():
        assert whole[name] is None or bound is None or bound >= whole[name]


def test_a_seed_gives_the_same_answer_and_searches_do_not_disturb_each_other() -> None:
    items = tuple(
        DeadlineTask(f"G{g}.t{t}", f"G{g}", {"cpu": (3 + t) * MS, "gpu": MS})
        for g in range(3)
        for t in range(4)
    )
    teams = tuple(
        TaskGroup(f"G{g}", Fraction(50 * MS), None, g, chain([f"G{g}.t{t}" for t in range(4)]))
        for g in range(3)
    )
    problem = JointProblem(board(4), teams, items, (), {})
    few = replace(THESIS, population=64)
    first = heuristic_ga(problem, seed=7, budget=Budget(60), numbers=few)
    heuristic_ga(problem, seed=8, budget=Budget(1), numbers=few)
    again = heuristic_ga(problem, seed=7, budget=Budget(60), numbers=few)
    assert first.assignment == again.assignment and first.feasible


def test_too_many_engines_are_impossible() -> None:
    candidates = (Candidate("dla", (CandidateStage("dla", (MS,), None),)),)
    nets = tuple(DeadlineNetwork(f"G{g}.net", f"G{g}", candidates) for g in range(3))
    items = tuple(DeadlineTask(f"G{g}.t", f"G{g}", {"cpu": MS}) for g in range(3))
    teams = tuple(
        TaskGroup(f"G{g}", Fraction(50 * MS), None, 0, chain([f"G{g}.t", f"G{g}.net"]))
        for g in range(3)
    )
    problem = JointProblem(board(2, 2, 2), teams, items, nets, {})
    assert solve(problem, seed=0, budget=Budget(60)).impossible == "limits"
    assert search(problem, name="auto", seed=0, budget=Budget(60)).impossible == "limits"


# -- the verb --------------------------------------------------------------------------------------
TEXT = """
task Camera {{ out x wcet 2 ms }}
task Filter {{ in x out y wcet 4 ms }}
task Show   {{ in y wcet 1 ms }}
app Left  {{ period {left}  priority 2  c: Camera f: Filter s: Show  c -> f -> s }}
app Right {{ period 50 ms  priority 1  c: Camera f: Filter s: Show  c -> f -> s }}
platform two {{ cpu core[2] scheduler fixed_priority }}
"""


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(w) for w in words])
    return done.exit_code, done.stdout, done.stderr


def test_map_meets_deadlines_and_says_so(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT.format(left="20 ms"))
    chart = tmp_path / "g.svg"
    status, out, err = call("map", flow, "--platform", "two", "--explain", "--gantt", chart)
    assert status == 0, err
    assert (
        "schedulable" in out
        and "proved" in out
        and "is the tightest" in out
        and chart.stat().st_size > 1000
    )
    status, out, err = call("map", flow, "--platform", "two", "--json")
    found = json.loads(out)
    assert status == 0 and set(found) == {
        "max_utilization", "utilization", "groups", "tasks", "networks", "disturbed", "file", "search", "priorities",
    }  # fmt: skip
    assert (
        found["groups"]["Left"]["schedulable"]
        and found["groups"]["Left"]["response_time_ns"] >= 7 * MS
    )
    assert found["search"]["optimal"] and found["max_utilization"] == pytest.approx(0.25)
    stored = flowc.check(flow, platform="two")
    assert stored.ok and len([p for p in stored.system.pins if p.platform == "two"]) == 6


HOST = """
task Camera {{ out x: int64  python "tasks.py:Camera" }}
task Save   {{ in x: int64  python "tasks.py:Save" }}
task Filter {{ in x: int64  out y: int64  python "tasks.py:Filter" }}
task Show   {{ in y: int64  python "tasks.py:Show" }}
app Left  {{ period 100 ms  c: Camera v: Save f: Filter s: Show  c -> v  c -> f -> s }}
app Right {{ period 200 ms  c: Camera f: Filter s: Show  c -> f -> s }}
mapping on host {{
    {pins}
}}
"""
CODE = """
class Camera:
    def __call__(self): return 1
class Save:
    def __call__(self, x): pass
class Filter:
    def __call__(self, x): return x
class Show:
    def __call__(self, y): pass
"""


def test_bounds_are_about_the_program_that_is_built(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core: Left's camera, filter, show, save, then Right's; no task preempts another
    one."""
    wcet = {"c": 3, "v": 4, "f": 5, "s": 6}
    pins = "\n".join(
        f"{a}.{t} -> cpu[0] wcet {wcet[t]} ms"
        for a in ("Left", "Right")
        for t in wcet
        if (a, t) != ("Right", "v")
    )
    (tmp_path / "tasks.py").write_text(CODE)
    flow = write(HOST.format(pins=pins))
    pretend_runs(monkeypatch)
    found = find_mapping(flow, budget=60).joint
    assert found is not None and found.program is not None and found.verdict is not None
    (worker,) = found.program.workers
    assert [(p.group, p.task[-1], p.index) for p in worker.sequence] == [
        ("Left", "c", 0), ("Left", "f", 0), ("Left", "s", 0), ("Left", "v", 0),
        ("Right", "c", 0), ("Right", "f", 0), ("Right", "s", 0),
        ("Left", "c", 1), ("Left", "f", 1), ("Left", "s", 1), ("Left", "v", 1),
    ]  # fmt: skip
    left, right = (sum(sum(t.wcet) for t in g.tasks) for g in found.program.groups)
    assert (left, right) == (18 * MS, 14 * MS)
    assert found.verdict.worst.groups == {"Left": left, "Right": left + right}
    assert all(c.capacity is not None for g in found.program.groups for c in g.channels)
    (bound,) = (g for g in found.mapping.groups if g.app == "Right")
    assert bound.response_ns == math.ceil(left + right)


def test_a_deadline_that_cannot_be_met(write: Write, tmp_path: Path) -> None:
    status, out, _ = call(
        "map", write(TEXT.format(left="6 ms")), "--platform", "two", "--budget", "2s", "--explain"
    )
    assert status == 1 and "Left   too late " in out
    assert (tmp_path / "app.two.mapping.json").exists()  # the best there is


def test_an_overloaded_processor_makes_no_other_late() -> None:
    teams = tuple(TaskGroup(name, Fraction(10 * MS), None, 0, ()) for name in "AB")
    items = (DeadlineTask("A.x", "A", {"cpu": 12 * MS}), DeadlineTask("B.x", "B", {"cpu": 4 * MS}))
    problem = JointProblem(board(2), teams, items, (), {})
    told = verdict(problem, Assignment((), (), ("arm[0]", "arm[1]")))
    assert told.worst.groups == {"A": None, "B": 4 * MS} and told.late == ("A",)


@pytest.mark.parametrize(("ms", "spared"), [(1, True), (20, False)])
def test_with_slack_few_processors_are_used(ms: int, spared: bool) -> None:
    items = tuple(DeadlineTask(f"{g}.t{k}", g, {"cpu": ms * MS}) for g in "AB" for k in range(2))
    teams = tuple(
        TaskGroup(g, Fraction(100 * MS), None, 0, chain([f"{g}.t0", f"{g}.t1"])) for g in "AB"
    )
    found = search(
        JointProblem(board(4), teams, items, (), {}), name="auto", seed=0, budget=Budget(60)
    )
    assert found.verdict is not None and found.verdict.feasible and found.assignment is not None
    assert (found.spared is not None, len(set(found.assignment.tasks)) == 1) == (spared, spared)
    assert found.spared == (Fraction(ms, 100) if spared else None)


def test_where_few_processors_are_late_more_are_tried(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of the program may show that it takes longer than the profile knows."""
    tried: list[bool] = []

    def run(valid: object, known: object, joint: Joint, request: object) -> Joint:
        tried.append(joint.outcome.spared is not None)
        assert joint.verdict is not None
        late = (
            [BrokenLimit(Deadlines(), t.name, "is late") for t in joint.problem.groups]
            if tried[-1]
            else []
        )
        return replace(joint, verdict=replace(joint.verdict, broken=tuple(late)))

    monkeypatch.setattr("flowc.driver.solve.deadlines._of_program", run)
    text = "".join(f"app {n} {{ period 100 ms  a: T  b: T }}\n" for n in "AB")
    flow = write("task T { wcet 1 ms }\nplatform board { cpu core[4] }\n" + text)
    found = find_mapping(flow, platform="board", budget=2.0)
    assert tried == [True, False] and found.joint is not None
    assert (
        found.joint.outcome.spared is None
        and len({p.processors for p in found.mapping.placements}) > 1
    )


def test_without_a_bound_it_is_said_what_would_help() -> None:
    teams = tuple(TaskGroup(name, Fraction(10 * MS), None, 0, ()) for name in "AB")
    problem = JointProblem(
        board(1),
        teams,
        tuple(DeadlineTask(f"{t.name}.x", t.name, {"gpu": 6 * MS}) for t in teams),
        (),
        {},
    )
    found = Assignment((), (), ("volta", "volta"))
    told = verdict(problem, found)
    outcome = Outcome("auto", found, told, None, False, None, 0, 0.0)
    said = reasons(Joint(problem, outcome, Mapping("board", (), (), "auto"), told))
    assert "`A` has no bound: `volta` would need 120% of its time, 60% for `A.x`" in said
    head = said.index("each of these alone keeps all deadlines, by the same bounds:")
    assert said[head + 1 : head + 4] == [
        "  all times x 0.833, as by faster processors",
        "  `A.x` in at most 4.000 ms instead of 6.000 ms",
        "  `B.x` in at most 4.000 ms instead of 6.000 ms",
    ]


def test_the_processor_that_is_overloaded_is_named_with_its_largest_task() -> None:
    team = TaskGroup("A", Fraction(10 * MS), None, 0, chain(["A.a", "A.b", "A.c"]))
    times = {"A.a": 1, "A.b": 13, "A.c": 9}
    tasks = tuple(DeadlineTask(name, "A", {"cpu": ms * MS}) for name, ms in times.items())
    problem = JointProblem(board(2), (team,), tasks, (), {})
    found = Assignment((), (), ("arm[0]", "arm[0]", "arm[1]"))
    told = verdict(problem, found)
    outcome = Outcome("auto", found, told, None, False, None, 0, 0.0)
    said = reasons(Joint(problem, outcome, Mapping("board", (), (), "auto"), told))
    assert "`A` has no bound: `arm[0]` would need 140% of its time, 130% for `A.b`" in said
    head = said.index("each of these alone keeps all deadlines, by the same bounds:")
    assert said[head + 1] == "  all times x 0.434, as by faster processors"


def test_what_if_there_were_more_frames_or_fewer_cores(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT.format(left="20 ms"))
    words = ("map", flow, "--platform", "two", "--fps", "10", "--cores", "1", "--json")
    assert json.loads(call(*words)[1])["file"] is None and not list(tmp_path.glob("*.mapping.json"))
    status, out, _ = call(*words, "--keep")
    found = json.loads(out)
    (stored,) = tmp_path.glob("*.mapping.json")
    assert (
        status == 0 and list(found["utilization"]) == ["core[0]"] and found["file"] == str(stored)
    )
    assert found["max_utilization"] == pytest.approx(0.14)
    # It says what was supposed, counts for the text, and proves nothing for its own rates.
    assert json.loads(stored.read_text())["supposed"] == {"fps": "10", "cores": 1}
    checked = flowc.check(flow, platform="two")
    assert [d.message for d in checked.diagnostics if d.code == "F734"] == [
        f"`{stored.name}` was found for 10 frames/s on 1 core of a pool"
    ]
    assert checked.mapping is not None and not checked.mapping.groups
    assert {p for placed in checked.mapping.placements for p in placed.processors} == {"core[0]"}
    for wrong in (["--fps", "fast"], ["--fps", "0"], ["--search", "magic"]):
        assert call("map", flow, "--platform", "two", *wrong)[0] == 2


def test_times_that_are_missing_are_all_listed(write: Write) -> None:
    text = "task A { out x } task B { in x } app G { period 5 ms a: A b: B a -> b } platform p { cpu c }"
    status, _, err = call("map", write(text), "--platform", "p")
    assert status == 1 and err.count("error[F509]") == 2 and "`G.a`" in err and "`G.b`" in err


def test_more_work_than_time_is_said_before_any_search(write: Write) -> None:
    text = "task A { out x wcet 4 ms } task B { in x wcet 4 ms } app G { period 5 ms a: A b: B a -> b } platform p { cpu c }"
    status, _, err = call("map", write(text), "--platform", "p")
    assert status == 1 and "F509" in err and "needs 1.60 of them" in err


def test_searches_of_the_other_problem_are_refused(write: Write) -> None:
    status, _, err = call(
        "map", write(TEXT.format(left="20 ms")), "--platform", "two", "--search", "jedi"
    )
    assert status == 1 and "F508" in err and "entire-ga" in err


NETWORK = """
task Source {{ out x: float32[1, 4] rate {rate}  python "t.py:source"  wcet 1 ms }}
network Net from "net.onnx" {{ in x from "input"  out y from "output" }}
task Sink {{ in y: float32[1, 2] rate {rate}  python "t.py:sink"  wcet 1 ms }}
app A {{ period 20 ms   source: Source   net: Net   sink: Sink   source -> net -> sink }}
platform two {{ cpu core[2] }}
{mapping}
"""


def network(write: Write, **words: object) -> Path:
    flow = write(
        NETWORK.format(**{"rate": 1, "mapping": "", **words}),
        t_py="def source(): ...\ndef sink(y): ...\n",
    )
    shutil.copy(Path(__file__).parents[1] / "faulty/files/linear.onnx", flow.with_name("net.onnx"))
    return flow


def test_a_network_that_fires_several_times_in_an_iteration(write: Write, tmp_path: Path) -> None:
    """Its stages do as well, and their work counts as often."""
    flow = network(write, rate=3)
    store_profile(flow, {"A.net": 2 * MS}, "two")
    path = next(tmp_path.glob("*.two.profile.json"))
    document = json.loads(path.read_text())
    entry = next(e for e in document["entries"] if e["subject"] == "A.net")
    layers = [x.name for x in read_chain(tmp_path / "net.onnx", {}).layers]
    entry["layers"] = [{"layer": name, "mean_ns": MS // 4} for name in layers]
    path.write_text(json.dumps(document))
    status, out, _ = call("map", flow, "--platform", "two", "--budget", "2s", "--json")
    found = json.loads(out)
    assert status == 0 and found["groups"]["A"]["schedulable"]
    assert sum(found["utilization"].values()) == pytest.approx(
        (MS + MS + 3 * 2 * MS) / (20 * MS), rel=1e-3
    )


def test_a_pin_without_times_there_is_said(write: Write) -> None:
    flow = network(write, mapping="mapping on orin { A.net -> ampere }")
    store_profile(flow, {}, "orin")
    status, _, err = call("map", flow, "--platform", "orin")
    assert status == 1 and "error[F509]: `A.net` has no worst-case time on the gpu of `orin`" in err


def test_a_worst_case_that_the_text_gives_holds_for_each_firing(
    write: Write, tmp_path: Path
) -> None:
    """Pinned or declared, whatever the profile has; what only it knows has its curve."""
    pins = "mapping on two { A.source -> core[0] wcet 5 ms }"
    flow = network(write, mapping=pins)
    store_profile(flow, {}, "two")
    path = tmp_path / "app.two.profile.json"
    document = json.loads(path.read_text())
    for entry in document["entries"]:
        entry |= {"wcet_ns": 5 * MS, "max_ns": 5 * MS, "totals_ns": [5 * MS, 6 * MS, 7 * MS]}
    path.write_text(json.dumps(document))
    checked = flowc.check(flow, platform="two")
    valid = checked.require()
    problem = joint_problem(
        valid, times_of(valid.system, valid.platform, store.read_profile(valid)[0])
    )
    work = {i.name: i.work("cpu") for i in problem.tasks}
    assert work == {"A.source": 5 * MS, "A.net": Fraction(7 * MS, 3), "A.sink": MS}


def test_few_processors_are_no_fewer_where_pins_hold_others() -> None:
    teams = tuple(TaskGroup(g, Fraction(100 * MS), None, 0, ()) for g in "ABC")
    items = tuple(
        DeadlineTask(f"{g}.t", g, {"cpu": ms * MS}) for g, ms in (("A", 2), ("B", 10), ("C", 9))
    )
    problem = JointProblem(board(4), teams, items, (), {"A.t": "arm[1]"})
    found = search(problem, name="auto", seed=0, budget=Budget(60))
    assert found.assignment is not None and found.assignment.tasks == ("arm[1]",) * 3
    both = replace(problem, pins={"A.t": "arm[1]", "B.t": "arm[2]"})
    found = search(both, name="auto", seed=0, budget=Budget(60))
    assert found.assignment is not None and set(found.assignment.tasks) == {"arm[1]", "arm[2]"}


def test_an_app_is_not_said_to_come_before_itself(write: Write) -> None:
    flow = write(
        "task Camera { out x  wcet 3 ms } task Prep { in x  out y  wcet 6 ms } task Vote { in y  wcet 3 ms }\n"
        "app Belt { period 8 ms  deadline 16 ms  camera: Camera  prep: Prep  vote: Vote  camera -> prep -> vote }\n"
        "platform two { cpu core[2] }\n"
        "mapping on two { Belt.camera -> core[0]  Belt.vote -> core[0]  Belt.prep -> core[1] }"
    )
    status, out, _ = call("map", flow, "--platform", "two", "--budget", "1s", "--explain")
    assert status == 1 and "`Belt` may come first" not in out
    assert (
        "  its other firings on the same processor may come first: 11.00 ms"
        " (2 x vote 6.00, 2 x camera 5.00)" in out
    )


def test_a_higher_priority_is_named_only_where_it_helps(write: Write) -> None:
    """In a static order Lo has begun when Hi is released, whatever their priorities."""
    text = (
        "task W { out x  wcet 26 ms }  task V { in x  wcet 6 ms }  task S { out x  wcet 36 ms }"
        " task K { in x  wcet 26 ms }"
        " app Hi { period 70 ms  deadline 33 ms  priority PRIO  w: W  v: V  w -> v }"
        " app Lo { period 140 ms  priority 2  s: S  k: K  s -> k }"
        " platform so { cpu core }  platform fp { cpu core scheduler fixed_priority }"
    )
    helps = "  other priorities: Hi > Lo"
    said = {}
    for name in ("so", "fp"):
        flow = write(text.replace("PRIO", "1"))
        status, out, _ = call("map", flow, "--platform", name, "--budget", "1s", "--explain")
        said[name] = (status, helps in out, "would be proved" in out)
    assert said == {"so": (1, False, True), "fp": (1, True, True)}
    flow = write(text.replace("PRIO", "3"))
    assert [call("map", flow, "--platform", n, "--budget", "1s")[0] for n in ("so", "fp")] == [1, 0]


# -- paths -----------------------------------------------------------------------------------------
SPOT = """
task Mic {{ out x: float32 rate 512  wcet 1 ms }}
task Frame {{ in x: float32 rate 160  out y: float32  wcet 1 ms }}
task Net {{ in y: float32 rate 8  out p: float32  wcet 1 ms }}
task Log {{ in p: float32  wcet 1 ms }}
task Long {{ wcet 9 ms }}
app Spot {{
    deadline {due} from mic to log   priority {priority}
    mic: Mic every 32 ms  frame: Frame  net: Net  log: Log   mic -> frame -> net -> log
}}
app Rival {{ period 40 ms  priority 2  long: Long }}
platform one {{ cpu core scheduler fixed_priority }}
platform two {{ cpu core[2] scheduler fixed_priority }}
"""


def test_a_path_is_met_or_too_late_whatever_its_iterations_take(write: Write) -> None:
    """An iteration takes 135 ms of its 160, and has no deadline of its own. The second `log` fires
    between 128 and 136 ms, the rival from 120 to 129 ms.
    """
    flow = write(SPOT.format(due="9 ms", priority=1))
    status, out, _ = call("map", flow, "--platform", "one", "--budget", "2s", "--explain")
    assert status == 0 and "`Spot.mic -> Spot.log` is the tightest: 8.00 ms of 9.00 ms" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["Spot", "schedulable", "136.00", "-"] in rows
    assert ["Spot.mic", "->", "log", "met", "8.00", "9.00"] in rows
    flow = write(SPOT.format(due="7 ms", priority=1))
    status, out, _ = call("map", flow, "--platform", "one", "--budget", "2s", "--explain")
    rows = [line.split() for line in out.splitlines()]
    assert status == 1 and ["Spot", "path", "too", "late", "136.00", "-"] in rows
    assert ["Spot.mic", "->", "log", "too", "late", "8.00", "7.00"] in rows
    assert "`Spot.mic -> Spot.log` is the tightest: 8.00 ms of 7.00 ms" in out
    assert "  its own path takes 7.00 ms: mic 1.00, frame 4.00, net 1.00, log 1.00" in out
    assert "  `Rival` preempts it: 1.00 ms (1 x long 1.00)" in out
    assert "a deadline of 8.00 ms would be proved" in out
    assert "\n  other priorities: Spot > Rival\n" in out
    # What would help helps: the priority, or a processor of its own.
    assert (
        call(
            "map", write(SPOT.format(due="7 ms", priority=3)), "--platform", "one", "--budget", "2s"
        )[0]
        == 0
    )
    flow = write(SPOT.format(due="7 ms", priority=1))
    status, out, _ = call("map", flow, "--platform", "two", "--budget", "2s", "--json")
    (path,) = json.loads(out)["groups"]["Spot"]["paths"]
    assert status == 0 and path == {
        "kind": "path", "source": "Spot.mic", "task": "Spot.log", "latency_ns": 7 * MS, "deadline_ns": 7 * MS, "met": True,
            "conditions": [],
    }  # fmt: skip


def test_bounds_and_programs_know_times_by_phase(write: Write) -> None:
    """S ends at 9 and 21 ms, as `analyze` says: its second firing is short."""
    flow = write(
        "task S { out x: int64 rate [1, 1]  wcet [9, 1] ms }  task K { in x: int64 rate 2  wcet 1 ms }\n"
        "app P { period 40 ms  deadline 22 ms  s: S  k: K  s -> k }  platform one { cpu core }"
    )
    status, out, _ = call("map", flow, "--platform", "one", "--budget", "1s", "--no-measure")
    rows = [line.split() for line in out.splitlines()]
    assert status == 0 and ["P", "schedulable", "22.00", "22.00"] in rows
    assert call("analyze", flow)[0] == 0


def test_what_a_run_shows_of_paths_stands_beside_their_bounds() -> None:
    """Paths keep their order; those that no firing ended show nothing."""
    paths = tuple(
        TimedPath("A.a", name, (0,), due) for name, due in (("A.b", 30 * MS), ("A.c", None))
    )
    team = TaskGroup(
        "A",
        Fraction(40 * MS),
        None,
        0,
        (JointChannel("A.a", "A.b"), JointChannel("A.a", "A.c")),
        paths,
    )
    items = tuple(DeadlineTask(f"A.{t}", "A", {"cpu": MS}) for t in "abc")
    problem = JointProblem(board(1), (team,), items, (), {})
    found = Assignment((), (), ("arm[0]",) * 3)
    outcome = Outcome("auto", found, verdict(problem, found), None, False, None, 0, 0.0)
    seen = MeasuredTimes(
        {},
        {},
        {},
        {},
        {},
        longest_ns={"A": 5},
        frames={"A": 3},
        paths={"A": [(4, 3, 1), (None, 0, 0)]},
    )
    (group,) = mapping_of(problem, outcome, outcome.verdict, 0, seen).groups
    assert group.deadline_ns is None and group.schedulable
    assert [(p.latency_ns, p.deadline_ns, p.seen_ns, p.firings, p.missed) for p in group.paths] == [
        (group.paths[0].latency_ns, 30 * MS, 4, 3, 1), (group.paths[1].latency_ns, None, None, 0, 0),
    ]  # fmt: skip
    assert {p.latency_ns for p in group.paths} == {2 * MS, 3 * MS}
    said = joint_table(
        Joint(problem, outcome, mapping_of(problem, outcome, outcome.verdict, 0, seen), None)
    )
    assert "above its bound" not in said
    late = replace(seen, longest_ns={"A": 9 * MS}, paths={"A": [(4, 3, 1), (7 * MS, 3, 0)]})
    said = joint_table(
        Joint(problem, outcome, mapping_of(problem, outcome, outcome.verdict, 0, late), None)
    )
    assert "\nseen above its bound: A, A.a -> c; the times that the bound assumes" in said
    assert Mapping.from_json(mapping_of(problem, outcome, outcome.verdict, 0, seen).to_json({}))[
        0
    ].groups == (group,)


def test_a_path_to_a_network_ends_with_its_last_stage() -> None:
    candidates = (
        Candidate(
            "dla-gpu",
            (CandidateStage("dla", (2 * MS,), "l"), CandidateStage("gpu", (3 * MS,), None)),
        ),
    )
    team = TaskGroup(
        "A",
        Fraction(40 * MS),
        None,
        0,
        chain(["A.a", "A.net"]),
        (TimedPath("A.a", "A.net", (0,), 5 * MS),),
    )
    items = (DeadlineTask("A.a", "A", {"cpu": MS}),)
    problem = JointProblem(
        board(1), (team,), items, (DeadlineNetwork("A.net", "A", candidates),), {}
    )
    told = verdict(problem, Assignment((0,), (("nvdla[0]", "volta"),), ("arm[0]",)))
    assert told.worst.paths == {"A": (6 * MS,)} and told.late == ("A",) and not told.feasible


def test_a_run_of_the_program_shows_its_paths(write: Write, tmp_path: Path) -> None:
    """On a board that is this machine, with what the program itself has measured."""
    code = "def mic(): return 1\ndef log(x): pass\n"
    text = """
        task Mic { out x: int64 rate 2  python "t.py:mic" }
        task Log { in x: int64  python "t.py:log" }
        app A { deadline 1000 s from mic to log  mic: Mic every 20 ms  log: Log  mic -> log }
    """
    flow = write(text, t_py=code.replace("return 1", "return [1, 2]"))
    store_profile(flow)
    valid = flowc.check(flow).require()
    times = times_of(valid.system, valid.platform, None)
    seen = run_deployed(valid, plan(valid, times, place(valid, times)), 0.3)
    ((longest, firings, missed),) = seen.paths["A"]
    assert longest is not None and longest > 0 and firings > 0 and missed == 0


def test_frames_that_could_not_begin_count_among_those_that_missed(write: Write) -> None:
    code = "import time\ndef mic():\n    time.sleep(0.05)\n    return 1\ndef log(x): pass\n"
    text = """
        task Mic { out x: int64  python "t.py:mic" }
        task Log { in x: int64  python "t.py:log" }
        app A { period 2 ms  mic: Mic  log: Log  mic -> log }
    """
    flow = write(text, t_py=code)
    store_profile(flow)
    valid = flowc.check(flow).require()
    times = times_of(valid.system, valid.platform, None)
    seen = run_deployed(valid, plan(valid, times, place(valid, times)), 0.3)
    assert seen.misses["A"] == seen.frames["A"] > 50 > len(seen.samples["A.mic"])


def test_a_live_source_takes_no_time_while_it_waits(write: Write) -> None:
    """Its first firing included, whose data come long after the program has begun."""
    wait = 60 * MS
    code = f"import time\ndef mic():\n    time.sleep({wait / 1e9})\n    return 1\n"
    text = """
        task Mic { out x: int64   live   python "t.py:mic" }
        task Log { in x: int64   python "t.py:log" }
        app A { deadline 1000 s   mic: Mic every 60 ms   log: Log   mic -> log }
    """
    flow = write(text, t_py=code + "def log(x): pass\n")
    store_profile(flow)
    valid = flowc.check(flow).require()
    times = times_of(valid.system, valid.platform, None)
    seen = run_deployed(valid, plan(valid, times, place(valid, times)), 0.3)
    assert seen.samples["A.mic"]
    assert max(seen.samples["A.mic"]) < wait / 2


def test_the_ends_of_latest_have_a_time_without_a_place(write: Write) -> None:
    text = """
        task S { out x: int32 wcet 3 ms }
        task K { in x: int32 wcet 5 ms }
        app A { period 10 ms  s: S }
        app C { period 20 ms  k: K  A.s -> latest wcet 20 us -> k }
        platform two { cpu core[2] scheduler fixed_priority }
    """
    status, out, err = call("map", write(text), "--platform", "two", "--search", "exact", "--json")
    assert status == 0, err
    assert {"A.to_C", "C.from_A_s"} <= set(json.loads(out)["tasks"])
    found = json.loads(out)["utilization"]
    assert sum(found.values()) == pytest.approx(0.3 + 0.25 + 0.02 / 10 + 0.02 / 20)
    status, _, err = call("map", write(text.replace("wcet 20 us", "")), "--platform", "two")
    assert status == 1 and "give its arrow one: `-> latest wcet 20 us ->`" in err
