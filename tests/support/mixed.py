"""Tasks whose every token depends on all that they have read, in graphs of any shape, and what they
have to read."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flowc.analysis.dataflow.static_order import schedule
from flowc.model.application import Application, Task
from flowc.runtime.code import Code
from flowc.runtime.graph import Fire
from flowc.runtime.program import Program
from flowc.runtime.tokens import Port


class Mixed(Code):
    """Every token depends on all that the task has read so far, and on its firing."""

    def __init__(self, task: int, ends_at: int | None) -> None:
        self.task, self.ends_at, self.seen, self.n = task, ends_at, 0, 0

    def open(self, home: str, inputs: Any, outputs: Any) -> None:
        self.outputs = outputs

    def fire(self, inputs: Any, firing: int) -> Any:
        if self.n == self.ends_at:
            raise StopIteration
        for array in inputs:
            for token in np.atleast_1d(array).tolist():
                self.seen = (31 * self.seen + token + 1) % 1_000_003
        made = []
        for i, p in enumerate(self.outputs):
            values = [
                (self.seen + 7 * self.task + 3 * i + 11 * self.n + k) % 1_000_003
                for k in range(p.rate(self.n))
            ]
            made.append(np.array(values if p.stacked else values[0], np.int64))
        self.n += 1
        return tuple(made) if len(made) != 1 else made[0]


def played(
    graph: Application, vector: Mapping[str, int], frames: int
) -> dict[str, list[list[list[int]]]]:
    """What every firing of every task reads, one firing after the other."""
    codes = {t.name: Mixed(k, None) for k, t in enumerate(graph.tasks)}
    for t in graph.tasks:
        codes[t.name].open(
            "", (), [Port(p.name, "int64", (), p.rates, p.stacked) for p in t.outputs]
        )
    waiting = {c.name: [0] * c.delay for c in graph.channels}
    read: dict[str, list[list[list[int]]]] = {t.name: [] for t in graph.tasks}
    progress = True
    while progress:
        progress = False
        for t in graph.tasks:
            n = len(read[t.name])
            feeders = [
                (p, c)
                for p in t.inputs
                for c in graph.channels
                if (c.destination, c.destination_port) == (t.name, p.name)
            ]
            if n == frames * vector[t.name] or any(
                len(waiting[c.name]) < p.rate(n) for p, c in feeders
            ):
                continue
            taken = []
            for p, c in feeders:
                taken.append(waiting[c.name][: p.rate(n)])
                del waiting[c.name][: p.rate(n)]
            made = codes[t.name].fire([np.array(x, np.int64) for x in taken], n)
            for p, values in zip(
                t.outputs, made if isinstance(made, tuple) else (made,), strict=True
            ):
                for c in graph.channels:
                    if (c.source, c.source_port) == (t.name, p.name):
                        waiting[c.name] += np.atleast_1d(values).tolist()
            read[t.name].append(taken)
            progress = True
    return read


#: The code of a task: its number, the task, and whether a source ends there.
Maker = Callable[[int, Task, int | None], Code]


def from_graph(
    graph: Application,
    vector: Mapping[str, int],
    cores: int,
    seed: int,
    ends_at: int | None,
    code: Maker,
    home: str = "",
) -> Program:
    """A program of that graph; `seed` draws placement and times."""
    rng = random.Random(seed)
    placement = {t.name: (f"cpu[{rng.randrange(cores)}]",) for t in graph.tasks}
    found = schedule(
        [graph], {"A": vector}, placement, dict.fromkeys(placement, 1e6 * rng.random())
    )
    program = Program("p", home)
    made = program.app("A")
    tasks = {}
    for k, t in enumerate(graph.tasks):
        ports = [
            [Port(p.name, "int64", (), p.rates, p.stacked) for p in side]
            for side in (t.inputs, t.outputs)
        ]
        tasks[t.name] = made.task(t.name, code(k, t, ends_at if not t.inputs else None), *ports)
    for c in graph.channels:
        ends = (tasks[c.source], c.source_port, tasks[c.destination], c.destination_port)
        program.channel(*ends, found.capacities[c.name], c.delay)
    for processor, steps in found.orders.items():
        program.processor(
            processor, [Fire(tasks[s.task], s.times, s.first, s.stage) for s in steps]
        )
    return program
