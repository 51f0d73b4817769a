"""`repeat` and `last` on arrows: what they are in the graph, and what programs with them print."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import flowc
import pytest
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.throughput_problem import problem_of
from flowc.driver.text.check import check
from flowc.dsl.format import format_text
from flowc.model.application import Resampling
from flowc.model.mapping import Placement
from flowc.model.resampling import hosts, with_resampling, without_resampling
from flowc.model.times import times_of
from flowc.profiling.identity import task_hashes
from flowc.search.deadline.problem import Assignment
from flowc.search.deadline.program import timed
from flowc.search.throughput.problem import loads

from builds import HANGS, Write, build, harness, run

TASKS = """
task Source { out x   wcet 2 us }
task Work   { in x   out y   wcet 3 us }
task Turn   { in x   in s   out y   wcet 1 us }
task Blocks { in x rate 2   out y rate 3   wcet 4 us }
task Sink   { in x   wcet 1 us }
"""
WORDS = """
app A {
    PERIOD
    source: Source   turn: Turn   blocks: Blocks   work: Work   sink: Sink   other: Sink
    source -> repeat 6 -> turn.x
    turn -> delay 1 -> turn.s
    turn -> last 3 -> blocks -> delay 2 -> repeat 2 of 3 -> delay 1 -> last 2 -> work -> sink
    blocks -> last 1 of 3 -> other
}
"""
#: The same, with a task for everything that stands on an arrow.
ACTORS = """
task R1 { in x          out y rate 6   wcet 0 ns }
task L1 { in x rate 3   out y          wcet 0 ns }
task R2 { in x rate 3   out y rate 6   wcet 0 ns }
task L2 { in x rate 2   out y          wcet 0 ns }
task L3 { in x rate 3   out y rate 3   wcet 0 ns }
app A {
    PERIOD
    source: Source   turn: Turn   blocks: Blocks   work: Work   sink: Sink   other: Sink
    r1: R1   l1: L1   r2: R2   l2: L2   l3: L3
    source -> r1 -> turn.x
    turn -> delay 1 -> turn.s
    turn -> l1 -> blocks -> delay 2 -> r2 -> delay 1 -> l2 -> work -> sink
    blocks -> l3 -> other
}
"""
NAMES = {
    "A.r1": "A.source->repeat6->turn",
    "A.l1": "A.turn->last3->blocks",
    "A.r2": "A.blocks->repeat2of3->work",
    "A.l2": "A.blocks->last2->work",
    "A.l3": "A.blocks->last1of3->other",
}
PERIODS = ["", "period 40 us   deadline 60 us from source to sink"]


@pytest.mark.parametrize("period", PERIODS, ids=["as fast as can be", "with a period"])
def test_they_are_actors_like_others(tmp_path: Path, period: str) -> None:
    """Verdicts, repetition vector, period, latency, buffers and paths are those of explicit tasks
    that take no time."""
    found = []
    for name, text in (("words", WORDS), ("actors", ACTORS)):
        (tmp_path / f"{name}.flow").write_text(TASKS + text.replace("PERIOD", period))
        verdicts = flowc.check(tmp_path / f"{name}.flow").verdicts["A"]
        analysis = flowc.analyze(tmp_path / f"{name}.flow").apps["A"]
        found.append((verdicts, analysis))
    (words, mine), (actors, theirs) = found
    assert words.repetition == {NAMES.get(name, name): n for name, n in actors.repetition.items()}
    assert words.deadlock_free.holds and words.schedulable == actors.schedulable
    assert (mine.period, mine.latency, mine.times.source) == (theirs.period, theirs.latency, "wcet")
    assert [p.latency for p in mine.paths] == [p.latency for p in theirs.paths]
    assert mine.least_buffers is not None and theirs.least_buffers is not None
    assert mine.least_buffers.total == theirs.least_buffers.total
    assert mine.schedule is not None and theirs.schedule is not None


def test_what_they_are_in_the_graph(tmp_path: Path) -> None:
    """Delays stay where they stand; each is fired beside its reader or its writer, and searches see
    plain arrows."""
    (tmp_path / "a.flow").write_text(TASKS + WORDS.replace("PERIOD", "period 1 ms"))
    (app,) = (system := flowc.load(tmp_path / "a.flow")).apps
    made = {t.name: t for t in app.tasks if t.resampling is not None}
    assert list(made) == list(NAMES.values())
    assert made["A.blocks->repeat2of3->work"].resampling == Resampling("repeat", 2, 3)
    assert {c.name: c.delay for c in app.channels if c.delay} == {
        "A.turn.y->A.turn.s": 1,
        "A.blocks.y->A.blocks->repeat2of3->work.in": 2,
        "A.blocks->repeat2of3->work.out->A.blocks->last2->work.in": 1,
    }
    assert {name: host for name, (host, _) in hosts(app).items()} == {
        "A.source->repeat6->turn": "A.turn",
        "A.turn->last3->blocks": "A.turn",
        "A.blocks->repeat2of3->work": "A.work",
        "A.blocks->last2->work": "A.blocks",
        "A.blocks->last1of3->other": "A.blocks",
    }
    assert not any(name in task_hashes(system) for name in made)
    plain = without_resampling(app)
    assert [t.name for t in plain.tasks] == [t.name for t in app.tasks if t.name not in made]
    assert {(c.source, c.destination) for c in plain.channels} == {
        ("A.source", "A.turn"), ("A.turn", "A.turn"), ("A.turn", "A.blocks"), ("A.blocks", "A.work"),
        ("A.work", "A.sink"), ("A.blocks", "A.other"),
    }  # fmt: skip


def test_where_they_are_fired(tmp_path: Path) -> None:
    """On a CPU; and bounds of searches count with the same places."""
    text = (
        TASKS
        + WORDS.replace("PERIOD", "period 1 ms")
        + "\nplatform board { cpu arm[3]  gpu volta }"
    )
    (tmp_path / "a.flow").write_text(text + "\nmapping on board { A.work -> volta wcet 3 us }")
    valid = check(tmp_path / "a.flow", platform="board").require()
    (app,) = valid.system.apps
    places = {"A.source": "arm[0]", "A.turn": "arm[1]", "A.blocks": "arm[2]", "A.sink": "arm[0]"}
    places |= {"A.work": "volta", "A.other": "arm[0]"}
    wanted = {
        "A.source->repeat6->turn": "arm[1]",
        "A.turn->last3->blocks": "arm[1]",
        "A.blocks->repeat2of3->work": "arm[2]",  # its reader is on the GPU
        "A.blocks->last2->work": "arm[2]",
        "A.blocks->last1of3->other": "arm[2]",
    }
    found = with_resampling([app], valid.platform, [Placement(t, (p,)) for t, p in places.items()])
    assert {p.task: p.processors[0] for p in found} == places | wanted
    problem = joint_problem(valid, times_of(valid.system, valid.platform))
    system = timed(problem, Assignment((), (), tuple(places[i.name] for i in problem.tasks)))
    assert {t.name: t.processor for t in system.groups[0].tasks} == places | wanted
    assert all(not t.cost for t in system.groups[0].tasks if t.name in wanted)


def test_tokens_cross_once(tmp_path: Path) -> None:
    """What searches suppose to change processors is what goes in at `repeat` and what comes out of
    `last`."""
    (tmp_path / "a.flow").write_text(
        "task Source { out x: uint8[100]   wcet 1 us }\ntask Sink { in x: uint8[100]   wcet 1 us }\n"
        "app A { source: Source   a: Sink   b: Sink   source -> repeat 5 -> a   source -> last 4 -> b }\n"
        "platform board { cpu core[2] }"
    )
    valid = check(tmp_path / "a.flow", platform="board").require()
    moved: list[tuple[str, int]] = []

    def transfer(source: str, target: str, count: int) -> float:
        moved.append((target, count))
        return 0.0

    problem = replace(
        problem_of(valid, times_of(valid.system, valid.platform), None), transfer=transfer
    )
    places = {"A.source": "core[0]", "A.a": "core[1]", "A.b": "core[1]"}
    loads(problem, {name: Placement(name, (place,)) for name, place in places.items()})
    # In an iteration the source fires 4 times, `a` 20 times and `b` once.
    assert moved == [("cpu", 100), ("cpu", 100)]


@pytest.mark.parametrize("name", ["repeat", "last", "of"])
def test_words_may_be_names(tmp_path: Path, name: str) -> None:
    """Of ports and parameters, which stood in texts before these were words."""
    text = (
        f"task S {{ out {name}: float32 }}\n"
        f"task T({name}: int = 2) {{ in {name}x: float32[{name}] rate {name}   out {name}: float32   state s: float32[{name}] }}\n"
        f"task U {{ in {name}: float32 rate 2 }}\n"
        f"graph G({name}: int) {{ in {name}x: float32   out y: float32   {name}x -> repeat {name} of {name} -> last {name} of {name} -> y }}\n"
        f"app A {{ s: S   g: G({name} = 2)   u: U   s.{name} -> g.{name}x   g -> u.{name} }}\n"
    )
    (tmp_path / "a.flow").write_text(text)
    checked = flowc.check(tmp_path / "a.flow")
    assert checked.ok, [d.message for d in checked.diagnostics]
    assert format_text("a", text) == text


def test_layout() -> None:
    text = "app A { a->repeat  4of   3->last( N-1 )of -1->b }"
    assert format_text("a", text) == "app A { a -> repeat 4 of 3 -> last (N - 1) of -1 -> b }\n"


# -- programs --------------------------------------------------------------------------------------
PROGRAM = """
type V = float64[2]
task Count  { out x: float64   python "t.py:Count" }
task Newton { in x: float64   in r: float64   out y: float64   LANGUAGE }
task Show   { in x: float64   python "t.py:show" }
task Pair   { in x: float64 rate 6   out v: V   python "t.py:pair" }
task Shape  { in v: V rate 4   python "t.py:shape" }

/// Square roots: each number goes through n turns, which begin with the root of the one before.
graph Root(n: int) {
    in x: float64   out y: float64
    newton: Newton
    x -> repeat n -> newton.x
    newton -> delay 1 = 1 -> newton.r
    newton -> last n -> y
}
app A {
    count: Count   root: Root(n = 30)   show: Show   pair: Pair   shape: Shape   last4: Show
    count -> root -> show
    count -> repeat 2 of 3 -> pair -> repeat 4 -> shape
    count -> delay 2 = [7, 8] -> last 2 -> delay 1 = 9 -> repeat 1 -> last4
}
"""
CODE = """
import numpy as np
class Count:
    n = 0
    def __call__(self):
        self.n += 1
        if self.n > 6:
            raise StopIteration
        return float(self.n)
def newton(x, r): return (r + x / r) / 2
def show(x): print("%.6f" % x)
def pair(x): return np.array([x[:3].sum(), x[3:].sum()])
def shape(v): print(v.tolist())
"""
NEWTON = """
int newton(void *state, const double *x, const double *r, double *y, const void *p)
{ *y = (*r + *x / *r) / 2; return 0; }
"""
ROOTS = ["1.000000", "1.414214", "1.732051", "2.000000", "2.236068", "2.449490"]


@pytest.mark.parametrize(
    "language", ['python "t.py:newton"', 'stateless   c "n.c:newton"'], ids=["python", "c"]
)
@pytest.mark.parametrize("cores", [1, 2])
def test_programs_print_what_is_known(
    write: Write, tmp_path: Path, language: str, cores: int
) -> None:
    board = f"platform board {{ cpu core[{cores}] }}\n"
    pins = "mapping on board { A.root.newton -> core[1]   A.pair -> core[1] }" if cores > 1 else ""
    text = PROGRAM.replace("LANGUAGE", language) + board + pins
    out = build(write(text, t_py=CODE, n_c=NEWTON), tmp_path / "out", platform="board")
    done = run(out, "--quiet")
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [x for x in printed if x.startswith("[")] == [str([[s, s]] * 4) for s in (6.0, 15.0)]
    # Of 7 8, 1 2, 3 4 the last ones, one later.
    assert sorted(x for x in printed if not x.startswith("[")) == sorted(
        [*ROOTS, "9.000000", "8.000000", "2.000000"]
    )
    tested = harness(out)
    assert tested.returncode == 0, tested.stderr
    document = json.loads((out / "deployment.json").read_text())
    of = {e["task"]: w["processor"] for w in document["processors"] for e in w["order"]}
    assert (
        of["A.count->repeat30->root.newton"]
        == of["A.root.newton"]
        == of["A.root.newton->last30->show"]
    )


def test_open_ends_and_frames_that_are_skipped(write: Write, tmp_path: Path) -> None:
    """Of four tokens the last one goes on, also out of the app; where one of them is missing, none
    does."""
    text = """
    task Check { in x: int64   out y: int64   on error skip   python "t.py:check" }
    app A { in x: int64   out y: int64   check: Check   x -> repeat 2 -> check -> last 4 -> y }
    """
    code = """
    def check(x):
        if x == 5:
            raise ValueError("five")
        return x * 10
    """
    flow = write(text, t_py="\n".join(line[4:] for line in code.splitlines()))
    out = build(flow, tmp_path / "out")
    with flowc.open(out) as running:
        for n in range(8):
            running.put(n)
        assert [int(running.get(timeout=HANGS)) for _ in range(3)] == [10, 30, 70]


@pytest.mark.parametrize(
    "period", ["", "period 20 ms   deadline 15 ms from count to show"], ids=["fast", "paced"]
)
def test_mappings_do_not_speak_of_them(write: Write, tmp_path: Path, period: str) -> None:
    """Neither search has to find a place for them, and what it finds holds for the program that is
    built."""
    text = PROGRAM.replace("LANGUAGE", 'python "t.py:newton"').replace(
        "app A {", f"app A {{ {period}"
    )
    text = text.replace('"   }', '" }').replace(' python "t.py', ' wcet 1 us   python "t.py')
    flow = write(text + "platform board { cpu core[2]  scheduler fixed_priority }", t_py=CODE)
    found = flowc.map(flow, platform="board", budget=2, measure=False)
    names = [t.name for t in flowc.load(flow).apps[0].tasks]
    assert {p.task for p in found.mapping.placements} == {n for n in names if "->" not in n}
    assert not found.late and not [d for d in found.diagnostics if d.severity == "error"]
    if period:
        (bound,) = found.mapping.groups
        assert bound.schedulable and found.joint is not None and found.joint.program is not None
        assert {t.name for t in found.joint.program.groups[0].tasks} == set(names)
    built = flowc.build(flow, tmp_path / "out", platform="board", measure=False)
    assert "F609" not in [d.code for d in built.diagnostics]
    assert set(built.times) == {n for n in names if "->" not in n}
    assert run(tmp_path / "out", "--quiet", "--full-speed").returncode == 0
