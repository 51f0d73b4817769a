"""The published searches: what they promise, the equations and rules of their papers, and what they
cost beside auto.

Nothing is run here: `Fake` stands for runs, with what the evaluator predicts and some noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain as chain_of
from itertools import combinations, cycle, pairwise, product
from math import inf

import flowc
import numpy
import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.driver.solve.throughput_problem import problem_of
from flowc.driver.text.store import read_profile
from flowc.model.application import Application
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.mapping import Mapping, NetworkPlan, Placement, StagePlan, as_text
from flowc.model.times import times_of
from flowc.search.budget import Budget
from flowc.search.events import SearchEvent
from flowc.search.evolution import Evolution
from flowc.search.registry import searches_for
from flowc.search.throughput import (
    auto,
    comprehensive_ga,
    evolve,
    fine_tuning_ga,
    ga_balance,
    jedi,
    joint,
    partition,
)
from flowc.search.throughput.contest import Contest
from flowc.search.throughput.design import Design, complete
from flowc.search.throughput.jedi_bench import Bench, BenchSetting, MappingOption, options
from flowc.search.throughput.problem import (
    Measurement,
    Problem,
    interpreter_load,
    period_ns,
)
from flowc.search.throughput.request import SearchRequest
from flowc.search.throughput.trials import Trials

import joint_throughput
from builds import Write, store_profile
from models import stack
from problems import NET, chain, problem

PUBLISHED = ("exact", "jedi", "ga-balance", "comprehensive-ga", "fine-tuning-ga")


def random_layers(seed: int, count: int, kinds: tuple[str, ...]) -> dict[str, list[float]]:
    rng = random.Random(seed)
    return {k: [rng.uniform(0.2, 2.0) for _ in range(count)] for k in kinds}


CASES: dict[str, Callable[[], Problem]] = {
    "two cores": lambda: problem(random_layers(1, 7, ("cpu",)), {"cpu": 2}),
    "three cores": lambda: problem(random_layers(2, 6, ("cpu",)), {"cpu": 3}),
    "cpu and gpu": lambda: problem(random_layers(3, 8, ("cpu", "gpu")), {"cpu": 1, "gpu": 1}),
    "a board": lambda: problem(
        random_layers(4, 9, ("cpu", "gpu", "dla")), {"cpu": 2, "gpu": 1, "dla": 2}
    ),
    "a gpu that cannot run the end": lambda: problem(
        {"cpu": [1, 1, 1, 1], "gpu": [0.2, 0.2, 0.2, inf]}, {"cpu": 1, "gpu": 1}
    ),
    "no cut": lambda: problem(random_layers(5, 1, ("cpu",)), {"cpu": 2}),
    "one core": lambda: problem(random_layers(6, 5, ("cpu",)), {"cpu": 1}),
}


class Fake:
    """Runs of a made-up machine: what the evaluator says, with noise; Ctrl-C after some of them."""

    def __init__(self, given: Problem, noise: float = 0.01, interrupt: int = 10**9) -> None:
        self._problem, self._noise, self._interrupt = given, noise, interrupt
        self._rng = random.Random(7)
        self.runs = 0
        self.seen: dict[str, list[float]] = {}

    def __call__(self, mapping: Mapping) -> Measurement:
        if self.runs >= self._interrupt:
            raise KeyboardInterrupt
        self.runs += 1
        others = {p.task: p for p in mapping.placements}
        design = complete(self._problem, mapping.networks, "", "throughput", others)
        single = complete(self._problem, mapping.networks, "", "latency", others)
        factor = 1 + self._rng.gauss(0, self._noise)
        self.seen.setdefault(design.configuration, []).append(design.predicted * factor)
        most = max(design.load.values())
        firing = {
            f"{n.task}.stage{k}": s.predicted_ns * factor
            for n in design.mapping.networks
            for k, s in enumerate(n.stages, 1)
        }
        return Measurement(
            {"A": design.predicted * factor},
            {"A": single.predicted * factor},
            firing,
            {p: x / most for p, x in design.load.items()},
        )


def found(name: str, given: Problem, **wishes: object) -> Mapping:
    wanted = {
        "seed": 0,
        "budget": Budget(60.0),
        "progress": None,
        "measure": None,
        "objective": "throughput",
        **wishes,
    }
    return next(s for s in searches_for("throughput") if s.name == name).run(given, **wanted)


def valid(given: Problem, mapping: Mapping) -> bool:
    """Ends in order, processors known, every task once."""
    known = {*given.platform.processors}
    for plan in mapping.networks:
        layers = given.networks[plan.task].layers
        ends = [len(layers) if s.until is None else layers.index(s.until) + 1 for s in plan.stages]
        in_order = all(a < b for a, b in pairwise([0, *ends])) and ends[-1] == len(layers)
        if not in_order or any(
            not s.processors or not {*s.processors} <= known for s in plan.stages
        ):
            return False
        if any(a.processors == b.processors for a, b in pairwise(plan.stages)):
            return False
    placed = sorted([p.task for p in mapping.placements] + [n.task for n in mapping.networks])
    return placed == sorted(t.name for a in given.apps for t in a.tasks)


def predicted(given: Problem, mapping: Mapping) -> float:
    return complete(
        given, mapping.networks, "", "throughput", {p.task: p for p in mapping.placements}
    ).predicted


def plain(given: Problem) -> list[float]:
    """What a network takes whole on the main processor, and on all cores in turn where that is
    asked for a host."""
    table = [o for o in options(given, NET) if len(o.stages) == 1]
    return [
        complete(given, [NetworkPlan(NET, (StagePlan(o.stages[0]),))], "").predicted for o in table
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less evolution, where it is not what is tested."""
    for module in (comprehensive_ga, fine_tuning_ga):
        monkeypatch.setattr(module, "PREDICTED", Evolution(60, 60, 10, 0.6, 3))


# -- all of them -----------------------------------------------------------------------------------
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_valid_answer_that_is_not_worse_than_plain_ones(name: str, case: str) -> None:
    given = CASES[case]()
    mapping = found(name, given)
    assert valid(given, mapping) and mapping.search == name
    assert (
        mapping.effort.measured_runs == 0
        and mapping.effort.evaluations >= len(mapping.contestants) > 0
    )
    best = mapping.contestants[0]
    assert best.predicted_ns == predicted(given, mapping)
    given_up = (
        1 + jedi.LOSS if name in ("jedi", "fine-tuning-ga") else 1.0
    )  # for fewer threads and buffers
    assert best.predicted_ns <= given_up * min(c.predicted_ns for c in mapping.contestants)
    assert len(mapping.contestants) <= 12 and mapping.why[0].startswith(best.name)
    if name != "ga-balance":
        assert best.predicted_ns <= min(plain(given)) * (1 + 1e-9)
    else:
        assert best.predicted_ns <= plain(given)[0] * (1 + 1e-9)


def timeless(mapping: Mapping) -> Mapping:
    """The same, whatever time it took."""
    history = tuple(replace(p, seconds=0.0) for p in mapping.effort.history)
    return replace(mapping, effort=replace(mapping.effort, seconds=0.0, history=history))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_same_seed_gives_the_same_answer(name: str) -> None:
    given = CASES["cpu and gpu"]()
    first, second = (found(name, given, seed=5) for _ in range(2))
    assert timeless(first) == timeless(second)
    assert first.effort.seed == 5


@pytest.mark.parametrize("name", PUBLISHED)
def test_runs_are_counted_and_nothing_measured_is_worse_than_plain(name: str) -> None:
    given = CASES["cpu and gpu"]()
    fake = Fake(given)
    mapping = found(name, given, measure=fake)
    assert mapping.effort.measured_runs == fake.runs > 0 and valid(given, mapping)
    assert mapping.contestants[0].measured_ns is not None
    if name == "exact":
        assert fake.runs == 1
        return
    whole = [
        c for c in mapping.contestants if " | " not in c.configuration and c.measured_ns is not None
    ]
    assert all(mapping.contestants[0].measured_ns <= c.measured_ns * 1.005 for c in whole)  # type: ignore[operator]


@pytest.mark.parametrize("hop_us", [0, 30, 100, 200, 400])
@pytest.mark.parametrize("total_ms", [0.02, 0.1, 0.35, 1.0])
def test_small_networks_are_never_slower_than_on_one_core(total_ms: float, hop_us: float) -> None:
    """Whatever a hand-over takes on the machine, and predictions know nothing of it."""
    given = problem({"cpu": [total_ms / 4] * 4}, {"cpu": 2}, others_ms=0.001)
    given = replace(given, transfer=lambda source, target, count: 0.0)
    fake = Fake(replace(given, transfer=lambda source, target, count: hop_us * 1e3), noise=0.0)
    mapping = found("auto", given, measure=fake)
    plain = next(c for c in mapping.contestants if c.name == "one core")
    assert plain.measured_ns is not None and mapping.contestants[0].measured_ns is not None
    assert mapping.contestants[0].measured_ns <= plain.measured_ns * 1.005
    # Who was not run was not expected to be better.
    least = mapping.contestants[0].measured_ns
    assert all(c.measured_ns is not None or c.predicted_ns >= least for c in mapping.contestants)


@pytest.mark.parametrize(("scatter", "winner"), [(0.0, "other"), (0.2, "simple")])
def test_where_runs_scatter_the_simpler_one_wins(scatter: float, winner: str) -> None:
    shares = {"simple": 1.0, "other": 0.98}
    runs = {
        name: cycle([share * (1 + k * scatter) for k in order])
        for (name, share), order in zip(shares.items(), ((0, 1, -1), (1, -1, 0)), strict=True)
    }
    contest = Contest(
        lambda m: Measurement({"A": next(runs[m.search])}), "throughput", Budget(inf), None
    )
    for name in shares:
        contest.enter(Design(name, Mapping("p", (), (), name), 1.0, {}))
    decided = contest.decide()
    assert decided.design.name == winner
    if winner == "other":
        (simple,) = (e for e in contest.entries if e is not decided)
        assert auto.lead(decided, simple).startswith("2.0% better than simple, in the median of ")


@pytest.mark.parametrize(("delayed", "winner"), [(0.0, "other"), (0.3, "simple"), (0.1, "other")])
def test_what_others_take_from_runs_is_no_reason(delayed: float, winner: str) -> None:
    """With more threads a program gets more of a machine that others use too: this says nothing of
    the program."""
    contest = Contest(
        lambda m: (
            Measurement({"A": 1.0}, delayed=delayed)
            if m.search == "simple"
            else Measurement({"A": 0.8})
        ),
        "throughput",
        Budget(inf),
        None,
    )
    for name in ("simple", "other"):
        contest.enter(Design(name, Mapping("p", (), (), name), 1.0, {}))
    assert contest.decide().design.name == winner


@pytest.mark.parametrize(("later", "winner"), [(1.5, "third"), (0.6, "other")])
def test_who_wins_has_to_win_again(later: float, winner: str) -> None:
    """Threads of a library are fast or slow for a whole run: two good ones are no proof."""
    runs = {
        "simple": cycle([1.0]),
        "other": chain_of([0.6] * 2, cycle([later])),
        "third": cycle([0.7]),
    }
    contest = Contest(
        lambda m: Measurement({"A": next(runs[m.search])}), "throughput", Budget(inf), None
    )
    for name in runs:
        contest.enter(Design(name, Mapping("p", (), (), name), 1.0, {}))
    assert contest.decide().design.name == winner


class SideBySide(Fake):
    """Runs on so many machines at once."""

    width = 3
    most = 0

    def each(self, mappings: Sequence[Mapping]) -> list[Measurement | Errors]:
        assert 0 < len(mappings) <= self.width
        self.most = max(self.most, len(mappings))
        return [self(m) for m in mappings]


@pytest.mark.parametrize("name", ["auto", "comprehensive-ga"])
def test_machines_side_by_side_find_what_one_finds(name: str) -> None:
    given = CASES["cpu and gpu"]()
    alone, together = (
        found(name, given, measure=kind(given, noise=0.0)) for kind in (Fake, SideBySide)
    )
    assert together.contestants[0].pins == alone.contestants[0].pins
    assert together.effort.measured_runs >= alone.effort.measured_runs
    if name == "auto":
        side_by_side = SideBySide(given, noise=0.0)
        found(name, given, measure=side_by_side)
        assert side_by_side.most == side_by_side.width


def test_who_does_not_run_is_out_of_the_race() -> None:
    """But where the plainest does not run, nothing does."""
    given = CASES["cpu and gpu"]()
    best = found("auto", given, measure=Fake(given, noise=0.0))
    assert best.contestants[0].name != "one core"
    fault = Errors([Diagnostic("F606", "the engines cannot be built there", None)])

    def refusing(refused: tuple[str, ...]) -> Callable[[Mapping], Measurement]:
        fake = Fake(given, noise=0.0)

        def measure(mapping: Mapping) -> Measurement:
            if as_text(mapping.platform, mapping.placements, mapping.networks) in refused:
                raise fault
            return fake(mapping)

        return measure

    told: list[SearchEvent] = []
    second = found(
        "auto", given, measure=refusing((best.contestants[0].pins,)), progress=told.append
    )
    assert second.contestants[0].pins != best.contestants[0].pins
    assert any("does not run" in str(e) for e in told)
    plainest = next(c.pins for c in best.contestants if c.name == "one core")
    with pytest.raises(Errors, match="cannot be built"):
        found("auto", given, measure=refusing((plainest,)))


@pytest.mark.parametrize("name", ["jedi", "comprehensive-ga", "fine-tuning-ga"])
def test_a_configuration_runs_once_until_the_final(name: str) -> None:
    given = CASES["cpu and gpu"]()
    fake = Fake(given)
    mapping = found(name, given, measure=fake)
    again = [c for c, values in fake.seen.items() if len(values) > 1]
    assert len(again) <= 4 and mapping.effort.evaluations >= len(fake.seen)


@pytest.mark.parametrize("name", ["jedi", "comprehensive-ga", "fine-tuning-ga", "ga-balance"])
@pytest.mark.parametrize("after", [1, 2, 20])
def test_ctrl_c_keeps_the_best_so_far(name: str, after: int) -> None:
    given = problem(random_layers(3, 30, ("cpu", "gpu")), {"cpu": 1, "gpu": 1})
    fake = Fake(given, interrupt=after)
    mapping = found(name, given, measure=fake)
    assert valid(given, mapping) and mapping.effort.measured_runs == fake.runs <= after
    least = min(values[0] for values in fake.seen.values())
    assert mapping.contestants[0].measured_ns is not None
    # within the noise the simpler one wins
    assert mapping.contestants[0].measured_ns <= least * 1.03 or fake.runs > 10


@pytest.mark.parametrize("name", ["jedi", "comprehensive-ga", "fine-tuning-ga", "ga-balance"])
def test_ctrl_c_before_the_first_run_ended_is_an_interruption(name: str) -> None:
    given = CASES["two cores"]()
    with pytest.raises(KeyboardInterrupt):
        found(name, given, measure=Fake(given, interrupt=0))


def test_ctrl_c_in_the_only_run_of_exact_keeps_the_answer() -> None:
    given = CASES["two cores"]()
    mapping = found("exact", given, measure=Fake(given, interrupt=0))
    assert valid(given, mapping) and mapping.effort.measured_runs == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_without_time_there_is_still_an_answer(name: str) -> None:
    given = CASES["cpu and gpu"]()
    fake = Fake(given)
    mapping = found(name, given, budget=Budget(0.0), measure=fake)
    assert valid(given, mapping) and fake.runs == 1


def test_a_configuration_that_does_not_run_is_out_of_the_race() -> None:
    given = CASES["two cores"]()
    fake = Fake(given)

    def fragile(mapping: Mapping) -> Measurement:
        if any(len(n.stages) > 1 for n in mapping.networks):
            raise Errors([])
        return fake(mapping)

    said: list[SearchEvent] = []
    mapping = found("jedi", given, measure=fragile, progress=said.append)
    assert all(len(n.stages) == 1 for n in mapping.networks) and any(
        "does not run" in str(event) for event in said
    )
    with pytest.raises(Errors):
        found("jedi", given, measure=lambda mapping: (_ for _ in ()).throw(Errors([])))


def test_a_search_that_finds_nothing_that_can_run_says_so() -> None:
    """JEDI knows no stage on a CPU where a GPU cannot run the end."""
    given = CASES["a gpu that cannot run the end"]()
    with pytest.raises(Errors) as caught:
        found("jedi", given, measure=Fake(given))
    (fault,) = caught.value.diagnostics
    assert fault.code == "F508" and "no configuration that can run" in fault.message and fault.help


def test_a_machine_that_gets_slower_in_the_final_does_not_decide_against_a_plain_one() -> None:
    """Two designs look better than one core, are run again, and are worse then."""
    given = CASES["two cores"]()
    seen: set[str] = set()

    def machine(mapping: Mapping) -> Measurement:
        stages = mapping.networks[0].stages
        whole = 10e6 if len(stages[0].processors) == 1 else 9.3e6
        first = repr(mapping.networks) not in seen
        seen.add(repr(mapping.networks))
        busy = dict.fromkeys(given.platform.processors, 0.9)
        return Measurement({"A": (9e6 if len(stages) > 1 else whole) if first else 20e6}, busy=busy)

    assert found("jedi", given, measure=machine).contestants[0].name == "E"


@pytest.mark.parametrize("name", PUBLISHED)
def test_apps_without_networks_are_left_to_auto(name: str) -> None:
    given = replace(CASES["two cores"](), networks={})
    mapping = found(name, given)
    same = found("auto", given)
    assert (
        mapping.placements == same.placements
        and mapping.search == name
        and "is `auto`" in mapping.why[-1]
    )


@pytest.mark.parametrize("name", ["jedi", "fine-tuning-ga", "ga-balance"])
@pytest.mark.parametrize("objective", ["latency", "energy"])
def test_other_objectives_are_refused_where_the_paper_has_none(name: str, objective: str) -> None:
    with pytest.raises(Errors) as refused:
        found(name, CASES["two cores"](), objective=objective)
    assert (
        refused.value.diagnostics[0].code == "F508"
        and objective in refused.value.diagnostics[0].message
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", PUBLISHED)
def test_two_networks_are_mapped_together(name: str) -> None:
    one = CASES["cpu and gpu"]()
    other = chain("B", "cccc", stateless=True)
    twin = {"B.t2": one.networks[NET]}
    firing = {**one.firing_ns, **{t.name: one.firing_ns[f"A.{t.name[2:]}"] for t in other.tasks}}
    apps: tuple[Application, ...] = (*one.apps, other)
    vectors = {a.name: repetition(a).vector for a in apps}
    given = replace(
        one, apps=apps, networks={**one.networks, **twin}, firing_ns=firing, repetition=vectors
    )
    mapping = found(name, given)
    assert valid(given, mapping) and {n.task for n in mapping.networks} == {NET, "B.t2"}
    whole = [NetworkPlan(n, (StagePlan(("cpu",)),)) for n in given.networks]
    assert predicted(given, mapping) < complete(given, whole, "").predicted
    assert name != "exact" or mapping.effort.optimal


# -- exact -----------------------------------------------------------------------------------------
def every_partition(given: Problem, objective: partition.Objective) -> float:
    """The best of all cuts and orders of single processors, the others on the first core."""
    network = given.networks[NET]
    names = [a for a, _ in network.costs.cuts]
    others = {f"A.t{i}": Placement(f"A.t{i}", given.cpus[:1]) for i in (0, 1, 3)}
    least = inf
    for stages in range(1, 5):
        for ends in combinations(names, stages - 1):
            for order in product(given.platform.processors, repeat=stages):
                if all(a != b for a, b in pairwise(order)):
                    untils = [*(network.layers[e - 1] for e in ends), None]
                    plan = NetworkPlan(
                        NET, tuple(StagePlan((p,), u) for p, u in zip(order, untils, strict=True))
                    )
                    least = min(least, complete(given, [plan], "", objective, others).predicted)
    return least


@pytest.mark.parametrize("objective", ["throughput", "latency", "energy"])
@pytest.mark.parametrize("seed", [3, 4])
def test_exact_equals_brute_force(objective: partition.Objective, seed: int) -> None:
    given = problem(random_layers(seed, 6, ("cpu", "gpu")), {"cpu": 1, "gpu": 1}, others_ms=0.001)
    mapping = found("exact", given, objective=objective)
    assert mapping.contestants[0].predicted_ns == pytest.approx(every_partition(given, objective))
    assert mapping.effort.optimal and "optimal over" in "\n".join(mapping.why)


@pytest.mark.parametrize("seed", range(1, 25))
def test_exact_places_tasks_and_cuts_networks_together(seed: int) -> None:
    """Against every placement and every cut, with loads computed apart."""
    how, said = joint_throughput.judged(seed)
    assert how == "the least, or less by copies", said


def test_each_machine_has_an_interpreter() -> None:
    """Two tasks in Python take turns on one machine, and none on two."""
    one = problem({"cpu": [1.0]}, {"cpu": 2}, others_ms=2.0)
    one = replace(one, apps=(chain("A", "ppcc"),), runtime_ns=0.0)
    two = joint_throughput.on_two_machines(one, random.Random(1))

    def busiest(given: Problem, first: str, second: str) -> float:
        places = {"A.t0": first, "A.t1": second, NET: first, "A.t3": first}
        return interpreter_load(given, {task: Placement(task, (p,)) for task, p in places.items()})

    assert busiest(one, "cpu[0]", "cpu[1]") == pytest.approx(1.3 * 4e6)
    assert busiest(two, "here[0]", "here[0]") == pytest.approx(4e6)
    assert busiest(two, "here[0]", "there[0]") == pytest.approx(2e6)

    # the period of an app is that of its own machine
    other = replace(chain("B", "p"), period_ns=None)
    both = replace(
        two,
        apps=(chain("A", "p"), other),
        firing_ns={"A.t0": {"cpu": 2e6}, "B.t0": {"cpu": 18e6}},
        repetition={"A": {"A.t0": 1}, "B": {"B.t0": 1}},
        networks={},
    )
    places = {"A.t0": Placement("A.t0", ("here[0]",)), "B.t0": Placement("B.t0", ("there[0]",))}
    assert period_ns(both, places, both.apps[0]) == pytest.approx(2e6)


JOINED = """type Image = float32[1, 3, 64, 32]
type Y = float32[1, 16, 1, 1]
task Make { out x: Image   python "t.py:make" }
network Net from "net.onnx" { in x: Image   out y: Y }
task Take { in y: Y   python "t.py:take" }
app A { make: Make   net: Net   make -> net }
app B { take: Take   A.net -> drop oldest 3 -> take }
platform duo { cpu core[2] }
"""


@pytest.mark.parametrize("seed", range(3))
def test_apps_that_arrows_join_are_placed_together(write: Write, seed: int) -> None:
    """The ends of an arrow are where the evaluator puts them: against every placement and cut."""
    flow = write(JOINED, t_py="def make(): pass\ndef take(y): pass\n")
    stack(flow.parent / "net.onnx", layers=3)
    rng = random.Random(seed)
    tasks = {name: rng.randint(50_000, 2_500_000) for name in ("A.make", "A.net", "B.take")}
    store_profile(flow, tasks, platform="duo")
    valid = flowc.check(flow, platform="duo").require()
    profile, _ = read_profile(valid)
    given = problem_of(valid, times_of(valid.system, valid.platform, profile), profile)
    network = given.networks["A.net"]
    cut_after = [network.layers[after - 1] for after, _ in network.costs.cuts]
    least = inf
    for make, take, *order in product(given.cpus, repeat=5):
        others = {"A.make": Placement("A.make", (make,)), "B.take": Placement("B.take", (take,))}
        for cuts in (c for k in range(3) for c in combinations(cut_after, k)):
            stages = zip(order, (*cuts, None), strict=False)
            plan = NetworkPlan("A.net", tuple(StagePlan((p,), end) for p, end in stages))
            least = min(least, complete(given, [plan], "", others=others).predicted)
    found = joint.joint_plan(given, Budget(60.0))
    assert found is not None and found.is_least(least) and found.bound_ns <= least
    assert joint.joint_design(given, found).predicted == pytest.approx(least)


def test_exact_says_how_far_it_is_from_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the solver has little time, the bound may be lower than the answer."""
    monkeypatch.setattr(joint, "STEPS", 0.3)
    given = problem(random_layers(9, 60, ("cpu",)), {"cpu": 4}, others_ms=7)
    mapping = found("exact", given)
    assert not mapping.effort.optimal
    said = next(line for line in mapping.why if line.startswith("tasks and cuts together, with"))
    assert said.endswith("more than this answer has")


@pytest.mark.parametrize("seed", [3, 4])
def test_ga_finds_the_exact_optimum_of_a_small_problem(seed: int) -> None:
    given = problem(random_layers(seed, 6, ("cpu", "gpu")), {"cpu": 1, "gpu": 1})
    for objective in ("throughput", "latency", "energy"):
        best = found("exact", given, objective=objective).contestants[0].predicted_ns
        assert found("comprehensive-ga", given, objective=objective).contestants[
            0
        ].predicted_ns == pytest.approx(best)


def test_exact_says_what_the_paper_counts_and_where_it_stops() -> None:
    layers = {"cpu": [4, 8, 4], "gpu": [inf, 2, inf]}
    given = problem(layers, {"cpu": 1, "gpu": 1}, crossing=(("a", "b"), ("b",)))
    mapping = found("exact", given)
    assert [len(n.stages) for n in mapping.networks] == [3]
    said = "\n".join(mapping.why)
    assert "equation 2 counts 2, 8, 8 configurations" in said
    assert "stops at 1 stage" in said and "the optimum with 3 stages" in said
    assert "`b` skip" in said and "upper bound" in said


# -- jedi ------------------------------------------------------------------------------------------
def test_the_mapping_options_are_those_of_table_3_2() -> None:
    table = {o.name: o.stages for o in options(CASES["a board"](), NET)}
    gpu, d0, d1 = ("gpu",), ("dla[0]",), ("dla[1]",)
    assert table == {
        "E": (gpu,), "A": (d0, gpu), "B": (gpu, d0, gpu), "C": (d0, d1, gpu), "D": (gpu, d0, d1, gpu),
        "PND-A": ((*d0, *d1), gpu), "PND-B": (gpu, (*d0, *d1), gpu),
    }  # fmt: skip
    host = [o.name for o in options(CASES["two cores"](), NET)]
    assert host == ["E", "frames in turn", "A", "A reversed", "B", "PND-A", "PND-A reversed"]


def test_no_tuple_of_jedi_lets_a_tensor_skip_a_stage() -> None:
    """A tensor from layer 3 to layer 21: no two cuts between them."""
    layers = random_layers(8, 24, ("cpu",))
    crossing = tuple((f"x{i}", *(("long",) if 3 < i <= 21 else ())) for i in range(1, 24))
    given = problem(layers, {"cpu": 2}, crossing=crossing)
    seen: list[Mapping] = []

    def watched(mapping: Mapping, fake: Fake = Fake(given)) -> Measurement:  # noqa: B008
        seen.append(mapping)
        return fake(mapping)

    found("jedi", given, measure=watched)
    tuples = {tuple(int(str(s.until)[1:]) + 1 for s in m.networks[0].stages[:-1]) for m in seen}
    assert any(len(t) > 1 for t in tuples)
    assert not any(given.networks[NET].skipping(t) for t in tuples)


def test_a_warm_start_takes_fewer_runs() -> None:
    """The neighbor is the same network with other input: layers take longer, not all by the same
    factor."""
    layers = random_layers(9, 40, ("cpu", "gpu"))
    rng = random.Random(0)
    larger = {k: [ms * rng.uniform(1.4, 1.8) for ms in v] for k, v in layers.items()}
    neighbor, given = (problem(x, {"cpu": 1, "gpu": 1}) for x in (layers, larger))
    start = jedi.search(SearchRequest(neighbor)).networks[0]
    cold = jedi.search(SearchRequest(given, measure=Fake(given), budget=Budget(600)))
    warm = jedi.search(SearchRequest(given, measure=Fake(given), budget=Budget(600)), start=start)
    assert warm.effort.measured_runs < 0.7 * cold.effort.measured_runs
    assert predicted(given, warm) <= predicted(given, cold) * 1.05
    assert "K = 1" in "\n".join(warm.why) and "K = 1" not in "\n".join(cold.why)
    unknown = NetworkPlan(NET, (StagePlan(("cpu",), "elsewhere"), StagePlan(("gpu",))))
    assert "K = 1" not in "\n".join(jedi.search(SearchRequest(given), start=unknown).why)


def test_parameters_are_raised_as_long_as_they_gain_and_reduced_as_long_as_they_do_not() -> None:
    """A machine where up to three streams and two threads in front of the network help."""
    given = CASES["two cores"]()

    def machine(mapping: Mapping) -> Measurement:
        plan = mapping.networks[0]
        gain = min(plan.stages[0].streams, 3) * 0.1 + min(plan.pre, 2) * 0.05
        return Measurement({"A": 1e6 * (1 - gain)}, busy={"cpu[0]": 0.5, "cpu[1]": 0.5})

    trials = Trials(SearchRequest(given, measure=machine, budget=Budget(60)))
    bench = Bench(given, NET, [], trials)
    begin = BenchSetting(MappingOption("E", (("cpu[0]",),)), (), (1, 1, 2, 1))
    most = jedi.maximized(bench, begin)
    assert most.numbers == (2, 1, 3, 3)
    assert jedi.fine_tuned(bench, BenchSetting(begin.option, (), (5, 1, 9, 6))).numbers == (
        2,
        1,
        3,
        3,
    )


def test_buffers_are_at_least_as_many_as_any_other_parameter() -> None:
    setting = BenchSetting(
        MappingOption("PND-A", (("dla[0]", "dla[1]"), ("gpu",))), (3,), (1, 1, 4, 2, 3)
    )
    more = setting.changed(3, 1)
    assert more is not None and more.numbers == (1, 1, 6, 3, 3)
    assert setting.changed(2, -1) is None and setting.changed(0, -1) is None


# -- ga-balance ------------------------------------------------------------------------------------
def test_equation_3_1_by_hand() -> None:
    """Layers of 3, 2 and 1 ms on two cores, 100 kB between them at 0 ns per byte on one kind."""
    given = problem({"cpu": [3, 2, 1]}, {"cpu": 2})
    table = ga_balance.charges(
        given, given.networks[NET], ga_balance.able(given, given.networks[NET])
    )
    population = numpy.array([[0, 1, 1], [0, 0, 0], [0, 1, 0]])
    tau = ga_balance.loads(table, population)
    assert (tau / 1e6).tolist() == [[3, 3], [6, 0], [4, 2]]
    assert (ga_balance.fitness(tau) / 1e6).tolist() == [0, 12, 4]


def test_equation_3_4_charges_what_stays_on_a_processor() -> None:
    given = problem({"cpu": [1, 1, 1]}, {"cpu": 2})
    costs = replace(given.networks[NET].costs, transfer=lambda a, b, n: 5e3 + 0.5 * n)
    network = replace(given.networks[NET], costs=costs)
    table = ga_balance.charges(given, network, ga_balance.able(given, network))
    assert table[:, 0].tolist() == [1e6 + 5e4, 1e6 + 1e5, 1e6 + 5e4]
    assert ga_balance.loads(table, numpy.array([[0, 0, 0]])).tolist() == [[3.2e6, 0]]


def test_equal_sums_are_told_apart_by_the_busiest_processor() -> None:
    """Both layers are slow together on one kind and fast on the other: loads (10, 10) and (1, 1)
    are equal for (3.1)."""
    assert ga_balance.fitness(numpy.array([[10.0, 10.0], [1.0, 1.0]])).tolist() == [0, 0]
    table = numpy.array([[10e6, 1e6], [1e6, 10e6]])
    best = ga_balance.evolve(table, numpy.random.default_rng(0), Budget(inf))
    assert best.genes == (1, 0) and best.fitness == 0


def test_a_stage_for_every_run_of_genes() -> None:
    network = CASES["one core"]().networks[NET]
    plan = ga_balance.plan_of_genes(NET, network, ["a", "a", "b", "a", "a"])
    assert [(s.processors, s.until) for s in plan.stages] == [
        (("a",), "l1"),
        (("b",), "l2"),
        (("a",), None),
    ]


def test_layers_stay_where_they_can_run_and_150_are_no_matter() -> None:
    layers = random_layers(10, 150, ("cpu", "gpu"))
    layers["gpu"][140:] = [inf] * 10
    given = problem(layers, {"cpu": 3, "gpu": 1})
    table = ga_balance.charges(
        given, given.networks[NET], ga_balance.able(given, given.networks[NET])
    )
    best = ga_balance.evolve(table, numpy.random.default_rng(0), Budget(inf))
    assert 3 not in best.genes[140:] and best.generations > ga_balance.THESIS.patience
    assert best.fitness < 0.01 * sum(layers["cpu"]) * 1e6


# -- comprehensive-ga ------------------------------------------------------------------------------
def test_genes_that_say_the_same_are_one_configuration() -> None:
    given = CASES["cpu and gpu"]()
    space = comprehensive_ga.Space(given, "throughput")
    genes = [0] * len(space.high)
    assert space.decode(genes) == space.decode([*genes[:2], 3, 3, *genes[4:]])  # silent cuts
    cut = [2, 3, 3, *genes[3:]]  # twice the same cut, both sides on one place
    assert [len(p.stages) for p in space.decode(cut)[0]] == [1]


def test_mutation_stays_in_range() -> None:
    space = comprehensive_ga.Space(CASES["a board"](), "throughput")
    rng = random.Random(0)
    genes = [rng.randrange(n) for n in space.high]
    for _ in range(500):
        evolve.mutate(space, genes, rng)
        assert all(0 <= g < n for g, n in zip(genes, space.high, strict=True))


# -- beside auto -----------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [11, 12])
def test_auto_needs_a_third_of_the_runs_for_an_answer_as_good(seed: int) -> None:
    """60 layers on two processors: what the published searches spend where every run takes a
    second, the race included that all of them end with."""
    given = problem(random_layers(seed, 60, ("cpu", "gpu")), {"cpu": 1, "gpu": 1})
    answers = {
        name: found(name, given, measure=Fake(given), budget=Budget(600))
        for name in ("auto", "jedi", "comprehensive-ga")
    }
    value = {name: predicted(given, m) for name, m in answers.items()}
    runs = {name: m.effort.measured_runs for name, m in answers.items()}
    for name in ("jedi", "comprehensive-ga"):
        assert value["auto"] <= value[name] * 1.01
        assert runs[name] >= 3 * runs["auto"], runs
