"""The same application in flowc, in dora and by hand: camera, detector, tracks and planner with three
rates, in real time.

    flowc        examples/tracker, mapped to two cores
    dora         benchmarks/beside/dora: a process for each of four nodes
    by hand      benchmarks/beside/plain.py: one loop with a clock

All sides call the functions of examples/tracker/tracker.py; shown is how often each has planned, and
how good its tracks are. Latencies are from the call of the camera to the end of the tracks; in flowc
from the release of the frame, a little before. The first second is left out of those of dora and by
hand. No side has real-time priority. CPU time is that of 200 frames: what a run of 300
takes more than one of 100, all processes together.

dora is not needed by flowc: `pip install dora-rs dora-rs-cli` (tried with 1.1.0). `--rounds N`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean, quantiles

from paired import Others, Spread, alternate, flowc, machine, ratio, rounds, table

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "tracker"
SHORT, LONG = 100, 300
#: Tracks of the first second, which are left out of the latencies of dora and by hand.
FIRST = 25
#: Without real-time priorities, which the other sides do not ask for either.
TEXT = 'use "tracker.flow"\nplatform two { cpu core[2] }\n'
#: Where dora and the Python of its nodes are found.
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
#: What a run of a few seconds may take at most.
LIMIT = 120.0


def cpu_of(command: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """Seconds of CPU time of a command and all that it starts. A failure ends the benchmark."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command} failed with {done.returncode}\n{done.stdout}{done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Figures:
    """What each side took, round by round: milliseconds, and how often it planned."""

    def __init__(self) -> None:
        self.half: dict[str, list[float]] = defaultdict(list)
        self.most: dict[str, list[float]] = defaultdict(list)
        self.plans: dict[str, list[int]] = defaultdict(list)
        self.off: dict[str, list[float]] = defaultdict(list)


def by_frames(name: str, command: list[str], folder: Path, figures: Figures) -> Callable[[], float]:
    """Milliseconds of CPU time per frame of a side that writes its latencies into files."""
    files = {"LATENCIES": str(folder / f"{name}.ns"), "ERRORS": str(folder / f"{name}.off")}

    def run() -> float:
        taken = []
        for frames in (SHORT, LONG):
            more = {**files, "FRAMES": str(frames), "DETECTOR": str(EXAMPLE / "detector.onnx")}
            more |= {"PYTHONPATH": str(EXAMPLE), "RUST_LOG": "error", "PATH": PATH}
            taken.append(cpu_of(command, folder, more))
        late = [int(line) / 1e6 for line in Path(files["LATENCIES"]).read_text().splitlines()][
            FIRST:
        ]
        off, plans = Path(files["ERRORS"]).read_text().split()
        note(figures, name, late, int(plans), float(off))
        return 1000 * (taken[1] - taken[0]) / (LONG - SHORT)

    return run


def note(figures: Figures, name: str, late: list[float], plans: int, off: float) -> None:
    """One more run of a side."""
    cuts = quantiles(late, n=100, method="inclusive")
    figures.half[name].append(cuts[49])
    figures.most[name].append(cuts[98])
    figures.plans[name].append(plans)
    figures.off[name].append(off)


def by_flowc(folder: Path, figures: Figures) -> Callable[[], float]:
    """The same of the program of flowc, which reports its latencies itself."""
    report = folder / "report.json"

    def run() -> float:
        taken = []
        for frames in (SHORT, LONG):
            command = [sys.executable, str(folder / "built" / "main.py"), "--report", str(report)]
            taken.append(cpu_of([*command, "--frames", str(frames // 10), "--quiet"], folder, {}))
        (app,) = json.loads(report.read_text())["apps"].values()
        (path,) = [p for p in app["paths"] if p["task"] == "Tracker.track"]
        figures.plans["flowc"].append(app["frames"])
        figures.half["flowc"].append(path["latency_ms"]["p50"])
        figures.most["flowc"].append(path["latency_ms"]["p99"])
        return 1000 * (taken[1] - taken[0]) / (LONG - SHORT)

    return run


def main() -> None:
    """Build, alternate, compare, print."""
    count, others, figures = rounds(__doc__, 5), Others(), Figures()
    dora = shutil.which("dora", path=PATH)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
        shutil.copytree(HERE / "beside", folder, dirs_exist_ok=True)
        (folder / "beside.flow").write_text(TEXT)
        flowc("map", "beside.flow", "--platform", "two", "--seed", "0", cwd=folder)
        flowc("build", "beside.flow", "--platform", "two", "-o", "built", cwd=folder)
        plain = [sys.executable, str(folder / "plain.py")]
        sides = {
            "by hand": by_frames("by hand", plain, folder, figures),
            "flowc": by_flowc(folder, figures),
        }
        if dora:
            command = [dora, "run", str(folder / "dora" / "dataflow.yml")]
            sides["dora"] = by_frames("dora", command, folder, figures)
        samples = alternate(sides, count)
    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds of {LONG} frames in {LONG // 50} s; median [quartiles] least..most\n")
    rows = [
        ["side", f"plans of {LONG // 10}", "p50 ms", "p99 ms", "CPU ms a frame", "times by hand"]
    ]
    for side, taken in samples.items():
        rows.append(
            [
                side,
                f"{min(figures.plans[side])}..{max(figures.plans[side])}",
                Spread.of(figures.half[side]).text(),
                Spread.of(figures.most[side]).text(),
                Spread.of(taken).text(),
                ratio(taken, samples["by hand"]).text(),
            ]
        )
    print(table(rows))
    print(f"\npixels off: {', '.join(f'{s} {mean(v):.2f}' for s, v in figures.off.items())}")
    if not dora:
        print("dora is not here: pip install dora-rs dora-rs-cli")


if __name__ == "__main__":
    main()
