"""Changes of state: ten thousand of them with running sums that stay right, the time of one, and
its bound.

Usage: python benchmarks/switching.py [CHANGES]

A program of two apps in three states: alone on one core, together over two cores in pipelines, the
other one alone. Both add up numbers through a delay; their sinks compare every sum with the
formula, and raise an event every few frames, so that the program changes states as fast as it can.
Then the same at a pace, with frames that take a moment. Last, the examples patrol and drone at
their own pace, mapped here: what changes took over their bounds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from itertools import cycle
from pathlib import Path

import flowc

TEXT = """
task Count { out x: int64   wcet 1 us   python "sums.py:Count" }
task Work { in x: int64   out y: int64   wcet MS ms   python "sums.py:work" }
task Add { in y: int64   in before: int64   out sum: int64   wcet 1 us   python "sums.py:add" }
task Compare { in sum: int64   event often   wcet 1 us   python "sums.py:Compare" }
graph Sum {
    count: Count   work: Work   add: Add   compare: Compare
    count -> work -> add.y   add -> delay 1 -> add.before   add -> compare
}
app A { PERIOD sum: Sum }
app B { PERIOD sum: Sum }
scenario S {
    initial state one { run A }
    state both { run A, B }
    state other { run B }
    one -> both on A.sum.compare.often
    both -> other on B.sum.compare.often
    other -> one on B.sum.compare.often
}
platform duo { cpu core[2] }
mapping on duo {
    A.sum.count -> core[0]   A.sum.work -> core[0]   A.sum.add -> core[1]   A.sum.compare -> core[1]
    B.sum.count -> core[1]   B.sum.work -> core[1]   B.sum.add -> core[0]   B.sum.compare -> core[0]
}
"""
CODE = """
import time
import numpy as np

class Count:
    def __init__(self): self.n = -1
    def __call__(self):
        self.n += 1
        return np.int64(self.n)

def work(x):
    if SLEEP:
        time.sleep(SLEEP)
    return np.int64(x)

def add(y, before): return np.int64(y + before)

class Compare:
    def __init__(self, often): self.often, self.n = often, 0
    def __call__(self, sum):
        assert sum == self.n * (self.n + 1) // 2, "the sum of frame %d is %d" % (self.n, sum)
        self.n += 1
        if self.n % 3 == 0:
            self.often()
"""


def changes(count: int, period: str, milliseconds: float) -> dict[str, object]:
    """Run until there were so many changes; the report. Raises CalledProcessError when a sum is
    wrong."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "sums.flow").write_text(
            TEXT.replace("PERIOD", period).replace("MS", str(max(milliseconds, 0.001)))
        )
        (home / "sums.py").write_text(CODE.replace("SLEEP", str(milliseconds / 1e3)))
        flowc.build(home / "sums.flow", home / "b", platform="duo", measure=False)
        # every third frame of an app asks for a change, which some others come before
        frames = 5 * count
        command = [
            sys.executable,
            str(home / "b/main.py"),
            "--quiet",
            "--report",
            "r.json",
            "--frames",
            str(frames),
        ]
        subprocess.run(command, cwd=home, check=True)
        found: dict[str, object] = json.loads((home / "r.json").read_text())
        return found


def told(report: dict[str, object]) -> str:
    """One line: how many changes, how long until the frames under way had ended, and until new ones
    had."""
    switches: list[dict[str, float]] = report["switches"]  # type: ignore[assignment]
    apps: dict[str, dict[str, int]] = report["apps"]  # type: ignore[assignment]
    text = (
        f"{len(switches):6} changes, {sum(a['frames'] for a in apps.values()):7} frames, all sums"
        " right"
    )
    for key, what in (("drain_ms", "frames under way ended"), ("first_ms", "new ones ended")):
        values = sorted(s[key] for s in switches if s[key] is not None)
        text += (
            f"; {what}: median {values[len(values) // 2]:.2f} ms, 99 %"
            f" {values[int(0.99 * len(values))]:.2f} ms"
        )
    return text


def within_bounds(name: str, events: tuple[str, ...], frames: int, each: float) -> str:
    """An example runs so many frames, with an event every so many seconds; one line about what
    changes took."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / name
        shutil.copytree(Path(__file__).parent.parent / "examples" / name, home)
        mapped = flowc.map(home / f"{name}.flow", budget=10)
        flowc.build(home / f"{name}.flow", home / "b")
        lines = (
            f"{each * k:.3f} s {event}\n"
            for k, event in zip(range(1, frames), cycle(events), strict=False)
        )
        (home / "script").write_text("".join(lines))
        command = [
            sys.executable,
            str(home / "b/main.py"),
            "--quiet",
            "--report",
            "r.json",
            "--events",
            "script",
        ]
        subprocess.run(
            [*command, "--frames", str(frames)], cwd=home, check=True, stdout=subprocess.DEVNULL
        )
        switches = [
            s
            for s in json.loads((home / "r.json").read_text())["switches"]
            if s["first_ms"] is not None
        ]
    bounded = [s for s in switches if s["bound_ms"]]
    ratios = sorted(s["first_ms"] / s["bound_ms"] for s in bounded)
    text = (
        f"{len(switches)} changes{' (late by the analysis)' if mapped.late else ''}, {len(bounded)}"
        " with a bound"
    )
    if ratios:
        text += f": {ratios[len(ratios) // 2]:.2f} of it in the median, {ratios[-1]:.2f} at most, "
        text += f"{sum(r > 1 for r in ratios)} above it"
        worst = max(bounded, key=lambda s: s["first_ms"] / s["bound_ms"])
        text += f" (worst: {json.dumps(worst)})" if ratios[-1] > 1 else ""
    return text


def main(count: int = 10_000) -> None:
    """Print all."""
    print("as fast as it can: " + told(changes(count, "", 0.0)))
    print("2 ms every 5 ms:   " + told(changes(count // 20, "period 5 ms", 2.0)))
    print("patrol:            " + within_bounds("patrol", ("turn", "straight"), 1500, 0.25))
    print("drone:             " + within_bounds("drone", ("windy", "calm"), 600, 0.35))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
