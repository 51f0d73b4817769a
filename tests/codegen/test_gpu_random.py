"""Random programs with CUDA tasks: on the stand-in they give what their twins give, and leave
nothing unordered.

Rates, delays, `repeat` and `last`, fan-out to both sides, joins, state, streams and graphs are
drawn; `FLOWC_FUZZ=100` draws more programs.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import flowc
import pytest

from builds import build, run
from stand_in_runs import on_stand_in

PROGRAMS = int(os.environ.get("FLOWC_FUZZ", "4"))
KERNELS = """
extern "C" __global__ void affine(const int *x, int *y, int a, int b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + b;
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
TASKS = """
import numpy as np
class Count:
    def __init__(self, rate):
        self.rate, self.n = rate, 0
    def __call__(self):
        self.n += self.rate
        block = np.arange(self.n - self.rate, self.n, dtype=np.int32)[:, None] * np.int32([1, 10, 100])
        return block if self.rate > 1 else block[0]
def affine(x, a, b): return np.int32(a) * x + np.int32(b)
def add(x, z): return x + z
class Pile:
    def __init__(self): self.sum = 0
    def __call__(self, x):
        self.sum = self.sum + x
        return self.sum.astype(np.int32)
def host(x): return x + np.int32(1)
class Sink:
    def __init__(self, name): self.name, self.seen = name, 17
    def __call__(self, x): self.seen = (self.seen * 31 + int(np.asarray(x, np.int64).sum())) % 1000003
    def close(self): print(self.name, self.seen, flush=True)
"""


def program(rng: random.Random) -> str:
    """A chain of tasks at random rates, which splits and joins; every tensor has three elements."""
    text, app, wires, pins = [], [], [], []
    rate = rng.choice((1, 1, 2, 3))
    text.append(f'task Source(rate: int) {{ out y: int32[3] rate {rate}   python "t.py:Count" }}')
    app.append(f"source: Source(rate = {rate})")
    before = "source.y"
    for k in range(rng.randint(2, 6)):
        kind = rng.choice(("affine", "affine", "add", "pile", "host"))
        n = rng.choice((1, 1, 2, 3))
        ports = f"in x: int32[3] rate {n}   out y: int32[3] rate {n}"
        launch = f"grid ceil({3 * n} / 4)   block 4"
        delay = rng.choice((0, 0, 0, n, 3 * n))
        if kind == "affine":
            text.append(f"task T{k}(a: int, b: int) {{ {ports}   cuda \"k.cu:affine\" (x, y, a, b, {3 * n}) {launch}\n"
                        '    reference python "t.py:affine" }')  # fmt: skip
            app.append(f"t{k}: T{k}(a = {rng.randint(-3, 3)}, b = {rng.randint(-9, 9)})")
        elif kind == "add":
            text.append(f"task T{k} {{ in z: int32[3] rate {n}   {ports}   cuda \"k.cu:add\" (x, z, y, {3 * n}) {launch}\n"
                        '    reference python "t.py:add" }')  # fmt: skip
            app.append(f"t{k}: T{k}")
        elif kind == "pile":
            text.append(f"task T{k} {{ {ports}   state sum: int32[{n}, 3]   cuda \"k.cu:pile\" (x, sum, y, {3 * n}) {launch}\n"
                        '    reference python "t.py:Pile" }')  # fmt: skip
            app.append(f"t{k}: T{k}")
        else:
            text.append(f'task T{k} {{ {ports}   python "t.py:host" }}')
            app.append(f"t{k}: T{k}")
        hop = f" -> delay {delay} = {rng.randint(-5, 5)}" if delay else ""
        if kind != "add" and rng.random() < 0.4:
            hop += f" -> {rng.choice(('repeat', 'last'))} {rng.randint(2, 3)} of {rng.choice((1, 1, 2))}"
        wires.append(f"{before}{hop} -> t{k}.x")
        if kind == "add":
            wires.append(f"{before} -> t{k}.z")
        if kind in ("affine", "add"):
            options = rng.choice(("", "", " streams 2", " graph", " streams 3"))
            pins.append(f"A.t{k} -> cuda{options}")
        if rng.random() < 0.4:
            app.append(f'side{k}: Sink(name = "side{k}")')
            wires.append(f"t{k}.y -> side{k}.x")
        before = f"t{k}.y"
    text.append('task Sink(name: string) { in x: int32[3]   python "t.py:Sink" }')
    app.append('sink: Sink(name = "sink")')
    wires.append(f"{before} -> sink.x")
    joined = "\n    ".join([*app, *wires])
    return "\n".join(
        [*text, f"app A {{\n    {joined}\n}}", "platform pc { cpu core[2]  gpu cuda }",
         f"mapping on pc {{ {'  '.join(pins)} }}"]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs_give_what_their_twins_give(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed if PROGRAMS <= 100 else os.urandom(8))
    (tmp_path / "k.cu").write_text(KERNELS)
    (tmp_path / "t.py").write_text(TASKS)
    flow = tmp_path / "random.flow"
    flow.write_text(program(rng))
    checked = flowc.check(flow, platform="pc")
    assert checked.ok, (flow.read_text(), [d.message for d in checked.diagnostics])
    directory = build(flow, tmp_path / "out", platform="pc")
    frames = str(rng.choice((1, 4, 9)))
    done = on_stand_in(
        directory, "main.py", "--frames", frames, "--quiet", integrated=rng.random() < 0.5
    )
    twin = run(directory, "--frames", frames, "--quiet", "--twin")
    assert "0 violations" in done.stderr and done.returncode == 0, (flow.read_text(), done.stderr)
    assert sorted(done.stdout.splitlines()) == sorted(twin.stdout.splitlines()), flow.read_text()
