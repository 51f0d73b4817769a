"""Bounds that suppose that no thread waits for Python's interpreter: which ones, and where it is
said."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import flowc
import pytest
from flowc.cli import app
from flowc.cli._deadlines import joint_table
from flowc.driver.show.reporting import report
from flowc.driver.solve.map import Answer, find_mapping
from flowc.model.deployment import Deployment
from typer.testing import CliRunner

from builds import Write, planned

MS = 1_000_000
CODE = """
def make(): return 1
def pass_on(x): return x
def take(x): pass
"""
IN_C = """
void make(int *x) { *x = 1; }
void take(const int *x) { }
"""
#: Ten of ten milliseconds each, a core for each app.
TASKS = """
task A { out x: int32  wcet 10 ms  python "t.py:make" }
task B { in x: int32  wcet 10 ms  python "t.py:take" }
"""
APPS = """
app P { period 40 ms  deadline 25 ms  a: A  b: B  a -> b }
app Q { period 40 ms  deadline 25 ms  a: A  b: B  a -> b }
"""
TWO = "platform board { cpu c[2] scheduler fixed_priority }\n"


def pins(process: str = "") -> str:
    """Each app on its core, with these tasks in processes."""
    places = {"P.a": 0, "P.b": 0, "Q.a": 1, "Q.b": 1}
    said = [
        f"{task} -> c[{n}]" + (" process" if task in process else "") for task, n in places.items()
    ]
    return f"mapping on board {{ {'  '.join(said)} }}\n"


def mapped(flow: Path, *, native: bool = False) -> Answer:
    return find_mapping(flow, platform="board", native=native, measure=False, evaluations=50)


def conditional(flow: Path, *, native: bool = False) -> dict[str, bool]:
    """Which apps are schedulable if the interpreter is free; all are schedulable."""
    groups = mapped(flow, native=native).mapping.groups
    assert groups and all(group.schedulable for group in groups)
    return {group.app: group.rests_on("interpreter") for group in groups}


def test_apps_in_python_on_cores_of_their_own_may_wait_for_each_other(write: Write) -> None:
    flow = write(TASKS + APPS + TWO, t_py=CODE)
    assert conditional(flow) == {"P": True, "Q": True}
    command = ["map", str(flow), "--platform", "board", "--no-measure", "--evaluations", "50"]
    said = CliRunner().invoke(app, [*command, "--explain"])
    assert said.exit_code == 0, said.output
    assert said.stdout.count("  schedulable if the interpreter is free        20.00") == 2
    assert (
        "no bound includes waits for the interpreter, which Q.a, Q.b, P.a, P.b may hold"
        in said.stdout
    )
    (advice,) = (line for line in said.stdout.splitlines() if "keep other threads waiting" in line)
    assert "`process`" in advice and "`--target native`" in advice
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    groups = document["groups"].values()
    assert all(g["schedulable"] for g in groups)
    names = [[condition["condition"] for condition in g["conditions"]] for g in groups]
    assert all("interpreter" in own for own in names)


def test_the_stored_answer_and_the_report_say_the_same(write: Write) -> None:
    flow = write(TASKS + APPS + TWO, t_py=CODE)
    mapped(flow)
    stored = flowc.check(flow, platform="board").mapping
    assert stored is not None and all(group.rests_on("interpreter") for group in stored.groups)
    document = report(flow, platform="board").document
    bounds = [path for path in document.paths if path.bound_ns is not None]
    assert bounds and {path.supposed for path in bounds} == {"the interpreter is free"}


def test_map_names_the_wait_where_a_bound_was_exceeded(write: Write) -> None:
    joint = mapped(write(TASKS + APPS + TWO, t_py=CODE)).joint
    assert joint is not None
    seen = tuple(replace(group, seen_ns=34 * MS, frames=60) for group in joint.mapping.groups)
    said = joint_table(replace(joint, mapping=replace(joint.mapping, groups=seen)))
    assert "seen above its bound: P, Q; " in said and "or it waited for the interpreter\n" in said


def test_tasks_in_processes_of_their_own_let_others_go_on(write: Write) -> None:
    """Their own workers still want the interpreter, which the other app may hold."""
    flow = write(TASKS + APPS + TWO + pins("Q.a Q.b"), t_py=CODE)
    assert conditional(flow) == {"P": False, "Q": True}
    flow = write(TASKS + APPS + TWO + pins("Q.a"), t_py=CODE)
    assert conditional(flow) == {"P": True, "Q": True}
    flow = write(TASKS + APPS + TWO + pins("P.a P.b Q.a Q.b"), t_py=CODE)
    assert conditional(flow) == {"P": False, "Q": False}


def test_a_single_worker_waits_for_nobody(write: Write) -> None:
    (alone, _) = APPS.strip().splitlines()
    single = TWO.replace("c[2]", "c")
    assert conditional(write(TASKS + alone + single, t_py=CODE)) == {"P": False}
    relaxed = APPS.replace("25 ms", "40 ms")
    shared = single.replace("fixed_priority", "static_order")
    assert conditional(write(TASKS + relaxed + shared, t_py=CODE)) == {"P": False, "Q": False}
    # under priorities each app has a worker of its own, and may be preempted where it holds it
    assert conditional(write(TASKS + relaxed + single, t_py=CODE)) == {"P": True, "Q": True}


def test_the_workers_of_one_app_may_wait_for_each_other(write: Write) -> None:
    (alone, _) = APPS.strip().splitlines()
    apart = "mapping on board { P.a -> c[0]  P.b -> c[1] }"
    assert conditional(write(TASKS + alone + TWO + apart, t_py=CODE)) == {"P": True}


def test_tasks_in_c_or_without_code_hold_nothing(write: Write) -> None:
    in_c = TASKS.replace("python", "c").replace("t.py", "t.c")
    assert conditional(write(in_c + APPS + TWO, t_c=IN_C)) == {"P": False, "Q": False}
    bare = TASKS.replace('python "t.py:make"', "").replace('python "t.py:take"', "")
    assert conditional(write(bare + APPS + TWO)) == {"P": False, "Q": False}


def test_programs_in_cpp_have_no_interpreter(write: Write) -> None:
    both = TASKS
    for name in ("make", "take"):
        both = both.replace(f'"t.py:{name}"', f'"t.py:{name}"  c "t.c:{name}"')
    flow = write(both + APPS + TWO, t_py=CODE, t_c=IN_C)
    assert conditional(flow, native=True) == {"P": False, "Q": False}


def test_machines_have_an_interpreter_each(write: Write) -> None:
    rig = """
    platform board { machine eye { cpu core }  machine arm { cpu core }  link eye arm 1 GB/s 20 us }
    mapping on board { P.a -> eye.core  P.b -> eye.core  Q.a -> arm.core  Q.b -> PLACE.core }
    """
    flow = write(TASKS + APPS + rig.replace("PLACE", "arm"), t_py=CODE)
    assert conditional(flow) == {"P": False, "Q": False}
    # `Q.c` is in C, and `Q.b` in one worker with `P`: what receives its tokens is another thread
    sent = """
    task C { out x: int32  wcet 1 ms  c "t.c:make" }
    app P { period 40 ms  a: A  b: B  a -> b }
    app Q { period 40 ms  c: C  b: B  c -> b }
    """
    moved = rig.replace("PLACE", "eye").replace("Q.a", "Q.c")
    flow = write(TASKS.replace("10 ms", "1 ms") + sent + moved, t_py=CODE, t_c=IN_C)
    assert conditional(flow) == {"P": False, "Q": True}


REFERENCE = """
task Make { out x: float32[4]  wcet 1 ms  python "t.py:make" }
task Scale {
    in x: float32[4]  out y: float32[4]  wcet 1 ms
    cuda "k.cu:scale" (x, y)  grid 1  block 4  reference python "t.py:scale"
}
app P { period 40 ms  make: Make  scale: Scale  make -> scale }
mapping on board { P.make -> c[0] process  P.scale -> c[1] }
"""


def test_a_reference_is_python(write: Write) -> None:
    code = "def make(): pass\ndef scale(x): pass\n"
    kernel = 'extern "C" __global__ void scale(const float *x, float *y) { }'
    flow = write(REFERENCE + TWO, t_py=code, k_cu=kernel)
    assert conditional(flow) == {"P": True}


def test_a_chain_waits_where_what_it_comes_through_does(write: Write) -> None:
    """`P` in C may wait for `Q`, which alone is in Python."""
    text = """
    task See { out x: int32  wcet 10 ms  c "t.c:make" }
    task Act { in x: int32  wcet 10 ms  python "t.py:take" }
    app P { period 40 ms  see: See }
    app Q { period 40 ms  CHAIN  act: Act  P.see -> latest wcet 1 us -> act }
    mapping on board { P.see -> c[0]  Q.act -> c[1] }
    """
    age = "deadline 200 ms from P.see to act"
    flow = write(text.replace("CHAIN", "") + TWO, t_py=CODE, t_c=IN_C)
    assert conditional(flow) == {"P": True, "Q": False}
    flow = write(text.replace("CHAIN", age) + TWO, t_py=CODE, t_c=IN_C)
    assert conditional(flow) == {"P": True, "Q": True}


# -- referee ---------------------------------------------------------------------------------------
def by_deployment(deployment: Deployment) -> dict[str, bool]:
    """Of each app: is a worker of it beside one that has Python in the program's process?"""
    of = {}
    for each in deployment.apps:
        for task in each.tasks:
            python = task.code.kind == "python" and not getattr(task.code, "process", False)
            of[task.name] = each.name, python
    workers = [{of[entry.task] for entry in worker.order} for worker in deployment.processors]
    found = {each.name: False for each in deployment.apps}
    for own, other in permutations(workers, 2):
        if any(python for _, python in other):
            found |= {name: True for name, _ in own}
    return found


def drawn(rng: random.Random) -> str:
    """Chains of tasks in Python, in processes and in C, pinned to any cores."""
    lines, places = [], []
    for number in range(rng.randint(1, 3)):
        length, tasks = rng.randint(2, 3), []
        for n in range(length):
            word = "Make" if n == 0 else "Take" if n == length - 1 else "Pass"
            code = rng.choice(["C", "C", "Python"])
            tasks.append(f"t{n}: {word}{code}")
            apart = " process" if code == "Python" and rng.random() < 0.3 else ""
            places.append(f"A{number}.t{n} -> c[{rng.randrange(2)}]{apart}")
        background = number and rng.random() < 0.3
        period = "" if background else f"period {rng.choice([10, 20])} ms"
        arrows = " -> ".join(f"t{n}" for n in range(length))
        lines.append(f"app A{number} {{ {period}  {'  '.join(tasks)}  {arrows} }}")
    ports = {"Make": "out x: int32", "Pass": "in x: int32  out y: int32", "Take": "in x: int32"}
    names = {"Make": "make", "Pass": "pass_on", "Take": "take"}
    for word, said in ports.items():
        for code, file in (("Python", "t.py"), ("C", "t.c")):
            file_and_name = f'{code.lower()} "{file}:{names[word]}"'
            lines.append(f"task {word}{code} {{ {said}  wcet 10 us  {file_and_name} }}")
    scheduler = rng.choice(["fixed_priority", "static_order"])
    lines.append(f"platform board {{ cpu c[2] scheduler {scheduler} }}")
    lines.append(f"mapping on board {{ {'  '.join(places)} }}")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_the_condition_is_that_of_the_program_that_is_built(write: Write, seed: int) -> None:
    rng = random.Random(seed)
    seen = set()
    for _ in range(8):
        passing = "void pass_on(const int *x, int *y) { *y = *x; }"
        flow = write(drawn(rng), t_py=CODE, t_c=IN_C + passing)
        wanted = by_deployment(
            planned(flowc.check(flow, platform="board", mapped=False).require(), None).deployment
        )
        found = conditional(flow)
        assert found == {name: wanted[name] for name in found}
        seen |= set(found.values())
    assert seen == {True, False}
