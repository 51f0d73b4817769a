"""Programs with states: no frame is lost, doubled or out of order at a change, and what lies in
delays goes on."""

from __future__ import annotations

import os
import random
import socket
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flowc.runtime.channel import EndOfStream
from flowc.runtime.control import Control
from flowc.runtime.embed import Running
from flowc.runtime.graph import App, Fire
from flowc.runtime.lifecycle import execute
from flowc.runtime.options import Mistake, RunOptions
from flowc.runtime.program import Program
from flowc.runtime.scenario import Stay
from flowc.runtime.states import document
from flowc.runtime.status import LiveStatus
from flowc.runtime.wiring import wired

from changing import Sums, patrol
from limits import HANGS


def changed(program: Program, times: int, seed: int) -> None:
    """Raise events at random until there were so many changes, then let it end."""

    def storm() -> None:
        rng, control = random.Random(seed), program.control
        assert control is not None
        program.run.go.wait(HANGS)
        while len(control.changes) < times and program.run.failure is None:
            program.raise_event(rng.choice(("go", "go", "back")))
            threading.Event().wait(rng.choice((0, 0, 0.0005)))
        program.run.drain()

    threading.Thread(target=storm, daemon=True).start()
    assert execute(program), program.run.failure


@pytest.mark.parametrize("period", [None, "300000"])
def test_running_sums_stay_right_over_many_changes(period: str | None) -> None:
    a, b = Sums(), Sums()
    program = patrol(a, b, period)
    changed(program, 150, 1)
    assert a.right and b.right
    control = program.control
    assert control is not None and len(control.changes) >= 150
    assert {x.name: x.frames for x in program.run.totals} == {"A": len(a.seen), "B": len(b.seen)}
    # an event waits for a frame of each app
    assert all(min(s.frames.values()) > 0 for s in control.stays[:-1])
    firings = {t.name: t.firings for x in program.run.totals for t in x.tasks}
    assert firings == {
        f"{n}.{t}": len(s.seen) for n, s in (("A", a), ("B", b)) for t in ("source", "add", "sink")
    }


def test_a_run_is_repeated_by_its_report() -> None:
    first, again = (Sums(), Sums()), (Sums(), Sums())
    program = patrol(*first)
    changed(program, 20, 2)
    assert program.control is not None
    told = document(program.control)
    repeated = patrol(*again)
    assert repeated.control is not None
    repeated.control.script = [Stay(s["state"], dict(s["frames"])) for s in told["stays"]]
    assert execute(repeated)
    assert [s.seen for s in again] == [s.seen for s in first]
    assert document(repeated.control)["stays"] == told["stays"]


def test_frames_are_those_of_all_states_together() -> None:
    a, b = Sums(at=lambda n: program.raise_event("go") if n == 3 else None), Sums()
    program = patrol(a, b)
    assert execute(program, frames=10)
    assert (len(a.seen), len(b.seen)) == (10, 10) and a.right and b.right


def test_a_live_line_has_all_frames_of_an_app_and_the_channels_of_its_state() -> None:
    """Each state has apps of its own, of the same name."""
    lines: list[dict[str, Any]] = []
    reading, writing = os.pipe()

    def look(n: int) -> None:
        if n == 3:
            program.raise_event("go")
        elif program.run.state_name == "three" and not lines:
            lines.append(live._document(program.run, 1.0))
            program.run.drain()

    a, b = Sums(at=lambda n: program.raise_event("go") if n == 3 else None), Sums(at=look)
    live, program = LiveStatus(writing), patrol(a, b)
    assert execute(program), program.run.failure
    live.clear()
    os.close(reading)
    (line,) = lines
    assert line["state"] == "three" and line["apps"]["A"]["frames"] == len(a.seen) >= 3
    assert (
        3 <= line["apps"]["B"]["frames"] <= len(b.seen) and line["apps"]["A"]["latency_ms"] is None
    )
    assert line["channels"] and all(name.startswith("B.") for name in line["channels"])


def test_it_ends_with_the_streams_of_a_state() -> None:
    a, b = Sums(length=5), Sums()
    program = patrol(a, b)
    assert execute(program)
    assert len(a.seen) == 5 and not b.seen and program.control is not None
    assert [s.frames for s in program.control.stays] == [{"A": 5}]


def test_a_failure_during_a_change_ends_everything() -> None:
    def fails(n: int) -> None:
        if n == 3:
            program.raise_event("go")
        if n == 4:
            raise ValueError("no")

    program = patrol(Sums(at=fails), Sums())
    assert not execute(program)
    assert program.run.failure is not None and program.run.failure.task == "A.sink"


def test_a_state_ends_after_some_time_and_unknown_events_count_nowhere() -> None:
    a, b = Sums(), Sums(at=lambda n: program.run.drain() if n == 2 else None)
    program = patrol(a, b, "1000000")
    program.control.transition("one", "three", after="2000000")
    assert program.control is not None
    with pytest.raises(ValueError, match="no event `gone`"):
        program.raise_event("gone")
    program.raise_event("back")
    assert execute(program)
    assert [c.event for c in program.control.changes] == ["after"]
    assert program.control.ignored == {"back": 1} and a.right and b.right


def test_what_waits_for_a_frame_that_never_comes_takes_no_tokens() -> None:
    """The sum is there, what is to be added is not: it waits for both, whatever the order of its
    inputs."""
    program = Program("p", "")
    source, add, sink = Sums().in_state(program, "A")
    program.processor("c0", [Fire(add, stage=1), Fire(source)])
    program.processor("c1", [Fire(sink, stage=2)])
    (app,) = program.apps
    assert execute(program, frames=7)
    assert {c.name.partition("->")[2]: c.filled for c in app.channels} == {
        "A.add.x": 0,
        "A.add.s": 1,
        "A.sink.y": 0,
    }
    with pytest.raises(EndOfStream):
        app.begin(7)


def test_a_socket_takes_events_and_is_gone_afterwards(tmp_path: Path) -> None:
    a, b, path = Sums(), Sums(), tmp_path / "s"
    program = patrol(a, b)
    said: list[str] = []
    program.run.warn = said.append
    outside = program.control.outside(RunOptions(control=str(path)))
    assert outside is not None and program.control is not None
    outside.start()
    assert path.stat().st_mode & 0o777 == 0o600
    control = program.control

    def steer() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for word in (b"goo", b"go\n", b"\xff"):
                sender.sendto(word, str(path))
        while not control.changes or len(said) < 2:
            threading.Event().wait(0.001)
        program.run.drain()

    threading.Thread(target=steer, daemon=True).start()
    assert execute(program) and a.right and b.right
    outside.close()
    assert not path.exists()
    assert [c.target.name for c in control.changes] == ["two"]
    assert (
        said[0].startswith("there is no event `goo`; did you mean `go`?")
        and control.ignored["goo"] == 1
    )


def test_the_socket_of_a_program_that_was_killed_is_in_the_way_of_no_other(tmp_path: Path) -> None:
    def outside(name: str) -> Any:
        control: Any = patrol(Sums(), Sums()).control
        return control.outside(RunOptions(control=str(tmp_path / name)))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(tmp_path / "dead"))
    first = outside("dead")
    first.start()
    second = outside("dead")
    with pytest.raises(Mistake, match="Address already in use"):
        second.start()
    second.close()
    assert (tmp_path / "dead").exists()
    first.close()
    assert not (tmp_path / "dead").exists()
    (tmp_path / "notes").write_text("mine")
    third = outside("notes")
    with pytest.raises(Mistake, match="Address already in use"):
        third.start()
    third.close()
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_program_in_this_process_is_told_of_events() -> None:
    a, b = Sums(), Sums()
    program = patrol(a, b)
    with Running(program) as running:
        running.raise_event("go")
        while not b.seen:
            threading.Event().wait(0.001)
        with pytest.raises(ValueError, match="no event `gone`"):
            running.raise_event("gone")
        running.stop()
    assert program.control is not None and [c.target.name for c in program.control.changes] == [
        "two"
    ]
    assert a.right and b.right


def test_the_tour_takes_every_transition() -> None:
    program = patrol(Sums(), Sums())
    assert program.control is not None
    states = [s.state for s in program.control.tour(4)]
    pairs = set(pairwise(states))
    assert pairs == {("one", "two"), ("two", "one"), ("two", "three"), ("three", "one")}


def test_channels_know_when_a_frame_is_left_in_them() -> None:
    program = patrol(Sums(), Sums())
    wired(program)
    app: App = program.apps[0]
    app.channels[0]._append(np.zeros(1, np.int64), 1, True)
    with pytest.raises(AssertionError, match="1 tokens between two frames"):
        app.enter(app, 0, 1, 0)


def test_a_pace_takes_the_slowest_level_that_is_enough() -> None:
    a, b = Sums(), Sums()
    program = Program("p", "")
    Control(program, ["stop", "on", "pace"])
    for rate in (100.0, 50.0, 25.0):
        program.control.state(f"go[{rate:g}]", initial=rate == 100, level_of=("go", rate))
        program.processor("c0", [Fire(t) for t in a.in_state(program, "A")])
    program.control.state("rest")
    program.processor("c0", [Fire(t) for t in b.in_state(program, "B")])
    levels = ["go[100]", "go[50]", "go[25]"]
    for source in levels:
        program.control.transition(source, "rest", ["stop"])
        program.control.transition("rest", source, ["on"])
        for target in levels:
            if source != target:
                program.control.transition(source, target, ["pace"])
    control = program.control
    assert control is not None
    for wrong in ("pace", "pace fast", "pace 0", "on 3", "off"):
        with pytest.raises(ValueError):
            control.raise_event(wrong)
    seen: list[str] = []

    def steer() -> None:
        program.run.go.wait(HANGS)
        for word in ("pace 30", "pace 7", "pace 200", "stop", "pace 50", "on", "pace 50"):
            before = len(control.changes), sum(control.ignored.values())
            control.raise_event(word)
            if word not in ("pace 50",):
                while len(control.changes) == before[0]:
                    threading.Event().wait(0.001)
            threading.Event().wait(0.01)
            seen.append(program.run.state_name or "")
        program.run.drain()

    threading.Thread(target=steer, daemon=True).start()
    assert execute(program) and a.right and b.right
    assert seen == ["go[50]", "go[25]", "go[100]", "rest", "rest", "go[50]", "go[50]"]
    assert set(pairwise(s.state for s in control.tour(3))) >= {
        ("rest", "go[25]"),
        ("go[25]", "go[100]"),
    }
