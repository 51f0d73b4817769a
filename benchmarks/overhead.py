"""The overhead of the runtime of a generated program: per hop of a token between processors, and
per firing of a task.

Texts with empty Python tasks (they return what they get) are generated, pinned to processors, built
with flowc and run for many iterations; the time comes from the program's `--report`: from the first
start to the last end, divided by the number of hops or firings. A side runs in a process of its
own, and so do the peers, which move the same arrays through the same functions.

    1 MB, there and back    two tasks on two processors in a cycle with one token: half of an
    iteration is one hop, a
                            firing and a wake-up of the other thread included. Nothing overlaps.
    1 MB, stream            a source on one processor, a sink on the other: time per token, both
    working at once
    50 tasks, one core      a chain on one processor: time per firing
    50 tasks, alternating   the same chain, every channel between two processors: time per firing
    50 tasks in C           the first chain with empty functions in C
    8 of 16 in a list       a task on one processor that fires for each token of a list: there are
                            eight, and up to 16; what writes and reads the list counts as well

Tokens are passed by reference, which is the point: a megabyte must cost no more than a byte.

Peers: `queue.Queue` between two threads for the hops and, for everything, plain calls of the same
functions in a loop; those in C are called through ctypes, with the addresses of arrays that are
there already.
"""

from __future__ import annotations

import ctypes
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flowc.machines.whoami import cores
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

TASKS = 50
MEGABYTE = 1_000_000
LISTED = 8
PYTHON = '''"""Tasks that do nothing."""

import numpy as np

TOKEN = np.zeros(1, np.float32)
BIG = np.zeros({size}, np.uint8)


LIST = np.zeros(({listed}, 1), np.float32)


def source():
    return TOKEN


def listed():
    return LIST


def big():
    return BIG


def same(x):
    return x


def sink(x):
    pass
'''


C = """int source(void *state, float *y, const source_params *p) { *y = 1; return 0; }
int same(void *state, const float *x, float *y, const same_params *p) { *y = *x; return 0; }
int sink(void *state, const float *x, const sink_params *p) { return 0; }
"""


@dataclass(frozen=True, slots=True)
class Graph:
    """A text, and how many iterations its program runs; `units` hops or firings in each."""

    text: str
    iterations: int
    units: int


def there_and_back() -> Graph:
    """Two tasks in a cycle, on two processors."""
    text = f"""type Token = uint8[{MEGABYTE}]
task Same {{ in x: Token   out y: Token   python "tasks.py:same" }}
app Hop {{
    ping: Same   pong: Same
    ping -> pong -> delay 1 -> ping
}}
mapping on host {{ Hop.ping -> cpu[0]   Hop.pong -> cpu[1] }}
"""
    return Graph(text, 20_000, 2)


def stream() -> Graph:
    """A source and a sink on two processors."""
    text = f"""type Token = uint8[{MEGABYTE}]
task Source {{ out y: Token   python "tasks.py:big" }}
task Sink {{ in x: Token   python "tasks.py:sink" }}
app Hop {{
    source: Source   sink: Sink
    source -> sink
}}
mapping on host {{ Hop.source -> cpu[0]   Hop.sink -> cpu[1] }}
"""
    return Graph(text, 40_000, 1)


def chain(processors: int, iterations: int, code: str = 'python "tasks.py:') -> Graph:
    """A chain of TASKS tasks, dealt out to processors."""
    names = [f"t{i}" for i in range(TASKS)]
    kinds = ["Source", *["Same"] * (TASKS - 2), "Sink"]
    instances = "\n".join(f"    {name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    pins = "\n".join(f"    Chain.{name} -> cpu[{i % processors}]" for i, name in enumerate(names))
    text = f"""type Token = float32[1]
task Source {{ out y: Token   {code}source" }}
task Same {{ in x: Token   out y: Token   {code}same" }}
task Sink {{ in x: Token   {code}sink" }}
app Chain {{
{instances}
    {" -> ".join(names)}
}}
mapping on host {{
{pins}
}}
"""
    return Graph(text, iterations, TASKS)


def in_a_list() -> Graph:
    """A task between two lists, which are half full."""
    text = f"""type Token = float32[1]
task Source {{ out y: Token rate up to {2 * LISTED}   python "tasks.py:listed" }}
task Same {{ in x: Token   out y: Token   python "tasks.py:same" }}
task Sink {{ in x: Token rate up to {2 * LISTED}   python "tasks.py:sink" }}
app List {{
    source: Source   same: Same   sink: Sink
    source -> same -> sink
}}
mapping on host {{ List.source -> cpu[0]   List.same -> cpu[0]   List.sink -> cpu[0] }}
"""
    return Graph(text, 20_000, LISTED)


GRAPHS = {
    "1 MB, there and back": there_and_back(),
    "1 MB, stream": stream(),
    f"{TASKS} tasks, one core": chain(1, 3_000),
    f"{TASKS} tasks, alternating": chain(2, 1_500),
    f"{TASKS} tasks in C": chain(1, 20_000, 'c "tasks.c:'),
    f"{LISTED} of {2 * LISTED} in a list": in_a_list(),
}
AIMS = {
    "1 MB, there and back": 60.0,
    "1 MB, stream": 60.0,
    f"{TASKS} tasks, one core": 2.0,
    f"{TASKS} tasks in C": 1.0,
    f"{LISTED} of {2 * LISTED} in a list": 2.0,
}


# -- the generated programs ------------------------------------------------------------------------
def build(folder: Path, name: str, graph: Graph) -> Path:
    """Write and build a text; its main.py."""
    stem = "".join(c if c.isalnum() else "_" for c in name)
    text = folder / f"{stem}.flow"
    text.write_text(graph.text)
    flowc("build", text, "-o", folder / stem)
    return folder / stem / "main.py"


def program(main: Path, graph: Graph) -> Callable[[], float]:
    """us per hop or firing of a generated program."""

    def run() -> float:
        report = main.parent.parent / "report.json"
        execute(
            sys.executable, main, "--frames", str(graph.iterations), "--quiet", "--report", report
        )
        (app,) = json.loads(report.read_text())["apps"].values()
        return 1e6 * float(app["seconds"]) / (graph.iterations * graph.units)

    return run


# -- the peers: `python overhead.py PEER` runs one and prints its us per hop or firing -------------
def queue_there_and_back() -> float:
    """One array, to another thread and back, through two queues."""
    count = 20_000
    there: queue.Queue[np.ndarray | None] = queue.Queue()
    back: queue.Queue[np.ndarray] = queue.Queue()

    def answer() -> None:
        while (x := there.get()) is not None:
            back.put(same(x))

    thread = threading.Thread(target=answer)
    thread.start()
    token = np.zeros(MEGABYTE, np.uint8)
    begin = time.perf_counter()
    for _ in range(count):
        there.put(same(token))
        token = back.get()
    seconds = time.perf_counter() - begin
    there.put(None)
    thread.join()
    return 1e6 * seconds / (2 * count)


def queue_stream() -> float:
    """Arrays to another thread, through a queue as long as the channel of the generated program."""
    count = 40_000
    hop: queue.Queue[np.ndarray] = queue.Queue(3)
    token = np.zeros(MEGABYTE, np.uint8)

    def take() -> None:
        for _ in range(count):
            sink(hop.get())

    thread = threading.Thread(target=take)
    begin = time.perf_counter()
    thread.start()
    for _ in range(count):
        hop.put(same(token))
    thread.join()
    return 1e6 * (time.perf_counter() - begin) / count


def calls() -> float:
    """The same number of functions, called in a plain loop."""
    count = 50_000
    functions = [same] * (TASKS - 2)
    first = np.zeros(1, np.float32)
    begin = time.perf_counter()
    for _ in range(count):
        x = same(first)
        for function in functions:
            x = function(x)
        sink(x)
    return 1e6 * (time.perf_counter() - begin) / (count * TASKS)


def calls_of_a_list() -> float:
    """A function, called for each token of a list in a plain loop."""
    count = 50_000
    tokens = np.zeros((LISTED, 1), np.float32)
    begin = time.perf_counter()
    for _ in range(count):
        sink([same(token) for token in same(tokens)])  # type: ignore[arg-type]
    return 1e6 * (time.perf_counter() - begin) / (count * LISTED)


def calls_of_c() -> float:
    """The same number of functions in C."""
    count = 20_000
    with tempfile.TemporaryDirectory() as folder:
        typed = "".join(f"typedef void {name}_params;\n" for name in ("source", "same", "sink"))
        (Path(folder) / "tasks.c").write_text(typed + C)
        library = f"{folder}/tasks.so"
        subprocess.run(
            ["cc", "-O2", "-fPIC", "-shared", "-o", library, f"{folder}/tasks.c"], check=True
        )
        function = ctypes.CDLL(library).same
    function.argtypes = [ctypes.c_void_p] * 4
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    there, back = x.ctypes.data, y.ctypes.data
    begin = time.perf_counter()
    for _ in range(count):
        for _ in range(TASKS):
            if function(None, there, back, None):
                raise SystemExit("it failed")
    return 1e6 * (time.perf_counter() - begin) / (count * TASKS)


def same(x: np.ndarray) -> np.ndarray:
    """What the tasks do."""
    return x


def sink(x: np.ndarray) -> None:
    """What the sinks do."""


PEERS: dict[str, Callable[[], float]] = {
    "queue.Queue, there and back": queue_there_and_back,
    "queue.Queue, stream": queue_stream,
    "plain calls": calls,
    "calls of C": calls_of_c,
    "calls for a list": calls_of_a_list,
}
#: Who stands beside whom.
BESIDE = (
    ("1 MB, there and back", "queue.Queue, there and back"),
    ("1 MB, stream", "queue.Queue, stream"),
    ("1 MB, there and back", "plain calls"),
    (f"{TASKS} tasks, one core", "plain calls"),
    (f"{TASKS} tasks, alternating", "plain calls"),
    (f"{TASKS} tasks in C", "calls of C"),
    (f"{LISTED} of {2 * LISTED} in a list", "calls for a list"),
)


def peer(name: str) -> Callable[[], float]:
    """A peer in a process of its own."""
    return lambda: float(execute(sys.executable, Path(__file__).resolve(), "--peer", name))


def main() -> None:
    """Build, alternate, print."""
    count = rounds(__doc__, 15)
    others = Others()
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tasks.c").write_text(C)
        (folder / "tasks.py").write_text(PYTHON.format(size=MEGABYTE, listed=LISTED))
        sides = {
            graph: program(build(folder, graph, GRAPHS[graph]), GRAPHS[graph]) for graph in GRAPHS
        }
        sides.update({p: peer(p) for p in PEERS})
        samples = alternate(sides, count)

    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds; us per hop or firing: median [quartiles] least..most\n")
    rows = [["", "us", "aim"]]
    for side, times in samples.items():
        spread = Spread.of(times)
        aim = verdict(spread.median, most=AIMS[side], digits=0) if side in AIMS else ""
        rows.append([side, spread.text(), aim])
    print(table(rows), end="\n\n")
    rows = [["flowc takes", "times as long as", "median [quartiles] least..most", "more us"]]
    for side, other in BESIDE:
        more = Spread.of(samples[side]).median - Spread.of(samples[other]).median
        rows.append([side, other, ratio(samples[side], samples[other]).text(), f"{more:+.1f}"])
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        print(PEERS[sys.argv[2]]())
    else:
        main()
