"""How many tokens a channel in a cycle has at most: as many as its cycle.

In: an app. Out: a bound for each channel in a cycle. Where the tasks u and v have done x and y
iterations (fractions, by firings), a channel from u to v with d initial tokens, and N in an
iteration, has d + N * (x - y) tokens. Around a cycle the iterations cancel out: the sum of
tokens / N stays what it is at the start, the sum of d / N. A firing asks for room once its inputs
are there, and has taken them before others see its outputs, so that the room it asks for counts as
full already.

Ports with rates by phase make no such straight line, so cycles through them tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import floor

from ...model.deployment import DeployedApp, DeployedChannel, DeployedTask

#: Of a task, the tasks behind it, each with d / N of a channel.
_Behind = Mapping[str, Sequence[tuple[str, Fraction]]]


def held_by_cycles(app: DeployedApp) -> dict[str, int]:
    """The tokens at most of channels in cycles, those of a firing that writes included; by name."""
    if not any(channel.delay for channel in app.channels):
        return {}  # a cycle has tokens at the start
    tasks = {task.name: task for task in app.tasks}
    made = {c.name: _in_iteration(tasks, c) for c in app.channels}
    steady = [c for c in app.channels if made[c.name]]
    behind: dict[str, list[tuple[str, Fraction]]] = {name: [] for name in tasks}
    for c in steady:
        behind[c.source].append((c.destination, Fraction(c.delay, made[c.name])))
    ways = {name: _ways(behind, name) for name in {c.destination for c in steady}}
    found = {}
    for c in steady:
        back = ways[c.destination].get(c.source)
        if back is not None:
            found[c.name] = c.delay + floor(made[c.name] * back)
    return found


def _in_iteration(tasks: Mapping[str, DeployedTask], channel: DeployedChannel) -> int:
    """The tokens of an iteration; 0 where an end has rates by phase."""
    source, destination = tasks[channel.source], tasks[channel.destination]
    written = next(p for p in source.outputs if p.name == channel.source_port)
    read = next(p for p in destination.inputs if p.name == channel.destination_port)
    if len(written.rates) > 1 or len(read.rates) > 1:
        return 0
    return written.rates[0] * source.firings


def _ways(behind: _Behind, start: str) -> dict[str, Fraction]:
    """The least sum of d / N on a way from a task to each that it reaches (Dijkstra)."""
    found: dict[str, Fraction] = {}
    front = [(Fraction(0), start)]
    while front:
        so_far, task = heappop(front)
        if task in found:
            continue
        found[task] = so_far
        for following, step in behind[task]:
            if following not in found:
                heappush(front, (so_far + step, following))
    return found
