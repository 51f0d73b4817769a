"""Whether an iteration can complete: execution with token counts only, and what is missing where it
cannot.

A consistent graph that completes one iteration returns to its initial tokens and so runs for ever
(Lee and Messerschmitt 1987). Execution is confluent: whatever the order, the same firings become
possible, so a task that is blocked at the end is blocked in every order, and the wait-for cycle is
a witness by itself: its tasks block each other whatever the rest does. To get on, one of its edges
needs at least the tokens that are missing there. Searches for the fewest initial tokens, and for
the least capacities (buffers.py), branch on exactly that, so they are exact.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

from .graph import Graph
from .unfinished import OutOfTime

#: Without a deadline no more steps than this are simulated; a step is a task that fires as often as
#: it can at once.
MOST_STEPS = 1_000_000
#: The search for the fewest initial tokens is an advice only: it may take a part of them.
MOST_STEPS_OF_ADVICE = MOST_STEPS // 5
#: The search for the fewest initial tokens looks at so many placements before it settles for what
#: it has.
MOST_PLACEMENTS = 400


#: With more blocked tasks than this, any ring is shown instead of the shortest.
MOST_WAITING = 200


class TooManySteps(Exception):
    """The iteration is too long to be simulated."""


@dataclass(frozen=True, slots=True)
class MissingTokens:
    """Task `task` needs `missing` more tokens on edge `edge` (index in the graph)."""

    task: int
    edge: int
    missing: int


class Execution:
    """One iteration under way: `tokens` per edge, `fired` per task. It can go on after tokens were
    added.

    With a `deadline` it may take any number of steps until then, else `most`, by default
    MOST_STEPS.
    """

    def __init__(
        self, graph: Graph, deadline: float | None = None, most: int | None = None
    ) -> None:
        self.graph, self.deadline = graph, deadline
        self.most = MOST_STEPS if most is None else most
        self.tokens = [e.tokens for e in graph.edges]
        self.fired = [0] * len(graph.names)
        self.steps = 0
        # A serial edge has its token back whenever another firing is considered: it never blocks
        # here.
        edges = [(i, e) for i, e in enumerate(graph.edges) if e.kind != "serial"]
        count = len(graph.names)
        self._into: list[list[tuple[int, tuple[int, ...], int]]] = [[] for _ in range(count)]
        self._out: list[list[tuple[int, tuple[int, ...], int]]] = [[] for _ in range(count)]
        self._loops: list[list[tuple[int, tuple[int, ...], tuple[int, ...]]]] = [
            [] for _ in range(count)
        ]
        self._next: list[tuple[int, ...]] = []
        after: list[set[int]] = [set() for _ in range(count)]
        for i, e in edges:
            if e.source == e.destination:
                self._loops[e.source].append((i, e.produced, e.consumed))
            else:
                self._into[e.destination].append((i, e.consumed, sum(e.consumed)))
                self._out[e.source].append((i, e.produced, sum(e.produced)))
                after[e.source].add(e.destination)
        self._next = [tuple(sorted(s)) for s in after]

    @property
    def done(self) -> bool:
        """True when every task has fired as often as an iteration asks for."""
        return self.fired == list(self.graph.firings)

    def copy(self) -> Execution:
        """An independent continuation from here."""
        other = object.__new__(Execution)
        other.__dict__.update(self.__dict__, tokens=list(self.tokens), fired=list(self.fired))
        return other

    def run(
        self, first: Iterable[int] | None = None, record: list[tuple[int, int]] | None = None
    ) -> bool:
        """Fire until the iteration is complete or nothing moves; `first` are the tasks to look at
        (default all).

        `record` receives runs (task, firings). Raises TooManySteps, or OutOfTime where there is a
        deadline.
        """
        work = deque(range(len(self.graph.names)) if first is None else first)
        queued = set(work)
        goal = self.graph.firings
        steps, looks = self.steps, 0
        while work:
            task = work.popleft()
            queued.discard(task)
            count = self._fire(task, goal[task])
            steps += 1 + count // 64
            if self.deadline is not None and looks % 1024 == 0 and monotonic() > self.deadline:
                raise OutOfTime
            looks += 1
            if not count:
                continue
            if self.deadline is None and steps > self.most:
                raise TooManySteps
            if record is not None:
                if record and record[-1][0] == task:
                    record[-1] = (task, record[-1][1] + count)
                else:
                    record.append((task, count))
            for other in self._next[task]:
                if other not in queued:
                    queued.add(other)
                    work.append(other)
        self.steps = steps
        return self.done

    def _fire(self, task: int, goal: int) -> int:
        """Fire as often as possible: whole cycles of phases at once, then phase by phase."""
        tokens, into, out, loops = self.tokens, self._into[task], self._out[task], self._loops[task]
        phases = self.graph.phases[task]
        at = start = self.fired[task]
        while at < goal:
            # Loops have the same tokens again after each cycle: what went round once goes round for
            # ever.
            if at % phases == 0 and (not loops or at >= phases):
                cycles = (goal - at) // phases
                for e, _, total in into:
                    if tokens[e] < cycles * total:
                        cycles = tokens[e] // total
                if cycles:
                    for e, _, total in into:
                        tokens[e] -= cycles * total
                    for e, _, total in out:
                        tokens[e] += cycles * total
                    at += cycles * phases
                    if phases == 1:
                        break
                    continue
            phase = at % phases
            if any(tokens[e] < rates[phase] for e, rates, _ in into):
                break
            if any(tokens[e] < consumed[phase] for e, _, consumed in loops):
                break
            for e, rates, _ in into:
                tokens[e] -= rates[phase]
            for e, rates, _ in out:
                tokens[e] += rates[phase]
            for e, produced, consumed in loops:
                tokens[e] += produced[phase] - consumed[phase]
            at += 1
        self.fired[task] = at
        return at - start

    def waits(self, task: int) -> list[MissingTokens]:
        """What a task that is not done needs for its next firing."""
        phase = self.fired[task] % self.graph.phases[task]
        needs = [(e, rates[phase]) for e, rates, _ in self._into[task]]
        needs += [(e, consumed[phase]) for e, _, consumed in self._loops[task]]
        return [
            MissingTokens(task, e, need - self.tokens[e])
            for e, need in needs
            if need > self.tokens[e]
        ]

    def blocked(self) -> list[MissingTokens]:
        """Every task that cannot complete its firings, with the first thing it waits for."""
        goal = self.graph.firings
        return [self.waits(t)[0] for t in range(len(goal)) if self.fired[t] < goal[t]]

    def wait_cycle(self) -> list[MissingTokens]:
        """Tasks that wait for each other, in a ring: each one's edge comes from the next task.

        The shortest ring, unless very many tasks are blocked.
        """
        goal = self.graph.firings
        waits = {t: self.waits(t) for t in range(len(goal)) if self.fired[t] < goal[t]}
        edges = self.graph.edges
        # Each waiting task waits for a waiting task: following the first reason leads to a cycle.
        path: dict[int, int] = {}
        at = next(iter(waits))
        while at not in path:
            path[at] = len(path)
            at = edges[waits[at][0].edge].source
        best = [waits[t][0] for t, place in path.items() if place >= path[at]]
        if len(waits) > MOST_WAITING:
            return best
        for start in waits:
            ring = self._ring(start, waits)
            if ring and len(ring) < len(best):
                best = ring
        return best

    def _ring(self, start: int, waits: dict[int, list[MissingTokens]]) -> list[MissingTokens]:
        """The shortest ring that a task is in; empty if it is in none."""
        edges = self.graph.edges
        came: dict[int, MissingTokens] = {}
        reached = deque([start])
        while reached:
            for wait in waits[reached.popleft()]:
                source = edges[wait.edge].source
                if source == start:
                    ring = [wait]
                    while ring[-1].task != start:
                        ring.append(came[ring[-1].task])
                    return ring[::-1]
                if source not in came:
                    came[source] = wait
                    reached.append(source)
        return []


@dataclass(frozen=True, slots=True)
class Deadlock:
    """`cycle` are tasks that wait for each other, `blocked` all tasks that cannot complete."""

    cycle: tuple[MissingTokens, ...]
    blocked: tuple[MissingTokens, ...]


def deadlock(graph: Graph) -> Deadlock | None:
    """The witness against a strongly connected graph, or None. Raises TooManySteps."""
    execution = Execution(graph)
    if execution.run():
        return None
    return Deadlock(tuple(execution.wait_cycle()), tuple(execution.blocked()))


@dataclass(frozen=True, slots=True)
class AddedTokens:
    """More initial tokens by edge. `least` is true when no smaller total would do."""

    tokens: dict[int, int]
    least: bool


def fewest_tokens(graph: Graph) -> AddedTokens:
    """The least initial tokens to add so that an iteration completes; among equals, on edges that
    lead back.

    Best first over placements. After MOST_PLACEMENTS of them (fewer for long iterations), the first
    completion that is found: `least` is then false. Raises TooManySteps.
    """
    most = min(MOST_PLACEMENTS, 10 * MOST_STEPS // sum(graph.firings))
    forward = [e.source < e.destination for e in graph.edges]
    start = Execution(graph, most=MOST_STEPS_OF_ADVICE)
    start.run()
    queue: list[tuple[int, int, int, tuple[tuple[int, int], ...], Execution]] = [
        (0, 0, 0, (), start)
    ]
    seen: set[tuple[tuple[int, int], ...]] = {()}
    number = 0
    while queue:
        total, ahead, _, added, at = heapq.heappop(queue)
        if at.done:
            return AddedTokens(dict(added), number <= most)
        options = []
        for wait in at.wait_cycle():
            more = dict(added)
            more[wait.edge] = more.get(wait.edge, 0) + wait.missing
            key = tuple(sorted(more.items()))
            if key in seen and number <= most:
                continue
            seen.add(key)
            number += 1
            options.append(
                (total + wait.missing, ahead + forward[wait.edge] * wait.missing, number, key, wait)
            )
        if number > most:
            queue.clear()
            options = sorted(options)[:1] or options
        for cost, leading, serial, key, wait in options:
            then = at.copy()
            then.tokens[wait.edge] += wait.missing
            then.run([wait.task])
            heapq.heappush(queue, (cost, leading, serial, key, then))
    raise AssertionError("a consistent graph completes once it has enough tokens")
