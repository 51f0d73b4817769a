"""States that differ in alternatives alone: changes without a pause lose, double and reorder
nothing."""

from __future__ import annotations

import random
import threading
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from flowc.runtime.code import Code, Network
from flowc.runtime.control import Control
from flowc.runtime.graph import Fire
from flowc.runtime.lifecycle import execute
from flowc.runtime.program import Program
from flowc.runtime.report import report
from flowc.runtime.scenario import Stay
from flowc.runtime.select import Pick, Select
from flowc.runtime.states import document
from flowc.runtime.tokens import Port

from limits import HANGS


class Call(Code):
    """A function as code."""

    def __init__(self, function: Any) -> None:
        self.function, self.opened = function, 0

    def open(self, home: str, inputs: Any, outputs: Any) -> None:
        self.opened += 1
        assert self.opened == 1

    def fire(self, inputs: Any, firing: int) -> Any:
        return self.function(*inputs)


class Slow(Network):
    """An inference that takes some moments, and ends early when it is broken off."""

    def __init__(self, factor: int, moments: int) -> None:
        Network.__init__(self, "", ["x"], ["y"])
        self.factor, self.moments, self.broken = factor, moments, 0

    def open(self, home: str, inputs: Any, outputs: Any) -> None:
        pass

    def rehearsals(self) -> Any:
        return []

    def fire(self, inputs: Any, firing: int, options: Any = None) -> Any:
        for _ in range(self.moments):
            if options is not None and options.terminate:
                self.broken += 1
                raise RuntimeError("broken off")
            threading.Event().wait(0.0002)
        return (np.int64(inputs[0] * self.factor),)


def port(name: str) -> Port:
    return Port(name, "int64", ())


class Chosen:
    """An app that multiplies what it counts by 1 or by -1, as its state says, and adds up the
    numbers themselves."""

    def __init__(self, protocol: str, stages: int, replicas: int, moments: int = 2) -> None:
        self.seen: list[tuple[int, int]] = []
        self.numbers = iter(range(10**9))
        self.codes = {"plus": Slow(1, moments), "minus": Slow(-1, moments)}
        self.program = program = Program("p", "")
        Control(program, ["turn", "back"])
        program.control.state("plus", initial=True)
        app = program.app("A")
        source = app.task("A.source", Call(lambda: np.int64(next(self.numbers))), [], [port("x")])
        select = Select([(s, f"A.net.{s}", code) for s, code in self.codes.items()])
        net = app.task("A.net", select, [port("x")], [port("y")])
        add = app.task("A.add", Call(lambda s, y: s + abs(y)), [port("s"), port("y")], [port("t")])
        sink = app.task(
            "A.sink",
            Call(lambda y, t: self.seen.append((int(y), int(t)))),
            [port("y"), port("t")],
            [],
        )
        program.channel(source, "x", net, "x", 6)
        program.channel(net, "y", add, "y", 6)
        program.channel(net, "y", sink, "y", 8)
        program.channel(add, "t", add, "s", 2, delay=1, key="0")
        program.channel(add, "t", sink, "t", 6)
        lag = 1 if stages > 1 else 0
        if stages == 1:
            program.processor("c0", [Fire(source), Fire(net), Fire(add), Fire(sink)])
        else:
            program.processor("c0", [Fire(source)])
            for r in range(replicas):
                program.processor(f"c{1 + r}", [Fire(net, stage=lag, replica=(r, replicas))])
            program.processor("c3", [Fire(add, stage=2), Fire(sink, stage=2)])
        program.control.state("minus", like="plus")
        program.control.transition("plus", "minus", ["turn"], protocol=protocol)
        program.control.transition("minus", "plus", ["turn"], protocol=protocol)

    @property
    def signs(self) -> list[int]:
        """Of each frame; the first one is 0 times 1."""
        return [1 if y >= 0 else -1 for y, _ in self.seen]

    def right(self) -> None:
        """Every frame is there once, in order, and each stay had as many as the report says."""
        assert [abs(y) for y, _ in self.seen] == list(range(len(self.seen)))
        assert [t for _, t in self.seen] == list(accumulate(range(len(self.seen))))
        assert self.program.control is not None
        wanted = [
            (1 if stay.state == "plus" else -1)
            for stay in self.program.control.stays
            for _ in range(stay.frames["A"])
        ]
        assert self.signs[1:] == wanted[1:] and len(wanted) == len(self.seen)
        (app,) = self.program.run.totals
        firings = {t.name: t.firings for t in app.tasks}
        assert firings["A.net.plus"] == wanted.count(1) and firings["A.net.minus"] == wanted.count(
            -1
        )
        assert firings["A.source"] == len(wanted)


def changed(chosen: Chosen, times: int, seed: int = 1) -> None:
    """Raise events at random until there were so many changes, then let it end."""
    program = chosen.program

    def storm() -> None:
        rng, control = random.Random(seed), program.control
        assert control is not None
        program.run.go.wait(HANGS)
        while len(control.changes) < times and program.run.failure is None:
            program.raise_event("turn")
            threading.Event().wait(rng.choice((0, 0.0003, 0.001)))
        program.run.drain()

    threading.Thread(target=storm, daemon=True).start()
    assert execute(program), (
        str(program.run.failure),
        program.run.failure and program.run.failure.details,
    )


@pytest.mark.parametrize("protocol", ["next", "at once"])
@pytest.mark.parametrize(("stages", "replicas"), [(1, 1), (3, 1), (3, 2)])
def test_no_frame_is_lost_doubled_or_reordered(protocol: str, stages: int, replicas: int) -> None:
    chosen = Chosen(protocol, stages, replicas)
    changed(chosen, 150)
    chosen.right()
    told = document(chosen.program.control)  # type: ignore[arg-type]
    assert {s["protocol"] for s in told["switches"]} == {protocol} and len(told["switches"]) >= 150
    broken = sum(code.broken for code in chosen.codes.values())
    assert (broken > 0) == (protocol == "at once")


def test_a_run_without_pauses_is_repeated_by_its_report() -> None:
    first, again = Chosen("next", 3, 2), Chosen("next", 3, 2)
    changed(first, 30)
    told = document(first.program.control)  # type: ignore[arg-type]
    assert again.program.control is not None
    again.program.control.script = [Stay(s["state"], dict(s["frames"])) for s in told["stays"]]
    assert execute(again.program)
    again.right()
    assert again.seen == first.seen
    assert document(again.program.control)["stays"] == told["stays"]


def test_an_inference_is_broken_off_and_its_frame_done_again() -> None:
    chosen = Chosen("at once", 1, 1, moments=3)
    begun, halt = threading.Event(), threading.Event()

    class Stuck(Slow):
        """It would never end by itself."""

        def fire(self, inputs: Any, firing: int, options: Any = None) -> Any:
            begun.set()
            while not options.terminate:
                halt.wait(0.001)
            raise RuntimeError("broken off")

    select = chosen.program.apps[0].tasks[1].code
    assert isinstance(select, Select)
    select._codes["plus"] = select._of_name["A.net.plus"] = Stuck(1, 1)

    def turn() -> None:
        begun.wait(HANGS)
        chosen.program.raise_event("turn")

    threading.Thread(target=turn, daemon=True).start()
    assert execute(chosen.program, frames=5), chosen.program.run.failure
    chosen.right()
    assert chosen.program.control is not None
    assert [s.frames for s in chosen.program.control.stays] == [{"A": 0}, {"A": 5}]


def test_two_changes_while_an_inference_ends_are_no_failure() -> None:
    """The frame before it is done again and ends, so that the next change may come, and leads
    back."""
    chosen = Chosen("at once", 1, 1)
    select = chosen.program.apps[0].tasks[1].code
    assert isinstance(select, Select)
    pick = select.pick = Pick()
    pick.begin([("plus", 0)])

    class Turned(Slow):
        def fire(self, inputs: Any, firing: int, options: Any = None) -> Any:
            if not self.broken:
                self.broken += 1
                assert pick.follow("minus", 0, True) == 0
                assert options.terminate
                pick.done = 0
                assert pick.follow("plus", 0, True) == 1
                raise RuntimeError("broken off")
            return super().fire(inputs, firing, options)

    select._codes["plus"] = Turned(1, 1)
    select.breaks = True
    assert select.fire([np.int64(7)], 1) == (7,)


def test_a_failure_is_no_change() -> None:
    chosen = Chosen("at once", 1, 1)

    def fails(*given: Any) -> Any:
        raise ValueError("no")

    chosen.codes["plus"].fire = fails  # type: ignore[method-assign]
    select = chosen.program.apps[0].tasks[1].code
    assert isinstance(select, Select)
    select.pick.begin([("plus", 0)])
    select.breaks = True
    with pytest.raises(ValueError, match="no"):
        select.fire([np.int64(1)], 0)


def test_what_was_asked_for_stays_as_it_is() -> None:
    pick = Pick()
    pick.begin([("a", 0)])
    assert [pick.of(0), pick.of(1)] == ["a", "a"]
    assert pick.follow("b", 0, False) == 2 and [pick.of(1), pick.of(2)] == ["a", "b"]
    assert pick.follow("c", 2, True) == 2 and pick.of(2) == "c"
    assert list(pick.stretches(5)) == [("a", 2), ("b", 0), ("c", 3)]


def test_a_program_that_never_began_has_a_report() -> None:
    program = Chosen("next", 1, 1).program
    assert set(report(program)["tasks"]) == {
        "A.source",
        "A.net.plus",
        "A.net.minus",
        "A.add",
        "A.sink",
    }
