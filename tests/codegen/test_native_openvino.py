"""Networks on OpenVINO in programs in C++: what they compute, on which cores, and what is said where
it is missing.

A program with three networks is built once. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.codegen.native.engines import OPENVINO, engine_libraries
from flowc.codegen.native.files import RUNTIME
from flowc.driver.execute.run import test as run_harness
from flowc.machines import board as boards
from flowc.networks.engines import engine_of
from flowc.runtime.openvino import _flags

from limits import HANGS
from models import N, save, weights
from native import disagreement_of, of_both
from native_compiler import in_a_hurry

pytestmark = [
    pytest.mark.skipif(
        shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
    ),
    pytest.mark.skipif(find_spec("openvino") is None, reason="there is no OpenVINO"),
]
BF16 = bool({"avx512_bf16", "amx_bf16", "bf16"}.intersection(_flags().split()))
PRECISION = "bf16" if BF16 else "fp32"

#: A network in turn on two cores, one with numbers of several types, and one in batches.
TEXT = f"""
type Image = float32[1, 4, 32, 32]
task Make {{ out x: Image  state n: int64  c "t.c:make" }}
task Take {{ in y: Image  c "t.c:take" }}
network Net from "net.onnx" {{ in x: Image  out y: Image  batch 1  precision {PRECISION} }}
app A {{ m: Make  n: Net  t: Take  m -> n -> t }}

task Mixed {{ out x: float32[2, 3]  out f: float32  state n: int64  c "t.c:mixed" }}
task Show {{
    in s: float32  in b: bool[2, 3]  in y: float32[2, 3]  in i: int64[2, 1]  in d: float32
    c "t.c:show"
}}
network Types from "types.onnx" {{ in x  in f  out s  out b  out y  out i  out d }}
app B {{
    m: Mixed  n: Types  s: Show
    m.x -> n.x  m.f -> n.f  n.s -> s.s  n.b -> s.b  n.y -> s.y  n.i -> s.i  n.d -> s.d
}}

task Two {{ out x: Image rate 2  state n: int64  c "t.c:two" }}
task Both {{ in y: Image rate 2  c "t.c:both" }}
network Group from "net.onnx" {{ in x: Image  out y: Image  batch 2 }}
app C {{ m: Two  n: Group  t: Both  m -> n -> t }}

platform two {{ cpu core[2] }}
mapping on two {{
    A.m -> core[0]  A.n -> core[0], core[1] engine openvino  A.t -> core[1]
    B.m -> core[0]  B.n -> core[1] engine openvino           B.s -> core[0]
    C.m -> core[0]  C.n -> core[1] engine openvino           C.t -> core[0]
}}
"""
CODE = """
#include <stdio.h>

#define SIZE 4096

static void image(int64_t *n, float *x)
{
    unsigned number = 1000u * (unsigned)++*n;
    for (int i = 0; i < SIZE; i++) {
        number = number * 1664525u + 1013904223u;
        x[i] = (float)*n * ((float)(number >> 8) / 16777216.0f - 0.5f);
    }
}
static void sum(const char *name, const float *y)
{
    double all = 0;
    for (int i = 0; i < SIZE; i++)
        all += y[i] * y[i];
    printf("%s %.9g\\n", name, all);
}
int make(void *state, float *x, const void *p)
{
    image(&((make_state *)state)->n, x);
    return 0;
}
int take(void *state, const float *y, const void *p)
{
    sum("A", y);
    return 0;
}
int mixed(void *state, float *x, float *f, const void *p)
{
    const int64_t n = ++((mixed_state *)state)->n;
    for (int i = 0; i < 6; i++)
        x[i] = (float)((i * 7 + n) % 5);
    *f = (float)n;
    return 0;
}
int show(void *state, const float *s, const bool *b, const float *y, const int64_t *i,
         const float *d, const void *p)
{
    printf("B %g %d%d %g %d%d %g\\n", *s, b[0], b[1], y[5], (int)i[0], (int)i[1], *d);
    return 0;
}
int two(void *state, float *x, const void *p)
{
    image(&((two_state *)state)->n, x);
    image(&((two_state *)state)->n, x + SIZE);
    return 0;
}
int both(void *state, const float *y, const void *p)
{
    sum("C", y);
    sum("C", y + SIZE);
    return 0;
}
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("openvino")
    (folder / "app.flow").write_text(TEXT)
    (folder / "t.c").write_text(CODE)
    nodes = [N("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), N("Relu", ["h"], ["y"])]
    save(folder / "net.onnx", nodes, {"x": ["N", 4, 32, 32]}, {"w": weights(4, 4, 3, 3)}, "y")
    _save_types(folder / "types.onnx")
    return folder / "app.flow"


def _save_types(path: Path) -> None:
    """A sum, truth values, a copy, indices, and a number that is made of a number."""
    from onnx import TensorProto as T
    from onnx import helper as h

    nodes = [
        h.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        h.make_node("Greater", ["x", "c"], ["b"]),
        h.make_node("Identity", ["x"], ["y"]),
        h.make_node("ArgMax", ["x"], ["i"], axis=1),
        h.make_node("Mul", ["f", "k"], ["d"]),
    ]
    numbers = {"c": np.float32(0.5), "k": np.float32(3)}
    stored = [onnx.numpy_helper.from_array(np.array(v), k) for k, v in numbers.items()]
    value = h.make_tensor_value_info
    inputs = [value("x", T.FLOAT, [2, 3]), value("f", T.FLOAT, [])]
    outputs = [
        value("s", T.FLOAT, []),
        value("b", T.BOOL, [2, 3]),
        value("y", T.FLOAT, [2, 3]),
        value("i", T.INT64, [2, 1]),
        value("d", T.FLOAT, []),
    ]
    graph = h.make_graph(nodes, "types", inputs, outputs, stored)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture(scope="module")
def built(text: Path) -> Path:
    folder = text.parent / "build"
    flowc.build(text, folder, platform="two", native=True, measure=False)
    return folder


def run(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Its exit status, and what it prints."""
    done = subprocess.run(
        [build / "main", *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_networks_give_what_the_reference_gives(
    text: Path, built: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tested = run_harness(text, built, platform="two", native=True, measure=False, frames=8)
    said = capfd.readouterr()
    assert tested.status == 0, said.err
    if BF16:
        assert re.search(r"^A\.n: \d\d\.\d dB over 8 samples, 10 dB asked for$", said.err, re.M)
    # nothing but OpenVINO lies there, with the texts of its licenses
    assert {path.name for path in (built / "lib").iterdir()} == {"openvino"}
    assert "LICENSE" in {path.name for path in (built / OPENVINO / "licenses").iterdir()}


def test_the_report_names_engine_and_precision(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    status, out, said = run(built, "--frames", "6", "--report", str(file))
    assert status == 0, said
    title = f"OpenVINO {engine_of('openvino').version}"
    tasks = json.loads(file.read_text())["tasks"]
    assert tasks["A.n"]["engine"] == f"{title}, {'bf16' if BF16 else 'f32'}"
    assert tasks["B.n"]["engine"] == f"{title}, f32"
    assert "engine" not in tasks["A.m"]
    assert re.search(rf"^B\.n +{title}, f32$", out, re.M)
    # two workers in turn, two firings at once: no image takes the place of another one
    single = [line.split()[1] for line in out.splitlines() if re.match(r"A \d", line)]
    double = [line.split()[1] for line in out.splitlines() if re.match(r"C \d", line)]
    assert len(set(single)) == 6 and len(double) == 12
    assert np.allclose([float(n) for n in single], [float(n) for n in double[:6]], rtol=0.02)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_an_inference_stays_on_the_core_of_its_worker(built: Path) -> None:
    # With hwloc, which no build has, OpenVINO gives the thread all cores while an inference runs.
    (package,) = {file.parent for file in _libraries()}
    (library,) = package.glob("libopenvino_c.so*")
    for frames in (3_000, 30_000):
        seen, said = _masks(built, frames, library)
        workers = [seen[thread] for thread in sorted(seen)[-2:]]  # they begin last
        bound = [cores for masks in workers if 1 in (cores := list(map(len, masks)))]
        if len(bound) == 2:
            break
    if "fixed priorities are not in force" in said:
        pytest.skip("threads may not have cores of their own here")
    assert len(bound) == 2
    for masks in bound:
        assert set(masks[masks.index(1) :]) == {1}


def _masks(built: Path, frames: int, library: Path) -> tuple[dict[int, list[set[int]]], str]:
    """The masks of all threads of a program while it runs, and what it says."""
    child = subprocess.Popen(
        [built / "main", "--real-time", "--frames", str(frames), "--quiet"],
        env={**os.environ, "FLOWC_OPENVINO": str(library)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen: dict[int, list[set[int]]] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.0002):
            for thread in _threads_below(child.pid):
                try:
                    seen.setdefault(thread, []).append(os.sched_getaffinity(thread))
                except OSError:  # it has ended
                    continue

    looking = threading.Thread(target=look)
    looking.start()
    _, said = child.communicate(timeout=HANGS)
    over.set()
    looking.join(HANGS)
    assert child.returncode == 0, said
    return seen, said


def _threads_below(parent: int) -> list[int]:
    """The threads of the processes that a supervisor has started."""
    found = []
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in children:
            found += [int(name) for name in os.listdir(f"/proc/{child}/task")]
    except OSError:  # it has ended
        pass
    return found


def _libraries() -> list[Path]:
    plan = engine_libraries(["openvino"])
    return [Path(str(file)) for path, file in plan.items() if ".so" in path]


def test_a_missing_another_or_an_old_library_is_named(built: Path, tmp_path: Path) -> None:
    failed = "task A.n failed: cannot start: "
    status, _, said = run(built, FLOWC_OPENVINO="/no/such/library.so")
    assert status == 1
    assert failed + "OpenVINO is missing (/no/such/library.so: " in said
    assert "put its libraries into lib/openvino/ beside the program, or name libopenv" in said
    other, old = tmp_path / "other.so", tmp_path / "old.so"
    _compile("int ov_free;", other)
    assert failed + f"{other} is no OpenVINO of version 2025.0 or later" in _said(built, other)
    _compile(_old(), old)
    reason = f"{old} is OpenVINO 2024.6.0: version 2025.0 or later is needed"
    assert failed + reason in _said(built, old)


def _said(built: Path, library: Path) -> str:
    """What a program says that ends with this library."""
    status, _, said = run(built, FLOWC_OPENVINO=str(library))
    assert status == 1
    return said


def _old() -> str:
    """A library with all functions that programs look for, of an earlier version."""
    source = (RUNTIME / "openvino.cpp").read_text()
    names = set(re.findall(r'find\("(\w+)"', source))
    assert len(names) > 20
    lines = [f"int ov_{name}(void) {{ return 0; }}" for name in names - {"get_openvino_version"}]
    version = 'int ov_get_openvino_version(const char **v) { v[0] = "2024.6.0-17404"; return 0; }'
    return "\n".join([*lines, version])


def _compile(source: str, library: Path) -> None:
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
    subprocess.run(command, input=source, text=True, check=True, timeout=HANGS)


def test_a_board_gives_programs_the_libraries_of_its_python(built: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    shutil.copytree(built, there, ignore=shutil.ignore_patterns("lib", "*.o"))
    words = [sys.executable, "-c", boards._LINK]
    subprocess.run(words, cwd=there, check=True, timeout=HANGS)
    assert (there / OPENVINO).is_symlink()
    status, _, said = run(there, "--frames", "2")
    assert status == 0, said


def test_what_openvino_refuses_is_told(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy, ignore=shutil.ignore_patterns("lib", "*.o"))
    (copy / "lib").symlink_to(built / "lib")
    (copy / "networks/net.onnx").write_bytes(b"no network")
    status, _, said = run(copy)
    assert status == 1
    assert "cannot start: OpenVINO refuses net.onnx: " in said


# -- in states -------------------------------------------------------------------------------------
#: A variant on OpenVINO that frames choose beside one on ONNX Runtime; in one state it is in turn on
#: two cores.
STATES = """
type Row = float32[1, 8]
task Make { out x: Row  state n: int64  c "s.c:make" }
task Take { in y: Row  c "s.c:take" }
network Net {
    in x: Row from "x"  out y: Row from "y"
    variant first from "first.onnx"  variant second from "second.onnx"
}
app A { m: Make  n: Net  t: Take  m -> n -> t }
scenario S {
    event go
    initial state one { run A  A.n = first }
    state two { run A  A.n = second }
    state three { run A period 2 ms  A.n = first }
    one -> two on go  two -> three on go  three -> one on go
}
platform two { cpu core[2] }
mapping on two {
    A.m -> core[0]  A.t -> core[0]
    A.n.first -> core[1] engine openvino  A.n.second -> core[1]
}
"""
STATES_CODE = """
#include <stdio.h>
int make(void *state, float *x, const void *p)
{
    make_state *s = state;
    for (int i = 0; i < 8; i++)
        x[i] = (float)((s->n + i) % 5) - 2;
    s->n++;
    return 0;
}
int take(void *state, const float *y, const void *p)
{
    printf("%g %g\\n", y[0], y[7]);
    return 0;
}
"""


def test_states_have_networks_on_openvino(tmp_path: Path) -> None:
    for name, by in (("first", 2), ("second", -1)):
        layers = [N("Mul", ["x", "by"], ["h"]), N("Relu", ["h"], ["y"])]
        save(tmp_path / f"{name}.onnx", layers, {"x": [1, 8]}, {"by": np.float32([by])}, "y")
    (tmp_path / "s.c").write_text(STATES_CODE)
    (tmp_path / "a.flow").write_text(STATES)
    in_turn = STATES.replace("A.n.first -> core[1]", "A.n.first -> core[0], core[1]")
    (tmp_path / "b.flow").write_text(in_turn)
    build = of_both(tmp_path, "a.flow", "b.flow", platform="two")
    assert disagreement_of(build, tmp_path / "record") == ""
    scenario = json.loads((build / "deployment.json").read_text())["scenario"]
    assert [state["like"] for state in scenario["states"]] == [None, "one", None]
    assert ", 2);" in (build / "main.cpp").read_text()  # a compiled model of each worker
    way = ("one", "two", "three", "one")
    stays = [{"state": state, "frames": {"A": 3 + n}} for n, state in enumerate(way)]
    file = tmp_path / "stays.json"
    file.write_text(json.dumps({"stays": stays}))
    report = tmp_path / "r.json"
    words = ["--replay", str(file), "--full-speed", "--quiet", "--report", str(report)]
    status, out, said = run(build, *words)
    assert (status, said) == (0, "")
    document = json.loads(report.read_text())
    assert [c["protocol"] for c in document["switches"]] == ["next", "idle", "idle"]
    firings = {name: task["firings"] for name, task in document["tasks"].items()}
    assert (firings["A.n.first"], firings["A.n.second"]) == (3 + 5 + 6, 4)
    assert document["tasks"]["A.n.first"]["engine"].startswith("OpenVINO ")
    assert "engine" not in document["tasks"]["A.n.second"]
    command = [sys.executable, build / "main.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True)
    assert out == done.stdout != ""
