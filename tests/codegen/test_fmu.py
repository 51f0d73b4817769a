"""Graphs as Functional Mock-up Units: FMPy checks and runs them, and what they compute is held
against the reference."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
import onnx
import pytest
from flowc.driver.build.fmu import BuiltFmu, build_fmu
from fmpy.fmi1 import FMICallException
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import fmus
from builds import HANGS, ROOT, Write
from fmus import (
    COMPILER,
    SMOOTH,
    Instance,
    compiled_quickly,
    expected,
    low,
    made,
    opened,
    random_text,
    same,
    simulated,
    stepped_without_python,
    tokens_for,
)
from forks import forks

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with compiled_quickly():
        yield


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> BuiltFmu:
    """A unit of FMI 2.0 in C."""
    folder = tmp_path_factory.mktemp("low")
    return build_fmu(low(folder), "Low", folder)


def entry(file: Path, name: str) -> str:
    with zipfile.ZipFile(file) as archive:
        return archive.read(name).decode()


# -- what is computed ------------------------------------------------------------------------------
def test_fmpy_simulates_a_graph_in_c(smooth: BuiltFmu, tmp_path: Path) -> None:
    assert (smooth.version, smooth.why, smooth.python) == (2, "", False)
    times = np.arange(20) / 10
    signal = np.array([(t, np.sin(5 * t)) for t in times], [("time", float), ("x", float)])
    result = fmpy.simulate_fmu(str(smooth.file), stop_time=1.9, output_interval=0.1, input=signal)
    text = SMOOTH + "app A { in x: float32   out y: float32   low: Low   x -> low -> y }"
    wanted = expected(low(tmp_path, text), "A", [{"x": v} for v in signal["x"]])
    assert result["y"][0] == 0  # before the first step
    np.testing.assert_array_equal(result["y"][1:], [w["y"] for w in wanted][:-1])


@settings(max_examples=3, derandomize=True)
@given(st.integers(0, 10_000))
def test_random_graphs_in_c_compute_what_the_reference_computes(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    flow = random_text(seed, tmp_path_factory.mktemp("random"))
    assume(flow is not None)
    assert flow is not None
    unit = build_fmu(flow, "A", flow.parent / "A.fmu")
    inputs = tokens_for(unit.file, 4, seed)
    same(simulated(unit.file, inputs), expected(flow, "A", inputs))


RATES = """
task Scale(gain: int, on: bool, unit: string, table: file)
    { in x: int16[2]   out y: float64[2] rate 2   out unread: uint8   state n: int64   c "rates.c:scale" }
task Split { in y: float64[2] rate [1, 0]   out even: float64 rate [1, 0]   out odd: float64 rate [0, 1]
    state n: int32   state last: float64   c "rates.c:split" }
task Sum { in odd: float64 rate 1 window 3   in back: float64   out all: float64   out next: float64   c "rates.c:sum" }
app G {
    period 5 / 2 ms
    in x: int16[2]   out even: float64   out total: float64
    scale: Scale(gain = 3, on = true, unit = "a\\"\\n<&", table = "table.txt")   split: Split   sum: Sum
    x -> scale.x   scale.y -> split   split.even -> delay 3 = [7, 8, 9] -> even   split.odd -> sum.odd
    sum.next -> delay 1 = 0.5 -> sum.back   sum.all -> total
}
"""
RATES_C = r"""
#include <stdio.h>
#include <string.h>
int scale(void *state, const int16_t *x, double *y, uint8_t *unread, const scale_params *p)
{
    scale_state *s = state;
    char line[8] = "";
    FILE *f = fopen(p->table, "r");
    if (!f || !fgets(line, sizeof line, f))
        return 2;
    fclose(f);
    for (int i = 0; i < 4; i++)
        y[i] = p->gain * x[i % 2] + (p->on ? 0.5 : 0) + strlen(p->unit) * 100 + line[0] + s->n;
    s->n++;
    *unread = 1;
    return 0;
}
int split(void *state, const double *y, double *even, double *odd, const void *p)
{
    split_state *s = state;
    if (s->n++ % 2)
        *odd = s->last;
    else
        *even = s->last = y[0] + y[1];
    return 0;
}
int sum(void *state, const double *odd, const double *back, double *all, double *next, const void *p)
{
    *all = odd[0] + 10 * odd[1] + 100 * odd[2] + *back;
    *next = *back / 2 + 1;
    return 0;
}
"""


def test_rates_phases_delays_windows_and_parameters(write: Write, tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("9 is read\n")
    unit = made(write, RATES, rates_c=RATES_C)
    assert unit.version == 3 and unit.step == "0.0025"
    assert {v.name: (v.fmi, v.dimensions) for v in unit.variables if v.role != "parameter"} == {
        "x": ("Int16", (2,)), "even": ("Float64", (2,)), "total": ("Float64", (2,)), "time": ("Float64", ()),
    }  # fmt: skip
    assert [(v.name, v.start) for v in unit.variables if v.role == "parameter"] == [
        ("G.scale.gain", "3"), ("G.scale.on", "true"), ("G.scale.unit", 'a"\n<&'),
    ]  # fmt: skip
    inputs = tokens_for(unit.file, 5)
    wanted = expected(tmp_path / "app.flow", "G", inputs)
    same(simulated(unit.file, inputs), wanted)
    assert wanted[0]["even"].tolist() == [7, 8]
    other = simulated(unit.file, inputs, scale__gain=0, scale__on=False, scale__unit="éé")
    # bytes of the text, and nothing else in the first firing
    assert other[1]["even"][1] == 2 * (4 * 100 + ord("9"))
    assert 'stepSize="0.0025"' in entry(unit.file, "modelDescription.xml")


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_there_is(write: Write, version: int) -> None:
    kinds = {"bool": "_Bool", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "uint8": "uint8_t", "uint16": "uint16_t", "float32": "float", "float64": "double"}  # fmt: skip
    kinds |= (
        {"int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t"} if version == 3 else {}
    )
    tasks = "\n".join(f'task T{k} {{ in x: {k}   out y: {k}   c "t.c:t{k}" }}' for k in kinds)
    items = "  ".join(
        f"in x{k}: {k}  out y{k}: {k}  t{k}: T{k}  x{k} -> t{k} -> y{k}" for k in kinds
    )
    code = "\n".join(
        f"int t{k}(void *s, const {c} *x, {c} *y, const void *p) {{ *y = *x; return 0; }}"
        for k, c in kinds.items()
    )
    unit = made(write, f"{tasks}\ngraph G {{ {items} }}", t_c=code)
    assert unit.version == version
    limits = {k: np.iinfo(k) for k in kinds if "int" in k}
    values: dict[str, Any] = {"xbool": True, "xfloat32": np.float32(0.1).item(), "xfloat64": -1e300}
    rows = [
        values | {f"x{k}": int(at) for k, i in limits.items() for at in [which(i)]}
        for which in (lambda i: i.min, lambda i: i.max)
    ]
    assert simulated(unit.file, rows) == [{f"y{n[1:]}": v for n, v in row.items()} for row in rows]
    if version == 2:
        assert [v.name for v in unit.variables if v.widened] == ["xfloat32", "yfloat32"]
        with opened(unit.file) as there:
            one = Instance(there)
            with pytest.raises(FMICallException):
                one.set("xuint8", 256)
            assert one.said == ["xuint8 holds 0 to 255, and not 256"]
            one.free()


# -- instances -------------------------------------------------------------------------------------
COUNT = """
task Count(first: int = 10) { in x: int32   out n: int32   out alive: int32   c "count.c:count" }
graph G { in x: int32   out n: int32   out alive: int32   c: Count   x -> c   c.n -> n   c.alive -> alive }
"""
COUNT_C = """
#include <stdlib.h>
static int alive; /* shared by all instances on purpose */
void *count_init(const count_params *p)
{
    int *n = p->first < 0 ? NULL : malloc(sizeof *n);
    if (n) { *n = (int)p->first; alive++; }
    return n;
}
int count(void *state, const int32_t *x, int32_t *n, int32_t *all, const count_params *p)
{
    if (*x > 99)
        return 7;
    *n = (*(int *)state)++;
    *all = alive;
    return 0;
}
void count_exit(void *state) { alive--; free(state); }
"""


def test_instances_have_states_of_their_own_and_begin_anew(write: Write) -> None:
    with opened(made(write, COUNT, count_c=COUNT_C).file) as unit:
        one, two = Instance(unit), Instance(unit)
        one.start()
        two.start(c__first=20)
        assert [one.step(x=0)["n"], one.step(x=0)["n"], two.step(x=0)["n"]] == [10, 11, 20]
        assert one.step(x=0) == {"n": 12, "alive": 2}
        two.reset()
        assert two.get("n") == 0 and two.get("G.c.first") == 10  # as new: the text says 10
        two.start()
        assert two.step(x=0) == {"n": 10, "alive": 2}
        two.end()
        assert one.step(x=0) == {"n": 13, "alive": 1}
        one.free()


ENDING = """
task Two { out a: int32   state n: int32   c "add.c:two" }
task Add { in a: int32   in x: int32   out y: int32   c "add.c:add" }
graph G { in x: int32   out y: int32   two: Two   add: Add   two -> add.a   x -> add.x   add -> y }
"""
ENDING_C = """
int two(void *state, int32_t *a, const void *p)
{
    two_state *s = state;
    *a = 2;
    return s->n++ == 2 ? FLOWC_END : 0;
}
int add(void *state, const int32_t *a, const int32_t *x, int32_t *y, const void *p) { *y = *a + *x; return 0; }
"""


def test_a_source_of_a_unit_cannot_end_the_simulation(write: Write) -> None:
    with opened(made(write, ENDING, add_c=ENDING_C).file) as unit:
        one = Instance(unit)
        one.start()
        assert [one.step(x=5), one.step(x=6)] == [{"y": 7}, {"y": 8}]
        with pytest.raises(FMICallException, match="error"):
            one.step(x=7)
        assert one.said == [
            "task G.two failed at firing 2: its stream has ended, and a step needs more of it"
        ]
        one.free()


@pytest.mark.parametrize("words", ["", ": more than it counts"])
def test_a_firing_that_fails_is_told_with_its_task_and_number(write: Write, words: str) -> None:
    why = f'const char *count_error(void *state) {{ return "{words[2:]}"; }}' if words else ""
    with opened(made(write, COUNT, count_c=COUNT_C + why).file) as unit:
        one = Instance(unit)
        one.start()
        one.step(x=1)
        with pytest.raises(FMICallException, match="error"):
            one.step(x=100)
        assert (
            one.said == [f"task G.c failed at firing 1: count returned 7{words}"]
            and one.get("n") == 10
        )
        with pytest.raises(FMICallException):
            one.step(x=1)
        assert one.said[1:] == ["fmi2DoStep cannot be called after a failure: reset it first"]
        one.reset()
        with pytest.raises(FMICallException):
            one.start(c__first=-1)
        assert one.said[2:] == ["task G.c cannot start: count_init returned NULL"]
        one.free()


@pytest.mark.parametrize("version", [2, 3])
def test_calls_that_are_not_possible_are_refused_in_words(write: Write, version: int) -> None:
    kind = "int32" if version == 2 else "int64"
    text, code = (
        COUNT.replace("x: int32", f"x: {kind}"),
        COUNT_C.replace("const int32_t *x", f"const {kind}_t *x"),
    )
    with opened(made(write, text, count_c=code).file) as unit:
        assert unit.fmi == f"{version}.0"
        one = Instance(unit)
        with pytest.raises(FMICallException):
            one.step(x=1)
        one.start()
        for name, value in (("n", 1), ("G.c.first", 1)):
            with pytest.raises(FMICallException):
                one.set(name, value)
        assert one.said == [
            f"fmi{version}DoStep cannot be called before it was initialized",
            "n cannot be set: it is no input",
            "G.c.first cannot be set after the initialization",
        ]
        one.end()
        unit.description.guid = unit.description.instantiationToken = "{other}"
        with pytest.raises(Exception, match="instantiate"):
            Instance(unit)


SIZED = """
task Add { in x: KIND   out y: KIND   state y: KIND   c "add.c:add" }
app G { period 1 ms   in x: KIND   out y: KIND   add: Add   x -> add -> y }
graph H { in x: KIND   out y: KIND   add: Add   x -> add -> y }
"""
SIZED_C = "int add(void *s, const KIND *x, KIND *y, const void *p) { *y = ((add_state *)s)->y += *x; return 0; }"


@pytest.mark.parametrize(("version", "kind"), [(2, "int32_t"), (3, "int64_t")])
def test_a_step_of_another_size_than_the_period_is_refused(
    write: Write, version: int, kind: str
) -> None:
    text = SIZED.replace("KIND", kind.removesuffix("_t"))
    with opened(made(write, text, add_c=SIZED_C.replace("KIND", kind)).file) as unit:
        assert unit.fmi == f"{version}.0"
        one = Instance(unit)
        one.start()
        assert one.step(x=1) == {"y": 1}
        for size in (0.01, 0.0005, 0, -0.001, float("nan")):
            with pytest.raises(FMICallException):
                one.advance(size)
        assert one.said[:2] == [
            "a step of 0.01 s is refused: every step is one iteration, of 0.001 s",
            "a step of 0.0005 s is refused: every step is one iteration, of 0.001 s",
        ]
        # the difference of two times of a long simulation; nothing has moved in between
        one.advance(86400.001 - 86400)
        assert one.get("y") == 2
        one.end()


def test_a_graph_takes_steps_of_any_size(write: Write) -> None:
    unit = made(
        write, SIZED.replace("KIND", "int32"), "H", add_c=SIZED_C.replace("KIND", "int32_t")
    )
    with opened(unit.file) as there:
        one = Instance(there)
        one.start()
        one.set("x", 1)
        for size in (0.01, 0.0005):
            one.advance(size)
        assert one.get("y") == 2 and one.said == []
        one.end()


# -- Python and networks ---------------------------------------------------------------------------
MIXED = """
task Prepare(gain: float = 2, name: string = "a") { in x: float32 rate 3 window 5   out row: float32[1, 5]   python "mixed.py:Prepare" }
task Best { in row: float32[1, 5]   out best: int64   out sum: float32   python "mixed.py:best" }
task Smooth(weight: float = 0.5) { in x: float32   out y: float32   state last: float32   c "smooth.c:smooth" }
network Net from "net.onnx" { in x  out y }
graph G {
    in x: float32   out best: int64   out sum: float32
    s: Smooth   prepare: Prepare   net: Net   b: Best
    x -> s -> delay 1 = 2 -> prepare -> net -> b   b.best -> best   b.sum -> sum
}
app A { in x: float32   out best: int64   out sum: float32   g: G   x -> g   g.best -> best   g.sum -> sum }
"""
MIXED_PY = """
import numpy as np
import beside

class Prepare:
    def __init__(self, gain, name):
        if name == "broken":
            raise ValueError("no such name")
        self.gain, self.seen = gain, []

    def __call__(self, x):
        self.seen.append(x)  # kept: what comes in is the task's own
        if x.max() > 99:
            raise ValueError("too loud")
        return np.float32(self.gain) * np.float32(sum(s[-1] for s in self.seen)) + x[None]

def best(row):
    return int(row.argmax()), beside.total(row)
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> BuiltFmu:
    """A unit of FMI 3.0 with tasks in C and Python, and a network."""
    folder = tmp_path_factory.mktemp("mixed")
    weights = helper.make_tensor(
        "W", TensorProto.FLOAT, [5, 5], np.random.default_rng(3).random(25).astype(np.float32)
    )
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 5]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"])], "g", ends[:1], ends[1:], [weights]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "net.onnx",
    )
    (folder / "mixed.py").write_text(MIXED_PY)
    (folder / "beside.py").write_text("def total(row):\n    return row.sum()\n")
    return build_fmu(low(folder, MIXED), "G", folder / "a place" / "G.fmu")


def test_python_tasks_and_networks_compute_what_the_program_computes(mixed: BuiltFmu) -> None:
    assert mixed.python and mixed.version == 3 and mixed.why == "`x` has 3 tokens in an iteration"
    inputs = tokens_for(mixed.file, 4)
    wanted = expected(mixed.file.parent.parent / "low.flow", "A", inputs)
    with opened(mixed.file) as unit:
        one, two = Instance(unit), Instance(unit)
        one.start()
        two.start(prepare__gain=0.0)
        found = [(one.step(**given), two.step(**given)) for given in inputs]
        same([here for here, _ in found], wanted)
        assert found[3][1]["sum"] != found[3][0]["sum"]
        with pytest.raises(FMICallException):
            one.step(x=[1000, 0, 0])
        assert one.said == ["task G.prepare failed at firing 4: ValueError: too loud"]
        one.reset()
        one.start()
        same([one.step(**given) for given in inputs], wanted)
        two.reset()
        with pytest.raises(FMICallException):
            two.start(prepare__name="broken")
        assert two.said == ["task G.prepare cannot start: ValueError: no such name"]
        one.end()
        two.free()


def test_a_simulator_that_has_looked_at_capsules_loads_a_unit_with_python(
    mixed: BuiltFmu, tmp_path: Path
) -> None:
    """Up to Python 3.11, cffi takes what such a look leaves for a lock that is held."""
    (tmp_path / "told.json").write_text(json.dumps([tokens_for(mixed.file, 2), {}]))
    (tmp_path / "look.py").write_text(
        "import datetime, runpy, sys\nhasattr(datetime.datetime_CAPI, 'name')\ndel sys.argv[0]\n"
        "sys.path.insert(0, sys.argv[1])\ndel sys.argv[1]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command = [
        tmp_path / "look.py",
        fmus.__file__,
        Path(fmus.__file__).parent,
        mixed.file,
        tmp_path / "told.json",
    ]
    done = forks("fmus").run(command, cwd=tmp_path, timeout=HANGS)
    assert done.returncode == 0 and len(json.loads(done.stdout)) == 2, done.stderr


def test_a_unit_with_python_has_the_same_bytes_again(mixed: BuiltFmu) -> None:
    assert not build_fmu(mixed.file.parent.parent / "low.flow", "G", mixed.file).fresh


def test_a_simulator_without_python_starts_it(mixed: BuiltFmu, tmp_path: Path) -> None:
    wanted = expected(mixed.file.parent.parent / "low.flow", "A", [{"x": [1, 2, 3]}])
    assert stepped_without_python(mixed, tmp_path) == wanted[0]["sum"]


# -- examples --------------------------------------------------------------------------------------
def test_the_graph_of_an_example(tmp_path: Path) -> None:
    folder = Path(
        shutil.copytree(
            ROOT / "examples/robot",
            tmp_path / "robot",
            ignore=shutil.ignore_patterns("*.json", "build"),
        )
    )
    unit = build_fmu(folder / "robot.flow", "Look", tmp_path / "robot")
    assert [d.message for d in unit.diagnostics] == [
        "`on error skip` of `verify` has no effect in a unit: the step fails"
    ]
    flow = folder / "seen.flow"
    flow.write_text(
        'use "robot.flow"\napp Seen { in raw: Frame   out target: Target   look: Look   raw -> look -> target }\n'
    )
    namespace: dict[str, Any] = {"__name__": "robot"}
    exec((folder / "robot.py").read_text(), namespace)
    background = np.full((96, 128), 50, np.uint8)
    inputs = [{"raw": namespace["draw"](background, k, 4.0 * k)} for k in range(4)]
    wanted = expected(flow, "Seen", inputs)
    assert wanted[2]["target"][3] > 100  # pixels of the ball
    with opened(unit.file) as there:
        one = Instance(there)
        one.start()
        same([one.step(**given) for given in inputs], wanted)
        with pytest.raises(FMICallException):
            one.step(raw=np.zeros((97, 128), np.uint8) + 1)
        assert one.said == [
            "task Look.verify failed at firing 4: ValueError: frame 16843009 is torn"
        ]
        one.free()
