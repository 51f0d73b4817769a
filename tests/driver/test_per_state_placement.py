"""States with places of their own: where no placement of all states keeps every deadline, and only
there."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import flowc
import pytest
from flowc.analysis.timing.switching import played
from flowc.cli._deadlines import states_document, states_table, why_elsewhere
from flowc.driver.plan.per_state_placement import bound_together, different
from flowc.driver.plan.states import placed_states
from flowc.driver.show.reporting import report
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.text.check import Valid
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Mapping
from flowc.model.platform import Platform, Pool
from flowc.model.times import times_of
from flowc.search.budget import Budget
from flowc.search.deadline.answer import mapping_of
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.per_state_placement import own_places
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
from flowc.search.deadline.states import CommonPlaces, outcome_of
from flowc.search.deadline.verdict import verdict
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builds import harness, run

MS = 1_000_000
APP = "app {} {{ period 2 ms   next: Next   sum: Sum   next -> sum.x   sum -> delay 1 -> sum.before }}\n"
TEXT = f"""
task Next {{ out x: int64   wcet 100 us   python "code.py:Next" }}
task Sum {{ in x: int64   in before: int64   out s: int64   event turn   wcet 1100 us   python "code.py:Sum" }}
{"".join(map(APP.format, "ABC"))}
platform duo {{ cpu core[2] }}
scenario Pairs {{
    initial state one {{ run A, B }}
    state two {{ run B, C }}
    state three {{ run A, C }}
    one -> two on A.sum.turn   two -> three on B.sum.turn   three -> one on C.sum.turn
}}
"""
CODE = """
class Next:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n

class Sum:
    def __init__(self, turn): self.turn, self.n = turn, 0
    def __call__(self, x, before):
        self.n += 1
        if before + x != self.n * (self.n + 1) // 2:
            raise ValueError(f"{before} and {x} in frame {self.n}")
        if self.n % 5 == 0:
            self.turn()
        return before + x
"""


def mapped(folder: Path) -> Any:
    (folder / "code.py").write_text(CODE)
    (folder / "app.flow").write_text(TEXT)
    return flowc.map(folder / "app.flow", platform="duo", budget=5, measure=False)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three apps of which each pair needs both cores: A, B, C on two cores put two of them
    together."""
    return mapped(tmp_path_factory.mktemp("pairs"))


def ways(problem: JointProblem) -> list[dict[str, str]]:
    """All placements of the tasks of a problem."""
    names = [i.name for i in problem.tasks]
    return [dict(zip(names, p, strict=True)) for p in product(*map(problem.places, problem.tasks))]


def kept(problem: JointProblem, places: dict[str, str]) -> bool:
    return verdict(problem, CommonPlaces(places).of(problem)).feasible


def test_no_common_placement_keeps_what_places_of_their_own_keep(pairs: Any) -> None:
    valid = pairs.valid
    problems = [joint_problem(s, times_of(s.system, s.platform)) for s in valid.states.values()]
    everything = {name: "" for p in problems for w in ways(p) for name in w}
    common = (
        dict(zip(everything, p, strict=True))
        for p in product(("core[0]", "core[1]"), repeat=len(everything))
    )
    assert not any(
        all(kept(p, {i.name: c[i.name] for i in p.tasks}) for p in problems) for c in common
    )
    assert all(any(kept(p, way) for way in ways(p)) for p in problems)

    assert not pairs.late and pairs.path is not None
    own = {s.state: s.placements for s in pairs.mapping.states if s.placements}
    (name,) = own  # one state is enough, and one task in it
    (place,) = own[name]
    assert place.task.endswith(".sum") and pairs.mapping.of(place.task) != place.processors
    assert Mapping.from_json(pairs.path.read_text())[0].states == pairs.mapping.states
    told = states_table(pairs.states)
    assert (
        f"`{place.task}` runs on {place.processors[0]} in `{name}`" in told
        and "for all states" not in told
    )
    assert "needs 1" in why_elsewhere(pairs.states, name)[0]
    shown = pairs._repr_html_()
    assert (
        f"<td>{place.task} in {name}</td><td>{place.processors[0]}</td>" in shown
        and shown.count("<td>yes, if the interpreter is free</td>") == 6
    )
    document = states_document(pairs.states, None)["states"]
    assert document[name]["own_places"] == {place.task: place.processors[0]}
    assert document[name]["tasks"][place.task] == place.processors[0]
    assert all("own_places" not in d for n, d in document.items() if n != name)


def test_changes_take_what_their_bounds_say(pairs: Any) -> None:
    """Each half counts with the places of its own state: played through, no change takes longer."""
    systems = {name: joint.system for name, joint in pairs.states.joints.items()}
    (state,) = (s for s in pairs.mapping.states if s.placements)
    on = {t.name: t.processor for g in systems[state.state].groups for t in g.tasks}
    assert all((on[p.task],) == p.processors for p in state.placements)
    known = {(t.source, t.target): t for t in pairs.mapping.transitions}
    assert {t.protocol for t in known.values()} == {"idle"}
    for change in played(systems, [*known], "one", Random(1), changes=30):
        bound = known[change.source, change.target].delay_ns
        assert bound is not None and change.drained + change.first <= bound


def test_a_program_moves_its_tasks_and_loses_nothing(pairs: Any, tmp_path: Path) -> None:
    flow = pairs.path.parent / "app.flow"
    built = flowc.build(flow, tmp_path / "b", platform="duo", measure=False)
    (state,) = (s for s in pairs.mapping.states if s.placements)
    (place,) = state.placements
    assert built.mapping.of(place.task) == pairs.mapping.of(place.task)
    states = json.loads((tmp_path / "b/deployment.json").read_text())["scenario"]["states"]
    at = {
        s["name"]: p["processor"]
        for s in states
        for p in s["processors"]
        for e in p["order"]
        if e["task"] == place.task
    }
    assert len(at) == 2 and at.pop(state.state) == place.processors[0]
    assert {*at.values()} == {*pairs.mapping.of(place.task)}
    runs = {"one": "AB", "two": "BC", "three": "AC"}
    stays = [
        {"state": name, "frames": dict.fromkeys(runs[name], 1 + n % 3)}
        for n in range(20)
        for name in runs
    ]
    (tmp_path / "stays").write_text(json.dumps({"stays": stays}))
    options = [
        "--replay",
        str(tmp_path / "stays"),
        "--full-speed",
        "--report",
        str(tmp_path / "r"),
        "--quiet",
    ]
    done = run(tmp_path / "b", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r").read_text())["stays"] == stays
    done = harness(tmp_path / "b")
    assert done.returncode == 0, done.stderr
    compared = report(flow, platform="duo", compare=tmp_path / "b").document.compare
    assert compared is not None and compared.differences == () == compared.only_here, compared


def test_reports_have_what_is_elsewhere_in_a_state_and_what_is_proved_there(
    pairs: Any, tmp_path: Path
) -> None:
    flow = pairs.path.parent / "app.flow"
    (state,) = (s for s in pairs.mapping.states if s.placements)
    (place,) = state.placements
    document = report(flow, platform="duo").document
    places = {s.name: s.own_places for s in document.states}
    assert places.pop(state.state) == {place.task: place.processors[0]} and not any(places.values())
    assert {t.name: t.processors for t in document.tasks}[place.task] == pairs.mapping.of(
        place.task
    )
    proved = {(s.name, b.app): b for s in document.states for b in s.bounds}
    assert [*proved] == [
        (n, a) for n, apps in {"one": "AB", "two": "BC", "three": "AC"}.items() for a in apps
    ]
    assert all(b.bound_ns <= b.deadline_ns == 2 * MS and not b.late for b in proved.values())
    assert document.commands == ("flowc map app.flow --search auto --seed 0 --platform duo",)
    assert document.search is not None and not {"search", "bounds"} & document.missing.keys()
    means = [p.predicted for p in document.processors]
    assert sum(means) == pytest.approx(2 * 1.2 / 2, abs=1e-3)  # two apps in each state

    there = tmp_path / "report.json"
    there.write_text(document.to_json())
    assert report(flow, platform="duo", compare=there).document.compare.differences == ()  # type: ignore[union-attr]
    stored = json.loads(pairs.path.read_text())
    for other in stored["states"]:
        other.pop("placements", None)
    there.write_text(json.dumps(stored))
    found = report(flow, platform="duo", compare=there).document.compare
    assert found is not None and found.only_here == found.only_there == ()
    told = [(d.section, d.name, d.here, d.there) for d in found.differences]
    at = place.processors[0], pairs.mapping.of(place.task)[0]
    assert told == [("places", f"{place.task} in {state.state}", *at)]


def beside(pairs: Any, folder: Path, document: dict[str, Any]) -> Valid:
    """The same text, beside another stored mapping."""
    for name in ("app.flow", "code.py"):
        (folder / name).write_text((pairs.path.parent / name).read_text())
    (folder / pairs.path.name).write_text(json.dumps(document))
    return flowc.check(folder / "app.flow", platform="duo").require()


def test_places_of_one_state_are_those_of_no_other(pairs: Any, tmp_path: Path) -> None:
    document = json.loads(pairs.path.read_text())
    common = {p["task"]: p["processors"] for p in document["placements"]}
    (other,) = {"core[0]", "core[1]"} - {*common["A.next"]}
    for state in document["states"]:
        state["placements"] = (
            [{"task": "A.next", "processors": [other]}] if state["state"] == "one" else []
        )
    placed = placed_states(beside(pairs, tmp_path, document), None)
    pins = {
        n: {p.task: [*p.stages[0].processors] for p in s.system.pins}
        for n, s in placed.states.items()
    }
    assert {**pins["two"], **pins["three"]} == common and pins["one"] == {
        **{n: p for n, p in common.items() if not n.startswith("C")},
        "A.next": [other],
    }


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"processors": ["core[7]"]}, "F501", "no processor `core[7]`"),
        ({"processors": ["core[0]", "core[1]"]}, "F504", "the same place in every state"),
        ({"process": True}, "F504", "the same place in every state"),
        ({"threads": 2}, "F504", "the same place in every state"),
        (None, "F609", "placements of `{}` has `{}` twice"),
    ],
)
def test_places_that_a_user_wrote_are_checked(
    pairs: Any, change: dict[str, Any] | None, code: str, said: str, tmp_path: Path
) -> None:
    document = json.loads(pairs.path.read_text())
    (state,) = (s for s in document["states"] if "placements" in s)
    place = state["placements"][0]
    state["placements"] += [place] if change is None else [{**place, **change, "task": "A.next"}]
    valid = beside(pairs, tmp_path, document)
    if code == "F609":
        told = placed_states(valid, None).diagnostics
    else:
        with pytest.raises(Errors) as raised:
            placed_states(valid, None)
        told = tuple(raised.value.diagnostics)
        assert pairs.path.name in (told[0].help or "")
    assert [d.code for d in told] == [code] and said.format(state["state"], place["task"]) in told[
        0
    ].message


def test_what_is_redone_at_once_stays(pairs: Any) -> None:
    """States between which frames are done again have one layout, late or not."""
    scenario = pairs.valid.system.scenario
    assert not bound_together(scenario)
    first, *others = scenario.transitions
    assert bound_together(
        replace(scenario, transitions=(replace(first, at_once=True), *others))
    ) == {"one", "two"}


# -- any state -------------------------------------------------------------------------------------
BOARD = Platform(
    "b",
    (Pool("cpu", "cpu", 2, True, "fixed_priority"), Pool("gpu", "gpu", 1, False, "fifo")),
    (),
    "",
    None,
)


@st.composite
def late(draw: st.DrawFn) -> tuple[JointProblem, Outcome]:
    """Apps of a task and a network, each on a CPU or the GPU, some pinned; and a placement that
    need not be good."""
    teams, items, nets, choice = [], [], [], []
    for name in ("A", "B", "C")[: draw(st.integers(2, 3))]:
        cost = draw(st.integers(4, 9))
        items.append(
            DeadlineTask(
                f"{name}.t",
                name,
                {"cpu": cost * MS, "gpu": MS} if draw(st.booleans()) else {"cpu": cost * MS},
            )
        )
        steps = {
            kind: (CandidateStage(kind, (draw(st.integers(1, 9)) * MS,), None),)
            for kind in ("cpu", "gpu")
        }
        cut = (
            CandidateStage("gpu", (MS,), "l"),
            CandidateStage("cpu", (draw(st.integers(1, 5)) * MS,), None),
        )
        nets.append(
            DeadlineNetwork(
                f"{name}.n",
                name,
                tuple(Candidate(k, s) for k, s in {**steps, "gpu-cpu": cut}.items()),
            )
        )
        teams.append(
            TaskGroup(name, Fraction(20 * MS), None, 0, (JointChannel(f"{name}.t", f"{name}.n"),))
        )
        choice.append(draw(st.integers(0, 2)))
    free = JointProblem(BOARD, tuple(teams), tuple(items), tuple(nets), {})
    at = {i.name: draw(st.sampled_from(free.places(i))) for i in items}
    problem = replace(free, pins={n: p for n, p in at.items() if draw(st.integers(0, 3)) == 0})
    core = st.sampled_from(BOARD.processors[:2])
    steps_at = [
        tuple(draw(core) if s.type == "cpu" else "gpu" for s in n.candidates[c].stages)
        for n, c in zip(nets, choice, strict=True)
    ]
    placed = CommonPlaces().with_answer(
        problem, Assignment(tuple(choice), tuple(steps_at), tuple(at.values()))
    )
    return problem, outcome_of(problem, placed, None, None)


def exhaustive(problem: JointProblem, budget: Budget) -> Outcome:
    """The best of all placements of a problem without networks."""
    found = [outcome_of(problem, CommonPlaces(way), None, None) for way in ways(problem)]
    return min(found, key=lambda o: o.verdict is None or not o.verdict.feasible)


def moves(problem: JointProblem, outcome: Outcome) -> list[Outcome]:
    """The same with any other CPUs for what may move."""
    assert outcome.assignment is not None
    placed = CommonPlaces().with_answer(problem, outcome.assignment)
    names = [n for n, p in placed.tasks.items() if p != "gpu" and n not in problem.pins]
    names += [n for n, (_, p) in placed.networks.items() if len(p) == 1 and p != ("gpu",)]
    found = []
    for places in product(BOARD.processors[:2], repeat=len(names)):
        at = dict(zip(names, places, strict=True))
        items = {n: at.get(n, p) for n, p in placed.tasks.items()}
        nets = {n: (c, (at[n],) if n in at else p) for n, (c, p) in placed.networks.items()}
        found.append(outcome_of(problem, CommonPlaces(items, nets), None, None))
    return found


@settings(max_examples=10)
@given(late())
def test_they_are_found_where_there_are_any_and_nothing_else_moves(
    made: tuple[JointProblem, Outcome],
) -> None:
    problem, common = made
    assume(common.verdict is not None and not common.verdict.feasible)
    possible = [o for o in moves(problem, common) if o.verdict is not None and o.verdict.feasible]
    found = own_places(problem, common, exhaustive, Budget(60))
    assert (found is None) == (not possible)
    if found is not None:
        assert found.assignment in [o.assignment for o in possible]
        own, before = (mapping_of(problem, o, o.verdict, 0) for o in (found, common))
        elsewhere = different(own, before)
        assert elsewhere and all(p.processors[0] in BOARD.processors[:2] for p in elsewhere)
