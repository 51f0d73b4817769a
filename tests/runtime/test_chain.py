"""Chains of tasks in C give what their firings give one by one, and fail, stop and crash by
name."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.model import application
from flowc.runtime import rounds, shared_cells
from flowc.runtime import run as runs
from flowc.runtime.chain import Chain
from flowc.runtime.code import C, Code
from flowc.runtime.graph import Fire, Task
from flowc.runtime.lifecycle import execute
from flowc.runtime.program import Program
from flowc.runtime.tokens import Port
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphs import consistent, iterates
from limits import HANGS, ended
from mixed import Mixed, from_graph, played
from mixed_in_c import compile_mixed, in_reach, mixed_in_c

#: Tokens that a reader sees.
WINDOW = 4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_mixed(tmp_path_factory.mktemp("c"))


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many firings each chain has that is made."""
    made: list[int] = []

    class Noted(Chain):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            made.append(len(options["steps"]))

    monkeypatch.setattr(rounds, "Chain", Noted)
    return made


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32), st.integers(1, 2), st.sampled_from([0.0, 0.2, 0.5]), st.booleans())
def test_any_graph_gives_what_a_sequential_execution_gives(
    home: str, seed: int, cores: int, python: float, recorded: bool
) -> None:
    """Rates, phases, delays, stages, ports without readers, tasks in Python between those in
    C."""
    rng = random.Random(seed)
    graph, _ = consistent(rng)
    vector = repetition(graph).vector
    if not in_reach(graph) or not iterates(graph, vector):
        return

    def code(number: int, task: application.Task, ends_at: int | None) -> Code:
        return Mixed(number, None) if rng.random() < python else mixed_in_c(number, task)

    program = from_graph(graph, vector, cores, seed, None, code, home)
    told: dict[str, dict[int, list[list[int]]]] = {t.name: {} for t in graph.tasks}

    def record(task: Task, firing: int, group: int, inputs: Any, outputs: Any) -> None:
        told[task.name][firing] = [np.atleast_1d(a).tolist() for a in inputs]

    program.run.recorder = record if recorded else None
    assert execute(program, frames=12, watchdog=0), str(program.run.failure)
    wanted = played(graph, vector, 12)
    if recorded:
        assert {
            name: [firings[n] for n in sorted(firings)] for name, firings in told.items()
        } == wanted
    for task, made in zip(graph.tasks, program.apps[0].tasks, strict=True):
        seen = 0
        for firing in wanted[task.name]:
            for token in [x for port in firing for x in port]:
                seen = (31 * seen + token + 1) % 1_000_003
        assert made.firings == len(wanted[task.name])
        if isinstance(made.code, C):
            assert made.code._memory.view(np.int64)[:2].tolist() == [made.firings, seen]
            assert made.busy >= made.longest > 0 and made.squares >= 0.99 * made.longest**2
        else:
            assert isinstance(made.code, Mixed) and (made.code.n, made.code.seen) == (
                made.firings,
                seen,
            )


def windowed(
    home: str, rates: tuple[int, ...], delay: int, stage: int, source: Code, apart: bool
) -> Program:
    """source -> reader with a window of 4 -> sink: reader and sink are in C, and so may the source
    be. A task in Python looks at what the reader makes; it stands between firings if it is
    `apart`."""
    program = Program("p", home)
    app = program.app("A")
    seen = [("number", "int", 1), ("fails_at", "int", -1), ("waits", "int", 0)]
    memory = [("all", "int64", (2,))]
    inputs = [Port("x", "int64", (), rates, window=WINDOW)]
    reads = C("mix.so", "mix_1_1", [*seen, ("rates", "string", f"{WINDOW},1,")], memory)
    ends = C("mix.so", "mix_1_0", [*seen, ("rates", "string", "1,")], memory)
    made = app.task("A.source", source, [], [Port("y", "int64")])
    reader = app.task("A.reader", reads, inputs, [Port("y", "int64")])
    sink = app.task("A.sink", ends, [Port("x", "int64")], [])
    look = app.task("A.look", Mixed(2, None), [Port("x", "int64")], [])
    once = sum(rates)
    program.channel(made, "y", reader, "x", once * (stage + 1) + delay, delay)
    program.channel(reader, "y", sink, "x", len(rates))
    program.channel(reader, "y", look, "x", len(rates))
    order = [Fire(made, once)]
    for k in range(len(rates)):
        order += [Fire(task, 1, k, stage) for task in (reader, sink)]
        order += [Fire(look, 1, k, stage)] if apart else []
    order += [] if apart else [Fire(look, len(rates), 0, stage)]
    program.processor("cpu[0]", order)
    return program


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([(1,), (2,), (3, 1), (1, 2, 1)]), st.integers(0, 3), st.integers(0, 1),
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, 0, 1, 5, 22, 23]),
)  # fmt: skip
def test_windows_lie_with_chains(
    home: str,
    rates: tuple[int, ...],
    delay: int,
    stage: int,
    in_c: bool,
    apart: bool,
    recorded: bool,
    ends_at: int | None,
) -> None:
    """Whatever the rates, before rounds, in them, and after them."""
    given = [("number", "int", 0), ("fails_at", "int", -1), ("waits", "int", 0)]
    source: Code = Mixed(0, ends_at)
    if in_c:
        source = C(
            "mix.so", "mix_0_1", [*given, ("rates", "string", "1,")], [("all", "int64", (2,))]
        )
    program = windowed(home, rates, delay, stage, source, apart)
    told: list[list[int]] = []

    def record(task: Task, firing: int, group: int, inputs: Any, outputs: Any) -> None:
        if task.name == "A.reader":
            told.append(inputs[0].tolist())

    program.run.recorder = record if recorded else None
    assert execute(program, frames=10, watchdog=0), str(program.run.failure)
    frames = program.apps[0].frames
    once = sum(rates)
    assert frames == (10 if in_c or ends_at is None else min(10, ends_at // once))
    twin = Mixed(0, None)
    twin.open("", (), [Port("y", "int64")])
    tokens = [0] * (WINDOW + delay) + [int(twin.fire([], k)) for k in range(frames * once)]
    seen, at, windows = 0, WINDOW, []
    for rate in rates * frames:
        at += rate
        windows.append(tokens[at - WINDOW : at])
        for token in windows[-1]:
            seen = (31 * seen + token + 1) % 1_000_003
    assert not recorded or told == windows
    reader = program.tasks[1].code
    assert isinstance(reader, C)
    assert reader._memory.view(np.int64)[:2].tolist() == [frames * len(rates), seen]


def line_of(home: str, count: int, **given: dict[int, int]) -> Program:
    """source -> ... -> sink in C on one processor; `given` are parameters by task."""
    program = Program("p", home)
    app = program.app("A")
    made = []
    for k in range(count):
        ports = [[Port("x", "int64")] if k else [], [Port("y", "int64")] if k + 1 < count else []]
        rates = "1," * sum(map(len, ports))
        values = [("number", "int", k), ("fails_at", "int", given.get("fails_at", {}).get(k, -1))]
        values += [("waits", "int", given.get("waits", {}).get(k, 0))]
        code = C("mix.so", f"mix_{len(ports[0])}_{len(ports[1])}", [*values, ("rates", "string", rates)],
                 [("all", "int64", (2,))])  # fmt: skip
        made.append(app.task(f"A.t{k}", code, *ports))
    for a, b in itertools.pairwise(made):
        program.channel(a, "y", b, "x", 1)
    program.processor("cpu[0]", [Fire(t) for t in made])
    return program


def fired(task: Task) -> int:
    """How often its code has run."""
    assert isinstance(task.code, C)
    return int(task.code._memory.view(np.int64)[0]) if hasattr(task.code, "_memory") else 0


@pytest.mark.parametrize("fails_at", [0, 1, 5])
@pytest.mark.parametrize("task", [0, 3, 9])
def test_a_failure_names_task_and_firing(
    home: str, chains: list[int], task: int, fails_at: int
) -> None:
    program = line_of(home, 10, fails_at={task: fails_at})
    assert not execute(program)
    assert (
        str(program.run.failure)
        == f"app A, task A.t{task} failed at firing {fails_at}: mix_{int(task > 0)}_{int(task < 9)} returned 7"
    )
    assert [t.firings for t in program.tasks] == [fails_at + (k < task) for k in range(10)]
    assert chains == [10]


def test_a_long_chain_stops_between_two_firings(home: str) -> None:
    """Ten firings of 50 ms are one call, which looks every 20 ms whether it should end."""
    program = line_of(home, 10, waits=dict.fromkeys(range(1, 10), 50_000))

    def stop() -> None:
        while fired(program.tasks[1]) < 3:
            threading.Event().wait(0.01)
        program.run.interrupts = 2  # give up at once

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    execute(program, drain=0.0)
    ended(thread)
    assert fired(program.tasks[1]) == 3 and fired(program.tasks[9]) == 2


CRASH = """
task Source { out y: int32   c "crash.c:source" }
task Same(at: int = 1000000) { in x: int32   out y: int32   state n: int64   c "crash.c:same" }
task Sink { in x: int32   c "crash.c:sink" }
app A { source: Source   a: Same   b: Same(at = 50000)   c: Same   sink: Sink
        source -> a -> b -> c -> sink }
task Slow { in x: int32   out y: int32   c "crash.c:slow" }
app B { source: Source   a: Slow   sink: Sink   source -> a -> sink }
mapping on host { A.source -> cpu[0]  A.a -> cpu[0]  A.b -> cpu[0]  A.c -> cpu[0]  A.sink -> cpu[0]
                  B.source -> cpu[1]  B.a -> cpu[1]  B.sink -> cpu[1] }
"""
CRASH_C = """#include <unistd.h>
int source(void *s, int32_t *y, const source_params *p) { return 0; }
int same(void *s, const int32_t *x, int32_t *y, const same_params *p)
{
    if (((same_state *)s)->n++ == p->at)
        *(volatile int *)0 = 1;
    return 0;
}
int slow(void *s, const int32_t *x, int32_t *y, const slow_params *p) { usleep(100000); return 0; }
int sink(void *s, const int32_t *x, const sink_params *p) { return 0; }
"""


def test_a_crash_names_task_and_firing(write: Callable[..., Path], tmp_path: Path) -> None:
    """Another worker fires as well, and what a crash leaves behind is the chain: the board says
    where in it."""
    flowc.build(write(CRASH, crash_c=CRASH_C), tmp_path / "out", measure=False)
    done = subprocess.run(
        [sys.executable, tmp_path / "out" / "main.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 1
    assert "app A, task A.b failed at firing 50000: its process was ended by SIGSEGV" in done.stderr


def test_a_program_has_shared_cells_once_however_it_is_asked_for(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread looks at it while tasks start, and the main thread writes to it."""
    made = []

    class Slow(shared_cells.SharedCells):
        def __init__(self, threads: int) -> None:
            made.append(threads)
            time.sleep(0.2)
            super().__init__(threads)

    monkeypatch.setattr(runs, "SharedCells", Slow)
    graph, _ = consistent(random.Random(3))

    def code(number: int, task: application.Task, ends_at: int | None) -> Code:
        return Mixed(number, None)

    made_of = from_graph(graph, repetition(graph).vector, 2, 3, None, code, home)
    assert execute(made_of, frames=2, watchdog=0), str(made_of.run.failure)
    assert len(made) == 1
