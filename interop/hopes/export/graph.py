"""An app in the model of HOPES: plain rates, connected parts, and arrows that all count.

In: an app, its repetition vector, its places. Out: the app with one firing for each cycle of phases
(or the tasks that block it then), and its `ExportedGraph`s with sizes of channels and static
orders.

HOPES takes repetition vectors from channels without initial data alone (`addEdge` in
Application.java of its translator) and refuses a graph that these do not connect. So if a delay
would cut a part in two, the reader's code has the initial tokens, and HOPES gets a channel without
them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import networkx as nx

from ....analysis.dataflow.order import Blocked, iteration_order
from ....analysis.dataflow.static_order import Schedule, schedule
from ....model.application import Application, Channel, Port, Task
from ....model.types import TensorType

#: Firings of one task in a row.
Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ExportedChannel:
    """A channel of HOPES: `size` tokens of memory, `initial` zeros at the start.

    The first `held` tokens of its reader are not on the channel: the reader's code has them.
    """

    channel: Channel
    size: int
    initial: int
    held: int


@dataclass(frozen=True, slots=True)
class ExportedGraph:
    """Tasks that arrows connect: a dataflow graph of HOPES. `tasks` are full names, `orders` the
    runs by processor.

    `inner` are the self-loops of a single task: HOPES cannot analyze a graph of only these, so the
    task's code has them.
    """

    tasks: tuple[str, ...]
    arrows: tuple[ExportedChannel, ...]
    inner: tuple[Channel, ...]
    orders: dict[str, tuple[Run, ...]]


def token_type(port: Port) -> TensorType:
    """The type of a port of a text: only abstract graphs have ports without one."""
    if port.type is None:
        raise TypeError(f"port {port.name} has no type")
    return port.type


def folded(app: Application) -> Application:
    """The app with one firing for each cycle of phases of a task."""
    return replace(app, tasks=tuple(_folded(t) for t in app.tasks))


def _folded(task: Task) -> Task:
    if task.phases == 1:
        return task
    phases = task.phases
    inputs = tuple(_summed(p, phases) for p in task.inputs)
    outputs = tuple(_summed(p, phases) for p in task.outputs)
    times = task.wcet_ns * (phases // max(1, len(task.wcet_ns)))
    return replace(
        task, inputs=inputs, outputs=outputs, wcet_ns=(sum(times, Fraction(0)),) if times else ()
    )


def _summed(port: Port, phases: int) -> Port:
    tokens = sum(port.rate(k) for k in range(phases))
    # Older tokens of a window are handled in its code: see `wrapper`.
    return replace(port, rates=(tokens,), stacked=True, window=0)


def blocked(app: Application, firings: Mapping[str, int]) -> tuple[Blocked, ...]:
    """The tasks that wait for each other, if any. Raises TooLong."""
    return iteration_order(app, firings).blocked


def parts(
    app: Application,
    firings: Mapping[str, int],
    places: Mapping[str, str],
    firing_ns: Mapping[str, float],
) -> tuple[ExportedGraph, ...]:
    """The connected parts of a folded app without deadlock, in the order of their first tasks.
    Raises TooLong."""
    made = schedule([app], {app.name: firings}, {t: (p,) for t, p in places.items()}, firing_ns)
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(t.name for t in app.tasks)
    graph.add_edges_from((c.source, c.destination) for c in app.channels)
    hidden = _hidden(app)
    found = []
    for names in nx.connected_components(graph):
        tasks = tuple(t.name for t in app.tasks if t.name in names)
        inside = tuple(c for c in app.channels if c.source in names)
        orders = _orders(made, names)
        if len(names) == 1:
            found.append(ExportedGraph(tasks, (), inside, orders))
            continue
        arrows = []
        for channel in inside:
            initial, held = channel.delay, 0
            if channel.name in hidden:
                initial, held = held, initial
            arrows.append(ExportedChannel(channel, made.capacities[channel.name], initial, held))
        found.append(ExportedGraph(tasks, tuple(arrows), (), orders))
    return tuple(found)


def _orders(made: Schedule, names: Container[str]) -> dict[str, tuple[Run, ...]]:
    """The static orders of some tasks, by processor."""
    orders: dict[str, tuple[Run, ...]] = {}
    for processor, steps in made.orders.items():
        # HOPES starts with the first step of an order: later pipeline stages come later in it,
        # not with older data.
        staged = sorted(steps, key=lambda s: s.stage)
        runs = _runs((s.task, s.times) for s in staged if s.task in names)
        if runs:
            orders[processor] = runs
    return orders


def _runs(steps: Iterable[Run]) -> tuple[Run, ...]:
    """Merge consecutive runs of one task."""
    runs: list[Run] = []
    for task, times in steps:
        if runs and runs[-1][0] == task:
            runs[-1] = (task, runs[-1][1] + times)
        else:
            runs.append((task, times))
    return tuple(runs)


def _hidden(app: Application) -> set[str]:
    """Channels whose delay HOPES must not see: without them, the channels without delay would not
    connect a part.

    None of them is on a cycle in HOPES, because each is the only connection of two parts.
    """
    joined = nx.utils.UnionFind(t.name for t in app.tasks)
    for c in app.channels:
        if not c.delay:
            joined.union(c.source, c.destination)
    hidden = set()
    for c in app.channels:
        if c.delay and joined[c.source] != joined[c.destination]:
            hidden.add(c.name)
            joined.union(c.source, c.destination)
    return hidden
