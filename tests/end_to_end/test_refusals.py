"""Each cell of the table of refusals: a text that uses the feature, and what the kind of program says.

A cell that needs a GPU, a board or a library is tried in the file that `ELSEWHERE` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.codegen.ros2 import ROS2
from flowc.driver.build.build import build
from flowc.driver.build.external import build_external
from flowc.driver.build.fmu import build_fmu
from flowc.model.catalogue import CODES
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.supports import SUPPORTS, Execution, Refusal
from onnx import TensorProto, helper

from builds import ROOT
from models import N, save

TASKS = """
type V = float32[1, 4]
task Count { out v: V   python "t.py:count" }
task Live { live   out v: V   python "t.py:count" }
task Inc { in a: V   out b: V   stateless   python "t.py:inc" }
task Skips { in a: V   out b: V   on error skip   python "t.py:inc" }
task Some { in a: V   out b: V rate up to 4   python "t.py:inc" }
task Grow { in a: V   out b: float32[1, up to 8]   python "t.py:inc" }
task Wide { in a: float32[1, up to 8]   out b: V   python "t.py:inc" }
task All { in a: V rate up to 4   out b: V   python "t.py:inc" }
task Scale(by: int) { in a: V   out b: V   python "t.py:scale" }
task Named(word: string) { in a: V   out b: V   python "t.py:named" }
task Keep { in v: V   python "t.py:keep" }
task CCount { out v: V   c "t.c:count" }
task CInc { in a: V   out b: V   stateless   c "t.c:inc" }
task CPlus { in a: V   out b: V   c "plus.cpp:inc" }
task CQuote { in a: V   out b: V   c "it's\\"so.c:inc" }
task CAgain { in a: V   out b: V   c "other.c:inc" }
task CSkips { in a: V   out b: V   on error skip   c "t.c:inc" }
task CAnew { in a: V   out b: V   stateless   on error restart   c "t.c:inc" }
task CSix { in a: V   out b: V rate 6   c "t.c:inc" }
task CJoin { in a: V rate 6   out b: V   c "t.c:inc" }
task CKeep { in v: V   c "t.c:keep" }
network Net from "net.onnx" { in x: V from "x"   out y: V from "y" }
network Rows from "rows.onnx" { in x: float32[1, 1, 8, 4] from "x"   out y: float32[1, 1, 8, 4] from "y" }
network Group from "open.onnx" { in x: V from "x"   out y: V from "y"   batch 4 }
network Half from "net.onnx" { in x: V from "x"   out y: V from "y"   precision fp16 }
network Around from "net.onnx" { in x: V from "x" pre "t.py:inc"   out y: V from "y" }
network Spiral from "spiral.onnx" { in x: V from "x"   out y: V from "y"   library "ops.so" }
network Places from "places.onnx" { in x: V from "x"   out y: V from "places" post "t.py:inc" }
network Long from "long.onnx" { in x: float32[1, up to 8] from "x"   out y: float32[1, up to 8] from "y" }
platform duo { cpu core[2]   gpu g compute 8.7   npu n engine qnn }
platform rig { machine a { cpu core }   machine b { cpu core[2] }   link a b 1 GB/s 20 us }
"""
CHAIN = "app A { c: Count   i: Inc   k: Keep   c -> i -> k }\n"
CHAIN_IN_C = "app A { c: CCount   i: CInc   k: CKeep   c -> i -> k }\n"
NET = "app A { c: Count   n: Net   k: Keep   c -> n -> k }\n"
NET_IN_C = "app A { c: CCount   n: Net   k: CKeep   c -> n -> k }\n"
ENDS = "app A { in x: V   out y: V   i: Inc   x -> i -> y }\n"
ENDS_IN_C = "app A { in x: V   out y: V   i: CInc   x -> i -> y }\n"
READER = "app R { period 1 ms   i: Inc   k: Keep   A.i -> HOW -> i -> k }\n"
REQUESTS = "app A { batch up to 4 within 1 ms   in x: V   out y: V   i: Inc   x -> i -> y }\n"
STATES = "scenario S { initial state one { run A } state two { run A } one -> two after 1 s }\n"


def _unit(inside: str, ends: str = "in x: V   out y: V") -> str:
    return f"app A {{ {ends}   {inside} }}\n"


#: A text for each cell.
CASES: dict[tuple[str, Execution], str] = {
    ("Python", "native"): CHAIN,
    ("`pre`, `post`", "native"): "app A { c: CCount   n: Around   k: CKeep   c -> n -> k }\n",
    ("C++", "unit in C"): _unit("i: CPlus   x -> i -> y"),
    ("a C file with a quote in its name", "unit in C"): _unit("i: CQuote   x -> i -> y"),
    ("a name of two C functions", "unit in C"): _unit("i: CInc   j: CAgain   x -> i -> j -> y"),
    ("`live`", "unit"): _unit(
        "l: Live   i: Inc   x -> i -> y   l -> z", "in x: V   out y: V   out z: V"
    ),
    ("`every`", "unit"): _unit(
        "l: Count every 1 ms   i: Inc   x -> i -> y   l -> z", "in x: V   out y: V   out z: V"
    ),
    ("`on error`", "unit"): _unit("i: Skips   x -> i -> y"),
    ("`on error restart` in turn", "native"): CHAIN_IN_C.replace("CInc", "CAnew")
    + "mapping on duo { A.i -> core[0], core[1] }\n",
    (
        "several `out` after errors",
        "native",
    ): "app A { in x: V   out y: V   out z: V   i: CSkips   x -> i   i -> y   x -> z }\n",
    ("`rate up to`", "unit"): _unit("s: Some   i: All   x -> s -> i -> y"),
    (
        "a list at an open end",
        "native",
    ): "app A { in x: V rate up to 4   out y: V rate up to 4   x -> y }\n",
    (
        "a list at an open end",
        "robot",
    ): "app A { in x: V   out y: V rate up to 4   s: Some   x -> s -> y }\n",
    ("types with `up to`", "unit"): _unit("g: Grow   i: Wide   x -> g -> i -> y"),
    (
        "types with `up to`",
        "networks in C",
    ): "app A { in x: float32[1, up to 8]   out y: float32[1, up to 8]   n: Long   x -> n -> y }\n",
    (
        "`up to` at an open end",
        "native",
    ): "app A { in x: float32[1, up to 8]   out y: float32[1, up to 8]   x -> y }\n",
    (
        "`up to` at an open end",
        "robot",
    ): "app A { in x: V   out y: float32[1, up to 8]   g: Grow   x -> g -> y }\n",
    ("sizes that data decide on", "unit"): _unit("n: Places   x -> n -> y", "in x: V   out y: V"),
    (
        "sizes that data decide on",
        "networks in C",
    ): "app A { in x: V   out y: V   n: Places   x -> n -> y }\n",
    ("a type that FMI lacks", "unit"): "app A { in x: float16   out y: float16   x -> y }\n",
    (
        "an array that is too large for FMI",
        "unit",
    ): "app A { in x: uint8[20000, 1000]   out y: uint8[20000, 1000]   x -> y }\n",
    (
        "a type that messages lack",
        "robot",
    ): "app A { in x: complex64   out y: complex64   x -> y }\n",
    ("a number of more than 64 bits", "unit"): _unit(
        "s: Scale(by = 9223372036854775808)   x -> s -> y"
    ),
    ("a character that XML lacks", "unit"): _unit('s: Named(word = "a\x01")   x -> s -> y'),
    ("open ends", "program"): ENDS,
    ("open ends", "native"): ENDS_IN_C,
    ("open ends", "states"): ENDS + STATES,
    ("no open ends", "unit"): CHAIN,
    ("`batch up to` for requests", "native"): REQUESTS.replace("Inc", "CInc"),
    ("`batch up to` for requests", "unit"): REQUESTS,
    ("`batch up to` for requests", "robot"): REQUESTS,
    ("`latest`, `drop oldest`", "unit"): (CHAIN + READER.replace("HOW", "latest")),
    ("`latest`, `drop oldest`", "parts"): CHAIN
    + READER.replace("HOW", "latest")
    + "mapping on rig { A.c -> b.core[0]   A.i -> b.core[0]   A.k -> b.core[0]   R.i -> a.core   R.from_A_i -> a.core }\n",
    ("`drop oldest`", "states"): CHAIN
    + READER.replace("HOW", "drop oldest 3")
    + STATES.replace("run A", "run A run R"),
    ("no network", "networks in C"): CHAIN,
    ("`adapt`", "native"): NET_IN_C
    + 'mapping on duo { A.n -> core[0] until "h" | core[1] adapt }\n',
    ("`adapt`", "states"): NET
    + STATES
    + 'mapping on duo { A.n -> core[0] until "h" | core[1] adapt }\n',
    ("`adapt`", "parts"): NET
    + 'mapping on rig { A.c -> b.core[0]   A.n -> b.core[0] until "h" | b.core[1] adapt   A.k -> a.core }\n',
    (
        "sizes that data decide on",
        "parts",
    ): "app A { in x: V   out y: V   n: Places   x -> n -> y }\n"
    "mapping on rig { A.n -> a.core   A.n.post -> b.core[0] }\n",
    (
        "`bands`",
        "native",
    ): "app A { in x: float32[1, 1, 8, 4]   out y: float32[1, 1, 8, 4]   n: Rows   x -> n -> y }\n"
    'mapping on duo { A.n -> core[0] bands 2 until "y" }\n',
    ("own operators", "native"): (NET_IN_C.replace("Net", "Spiral")),
    ("own operators", "networks in C"): NET.replace("Net", "Spiral"),
    ("`engine`", "networks in C"): NET + "mapping on duo { A.n -> core[0] engine openvino }\n",
    ("networks on accelerators", "networks in C"): NET + "mapping on duo { A.n -> g }\n",
    ("`precision`", "networks in C"): (NET.replace("Net", "Half")),
    ("`precision`", "program"): NET.replace("Net", "Half"),
    (
        "a batch that is not full",
        "native",
    ): "app A { c: CCount   s: CSix   n: Group   j: CJoin   k: CKeep   c -> s -> n -> j -> k }\n",
    ("another kind of code", "native"): NET_IN_C.replace("Net", "Half")
    + "mapping on duo { A.n -> n }\n",
    ("several machines", "native"): CHAIN_IN_C,
    ("a task on several machines", "parts"): CHAIN
    + "mapping on rig { A.i -> a.core, b.core[0] }\n",
    ("states", "parts"): CHAIN + STATES,
}
#: Cells that are tried in another file of tests/, which has these words.
ELSEWHERE: dict[tuple[str, Execution], tuple[str, str]] = {
    ("Python on a CPU beside a GPU", "native"): ("codegen/test_native_gpu.py", "for CPUs"),
    ("code for a GPU only", "native"): ("support/matrix.py", "code for a GPU only"),
    ("kernels that flowc does not compile", "native"): (
        "codegen/test_native_gpu.py",
        "give it `compute`",
    ),
    ("a recorded graph of kernels", "native"): (
        "codegen/test_native_gpu.py",
        "is recorded as a graph",
    ),
    ("`on error` on a GPU", "native"): (
        "codegen/test_native_gpu.py",
        "goes on after errors, on a GPU",
    ),
    ("TensorRT", "native"): ("codegen/test_native_gpu.py", "runs in TensorRT"),
    ("chains over apps with states", "native"): (
        "codegen/test_native_states.py",
        "leads over several apps with states",
    ),
    ("an array that is too large for messages", "robot"): ("faulty/F537_large.txt", "at most"),
}
PYTHON = """
def count(): raise StopIteration
def inc(a): return a
def scale(a, by): return a
def named(a, word): return a
def keep(v): pass
"""
C = """
int count(void *s, float *v, const void *p) { return 1; }
int inc(void *s, const float *a, float *b, const void *p) { return 0; }
int keep(void *s, const float *v, const void *p) { return 0; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all texts name."""
    made = tmp_path_factory.mktemp("refusals")
    files = {"t.py": PYTHON, "t.c": C, "other.c": C, "it's\"so.c": C}
    files |= {"plus.cpp": f'extern "C" {{ {C} }}'}
    for name, content in files.items():
        (made / name).write_text(content)
    eye = {"w": np.eye(4, dtype=np.float32)}
    nodes = [N("MatMul", ["x", "w"], ["h"]), N("Abs", ["h"], ["y"])]
    save(made / "net.onnx", nodes, {"x": [1, 4]}, eye, "y")
    save(made / "open.onnx", nodes, {"x": ["n", 4]}, eye, "y")
    save(made / "long.onnx", [N("Abs", ["x"], ["y"])], {"x": [1, "n"]}, {}, "y")
    spiral = N("Spiral", ["x"], ["y"], domain="my.domain")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    graph = helper.make_graph([spiral], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), made / "spiral.onnx")
    head = b"\x7fELF\2\1\1" + bytes(9) + b"\3\0"
    (made / "ops.so").write_bytes(head + b"RegisterCustomOps\0")
    rows = [N("Conv", [a, "w"], [b], pads=[1, 0, 1, 0]) for a, b in ("xh", "hy")]
    column = np.ones((1, 1, 3, 1), np.float32)
    save(made / "rows.onnx", rows, {"x": [1, 1, 8, 4]}, {"w": column}, "y")
    places = [N("NonZero", ["x"], ["found"]), N("Transpose", ["found"], ["places"])]
    save(made / "places.onnx", places, {"x": [1, 4]}, {}, "places", {"places": TensorProto.INT64})
    return made


def _with_declarations(apps: str) -> str:
    """A text with what its apps name."""
    named = set(re.findall(r"\w+", apps))
    lines = [line for line in TASKS.splitlines() if re.match(r"type|platform", line)]
    lines += [
        line
        for line in TASKS.splitlines()
        if named & set(re.findall(r"^(?:task|network) (\w+)", line))
    ]
    return "\n".join([*lines, apps])


def _checked(flow: Path, platform: str) -> tuple[Diagnostic, ...]:
    return flowc.check(flow, platform=platform).diagnostics


def _run(flow: Path, out: Path, native: bool) -> tuple[Diagnostic, ...]:
    flowc.run(flow, out, platform="duo", native=native, measure=False, quiet=True)
    return ()


#: How a kind of program is asked for: a text and a folder that is not there yet.
ASKED: Mapping[Execution, Callable[[Path, Path], tuple[Diagnostic, ...]]] = {
    "program": lambda flow, out: build(flow, out, platform="duo", measure=False).diagnostics,
    "states": lambda flow, out: _checked(flow, "duo"),
    "parts": lambda flow, out: _checked(flow, "rig"),
    "native": lambda flow, out: (
        build(flow, out, platform="duo", native=True, measure=False).diagnostics
    ),
    "unit": lambda flow, out: build_fmu(flow, "A", out / "A.fmu").diagnostics,
    "unit in C": lambda flow, out: build_fmu(flow, "A", out / "A.fmu").diagnostics,
    "networks in C": lambda flow, out: build_external(flow, out, platform="duo").diagnostics,
    "robot": lambda flow, out: (
        build(flow, out, platform="duo", measure=False, robot=ROS2).diagnostics
    ),
}


def _is_of(cell: Refusal, fault: Diagnostic) -> bool:
    """Is a diagnostic what a cell says, with any words?"""

    def pattern(text: str) -> str:
        return "(?s:.*)".join(map(re.escape, re.split(r"\{\w+\}", text)))

    return (
        (cell.code, cell.severity) == (fault.code, fault.severity)
        and re.fullmatch(pattern(cell.message), fault.message) is not None
        and re.fullmatch(pattern(cell.help), fault.help) is not None
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_a_kind_of_program_says_what_it_refuses(case: tuple[str, Execution], folder: Path) -> None:
    feature, execution = case
    number = list(CASES).index(case)
    flow, out = folder / f"case{number}.flow", folder / f"out{number}"
    flow.write_text(_with_declarations(CASES[case]), encoding="utf-8")
    cell = SUPPORTS[feature][execution]
    asked = ASKED[execution]
    if feature == "open ends" and execution in ("program", "native"):
        asked = lambda flow, out: _run(flow, out, execution == "native")  # noqa: E731
    if feature == "several machines":
        asked = lambda flow, out: build(flow, out, platform="rig", native=True).diagnostics  # noqa: E731
    try:
        found = asked(flow, out)
    except Errors as errors:
        found = errors.diagnostics
        assert not out.exists()
    assert any(_is_of(cell, fault) for fault in found), [(d.code, d.message) for d in found]
    assert {d.code for d in found if d.severity != cell.severity} == set()


def test_every_cell_is_tried() -> None:
    cells = {(feature, execution) for feature, row in SUPPORTS.items() for execution in row}
    assert cells == CASES.keys() | ELSEWHERE.keys()
    for file, words in ELSEWHERE.values():
        assert words in (ROOT / "tests" / file).read_text()
    for feature, execution in cells:
        assert SUPPORTS[feature][execution].code in CODES
