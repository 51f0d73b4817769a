"""Generated programs on a real NVIDIA GPU, held against their twins and against the sequential
reference.

    python tests/referees/on_a_gpu.py --prepare DIR     # on any machine, with flowc
    python DIR/on_a_gpu.py                              # on one with a GPU, without flowc

The second command needs numpy, cuda-python and onnxruntime-gpu. Random programs with CUDA tasks
(those of `tests/codegen/test_gpu_random.py`) print what their twins have printed where they were
built. The examples run their own harness, which compares with the sequential reference. Kernels
that fail, kernels that never end and signals end a program with the status and the message that
are expected. The exit status is 1 if a case was different.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 120.0  # seconds for one program
EXAMPLES = ("denoise", "detector", "digits", "patrol", "reader", "spotter", "tracker")
PINS = {
    "whole": "cuda",
    "streams": "cuda streams 3",
    "stages": 'cuda until "entry" | cuda until "neck" streams 2 | cuda',
}

FAULTS = """
task Source { out x: float32[4]   python "t.py:source" }
task Work { in x: float32[4]   out y: float32[4]   cuda "k.cu:KERNEL"   grid 1   block 4
    reference python "t.py:work" }
task Sink { in x: float32[4]   python "t.py:sink" }
app A { s: Source  w: Work  k: Sink   s -> w -> k }
platform pc { cpu core[2]  gpu cuda }
"""
FAULTS_PY = """
import numpy as np
def source(): return np.ones(4, np.float32)
def work(x): return 2 * x
def sink(x): pass
"""
FAULTS_CU = """
extern "C" __global__ void good(const float *x, float *y)
{
    y[threadIdx.x] = 2 * x[threadIdx.x];
}
extern "C" __global__ void wild(const float *x, float *y)
{
    y[((long long)1 << 40) + threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void endless(const float *x, float *y)
{
    volatile float *seen = y;
    while (seen[threadIdx.x] != -1234.5f)
        seen[threadIdx.x] = x[threadIdx.x];
}
"""


@dataclass(frozen=True)
class Case:
    """A run of a program, and what is expected of it."""

    name: str
    build: str  # a folder beside this file
    command: tuple[str, ...]  # after the interpreter
    status: int = 0  # -1: any but 0
    printed: tuple[str, ...] | None = None  # sorted lines of standard output
    said: str = ""  # a pattern that standard error has
    interrupt: int = 0  # a signal, sent when the program runs
    environment: dict[str, str] = field(default_factory=dict)


# -- on any machine --------------------------------------------------------------------------------
def prepare(folder: Path, programs: int) -> None:
    """Build everything below a folder, with this script beside it."""
    root = HERE.parents[1]
    sys.path[:0] = [str(root / "tests" / "support"), str(root / "tests" / "codegen")]
    folder.mkdir(parents=True)
    cases = [
        *_random_programs(folder, programs),
        *_examples(folder, root / "examples"),
        *_faults(folder),
    ]
    (folder / "cases.json").write_text(json.dumps([asdict(c) for c in cases], indent=1))
    shutil.copy(__file__, folder)


def _built(text: Path, folder: Path, name: str, platform: str) -> str:
    import flowc

    flowc.build(text, folder / name, platform=platform)
    return name


def _random_programs(folder: Path, programs: int) -> list[Case]:
    from test_gpu_random import KERNELS, TASKS, program

    from builds import run

    texts = folder / "texts"
    texts.mkdir()
    (texts / "k.cu").write_text(KERNELS)
    (texts / "t.py").write_text(TASKS)
    cases = []
    for seed in range(programs):
        rng = random.Random(seed)
        text = texts / f"random{seed}.flow"
        text.write_text(program(rng))
        frames = str(rng.choice((1, 4, 9, 50)))
        name = _built(text, folder, f"random{seed}", "pc")
        twin = run(folder / name, "--frames", frames, "--quiet", "--twin")
        command = (
            "main.py",
            "--frames",
            frames,
            "--quiet",
            *(("--strict",) if seed % 3 == 0 else ()),
        )
        cases.append(Case(name, name, command, printed=tuple(sorted(twin.stdout.splitlines()))))
    return cases


def _examples(folder: Path, examples: Path) -> list[Case]:
    from test_gpu import STATES

    shutil.copytree(examples, folder / "examples", ignore=shutil.ignore_patterns("*.json", "build"))
    detector, denoise = folder / "examples" / "detector", folder / "examples" / "denoise"
    cases = []
    harness = ("-m", "unittest", "discover", "-s", "tests")
    for name in EXAMPLES:
        text = folder / "examples" / name / f"{name}.flow"
        cases.append(Case(name, _built(text, folder, name, "desktop"), harness))
    for name, pin in PINS.items():
        text = detector / f"{name}.flow"
        text.write_text(f'use "detector.flow"\nmapping on desktop {{ Detect.find -> {pin} }}')
        cases.append(
            Case(f"detector, {name}", _built(text, folder, f"detector_{name}", "desktop"), harness)
        )
    graphs = denoise / "graphs.flow"
    graphs.write_text('use "denoise.flow"\nmapping on desktop { Clean.edges -> cuda graph }')
    cases.append(
        Case("denoise, graph", _built(graphs, folder, "denoise_graph", "desktop"), harness)
    )
    states = denoise / "states.flow"
    states.write_text(STATES)
    run = ("main.py", "--frames", "40", "--quiet")
    cases.append(Case("states", _built(states, folder, "states", "desktop"), run))
    return cases


def _faults(folder: Path) -> list[Case]:
    texts = folder / "faults"
    texts.mkdir()
    (texts / "k.cu").write_text(FAULTS_CU)
    (texts / "t.py").write_text(FAULTS_PY)
    for kernel in ("good", "wild", "endless"):
        text = texts / f"{kernel}.flow"
        text.write_text(FAULTS.replace("KERNEL", kernel))
        _built(text, folder, kernel, "pc")
    ten = ("main.py", "--frames", "10", "--quiet")
    return [
        Case("illegal address", "wild", ten, -1, said=r"A\.w"),
        Case(
            "illegal address, --strict",
            "wild",
            (*ten, "--strict"),
            -1,
            said=r"task A\.w failed at firing 0: .*illegal memory access.*kernel wild",
        ),
        Case("Ctrl-C", "good", ("main.py", "--quiet"), 130, interrupt=signal.SIGINT),
        Case("SIGTERM", "good", ("main.py", "--quiet"), 143, interrupt=signal.SIGTERM),
        Case("no GPU", "good", ten, -1, said="GPU", environment={"CUDA_VISIBLE_DEVICES": ""}),
        Case("a kernel that never ends", "endless", (*ten, "--watchdog", "5"), -1, said=r"A\.w"),
    ]


# -- on a machine with a GPU -----------------------------------------------------------------------
@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    case: Case
    seconds: float
    wrong: str  # nothing: as expected
    output: str


def tried(case: Case) -> Outcome:
    """Run it, and compare."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *case.command],
        cwd=HERE / case.build,
        env={**os.environ, "FLOWC_TEST_FRAMES": "4", **case.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if case.interrupt:
        time.sleep(8)
        process.send_signal(case.interrupt)
    try:
        printed, said = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate(timeout=LIMIT)
        said += f"\nkilled after {LIMIT:g} s"
    return Outcome(
        case, time.monotonic() - begin, _wrong(case, process.returncode, printed, said), said
    )


def _wrong(case: Case, status: int, printed: str, said: str) -> str:
    if status != case.status and not (case.status == -1 and status > 0):
        return f"exit status {status} instead of {case.status}"
    if case.printed is not None and tuple(sorted(printed.splitlines())) != tuple(case.printed):
        return f"printed {sorted(printed.splitlines())} instead of {list(case.printed)}"
    if not re.search(case.said, said, re.DOTALL):
        return f"standard error lacks {case.said!r}"
    return ""


def check(only: str, jobs: int) -> int:
    """Run all cases whose names match; returns the exit status."""
    cases = [Case(**c) for c in json.loads((HERE / "cases.json").read_text())]
    chosen = [c for c in cases if re.search(only, c.name)]
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(tried, chosen):
            failed += bool(outcome.wrong)
            verdict = outcome.wrong or "as expected"
            print(f"{outcome.case.name:28} {outcome.seconds:6.1f} s  {verdict}", flush=True)
            if outcome.wrong:
                print(outcome.output[-3000:], flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} as expected")
    return min(failed, 1)


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="only build, into this folder")
    parser.add_argument("--programs", type=int, default=40, help="how many random programs")
    parser.add_argument("--only", default="", help="a pattern of names of cases")
    parser.add_argument("--jobs", type=int, default=4, help="programs at once")
    asked = parser.parse_args()
    if asked.prepare:
        prepare(asked.prepare, asked.programs)
    else:
        sys.exit(check(asked.only, asked.jobs))


if __name__ == "__main__":
    main()
