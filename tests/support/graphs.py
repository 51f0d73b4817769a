"""Random graphs and a slow, obviously right simulator: referees for the analyses."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from pathlib import Path

from flowc.analysis.dataflow.static_order import OrderStep
from flowc.model.application import Application, Channel, Port, Task
from flowc.model.span import Span

PLACE = Span("random", 1, 1, 1, 1)
DATA = Path(__file__).parents[1] / "data"


def task(
    name: str,
    ins: Mapping[str, Sequence[int]],
    outs: Mapping[str, Sequence[int]],
    *,
    stateless: bool = True,
) -> Task:
    """A task without code; rates per phase."""
    inputs = tuple(
        Port(n, "in", None, tuple(r), len(r) > 1 or r[0] > 1, PLACE) for n, r in ins.items()
    )
    outputs = tuple(
        Port(n, "out", None, tuple(r), len(r) > 1 or r[0] > 1, PLACE) for n, r in outs.items()
    )
    return Task(name, name, inputs, outputs, (), (), (), stateless, (), None, "", PLACE)


def app(tasks: Sequence[Task], channels: Sequence[tuple[str, str, str, str, int]]) -> Application:
    """Channels are (source, port, destination, port, delay)."""
    made = tuple(
        Channel(f"{a}.{p}->{b}.{q}", a, p, b, q, d, (), PLACE) for a, p, b, q, d in channels
    )
    return Application("A", tuple(tasks), made, None, None, 0, "", PLACE)


def consistent(
    rng: random.Random, *, most_tasks: int = 6, delays: bool = True
) -> tuple[Application, dict[str, int]]:
    """A random connected consistent CSDF graph with cycles and several arrows between tasks.

    Also a repetition vector it was made from (not necessarily the least).
    """
    names = [f"A.t{i}" for i in range(rng.randint(1, most_tasks))]
    phases = {n: rng.choice((1, 1, 1, 2, 3)) for n in names}
    firings = {n: rng.randint(1, 4) * phases[n] for n in names}
    arrows = [(names[rng.randrange(i)], names[i]) for i in range(1, len(names))]
    arrows += [(rng.choice(names), rng.choice(names)) for _ in range(rng.randint(0, 3))]
    ins: dict[str, dict[str, list[int]]] = {n: {} for n in names}
    outs: dict[str, dict[str, list[int]]] = {n: {} for n in names}
    channels = []
    for i, (a, b) in enumerate(arrows):
        cycles_a, cycles_b = firings[a] // phases[a], firings[b] // phases[b]
        total = lcm(cycles_a, cycles_b) * rng.randint(1, 2)
        outs[a][f"o{i}"] = _split(rng, total // cycles_a, phases[a])
        ins[b][f"i{i}"] = _split(rng, total // cycles_b, phases[b])
        needed = a == b or names.index(b) <= names.index(a)
        delay = rng.choice((0, 0, 1, total)) if delays else 0
        if needed and rng.random() < 0.8:
            delay = rng.choice((total, 2 * total))
        channels.append((a, f"o{i}", b, f"i{i}", delay))
    return app([task(n, ins[n], outs[n]) for n in names], channels), firings


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    cuts = sorted(rng.randint(0, total) for _ in range(parts - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]


def iterates(graph: Application, vector: Mapping[str, int]) -> bool:
    """Can every task fire `vector` times from the initial tokens, in some order? Tries until
    nothing moves."""
    tokens = {c.name: c.delay for c in graph.channels}
    fired = {t.name: 0 for t in graph.tasks}
    moved = True
    while moved:
        moved = False
        for t in graph.tasks:
            ins = [c for c in graph.channels if c.destination == t.name]
            k = fired[t.name]
            if k < vector[t.name] and all(
                tokens[c.name] >= t.port(c.destination_port).rate(k) for c in ins
            ):
                for c in ins:
                    tokens[c.name] -= t.port(c.destination_port).rate(k)
                for c in graph.channels:
                    if c.source == t.name:
                        tokens[c.name] += t.port(c.source_port).rate(k)
                fired[t.name] += 1
                moved = True
    return fired == dict(vector)


def balanced(graph: Application, vector: Mapping[str, int]) -> bool:
    """Does every channel return to its initial tokens after `vector` firings (whole phase
    cycles)?"""
    tasks = {t.name: t for t in graph.tasks}
    for t in graph.tasks:
        if vector[t.name] % t.phases:
            return False
    for c in graph.channels:
        out, into = (
            tasks[c.source].port(c.source_port),
            tasks[c.destination].port(c.destination_port),
        )
        produced = Fraction(sum(out.rates) * vector[c.source], len(out.rates))
        consumed = Fraction(sum(into.rates) * vector[c.destination], len(into.rates))
        if produced != consumed:
            return False
    return True


class Machine:
    """Processors that follow static orders on bounded channels, in a random interleaving.

    Space is claimed when a firing starts and freed when it ends; a firing lasts until its processor
    is picked again.
    """

    def __init__(
        self,
        graph: Application,
        vector: Mapping[str, int],
        orders: Mapping[str, Sequence[OrderStep]],
        capacities: Mapping[str, int],
        iterations: int,
    ) -> None:
        self._tasks = {t.name: t for t in graph.tasks}
        self._ins = {
            t.name: [c for c in graph.channels if c.destination == t.name] for t in graph.tasks
        }
        self._outs = {
            t.name: [c for c in graph.channels if c.source == t.name] for t in graph.tasks
        }
        self._vector = vector
        self._filled = {c.name: c.delay for c in graph.channels}
        self._free = {c.name: capacities[c.name] - c.delay for c in graph.channels}
        self._queues = {p: self._firings(steps, iterations) for p, steps in orders.items()}
        self._running: dict[str, tuple[str, int] | None] = dict.fromkeys(orders)
        self._next = dict.fromkeys(self._tasks, 0)
        self.fired: dict[str, list[int]] = {t: [] for t in self._tasks}

    def _firings(self, steps: Sequence[OrderStep], iterations: int) -> list[tuple[str, int]]:
        """The firings of one processor, in its order."""
        result = []
        rounds = iterations + max((s.stage for s in steps), default=0) + 1
        for number in range(rounds):
            for s in steps:
                i = number * s.per_round + s.index - s.stage
                if 0 <= i < iterations and i % s.replicas == s.replica:
                    first = i * self._vector[s.task] + s.first
                    result += [(s.task, first + k) for k in range(s.times)]
        return result

    def run(self, rng: random.Random) -> bool:
        """True when every processor came to the end of its order."""
        while any(self._queues.values()) or any(self._running.values()):
            movable = [
                p
                for p in self._queues
                if self._running[p] or (self._queues[p] and self._ready(*self._queues[p][0]))
            ]
            if not movable:
                return False
            self._step(rng.choice(movable))
        return True

    def _ready(self, name: str, firing: int) -> bool:
        t = self._tasks[name]
        tokens = all(
            self._filled[c.name] >= t.port(c.destination_port).rate(firing) for c in self._ins[name]
        )
        space = all(
            self._free[c.name] >= t.port(c.source_port).rate(firing) for c in self._outs[name]
        )
        return tokens and space and self._next[name] == firing

    def _step(self, processor: str) -> None:
        running = self._running[processor]
        if running is None:
            name, firing = self._queues[processor].pop(0)
            t = self._tasks[name]
            for c in self._ins[name]:
                self._filled[c.name] -= t.port(c.destination_port).rate(firing)
            for c in self._outs[name]:
                self._free[c.name] -= t.port(c.source_port).rate(firing)
            self._next[name] += 1
            self._running[processor] = (name, firing)
            return
        name, firing = running
        t = self._tasks[name]
        for c in self._ins[name]:
            self._free[c.name] += t.port(c.destination_port).rate(firing)
        for c in self._outs[name]:
            self._filled[c.name] += t.port(c.source_port).rate(firing)
        self.fired[name].append(firing)
        self._running[processor] = None


def times(rng: random.Random, graph: Application) -> dict[str, tuple[Fraction, ...]]:
    """Random execution times in ns, per phase or one for all; zero and fractions too."""
    choices = (0, 1, 1, 2, 3, 5, Fraction(1, 2), Fraction(4, 3))
    return {
        t.name: tuple(Fraction(rng.choice(choices)) for _ in range(rng.choice((1, t.phases))))
        for t in graph.tasks
    }


def known(name: str) -> tuple[Application, str]:
    """A published benchmark graph, without the self-loops that say `one firing at a time`, and its
    period."""
    found = next(
        g for g in json.loads((DATA / "known_graphs.json").read_text()) if g["name"] == name
    )
    ins: dict[str, dict[str, list[int]]] = {f"A.{n}": {} for n in found["exec"]}
    outs: dict[str, dict[str, list[int]]] = {f"A.{n}": {} for n in found["exec"]}
    channels = []
    for i, (a, b, produced, consumed, delay) in enumerate(found["channels"]):
        if a != b:
            outs[f"A.{a}"][f"o{i}"], ins[f"A.{b}"][f"i{i}"] = produced, consumed
            channels.append((f"A.{a}", f"o{i}", f"A.{b}", f"i{i}", delay))
    spent = {f"A.{n}": tuple(map(Fraction, ns)) for n, ns in found["exec"].items()}
    tasks = [replace(task(n, ins[n], outs[n]), wcet_ns=spent[n]) for n in spent]
    return app(tasks, channels), found["period"]


def windowed(rng: random.Random, graph: Application) -> Application:
    """The graph with sliding windows on some channels: a firing gives back less than it took, a
    later one more."""
    channels = []
    for c in graph.channels:
        target = graph.task(c.destination)
        taken = target.port(c.destination_port).rates * (
            target.phases // len(target.port(c.destination_port).rates)
        )
        frees, held = [], 0
        for n in taken[:-1]:
            held += n
            frees.append(rng.randint(0, held))
            held -= frees[-1]
        frees.append(held + taken[-1])
        channels.append(
            replace(c, frees=tuple(frees))
            if rng.random() < 0.5 and c.source != c.destination
            else c
        )
    return replace(graph, channels=tuple(channels))
