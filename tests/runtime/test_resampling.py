"""`repeat` and `last` on arrows give what a sequential execution gives that knows nothing of tasks
on arrows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.dsl.channels import Channels
from flowc.dsl.context import Context
from flowc.dsl.wiring import InitialTokens, Resampled, Step, WiredEdge
from flowc.model.application import Application, Port, Resampling, Task
from flowc.runtime import worker
from flowc.runtime.code import C, Code
from flowc.runtime.graph import Task as RuntimeTask
from flowc.runtime.lifecycle import execute
from flowc.runtime.resample import Last, Repeat
from flowc.runtime.tokens import Port as RuntimePort
from flowc.runtime.tokens import freeze
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphs import PLACE, consistent, iterates
from mixed import Mixed, from_graph
from mixed_in_c import compile_mixed, in_reach, mixed_in_c

#: Firings of one iteration, for which the slow execution is quick enough.
MOST_FIRINGS = 150
FRAMES = 6


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_mixed(tmp_path_factory.mktemp("c"))


@dataclass
class Drawn:
    """A graph with words on its arrows, and the same with a task for each word."""

    tasks: tuple[Task, ...]
    edges: tuple[WiredEdge, ...]
    graph: Application


def resampled(rng: random.Random) -> Drawn:
    """A random consistent graph, where ends of arrows take or give so much more as words on them
    say."""
    plain, _ = consistent(rng, most_tasks=4)
    factors: dict[tuple[str, str], int] = {}
    edges = []
    for c in plain.channels:
        steps: list[Step] = [InitialTokens(c.delay, ())] if c.delay else []
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            what = Resampling(
                rng.choice(("repeat", "last")), rng.randint(1, 4), rng.choice((1, 1, 2, 3))
            )
            end = (
                (c.destination, c.destination_port)
                if what.word == "repeat"
                else (c.source, c.source_port)
            )
            factors[end] = factors.get(end, 1) * what.count
            steps.insert(rng.randint(0, len(steps)), Resampled(what, PLACE))
        if c.delay and rng.random() < 0.5:
            # where tokens are counted after resampling, a cycle may need more of them
            steps.append(InitialTokens(c.delay * 4, ()))
        edges.append(
            WiredEdge(
                (c.source, c.source_port), (c.destination, c.destination_port), tuple(steps), PLACE
            )
        )

    def more(task: Task, port: Port) -> Port:
        rates = tuple(factors.get((task.name, port.name), 1) * r for r in port.rates)
        return replace(port, rates=rates, stacked=port.stacked or rates[0] > 1)

    tasks = tuple(
        replace(
            t,
            inputs=tuple(more(t, p) for p in t.inputs),
            outputs=tuple(more(t, p) for p in t.outputs),
        )
        for t in plain.tasks
    )
    made = Channels(Context(), tasks, edges)
    channels = tuple(made.made())
    return Drawn(
        tasks, tuple(edges), replace(plain, tasks=(*tasks, *made.resampling), channels=channels)
    )


def through(steps: Sequence[Step], tokens: list[int]) -> list[int]:
    """What comes out of an arrow once these tokens have gone in, by the words alone."""
    for step in steps:
        if isinstance(step, InitialTokens):
            tokens = [0] * step.count + tokens
            continue
        n, size = step.what.count, step.what.block
        blocks = [tokens[k : k + size] for k in range(0, len(tokens) - size + 1, size)]
        chosen = (
            [b for b in blocks for _ in range(n)]
            if step.what.word == "repeat"
            else blocks[n - 1 :: n]
        )
        tokens = [x for b in chosen for x in b]
    return tokens


def read_by(
    given: Drawn, vector: Mapping[str, int], frames: int
) -> dict[str, list[list[list[int]]]]:
    """What every firing of every task reads in so many iterations, one firing after the other."""
    codes = {t.name: Mixed(k, None) for k, t in enumerate(given.tasks)}
    for t in given.tasks:
        codes[t.name].open(
            "", (), [RuntimePort(p.name, "int64", (), p.rates, p.stacked) for p in t.outputs]
        )
    gone_in: list[list[int]] = [[] for _ in given.edges]
    used = [0] * len(given.edges)
    read: dict[str, list[list[list[int]]]] = {t.name: [] for t in given.tasks}
    progress = True
    while progress:
        progress = False
        for t in given.tasks:
            n = len(read[t.name])
            if n == frames * vector[t.name]:
                continue
            arrows = [
                (i, e)
                for p in t.inputs
                for i, e in enumerate(given.edges)
                if e.destination == (t.name, p.name)
            ]
            wanted = [t.port(e.destination[1]).rate(n) for _, e in arrows]
            taken = [
                through(e.steps, gone_in[i])[used[i] :][:k]
                for (i, e), k in zip(arrows, wanted, strict=True)
            ]
            if any(len(tokens) < count for tokens, count in zip(taken, wanted, strict=True)):
                continue
            for (i, _), count in zip(arrows, wanted, strict=True):
                used[i] += count
            made: Any = codes[t.name].fire([np.array(tokens, np.int64) for tokens in taken], n)
            for p, values in zip(
                t.outputs, made if isinstance(made, tuple) else (made,), strict=True
            ):
                for i, e in enumerate(given.edges):
                    if e.source == (t.name, p.name):
                        gone_in[i] += np.atleast_1d(values).tolist()
            read[t.name].append(taken)
            progress = True
    assert all(len(read[t.name]) == frames * vector[t.name] for t in given.tasks)
    return read


def mixed(firings: list[list[list[int]]]) -> int:
    """What a task has made of all that."""
    seen = 0
    for token in [x for firing in firings for port in firing for x in port]:
        seen = (31 * seen + token + 1) % 1_000_003
    return seen


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 2**32),
    st.integers(1, 2),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from(["unseen", "recorded", 0, 1, 5, 20]),
)
def test_words_on_arrows_mean_what_they_say(
    home: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    cores: int,
    python: float,
    straight: bool,
    watched: str | int,
) -> None:
    """Blocks, delays before and behind them, several words on an arrow, cycles, stages; tasks in C
    and in Python.

    `watched` is how the program is looked at, or after how many firings its sources end.
    """
    rng = random.Random(seed)
    drawn = resampled(rng)
    graph = drawn.graph
    balance = repetition(graph)
    assert balance.conflict is None
    vector = balance.vector
    if sum(vector.values()) > MOST_FIRINGS or not in_reach(graph) or not iterates(graph, vector):
        return
    ending = watched if isinstance(watched, int) else None

    def code(number: int, task: Task, ends_at: int | None) -> Code:
        what = task.resampling
        if what is not None:
            return (Repeat if what.word == "repeat" else Last)(what.count, what.block)
        in_python = rng.random() < python or (ending is not None and not task.inputs)
        return Mixed(number, ends_at) if in_python else mixed_in_c(number, task)

    told: dict[str, dict[int, list[list[int]]]] = {t.name: {} for t in graph.tasks}

    def record(task: RuntimeTask, firing: int, group: int, inputs: Any, outputs: Any) -> None:
        assert firing not in told[task.name]
        told[task.name][firing] = [np.atleast_1d(a).tolist() for a in inputs]

    with monkeypatch.context() as patched:
        if not straight:
            patched.setattr(worker, "rounds_of", lambda own: None)
        program = from_graph(graph, vector, cores, seed, ending, code, home)
        program.run.recorder = None if watched == "unseen" else record
        assert execute(program, frames=FRAMES, watchdog=0), str(program.run.failure)
    frames = program.apps[0].frames
    sources = [vector[t.name] for t in graph.tasks if not t.inputs]
    assert frames == min([FRAMES] + [ending // q for q in sources if ending is not None])
    wanted = read_by(drawn, vector, frames)
    for task, made in zip(graph.tasks, program.apps[0].tasks, strict=True):
        assert made.firings >= frames * vector[task.name]
        if watched != "unseen":
            firings = [told[task.name][n] for n in range(frames * vector[task.name])]
            assert task.name not in wanted or firings == wanted[task.name]
        if ending is None and isinstance(made.code, C):
            assert made.code._memory.view(np.int64)[:2].tolist() == [
                made.firings,
                mixed(wanted[task.name]),
            ]
        elif ending is None and isinstance(made.code, Mixed):
            assert (made.code.n, made.code.seen) == (made.firings, mixed(wanted[task.name]))
    assert all(channel.least_free >= 0 for channel in program.channels)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_single_tokens_are_not_copied(shape: tuple[int, ...], dtype: str) -> None:
    few, many = RuntimePort("x", dtype, shape), RuntimePort("x", dtype, shape, (4,))
    repeat, last = Repeat(4), Last(4)
    repeat.open("", [few], [many])
    last.open("", [many], [few])
    token = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for one in (token, np.stack([token] * 2, -1)[..., 0]):
        freeze(one)
        four = many.accept(repeat.fire([one], 0), 0)
        assert np.array_equal(four, np.stack([one] * 4)) and not four.flags.writeable
        assert np.shares_memory(four, one) or not one.size
    tokens = np.stack([token, token, token, ~token if dtype == "bool" else token + 1])
    assert np.array_equal(few.accept(last.fire([tokens], 0), 0), tokens[3])
    assert np.shares_memory(last.fire([tokens], 0), tokens) or not token.size


def test_blocks_are_repeated_whole() -> None:
    few, many = RuntimePort("x", "int64", (2,), (3,)), RuntimePort("x", "int64", (2,), (6,))
    repeat, last = Repeat(2, 3), Last(2, 3)
    repeat.open("", [few], [many])
    last.open("", [many], [few])
    block = np.arange(6).reshape(3, 2)
    assert repeat.fire([block], 0).tolist() == [*block.tolist(), *block.tolist()]
    tokens = np.arange(12).reshape(6, 2)
    assert last.fire([tokens], 0).tolist() == tokens[3:].tolist()
    assert np.shares_memory(last.fire([tokens], 0), tokens)
