"""Sequential schedules as people write them: `(7a)(3(2b)c)`.

In: a graph, or a sequence of firings. Out: loops. Two kinds: any sequence is folded into loops
where it repeats itself; and for acyclic graphs the single-appearance schedule, where every task
stands once, with the loop nest that needs the least memory for its order (Murthy, Bhattacharyya,
Lee, "Joint minimization of code and data for synchronous dataflow programs", 1997: dynamic
programming over the order).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import networkx as nx

from .graph import Graph

#: Longer sequences are not folded, and no loop body of more than WIDEST terms is looked for.
MOST_RUNS = 20_000
WIDEST = 64
#: Iterations with more firings are not played through to see what memory a schedule needs.
MOST_FIRINGS = 2_000_000
#: The loop nest takes time cubic in the number of tasks.
MOST_TASKS = 120


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` (a task index, or loops one after the other) `count` times."""

    count: int
    body: int | tuple[Loop, ...]

    def firings(self) -> Iterator[int]:
        """The tasks one by one."""
        for _ in range(self.count):
            if isinstance(self.body, int):
                yield self.body
            else:
                for inner in self.body:
                    yield from inner.firings()


def folded(runs: Sequence[tuple[int, int]]) -> tuple[Loop, ...] | None:
    """Runs (task, firings) with repetitions folded into loops, None when there are too many of
    them."""
    if len(runs) > MOST_RUNS:
        return None
    terms = _merged([Loop(count, task) for task, count in runs])
    width = 2
    while width <= min(WIDEST, len(terms) // 2):
        after = _merged(_fold(terms, width))
        width = 2 if len(after) < len(terms) else width + 1
        terms = after
    return tuple(terms)


def _merged(terms: list[Loop]) -> list[Loop]:
    result: list[Loop] = []
    for term in terms:
        if result and result[-1].body == term.body:
            result[-1] = Loop(result[-1].count + term.count, term.body)
        else:
            result.append(term)
    return result


def _fold(terms: list[Loop], width: int) -> list[Loop]:
    result: list[Loop] = []
    at = 0
    while at < len(terms):
        body = terms[at : at + width]
        times = 1
        while terms[at + times * width : at + (times + 1) * width] == body:
            times += 1
        if times > 1 and len(body) == width:
            result.append(Loop(times, tuple(body)))
            at += times * width
        else:
            result.append(terms[at])
            at += 1
    return result


def text(loops: Sequence[Loop], names: Sequence[str]) -> str:
    """The schedule in words; names of one letter stand without spaces."""
    used: set[int] = set()
    for loop in loops:
        used.update(_tasks(loop))
    space = "" if all(len(names[t]) == 1 for t in used) else " "

    def term(loop: Loop) -> str:
        if isinstance(loop.body, int):
            name = names[loop.body]
            return name if loop.count == 1 else f"({loop.count}{space}{name})"
        inside = space.join(term(x) for x in loop.body)
        return inside if loop.count == 1 else f"({loop.count}{space}{inside})"

    return space.join(term(loop) for loop in loops)


def _tasks(loop: Loop) -> Iterator[int]:
    if isinstance(loop.body, int):
        yield loop.body
    else:
        for inner in loop.body:
            yield from _tasks(inner)


def single_appearance(graph: Graph) -> tuple[Loop, ...] | None:
    """Every task once, in the loop nest that needs the least memory for a topological order of the
    tasks.

    None for graphs with cycles (they may not have such a schedule), and for very large ones.
    """
    count = len(graph.names)
    arrows: nx.DiGraph[int] = nx.DiGraph()
    arrows.add_nodes_from(range(count))
    arrows.add_edges_from((e.source, e.destination) for e in graph.edges if e.kind == "data")
    if count > MOST_TASKS or not nx.is_directed_acyclic_graph(arrows):
        return None
    order = list(nx.lexicographical_topological_sort(arrows))
    common = _common_cycles([graph.cycles[t] for t in order])
    split = _cheapest_splits(_traffic_sums(graph, order), common)

    def nest(i: int, j: int, outer: int) -> tuple[Loop, ...]:
        times = common[i][j] // outer
        if i == j:
            return (Loop(times * graph.phases[order[i]], order[i]),)
        k = split[i][j]
        inside = nest(i, k, common[i][j]) + nest(k + 1, j, common[i][j])
        return inside if times == 1 else (Loop(times, inside),)

    return nest(0, count - 1, 1) if count else ()


def _traffic_sums(graph: Graph, order: list[int]) -> list[list[int]]:
    """Tokens per iteration from order[..i] to order[..j], at [i + 1][j + 1]."""
    count = len(order)
    place = {t: i for i, t in enumerate(order)}
    traffic = [[0] * count for _ in range(count)]
    for e in graph.edges:
        if e.kind == "data":
            tokens = sum(e.produced) * graph.cycles[e.source]
            traffic[place[e.source]][place[e.destination]] += tokens
    sums = [[0] * (count + 1) for _ in range(count + 1)]
    for i in range(count):
        for j in range(count):
            sums[i + 1][j + 1] = traffic[i][j] + sums[i][j + 1] + sums[i + 1][j] - sums[i][j]
    return sums


def _common_cycles(cycles: list[int]) -> list[list[int]]:
    """The greatest common divisor of the cycles of tasks i to j of the order, at [i][j]."""
    count = len(cycles)
    common = [[0] * count for _ in range(count)]
    for i in range(count):
        common[i][i] = cycles[i]
        for j in range(i + 1, count):
            common[i][j] = gcd(common[i][j - 1], cycles[j])
    return common


def _cheapest_splits(sums: list[list[int]], common: list[list[int]]) -> list[list[int]]:
    """Behind which task the loop of tasks i to j of the order is split best, at [i][j]."""
    count = len(common)
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for size in range(2, count + 1):
        for i in range(count - size + 1):
            j = i + size - 1
            best = None
            for k in range(i, j):
                # traffic from order[i..k] to order[k+1..j], by sums over rectangles
                crossing = sums[k + 1][j + 1] - sums[i][j + 1] - sums[k + 1][k + 1] + sums[i][k + 1]
                total = cost[i][k] + cost[k + 1][j] + crossing // common[i][j]
                if best is None or total < best:
                    best, split[i][j] = total, k
            cost[i][j] = best or 0
    return split


def memory(graph: Graph, loops: Sequence[Loop]) -> dict[int, int]:
    """The most tokens on every channel under a sequential schedule: claimed when a firing starts,
    freed at its end."""
    held: dict[int, int] = {}
    into: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in graph.names]
    out: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in graph.names]
    for e in graph.edges:
        if e.kind == "data":
            held[e.channel] = e.tokens
            out[e.source].append((e.channel, e.produced))
            into[e.destination].append((e.channel, graph.frees[e.channel]))
    most = dict(held)
    fired = [0] * len(graph.names)
    for loop in loops:
        for task in loop.firings():
            phase = fired[task] % graph.phases[task]
            for channel, rates in out[task]:
                held[channel] += rates[phase]
                most[channel] = max(most[channel], held[channel])
            for channel, rates in into[task]:
                held[channel] -= rates[phase]
            fired[task] += 1
    return most
