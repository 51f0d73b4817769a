"""Straight rounds: what a worker does when nothing is left to decide gives what the general rounds
give."""

from __future__ import annotations

import random
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.runtime import worker
from flowc.runtime.code import Code
from flowc.runtime.graph import App, Fire, Task
from flowc.runtime.lifecycle import execute
from flowc.runtime.program import Program
from flowc.runtime.rounds import Rounds, rounds_of
from flowc.runtime.tokens import Port
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import consistent, iterates
from limits import HANGS, ended
from mixed import Mixed, from_graph, played


class Call(Code):
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def open(self, home: str, inputs: Any, outputs: Any) -> None:
        pass

    def fire(self, inputs: Any, firing: int) -> Any:
        return self.function(*inputs)


def port(name: str) -> Port:
    return Port(name, "float32", (2,))


def diamond(functions: dict[str, Callable[..., Any]], seen: list[Any]) -> Program:
    """source -> (left, right) -> join -> sink: two outputs, a fan-out, two inputs."""
    program = Program("p", "")
    app = program.app("A")
    count = iter(range(10**9))

    def source() -> Any:
        n = next(count)
        if n == 700:
            raise StopIteration
        return np.full(2, n, np.float32), np.full(2, -n, np.float32)

    calls: dict[str, Callable[..., Any]] = {
        "source": source,
        "left": lambda a: a + 1,
        "right": lambda b: [float(b[0]), 2.0],
        "join": lambda a, b, c: (a + b)[:] + c,
        "sink": lambda y: seen.append(y.tolist()),
    }
    calls |= functions
    made: dict[str, Task] = {}
    for name, inputs, outputs in (
        ("source", "", "ab"), ("left", "a", "l"), ("right", "b", "r"), ("join", "lra", "y"), ("sink", "y", ""),
    ):  # fmt: skip
        made[name] = app.task(
            f"A.{name}", Call(calls[name]), [port(p) for p in inputs], [port(p) for p in outputs]
        )
    for a, out, b, into in (
        ("source", "a", "left", "a"), ("source", "b", "right", "b"), ("left", "l", "join", "l"),
        ("right", "r", "join", "r"), ("source", "a", "join", "a"), ("join", "y", "sink", "y"),
    ):  # fmt: skip
        program.channel(made[a], out, made[b], into, 1)
    program.processor("cpu[0]", [Fire(t) for t in made.values()])
    return program


def told(program: Program) -> list[tuple[int, bool]]:
    tasks = program.apps[0].tasks
    return [(t.firings, t.busy >= t.longest > 0 and t.squares >= t.longest**2) for t in tasks]


@pytest.fixture(params=["straight", "general"])
def rounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a worker found that it can go straight on; never in the general case."""
    used: list[bool] = []

    def watched(own: worker.Worker) -> Rounds | None:
        found = rounds_of(own) if request.param == "straight" else None
        used.append(found is not None)
        return found

    monkeypatch.setattr(worker, "rounds_of", watched)
    return used


@pytest.mark.parametrize("frames", [None, 1, 2, 500])
def test_frames_and_statistics(
    rounds: list[bool], frames: int | None, request: pytest.FixtureRequest
) -> None:
    seen: list[Any] = []
    program = diamond({}, seen)
    assert execute(program, frames=frames)
    count = 700 if frames is None else frames
    assert seen == [[n + 1 - n + n, n + 1 + 2 + n] for n in range(count)]
    app = program.apps[0]
    assert (app.frames, len(app.latencies)) == (count, count)
    assert app.total_latency == sum(app.latencies) and app.longest_latency == max(app.latencies)
    assert told(program) == [(count, True)] * 5
    assert rounds == [request.node.callspec.params["rounds"] == "straight"]


def failing(after: int, error: Callable[[], Any]) -> Callable[..., Any]:
    calls = iter(range(10**9))

    def left(a: Any) -> Any:
        if next(calls) == after:
            return error()
        return a

    return left


def exit_() -> None:
    sys.exit(3)


def ends() -> None:
    raise StopIteration


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (exit_, "SystemExit"),
        (ends, "only a source may end the stream"),
        (lambda: None, "returned nothing"),
        (lambda: (1, 2), "2 values for 1 port"),
        (lambda: [1.0, 2.0, 3.0], "float32[3]"),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 300])
def test_failures_name_task_and_firing(
    rounds: list[bool], error: Callable[[], Any], said: str, after: int
) -> None:
    seen: list[Any] = []
    program = diamond({"left": failing(after, error)}, seen)
    assert not execute(program)
    failure = program.run.failure
    assert (
        failure is not None
        and (failure.task, failure.firing) == ("A.left", after)
        and said in str(failure)
    )
    assert len(seen) == after == program.apps[0].frames


def test_a_stop_ends_it_between_two_firings(rounds: list[bool]) -> None:
    program = diamond({}, [])

    def sink(y: Any) -> None:
        if y[0] == 400:
            program.run.drain()

    program.apps[0].tasks[-1].code = Call(sink)
    assert execute(program)
    assert program.apps[0].frames == 400


class Preempted(App):
    """Who narrows its limit loses the core right then, until the worker has looked at it twice."""

    narrowed, looked = threading.Event(), threading.Semaphore(0)

    @property
    def limit(self) -> int:  # type: ignore[override]
        if self.narrowed.is_set() and isinstance(threading.current_thread(), worker.Worker):
            self.looked.release()
        return int(self.__dict__["limit"])

    @limit.setter
    def limit(self, value: int) -> None:
        self.__dict__["limit"] = value
        if not self.narrowed.is_set():
            self.narrowed.set()
            for _ in range(2):
                self.looked.acquire(timeout=HANGS)


def test_a_stop_loses_no_frame_that_begins_meanwhile() -> None:
    """Between its look at the frames that have begun and its last word, the worker begins another
    one."""

    def sink(y: Any) -> None:
        if y[0] == 400:
            stop.start()
            Preempted.narrowed.wait(HANGS)

    program = diamond({"sink": sink}, [])
    app = program.apps[0]
    app.__class__ = Preempted
    stop = threading.Thread(target=app.drain)
    assert execute(program)
    ended(stop)
    assert app.frames == app.limit == 401


def test_arrays_between_tasks_are_read_only(rounds: list[bool]) -> None:
    def left(a: Any) -> Any:
        if a[0] > 5:
            a += 1
        return a

    program = diamond({"left": left}, [])
    assert not execute(program)
    assert (
        program.run.failure is not None
        and "read-only" in str(program.run.failure)
        and program.run.failure.firing == 6
    )


def test_who_watches_single_firings_gets_general_rounds() -> None:
    seen: list[str] = []

    class Tracer:
        def firing(
            self, processor: str, task: Task, firing: int, group: int, start: int, end: int
        ) -> None:
            seen.append(task.name)

        def frame(self, app: Any, number: int, begin: int, end: int) -> None:
            pass

    program = diamond({}, [])
    program.run.tracer = Tracer()
    assert execute(program, frames=20) and len(seen) == 100


def test_tokens_go_with_their_last_reader(rounds: list[bool]) -> None:
    """Whatever the size of tensors: an iteration does not keep those of the one before."""
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def left(a: Any) -> Any:
        found = a + 1
        made.append(weakref.ref(found))
        return found

    program = diamond(
        {"left": left, "sink": lambda y: alive.append(sum(m() is not None for m in made))}, []
    )
    assert execute(program, frames=20)
    assert max(alive) == 0


def test_what_a_blocked_source_has_done_counts(rounds: list[bool]) -> None:
    blocked = threading.Event()
    go_on = threading.Event()
    count = iter(range(10**9))

    def source() -> Any:
        n = next(count)
        if n == 50:
            blocked.set()
            go_on.wait(60)
            raise StopIteration
        return np.full(2, n, np.float32), np.zeros(2, np.float32)

    seen: list[Any] = []
    program = diamond({"source": source}, seen)

    def stop() -> None:
        blocked.wait(60)
        program.run.interrupts = 2  # give up at once

    threading.Thread(target=stop, daemon=True).start()
    execute(program, drain=0.0)
    assert (program.apps[0].frames, len(seen)) == (50, 50)
    assert [t.firings for t in program.apps[0].tasks] == [50] * 5
    go_on.set()


# -- any graph, any order --------------------------------------------------------------------------
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.sampled_from([None, None, 0, 1, 9, 40]))
def test_any_graph_gives_what_a_sequential_execution_gives(
    seed: int, cores: int, ends_at: int | None
) -> None:
    graph, _ = consistent(random.Random(seed))
    vector = repetition(graph).vector
    if not iterates(graph, vector):
        return
    program = from_graph(
        graph, vector, cores, seed, ends_at, lambda number, task, ends_at: Mixed(number, ends_at)
    )
    seen: dict[str, dict[int, list[Any]]] = {t.name: {} for t in graph.tasks}

    def record(task: Task, firing: int, group: int, inputs: Any, outputs: Any) -> None:
        assert firing not in seen[task.name]
        seen[task.name][firing] = [np.atleast_1d(a).tolist() for a in inputs]

    program.run.recorder = record
    assert execute(program, frames=40, watchdog=0), program.run.failure
    frames = program.apps[0].frames
    sources = [vector[t.name] for t in graph.tasks if not t.inputs]
    assert frames == min([40] + [ends_at // q for q in sources if ends_at is not None])
    wanted = played(graph, vector, frames)
    for name, firings in wanted.items():
        assert [seen[name].get(n) for n in range(len(firings))] == firings, name
    for channel in program.channels:
        assert channel.least_free >= 0
    assert all(t.firings >= frames * vector[t.name] for t in program.tasks)
