"""The positions of a graph's tasks: a column per level along the data flow, rows ordered by their
neighbors.

In: an app. Out: a `Layout`, which is data: the picture or page that draws it chooses sizes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from ..analysis.dataflow.order import levels
from ..model.application import Application


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns from left to right, each with names from top to bottom.

    Names are those of tasks, and of places that arrows pass through: `routes[channel]` lists these
    for an arrow, one for each column that it crosses. `back` are the arrows that lead to the left,
    or to their own task.
    """

    columns: tuple[tuple[str, ...], ...]
    routes: dict[str, tuple[str, ...]]
    back: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Rows of the highest column."""
        return max((len(names) for names in self.columns), default=0)


def layout(app: Application) -> Layout:
    """Place the tasks of an app (barycenter, from left to right)."""
    columns = _columns(app)
    column = {n: c for c, names in columns.items() for n in names}
    routes: dict[str, tuple[str, ...]] = {}
    for c in app.channels:
        # arrows over several columns get a free row in each between, so that they pass no box
        between = range(column[c.source] + 1, column[c.destination])
        routes[c.name] = tuple(f"{c.name} through {number}" for number in between)
        for number, name in zip(between, routes[c.name], strict=True):
            columns[number].append(name)
    _sort(app, columns, routes)
    back = tuple(c.name for c in app.channels if column[c.destination] <= column[c.source])
    return Layout(tuple(tuple(columns[number]) for number in sorted(columns)), routes, back)


def _columns(app: Application) -> dict[int, list[str]]:
    """Tasks of one cycle share a level: each gets a column of its own, in declaration order from
    its entry."""
    depth = levels(app)
    inside: dict[int, list[str]] = defaultdict(list)
    for task in app.tasks:
        inside[depth[task.name]].append(task.name)
    edges = {(c.source, c.destination) for c in app.channels}
    knotted = {depth[a] for a, b in edges if depth[a] == depth[b]}
    sources: dict[str, list[str]] = defaultdict(list)
    for source, destination in edges:
        sources[destination].append(source)
    columns: dict[int, list[str]] = defaultdict(list)
    place: dict[str, int] = {}
    for level in sorted(inside):
        for name in _chain(inside[level], edges if level in knotted else set()):
            before = [place[source] for source in sources[name] if source in place]
            place[name] = max(before, default=-1) + 1
            columns[place[name]].append(name)
    return columns


def _chain(names: list[str], edges: set[tuple[str, str]]) -> list[str]:
    """Follow undelayed arrows where there are some, so that a cycle reads from left to right."""
    if not edges:
        return names
    left = list(names)
    result: list[str] = []
    while left:
        following = [n for n in left if result and (result[-1], n) in edges]
        entries = [n for n in left if not any((m, n) in edges for m in left if m != n)]
        chosen = (following or entries or left)[0]
        result.append(chosen)
        left.remove(chosen)
    return result


def _sort(
    app: Application, columns: dict[int, list[str]], routes: dict[str, tuple[str, ...]]
) -> None:
    """Order each column by the rows of its predecessors."""
    neighbors: dict[str, list[str]] = defaultdict(list)
    for c in app.channels:
        for before, after in pairwise((c.source, *routes[c.name], c.destination)):
            neighbors[after].append(before)
    row: dict[str, float] = {}
    for number in sorted(columns):
        names = columns[number]
        wanted = {n: [row[m] for m in neighbors[n] if m in row] for n in names}
        order = {n: i for i, n in enumerate(names)}
        names.sort(
            key=lambda n: (sum(wanted[n]) / len(wanted[n]) if wanted[n] else order[n], order[n])
        )
        offset = (len(names) - 1) / 2
        row.update({n: i - offset for i, n in enumerate(names)})
