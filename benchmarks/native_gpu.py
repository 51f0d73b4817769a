"""CUDA tasks in programs in C++: four kernels in a row on tokens of 4 MB, between tasks in C.

on the device   tokens stay there between the kernels
strict          the same, and the program waits after each kernel
streams 3       each kernel on three streams in turn: tokens between them go through the host
by hand         one thread that zeroes a token, copies it there, starts the kernels, copies it back

python benchmarks/native_gpu.py                  build everything and measure
python benchmarks/native_gpu.py --prepare DIR    only build, on any machine; then `python
                                                 DIR/native_gpu.py` on one with a GPU: flowc is
                                                 not needed there
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from paired import Spread, alternate, execute, ratio, table

HERE = Path(__file__).resolve().parent
ROUNDS, FRAMES, STREAMS = 7, 3000, 3
BY_HAND, CODE = "by hand", "by_hand.cu"

TEXT = """type Block = float32[1024, 1024]
task Source { out x: Block   state n: int64   c "chain.c:source" }
task Scale { in x: Block   out y: Block
    on gpu cuda "chain.cu:scale" (x, y, 1048576)   grid 4096   block 256 }
task Sink { in x: Block   c "chain.c:sink" }
app Chain { s: Source   a: Scale   b: Scale   c: Scale   d: Scale   t: Sink
    s -> a -> b -> c -> d -> t }
platform pc { cpu core[2]   gpu cuda compute COMPUTE }
mapping on pc { Chain.s -> core[0]   Chain.t -> core[1]   PINS }
"""
TASKS = """int source(void *state, float *x, const void *p)
{
    source_state *s = state;
    (void)p;
    x[0] = (float)(s->n++ % 64);
    return 0;
}
int sink(void *state, const float *x, const void *p)
{
    (void)state, (void)p;
    return x[1048575] == 5.765625f ? 0 : 1;
}
"""
KERNEL = """extern "C" __global__ void scale(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 1.25f * x[i] + 1.0f;
}
"""
LOOP = """#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "chain.cu"
int main(int, char **words)
{
    const int frames = atoi(words[1]), n = 1 << 20;
    float *in, *out, *a, *b;
    cudaMallocHost(&in, n * sizeof *in);
    cudaMallocHost(&out, n * sizeof *out);
    cudaMalloc(&a, n * sizeof *a);
    cudaMalloc(&b, n * sizeof *b);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < frames; k++) {
        memset(in, 0, n * sizeof *in);
        in[0] = (float)(k % 64);
        cudaMemcpyAsync(a, in, n * sizeof *in, cudaMemcpyHostToDevice, stream);
        scale<<<4096, 256, 0, stream>>>(a, b, n);
        scale<<<4096, 256, 0, stream>>>(b, a, n);
        scale<<<4096, 256, 0, stream>>>(a, b, n);
        scale<<<4096, 256, 0, stream>>>(b, a, n);
        cudaMemcpyAsync(out, a, n * sizeof *out, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        if (out[n - 1] != 5.765625f)
            return 1;
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    printf("%g\\n", frames / std::chrono::duration<double>(took).count());
    return cudaGetLastError() != cudaSuccess;
}
"""


def prepare(folder: Path, compute: str = "9.0") -> None:
    """Build all sides below a folder, with this script beside them."""
    import flowc

    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("chain.c", TASKS), ("chain.cu", KERNEL), (CODE, LOOP)):
        (folder / name).write_text(content)
    pins = " ".join(f"Chain.{task} -> cuda streams {STREAMS}" for task in "abcd")
    for name, own in (("device", ""), ("streams", pins)):
        text = folder / f"{name}.flow"
        text.write_text(TEXT.replace("COMPUTE", compute).replace("PINS", own))
        flowc.build(text, folder / name, platform="pc", native=True, measure=False)
    for script in ("native_gpu.py", "paired.py"):
        shutil.copy(HERE / script, folder)


def program(directory: Path, *words: str) -> float:
    """Frames per second of a build."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name, "report.json")
        given = ["--frames", str(FRAMES), "--quiet", "--report", str(report), *words]
        execute(directory / "main", *given)
        (app,) = json.loads(report.read_text())["apps"].values()
        return float(app["fps"])


def measure(folder: Path) -> None:
    """Take turns, and print."""
    gpu = execute("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").strip()
    print(f"{gpu}; {ROUNDS} rounds, medians [quartiles] least..most\n")
    execute("nvcc", "-O2", "-arch=native", "-o", folder / "by_hand", folder / CODE)
    sides: dict[str, Callable[[], float]] = {
        BY_HAND: lambda: float(execute(folder / "by_hand", str(FRAMES))),
        "on the device": lambda: program(folder / "device"),
        "strict": lambda: program(folder / "device", "--strict"),
        f"streams {STREAMS}": lambda: program(folder / "streams"),
    }
    samples = alternate(sides, ROUNDS)
    rows = [["side", "frames per second", f"times as fast as {BY_HAND}"]]
    for name, fps in samples.items():
        gain = "" if name == BY_HAND else ratio(fps, samples[BY_HAND]).text()
        rows.append([name, Spread.of(fps).text(0), gain])
    print(table(rows))


def main(arguments: list[str]) -> None:
    """As the command line says."""
    if arguments[:1] == ["--prepare"]:
        prepare(Path(arguments[1]))
    elif (
        shutil.which("nvidia-smi") is None
        or subprocess.run(["nvidia-smi"], capture_output=True, check=False).returncode
    ):
        raise SystemExit(
            "there is no NVIDIA GPU here: `--prepare DIR` builds what `python DIR/native_gpu.py`"
            " measures on one"
        )
    elif (HERE / CODE).is_file():
        measure(HERE)
    else:
        asked = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
        compute = execute(*asked).splitlines()[0].strip()
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name, "gpu"), compute)
            measure(Path(name, "gpu"))


if __name__ == "__main__":
    main(sys.argv[1:])
