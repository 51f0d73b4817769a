"""What a search bounds is the program that a build writes: the same workers, orders, stages and
capacities."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import flowc
import numpy as np
import onnx
import pytest
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import TimedSystem
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.deadlines import Joint, program
from flowc.driver.solve.known_times import KnownTimes
from flowc.driver.solve.request import MapRequest
from flowc.driver.text.check import Valid
from flowc.model.profile import LayerTime, Profile, ProfileEntry
from flowc.model.times import times_of
from flowc.networks.onnx.cuts import read_chain
from flowc.search.deadline.answer import mapping_of
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.problem import Assignment, JointProblem
from flowc.search.deadline.program import timed
from flowc.search.deadline.verdict import verdict
from onnx import TensorProto, helper, numpy_helper

from builds import Write
from models import N

MS = 1_000_000
TEXT = """
task Make {{ out x: {kind} {rate}  python "t.py:make"  wcet 3 ms }}
task Mid {{ in x: {kind}  out y: {kind}  python "t.py:mid"  wcet 4 ms }}
task Sink {{ in y: {kind} {rate}  python "t.py:take"  wcet 2 ms }}
network Net from "n.onnx" {{
    in x: {kind} from "x"  in x2: {kind} from "x2"
    {outs}
    precision fp16
}}
app A {{ period {period} ms  deadline 400 ms
    left: Make  right: Make  net: Net  mid: Mid  {instances}
    left -> net.x  right -> net.x2  {arrows}
}}
task Long {{ out x: int64  python "t.py:one"  wcet 7 ms }}
task Last {{ in x: int64  python "t.py:take"  wcet 5 ms }}
app B {{ period 30 ms  priority 1  long: Long  end: Last  long -> repeat 2 -> end }}
platform board {{
    tensorrt "10.3"  cpu core[3] scheduler {scheduler}  {accelerators}
}}
"""
KIND = "float32[1, 8, 16, 16]"
CODE = """
def make(): return []
def mid(x): return x
def one(): return 1
def take(*values): pass
"""


def network(rng: random.Random) -> onnx.ModelProto:
    """Layers that a DLA can run, over two inputs, with skip connections; every tensor is read, some
    also given out."""
    names, nodes, unread = ["x", "x2"], [], ["x2", "x"]
    for k in range(rng.randint(4, 8)):
        a = unread.pop() if unread and rng.random() < 0.7 else rng.choice(names)
        b = unread.pop() if unread else rng.choice(names)
        kind = rng.choice(["Conv", "Relu", "Add", "Add"])
        ends = {"Conv": [a, "w"], "Relu": [a], "Add": [a, b]}[kind]
        pads = {"pads": [1] * 4} if kind == "Conv" else {}
        nodes.append(N(kind, ends, [f"t{k}"], **pads))
        if kind != "Add" and b not in (a, *names[:2]) and b not in unread:
            unread.append(b)
        names.append(f"t{k}")
        unread.insert(0, f"t{k}")
    read = {name for node in nodes for name in node.input}
    for k, name in enumerate(n for n in ("x", "x2") if n not in read):
        nodes.append(N("Add", [name, names[-1]], [f"u{k}"]))
        names.append(f"u{k}")
    read = {name for node in nodes for name in node.input}
    outs = [n for n in names if n not in read]
    outs += [n for n in names[2:] if n in read and rng.random() < 0.1]
    shapes = {name: [1, 8, 16, 16] for name in ("x", "x2", *outs)}
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    weight = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        nodes, "g", [infos["x"], infos["x2"]], [infos[n] for n in outs], [weight]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def drawn(write: Write, seed: int) -> tuple[Valid, Profile, JointProblem]:
    """A random network in an app with rates, beside another app, on some CPUs with or without a GPU
    and DLAs."""
    rng = random.Random(seed)
    model = network(rng)
    outs = [o.name for o in model.graph.output]
    more = range(1, len(outs))
    text = TEXT.format(
        kind=KIND,
        rate=rng.choice(["", "rate 2"]),
        outs="  ".join(f'out o{k}: {KIND} from "{name}"' for k, name in enumerate(outs)),
        instances="  ".join(f"s{k}: Sink" for k in range(len(outs))),
        arrows="net.o0 -> mid -> s0  " + "  ".join(f"net.o{k} -> s{k}" for k in more),
        period=rng.choice([15, 30, 60]),
        scheduler=rng.choice(["static_order", "fixed_priority"]),
        accelerators=rng.choice(["", "gpu ampere compute 8.7  dla nvdla[2]"]),
    )
    flow = write(text, t_py=CODE)
    onnx.save(model, flow.parent / "n.onnx")
    checked = flowc.check(flow, platform="board")
    assert checked.ok, [d.message for d in checked.diagnostics]
    valid = checked.require()
    chain = read_chain(flow.parent / "n.onnx", valid.tasks["A.net"].network.shapes)  # type: ignore[union-attr]
    entries = []
    for kind in ("cpu", "gpu", "dla"):
        layers = tuple(LayerTime(x.name, rng.randint(1, 4) * MS) for x in chain.layers)
        whole = int(sum(x.mean_ns for x in layers))
        entries.append(
            ProfileEntry(kind, "A.net", "", "", "", 10, whole, 0, whole, whole, layers=layers)
        )
    profile = Profile("board", "made up", tuple(entries))
    return valid, profile, joint_problem(valid, times_of(valid.system, valid.platform, profile))


def some_assignment(problem: JointProblem, rng: random.Random) -> Assignment:
    choice = tuple(rng.randrange(len(n.candidates)) for n in problem.networks)
    steps = tuple(
        tuple(rng.choice(problem.of_type[s.type]) for s in net.candidates[c].stages)
        for net, c in zip(problem.networks, choice, strict=True)
    )
    return Assignment(choice, steps, tuple(rng.choice(problem.places(i)) for i in problem.tasks))


def built(
    valid: Valid, profile: Profile, problem: JointProblem, assignment: Assignment
) -> TimedSystem:
    """The timing of the deployment that a build writes."""
    outcome = Outcome("test", assignment, verdict(problem, assignment), None, False, None, 0, 0.0)
    mapping = mapping_of(problem, outcome, outcome.verdict, 0)
    known = KnownTimes(profile, times_of(valid.system, valid.platform, profile))
    found = program(
        valid, known, Joint(problem, outcome, mapping, outcome.verdict), MapRequest(measure=False)
    )
    assert found is not None
    return found[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_search_bounds_the_program_that_is_built(write: Write, seed: int) -> None:
    valid, profile, problem = drawn(write, seed)
    rng = random.Random(seed)
    for _ in range(4):
        assignment = some_assignment(problem, rng)
        mine, theirs = timed(problem, assignment), built(valid, profile, problem, assignment)
        assert [(w.processor, w.sequence, w.rounds) for w in mine.workers] == [
            (w.processor, w.sequence, w.rounds) for w in theirs.workers
        ]
        for one, other in zip(mine.groups, theirs.groups, strict=True):
            assert one.tasks == other.tasks and one.paths == other.paths
            assert Counter(one.channels) == Counter(other.channels)
            assert (one.period, one.due, one.priority) == (other.period, other.due, other.priority)
        assert worst_cases(mine) == worst_cases(theirs)


@pytest.mark.parametrize("seed", range(12))
def test_no_simulation_exceeds_the_bounds_of_stages(write: Write, seed: int) -> None:
    """Programs end in every phase: where iterations are missing at the end, workers have their
    turns earlier."""
    _, _, problem = drawn(write, seed)
    rng = random.Random(seed)
    for _ in range(3):
        system = timed(problem, some_assignment(problem, rng))
        worst = worst_cases(system)
        for run in range(6):
            choices = Choices(
                execution=rng.choice(["worst", "random", "extreme"]), shuffle=run % 2 == 1
            )
            horizon = rng.randint(2, 9) * min(g.period for g in system.groups) + rng.randint(
                0, 10 * MS
            )
            seen = simulate(system, horizon, choices, rng)
            for name, bound in worst.groups.items():
                assert bound is None or seen.groups[name] <= bound, (name, run)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_an_app_alone_in_stages_is_exact(write: Write, seed: int) -> None:
    """With one worker on each processor, all worst cases together are the worst case
    (docs/mapping.md, bounds)."""
    _, _, problem = drawn(write, seed)
    rng = random.Random(seed)
    alone = replace(
        problem,
        groups=problem.groups[:1],
        tasks=tuple(i for i in problem.tasks if i.group == "A"),
        followers=(),
    )
    assignment = some_assignment(alone, rng)
    system = timed(alone, assignment)
    processors = [w.processor for w in system.workers]
    if len(set(processors)) < len(processors):
        pytest.skip("two workers share a processor")
    bound = worst_cases(system).groups["A"]
    seen = simulate(system, 40 * alone.groups[0].period_ns, Choices(), rng).groups["A"]
    assert bound is None or bound - 10 <= seen <= bound
