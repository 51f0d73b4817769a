"""Generated programs on an NVIDIA GPU: streams, pipelining, hand-over on the device, graphs.

streams      examples/detector, its network through ONNX Runtime's CUDA provider, with 1, 2, 4 and 8
streams
pipeline     the same with camera, letterbox and non-maximum suppression on CPU threads, against the
loop one would
             write: camera, letterbox, `session.run` on the GPU, suppression, one after the other
hand-over    four CUDA tasks in a row on 4 MB tokens that stay on the device, against the same with
a task on the
             host between any two of them
graph        a task of 24 small kernels that are recorded once and started together, against single
launches

python benchmarks/gpu.py                  build everything and measure
python benchmarks/gpu.py --prepare DIR    only build, on any machine; then `python DIR/gpu.py` on
one with a GPU,
                                          numpy, cuda-python and onnxruntime-gpu: flowc is not
                                          needed there
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from paired import Spread, alternate, execute, ratio, table, verdict

HERE = Path(__file__).resolve().parent
STREAMS = (1, 2, 4, 8)
FRAMES = {"detector": 600, "device": 400, "host": 400, "graph": 2000, "launches": 2000}
KERNELS = 24

PC = "platform pc { cpu core[4]  gpu cuda }\n"
CHAIN = """type Block = float32[1024, 1024]
task Source { out x: Block   python "chain.py:Source" }
task Scale { in x: Block   out y: Block   on gpu cuda "chain.cu:scale" (x, y, 1048576)   grid 4096   block 256
    reference python "chain.py:scale" }
task Pass { in x: Block   out y: Block   python "chain.py:through" }
task Sink { in x: Block   python "chain.py:sink" }
"""
CHAIN_CU = """extern "C" __global__ void scale(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 1.25f * x[i] + 1.0f;
}
"""
CHAIN_PY = """import numpy as np


class Source:
    def __init__(self):
        self.block = np.ones((1024, 1024), np.float32)

    def __call__(self):
        return self.block


def scale(x):
    return np.float32(1.25) * x + np.float32(1)


def through(x):
    return x.copy()


def sink(x):
    pass
"""
SMALL_CU = """extern "C" __global__ void step(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 0.5f * x[i] + 1.0f;
}
"""
SMALL_PY = """import numpy as np


def source():
    return np.ones(1024, np.float32)


def steps(x):
    for _ in range(%d):
        x = np.float32(0.5) * x + np.float32(1)
    return x


def sink(x):
    pass
"""


def texts() -> dict[str, str]:
    """The texts that are measured, by the name of their build."""
    detector = 'use "detector.flow"\n' + PC
    made = {
        f"streams{n}": detector
        + f"mapping on pc {{ Detect.find -> cuda streams {n}  buffers {2 * n} }}\n"
        for n in STREAMS
    }
    alone = "a: Scale  b: Scale  c: Scale  d: Scale"
    made["device"] = (
        CHAIN + f"app Chain {{ s: Source  {alone}  t: Sink  s -> a -> b -> c -> d -> t }}\n" + PC
    )
    between = "p: Pass  q: Pass  r: Pass"
    chain = "s -> a -> p -> b -> q -> c -> r -> d -> t"
    made["host"] = CHAIN + f"app Chain {{ s: Source  {alone}  {between}  t: Sink  {chain} }}\n" + PC
    names = ["x", *(("ping", "pong")[k % 2] for k in range(KERNELS - 1)), "y"]
    launches = "\n".join(
        f'    on gpu cuda "small.cu:step" ({a}, {b})   grid 4   block 256'
        for a, b in pairwise(names)
    )
    small = (
        'task Source { out x: float32[1024]   python "small.py:source" }\ntask Steps { in x:'
        " float32[1024]   out y: float32[1024]\n    scratch ping: float32[1024]   scratch pong:"
        f' float32[1024]\n{launches}\n    reference python "small.py:steps" }}\ntask Sink {{ in x:'
        ' float32[1024]   python "small.py:sink" }\napp Small { s: Source  steps: Steps  t: Sink'
        "  s -> steps -> t }\n" + PC
    )
    made["launches"] = small
    made["graph"] = small + "mapping on pc { Small.steps -> cuda graph }\n"
    return made


def prepare(folder: Path) -> None:
    """Build all sides below a folder, with this script beside them."""
    import flowc

    source = folder / "texts"
    shutil.copytree(
        HERE.parent / "examples" / "detector", source, ignore=shutil.ignore_patterns("*.json")
    )
    for name, content in (
        ("chain.cu", CHAIN_CU),
        ("chain.py", CHAIN_PY),
        ("small.cu", SMALL_CU),
        ("small.py", SMALL_PY % KERNELS),
    ):
        (source / name).write_text(content)
    for name, text in texts().items():
        (source / f"{name}.flow").write_text(text)
        flowc.build(source / f"{name}.flow", folder / name, platform="pc")
    for script in ("gpu.py", "paired.py"):
        shutil.copy(HERE / script, folder)


def program(directory: Path, frames: int) -> float:
    """Frames per second of a build."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.json"
        execute(
            sys.executable,
            directory / "main.py",
            "--frames",
            str(frames),
            "--quiet",
            "--report",
            report,
        )
        (app,) = json.loads(report.read_text())["apps"].values()
        return float(app["fps"])


def by_hand(folder: str, frames: int) -> None:
    """The loop one would write: prints frames per second."""
    import onnxruntime

    sys.path.insert(0, folder)
    detector = importlib.import_module("detector")
    session = onnxruntime.InferenceSession(
        f"{folder}/yolo.onnx", providers=[("CUDAExecutionProvider", {"use_tf32": "0"})]
    )
    camera, report = detector.Camera(seed=1), detector.Report()
    begin = 0.0
    for number in range(frames + 20):
        if number == 20:
            begin = time.perf_counter()
        report(
            detector.select(
                *session.run(["coarse", "fine"], {"image": detector.letterbox(camera())})
            )
        )
    print(frames / (time.perf_counter() - begin))


def measure(folder: Path, rounds: int) -> None:
    """Alternate the sides and print."""
    gpu = execute("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").strip()
    print(f"{gpu}; {rounds} rounds, medians [quartiles] least..most\n")
    loop: list[str | Path] = [
        sys.executable,
        folder / "gpu.py",
        "--peer",
        folder / "texts",
        str(FRAMES["detector"]),
    ]

    def build(name: str) -> Callable[[], float]:
        return lambda: program(folder / name, FRAMES.get(name, FRAMES["detector"]))

    rows = [["side", "per second", "against", "times as fast", "aim"]]

    def compare(sides: dict[str, Callable[[], float]], base: str, aims: dict[str, float]) -> None:
        samples = alternate(sides, rounds)
        for name, fps in samples.items():
            gain = ratio(fps, samples[base])
            aim = verdict(gain.median, least=aims[name]) if name in aims else ""
            rows.append(
                [
                    name,
                    f"{Spread.of(fps).median:.1f}",
                    base,
                    "" if name == base else gain.text(),
                    aim,
                ]
            )

    compare({f"{n} streams": build(f"streams{n}") for n in STREAMS}, "1 streams", {})
    loops = {"plain loop": lambda: float(execute(*loop))}
    pipelines = {"pipeline": build("streams1"), "pipeline, 4 streams": build("streams4")}
    compare({**loops, **pipelines}, "plain loop", {"pipeline": 1.5})
    compare(
        {"through the host": build("host"), "on the device": build("device")},
        "through the host",
        {},
    )
    compare({"launches": build("launches"), "graph": build("graph")}, "launches", {})
    print(table(rows))


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="only build, into this folder")
    parser.add_argument("--rounds", type=int, default=7, help="how often each side runs")
    parser.add_argument("--peer", nargs=2, metavar=("TEXTS", "FRAMES"), help="the plain loop alone")
    asked = parser.parse_args()
    if asked.peer:
        by_hand(asked.peer[0], int(asked.peer[1]))
    elif asked.prepare:
        prepare(asked.prepare)
    elif (
        shutil.which("nvidia-smi") is None
        or subprocess.run(["nvidia-smi"], capture_output=True).returncode
    ):
        raise SystemExit(
            "there is no NVIDIA GPU here: `--prepare DIR` builds what `python DIR/gpu.py` measures"
            " on one"
        )
    elif (HERE / "texts").is_dir():
        measure(HERE, asked.rounds)
    else:
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name) / "gpu")
            measure(Path(name) / "gpu", asked.rounds)


if __name__ == "__main__":
    main()
