"""CUDA tasks and networks on a GPU in programs in C++, without a GPU.

CUDA's driver is a stand-in (`tests/support/standins/libcuda.cpp`), which does everything as late as
it may; kernels are compiled for the CPU. What these tests cannot show is said in docs/native.md.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import pytest
from flowc.codegen import nvrtc
from flowc.codegen.native import kernels
from flowc.codegen.native.engines import onnxruntime_library
from flowc.codegen.native.files import RUNTIME, native_files
from flowc.driver.execute.run import test as run_harness
from flowc.driver.plan.program import deployment
from flowc.driver.text.check import prepare
from flowc.model.diagnostic import Errors
from onnx import TensorProto, helper

from builds import HANGS, Write
from native_compiler import LIMIT, in_a_hurry
from standins import cuda

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
STAND_INS = Path(cuda.__file__).parent
#: Where the header of CUDA's driver may be.
INCLUDES = [
    *(
        Path(os.environ[name], "include")
        for name in ("CUDA_HOME", "CUDA_PATH")
        if name in os.environ
    ),
    Path("/usr/local/cuda/include"),
]
PC = "platform pc { cpu core[2]  gpu cuda compute 9.0 }\n"
#: Elements of a token: few, or so many that channels are pinned.
SIZES = (20000, 3)
PROGRAMS = int(os.environ.get("FLOWC_FUZZ", "1"))
KERNELS = """
extern "C" __global__ void affine(const int *x, int *y, int a, int b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + b;
}
extern "C" __global__ void halves(const int *x, int *half, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        half[i] = x[i] >> 1;
}
extern "C" __global__ void add(const int *x, const int *z, int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + z[i];
}
extern "C" __global__ void pile(const int *x, int *sum, int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = sum[i] += x[i];
}
"""
#: A chain on the GPU, with a copy for the host.
CHAIN = """type Row = int32[20000]
task Source { out y: Row   state n: int64   c "t.c:source" }
task Affine(a: int, b: int) { in x: Row   out y: Row
    on cpu c "t.c:affine"
    on gpu cuda "k.cu:affine" (x, y, a, b, 20000)   grid 79   block 256 }
task Sink { in x: Row   c "t.c:sink" }
app Chain { s: Source   a: Affine(a = 2, b = 1)   b: Affine(a = 3, b = 0)   t: Sink   u: Sink
    s -> a -> b -> t   a -> u }
mapping on pc { Chain.a -> cuda   Chain.b -> cuda }
"""
CHAIN_C = """#include <stdio.h>
int source(void *state, int32_t *y, const void *p)
{
    source_state *s = state;
    (void)p;
    for (int i = 0; i < 20000; i++)
        y[i] = (int32_t)s->n + i;
    s->n++;
    return 0;
}
int affine(void *state, const int32_t *x, int32_t *y, const affine_params *p)
{
    (void)state;
    for (int i = 0; i < 20000; i++)
        y[i] = (int32_t)p->a * x[i] + (int32_t)p->b;
    return 0;
}
int sink(void *state, const int32_t *x, const void *p)
{
    (void)state, (void)p;
    printf("%d %d\\n", x[0], x[19999]);
    return 0;
}
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the driver that is none."""
    folder = tmp_path_factory.mktemp("driver")
    compile_library(STAND_INS / "libcuda.cpp", folder / "libcuda.so.1")
    return folder


def compile_library(source: Path, library: Path) -> None:
    command = [os.environ.get("CXX", "g++"), "-std=gnu++17", "-O1", "-Wall", "-shared", "-fPIC"]
    command += ["-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)


@pytest.fixture(scope="module", autouse=True)
def _machine_code_for_the_stand_in(stand_in: Path) -> Iterator[None]:
    """In the place of NVRTC; and programs find the stand-in."""

    class Here:
        def supports(self, compute: tuple[int, int]) -> bool:
            return True

    def compiled(path: Path, compute: tuple[int, int]) -> tuple[bytes, str]:
        names = sorted(set(re.findall(r"__global__ void (\w+)", path.read_text())))
        library, barriers = cuda._compiled(str(path), tuple(names), compute)
        return f"flowc stand-in\n{library._name}\n{int(barriers)}\n".encode(), ""

    kernels._compiled.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "libraries", lambda: (Here(),))
        patched.setattr(kernels, "compiled", compiled)
        patched.setenv("LD_LIBRARY_PATH", str(stand_in))
        yield
    kernels._compiled.cache_clear()


def built(text: Path, output: Path) -> Path:
    flowc.build(text, output, platform="pc", native=True, measure=False)
    return output


def run(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Its exit status, and what it prints."""
    done = subprocess.run(
        [build / "main", *words],
        cwd="/",
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, _machine_code_for_the_stand_in: None) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    for name, content in (("chain.flow", CHAIN + PC), ("t.c", CHAIN_C), ("k.cu", KERNELS)):
        (folder / name).write_text(content)
    return built(folder / "chain.flow", folder / "build")


# -- the driver ------------------------------------------------------------------------------------
def test_functions_are_those_of_cuda(tmp_path: Path) -> None:
    folder = next((f for f in INCLUDES if (f / "cuda.h").is_file()), None)
    if folder is None:
        pytest.skip("there is no cuda.h")
    check = tmp_path / "check.cpp"
    numbers = (RUNTIME / "gpu.cpp").read_text()
    known = {
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": r" MAJOR = (\d+)",
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": r" MINOR = (\d+)",
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": r" MOST_DYNAMIC_SHARED = (\d+)",
        "CUDA_ERROR_NO_BINARY_FOR_GPU": r" NO_BINARY_FOR_GPU = (\d+)",
        "CU_STREAM_NON_BLOCKING": r" NON_BLOCKING = (\d+)",
    }
    lines = []
    for name, pattern in known.items():
        found = re.search(pattern, numbers)
        assert found is not None
        lines.append(f'static_assert({name} == {found[1]}, "");')
    check.write_text(
        "#include <cuda.h>\n#include <type_traits>\n"
        "#define FLOWC_DRIVER(name, ...) static_assert(std::is_same<decltype(&name),"
        ' CUresult (*)(__VA_ARGS__)>::value, "");\n'
        '#include "cuda_driver.hpp"\n' + "\n".join(lines)
    )
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{folder}", f"-I{RUNTIME}", str(check)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    check.write_text(check.read_text().replace("decltype(&name)", "decltype(name)"))
    assert subprocess.run(command, capture_output=True, timeout=LIMIT).returncode


def test_streams_have_the_urgency_of_their_apps(
    tmp_path: Path, _machine_code_for_the_stand_in: None
) -> None:
    """The most urgent one has the smallest number."""
    paced = CHAIN.replace("app Chain {", "app Chain { period 100 ms")
    other = paced[paced.index("app Chain") :].replace("Chain", "Other").replace("100 ms", "40 ms")
    platform = PC.replace("gpu cuda", "gpu cuda scheduler priority")
    for name, content in (("t.c", CHAIN_C), ("k.cu", KERNELS)):
        (tmp_path / name).write_text(content)
    (tmp_path / "two.flow").write_text(f"{paced}{other}{platform}")
    build = built(tmp_path / "two.flow", tmp_path / "build")
    noted = tmp_path / "streams"
    status, _, said = run(build, "--frames", "2", "--quiet", FLOWC_STANDIN_STREAMS=str(noted))
    assert status == 0, said
    assert set(noted.read_text().split()) == {"-1", "-2"}


# -- what it computes ------------------------------------------------------------------------------
def test_a_chain_stays_on_the_gpu(chain: Path, tmp_path: Path) -> None:
    """Its tokens, the times of the device, and nothing that is left or unordered."""
    text = (chain / "main.cpp").read_text()
    assert text.count("flow::GpuArray<int32_t> ") == 1  # between both; the rest are channels
    status, out, said = run(chain, "--frames", "3", "--quiet", "--report", str(tmp_path / "r.json"))
    assert status == 0 and said == "", said
    # two sinks on one core: lines of both
    wanted = [f"{3 * (2 * n + 1)} {3 * (2 * (n + 19999) + 1)}" for n in range(3)]
    wanted += [f"{2 * n + 1} {2 * (n + 19999) + 1}" for n in range(3)]
    assert sorted(out.splitlines()) == sorted(wanted)
    tasks = json.loads((tmp_path / "r.json").read_text())["tasks"]
    of_gpu = {name: task for name, task in tasks.items() if name in ("Chain.a", "Chain.b")}
    assert {task["mean_us"] for task in of_gpu.values()} == {250.0}
    assert {task["firings"] for task in of_gpu.values()} == {3}


def program(rng: random.Random, size: int) -> tuple[str, str]:
    """A text with a chain of tasks at random rates, which splits and joins; and its code in C."""
    text, app, wires, pins = [], [], [], []
    code = ["#include <stdint.h>\n"]
    rate = rng.choice((1, 1, 2, 3))

    def in_c(name: str, ports: str, count: int, line: str) -> None:
        code.append(
            f"int {name}(void *state, {ports}, const void *p)\n{{\n    (void)state, (void)p;\n"
            f"    for (int i = 0; i < {count}; i++) {{ {line} }}\n    return 0;\n}}\n"
        )

    text.append(
        f'task Source {{ out y: int32[{size}] rate {rate}   state n: int64   c "t.c:source" }}'
    )
    in_c("source", "int32_t *y", size * rate, "y[i] = (int32_t)(*(int64_t *)state)++ * 7 % 1000;")
    app.append("source: Source")
    before = "source.y"
    for k in range(rng.randint(2, 5)):
        kind = rng.choice(("affine", "affine", "add", "pile", "halves", "host"))
        n = rng.choice((1, 1, 2, 3))
        count = size * n
        ports = f"in x: int32[{size}] rate {n}   out y: int32[{size}] rate {n}"
        launch = f"grid ceil({count} / 64)   block 64"
        on_cpu = f'on cpu c "t.c:t{k}"' + ("" if kind == "pile" else "   stateless")
        of = "const int32_t *x, int32_t *y"
        delay = rng.choice((0, 0, 0, n, 3 * n))
        if kind == "affine":
            a, b = rng.randint(-3, 3), rng.randint(-9, 9)
            text.append(
                f'task T{k} {{ {ports}   {on_cpu}\n    on gpu cuda "k.cu:affine" (x, y, {a}, {b},'
                f" {count}) {launch} }}"
            )
            in_c(f"t{k}", of, count, f"y[i] = {a} * x[i] + {b};")
        elif kind == "add":
            text.append(
                f"task T{k} {{ in z: int32[{size}] rate {n}   {ports}   {on_cpu}\n"
                f'    on gpu cuda "k.cu:add" (x, z, y, {count}) {launch} }}'
            )
            in_c(f"t{k}", f"const int32_t *z, {of}", count, "y[i] = x[i] + z[i];")
        elif kind == "pile":
            text.append(
                f"task T{k} {{ {ports}   state sum: int32[{count}]   {on_cpu}\n"
                f'    on gpu cuda "k.cu:pile" (x, sum, y, {count}) {launch} }}'
            )
            in_c(f"t{k}", of, count, "y[i] = ((int32_t *)state)[i] += x[i];")
        elif kind == "halves":
            text.append(
                f"task T{k} {{ {ports}   scratch half: int32[{count}]   {on_cpu}\n"
                f'    on gpu cuda "k.cu:halves" (x, half, {count}) {launch}\n'
                f'    on gpu cuda "k.cu:add" (x, half, y, {count}) {launch} }}'
            )
            in_c(f"t{k}", of, count, "y[i] = x[i] + (x[i] >> 1);")
        else:
            text.append(f'task T{k} {{ {ports}   c "t.c:t{k}" }}')
            in_c(f"t{k}", of, count, "y[i] = x[i] + 1;")
        app.append(f"t{k}: T{k}")
        hop = f" -> delay {delay} = {rng.randint(-5, 5)}" if delay else ""
        if kind != "add" and rng.random() < 0.4:
            hop += f" -> {rng.choice(('repeat', 'last'))} {rng.randint(2, 3)} of 1"
        wires.append(f"{before}{hop} -> t{k}.x")
        if kind == "add":
            wires.append(f"{before} -> t{k}.z")
        if kind != "host":
            alike = "" if kind == "pile" else rng.choice(("", "", " streams 2"))
            pins.append(f"A.t{k} -> cuda{alike}")
        if rng.random() < 0.4:
            app.append(f"side{k}: Sink")
            wires.append(f"t{k}.y -> side{k}.x")
        before = f"t{k}.y"
    text.append(f'task Sink {{ in x: int32[{size}]   c "t.c:sink" }}')
    in_c("sink", "const int32_t *x", 0, "(void)x;")
    app.append("sink: Sink")
    wires.append(f"{before} -> sink.x")
    joined = "\n    ".join([*app, *wires])
    mapping = f"mapping on pc {{ {'  '.join(pins)} }}"
    return "\n".join([*text, f"app A {{\n    {joined}\n}}", PC + mapping]), "".join(code)


def require_agreement(text: Path, build: Path) -> None:
    """The program agrees with the sequential reference."""
    tested = run_harness(
        text, build, platform="pc", native=True, measure=False, frames=4, quiet=True
    )
    assert tested.status == 0, tested.tests


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs_agree_with_the_reference(write: Write, tmp_path: Path, seed: int) -> None:
    """What every firing reads and makes."""
    text, code = program(random.Random(seed), SIZES[seed % 2])
    require_agreement(write(text, t_c=code, k_cu=KERNELS), tmp_path / "build")


#: What lies between two frames goes on from one state to the other.
STATES = """
scenario S {
    event go
    initial state fast { run A }
    state slow { run A period 7 ms }
    fast -> slow on go   slow -> fast on go
}
"""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs_with_states_agree_with_the_reference(
    write: Write, tmp_path: Path, seed: int
) -> None:
    text, code = program(random.Random(f"states {seed}"), SIZES[1])
    require_agreement(write(text + STATES, t_c=code, k_cu=KERNELS), tmp_path / "build")


# -- how it fails ----------------------------------------------------------------------------------
def test_a_failing_kernel_is_named(chain: Path) -> None:
    """Without --strict what is under way: it fails later than it happens."""
    fails = {"FLOWC_STAND_IN_FAIL": "affine:4"}
    status, _, said = run(chain, "--frames", "9", "--quiet", "--strict", **fails)
    why = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (kernel affine)"
    assert status == 1 and f"task Chain.b failed at firing 1: {why}" in said, said
    status, _, said = run(chain, "--frames", "9", "--quiet", **fails)
    assert status == 1 and f"task Chain.b failed at firing 1: {why}; in Chain.b" in said, said


def test_firings_that_nothing_waits_for_are_counted(write: Write, tmp_path: Path) -> None:
    """What the last firing makes is for a frame that does not come."""
    late = CHAIN.replace("a -> b -> t   a -> u", "a -> delay 1 -> b -> t").replace("u: Sink", "")
    build = built(write(late + PC, t_c=CHAIN_C, k_cu=KERNELS), tmp_path / "build")
    report = tmp_path / "r.json"
    status, out, said = run(build, "--frames", "2", "--quiet", "--report", str(report))
    assert (status, out, said) == (0, "0 0\n3 119997\n", "")
    assert json.loads(report.read_text())["tasks"]["Chain.a"]["firings"] == 2
    status, _, said = run(build, "--frames", "2", "--quiet", FLOWC_STAND_IN_FAIL="affine:4")
    assert status == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in said


def test_without_a_gpu_it_says_so(chain: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none.c").write_text("int none;")
    compile_library(tmp_path / "none.c", tmp_path / "none/libcuda.so.1")
    status, _, said = run(chain, "--frames", "1", LD_LIBRARY_PATH=str(tmp_path / "none"))
    why = "no NVIDIA GPU can be used here (libcuda.so.1 has no cuInit)"
    assert status == 1 and said.rstrip().endswith(f"Chain.a failed: cannot start: {why}")


def test_kernels_for_another_gpu_are_refused(chain: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/k.sm_90.cubin").write_bytes(b"\x7fELF")
    status, _, said = run(chain, "--frames", "1", FLOWC_HOME=str(tmp_path))
    assert status == 1 and "k.sm_90.cubin: CUDA_ERROR_NO_BINARY_FOR_GPU" in said
    assert "(Stand-in has compute capability 9.0)" in said


# -- networks --------------------------------------------------------------------------------------
NETWORK = """
task Feed { out x: float32[1, 3]   state n: int64   c "t.c:feed" }
task Twice { in x: float32[1, 3]   out y: float32[1, 3]   on gpu cuda "k.cu:twice" (x, y)   grid 1   block 3 }
network Net from "n.onnx" { in x: float32[1, 3] from "x"   out y: float32[1, 3] from "y" }
task Show { in y: float32[1, 3]   c "t.c:show" }
app A { feed: Feed   one: Twice   net: Net   two: Twice   show: Show   feed -> one -> net -> two -> show }
mapping on pc { A.net -> cuda }
"""
NETWORK_C = """#include <stdio.h>
int feed(void *state, float *x, const void *p)
{
    feed_state *s = state;
    (void)p;
    for (int i = 0; i < 3; i++)
        x[i] = (float)(s->n + i);
    s->n++;
    return 0;
}
int show(void *state, const float *y, const void *p)
{
    (void)state, (void)p;
    printf("%g %g %g\\n", y[0], y[1], y[2]);
    return 0;
}
"""
TWICE = 'extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }'


WEIGHTS = np.arange(9, dtype=np.float32).reshape(3, 3)


def with_network(write: Write, platform: str) -> Path:
    """A text with a network between kernels, and its file."""
    text = write(NETWORK + platform, t_c=NETWORK_C, k_cu=TWICE)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    initial = [onnx.numpy_helper.from_array(WEIGHTS, "w")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], initial)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opset), text.parent / "n.onnx")
    return text


def test_a_network_runs_on_the_gpu(write: Write, tmp_path: Path) -> None:
    """ONNX Runtime's provider, between kernels: it is asked for, and refused where it is not."""
    build = built(with_network(write, PC), tmp_path / "net")
    assert not (build / "lib").exists()
    real = str(onnxruntime_library())
    status, _, said = run(build, "--frames", "3", FLOWC_ONNXRUNTIME=real)
    assert status == 1 and "CUDA execution provider is not enabled in this build" in said
    library = tmp_path / "onnxruntime.so"
    compile_library(STAND_INS / "libonnxruntime_cuda.cpp", library)
    variables = {"FLOWC_ONNXRUNTIME": str(library), "FLOWC_STAND_IN_ONNXRUNTIME": real}
    status, out, said = run(build, "--frames", "3", "--quiet", **variables)
    assert (status, said) == (0, "stand-in: 1 on the GPU\n")
    wanted = [4 * (np.arange(n, n + 3, dtype=np.float32) @ WEIGHTS) for n in range(3)]
    assert out == "".join(f"{y[0]:g} {y[1]:g} {y[2]:g}\n" for y in wanted)


def test_tensorrt_is_refused_with_ways_out(write: Write, tmp_path: Path) -> None:
    platform = PC.replace("compute 9.0", 'compute 9.0   tensorrt "10.3"')
    with pytest.raises(Errors) as refusal:
        built(with_network(write, platform), tmp_path / "build")
    (fault,) = refusal.value.diagnostics
    assert fault.code == "F661" and "`A.net` runs in TensorRT" in fault.message
    assert "leave `tensorrt` out of the platform" in fault.help


# -- what is refused -------------------------------------------------------------------------------
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"Chain.b -> cuda": "Chain.b -> cuda graph"}, "`Chain.b` is recorded as a graph"),
    ({" compute 9.0": ""}, "give it `compute`"),
    ({"block 256 }": "block 256   on error skip }"}, "`Chain.b` goes on after errors, on a GPU"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_is_not_supported_is_refused(
    write: Write, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    text = CHAIN + PC
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(Errors) as refusal:
        built(write(text, t_c=CHAIN_C, k_cu=KERNELS), tmp_path / "build")
    found = [d for d in refusal.value.diagnostics if message in d.message]
    assert found and all(d.code == "F661" for d in found), refusal.value.diagnostics
    assert not (tmp_path / "build").exists()


def test_measuring_needs_code_in_c(write: Write, tmp_path: Path) -> None:
    """A reference in Python stands for a kernel where its times are measured on a CPU."""
    text = CHAIN.replace('on cpu c "t.c:affine"', 'reference python "t.py:affine"') + PC
    files = {"t_c": CHAIN_C, "k_cu": KERNELS, "t_py": "def affine(x): return x"}
    with pytest.raises(Errors) as refusal:
        flowc.build(write(text, **files), tmp_path / "build", platform="pc", native=True)
    found = refusal.value.diagnostics
    assert {d.code for d in found} == {"F660"} and "`Chain.a` for CPUs" in found[0].message


def test_a_build_needs_nvrtc(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "libraries", lambda: ())
    with pytest.raises(Errors) as refusal:
        built(write(CHAIN + PC, t_c=CHAIN_C, k_cu=KERNELS), tmp_path / "build")
    messages: list[Any] = [d.message for d in refusal.value.diagnostics]
    assert any("there is no NVRTC for sm_90" in message for message in messages)


@pytest.mark.skipif(not nvrtc.libraries(), reason="no compiler for CUDA: install the extra `cuda`")
def test_machine_code_is_made_at_the_build(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", nvrtc.compiled)
    kernels._compiled.cache_clear()
    text = write(CHAIN + PC, t_c=CHAIN_C, k_cu=KERNELS)
    _, deployed, _, _ = deployment(prepare(text, platform="pc").require(), None, measure=False)
    code = native_files(deployed)["kernels/k.sm_90.cubin"]
    assert isinstance(code, bytes)
    assert code[:4] == b"\x7fELF" and b".text.affine" in code
    kernels._compiled.cache_clear()
