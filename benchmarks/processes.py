"""The gain and the cost of a separate process for a task in Python.

    two stages              a pipeline of two tasks that only count, about a millisecond each, on
    two cores: time per
                            frame as threads, which take turns at the interpreter, and with
                            `process` in their pins
    1 kB, 100 kB, 1 MB      an array goes to another task and back: that task on the other
    processor, a thread; or
                            `process` on the same processor; or, as peer, through two
                            multiprocessing.Queue

Where others keep a core busy there is no second core to gain: the first figure needs a quiet
machine.

Texts are built with flowc; the time comes from the program's `--report`: from the first start to
the last end, divided by the number of frames. A side runs in a process of its own; sides are taken
in turns.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flowc.machines.whoami import cores
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

PYTHON = '''"""Tasks that count, and tasks that do nothing."""


class Source:
    def __call__(self):
        return 0


def count(n):
    total = 0
    for i in range(20_000):
        total += i
    return n


def same(x):
    return x


def sink(n):
    pass
'''
SIZES = {"1 kB": 1_000, "100 kB": 100_000, "1 MB": 1_000_000}
#: How many times as many frames the processes are to finish.
AIM = 1.7


@dataclass(frozen=True, slots=True)
class Graph:
    """A text, and how many frames its program runs."""

    text: str
    frames: int


def stages(process: str) -> Graph:
    """Two tasks that count, each on a core of its own."""
    text = f"""type N = int64
task Source {{ out n: N   python "tasks.py:Source" }}
task Count {{ in n: N   out m: N   python "tasks.py:count" }}
task Sink {{ in n: N   python "tasks.py:sink" }}
app Stages {{
    source: Source   one: Count   two: Count   sink: Sink
    source -> one -> two -> sink
}}
mapping on host {{
    Stages.source -> cpu[0]   Stages.one -> cpu[0] {process}   Stages.two -> cpu[1] {process}   Stages.sink -> cpu[1]
}}
"""
    return Graph(text, 800)


def there_and_back(size: int, place: str) -> Graph:
    """Two tasks in a cycle with one token."""
    text = f"""type Token = uint8[{size}]
task Same {{ in x: Token   out y: Token   python "tasks.py:same" }}
app Hop {{
    ping: Same   pong: Same
    ping -> pong -> delay 1 -> ping
}}
mapping on host {{ Hop.ping -> cpu[0]   Hop.pong -> {place} }}
"""
    return Graph(text, 4_000)


GRAPHS = {"two stages, threads": stages(""), "two stages, processes": stages("process")}
for _name, _size in SIZES.items():
    GRAPHS[f"{_name}, thread"] = there_and_back(_size, "cpu[1]")
    GRAPHS[f"{_name}, process"] = there_and_back(_size, "cpu[0] process")


def program(folder: Path, name: str, graph: Graph) -> Callable[[], float]:
    """Build it; us per frame of a run."""
    stem = "".join(c if c.isalnum() else "_" for c in name)
    (folder / f"{stem}.flow").write_text(graph.text)
    flowc("build", folder / f"{stem}.flow", "-o", folder / stem)

    def run() -> float:
        report = folder / "report.json"
        main = folder / stem / "main.py"
        execute(sys.executable, main, "--frames", str(graph.frames), "--quiet", "--report", report)
        (app,) = json.loads(report.read_text())["apps"].values()
        return 1e6 * float(app["seconds"]) / graph.frames

    return run


# -- the peer: `python processes.py --peer SIZE` runs it and prints its us there and back ----------
def answer(there: Any, back: Any) -> None:
    """What the other process does."""
    while (x := there.get()) is not None:
        back.put(x)


def queue_there_and_back(size: int) -> float:
    """One array, to another process and back, through two queues."""
    count = 500
    context = multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    other = context.Process(target=answer, args=(there, back))
    other.start()
    token = np.zeros(size, np.uint8)
    there.put(token)
    back.get()
    begin = time.perf_counter()
    for _ in range(count):
        there.put(token)
        token = back.get()
    seconds = time.perf_counter() - begin
    there.put(None)
    other.join()
    return 1e6 * seconds / count


def peer(size: int) -> Callable[[], float]:
    """The peer in a process of its own."""
    return lambda: float(execute(sys.executable, Path(__file__).resolve(), "--peer", str(size)))


def main() -> None:
    """Build, alternate, print."""
    count = rounds(__doc__, 11)
    others = Others()
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tasks.py").write_text(PYTHON)
        sides = {side: program(folder, side, graph) for side, graph in GRAPHS.items()}
        sides.update(
            {f"{size}, multiprocessing.Queue": peer(number) for size, number in SIZES.items()}
        )
        samples = alternate(sides, count)

    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds; us per frame, or there and back: median [quartiles] least..most\n")
    print(
        table(
            [
                ["", "us"],
                *([side, Spread.of(samples[side]).text(0)] for side in sorted(samples, key=_order)),
            ]
        )
    )
    gain = ratio(samples["two stages, threads"], samples["two stages, processes"])
    rows = [["times as long as a process", "median [quartiles] least..most", "aim"]]
    rows.append(["two stages, threads", gain.text(), verdict(gain.median, least=AIM)])
    for size in SIZES:
        for other in ("thread", "multiprocessing.Queue"):
            side = f"{size}, {other}"
            rows.append([side, ratio(samples[side], samples[f"{size}, process"]).text(), ""])
    print(f"\n{table(rows)}")


def _order(side: str) -> tuple[int, str]:
    return ["two stages", *SIZES].index(side.split(",")[0]), side


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        print(queue_there_and_back(int(sys.argv[2])))
    else:
        main()
