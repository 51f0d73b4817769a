"""The least mean power: places, cuts and clock rates together, held against all of them."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import flowc
import numpy as np
import pytest
from flowc.driver.solve.map import Answer
from flowc.machines.search_workers import ALONE
from flowc.model.diagnostic import Errors
from flowc.model.platform import Platform, Pool
from flowc.search.budget import Budget
from flowc.search.deadline import energy
from flowc.search.deadline.auto import SEARCHES
from flowc.search.deadline.energy import of_least_power
from flowc.search.deadline.energy_model import EnergyModel, StateProblem
from flowc.search.deadline.energy_relaxed import relaxed_power
from flowc.search.deadline.lengths import latencies, rows
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.power import MeanWork, PowerModel, clock_of
from flowc.search.deadline.problem import (
    Assignment,
    Candidate,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    InnerTensor,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from flowc.search.deadline.scenario_ga import THESIS, scenario_ga, scenario_ga_of_one
from flowc.search.deadline.verdict import verdict
from flowc.search.deadline.work import domains, stage_work

import least_power
from builds import Write, store_profile
from models import N, save, weights

MS, NEAR = 10**6, Fraction(1, 10**5)
TEXT = """
platform b {
    cpu big[1] scheduler fixed_priority frequencies [1000, 2000] MHz idle [0, 0] W busy [3, 9] W
    cpu little[1] scheduler fixed_priority frequencies [1000, 2000] MHz idle [0, 0] W busy [0.3, 0.9] W
    power 0.1 W
}
task S { out x: float32   python "t.py:s"  wcet 1 ms }
task W { in x: float32   out y: float32   python "t.py:w"   wcet 20 ms }
task K { in y: float32   python "t.py:k"  wcet 1 ms }
app A { period 100 ms   s: S   w: W   k: K   s -> w -> k }
"""
CODE = "def s(): return 1.0\ndef w(x): return x\ndef k(y): pass\n"
AT_ONCE = """
task Camera { out x: float32[1, 8]   wcet 1 ms   python "t.py:c" }
task Watch { in y: float32[1, 4]   wcet 1 ms   python "t.py:w" }
network See {
    variant careful from "net.onnx"
    variant quick from "net.onnx"
}
app A { period 20 ms   camera: Camera   see: See   watch: Watch   camera -> see -> watch }
app B { period 20 ms   camera: Camera   see: See   watch: Watch   camera -> see -> watch }
platform duo {
    cpu core[4] scheduler fixed_priority frequencies [1000, 2000] MHz idle [0.1, 0.2] W busy [1, 3] W
    power 1 W
}
scenario S {
    minimise energy
    event turn
    initial state one { run A, B   A.see = careful   B.see = careful   weight 0.7 }
    state two { run A, B   A.see = quick   B.see = quick }
    one -> two on turn at once
    two -> one on turn
}
"""
ONE = "scenario C { minimise energy   initial state on { run A } }\n"


def mapped(write: Write, text: str, objective: str = "") -> Answer:
    path = write(text, t_py=CODE)
    return flowc.map(path, platform="b", budget=10, measure=False, objective=objective)


def places(answer: Answer) -> set[str]:
    return {processor for place in answer.mapping.placements for processor in place.processors}


# -- by the verb -----------------------------------------------------------------------------------
def test_tasks_go_where_they_take_less(write: Write) -> None:
    """22 ms of 100, at half the rate 44: 0.1 + 0.44 x 0.3 W on `little`, 0.1 + 0.44 x 3 on `big`."""
    states = mapped(write, TEXT + ONE).states
    assert states is not None and states.least_power is not None
    assert states.least_power.watts == Fraction(232, 1000) and states.least_power.proved
    assert states.least_power.scope.moved == ("places of tasks", "clock rates")
    assert places(mapped(write, TEXT + ONE)) == {"little[0]"}


def test_without_states_clocks_stay_at_the_highest_rates(write: Write) -> None:
    found = mapped(write, TEXT, "energy")
    assert found.joint is not None and found.joint.outcome.power is not None
    power = found.joint.outcome.power
    assert power.watts == Fraction(1, 10) + Fraction(22, 100) * Fraction(9, 10) and power.proved
    assert power.scope.held == ("clock rates",) and places(found) == {"little[0]"}


def test_a_limit_on_power_moves_tasks(write: Write) -> None:
    """With the least utilization, `big` takes too much at any rate."""
    text = TEXT + "scenario C { initial state on { run A  power 0.25 W } }\n"
    found = mapped(write, text)
    assert found.states is not None and not found.late and places(found) == {"little[0]"}
    with pytest.raises(Errors, match=r"its limit of 0\.2 W"):
        mapped(write, text.replace("0.25", "0.2"))


def test_clock_pins_are_kept(write: Write) -> None:
    text = TEXT + ONE + "mapping on b { frequency little 2000 MHz for C.on }\n"
    states = mapped(write, text).states
    assert states is not None and states.least_power is not None
    assert states.least_power.watts == Fraction(298, 1000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT.replace(" idle [0, 0] W busy [3, 9] W", ""), "`big` of `b` declares no power"),
        (TEXT + "app B { s: S  w: W  k: K  s -> w -> k }\n", "`B` has no period"),
    ],
)
def test_unknown_power_is_no_objective(write: Write, text: str, why: str) -> None:
    with pytest.raises(Errors) as caught:
        mapped(write, text, "energy")
    (fault,) = caught.value.diagnostics
    assert fault.code == "F607" and why in fault.message and fault.help


@pytest.mark.parametrize("seed", [101, 102, 103, 107])
def test_no_places_at_no_rates_take_less(seed: int) -> None:
    """The referee knows powers of its own; `python tests/referees/least_power.py` tries many."""
    with tempfile.TemporaryDirectory() as folder:
        tried = least_power.tried(seed, Path(folder))
    assert not tried.faults and tried.proved and tried.complete


# -- networks --------------------------------------------------------------------------------------
def pool(name: str, kind: str, count: int, idle: Fraction, busy: Fraction) -> Pool:
    mhz = (500, 1000)
    return Pool(
        name,
        kind,  # type: ignore[arg-type]
        count,
        count > 1,
        "fixed_priority" if kind == "cpu" else "fifo",
        tuple(Fraction(rate * MS) for rate in mhz),
        idle_w=(idle / 2, idle),
        busy_w=(busy / 4, busy),
    )


def drawn(seed: int) -> JointProblem:
    """Two apps on two CPUs, a GPU and a DLA, one of them with a network in one of six ways."""
    rng = random.Random(seed)

    def watts() -> Fraction:
        return Fraction(rng.randint(1, 40), 10)

    pools = (
        pool("core", "cpu", 2, watts() / 10, watts()),
        pool("g", "gpu", 1, watts() / 10, 3 * watts()),
        pool("d", "dla", 1, watts() / 10, watts()),
    )
    candidates = []
    for row in (["gpu"], ["dla", "gpu"], ["gpu", "dla"], ["cpu"], ["gpu", "dla", "gpu"], ["dla"]):
        stages = [CandidateStage(k, (rng.randint(1, 9) * MS,), f"l{s}") for s, k in enumerate(row)]
        candidates.append(Candidate("-".join(row), tuple(stages)))
    network = DeadlineNetwork("A.net", "A", tuple(candidates))
    tasks = [
        DeadlineTask(name, name[0], {"cpu": rng.randint(1, 8) * MS}) for name in ("A.t", "B.t")
    ]
    tasks[1] = replace(tasks[1], wcet_ns={**tasks[1].wcet_ns, "gpu": rng.randint(1, 8) * MS})
    period = rng.choice([30, 40, 60]) * MS
    groups = (
        TaskGroup("A", Fraction(period), None, 1, (JointChannel("A.t", "A.net"),)),
        TaskGroup("B", Fraction(period // rng.choice([1, 2])), None, 2, ()),
    )
    works = {}
    for task in tasks:
        works[task.name] = {
            k: MeanWork(Fraction(ns, 2), Fraction(ns)) for k, ns in task.wcet_ns.items()
        }
    works["A.net"] = {
        k: MeanWork(Fraction(2 * MS), Fraction(3 * MS)) for k in ("cpu", "gpu", "dla")
    }
    platform = Platform("p", pools, (), "", None, power_w=watts())
    power = PowerModel(tuple(clock_of(p, None, True) for p in pools), platform.power_w, works)
    return JointProblem(platform, groups, tuple(tasks), (network,), {}, power=power)


def every(problem: JointProblem) -> Iterator[tuple[Fraction, Assignment]]:
    """All that keep all deadlines, with their power at the rates."""
    assert problem.power is not None
    network = problem.networks[0]
    rates = [*itertools.product(*(clock.levels for clock in problem.power.clocks))]
    at_rates = [replace(problem, slowness=problem.power.slowness(levels)) for levels in rates]
    for c, candidate in enumerate(network.candidates):
        stages = itertools.product(*(problem.of_type[s.type] for s in candidate.stages))
        for stage, *tasks in itertools.product(stages, *(problem.places(t) for t in problem.tasks)):
            assignment = Assignment((c,), (stage,), tuple(tasks))
            own = domains(problem, assignment)
            for levels, at_these in zip(rates, at_rates, strict=True):
                watts = sum((d.watts[k] for d, k in zip(own, levels, strict=True)), Fraction(0))
                if verdict(at_these, assignment).feasible:
                    yield watts + problem.power.base_w, assignment


def searched(problem: JointProblem) -> Outcome:
    def run(other: JointProblem, part: Budget) -> Outcome:
        return SEARCHES["heuristic-ga"](other, 0, part, None, ALONE)

    first = run(problem, Budget(evaluations=50))
    return of_least_power(first, problem, run, seed=0, budget=Budget(evaluations=2000))


@pytest.mark.parametrize("seed", range(8))
def test_cuts_and_rates_are_chosen_together(seed: int) -> None:
    problem = drawn(seed)
    least = min((watts for watts, _ in every(problem)), default=None)
    found = searched(problem).power
    if least is None:
        assert found is None
        return
    assert found is not None and found.proved
    assert found.watts == least and found.bound <= least


def test_what_keeps_deadlines_comes_before_what_takes_less() -> None:
    """If the first part of a budget finds nothing that is in time, the rest looks for that."""
    problem = drawn(0)
    late = Outcome("late", None, None, None, False, None, 0, 0.0)
    asked: list[int | None] = []

    def find(part: Budget) -> Outcome:
        asked.append(part.evaluations)
        if part.evaluations is not None and part.evaluations < 50:
            return late
        return SEARCHES["heuristic-ga"](problem, 0, part, None, ALONE)

    found, left = energy.places_to_begin_with(find, Budget(evaluations=200))
    assert found.kept_maximum is not None and left.evaluations == 120 and asked == [80]
    found, left = energy.places_to_begin_with(find, Budget(evaluations=100))
    assert found.kept_maximum is not None and left.evaluations == 0 and asked == [80, 40, 60]


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_of_many_candidates_few_are_looked_at_and_the_bound_is_for_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "FEW", 2)
    problem = drawn(seed)
    least = min(watts for watts, _ in every(problem))
    found = searched(problem).power
    assert found is not None and found.bound <= least <= found.watts <= least * Fraction(11, 10)


@pytest.mark.parametrize("seed", range(4))
def test_fractions_are_below_everything(seed: int) -> None:
    problem = drawn(seed)
    allowed = {"A.net": tuple(range(6))}
    relaxed = relaxed_power(EnergyModel({"": StateProblem(problem, Fraction(1)).by_pools}, allowed))
    assert relaxed is not None
    least = dict[int, Fraction]()
    for watts, assignment in every(problem):
        c = assignment.choice[0]
        least[c] = min(watts, least.get(c, watts))
    for c, watts in least.items():
        assert float(relaxed.bound) + relaxed.rises["A.net"][c] <= float(watts) * (1 + 1e-6)
    assert relaxed.left_out(allowed) is None


# -- the search of the thesis ----------------------------------------------------------------------
FEW_INDIVIDUALS = replace(THESIS, population=8, generations=20)


@pytest.mark.parametrize("seed", range(8))
def test_the_scenario_ga_finds_power_that_there_is(seed: int) -> None:
    """Its stages are dealt out in turn and its clocks are greedy, so it may miss the least."""
    problem = drawn(seed)
    possible = {watts for watts, _ in every(problem)}
    budget = Budget(evaluations=40)
    found = scenario_ga_of_one(problem, seed=0, budget=budget, numbers=FEW_INDIVIDUALS)
    again = scenario_ga_of_one(problem, seed=0, budget=budget, numbers=FEW_INDIVIDUALS)
    assert found.assignment == again.assignment
    if found.power is not None:
        assert found.power.watts in possible and not found.power.proved
        assert found.verdict is not None and found.verdict.feasible


def test_the_scenario_ga_deals_stages_out_in_turn(write: Write) -> None:
    """Algorithm 5: `A` and `C` share no state, but both share one with `B`: two DLAs alternate over
    the apps in this order, and all states have the same places."""
    dlas = pool("d", "dla", 2, Fraction(1), Fraction(1))
    stage = Candidate("dla", (CandidateStage("dla", (MS,), "l0"),))
    platform = Platform("p", (dlas,), (), "", None, power_w=Fraction(1))
    states = {}
    for names in ("AB", "BC"):
        groups = tuple(TaskGroup(n, Fraction(10 * MS), None, k, ()) for k, n in enumerate(names))
        networks = tuple(DeadlineNetwork(f"{n}.net", n, (stage,)) for n in names)
        works = {f"{n}.net": {"dla": MeanWork(Fraction(MS), Fraction(MS))} for n in names}
        power = PowerModel((clock_of(dlas, None, True),), platform.power_w, works)
        problem = JointProblem(platform, groups, (), networks, {}, power=power)
        states[names] = StateProblem(problem, Fraction(1, 2))
    found = scenario_ga(states, seed=0, budget=Budget(evaluations=1)).states
    first, second = (found[names].assignment for names in ("AB", "BC"))
    assert first is not None and second is not None
    assert first.stages == (("d[0]",), ("d[1]",)) and second.stages == (("d[1]",), ("d[0]",))


def test_the_scenario_ga_has_together_what_changes_at_once() -> None:
    problem = drawn(1)
    state = {"": StateProblem(problem, Fraction(1))}
    for together in ((), (("A.t", "B.t"),)):
        found = scenario_ga(state, seed=0, budget=Budget(evaluations=1), together=together)
        assignment = found.states[""].assignment
        assert assignment is not None
        assert (len(set(assignment.tasks)) == 1) == bool(together)


def test_the_scenario_ga_ends_when_nothing_is_left() -> None:
    """Six chromosomes are all there are, whatever the budget."""
    found = scenario_ga_of_one(drawn(0), seed=0, budget=Budget(evaluations=10**6))
    assert found.counted == found.evaluations <= 6


def test_changes_at_once_keep_their_priorities(write: Write, tmp_path: Path) -> None:
    """Other priorities in the next state would need a pause."""
    nodes = [N("Gemm", ["x", "w"], ["y"])]
    save(tmp_path / "net.onnx", nodes, {"x": [1, 8]}, {"w": weights(8, 4)}, "y")
    code = "import numpy as np\ndef c(): return np.ones((1, 8), np.float32)\ndef w(y): pass\n"
    pins = [
        f"{app}.see.{variant} -> core[{n}] wcet {ms} ms"
        for n, app in enumerate("AB")
        for variant, ms in (("careful", 4), ("quick", 2))
    ]
    path = write(AT_ONCE + "\n".join(["mapping on duo {", *pins, "}\n"]), t_py=code)
    for search in ("auto", "scenario-ga"):
        found = flowc.map(path, platform="duo", measure=False, evaluations=50, search=search)
        assert not found.late and found.states is not None
        assert found.states.least_power is not None


def test_the_scenario_ga_by_the_verb(write: Write) -> None:
    """In two states; tasks are dealt out as well."""
    text = TEXT + "app B { period 50 ms   s: S   k: K   s -> k }\n"
    text += "scenario C { minimise energy   initial state on { run A run B } state off { run B }\n"
    text += "  on -> off after 1 s }\n"
    path = write(text, t_py=CODE)
    words = {"platform": "b", "measure": False, "evaluations": 5, "search": "paper:scenario-ga"}
    found = flowc.map(path, **words, evolution="population=4,generations=2,mutation=1")
    assert not found.late and found.states is not None and found.states.least_power is not None
    least = mapped(write, text).states
    assert least is not None and least.least_power is not None
    assert found.states.least_power.watts >= least.least_power.watts
    assert found.mapping.search == "scenario-ga"


def test_rivals_of_a_tournament_by_the_verb(write: Write) -> None:
    """With as many rivals as individuals, nearly all parents are the best one: other lots."""
    found = [
        flowc.map(
            write(TEXT, t_py=CODE),
            platform="b",
            measure=False,
            search="entire-ga",
            evolution=f"population=8,generations=3,selection={rivals}",
        )
        for rivals in (1, 8)
    ]
    assert not any(answer.late for answer in found)
    assert {answer.mapping.search for answer in found} == {"entire-ga"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"search": "scenario-ga"}, "looks for the least energy: it has no other objective"),
        ({"search": "exact", "evolution": "population=3"}, "where nothing evolves"),
        ({"search": "entire-ga", "evolution": "size=3"}, "have no `size`"),
        ({"search": "entire-ga", "evolution": "population=1"}, "`population=1` is not possible"),
        ({"search": "entire-ga", "evolution": "mutation=2"}, "`mutation=2` is not possible"),
        (
            {"search": "scenario-ga", "objective": "energy", "evolution": "selection=3"},
            "selects without tournaments",
        ),
    ],
)
def test_what_a_search_does_not_support(write: Write, words: dict[str, str], why: str) -> None:
    path = write(TEXT, t_py=CODE)
    with pytest.raises(Errors) as caught:
        flowc.map(path, platform="b", measure=False, **words)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F508" and why in fault.message and fault.help


def test_minimise_energy_is_no_other_objective(write: Write) -> None:
    text = TEXT + "scenario C { minimise energy   initial state on { run A } }\n"
    path = write(text, t_py=CODE)
    with pytest.raises(Errors, match=r"says `minimise energy`, the objective is `cores`"):
        flowc.map(path, platform="b", measure=False, objective="cores")
    for objective in ("energy", "memory"):
        assert not flowc.map(path, platform="b", measure=False, objective=objective).late


# -- fronts ----------------------------------------------------------------------------------------
def test_less_power_costs_balance_and_each_point_is_what_its_pins_are(write: Write) -> None:
    text = TEXT + "app B { period 100 ms   s: S   w: W   k: K   s -> w -> k }\n"
    front = mapped(write, text, "energy").mapping.effort.front
    shares = [(point.watts, point.utilization) for point in front]
    assert len(front) > 2 and shares == sorted(shares)
    assert [share for _, share in shares] == sorted((s for _, s in shares), reverse=True)
    for point in (front[0], front[1], front[-1]):
        pinned = mapped(write, text + point.pins, "energy").joint
        assert pinned is not None and pinned.outcome.power is not None
        assert float(pinned.outcome.power.watts) == pytest.approx(point.watts)
        assert float(pinned.outcome.maximum) == pytest.approx(point.utilization)


NET = """
network Net from "net.onnx" {
    in x: float32[1, 4]
    out y: float32[1, 4]
}
app B {
    period 100 ms
    s: S
    n: Net
    k: K
    s -> n -> k
}
"""
TWO_STATES = """
scenario C {
    minimise energy
    initial state on { run A run B }
    state off { run B }
    on -> off after 1 s
}
"""


@pytest.mark.parametrize("states", [False, True])
def test_each_point_says_what_networks_take(write: Write, tmp_path: Path, states: bool) -> None:
    """It is what a program with the pins of the point plans."""
    nodes = [N("MatMul", ["x", "w"], ["y"])]
    save(tmp_path / "net.onnx", nodes, {"x": [1, 4]}, {"w": np.eye(4, dtype=np.float32)}, "y")
    text = TEXT.replace("float32 ", "float32[1, 4] ") + NET
    if states:
        text += TWO_STATES
    path = write(text, t_py=CODE)
    store_profile(path, {"B.n": 10 * MS}, platform="b")
    words = {"platform": "b", "measure": False, "budget": 10}
    front = flowc.map(path, **words, objective="" if states else "energy").mapping.effort.front
    assert len(front) > 1 and all(point.bytes for point in front)
    path.write_text(text + front[0].pins)
    built = flowc.build(path, tmp_path / "out", platform="b", measure=False)
    planned = json.loads((built.directory / "deployment.json").read_text())["planned"]
    assert sum(planned.values()) == front[0].bytes


# -- what bounds may not count ---------------------------------------------------------------------
def least_of(problem: JointProblem) -> Fraction:
    return min(watts for watts, _ in every(problem))


def test_engines_are_counted_for_each_processor() -> None:
    problem = drawn(0)
    core, gpu, dla = problem.platform.pools
    two = replace(dla, count=2, indexed=True, engines=1)
    cheap = Candidate("dla", (CandidateStage("dla", (MS,), "l"),))
    dear = Candidate("gpu", (CandidateStage("gpu", (9 * MS,), "l"),))
    networks = tuple(DeadlineNetwork(name, name[0], (cheap, dear)) for name in ("A.net", "B.net"))
    platform = replace(problem.platform, pools=(core, gpu, two))
    assert problem.power is not None
    clocks = (*problem.power.clocks[:2], clock_of(two, None, True))
    works = {**problem.power.works, "B.net": problem.power.works["A.net"]}
    power = replace(problem.power, clocks=clocks, works=works)
    problem = replace(problem, platform=platform, networks=networks, power=power)
    found = searched(problem)
    assert found.assignment is not None and found.power is not None
    assert sorted(found.assignment.stages) == [("d[0]",), ("d[1]",)] and found.power.proved


def test_stages_side_by_side_are_no_row() -> None:
    """One stage has the first half of a network, the other one reads the input as well."""
    one = CandidateStage("dla", (20 * MS,), "y1", end=2)
    other = CandidateStage("dla", (20 * MS,), None, end=3)
    candidate = Candidate("dla-dla", (one, other))
    tensors = (InnerTensor(0, (1,), 1),)
    network = DeadlineNetwork("A.net", "A", (candidate,), tensors=tensors)
    beside = JointChannel("A.t", "A.net", readers=(0, 2))
    behind = JointChannel("A.t", "A.net", readers=(0,))
    group = TaskGroup("A", Fraction(MS), None, 1, (beside,))
    assert rows(group, network) in (((0,),), ((1,),))
    assert latencies(group, network) == [20 * MS]
    row = replace(network, tensors=(InnerTensor(0, (1, 2), 1),))
    assert rows(replace(group, channels=(behind,)), row) == ((0, 1),)
    early = JointChannel("A.net", "A.t2", maker=1)
    assert rows(replace(group, channels=(behind, early)), row) == ((0,),)
    late = JointChannel("A.net", "A.t2", maker=2)
    assert rows(replace(group, channels=(behind, late)), network) == (None,)


def test_an_iteration_does_not_wait_for_what_leads_to_none_of_its_ends(write: Write) -> None:
    """The reader takes what the last iteration made: the maker's long firing is late for
    nothing, on slow cores as well."""
    text = """
platform b {
    cpu big[2] type big scheduler fixed_priority idle [0] W busy [6] W
    cpu little[2] type little scheduler fixed_priority idle [0] W busy [1] W
}
task S { out a: float32 rate 2   wcet 1 ms }
task F { in a: float32   out b: float32 rate [1, 1]   wcet [1, 40] ms }
task K { in b: float32   wcet 1 ms }
app A { period 100 ms  deadline 30 ms  s: S  f: F  k: K   s -> f   f -> delay 1 -> k }
"""
    found = mapped(write, text, "energy")
    assert found.joint is not None and found.joint.outcome.power is not None
    assert not found.late and found.joint.outcome.power.watts == Fraction(44, 100)


def test_a_network_that_is_not_cut_takes_what_it_takes() -> None:
    """Its layers may take longer than the whole, by their own worst cases."""
    problem = drawn(0)
    network = problem.networks[0]
    whole, cut = network.candidates[0], network.candidates[1]
    work, pool = MeanWork(Fraction(5 * MS), Fraction(10 * MS)), problem.platform.pools[1]
    power = replace(problem.power, works={"A.net": {"gpu": work}})  # type: ignore[type-var]
    problem = replace(problem, power=power)
    period = problem.period["A"]
    assert stage_work(problem, network, whole, 0, pool) == 5 * MS / period
    part = Fraction(cut.stages[1].firing, 10 * MS)
    assert stage_work(problem, network, cut, 1, pool) == 5 * MS * part / period


def test_of_states_with_fixed_clocks_that_is_said(write: Write) -> None:
    two = "scenario C { event go  initial state one { run A  power 5 W }  state two { run A }  one -> two on go }\n"
    states = mapped(write, TEXT + two, "energy").states
    assert states is not None and states.least_power is not None
    assert states.least_power.scope.moved == ("places of tasks", "clock rates")
    assert states.least_power.scope.held == ("one placement for all states", "clock rates of two")


@pytest.mark.parametrize("factor", [Fraction(1, 10**6), Fraction(10**4)])
def test_small_and_large_powers_are_proved(factor: Fraction) -> None:
    problem = drawn(1)
    pools = []
    for pool in problem.platform.pools:
        idle, busy = (tuple(w * factor for w in own) for own in (pool.idle_w, pool.busy_w))
        pools.append(replace(pool, idle_w=idle, busy_w=busy))
    platform = replace(problem.platform, pools=tuple(pools), power_w=Fraction(0))
    assert problem.power is not None
    clocks = tuple(clock_of(p, None, True) for p in pools)
    power = PowerModel(clocks, Fraction(0), problem.power.works)
    problem = replace(problem, platform=platform, power=power)
    found = searched(problem).power
    assert found is not None and found.proved and found.watts == least_of(problem)
