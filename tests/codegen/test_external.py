"""Networks as a library for C: programs in C that call them, what they compute, and what happens
when they cannot."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import flowc
import numpy as np
import onnx
import onnxruntime
import pytest
from flowc.cli import app
from flowc.driver.build.external import BuiltExternal
from flowc.driver.text import store
from flowc.interop.hopes.external import build_for_hopes
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Mapping, NetworkPlan, StagePlan
from flowc.networks.bands.net import read_net
from flowc.runtime.external import External, load
from flowc.runtime.tokens import TaskError
from onnx import TensorProto, helper
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write

COMPILER = shutil.which("cc") or ""
compiled = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

TWO = """
platform two { cpu core[2] }
mapping on two { Reader.digits -> core[0] until "layer4.out" | core[1] THREADS }
"""
#: Reads crops from standard input, writes scores to standard output.
READER = r"""
#include <stdio.h>
#include "digits_external.h"
int main(void)
{
    static float crop[READER_DIGITS_CROP_COUNT], scores[READER_DIGITS_SCORES_COUNT];
    if (reader_digits_init() != 0)
        return 3;
    while (fread(crop, sizeof crop, 1, stdin) == 1) {
        if (reader_digits_execute(crop, scores) != 0)
            return 4;
        fwrite(scores, sizeof scores, 1, stdout);
    }
    reader_digits_wrapup();
    return 0;
}
"""


def link(directory: Path, text: str, name: str = "main.c", *flags: str) -> Path:
    """Compile a program that uses the library of a build; warnings are errors."""
    library = next(p.stem for p in directory.glob("*_external.h"))
    source, program = directory.parent / name, directory.parent / f"{name}.out"
    source.write_text(text)
    compiler = "g++" if name.endswith(".cpp") else COMPILER
    command = [compiler, *STRICT, str(source), "-o", str(program), f"-I{directory}", *flags]
    command += [f"-L{directory}", f"-l{library}", f"-Wl,-rpath,{directory}", "-lpthread", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return program


def shim(directory: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [python, str(directory / "build_shim.py")]
    environment = {
        **os.environ,
        "CFLAGS": "-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror",
    }
    done = subprocess.run(
        command,
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    return done


def call(
    program: Path, data: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a program from another folder, with no environment that could help Python."""
    return subprocess.run(
        [str(program)],
        input=data,
        cwd="/",
        env=environment,
        capture_output=True,
        timeout=HANGS,
        check=False,
    )


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A copy of the example; a platform with two cores may be added."""
    shutil.copytree(
        ROOT / "examples" / "digits",
        tmp_path / "digits",
        ignore=shutil.ignore_patterns("*.json", "build"),
    )
    return tmp_path / "digits" / "digits.flow"


def crops(count: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((count, 1, 1, 28, 28)).astype(np.float32)


def expected(frames: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(ROOT / "examples" / "digits" / "digits.onnx"))
    return np.stack([session.run(["logits"], {"input": f})[0] for f in frames])


def built(flow: Path, platform: str = "host", name: str = "out") -> BuiltExternal:
    return build_for_hopes(flow, flow.parent.parent / name, platform=platform)


# -- what is computed ------------------------------------------------------------------------------
@compiled
@pytest.mark.parametrize("where", ["whole", "pin", "adapt", "mapping", "threads"])
def test_a_c_program_computes_what_onnx_runtime_computes(digits: Path, where: str) -> None:
    platform = "host"
    if where in ("pin", "adapt", "threads"):
        word = {"pin": "", "adapt": "adapt", "threads": "threads 2"}[where]
        digits.write_text(digits.read_text() + TWO.replace("THREADS", word))
        platform = "two"
    if where == "mapping":
        checked = flowc.check(digits)
        core = checked.platform.processors[0]
        plan = NetworkPlan("Reader.digits", (StagePlan((core,), "layer4.out"), StagePlan((core,))))
        store.save_mapping(checked.require(), Mapping("host", (), (), "test", (plan,)))
    done = built(digits, platform)
    stages = done.external.networks[0].stages
    assert [s.threads for s in stages] == {"whole": [1], "threads": [1, 2]}.get(where, [1, 1])
    assert {f"networks/{p.name}" for p in (done.directory / "networks").iterdir()} == {
        s.file for s in stages
    }
    shim(done.directory)
    frames = crops(3)
    ended = call(link(done.directory, READER, "main.c", "-std=c99"), frames.tobytes())
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == b""
    np.testing.assert_allclose(
        np.frombuffer(ended.stdout, np.float32).reshape(3, 1, 10),
        expected(frames),
        rtol=1e-4,
        atol=1e-5,
    )


def test_the_header_does_not_depend_on_the_mapping(digits: Path) -> None:
    whole = built(digits)
    digits.write_text(digits.read_text() + TWO.replace("THREADS", ""))
    cut = built(digits, "two", "cut")
    header = "digits_external.h"
    assert (whole.directory / header).read_text() == (cut.directory / header).read_text()
    assert [s.name for s in cut.external.networks[0].stages] == [
        "Reader.digits.stage1",
        "Reader.digits.stage2",
    ]


def test_ports_keep_the_order_of_the_text_when_stages_read_them_in_another(
    write: Write, tmp_path: Path
) -> None:
    """`late` is declared first, and read by the second stage only; `early` is made by the first
    one."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("late", "soon"))
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("sum", "twice")]
    nodes = [helper.make_node("Add", ["soon", "soon"], ["twice"]), helper.make_node("Relu", ["twice"], ["cut"]),
             helper.make_node("Neg", ["cut"], ["less"]), helper.make_node("Add", ["less", "late"], ["sum"])]  # fmt: skip
    save(tmp_path / "n.onnx", nodes, [x, y], outs)
    flow = write(
        "task In { out a: float32[4]  out b: float32[4] }  task Out { in a: float32[4]  in b: float32[4] }\n"
        'network Net from "n.onnx"  app A { i: In  net: Net  o: Out\n'
        "i.a -> net.late  i.b -> net.soon  net.sum -> o.a  net.twice -> o.b }\n"
        'platform two { cpu core[2] }  mapping on two { A.net -> core[0] until "cut" | core[1] }\n'
    )
    done = build_for_hopes(flow, tmp_path / "out", platform="two")
    network = done.external.networks[0]
    assert [p.name for p in (*network.inputs, *network.outputs)] == ["late", "soon", "sum", "twice"]
    assert len(network.stages) == 2
    (loaded,) = load(str(done.directory))
    loaded.init()
    late, soon = np.arange(4, dtype=np.float32), np.float32([-1, 1, -2, 2])
    total, twice = np.zeros(4, np.float32), np.zeros(4, np.float32)
    loaded.execute([memoryview(a) for a in (late, soon, total, twice)])
    assert twice.tolist() == (2 * soon).tolist()
    assert total.tolist() == (late - np.maximum(2 * soon, 0)).tolist()


# -- names and types -------------------------------------------------------------------------------
def save(
    path: Path, nodes: list[onnx.NodeProto], inputs: list[object], outputs: list[object]
) -> None:
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.save(model, path)


TYPES = {
    "bool": (TensorProto.BOOL, "Not"), "int64": (TensorProto.INT64, "Neg"), "uint8": (TensorProto.UINT8, "Identity"),
    "float16": (TensorProto.FLOAT16, "Identity"), "float64": (TensorProto.DOUBLE, "Neg"),
}  # fmt: skip
ODD = {
    "bool": "class",
    "int64": 'x */ " \\ {{',
    "uint8": "9",
    "float16": "stdout",
    "float64": "ünter",
}


@pytest.fixture
def odd(write: Write, tmp_path: Path) -> BuiltExternal:
    """Five networks without a task that has code, whose types and tensors are not the usual
    ones."""
    text, instances, arrows = [], [], []
    for kind, (number, op) in TYPES.items():
        name = ODD[kind]
        there = helper.make_tensor_value_info(name, number, [2, 3])
        back = helper.make_tensor_value_info("new", number, [2, 3])
        save(tmp_path / f"{kind}.onnx", [helper.make_node(op, [name], ["new"])], [there], [back])
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        text.append(
            f"task In{kind} {{ out x: {kind}[2, 3] }}  task Out{kind} {{ in x: {kind}[2, 3] }}"
        )
        text.append(
            f'/// Of {kind}: */ "\n network N{kind} from "{kind}.onnx" {{ in this from "{quoted}"  out new }}'
        )
        instances.append(f"i_{kind}: In{kind}  {kind}_net[1]: N{kind}  o_{kind}: Out{kind}")
        arrows.append(f"i_{kind} -> {kind}_net[0] -> o_{kind}")
    flow = write("\n".join(text) + "\napp A {\n" + "\n".join(instances + arrows) + "\n}\n")
    return build_for_hopes(flow.rename(flow.with_name("complex.flow")), tmp_path / "out")


CHECK = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "complex_external.h"
#define TRY(net, type, value, result) { \
    type from[NET_COUNT], to[NET_COUNT]; int k; \
    for (k = 0; k < NET_COUNT; k++) { from[k] = (type)(value); to[k] = 0; } \
    if (a_##net##_0_init() || a_##net##_0_execute(from, to)) return 1; \
    for (k = 0; k < NET_COUNT; k++) if (to[k] != (type)(result)) return 2; }
#define NET_COUNT A_BOOL_NET_0_THIS_COUNT

static int all(void)
{
    TRY(bool_net, bool, 0, 1)
    TRY(int64_net, int64_t, k - 3, 3 - k)
    TRY(uint8_net, uint8_t, 250 + k, 250 + k)
    TRY(float16_net, uint16_t, 0x3c00 + k, 0x3c00 + k)
    TRY(float64_net, double, k / 3.0, -(k / 3.0))
    return 0;
}

static void *again(void *status)
{
    int i;
    for (i = 0; i < 50; i++)
        if (all())
            *(int *)status = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    int failed[4] = {0, 0, 0, 0}, i;
    for (i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, again, &failed[i]);
    for (i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        if (failed[i])
            return 1;
    }
    a_bool_net_0_wrapup();
    /* What Python and the runtime want for themselves is not left to what this program starts. */
    if (getenv("OMP_NUM_THREADS") || getenv("LC_CTYPE") || A_INT64_NET_0_NEW_COUNT != 6)
        return 5;
    return 0;
}
"""


@compiled
@pytest.mark.parametrize("name", ["main.c", "main.cpp"])
def test_networks_of_any_name_and_type_are_called_from_several_threads(
    odd: BuiltExternal, name: str
) -> None:
    if name.endswith("cpp") and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    shim(odd.directory)
    ended = call(link(odd.directory, CHECK, name))
    assert (ended.returncode, ended.stderr) == (0, b"")


@compiled
def test_the_example_and_the_tasks_of_hopes_run(odd: BuiltExternal) -> None:
    shim(odd.directory)
    ended = call(link(odd.directory, (odd.directory / "example.c").read_text()))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(b": good\n") == 5
    frame = r"""
#include <stdio.h>
#include <string.h>
#define TASK_CODE_BEGIN
#define TASK_CODE_END
#define STATIC static
#define TASK_INIT static void begin(int TASK_ID)
#define TASK_GO static void go(void)
#define TASK_WRAPUP static void end(void)
static unsigned char sent[64];
static size_t sizes;
static int PORT_INITIALIZE(int task, const char *name) { return strcmp(name, "this_") == 0 ? task : task + 1; }
static void MQ_RECEIVE(int port, unsigned char *data, size_t size) { memset(data, port, size); }
static void MQ_SEND(int port, unsigned char *data, size_t size) { sizes = size + port; memcpy(sent, data, size); }
"""
    main = "\nint main(void) { begin(7); go(); end(); return sizes == 6 + 8 && sent[0] == 7 && sent[5] == 7 ? 0 : 1; }\n"
    for name in ("task.c", "task.cpp") if shutil.which("g++") else ("task.c",):
        text = frame + (odd.directory / "cic" / "a_uint8_net_0.cic").read_text() + main
        ended = call(link(odd.directory, text, name))
        assert (ended.returncode, ended.stderr) == (0, b"")


def test_scripts_are_valid_on_old_boards(odd: BuiltExternal) -> None:
    for script in ("build_shim.py", "shim.py"):
        ast.parse((odd.directory / script).read_text(), feature_version=(3, 8))


def test_what_surrounds_a_network_is_left_out(write: Write, examples: Path, tmp_path: Path) -> None:
    shutil.copy(examples / "digits" / "digits.onnx", tmp_path)
    flow = write(
        "task In { out a: uint8[28, 28] }  task Out { in a: int64 }\n"
        'network Net from "digits.onnx" { in a: uint8[28, 28] from "input" pre "f.py:f"\n'
        '  out b: int64 from "logits" post "f.py:f"  batch 4 }\n'
        "app A { i: In  net: Net  o: Out   i -> net -> o }\n",
        f_py="def f(a): return a\n",
    )
    done = build_for_hopes(flow, tmp_path / "out")
    (network,) = done.external.networks
    assert [(p.name, p.tensor.shape) for p in (*network.inputs, *network.outputs)] == [
        ("input", (1, 1, 28, 28)),
        ("logits", (1, 10)),
    ]
    assert (
        "int a_net_execute(const float *input, float *logits);"
        in (done.directory / "app_external.h").read_text()
    )
    assert not (done.directory / "tasks").exists()
    loaded: External = load(str(done.directory))[0]
    loaded.init()
    frame, scores = crops(1), np.zeros((1, 10), np.float32)
    loaded.execute([memoryview(frame).cast("B"), memoryview(scores).cast("B")])
    np.testing.assert_allclose(scores, expected(frame)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("states", ["", "scenario S { initial state a { run A   A.n = two } }\n"])
def test_every_variant_of_a_network_has_functions(
    write: Write, tmp_path: Path, states: str
) -> None:
    for name, factor in (("one", 1), ("two", 2), ("four", 4)):
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in "xy"]
        weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [factor, 0, 0, factor])
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Abs", ["h"], ["y"]),
        ]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            tmp_path / f"{name}.onnx",
        )
    flow = write(
        "type V = float32[1, 2]\ntask In { out v: V }  task Out { in v: V }\n"
        'network Plain from "one.onnx"\n'
        'network Net { in x: V   out y: V   variant two from "two.onnx"   variant four from "four.onnx" }\n'
        f"app A {{ i: In  p: Plain  n: Net  o: Out   i -> p -> n -> o }}\n{states}platform duo {{ cpu core[2] }}\n"
        'mapping on duo { A.n.four -> core[0] until "h" | core[1] }\n'
    )
    made = build_for_hopes(flow, tmp_path / "out", platform="duo")
    assert {n.name: len(n.stages) for n in made.external.networks} == {
        "A.p": 1,
        "A.n.two": 1,
        "A.n.four": 2,
    }
    header = (tmp_path / "out" / "app_external.h").read_text()
    for network, name, factor in zip(
        load(str(tmp_path / "out")), ("p", "n_two", "n_four"), (1, 2, 4), strict=True
    ):
        assert f"int a_{name}_execute(const float *x, float *y);" in header
        given, results = np.full((1, 2), 3, np.float32), np.zeros((1, 2), np.float32)
        network.init()
        network.execute([memoryview(given).cast("B"), memoryview(results).cast("B")])
        network.wrapup()
        assert results.tolist() == [[3 * factor] * 2]


# -- failures --------------------------------------------------------------------------------------
FAILURES = r"""
#include <stdio.h>
#include <string.h>
#include "digits_external.h"
static float crop[READER_DIGITS_CROP_COUNT + 1], scores[READER_DIGITS_SCORES_COUNT];
#define SAY(call) printf("%d %s\n", call, reader_digits_error())
int main(void)
{
    float *crooked = (float *)((char *)crop + 1);
    scores[0] = 42;
    reader_digits_wrapup();
    SAY(reader_digits_execute(crop, scores));
    SAY(reader_digits_init());
    SAY(reader_digits_init());
    SAY(reader_digits_execute(NULL, scores));
    SAY(reader_digits_execute(crop, NULL));
    printf("%g\n", scores[0]);
    SAY(reader_digits_execute(crooked, scores));
    reader_digits_wrapup();
    reader_digits_wrapup();
    SAY(reader_digits_execute(crop, scores));
    SAY(reader_digits_init());
    SAY(reader_digits_execute(crop, scores));
    return 0;
}
"""


@compiled
def test_wrong_calls_are_errors_and_change_nothing(digits: Path) -> None:
    done = built(digits)
    shim(done.directory)
    ended = call(link(done.directory, FAILURES))
    assert ended.returncode == 0
    assert ended.stdout.decode().splitlines() == [
        "1 not initialized: call init first",
        "0 ",
        "0 ",
        "1 the pointer for port `crop` is NULL",
        "1 the pointer for port `scores` is NULL",
        "42",
        "0 ",
        "1 not initialized: call init first",
        "0 ",
        "0 ",
    ]
    assert ended.stderr.decode().splitlines() == [
        "flowc: reader_digits_execute: not initialized: call init first",
        "flowc: reader_digits_execute: the pointer for port `crop` is NULL",
        "flowc: reader_digits_execute: the pointer for port `scores` is NULL",
        "flowc: reader_digits_execute: not initialized: call init first",
    ]


@compiled
def test_what_cannot_be_loaded_is_named(digits: Path) -> None:
    digits.write_text(digits.read_text() + TWO.replace("THREADS", ""))
    done = built(digits, "two")
    shim(done.directory)
    program = link(done.directory, READER)
    second = done.directory / done.external.networks[0].stages[1].file
    whole = second.read_bytes()
    second.write_bytes(whole[:100])
    ended = call(program)
    assert ended.returncode == 3
    said = ended.stderr.decode()
    assert said.startswith(
        "flowc: reader_digits_init: task Reader.digits.stage2 cannot start: ONNX Runtime refuses "
    )
    second.unlink()
    ended = call(program)
    assert ended.returncode == 3
    assert (
        f"task Reader.digits.stage2 cannot start: networks/{second.name} is missing in "
        in ended.stderr.decode()
    )
    second.write_bytes(whole)
    assert call(program).returncode == 0
    (done.directory / "external.json").write_text("{")
    ended = call(program)
    assert ended.returncode == 3
    assert f"{done.directory}/external.json cannot be read" in ended.stderr.decode()
    shutil.rmtree(done.directory / "runtime")
    ended = call(program)
    assert ended.returncode == 3
    assert b"runtime/__init__.py" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_the_description_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "external.json").write_text(json.dumps({"version": 2, "networks": []}))
    with pytest.raises(TaskError, match=r"external\.json is of another version of flowc"):
        load(str(tmp_path))


def test_a_frame_that_fails_changes_no_output(digits: Path) -> None:
    done = built(digits)
    path = done.directory / "external.json"
    path.write_text(path.read_text().replace('"dtype": "float32"', '"dtype": "float64"', 1))
    (loaded,) = load(str(done.directory))
    loaded.init()
    assert loaded.sizes == [28 * 28 * 8, 40]
    scores = np.full((1, 10), 42, np.float32)
    with pytest.raises(TaskError, match=r"task Reader.digits failed: .*float"):
        loaded.execute([bytes(28 * 28 * 8), memoryview(scores).cast("B")])
    assert (scores == 42).all()
    path.write_text(
        path.read_text().replace('"float64"', '"float32"').replace("      10\n", "      11\n")
    )
    (loaded,) = load(str(done.directory))
    loaded.init()
    scores = np.full((1, 11), 42, np.float32)
    with pytest.raises(
        TaskError, match=r"task Reader.digits returned float32\[1, 10\] for port `scores`"
    ):
        loaded.execute([bytes(28 * 28 * 4), memoryview(scores).cast("B")])
    assert (scores == 42).all()


@compiled
def test_the_library_belongs_to_the_environment_that_made_it(digits: Path, tmp_path: Path) -> None:
    """A virtual environment whose libraries stand elsewhere; another Python in variables and on the
    path; and its end."""
    done = built(digits)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")],
        check=True,
        timeout=HANGS,
    )
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "more.pth").write_text(
        "\n".join(p for p in sys.path if p.endswith("-packages")) + "\n"
    )
    shim(done.directory, str(tmp_path / "venv" / "bin" / "python"))
    program = link(done.directory, READER)
    frames = crops(1)
    other = {
        "PYTHONHOME": "/nowhere",
        "PYTHONPATH": str(tmp_path),
        "PATH": str(tmp_path),
        "LANG": "C",
    }
    (tmp_path / "numpy.py").write_text("raise ImportError('the wrong numpy')\n")
    ended = call(program, frames.tobytes(), **other)
    assert ended.returncode == 0, ended.stderr
    moved = done.directory.rename(tmp_path / "moved ä")
    ended = call(program, frames.tobytes(), LD_LIBRARY_PATH=str(moved))
    assert ended.returncode == 0, ended.stderr
    shutil.rmtree(tmp_path / "venv")
    ended = call(program, frames.tobytes(), LD_LIBRARY_PATH=str(moved))
    assert ended.returncode == 3
    assert ended.stderr.decode().endswith(
        "venv/bin/python is not there any more: run build_shim.py again\n"
    )


PLUGIN = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words)
{
    static float crop[784], scores[10];
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    int (*init)(void), (*execute)(const float *, float *);
    if (count != 2 || !library)
        return 2;
    *(void **)&init = dlsym(library, "reader_digits_init");
    *(void **)&execute = dlsym(library, "reader_digits_execute");
    return init() || execute(crop, scores);
}
"""


@compiled
def test_the_library_can_be_a_plugin(digits: Path) -> None:
    done = built(digits)
    shim(done.directory)
    program = done.directory.parent / "plugin"
    (done.directory.parent / "plugin.c").write_text(PLUGIN)
    command = [
        COMPILER,
        "-Wall",
        str(done.directory.parent / "plugin.c"),
        "-o",
        str(program),
        "-ldl",
    ]
    subprocess.run(command, check=True, timeout=HANGS)
    ended = subprocess.run(  # the path is relative, and the folder that it is relative to
        [program, "out/libdigits_external.so"],
        cwd=done.directory.parent,
        capture_output=True,
        timeout=HANGS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


BOTH = r"""
#include <pthread.h>
#include "digits_external.h"
#include "other_external.h"
static pthread_barrier_t gate;
static void *one(void *status)
{
    static float crop[READER_DIGITS_CROP_COUNT], scores[READER_DIGITS_SCORES_COUNT];
    pthread_barrier_wait(&gate);
    *(int *)status = reader_digits_init() || reader_digits_execute(crop, scores);
    return NULL;
}
static void *two(void *status)
{
    static float crop[WRITER_DIGITS_CROP_COUNT], scores[WRITER_DIGITS_SCORES_COUNT];
    pthread_barrier_wait(&gate);
    *(int *)status = writer_digits_init() || writer_digits_execute(crop, scores);
    return NULL;
}
int main(void)
{
    pthread_t threads[2];
    int failed[2] = {1, 1};
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&threads[0], NULL, one, &failed[0]);
    pthread_create(&threads[1], NULL, two, &failed[1]);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return failed[0] || failed[1];
}
"""


@compiled
def test_two_libraries_start_at_once_in_one_program(digits: Path) -> None:
    first = built(digits)
    other = digits.with_name("other.flow")
    other.write_text(digits.read_text().replace("app Reader", "app Writer"))
    second = built(other, name="second").directory
    for directory in (first.directory, second):
        shim(directory)
    flags = (f"-I{second}", f"-L{second}", "-lother_external", f"-Wl,-rpath,{second}")
    program = link(first.directory, BOTH, "both.c", *flags)
    for _ in range(5):
        ended = call(program)
        assert (ended.returncode, ended.stderr) == (0, b"")


# -- the verb --------------------------------------------------------------------------------------
def test_build_writes_it_and_says_what_to_call(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(digits.parent)
    digits.write_text(digits.read_text() + TWO.replace("THREADS", ""))
    command = ["build", "digits.flow", "--target", "hopes-external", "--platform", "two"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "build/digits-external",
        "  Reader.digits, 2 stages: reader_digits_init, _execute, _wrapup, _error",
        "`python3 build/digits-external/build_shim.py` makes libdigits_external.so",
    ]
    said = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert said["directory"] == "build/digits-external" and not said["fresh"]
    assert said["networks"]["Reader.digits"]["function"] == "reader_digits"
    assert CliRunner().invoke(app, [*command[:3], "nothing"]).exit_code == 2


# -- the directory ---------------------------------------------------------------------------------
@compiled
def test_a_rebuild_keeps_the_library_as_long_as_it_fits(digits: Path) -> None:
    first = built(digits)
    said = shim(first.directory).stdout
    library = first.directory / "libdigits_external.so"
    assert said.splitlines()[0] == str(library)
    call(link(first.directory, READER))  # leaves __pycache__
    again = built(digits)
    assert first.fresh and not again.fresh and library.is_file()
    assert again.digest == first.digest
    digits.write_text(digits.read_text().replace("/// A small CNN", "/// A tiny CNN"))
    changed = built(digits)
    assert changed.fresh and changed.digest != first.digest
    assert not library.exists()


def test_a_missing_library_or_compiler_is_named(digits: Path, tmp_path: Path) -> None:
    done = built(digits)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")],
        check=True,
        timeout=HANGS,
    )
    command = [str(tmp_path / "bare" / "bin" / "python"), str(done.directory / "build_shim.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    assert ended.returncode == 1
    assert "has no cffi and no numpy and no onnxruntime: run `" in ended.stderr
    command[0] = sys.executable
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "CC": "no-such-compiler"},
        check=False,
        timeout=HANGS,
    )
    assert ended.returncode == 1
    assert "there is no C compiler `no-such-compiler`" in ended.stderr


def test_a_text_without_networks_is_refused(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "examples" / "hello",
        tmp_path / "hello",
        ignore=shutil.ignore_patterns("*.json", "build"),
    )
    with pytest.raises(Errors) as faults:
        build_for_hopes(tmp_path / "hello" / "hello.flow", tmp_path / "out")
    (fault,) = faults.value.diagnostics
    assert (
        fault.code == "F611"
        and "no app of `hello.flow` has a network" in fault.message
        and fault.help
    )
    (tmp_path / "types.flow").write_text("type T = int8\n")
    with pytest.raises(Errors) as faults:
        build_for_hopes(tmp_path / "types.flow", tmp_path / "out")
    assert [d.code for d in faults.value.diagnostics] == ["F611"]
    assert not (tmp_path / "out").exists()


def test_faults_of_the_text_stop_the_build(digits: Path) -> None:
    digits.write_text(digits.read_text().replace("digits: Digits", "digits: Digit"))
    with pytest.raises(Errors) as faults:
        built(digits)
    assert "F101" in [d.code for d in faults.value.diagnostics]


def test_bands_make_the_same(digits: Path) -> None:
    """A network in bands is called like any other one; its outputs have the shapes of the plan."""
    layer = read_net(digits.parent / "digits.onnx", {"input": (1, 1, 28, 28)}).groups[0].makes[0]
    digits.write_text(
        digits.read_text()
        + f'mapping on host {{ Reader.digits -> cpu[0] bands 2 until "{layer}" }}\n'
    )
    directory = built(digits).directory
    (network,) = load(str(directory))
    assert json.loads((directory / "external.json").read_text())["networks"][0]["stages"][0][
        "bands"
    ]
    frames, scores = crops(2), np.empty((1, 10), np.float32)
    network.init()
    for frame, wanted in zip(frames, expected(frames), strict=True):
        network.execute([frame, scores])
        np.testing.assert_allclose(scores, wanted, 1e-5, 1e-6)
    network.wrapup()


def test_what_a_cpu_does_not_do_is_a_warning(digits: Path) -> None:
    digits.write_text(digits.read_text().replace("    batch 1\n", "    batch 1   precision fp16\n"))
    assert [(d.code, d.severity) for d in built(digits).diagnostics] == [("F608", "warning")]
