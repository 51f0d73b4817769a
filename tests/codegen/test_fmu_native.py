"""Units of FMI that are native programs: they are those of `--target fmu` in all that a simulator
sees, and need no Python. FMPy steps both. Needs a C++ compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.driver.build.fmu import BuiltFmu, build_fmu
from flowc.model.diagnostic import Errors
from fmpy.fmi1 import FMICallException
from onnx import TensorProto, helper
from typer.testing import CliRunner

from builds import HANGS, Write
from fmus import (
    Instance,
    Unit,
    expected,
    made,
    opened,
    same,
    simulated,
    stepped_without_python,
    tokens_for,
)
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


# -- what is computed ------------------------------------------------------------------------------
BOTH = """
task Prepare(gain: float = 2, times: int = 3, on: bool = true, name: string = "a\\"b", table: file)
    { in x: float32 rate 3 window 5   out row: float32[1, 5]   out unread: uint8   state n: int64
      c "both.c:prepare" }
task Best { in row: float32[1, 5]   out best: int64   out sum: float32   c "both.c:best" }
network Net from "net.onnx" { in x  out y }
graph G {
    in x: float32   out best: int64   out sum: float32
    prepare: Prepare(table = "table.txt")   net: Net   b: Best
    x -> delay 2 = [5, 6] -> prepare.x   prepare.row -> net -> b   b.best -> best   b.sum -> delay 1 = 4 -> sum
}
app A { period 5 ms   in x: float32   out best: int64   out sum: float32   g: G   x -> g   g.best -> best   g.sum -> sum }
"""
BOTH_C = """
#include <stdio.h>
#include <string.h>
int prepare(void *given, const float *x, float *row, uint8_t *unread, const prepare_params *p)
{
    prepare_state *s = given;
    FILE *f = fopen(p->table, "r");
    int first = f ? fgetc(f) : 0;
    if (f)
        fclose(f);
    if (x[4] > 99)
        return 3;
    s->n++;
    for (int i = 0; i < 5; i++)
        row[i] = (float)(p->gain * x[i] + p->times * (p->on ? s->n : 0)) + strlen(p->name) + first;
    *unread = 1;
    return 0;
}
int best(void *state, const float *row, int64_t *best, float *sum, const void *p)
{
    for (int i = 0; i < 5; i++) {
        *sum += row[i];
        *best = row[i] > row[*best] ? i : *best;
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> BuiltFmu:
    """A unit with C tasks and a network, rates, windows, delays and parameters of each type."""
    folder = tmp_path_factory.mktemp("both")
    weights = np.random.default_rng(3).random(25).astype(np.float32)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 5]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"])],
        "g",
        ends[:1],
        ends[1:],
        [helper.make_tensor("W", TensorProto.FLOAT, [5, 5], weights)],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "net.onnx")
    (folder / "both.c").write_text(BOTH_C)
    (folder / "table.txt").write_text("7")
    (folder / "both.flow").write_text(BOTH)
    return build_fmu(folder / "both.flow", "A", folder / "a place" / "A.fmu", native=True)


@pytest.fixture(scope="module")
def other(both: BuiltFmu) -> BuiltFmu:
    """The same with Python."""
    folder = both.file.parent.parent
    return build_fmu(folder / "both.flow", "A", folder / "other.fmu")


def test_it_computes_what_a_unit_with_python_and_the_reference_compute(
    both: BuiltFmu, other: BuiltFmu
) -> None:
    flow, inputs = both.file.parent.parent / "both.flow", tokens_for(both.file, 6)
    assert (both.version, both.step, both.python, other.python) == (3, "0.005", False, True)
    same(simulated(both.file, inputs), expected(flow, "A", inputs))
    given = {"g.prepare__gain": 0.3, "g.prepare__times": -(2**40), "g.prepare__on": False}
    given["g.prepare__name"] = "longer"
    found = [simulated(file, inputs, **given) for file in (both.file, other.file)]
    same(*found)
    assert found[0] != expected(flow, "A", inputs)


def test_both_refuse_a_step_of_another_size_than_the_period(
    both: BuiltFmu, other: BuiltFmu
) -> None:
    for built in (both, other):
        with opened(built.file) as unit:
            one = Instance(unit)
            one.start()
            with pytest.raises(FMICallException):
                one.advance(0.05)
            assert one.said == [
                "a step of 0.05 s is refused: every step is one iteration, of 0.005 s"
            ]
            one.advance(0.005)
            one.end()


def test_it_needs_no_python(both: BuiltFmu, tmp_path: Path) -> None:
    wanted = expected(both.file.parent.parent / "both.flow", "A", [{"x": [1, 2, 3]}])
    assert stepped_without_python(both, tmp_path) == wanted[0]["sum"]
    (library,) = (tmp_path / "extracted").glob("binaries/*/A.so")
    needed = subprocess.run(
        ["ldd", library], capture_output=True, text=True, check=True, timeout=HANGS
    )
    assert "libstdc++" in needed.stdout and "python" not in needed.stdout
    assert not list((tmp_path / "extracted").rglob("*.py"))


class Heap(ctypes.Structure):
    """`struct mallinfo2` of the C library: the eighth number is the bytes in use."""

    _fields_ = [(f"number_{i}", ctypes.c_size_t) for i in range(10)]


def test_what_was_started_is_given_back(both: BuiltFmu) -> None:
    """Images, sessions of networks and texts of parameters, at each reset."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    with opened(both.file) as unit:
        one, used = Instance(unit), []
        for _ in range(40):
            one.start(g__prepare__name="x" * 1000)
            one.step(x=[1, 2, 3])
            one.reset()
            used.append(mallinfo2().number_7)
        one.free()
    assert used[-1] - used[9] < 30 * 2000


def test_its_sources_make_its_library_again(both: BuiltFmu) -> None:
    with opened(both.file) as unit:
        (library,) = unit.folder.glob("binaries/*/A.so")
        first = library.read_bytes()
        library.unlink()
        script = unit.folder / "sources/build.sh"
        subprocess.run(["sh", script], check=True, capture_output=True, timeout=HANGS)
        assert library.read_bytes() == first


# -- instances, failures ---------------------------------------------------------------------------
COUNT = """
task Count(first: int = 10) { in x: int32   out n: int32   c "count.c:count" }
task Two { out a: int32   state n: int32   c "count.c:two" }
task Add { in a: int32   in n: int32   out y: int32   on error skip   c "count.c:add" }
graph G {
    in x: int32   out n: int32   out y: int32
    c: Count   two: Two   add: Add
    x -> c   c.n -> n   two -> add.a   c.n -> add.n   add -> y
}
"""
COUNT_C = """
#include <stdlib.h>
#ifdef __cplusplus
#include <string>
static thread_local std::string mine; // its thread keeps the image of an instance that has ended
#endif
void *count_init(const count_params *p)
{
    int *n = p->first < 0 ? NULL : (int *)malloc(sizeof *n);
    if (n)
        *n = (int)p->first;
    return n;
}
int count(void *state, const int32_t *x, int32_t *n, const count_params *p)
{
#ifdef __cplusplus
    mine += "x";
    if (*x == 50)
        throw 1;
#endif
    *n = (*(int *)state)++;
    return *x > 99 ? 7 : 0;
}
void count_exit(void *state) { free(state); }
const char *count_error(void *state) { return state ? "more than it counts" : "below zero"; }
int two(void *given, int32_t *a, const void *p)
{
    two_state *state = (two_state *)given;
    *a = 2;
    return state->n++ == 3 ? FLOWC_END : 0;
}
int add(void *state, const int32_t *a, const int32_t *n, int32_t *y, const void *p)
{
    *y = *a + *n;
    return *n == 31;
}
"""
CODE = {"count_c": COUNT_C, "count_cpp": COUNT_C}


def attempt(answers: list[Any], call: Any) -> None:
    try:
        answers.append(call())
    except FMICallException as error:
        answers.append(str(error).partition("(")[0])


def answers_of(unit: Unit) -> list[Any]:
    """What a simulator is told: two instances, failures of each kind, calls that are refused."""
    found: list[Any] = []
    one, two = Instance(unit), Instance(unit)
    attempt(found, lambda: one.step(x=1))
    one.start()
    two.start(c__first=20)
    for instance in (one, one, two, one, one):  # the stream ends in the fifth one
        attempt(found, lambda instance=instance: instance.step(x=5))  # type: ignore[misc]
    attempt(found, lambda: one.step(x=5))
    found.append([one.get("n"), one.get("y")])
    attempt(found, lambda: two.step(x=100))
    found.append([two.get("n"), two.get("y")])
    for instance in (one, two):
        instance.reset()
        found.append([instance.get("n"), instance.get("G.c.first")])
    attempt(found, lambda: two.start(c__first=-1))
    two.reset()
    two.start(c__first=30)
    for _ in range(2):
        attempt(found, lambda: two.step(x=0))
    one.start()
    attempt(found, lambda: one.set("G.c.first", 1))
    attempt(found, lambda: one.step(x=0))
    one.end()
    two.free()
    return [*found, one.said, two.said]


def test_a_simulator_is_told_the_same(write: Write) -> None:
    """Also where tasks are in C++, which other units do not take."""
    in_cpp, answers = COUNT.replace(".c:", ".cpp:"), []
    with pytest.raises(Errors) as refused:
        made(write, in_cpp, count_cpp=COUNT_C)
    faults = [d for d in refused.value.diagnostics if d.severity == "error"]
    assert [d.code for d in faults] == 3 * ["F618"] and "native-fmu" in (faults[0].help or "")
    for native in (False, True):
        file = made(write, in_cpp if native else COUNT, native=native, **CODE).file
        with opened(file) as unit:
            answers.append(answers_of(unit))
            if native:
                one = Instance(unit)
                one.start()
                with pytest.raises(FMICallException):
                    one.step(x=50)
                assert one.said == ["task G.c failed at firing 0: threw what is no std::exception"]
                one.free()
    assert answers[0] == answers[1]
    said = [line for words in answers[1][-2:] for line in words]
    assert {
        "task G.two failed at firing 3: its stream has ended, and a step needs more of it",
        "task G.c failed at firing 1: count returned 7: more than it counts",
        "task G.c cannot start: count_init returned NULL",
        "task G.add failed at firing 1: add returned 1",
    } <= set(said)


# -- what cannot be one ----------------------------------------------------------------------------
def test_everything_that_stands_in_the_way_is_told_at_once(write: Write, tmp_path: Path) -> None:
    text = """
        task Cam { live   out x: float32   python "t.py:cam" }
        task Show { in x: float32   python "t.py:show" }
        task Half { in x: float16   python "t.py:show" }
        graph G { in h: float16   out y: float32   cam: Cam   s: Show   s2: Half   h -> s2   cam -> s   cam -> y }
        """
    files = {"t_py": "def cam():\n    return 1.0\ndef show(x):\n    pass\n"}
    with pytest.raises(Errors) as refused:
        made(write, text, native=True, **files)
    faults = [d for d in refused.value.diagnostics if d.severity == "error"]
    assert {(d.code, d.message) for d in faults} == {
        ("F618", "`h` is float16, and FMI has no such type"),
        ("F618", "`cam` is live: it would wait for data from outside of the simulation"),
        ("F660", "`t.py:cam` of `Cam` is in Python: a native program needs C or C++"),
        ("F660", "`t.py:show` of `Show` is in Python: a native program needs C or C++"),
        ("F660", "`t.py:show` of `Half` is in Python: a native program needs C or C++"),
    }
    assert not (tmp_path / "out").exists()


def test_the_verb(both: BuiltFmu, tmp_path: Path) -> None:
    flow = both.file.parent.parent / "both.flow"
    words = ["build", str(flow), "--target", "native-fmu"]
    assert CliRunner().invoke(app, words).exit_code == 2
    done = CliRunner().invoke(app, [*words, "--graph", "A", "-o", str(both.file)])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        f"{both.file} (up to date)",
        "  FMI 3.0: `x` has 3 tokens in an iteration; a step is an iteration of 0.005 s",
        "  input x: Float32[3]",
    ]
    assert "python" not in done.stdout
