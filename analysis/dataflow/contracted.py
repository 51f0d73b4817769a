"""A graph with its cycles contracted: strongly connected components, and an order of them.

In: names and arrows. Out: a `Contracted`. networkx has all of this as well, but takes half as long
to import as a small text takes to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contracted:
    """The strongly connected components of a graph, in a topological order: sources first.

    `home[name]` is the position of a node's component, and `before[i]` has the positions of those
    from which an arrow leads to component i.
    """

    components: tuple[frozenset[str], ...]
    home: dict[str, int]
    before: tuple[frozenset[int], ...]


def contracted(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> Contracted:
    """Contract the cycles of a graph; arrows join nodes that have `names`."""
    nodes = list(dict.fromkeys(names))
    place = {name: i for i, name in enumerate(nodes)}
    pairs = [(place[a], place[b]) for a, b in arrows]
    # a component is found after all that it leads to
    found = [*strongly_connected(len(nodes), pairs)][::-1]
    home = [0] * len(nodes)
    for i, members in enumerate(found):
        for node in members:
            home[node] = i
    before: list[set[int]] = [set() for _ in found]
    for a, b in pairs:
        if home[a] != home[b]:
            before[home[b]].add(home[a])
    return Contracted(
        tuple(frozenset(nodes[n] for n in members) for members in found),
        dict(zip(nodes, home, strict=True)),
        tuple(map(frozenset, before)),
    )


def strongly_connected(nodes: int, arrows: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Strongly connected components of the nodes 0 to `nodes` - 1, each after all that it leads to
    (Tarjan 1972, without recursion)."""
    after: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in arrows:
        after[a].append(b)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    done: set[int] = set()
    for root in range(nodes):
        if root in number:
            continue
        path = [(root, iter(after[root]))]
        while path:
            node, rest = path[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            child = next((b for b in rest if b not in done), None)
            if child is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    done.update(component)
                    yield component
            elif child in number:
                low[node] = min(low[node], number[child])
            else:
                path.append((child, iter(after[child])))
