"""The runtime's overhead for a firing here, the cost of a hand-over to another core, and the noise
of equal work.

Measured with the runtime itself: the same three tasks on one worker, with the middle one on a
worker of its own, and with its firings in turn on both. So it includes all parts of a hand-over:
waking a thread, waiting for the interpreter, channels. As a program it prints them as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from math import inf
from typing import Any, Callable, Dict, Sequence

import numpy as np

from ...machines.whoami import celsius
from ...runtime.code import Code
from ...runtime.control import Control
from ...runtime.graph import Fire
from ...runtime.lifecycle import execute
from ...runtime.program import Program
from ...runtime.tokens import Port

#: Bytes of the tensors that are handed over.
SIZES = (1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
#: Hand-overs of each size; the median of them counts.
ROUNDS = 60
#: The work of the middle task: so many bytes take about a tenth of a millisecond, without the
#: interpreter.
WORK = 300_000
#: Frames of one run, of one without work, and runs of each program, in turns. The shortest run
#: counts: other programs of the machine make it longer.
FRAMES, IDLE, TURNS = 80, 3000, 12
#: Tokens that fit into a channel between workers, as in programs.
CAPACITY = 4
#: Changes of state that are measured, and frames between two of them.
CHANGES, STAY = 100, 4


def runtime_costs() -> Dict[str, float]:
    """Takes about a second. Costs that become negative by noise are zero.

    `firing_ns` is added to each firing; `hop_ns` and `ns_per_byte` are the cost of a token from
    another worker.
    """
    work = bytes(WORK)
    idle = alone = apart = turns = inf
    for _ in range(TURNS):
        idle = min(idle, _frame_ns(b"", _one_worker, IDLE))
        alone = min(alone, _alone_ns(work))
        apart = min(apart, _frame_ns(work, _worker_of_its_own))
        turns = min(turns, _frame_ns(work, _in_turn))
    firing = idle / 3  # for three tasks without work
    # In turn, each worker has half of the work and of its token, the first one also the token that
    # comes back.
    hop = max(apart - alone - firing, (turns - alone / 2 - 2.5 * firing) / 1.5, 0.0)
    return {"firing_ns": firing, "hop_ns": hop, "ns_per_byte": _slope(hop)}


# -- firings and hand-overs ------------------------------------------------------------------------
class _Call(Code):
    """A function as the code of a task."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Nothing has to be loaded."""

    def fire(self, inputs: Sequence[Any], firing: int) -> Any:
        return self._function(*inputs)


def _one_worker(program: Program, first: Any, middle: Any, last: Any) -> None:
    program.processor("cpu[0]", [Fire(first), Fire(middle), Fire(last)])


def _worker_of_its_own(program: Program, first: Any, middle: Any, last: Any) -> None:
    program.processor("cpu[0]", [Fire(last, stage=2), Fire(first)])
    program.processor("cpu[1]", [Fire(middle, stage=1)])


def _in_turn(program: Program, first: Any, middle: Any, last: Any) -> None:
    program.processor(
        "cpu[0]", [Fire(last, stage=2), Fire(middle, stage=1, replica=(0, 2)), Fire(first)]
    )
    program.processor("cpu[1]", [Fire(middle, stage=1, replica=(1, 2))])


def _frame_ns(
    work: bytes, workers: Callable[[Program, Any, Any, Any], None], frames: int = FRAMES
) -> float:
    """Time between frames of three tasks, the middle one of which computes."""
    token = np.zeros(16, np.float32)

    def compute(x: Any) -> Any:
        zlib.adler32(work)
        return x

    program = Program("costs", "")
    app = program.app("Costs")

    def port(name: str) -> Port:
        return Port(name, "float32", token.shape)

    first = app.task("Costs.first", _Call(lambda: token), (), [port("x")])
    middle = app.task("Costs.middle", _Call(compute), [port("x")], [port("y")])
    last = app.task("Costs.last", _Call(lambda y: ()), [port("y")])
    program.channel(first, "x", middle, "x", CAPACITY)
    program.channel(middle, "y", last, "y", CAPACITY)
    workers(program, first, middle, last)
    execute(program, frames=frames)
    return (app.last_end - app.first_end) / (frames - 1)


def change_cost() -> Dict[str, float]:
    """`change_ns`: the controller's longest time for a change of state; takes a fraction of a
    second.

    The largest sample, or the mean plus six deviations. Two states of an app over two workers,
    which raises an event every few frames.
    """
    program = Program("costs", "")
    fired = iter(range(CHANGES * STAY))

    def source() -> Any:
        if next(fired) % STAY == 0:
            program.raise_event("turn")
        return np.int8(0)

    port = Port("x", "int8", ())
    codes = _Call(source), _Call(lambda x: ())
    control = Control(program, events=["turn"])
    for name in ("one", "other"):
        control.state(name, initial=name == "one")
        app = program.app("Costs")
        first, last = (
            app.task("Costs.first", codes[0], (), [port]),
            app.task("Costs.last", codes[1], [port]),
        )
        program.channel(first, "x", last, "x", CAPACITY)
        program.processor("cpu[0]", [Fire(first)])
        program.processor("cpu[1]", [Fire(last, stage=1)])
    control.transition("one", "other", ["turn"])
    control.transition("other", "one", ["turn"])
    execute(program)
    taken = np.array([c.control for c in control.changes if c.entered], dtype=float)
    return {"change_ns": max(float(taken.max()), float(taken.mean() + 6 * taken.std()))}


def _alone_ns(work: bytes) -> float:
    begin = time.perf_counter_ns()
    for _ in range(FRAMES):
        zlib.adler32(work)
    return (time.perf_counter_ns() - begin) / FRAMES


# -- bytes -----------------------------------------------------------------------------------------
def _slope(hop: float) -> float:
    """The cost of each byte of a token that another core has written, fitted by least squares,
    never below zero.

    Tokens are handed over by reference: their reader pays. Relative errors count: otherwise the
    largest size alone would decide.
    """
    sizes = np.array(SIZES, dtype=float)
    extra = np.array([max(0.0, _read_ns(size, False) - _read_ns(size, True)) for size in SIZES])
    weights = 1 / (max(hop, 1.0) + extra)
    slope = float(np.sum(weights * sizes * extra) / np.sum(weights * sizes * sizes))
    return max(0.0, slope)


def _read_ns(size: int, here: bool) -> float:
    """Time to read an array that was just written by this thread, or by another one."""
    times = []
    array = np.zeros(size // 8)
    for k in range(ROUNDS):
        if here:
            array.fill(k)
        else:
            writer = threading.Thread(target=array.fill, args=(k,))
            writer.start()
            writer.join()  # no limit: it fills an array
        begin = time.perf_counter_ns()
        array.sum()
        times.append(time.perf_counter_ns() - begin)
    return float(np.median(times))


def noise() -> Dict[str, Any]:
    """The noise of equal work on this machine now (from the 10th to the 90th percentile, relative),
    and its temperature then."""
    a = np.ones((96, 96), np.float32)
    times = []
    for _ in range(400):
        begin = time.perf_counter_ns()
        for _ in range(4):
            a @ a
        times.append(time.perf_counter_ns() - begin)
    low, middle, high = np.percentile(times, [10, 50, 90])
    return {"noise": float((high - low) / middle), "celsius": celsius()}


if __name__ == "__main__":
    measured: Dict[str, Callable[[], Dict[str, Any]]] = {
        "costs": runtime_costs,
        "change": change_cost,
        "noise": noise,
    }
    sys.stdout.write("\n" + json.dumps(measured[sys.argv[1]]()))
