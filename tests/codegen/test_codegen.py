"""What is written, and that it stays correct whatever things are called; and that the harness can
fail."""

from __future__ import annotations

import ast
import json
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

import flowc
import pytest
from flowc.codegen import compiler as codegen_compiler
from flowc.codegen.emit import digest, emit
from flowc.codegen.names import double_quoted, identifiers, one_line
from flowc.driver.build.fmu import build_fmu
from flowc.driver.build.headers import headers_of
from flowc.driver.text import store
from flowc.model.diagnostic import Errors
from hypothesis import given
from hypothesis import strategies as st

from builds import ROOT, Write, build, harness, planned, run, store_profile
from limits import HANGS

GOLDEN = Path(__file__).parents[1] / "golden"
LOOP = """
type N = int64
task Count { out n: N  out m: N   python "t.py:Count" }
task Mix { in a: N  in b: N  in old: N   out c: N   python "t.py:mix" }
task Keep { in c: N rate 2   python "t.py:Keep" }
app A { c: Count  x: Mix  k: Keep   c.n -> x.a  c.m -> x.b   x -> delay 1 = 3 -> x.old   x -> k }
"""
CODE = """
class Count:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n, -3 * self.n
def mix(a, b, old): return a + b + old
class Keep:
    def __call__(self, c): pass
"""


def _plan(flow: Path) -> dict[str, bytes | Path]:
    checked = flowc.check(flow)
    profile, _ = store.read_profile(checked.require())
    return emit(planned(checked.require(), profile))


def test_same_input_gives_same_bytes(write: Write, tmp_path: Path) -> None:
    flow = write(LOOP, t_py=CODE)
    store_profile(flow)
    plans = [_plan(flow), _plan(flow)]
    assert digest(plans[0]) == digest(plans[1])
    script = f"import flowc; print(flowc.build({str(flow)!r}, {str(tmp_path / 'out')!r}).digest)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
        timeout=HANGS,
    )
    assert done.stdout.strip() == digest(plans[0])


@pytest.mark.parametrize("example", ["hello", "digits"])
def test_generated_main_is_as_expected(example: str, tmp_path: Path) -> None:
    """Golden programs; FLOWC_REWRITE_GOLDEN=1 rewrites them. The digits example is pinned, hello
    fits one core."""
    import os
    import shutil

    shutil.copytree(
        ROOT / "examples" / example,
        tmp_path / example,
        ignore=shutil.ignore_patterns("*.json", "build"),
    )
    flow = tmp_path / example / f"{example}.flow"
    if example == "digits":
        flow.write_text(
            flow.read_text()
            + "platform two { cpu core[2] }\nmapping on two { Reader.camera -> core[0]\n"
            "Reader.segment -> core[0]  Reader.digits -> core[0], core[1]  Reader.decode -> core[1]  Reader.report -> core[1] }"
        )
    else:
        flow.write_text(flow.read_text() + "platform two { cpu core[2] }\n")
    out = build(flow, tmp_path / "out", platform="two")
    golden = GOLDEN / f"{example}.main.py"
    if os.environ.get("FLOWC_REWRITE_GOLDEN"):
        golden.write_text((out / "main.py").read_text())
    # What networks take is that of this machine's ONNX Runtime.
    made, expected = (
        re.sub(r'(block=|"weights": |"buffers": )\d+', r"\1", f.read_text())
        for f in (out / "main.py", golden)
    )
    assert made == expected
    done = run(out, "--frames", "12")
    assert done.returncode == 0, done.stderr
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr


def test_compiled_python_of_an_earlier_build_is_forgotten(write: Write, tmp_path: Path) -> None:
    """Python takes it for the new one where size and second are the same: here, always."""
    text = 'task S { out x: int64  python "s.py:make" }\ntask K { in x: int64  python "s.py:take" }'
    code = "def make(): return 1\ndef take(x): print(x)\n"
    flow = write(text + "\napp A { s: S  k: K  s -> k }", s_py=code)
    out = build(flow, tmp_path / "out")
    always = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(out / "tasks/s.py"), invalidation_mode=always)
    of_others = out / "tasks/__pycache__/others.pyc"
    of_others.write_text("")
    (tmp_path / "s.py").write_text(code.replace("1", "2"))
    said = run(build(flow, tmp_path / "out"), "--frames", "1", "--quiet").stdout
    assert said == "2\n" and of_others.exists()
    # what a link leads to stays
    (out / "tasks/__pycache__").rename(tmp_path / "cache")
    (out / "tasks/__pycache__").symlink_to(tmp_path / "cache")
    (tmp_path / "cache/s.pyc").write_text("")
    (tmp_path / "s.py").write_text(code)
    flowc.build(flow, out, force=True, measure=False)
    assert (tmp_path / "cache/s.pyc").exists()


# -- the harness can fail --------------------------------------------------------------------------
def _sabotage(out: Path, file: str, old: str, new: str) -> None:
    path = out / file
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))
    # Bytecode goes by the second and the size of its source.
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        # a swapped channel
        ("main.py", 'p.channel(c, "n", x, "a"', 'p.channel(c, "m", x, "a"'),
        # an initial token of another value
        ("main.py", "values=[3]", "values=[4]"),
        # a larger channel than deployed
        (
            "main.py",
            'p.channel(x, "c", k, "c", capacity=2)',
            'p.channel(x, "c", k, "c", capacity=7)',
        ),
        # a firing too many: the order is no iteration any more
        ("main.py", "Fire(x, times=2)", "Fire(x, times=3)"),
        # a channel that drops its second token
        (
            "runtime/channel.py",
            "        if isinstance(block, Pieces):\n",
            "        self.seen = getattr(self, 'seen', 0) + 1\n        if self.seen == 2: return\n"
            "        if isinstance(block, Pieces):\n",
        ),
        # a channel that hands tokens over in the wrong order
        ("runtime/channel.py", "self._segments.append([block", "self._segments.appendleft([block"),
        # rounds that hand over the tokens of the round before
        (
            "recorded_rounds.py",
            "x_c_1_ago1 = x_c_1\n",
            "x_c_1_ago1 = x_c_1_ago1\n",
        ),
    ],
)
def test_the_harness_fails_on_a_sabotaged_program(
    write: Write, tmp_path: Path, file: str, old: str, new: str
) -> None:
    out = build(write(LOOP, t_py=CODE), tmp_path / "out")
    assert harness(out).returncode == 0
    _sabotage(out, file, old, new)
    done = harness(out)
    assert done.returncode == 1, done.stderr


def test_the_harness_notices_a_state_that_is_shared_by_accident(
    write: Write, tmp_path: Path
) -> None:
    """A function that keeps state in its module gives other results the second time: it is no pure
    function."""
    code = CODE.replace(
        "def mix(a, b, old): return a + b + old",
        "calls = []\ndef mix(a, b, old):\n    calls.append(1)\n    return a + len(calls)",
    )
    assert harness(build(write(LOOP, t_py=code), tmp_path / "out")).returncode == 1


# -- names -----------------------------------------------------------------------------------------
def test_names_that_mean_something_to_python(write: Write, tmp_path: Path) -> None:
    code = """
class Source:
    def __init__(self, **given): self.given = given
    def __call__(self): return len(self.given["class"])
def show(n, lambda_=0): print("got %s\\n" % n, end="")
"""
    flow = write(
        'task class(class: string, file: int, name: int) { out import: int64  python "t.py:Source" }\n'
        'task main { in def: int64  python "t.py:show" }\n'
        'app p { sys: class(class = "a\\"b\'{{ x }}\\n#", file = 1, name = 2)  main: main  os: main   sys -> main, os }\n'
        'app None { class: class(class = "", file = 1, name = 2)  program: main   class -> program }',
        t_py=code,
    )
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "1")
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("got")) == [
        "got 0",
        "got 13",
        "got 13",
    ]
    assert harness(out).returncode == 0


def test_a_task_is_called_like_what_main_py_calls(write: Write, tmp_path: Path) -> None:
    code = "def source(): return 1\ndef sink(n): pass\n"
    flow = write(
        """
        task Source { out n: int64   python "t.py:source" }
        task Sink { in n: int64   python "t.py:sink" }
        task All { in n: int64 rate 12   python "t.py:sink" }
        app A { range: Source   sink: Sink   all: All   range -> sink   range -> all }
        """,
        t_py=code,
    )
    built = build(flow, tmp_path / "out")
    assert "newest=range(0, 12)" in (built / "main.py").read_text()
    done = run(built, "--frames", "1")
    assert done.returncode == 0, done.stderr


def test_a_task_is_called_like_what_the_main_py_of_a_part_calls(
    write: Write, tmp_path: Path
) -> None:
    """No variable of a part's program is assigned twice."""
    flow = write(
        """
        task Source { out n: int64   python "t.py:source" }
        task Sink { in n: int64   python "t.py:sink" }
        app A { transport: Source   p: Sink   transport -> p }
        platform rig { machine near { cpu core }   machine far { cpu core }   link near far 1 GB/s 20 us }
        mapping on rig { A.transport -> near.core   A.p -> far.core }
        """,
        t_py="def source(): return 1\ndef sink(n): pass\n",
    )
    built = build(flow, tmp_path / "out", platform="rig")
    for part in ("near", "far"):
        tree = ast.parse((built / "parts" / part / "main.py").read_text())
        (program,) = (n for n in tree.body if isinstance(n, ast.FunctionDef))
        assigned = [
            node.id
            for node in ast.walk(program)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        assert "transport" in assigned and len(assigned) == len(set(assigned))


def test_strange_names_in_a_network(write: Write, tmp_path: Path) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    odd_in, odd_out = 'in"put\n{{ 7 }}', 'out\'put: */ {% x %} \\ """'
    node = helper.make_node("Mul", [odd_in, "two"], [odd_out])
    two = numpy_helper.from_array(np.array([2], np.float32), "two")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(odd_in, TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info(odd_out, TensorProto.FLOAT, [1])], [two],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "odd name.onnx",
    )
    code = "import numpy as np\nclass S:\n    def __call__(self): return np.ones(1, np.float32)\ndef show(n): print('got', n)\n"
    flow = write(
        'task S { out x: float32[1]  python "t.py:S" }\ntask Show { in x: float32[1]  python "t.py:show" }\n'
        'network Odd from "odd name.onnx"\n/// A comment with """ and */ and {{ braces }}\napp A { s: S  o: Odd  k: Show   s -> o -> k }',
        t_py=code,
    )
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "1")
    assert done.returncode == 0, done.stderr
    assert "got [2.]" in done.stdout
    assert harness(out).returncode == 0


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_identifiers_are_valid_and_unique(names: list[str]) -> None:
    import keyword

    made = identifiers(names, ["p", "main"])
    assert len(set(made.values())) == len(names)
    assert all(
        i.isidentifier() and i.isascii() and not keyword.iskeyword(i) and i not in ("p", "main")
        for i in made.values()
    )


@given(st.text())
def test_literals_read_back(text: str) -> None:
    assert eval(double_quoted(text)) == text
    assert "\n" not in one_line(text) and "\r" not in one_line(text)
    compile(f"# {one_line(text)}\nx = 1", "comment", "exec")


# -- sources ---------------------------------------------------------------------------------------
def test_helpers_and_packages_are_copied_as_python_finds_them(write: Write, tmp_path: Path) -> None:
    code = "from lib.deep.inner import value\nimport beside\ndef show(n): print('got', n + value() + beside.ONE)\n"
    flow = write(
        'task S { out n: int64  python "t.py:S" }\ntask Show { in n: int64  python "sub/u.py:show" }\napp A { s: S  k: Show  s -> k }',
        t_py="class S:\n    def __call__(self): return 1\n",
    )
    package = tmp_path / "sub" / "lib" / "deep"
    package.mkdir(parents=True)
    (tmp_path / "sub" / "u.py").write_text(code)
    (tmp_path / "sub" / "beside.py").write_text("ONE = 1\n")
    (tmp_path / "sub" / "lib" / "__init__.py").write_text("BASE = 20\n")
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(
        "from .. import BASE\nfrom ..more import THREE\nimport beside\ndef value(): return BASE + THREE\n"
    )
    (tmp_path / "sub" / "lib" / "more.py").write_text("THREE = 300\n")
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "1")
    assert "got 322" in done.stdout, done.stderr


def test_one_c_function_has_one_prototype(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task A1 { in x: float32  out y: float32  c "f.c:f" }\ntask B1 { in x: int64  out y: int64  c "f.c:f" }\n'
        "app P { a: A1  b: B1   a -> delay 1 -> a   b -> delay 1 -> b }",
        f_c="int f(void *s, const float *x, float *y, const f_params *p) { *y = *x; return 0; }",
    )
    with pytest.raises(Errors) as raised:
        flowc.build(flow, tmp_path / "out")
    assert [d.code for d in raised.value.diagnostics] == ["F303"]


def test_a_changed_header_makes_a_profile_stale(write: Write, tmp_path: Path) -> None:
    c = '#include "k.h"\nint f(void *s, const float *x, float *y, const f_params *p) { *y = K * *x; return 0; }'
    flow = write(
        'task F { in x: float32  out y: float32  c "f.c:f" }\napp P { a: F  a -> delay 1 -> a }',
        f_c=c,
        k_h="#define K 1",
    )
    store_profile(flow)
    assert store.read_profile(flowc.check(flow).require())[0] is not None
    (tmp_path / "k.h").write_text("#define K 2")
    assert store.read_profile(flowc.check(flow).require())[0] is None


# -- directories -----------------------------------------------------------------------------------
def test_a_rebuild_replaces_its_own_files_only(write: Write, tmp_path: Path) -> None:
    flow = write(LOOP, t_py=CODE)
    out = build(flow, tmp_path / "out")
    assert not flowc.build(flow, out).fresh
    flow.write_text(LOOP.replace("app A", "app B"))
    store_profile(flow)
    assert flowc.build(flow, out).fresh
    assert (out / "tests" / "test_b.py").is_file() and not (out / "tests" / "test_a.py").exists()
    files = [str(out / name) for name in ("report.json", "trace.json")]
    done = run(out, "--frames", "2", "--report", files[0], "--trace", files[1])
    assert done.returncode == 0, done.stderr
    assert not flowc.build(flow, out).fresh and all(Path(file).is_file() for file in files)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(Errors) as raised:
        flowc.build(flow, out)
    assert [d.code for d in raised.value.diagnostics] == ["F604"]
    assert "notes.txt" in raised.value.diagnostics[0].message
    flow.write_text(LOOP)
    store_profile(flow)
    flowc.build(flow, out, force=True)
    assert (out / "notes.txt").read_text() == "mine" and (out / "tests" / "test_a.py").is_file()


def test_a_damaged_build_is_written_again(write: Write, tmp_path: Path) -> None:
    flow = write(LOOP, t_py=CODE)
    out = build(flow, tmp_path / "out")
    (out / "main.py").write_text("garbage")
    assert flowc.build(flow, out).fresh
    assert run(out, "--frames", "2").returncode == 0
    assert not flowc.build(flow, out).fresh


def test_a_strangers_directory_is_not_touched(write: Write, tmp_path: Path) -> None:
    flow = write(LOOP, t_py=CODE)
    store_profile(flow)
    out = tmp_path / "out"
    out.mkdir()
    (out / "main.py").write_text("mine")
    with pytest.raises(Errors):
        flowc.build(flow, out)
    assert (out / "main.py").read_text() == "mine" and len(list(out.iterdir())) == 1
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Errors) as raised:
            flowc.build(flow, target)
        assert raised.value.diagnostics[0].code in ("F604", "F605")


def test_nothing_half_written_remains_when_the_disk_is_full(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    flow = write(LOOP, t_py=CODE)
    out = build(flow, tmp_path / "out")
    before = {p: p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}
    flow.write_text(LOOP.replace("app A", "app B"))
    store_profile(flow)
    real, calls = Path.write_bytes, []

    def full(self: Path, data: bytes) -> int:
        calls.append(self)
        if len(calls) > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Errors) as raised:
        flowc.build(flow, out)
    assert (
        raised.value.diagnostics[0].code == "F605"
        and "No space left" in raised.value.diagnostics[0].message
    )
    assert {p: p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".out")] == []


def test_deployment_is_data(write: Write, tmp_path: Path) -> None:
    out = build(write(LOOP, t_py=CODE), tmp_path / "out")
    document = json.loads((out / "deployment.json").read_text())
    assert document["version"] == 1
    assert [t["name"] for t in document["apps"][0]["tasks"]] == ["A.c", "A.x", "A.k"]
    assert {c["name"]: (c["capacity"], c["delay"]) for c in document["apps"][0]["channels"]}[
        "A.x.c->A.x.old"
    ] == (2, 1)


def test_a_header_takes_no_name_that_the_ports_do_not_need(tmp_path: Path) -> None:
    """`I` is the imaginary unit where ports are complex, and any name elsewhere."""
    text = 'task A { out x: %s   state sum: float32   c "a.c:a" }\napp P { a: A }\n'
    (tmp_path / "a.c").write_text("")
    for type_, has in (("float32", False), ("complex64", True)):
        flow = tmp_path / f"{type_}.flow"
        flow.write_text(text % type_)
        (content,) = headers_of(flow).values()
        assert ("#include <complex.h>" in content) == has


C_FORMS = """\
#define TASK(name) int name##_fire(void *state, int32_t *x, const void *p)
#define ARGUMENTS (void *state, int32_t *x, const void *p)
#define ANSWER { *x = 1; return 0; }
#if __has_include(<stdio.h>)
#endif
int asked(void *state, int32_t *x, const void *p) ANSWER
_Static_assert(sizeof(int) >= 2, "no /*");
__attribute__((noinline)) int with_attribute(void *state, int32_t *x, const void *p) { *x = 1; return 0; }
int (in_parentheses)(void *state, int32_t *x, const void *p) { *x = 1; return 0; }
int by_macro ARGUMENTS { *x = 1; return 0; }
TASK(pasted) ANSWER
int old(state, x, p) void *state; int32_t *x; const void *p; { *x = 1; return 0; }
#include "more.inc"
"""


def test_functions_are_found_as_the_compiler_finds_them(write: Write, tmp_path: Path) -> None:
    names = [
        "asked",
        "with_attribute",
        "in_parentheses",
        "by_macro",
        "pasted_fire",
        "old",
        "included",
    ]
    text = "".join(f'task T{n} {{ out x: int32   c "a.c:{n}" }}\n' for n in names)
    text += "app P { " + "  ".join(f"{n}: T{n}" for n in names) + " }\n"
    more = "int included(void *state, int32_t *x, const void *p) { *x = 1; return 0; }\n"
    flow = write(text, a_c=C_FORMS, more_inc=more)
    assert not [d for d in flowc.check(flow).diagnostics if d.severity == "error"]
    assert run(build(flow, tmp_path / "out"), "--frames", "2").returncode == 0
    flow.write_text(text.replace("a.c:old", "a.c:odl"))
    (tmp_path / "a.c").write_text(C_FORMS.replace("name##_fire", "name"))
    assert [d.code for d in flowc.check(flow).diagnostics if d.severity == "error"] == ["F302"] * 2


def test_a_file_has_the_types_of_all_tasks_that_the_text_declares_for_it(
    write: Write, tmp_path: Path
) -> None:
    """Also where no app uses them, a graph beside gives their sizes, or nothing does."""
    flow = write(
        'task A { out x: int32   state n: int32   c "a.c:a" }\n'
        'task B(n: int) { out x: int32   state old: int32[n]   c "a.c:b" }\n'
        'task C(n: int, f: file) { out x: int32   state old: int32[n + 1]   c "a.c:c" }\n'
        "graph Other { out x: int32   b: B(n = 4)   b -> x }\napp P { a: A }\n",
        a_c="int a(void *s, int32_t *x, const void *p) { *x = ((a_state *)s)->n; return 0; }\n"
        '_Static_assert(sizeof(b_state) == 16, "as in the graph");\n'
        "int b(void *s, int32_t *x, const b_params *p) { *x = p->n; return 0; }\n"
        "int c(void *s, int32_t *x, const c_params *p) { *x = ((c_state *)s)->old[0]; return p->f[0]; }\n",
    )
    assert run(build(flow, tmp_path / "out"), "--frames", "2").returncode == 0
    build_fmu(flow, "Other", tmp_path / "other.fmu")
    (text,) = headers_of(flow).values()
    assert "b_state" in text and "c_state" not in text  # whose size is not known


def test_a_compiler_names_the_task_that_fails(write: Write, tmp_path: Path) -> None:
    """Not the first one of its file."""
    flow = write(
        'task A { out x: int32   c "a.c:a" }\ntask B { in x: int32   c "a.c:b" }\n'
        "app P { a: A   b: B   a -> b }\n",
        a_c="int a(void *s, int32_t *x, const void *p) { return 0; }\n"
        "int b(void *s, const int32_t *x, const void *p) { return a(s, x.y, p); }\n",
    )
    with pytest.raises(Errors) as raised:
        flowc.build(flow, tmp_path / "out", measure=False)
    (fault,) = raised.value.diagnostics
    assert fault.code == "F306" and fault.span is not None and fault.span.line == 2


@pytest.mark.parametrize("suffix", ["c", "cpp"])
def test_a_function_with_a_name_of_a_library_is_to_be_renamed(
    write: Write, tmp_path: Path, suffix: str
) -> None:
    code = (
        "#include <unistd.h>\n"
        "int c(void *s, int32_t *x, const void *p) { return 0; }\n"
        "int alarm(void *s, const int32_t *x, const void *p) { return 0; }\n"
    )
    flow = write(
        f'task A {{ in x: int32   c "a.{suffix}:alarm" }}\n'
        f'task C {{ out x: int32   c "a.{suffix}:c" }}\n'
        "app P { a: A   c: C   c -> a }\n",
        **{f"a_{suffix}": code},
    )
    with pytest.raises(Errors) as raised:
        flowc.build(flow, tmp_path / "out", measure=False)
    (fault,) = raised.value.diagnostics
    assert fault.code == "F306" and fault.span is not None and fault.span.line == 1
    assert re.fullmatch(
        r"`alarm` is a function of /\S+/unistd.h, too: give that of the task another name",
        fault.help,
    )


def test_a_function_in_cpp_with_other_parameters_is_another_one(
    write: Write, tmp_path: Path
) -> None:
    """It compiles, beside the declaration of the one that is called."""
    flow = write(
        'task A { out x: float32   rate 4   c "a.cpp:a" }\n'
        'task B { in x: float32   rate 4   c "a.cpp:b" }\n'
        'task C { in x: float32   rate 4   c "a.cpp:c" }\n'
        "app P { a: A   b: B   again: B   c: C   a -> b   a -> again   a -> c }\n",
        a_cpp="int a(void *, double *x, const void *) { return 0; }\n"
        "int b(void *, const float *x, const void *) { return 0; }\n"
        "void *b_init() { return nullptr; }\n"
        "namespace inside { int c(void *, const float *x, const void *) { return 0; } }\n",
    )
    with pytest.raises(Errors) as raised:
        flowc.build(flow, tmp_path / "out", measure=False)
    faults = raised.value.diagnostics
    assert [(fault.code, fault.span and fault.span.line) for fault in faults] == [
        ("F306", 1),
        ("F306", 2),
        ("F306", 3),
    ]
    assert [fault.message for fault in faults] == [
        "`a` in `a.cpp` has other parameters than flowc calls it with\n"
        "expected: int a(void *state, float *x, const a_params *p)",
        "`b_init` in `a.cpp` has other parameters than flowc calls it with\n"
        "expected: void *b_init(const b_params *p)",
        "`a.cpp` has no function `c` that can be called from C\n"
        "expected: int c(void *state, const float *x, const c_params *p)",
    ]


def test_a_compiler_that_never_ends_is_given_up(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it wait for what is typed."""
    flow = write(
        'task A { out x: int32   c "a.c:a" }\napp P { a: A }\n',
        a_c="void a(int32_t *x) { *x = 1; }\n",
    )
    compiler = tmp_path / "slow"
    compiler.write_text("#!/bin/sh\nread line && exit 0\nexec sleep 1000\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(codegen_compiler, "COMPILES", 0.2)
    monkeypatch.setenv("CC", str(compiler))
    store_profile(flow)
    with pytest.raises(Errors) as raised:
        flowc.build(flow, tmp_path / "out")
    (fault,) = raised.value.diagnostics
    assert fault.code == "F306" and "has not ended after 0.2 s" in fault.message
    assert not (tmp_path / "out").exists()
