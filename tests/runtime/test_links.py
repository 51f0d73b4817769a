"""What one app hands to another: who ends when, and what stays over changes of state."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flowc.runtime.code import Code
from flowc.runtime.control import Control
from flowc.runtime.graph import Fire, Task
from flowc.runtime.lifecycle import execute
from flowc.runtime.link import Latest, Link, Put
from flowc.runtime.program import Program

from builds import HANGS
from changing import Call, Sums, port


class Joined:
    """App A counts, and app R looks at its numbers, with a count of its own beside."""

    def __init__(
        self, program: Program, length: int = 10**9, before: Callable[[], Any] = lambda: None
    ) -> None:
        self.program, self.looked, self.own = program, list[int](), list[int]()
        numbers, own = iter(range(1, length)), iter(range(10**9))

        def counted() -> Any:
            before()
            return np.int64(next(own))

        self._codes = {
            "A.count": Call(lambda: np.int64(next(numbers))),
            "A.to_R": Put(Link.of(program, "R.from_A", 1)),
            "R.count": Call(counted),
            "R.from_A": Latest(Link.of(program, "R.from_A", 1)),
            "R.keep": Call(self._keep),
        }

    def _keep(self, number: Any, own: Any) -> None:
        self.looked.append(int(number))
        self.own.append(int(own))

    def writer(self) -> None:
        """App A, on a processor of its own."""
        app = self.program.app("A")
        count, end = self._made(app, "A.count", [], ["x"]), self._made(app, "A.to_R", ["in"], [])
        self.program.channel(count, "x", end, "in", 2)
        self.program.processor("c0", [Fire(count), Fire(end)])

    def reader(self, period: str | None = None) -> None:
        """App R, on another one: its own count begins a frame, and then it looks."""
        app = self.program.app("R", period)
        count, end = self._made(app, "R.count", [], ["x"]), self._made(app, "R.from_A", [], ["out"])
        keep = self._made(app, "R.keep", ["n", "own"], [])
        self.program.channel(end, "out", keep, "n", 2)
        self.program.channel(count, "x", keep, "own", 2)
        self.program.processor("c1", [Fire(count), Fire(end), Fire(keep)])

    def _made(self, app: Any, name: str, inputs: list[str], outputs: list[str]) -> Task:
        code: Code = self._codes[name]
        return app.task(name, code, [port(n) for n in inputs], [port(n) for n in outputs])  # type: ignore[no-any-return]


def states(joined: Joined, period: str | None = None) -> Program:
    """Both apps, the writer alone, the reader alone, and back again."""
    program = joined.program
    Control(program, ["go", "skip"])
    for name, apps in {"both": "AR", "writes": "A", "reads": "R"}.items():
        program.control.state(name, initial=name == "both")
        if "A" in apps:
            joined.writer()
        if "R" in apps:
            joined.reader(period)
    for source, target in (("both", "writes"), ("writes", "reads"), ("reads", "both")):
        program.control.transition(source, target, ["go"])
        program.control.transition(target, source, ["skip"])
    return program


def stormed(program: Program, times: int) -> None:
    """Events at random until there were so many changes."""

    def storm() -> None:
        rng, control = random.Random(times), program.control
        assert control is not None
        program.run.go.wait(HANGS)
        while len(control.changes) < times and program.run.failure is None:
            program.raise_event(rng.choice(("go", "go", "skip")))
            threading.Event().wait(rng.choice((0, 0, 0.0005)))
        program.run.drain()

    threading.Thread(target=storm, daemon=True).start()
    assert execute(program), program.run.failure


@pytest.mark.parametrize("period", [None, "300000"])
def test_who_looks_sees_what_came_last_in_whatever_state_that_was(period: str | None) -> None:
    joined = Joined(Program("p", ""))
    program = states(joined, period)
    stormed(program, 100)
    assert program.control is not None and len(program.control.changes) >= 100
    assert joined.own == [*range(len(joined.own))], "a frame was lost at a change"
    assert all(stay.frames.get("R", 1) for stay in program.control.stays[:-1]), "an app did not run"
    written, seen = 0, 0
    for stay in program.control.stays:
        count = stay.frames.get("R", 0)
        looked = joined.looked[seen : seen + count]
        if stay.state == "reads":  # the newest number that A has made in any state so far
            assert looked == [written] * count
        before, written = written, written + stay.frames.get("A", 0)
        assert looked == sorted(looked) and all(before <= n <= written for n in looked)
        seen += count
    assert seen == len(joined.looked) and {"writes", "reads"} <= {
        s.state for s in program.control.stays
    }


def test_who_looks_ends_with_a_stream_that_has_ended_in_another_state() -> None:
    """A ends where R does not run, beside B; in the next state R has nothing to wait for, and the
    program ends."""

    def look(n: int) -> None:
        if any(app.exhausted for app in program.apps):
            program.raise_event("go")

    joined = Joined(program := Program("p", ""), length=40)
    beside = Sums(at=look)
    Control(program, ["go"])
    program.control.state("first", initial=True)
    joined.writer()
    program.processor("c2", [Fire(task) for task in beside.in_state(program, "B")])
    program.control.state("second")
    joined.reader()
    program.control.transition("first", "second", ["go"])
    assert execute(program) and program.control is not None
    assert [stay.frames for stay in program.control.stays] == [
        {"A": 39, "B": len(beside.seen)},
        {"R": 0},
    ]


def test_who_looks_has_all_frames_that_are_asked_for() -> None:
    """Though the app that it looks at has had all of its own before."""
    wait = threading.Event()
    joined = Joined(program := Program("p", ""), before=lambda: wait.wait(HANGS))
    joined.writer()
    joined.reader()

    def let_go() -> None:
        while program.apps[0].done < 10:
            threading.Event().wait(0.001)
        wait.set()

    threading.Thread(target=let_go, daemon=True).start()
    assert execute(program, frames=10)
    assert [app.frames for app in program.apps] == [10, 10]
    assert joined.looked == [10] * 10
