"""Memory and time of networks: ONNX Runtime as it is, one shared arena, bands of rows, and plans on
paper.

Every way runs a network in a process of its own, as a bare loop: what is opened, what malloc has
given out since then (counted by malloc itself), and ms per inference, in turns. Weights are not in
it, nor are inputs and outputs.

    default       a session of ONNX Runtime as it is, one thread
    no arena      the same with enable_cpu_mem_arena=False
    shared arena  what generated programs do (flowc.runtime.memory): one arena, rehearsed
    bands         the choice of `flowc analyze --memory` with the least memory at 1.3 of the time
    (predicted) or less,
                  in ONNX Runtime's own blocked layout where it has one
    plain bands   the same in plain models, as on machines without such a layout
    quick bands   the choice of least predicted time within the megabytes of `ENOUGH`
    in turn       four networks one after the other: sessions as they are, and in the shared arena

On paper: each tensor its own, Minakova's Algorithm 8, the live set of fused layers, and rows under
a layer, below which nothing gets that goes row by row. `planned` and `predicted` are what flowc
says beforehand, the latter by what bands of the network cost here, which is measured first (as
`flowc profile` does), over the network in the shared arena.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import structures
from flowc.networks.bands.blocked import read_blocked
from flowc.networks.bands.choose import Choice
from flowc.networks.bands.compare import compare
from flowc.networks.bands.firings import HELD
from flowc.networks.bands.made import Forms, forms
from flowc.networks.bands.net import BandNet, read_net
from flowc.networks.onnx.memory import needs_of
from paired import Others, alternate, execute, machine, ratio, table, verdict

#: Of the whole network's time, what bands may take as predicted.
SLOWER = 1.3
NAMES = (
    "mobilenet",
    "resnet18",
    "squeezenet",
    "yolov3_tiny",
    "inception_v1",
    "edsr",
    "unet",
    "mobilenet_1024",
)
IN_TURN = ("mobilenet", "squeezenet", "resnet18", "inception_v1")
#: Aims for the memory between layers, over ONNX Runtime as it is.
AIM, AIM_IN_TURN = 0.65, 0.20
#: What lies between layers of a network may take so many bytes where time matters most.
ENOUGH = {
    "mobilenet": 2.0e6,
    "resnet18": 2.6e6,
    "squeezenet": 2.6e6,
    "edsr": 20e6,
    "unet": 22e6,
    "mobilenet_1024": 50e6,  # its aim is a process of 180 MB
}


# -- a way, in a process of its own: `python memory.py --way JSON` ---------------------------------
class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("a", "b", "c", "d", "mapped", "f", "g", "used", "i", "j")
    ]


def heap() -> int:
    """Bytes that malloc has given out."""
    count = ctypes.CDLL(None).mallinfo2
    count.restype = _Heap
    found = count()
    return int(found.used + found.mapped)


def plain(path: str, arena: bool) -> tuple[Callable[[], None], list[Any]]:
    """A session with default options."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.enable_cpu_mem_arena = arena
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {
        i.name: np.random.default_rng(0).standard_normal(i.shape).astype(np.float32)
        for i in session.get_inputs()
    }
    return lambda: session.run(None, feeds), []


def shared(path: str) -> tuple[Callable[[], None], list[Any]]:
    """A network of a generated program."""
    from flowc.runtime.code import Network, session
    from flowc.runtime.memory import ports_of

    opened = session(path, 1, False)
    inputs, outputs = ports_of(opened.get_inputs()) or [], ports_of(opened.get_outputs()) or []
    code = Network(path, [p.name for p in inputs], [p.name for p in outputs])
    code.open("/", inputs, outputs)
    arrays = [np.random.default_rng(0).standard_normal(p.shape).astype(np.float32) for p in inputs]
    return lambda: code.fire(arrays, 0), [code]


def banded(path: str, folder: str) -> tuple[Callable[[], None], list[Any]]:
    """A network of a generated program, in bands."""
    from flowc.runtime.bands import Bands
    from flowc.runtime.tokens import Port

    ends = json.loads((Path(folder) / "ends.json").read_text())
    inputs, outputs = (
        [Port(n, "float32", tuple(s)) for n, s in ends[side]] for side in ("inputs", "outputs")
    )
    code = Bands("plan.json", [p.name for p in inputs], [p.name for p in outputs])
    code.open(folder, inputs, outputs)
    arrays = [np.random.default_rng(0).standard_normal(p.shape).astype(np.float32) for p in inputs]
    return lambda: code.fire(arrays, 0), [code]


def kept(code: Any) -> int:
    """Bytes of outputs that are not read any more: in a program they are tokens."""
    outputs = getattr(code, "_made", None) or code._outputs
    return sum(len(memory) for free in outputs._free.values() for memory in free)


def measure(way: str, paths: list[str], folder: str, seconds: float) -> dict[str, float]:
    """Bytes between layers after some runs, the process, and ms per inference."""
    from flowc.runtime.memory import rehearsed, trim

    openers = {
        "default": lambda p: plain(p, True),
        "no arena": lambda p: plain(p, False),
        "shared arena": shared,
    }
    made = [openers[way](p) if way in openers else banded(p, folder) for p in paths]
    trim()
    before = heap()
    for _, step in rehearsed((None, r) for _, codes in made for c in codes for r in c.rehearsals()):
        step()
    least = before
    for _ in range(3):
        for run, _ in made:
            run()
            least = max(least, heap() - sum(kept(code) for _, codes in made for code in codes))
    spent: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(spent) < 3:
        begin = time.process_time()
        for run, _ in made:
            run()
        spent.append(time.process_time() - begin)
    status = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    return {
        "bytes": least - before,
        "process": int(status["VmRSS"].split()[0]) * 1024,
        "ms": 1e3 * median(spent),
    }


# -- all of them -----------------------------------------------------------------------------------
def choice_of(choices: tuple[Choice, ...]) -> Choice:
    """The least memory at so much time, or the whole network."""
    return min((c for c in choices if c.time <= SLOWER), key=lambda c: c.buffers)


def quick_of(choices: tuple[Choice, ...], enough: float) -> Choice:
    """The least time within so many bytes; what comes nearest where nothing is."""
    return min(choices, key=lambda c: (max(0.0, c.buffers - enough), c.time))


def write_bands(net: BandNet, blocked: BandNet | None, choice: Choice, folder: Path) -> Forms:
    """Plan, models and ends, as `banded` reads them."""
    from flowc.codegen.kinds.bands import document

    folder.mkdir(parents=True)

    def place(name: str, content: bytes) -> str:
        (folder / name).write_bytes(content)
        return name

    found = forms(net, blocked, choice.bands)
    (folder / "plan.json").write_text(
        json.dumps(document(found, place, net.chain.inputs, net.chain.outputs))
    )
    ends = {s: [(t, net.shapes[t]) for t in getattr(net.chain, s)] for s in ("inputs", "outputs")}
    (folder / "ends.json").write_text(json.dumps(ends))
    return found


def side(
    way: str, paths: list[Path], folder: Path, seconds: float, seen: dict[str, float]
) -> Callable[[], float]:
    """ms of a way in a process of its own; `seen` collects what it measured besides."""

    def run() -> float:
        words = json.dumps([way, [str(p) for p in paths], str(folder), seconds])
        found = json.loads(execute(sys.executable, Path(__file__).resolve(), "--way", words))
        seen.update({k: min(v, seen.get(k, v)) for k, v in found.items() if k != "ms"})
        return float(found["ms"])

    return run


def mb(count: float) -> str:
    """Bytes in millions."""
    return f"{count / 1e6:.2f}"


def main() -> None:
    """Network by network, then four in turn."""
    from flowc.driver.measure.band_costs import costs_of

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="of each run; default 2"
    )
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help="repeatable")
    parser.add_argument("--networks", type=Path, metavar="FOLDER", help="keep the networks here")
    given = parser.parse_args()
    names = given.only or list(NAMES)
    others = Others()
    papers = [
        ["MB between layers", "each its own", "Algorithm 8", "live set", "rows under a layer"]
    ]
    rows = [
        [
            "MB between layers",
            "way",
            "planned",
            "measured",
            "over",
            "process",
            "predicted",
            "time over default",
            "firings",
        ]
    ]
    less: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.networks or Path(scratch) / "networks"
        paths = structures.write(folder, dict.fromkeys([*names, *IN_TURN]))
        for name in names:
            net = read_net(paths[name])
            blocked = read_blocked(net)
            compared = compare(net, blocked=blocked, costs=costs_of(paths[name], net, blocked))
            choice = choice_of(compared.choices)
            made = {"bands": write_bands(net, blocked, choice, Path(scratch) / name / "bands")}
            if blocked is not None:
                made["plain bands"] = write_bands(
                    net, None, choice, Path(scratch) / name / "plain bands"
                )
            predicted = dict.fromkeys(("bands", "plain bands"), choice.time)
            if name in ENOUGH:
                quick = quick_of(compared.choices, ENOUGH[name])
                made["quick bands"] = write_bands(
                    net, blocked, quick, Path(scratch) / name / "quick bands"
                )
                predicted["quick bands"] = quick.time
            papers.append(
                [
                    name,
                    *(
                        mb(n)
                        for n in (
                            compared.separate,
                            compared.algorithm8,
                            compared.whole.bound,
                            compared.rows,
                        )
                    ),
                ]
            )
            planned = {
                way: (
                    f.used.plan.arena + f.used.block + HELD * len(f.used.plan.calls),
                    len(f.used.plan.calls),
                )
                for way, f in made.items()
            }
            planned["shared arena"] = needs_of(net.chain, net.model, net.folder).block, 1
            ways = ["default", "no arena", "shared arena", *(made if choice.bands else [])]
            seen: dict[str, dict[str, float]] = {way: {} for way in ways}
            sides = {
                w: side(w, [paths[name]], Path(scratch) / name / w, given.seconds, seen[w])
                for w in ways
            }
            samples = alternate(sides, given.rounds)
            for way in ways:
                plan, firings = planned.get(way, (0, 0))
                rows.append(
                    [
                        name,
                        way,
                        mb(plan) if plan else "",
                        mb(seen[way]["bytes"]),
                        f"{seen[way]['bytes'] / plan:.2f}" if plan else "",
                        mb(seen[way]["process"]),
                        f"{predicted[way]:.2f}" if way in predicted else "",
                        ratio(samples[way], samples["default"]).text(),
                        str(firings) if plan else "",
                    ]
                )
            less.append(seen["shared arena"]["bytes"] / seen["default"]["bytes"])
        turns: dict[str, dict[str, float]] = {way: {} for way in ("default", "shared arena")}
        four = [paths[name] for name in IN_TURN]
        samples = alternate(
            {w: side(w, four, folder, given.seconds, turns[w]) for w in turns}, given.rounds
        )
    print(f"{machine()}; {others.text()}")
    print(f"{given.rounds} rounds\n\n{table(papers)}\n\n{table(rows)}\n")
    mean = geometric_mean(less)
    print(f"shared arena over default, geometric mean: {mean:.2f}  {verdict(mean, most=AIM)}")
    share = turns["shared arena"]["bytes"] / turns["default"]["bytes"]
    figures = f"{mb(turns['shared arena']['bytes'])} instead of {mb(turns['default']['bytes'])} MB"
    spent = ratio(samples["shared arena"], samples["default"]).text()
    print(f"four in turn: {figures}, {share:.2f}  {verdict(share, most=AIM_IN_TURN)}; time {spent}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        print(json.dumps(measure(*json.loads(sys.argv[2]))))
    else:
        main()
