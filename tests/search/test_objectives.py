"""Every objective for every kind of text: a mapping that was searched for it, or a refusal with its
reason."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.timing.terms import WorstCases
from flowc.cli import app as cli
from flowc.cli._deadlines import joint_table
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.map import Answer, find_mapping
from flowc.driver.text.check import prepare
from flowc.model.diagnostic import Errors
from flowc.model.priorities import PriorityOrder
from flowc.model.times import times_of
from flowc.search.budget import Budget
from flowc.search.deadline.cores import by_objectives
from flowc.search.deadline.limits import BrokenLimit, Deadlines
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.problem import Assignment
from flowc.search.deadline.verdict import MappingVerdict
from flowc.search.objectives import OBJECTIVES
from typer.testing import CliRunner

from builds import Write

TASKS = """
task S { out x: float32[4]  python "t.py:make"  wcet 6 ms }
task T { in x: float32[4]  python "t.py:take"  wcet 6 ms }
task N { in x: float32[4]  out y: float32[4]  python "t.py:same"  wcet 6 ms }
app A { %s s: S  n: N  t: T  s -> n -> t }
"""
STATES = """
app B { %s s: S  t: T  s -> t }
scenario Modes { event turn  initial state one { run A, B }  state two { run A }  one -> two on turn  two -> one on turn }
"""
BOARD = "platform board { cpu core[3] }\n"
RIG = """
platform board { machine near { cpu core[2] }  machine far { cpu arm[2] }  link near far 100 MB/s 1 ms }
"""
CODE = "def make(): return [1.0] * 4\ndef same(x): return x\ndef take(x): pass\n"
PERIOD = "period 20 ms  deadline 60 ms"
TEXTS = {
    "deadlines": BOARD + TASKS % PERIOD,
    "no periods": BOARD + TASKS % "",
    "states with deadlines": BOARD + TASKS % PERIOD + STATES % PERIOD,
    "states without periods": BOARD + TASKS % "" + STATES % "",
    "machines with deadlines": RIG + TASKS % PERIOD,
    "machines without periods": RIG + TASKS % "",
}
FOLLOWED = {
    "deadlines": {"utilization", "cores", "memory"},
    "no periods": {"throughput", "latency", "memory"},
}


def kind_of(text: str) -> str:
    return "deadlines" if "deadlines" in text else "no periods"


def mapped(write: Write, text: str, objective: str, budget: float = 5) -> Answer:
    path = write(TEXTS[text], t_py=CODE)
    return find_mapping(path, platform="board", objective=objective, measure=False, budget=budget)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("text", TEXTS)
def test_each_objective_is_followed_or_refused(write: Write, text: str, objective: str) -> None:
    if objective in FOLLOWED[kind_of(text)]:
        found = mapped(write, text, objective)
        assert found.mapping.placements and not found.late
        return
    with pytest.raises(Errors) as caught:
        mapped(write, text, objective)
    for fault in caught.value.diagnostics:
        assert fault.code in ("F538", "F607") and fault.help


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("deadlines", "utilization,memory"),
        ("deadlines", "cores,cores"),
        ("no periods", "latency,throughput"),
        ("no periods", "speed"),
    ],
)
def test_lists_that_cannot_be_followed_say_which_can(
    write: Write, text: str, objective: str
) -> None:
    with pytest.raises(Errors) as caught:
        mapped(write, text, objective)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F538" and fault.help is not None and "one of" in fault.help


def used(found: Answer) -> set[str]:
    return {processor for place in found.mapping.placements for processor in place.processors}


def test_few_cores_are_one_objective_and_little_load_is_another(write: Write) -> None:
    """Three tasks of 6 ms in 20 ms fit on one core; the least load takes three."""
    few = mapped(write, "deadlines", "cores")
    least = mapped(write, "deadlines", "utilization")
    assert (
        few.joint is not None
        and few.joint.outcome.cores is not None
        and few.joint.outcome.cores.proved
    )
    assert (
        len(used(few)) == 1
        and few.joint.outcome.proved
        and few.mapping.effort.objective == "cores,utilization"
    )
    assert len(used(least)) == 3 and least.joint is not None and least.joint.outcome.proved


def test_states_have_the_fewest_cores_together(write: Write) -> None:
    """State `one` has 30 ms of work in 20 ms: two cores; `two` alone would need one."""
    found = mapped(write, "states with deadlines", "cores")
    assert found.states is not None and found.states.outcome.cores is not None
    assert found.states.outcome.cores.count == 2 and found.states.outcome.cores.proved
    assert len(used(found)) == 2


def test_little_load_comes_before_few_cores_if_it_is_named_first(write: Write) -> None:
    """State `one` has five tasks of 6 ms in 20 ms: on two cores one of them has three."""
    found = mapped(write, "states with deadlines", "utilization,cores", budget=60)
    assert found.states is not None and found.states.outcome.cores is not None
    cores = found.states.outcome.cores
    assert cores.count == 3 and cores.proved and cores.most == Fraction(3, 5)
    assert found.states.outcome.proved
    assert found.mapping.effort.objective == "utilization,cores"


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("cores", "1 CPU; on so many, "),
        ("utilization,cores", "3 CPUs: proved, no mapping has so little utilization on fewer; by"),
    ],
)
def test_the_answer_says_what_is_proved_of_few_cores(
    write: Write, objective: str, said: str
) -> None:
    found = mapped(write, "deadlines", objective)
    assert found.joint is not None and said in joint_table(found.joint)


@pytest.mark.parametrize("objective", ["utilization", "cores"])
def test_the_data_say_what_an_answer_is_optimal_over(write: Write, objective: str) -> None:
    """As the sentence does; with few CPUs first, a bound is about so many."""
    text = "task A { wcet 1 ms }  task B { wcet 8 ms }\n"
    text += "app P { period 10 ms  t: A }  app Q { period 20 ms  t: B }\n"
    board = "platform board { cpu core[2] scheduler fixed_priority frequencies [1000, 2000] MHz }"
    path = str(write(text + board))
    command = ["map", path, "--platform", "board", "--no-measure", "--evaluations", "20"]
    command += ["--objective", objective]
    done = CliRunner().invoke(cli, [*command, "--json"])
    search = json.loads(done.stdout)["search"]
    held = ["clock rates"]
    held = ["1 CPU", *held] if objective == "cores" else held
    assert search["optimal"] and search["optimal_over"] == {
        "moved": ["places of tasks", "priorities"],
        "held": held,
    }
    assert (search["lower_bound"] > 0.45) == (objective == "cores")
    table = CliRunner().invoke(cli, command).stdout
    assert "proved, no mapping that provably keeps all deadlines has less, over places" in table
    assert f"with {' and '.join(held)} as given" in table


def test_what_is_impossible_is_so_with_these_priorities(write: Write) -> None:
    """Those that the text gives; where it gives none, some order is found."""
    text = "task A { wcet 1 ms }  task B { wcet 8 ms }\n"
    apps = "app P { period 5 ms %s t: A }  app Q { period 20 ms %s t: B }\n"
    one = "platform board { cpu core scheduler fixed_priority }"
    path = write(text + apps % ("priority 1", "priority 1") + one)
    command = ["map", str(path), "--platform", "board", "--no-measure", "--evaluations", "20"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1
    assert "ruled out by these bounds, with places and priorities as given" in done.stdout
    path.write_text(text + apps % ("", "") + one)
    assert CliRunner().invoke(cli, command).exit_code == 0


def test_tasks_of_composites_have_their_whole_names(write: Write) -> None:
    text = TASKS % "period 50 ms" + "graph Pair { in x  out y  n: N  x -> n -> y }\n"
    text = text.replace("n: N  t", "one: Pair  two: Pair  t").replace("s -> n", "s -> one -> two")
    path = write(text + "platform single { cpu core }\n", t_py=CODE)
    found = find_mapping(path, platform="single", measure=False, budget=2)
    assert found.joint is not None
    assert "A.s, A.one.n, A.two.n, A.t" in joint_table(found.joint)


def test_it_is_said_which_verdict_counts(write: Write) -> None:
    """The search bounds all orders of firings, the tables above it those of the program."""
    joint = mapped(write, "deadlines", "utilization").joint
    assert joint is not None and joint.program is not None and joint.outcome.verdict is not None
    late = replace(joint.outcome.verdict, broken=(BrokenLimit(Deadlines(), "A", "late"),))
    ruled_out = replace(joint, outcome=replace(joint.outcome, verdict=late, impossible="deadlines"))
    said = joint_table(ruled_out)
    assert "every one was ruled out by these bounds, over places of tasks\nthe tables above" in said
    assert "the tables above count" not in joint_table(replace(ruled_out, verdict=late))


def outcome(maximum: Fraction, bound: Fraction | None, *, late: bool = False) -> Outcome:
    """An answer of a search that needs so much of a processor."""
    nothing = Assignment((), (), ())
    broken = (BrokenLimit(Deadlines(), "A", "`A` is late"),) if late else ()
    told = MappingVerdict(
        nothing, {"core": maximum}, WorstCases({}, {}, {}), broken, PriorityOrder("text", ())
    )
    proved = not late and maximum == bound
    return Outcome("auto", None, told, bound, proved, None, 1, 0.0, counted=1)


def test_a_proof_on_few_cores_is_about_all_ways_to_choose_them(write: Write) -> None:
    """One CPU of either pool: an answer on one of them, and none yet on the other."""
    pools = TEXTS["deadlines"].replace("cpu core[3]", "cpu big  cpu little")
    valid = prepare(write(pools, t_py=CODE), platform="board", mapped=False).require()
    problem = joint_problem(valid, times_of(valid.system, valid.platform))
    half, third = Fraction(1, 2), Fraction(1, 3)
    answers = {"little": outcome(half, half), "big": outcome(Fraction(1), third, late=True)}

    def attempt(left_out: frozenset[str], budget: Budget) -> Outcome:
        return answers[next(iter(left_out))]

    found = by_objectives([problem], attempt, Budget(10), ["cores"])
    assert found.cores is not None and found.cores.count == 1
    assert found.maximum == half and found.bound == third and not found.proved
    assert found.evaluations == 2


def test_memory_is_that_of_a_program(write: Write) -> None:
    """Where tasks have no code, nothing is known of what one takes."""
    text = TEXTS["deadlines"].replace('python "t.py:same"', "")
    with pytest.raises(Errors) as caught:
        find_mapping(write(text, t_py=CODE), platform="board", objective="memory", measure=False)
    assert [d.code for d in caught.value.diagnostics] == ["F601"]
