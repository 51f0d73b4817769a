"""Graphs as Functional Mock-up Units: FMPy checks and runs them, and what they compute is held against the reference."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.codegen.fmu.limits import settable
from flowc.driver.check import check
from flowc.driver.fmu import BuiltFmu, build_fmu
from flowc.model.diagnostic import Errors
from fmpy.fmi1 import FMICallException
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write
from fmus import Instance, expected, opened, random_text, same, simulated, tokens_for

COMPILER = shutil.which("cc") or ""
pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Compile without optimizing, which takes a third of the time, and let all code round alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", "-O0 -ffp-contract=off")
        yield


SMOOTH = """
task Smooth(weight: float = 0.5) { in x: float32   out y: float32   state last: float32   c "smooth.c:smooth" }
graph Low { in x: float32   out y: float32   a: Smooth(weight = 0.25)   b: Smooth   x -> a -> b -> y }
"""
SMOOTH_C = """
int smooth(void *state, const float *x, float *y, const smooth_params *p)
{
    smooth_state *s = state;
    *y = s->last += (float)p->weight * (*x - s->last);
    return 0;
}
"""


def low(folder: Path, text: str = SMOOTH) -> Path:
    (folder / "smooth.c").write_text(SMOOTH_C)
    flow = folder / "low.flow"
    flow.write_text(text)
    return flow


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> BuiltFmu:
    """A unit of FMI 2.0 in C."""
    folder = tmp_path_factory.mktemp("low")
    return build_fmu(low(folder), "Low", folder)


def made(write: Write, text: str, graph: str = "G", **files: str) -> BuiltFmu:
    flow = write(text, **files)
    return build_fmu(flow, graph, flow.parent / "out")


def refused(write: Write, text: str, graph: str = "G", **files: str) -> list[tuple[str, str, str]]:
    """What stands in the way, and nothing is written."""
    flow = write(text, **files)
    with pytest.raises(Errors) as errors:
        build_fmu(flow, graph, flow.parent / "out")
    assert not (flow.parent / "out").exists()
    return [(d.code, d.message, d.help) for d in errors.value.diagnostics if d.severity == "error"]


def flowc_says(*words: object) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


def entry(file: Path, name: str) -> str:
    with zipfile.ZipFile(file) as archive:
        return archive.read(name).decode()


# -- what is computed --------------------------------------------------------------------------------------------------
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
    assert other[1]["even"][1] == 2 * (4 * 100 + ord("9"))  # bytes of the text, and nothing else in the first firing
    assert 'stepSize="0.0025"' in entry(unit.file, "modelDescription.xml")


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_there_is(write: Write, version: int) -> None:
    kinds = {"bool": "_Bool", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "uint8": "uint8_t", "uint16": "uint16_t", "float32": "float", "float64": "double"}  # fmt: skip
    kinds |= {"int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t"} if version == 3 else {}
    tasks = "\n".join(f'task T{k} {{ in x: {k}   out y: {k}   c "t.c:t{k}" }}' for k in kinds)
    items = "  ".join(f"in x{k}: {k}  out y{k}: {k}  t{k}: T{k}  x{k} -> t{k} -> y{k}" for k in kinds)
    code = "\n".join(
        f"int t{k}(void *s, const {c} *x, {c} *y, const void *p) {{ *y = *x; return 0; }}" for k, c in kinds.items()
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


# -- instances ---------------------------------------------------------------------------------------------------------
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


def test_a_firing_that_fails_is_told_with_its_task_and_number(write: Write) -> None:
    with opened(made(write, COUNT, count_c=COUNT_C).file) as unit:
        one = Instance(unit)
        one.start()
        one.step(x=1)
        with pytest.raises(FMICallException, match="error"):
            one.step(x=100)
        assert one.said == ["task G.c failed at firing 1: count returned 7"] and one.get("n") == 10
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
    text, code = COUNT.replace("x: int32", f"x: {kind}"), COUNT_C.replace("const int32_t *x", f"const {kind}_t *x")
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


# -- Python and networks -----------------------------------------------------------------------------------------------
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
    weights = helper.make_tensor("W", TensorProto.FLOAT, [5, 5], np.random.default_rng(3).random(25).astype(np.float32))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 5]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "W"], ["y"])], "g", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx")
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


HOST = r"""
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
static void say(void *e, int status, const char *category, const char *message) { (void)e, (void)category; printf("%d %s\n", status, message); }
int main(int n, char **given)
{
    void *unit = dlopen(given[1], RTLD_NOW | RTLD_LOCAL);
    void *(*make)(const char *, const char *, const char *, bool, bool, bool, bool, const void *, size_t, void *, void *, void *);
    int (*enter)(void *, bool, double, double, bool, double), (*leave)(void *);
    int (*set)(void *, const unsigned *, size_t, const float *, size_t), (*get)(void *, const unsigned *, size_t, float *, size_t);
    int (*step)(void *, double, double, bool, bool *, bool *, bool *, double *);
    float x[3] = { 1, 2, 3 }, sum;
    unsigned in = 0, out = 2;
    bool a, b, c;
    double t;
    if (!unit) { puts(dlerror()); return 1; }
    *(void **)&make = dlsym(unit, "fmi3InstantiateCoSimulation");
    *(void **)&enter = dlsym(unit, "fmi3EnterInitializationMode");
    *(void **)&leave = dlsym(unit, "fmi3ExitInitializationMode");
    *(void **)&set = dlsym(unit, "fmi3SetFloat32");
    *(void **)&get = dlsym(unit, "fmi3GetFloat32");
    *(void **)&step = dlsym(unit, "fmi3DoStep");
    void *one = make("one", given[2], given[3], 0, 0, 0, 0, NULL, 0, NULL, (void *)say, NULL);
    if (!one || enter(one, 0, 0, 0, 0, 0) || leave(one) || set(one, &in, 1, x, 3)) return 2;
    if (step(one, 0, 1, 0, &a, &b, &c, &t) || get(one, &out, 1, &sum, 1)) return 3;
    printf("%.9g\n", sum);
    return 0 * n;
}
"""


def test_a_simulator_without_python_starts_it(mixed: BuiltFmu, tmp_path: Path) -> None:
    (tmp_path / "host.c").write_text(HOST)
    subprocess.run([COMPILER, "host.c", "-o", "host", "-ldl"], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "extracted"
    with zipfile.ZipFile(mixed.file) as archive:
        archive.extractall(folder)
    library = next(folder.glob("binaries/*/G.so"))
    command = [str(tmp_path / "host"), str(library), mixed.token, str(folder / "resources") + "/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, env={}, check=False)
    wanted = expected(mixed.file.parent.parent / "low.flow", "A", [{"x": [1, 2, 3]}])
    assert (done.returncode, done.stdout) == (0, f"{wanted[0]['sum']:.9g}\n"), done.stderr


# -- examples ----------------------------------------------------------------------------------------------------------
def test_the_graph_of_an_example(tmp_path: Path) -> None:
    folder = Path(
        shutil.copytree(ROOT / "examples/robot", tmp_path / "robot", ignore=shutil.ignore_patterns("*.json", "build"))
    )
    unit = build_fmu(folder / "robot.flow", "Look", tmp_path / "robot")
    assert [d.message for d in unit.diagnostics] == [
        "`on error skip` of `verify` means nothing in a unit: the step fails"
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
        assert one.said == ["task Look.verify failed at firing 4: ValueError: frame 16843009 is torn"]
        one.free()


@pytest.mark.parametrize(
    ("example", "name"), [("hello", "Hello"), ("digits", "Reader"), ("spotter", "Spotter"), ("robot", "Planner")]
)
def test_an_app_that_nobody_outside_feeds_is_no_unit(example: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(Errors) as errors:
        build_fmu(ROOT / "examples" / example / f"{example}.flow", name, tmp_path / "out")
    assert any(d.code == "F618" and "has no open ends" in d.message for d in errors.value.diagnostics)
    assert not (tmp_path / "out").exists()


# -- what cannot be a unit ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("graph", "said", "help_text"),
    [
        ("Los", "there is no graph or app `Los`", "did you mean `Low`?"),
        ("Other", "there is no graph or app `Other`", "there is `Low`"),
        ("Smooth", "there is no graph or app `Smooth`: it is a task", "there is `Low`"),
    ],
)
def test_names_of_nothing(write: Write, graph: str, said: str, help_text: str) -> None:
    found = refused(write, SMOOTH, graph, smooth_c=SMOOTH_C)
    assert found == [("F618", said, help_text)]


def test_everything_that_stands_in_the_way_is_told_at_once(write: Write) -> None:
    text = """
        task Cam { live   out x: float32   python "t.py:cam" }   task Mic { out x: float32   python "t.py:cam" }
        task Half { in x: float16   out y: complex64   python "t.py:f" }   task Show { in x: float32   python "t.py:f" }
        task None_ { in x: float32   out y: float32 }   task Cuda { in x: float32   out y: float32
            on gpu cuda "k.cu:k" grid[1] block[1] }
        task A { in x: float32   out y: float32   c "a.c:f" }   task B { in x: float32   out y: float32   c "b.c:f" }
        task Text(t: string) { in x: float32   python "t.py:f" }
        app From { cam: Cam   s: Show   cam -> s }
        app G {
            in h: float16   out c: complex64   in x: float32   out y: float32   out z: float32
            cam: Cam   mic: Mic every 10 ms   half: Half   s: Show   s2: Show   s3: Show   n: None_   k: Cuda   a: A   b: B
            t: Text(t = "\\u0001")   cam -> s   mic -> s2   From.cam -> latest -> s3
            h -> half -> c   x -> n -> k -> a -> b -> y   a -> z   x -> t
        }"""
    files = {"t_py": "def cam():\n    return 1.0\ndef f(x, t=''):\n    return x\n", "a_c": "int f(void) { return 0; }", "b_c": "int f(void) { return 0; }", "k_cu": 'extern "C" __global__ void k(const float *x, float *y) { }'}  # fmt: skip
    found = refused(write, text, **files)
    assert {(code, said) for code, said, _ in found} == {
        ("F618", "`h` is float16, and FMI has no such type"),
        ("F618", "`c` is complex64, and FMI has no such type"),
        ("F618", "`cam` is live: it would wait for data from outside of the simulation"),
        ("F618", "`mic` fires at a pace of its own, and a unit has the time of its simulation"),
        ("F618", "`from_From_cam` joins two apps"),
        ("F618", "two C files have a function `f`, and a unit is one library"),
        ("F618", "parameter `t` of `Text` has a character that XML cannot hold"),
        ("F601", "`None_` has no code"),
        ("F503", "`Cuda` has code for a GPU only, and `host` has none"),
    }
    assert all(help_text for *_, help_text in found)


def test_a_graph_with_parameters_takes_its_defaults(write: Write) -> None:
    text = SMOOTH.replace("graph Low {", "graph Low(w: float) {").replace("weight = 0.25", "weight = w")
    ((code, said, _),) = refused(write, text, "Low", smooth_c=SMOOTH_C)
    assert (code, said) == ("F108", "`Low` needs a value for `w`")
    checked = check(write(text.replace("w: float)", "w: float = 1 / 8)")), opened="Low")
    (graph,) = checked.require().system.apps
    assert [settable(t) for t in graph.tasks if t.border is None] == [[("weight", 0.125)], [("weight", 0.5)]]


def test_parameters_that_the_graph_is_made_of_and_files_are_no_variables(write: Write) -> None:
    text = """
        task T(n: int, hop: int, table: file, on: bool) { in x: float32[n] rate hop   out y: float32   python "t.py:f" }
        graph G { in x: float32[2]   out y: float32   t: T(n = 2, hop = 3, table = "t.py", on = true)   x -> t -> y }"""
    checked = check(write(text, t_py="def f(x, table, on):\n    return 1.0\n"), opened="G")
    assert [settable(t) for t in checked.require().system.apps[0].tasks] == [[], [], [("on", True)]]


def test_code_for_a_gpu_runs_as_its_reference_or_not_at_all(write: Write) -> None:
    text = """
        task Cuda { in x: float32   out y: float32   on gpu cuda "k.cu:k" grid[1] block[1]   reference python "t.py:f" }
        task Half { in y: float32   out z: float16   python "t.py:f" }
        graph G { in x: float32   out y: float16   k: Cuda   h: Half   x -> k -> h -> y }"""
    files = {"t_py": "def f(x):\n    return x\n", "k_cu": 'extern "C" __global__ void k(const float *x, float *y) { }'}
    with pytest.raises(Errors) as errors:
        made(write, text, **files)
    assert [(d.code, d.severity) for d in errors.value.diagnostics] == [("F618", "error"), ("F610", "warning")]


def test_c_code_that_makes_no_library(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    ((code, said, _),) = refused(write, SMOOTH, "Low", smooth_c=SMOOTH_C.replace("*x -", "x -"))
    assert code == "F306" and "smooth.c:5" in said
    two = SMOOTH.replace("graph Low", 'task B { in x: float32   out y: float32   c "b.c:b" }   graph Low')
    two = two.replace("b: Smooth", "b: B")
    b = "int helper(void) { return 0; }\nint b(void *s, const float *x, float *y, const void *p) { *y = *x; return helper(); }"
    ((code, said, help_text),) = refused(write, two, "Low", smooth_c=SMOOTH_C + "int helper(void) { return 1; }", b_c=b)
    assert code == "F619" and "helper" in said and "`static`" in help_text
    monkeypatch.setenv("CC", "no-such-compiler")
    ((code, *_),) = refused(write, SMOOTH, "Low", smooth_c=SMOOTH_C)
    assert code == "F307"


# -- the file ----------------------------------------------------------------------------------------------------------
def test_the_same_text_makes_the_same_bytes(smooth: BuiltFmu, tmp_path: Path) -> None:
    again = build_fmu(low(tmp_path), "Low", tmp_path / "Other.fmu")
    assert again.fresh and again.file.read_bytes() == smooth.file.read_bytes()
    changed = build_fmu(low(tmp_path, SMOOTH.replace("0.25", "0.125")), "Low", tmp_path / "Other.fmu")
    assert changed.fresh and changed.token != again.token
    with zipfile.ZipFile(again.file) as archive:
        names = archive.namelist()
        assert names == sorted(names) and {i.date_time for i in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert not any(n.startswith("resources") for n in names)  # C alone needs nothing of Python


def test_a_unit_with_python_has_the_same_bytes_again(mixed: BuiltFmu) -> None:
    assert not build_fmu(mixed.file.parent.parent / "low.flow", "G", mixed.file).fresh


@pytest.mark.parametrize("version", [2, 3])
def test_its_sources_can_be_compiled_again(smooth: BuiltFmu, write: Write, version: int) -> None:
    text = SMOOTH.replace("graph Low { in x: float32   out y: float32", "graph Low { in x: float32   out y: float32[1]")
    text = (
        text.replace("b: Smooth ", "b: Wide ") + 'task Wide { in x: float32   out y: float32[1]   c "smooth.c:wide" }'
    )
    code = SMOOTH_C + "int wide(void *s, const float *x, float *y, const void *p) { *y = *x; return 0; }"
    unit = smooth if version == 2 else made(write, text, "Low", smooth_c=code)
    inputs = tokens_for(unit.file, 3)
    first = simulated(unit.file, inputs)
    with opened(unit.file) as there:
        assert there.fmi == f"{version}.0"
        listed = there.description.buildConfigurations[0].sourceFileSets[0].sourceFiles
        library = next(there.folder.glob("binaries/*/Low.so"))
        library.unlink()
        command = [COMPILER, "-shared", "-fPIC", "-I.", *listed, "-o", str(library), "-lm"]
        subprocess.run(command, cwd=there.folder / "sources", check=True, capture_output=True)
        one = Instance(there)
        one.start()
        same([one.step(**given) for given in inputs], first)
        one.end()


def test_where_it_is_written(smooth: BuiltFmu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = flowc_says("build", low(tmp_path), "--target", "fmu", "--graph", "Low")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "build/Low.fmu",
        "  FMI 2.0; a step is an iteration",
        "  input x: Real, widened from float32",
        "  output y: Real, widened from float32",
        "  parameter Low.a.weight: Real",
        "  parameter Low.b.weight: Real",
    ]
    assert (tmp_path / "build/Low.fmu").read_bytes() == smooth.file.read_bytes()
    done = flowc_says("build", "low.flow", "--target", "fmu", "--graph", "Low", "--json")
    document = json.loads(done.stdout)
    assert document["fmi"] == "2.0" and not document["fresh"] and document["step_size"] is None
    assert document["variables"][0] == {
        "name": "x",
        "causality": "input",
        "type": "Real",
        "dtype": "float32",
        "shape": [],
    }
    (tmp_path / "mine.fmu").write_text("mine")
    done = flowc_says("build", "low.flow", "--target", "fmu", "--graph", "Low", "-o", "mine.fmu")
    assert done.exit_code == 1 and "F604" in done.stderr and (tmp_path / "mine.fmu").read_text() == "mine"
    done = flowc_says("build", "low.flow", "--target", "fmu", "--graph", "Low", "-o", "mine.fmu", "--force")
    assert done.exit_code == 0 and (tmp_path / "mine.fmu").read_bytes() == smooth.file.read_bytes()


@pytest.mark.parametrize("words", [["--target", "fmu"], ["--graph", "Low"], ["--target", "fmu", "--graph", "Low", "--platform", "orin"]])  # fmt: skip
def test_wrong_usage(words: list[str], tmp_path: Path) -> None:
    assert flowc_says("build", low(tmp_path), *words).exit_code == 2


@pytest.mark.parametrize("place", ["/proc/Low.fmu", "file/Low.fmu"])
def test_a_place_that_may_not_be_written_to(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Errors) as errors:
        build_fmu(low(tmp_path), "Low", tmp_path / place)
    assert [d.code for d in errors.value.diagnostics] == ["F605"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "low.flow", "smooth.c"]


def test_the_page_means_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "fmu.md").read_text()
    blocks = dict(re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL))
    (tmp_path / "filter.flow").write_text(blocks["flow"])
    (tmp_path / "filter.c").write_text(blocks["c"])
    done = flowc_says("build", "filter.flow", "--target", "fmu", "--graph", "Filter")
    assert done.exit_code == 0 and f"```\n{done.stdout}```" in page
    said: dict[str, Any] = {}
    exec(blocks["python"], said)
    assert said["result"]["y"][2] == pytest.approx(0.75 * 0.25 * np.sin(1))
    with zipfile.ZipFile("build/Filter.fmu") as archive:
        archive.extractall(tmp_path / "unit")
    subprocess.run(blocks["sh"], shell=True, cwd=tmp_path / "unit", check=True)
