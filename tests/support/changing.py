"""A program with states whose sums stay right only if no frame is lost, doubled or out of order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
from flowc.runtime.code import Code
from flowc.runtime.control import Control
from flowc.runtime.graph import Fire, Task
from flowc.runtime.program import Program
from flowc.runtime.tokens import Port


class Call(Code):
    """States share it: it is opened once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.opened = function, 0

    def open(self, home: str, inputs: Any, outputs: Any) -> None:
        self.opened += 1
        assert self.opened == 1

    def fire(self, inputs: Any, firing: int) -> Any:
        return self.function(*inputs)


def port(name: str) -> Port:
    return Port(name, "int64", ())


class Sums:
    """An app that adds up what its source counts; the sum comes back through a delay, and stands in
    front of it."""

    def __init__(self, length: int = 10**9, at: Callable[[int], None] = lambda y: None) -> None:
        self.seen: list[int] = []
        self.source, self.add, self.sink = (
            Call(self._next),
            Call(lambda s, x: s + x),
            Call(self._see),
        )
        self._numbers, self._at = iter(range(length)), at

    def _next(self) -> Any:
        return np.int64(next(self._numbers))

    def _see(self, y: Any) -> None:
        self.seen.append(int(y))
        self._at(len(self.seen))

    def in_state(
        self, program: Program, name: str, period: str | None = None
    ) -> tuple[Task, Task, Task]:
        app = program.app(name, period)
        source = app.task(f"{name}.source", self.source, [], [port("x")])
        add = app.task(f"{name}.add", self.add, [port("s"), port("x")], [port("y")])
        sink = app.task(f"{name}.sink", self.sink, [port("y")], [])
        program.channel(source, "x", add, "x", 2)
        program.channel(add, "y", add, "s", 2, delay=1, key="0")
        program.channel(add, "y", sink, "y", 2)
        return source, add, sink

    @property
    def right(self) -> bool:
        return self.seen == list(accumulate(range(len(self.seen))))


def patrol(a: Sums, b: Sums, period: str | None = None) -> Program:
    """Three states: A alone on one worker, both with A in a pipeline, B in a pipeline."""
    program = Program("p", "")
    Control(program, ["go", "back"])
    program.control.state("one", initial=True)
    program.processor("c0", [Fire(t) for t in a.in_state(program, "A", period)])
    program.control.state("two")
    source, add, sink = a.in_state(program, "A", period)
    program.processor("c0", [Fire(add, stage=1), Fire(source)])
    program.processor("c1", [Fire(sink, stage=2)])
    program.processor("c0", [Fire(t) for t in b.in_state(program, "B", period)])
    program.control.state("three")
    source, add, sink = b.in_state(program, "B", period)
    program.processor("c0", [Fire(source)])
    program.processor("c1", [Fire(add, stage=1), Fire(sink, stage=1)])
    program.control.transition("one", "two", ["go"])
    program.control.transition("two", "three", ["go"])
    program.control.transition("two", "one", ["back"])
    program.control.transition("three", "one", ["go"])
    return program
