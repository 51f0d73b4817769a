"""Least periods of graphs whose channels are bounded, beside Kiter: seconds of CPU time, and the
ratio of the two.

    python benchmarks/periods.py [--graphs DIRECTORY] [--kiter PROGRAM] [--rounds N]

The graphs are the SDF3 files (.xml) of the directory, or else generated ones: cyclo-static tasks in
a row with some shortcuts, each channel with another one back that holds its free space. Kiter
(github.com/bbodin/kiter, to be compiled) is the public program of the method that flowc uses,
K-Iter; both sides have to come to the same period.

flowc's time is that of the least period alone, in a process of its own after its imports; Kiter's
is that of its process, which reads the file as well (a few hundredths of a second).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from math import gcd, lcm
from pathlib import Path
from typing import Any

import flowc
from flowc.analysis.dataflow.graph import graph_of
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.throughput import least_period
from flowc.interop.sdf3 import importer as sdf3
from flowc.model.application import Application, Channel, Port, Task
from flowc.model.span import Span
from paired import Others, Spread, alternate, execute, machine, ratio, table, verdict

PLACE = Span("benchmark", 1, 1, 1, 1)
# tasks, most phase cycles of each in an iteration
GENERATED = ((30, 60), (100, 120), (100, 720), (300, 360))
SECONDS = 300.0
AIM = 1.5
SHORT = 0.1  # no aim below so many seconds of Kiter


def tight_app(tasks: int, most: int) -> Application:
    """A row of tasks of 1 to 3 phases with a tenth as many shortcuts; each channel has just the
    room that it needs.

    A shortcut has room for two iterations.
    """
    rng = random.Random(f"{tasks} {most}")
    divisors = [n for n in range(1, most + 1) if most % n == 0]
    cycles = [rng.choice(divisors) for _ in range(tasks)]
    phases = [rng.randint(1, 3) for _ in range(tasks)]
    ports: list[tuple[list[Port], list[Port]]] = [([], []) for _ in range(tasks)]
    channels: list[Channel] = []

    def join(a: int, b: int, rates: tuple[tuple[int, ...], tuple[int, ...]], tokens: int) -> None:
        number = len(channels)
        ports[a][1].append(Port(f"o{number}", "out", None, rates[0], True, PLACE))
        ports[b][0].append(Port(f"i{number}", "in", None, rates[1], True, PLACE))
        channels.append(
            Channel(
                f"c{number}", f"G.t{a}", f"o{number}", f"G.t{b}", f"i{number}", tokens, (), PLACE
            )
        )

    shortcuts = [sorted(rng.sample(range(tasks), 2)) for _ in range(tasks // 10)]
    for a, b in [*([t, t + 1] for t in range(tasks - 1)), *shortcuts]:
        traffic = lcm(cycles[a] * phases[a], cycles[b] * phases[b])
        made, taken = traffic // (cycles[a] * phases[a]), traffic // (cycles[b] * phases[b])
        rates = (made,) * phases[a], (taken,) * phases[b]
        room = 2 * traffic if [a, b] in shortcuts else made + taken - gcd(made, taken)
        join(a, b, rates, 0)
        join(b, a, rates[::-1], room)
    return Application(
        "G",
        tuple(
            Task(
                f"G.t{t}",
                f"T{t}",
                tuple(ins),
                tuple(outs),
                (),
                (),
                (),
                True,
                spent,
                None,
                "",
                PLACE,
            )
            for t, (ins, outs) in enumerate(ports)
            for spent in [tuple(Fraction(rng.randint(1, 100)) for _ in range(phases[t]))]
        ),
        tuple(channels),
        None,
        None,
        0,
        "",
        PLACE,
    )


def written(folder: Path) -> Iterator[Path]:
    """The generated graphs as files."""
    for tasks, most in GENERATED:
        app = tight_app(tasks, most)
        file = folder / f"{tasks}_tasks_{most}.xml"
        file.write_text(sdf3.write(app, {t.name: t.wcet_ns for t in app.tasks}))
        yield file


def solve(file: Path) -> dict[str, Any]:
    """The period of a graph, and the CPU seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "graph.flow"
        text.write_text(sdf3.read(str(file), file.read_bytes()).text)
        (app,) = flowc.check(text).system.apps
    graph = graph_of(
        app, repetition(app).vector, {t.name: t.wcet_ns or (Fraction(1),) for t in app.tasks}
    )
    begin = time.process_time()
    period = least_period(graph, seconds=SECONDS)
    spent = time.process_time() - begin
    bounds = [None if x is None else str(x) for x in (period.lower, period.upper)]
    return {"seconds": spent, "bounds": bounds, "size": [len(graph.names), sum(graph.firings)]}


class Flowc:
    """`solve` in a process of its own."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.found: dict[str, Any] = {}

    def __call__(self) -> float:
        self.found = json.loads(
            execute(sys.executable, Path(__file__).resolve(), "--one", self._file)
        )
        return float(self.found["seconds"])


class Kiter:
    """A process of Kiter; `period` is None where it did not come to an end."""

    def __init__(self, program: Path, file: Path) -> None:
        self._command = str(program), "-f", str(file), "-a", "KPeriodicThroughput"
        self.period: float | None = None

    def __call__(self) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            said = subprocess.run(
                self._command, capture_output=True, text=True, timeout=SECONDS
            ).stdout
        except subprocess.TimeoutExpired:
            said = ""
        told = [line.split()[-1] for line in said.splitlines() if "Period is" in line]
        self.period = float(told[0]) if told else None
        return max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 0.001)


def row(file: Path, program: Path | None, count: int) -> list[str]:
    """One graph, both sides by turns."""
    ours = Flowc(file)
    theirs = None if program is None else Kiter(program, file)
    samples = alternate({"flowc": ours} | ({"Kiter": theirs} if theirs is not None else {}), count)
    lower, upper = ours.found["bounds"]
    tasks, firings = ours.found["size"]
    exact = lower == upper
    shown = [file.stem, str(tasks), f"{firings:,}", lower if exact else f"{lower} .. {upper}"]
    shown.append(Spread.of(samples["flowc"]).text())
    if theirs is None:
        return shown
    if theirs.period is None:
        return [*shown, f"no answer in {SECONDS:.0f} s", "", ""]
    if exact and abs(theirs.period / Fraction(lower) - 1) > 1e-6:
        raise SystemExit(f"{file.name}: flowc says {lower}, Kiter {theirs.period}")
    beside = ratio(samples["flowc"], samples["Kiter"])
    peer = Spread.of(samples["Kiter"])
    return [
        *shown,
        peer.text(),
        beside.text(),
        verdict(beside.median, most=AIM) if peer.median > SHORT else "",
    ]


def main() -> None:
    """Alternate, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--graphs", type=Path, metavar="DIRECTORY", help="SDF3 files instead of generated graphs"
    )
    parser.add_argument("--kiter", type=Path, metavar="PROGRAM", help="a Kiter to compare with")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    wanted = parser.parse_args()
    others = Others()
    head = [f"least period, {wanted.rounds} rounds", "tasks", "firings", "period", "flowc s"]
    head += ["Kiter s", "flowc over Kiter", "aim"] if wanted.kiter else []
    with tempfile.TemporaryDirectory() as folder:
        files = (
            sorted(wanted.graphs.glob("*.xml")) if wanted.graphs else list(written(Path(folder)))
        )
        rows = [row(file, wanted.kiter, wanted.rounds) for file in files]
    print(f"{machine()}; {others.text()}\n\n{table([head, *rows])}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(solve(Path(sys.argv[2]))))
    else:
        main()
