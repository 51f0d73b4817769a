"""The memory of networks at each point of a front of powers.

In: a text, and a mapping with the points that its search has compared. Out: the same with the bytes
that a build would plan for networks there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...dsl.load import read_pins
from ...model.mapping import FrontPoint, Mapping, Pin, as_placement, as_plan
from ...model.profile import Profile
from ..text.check import Valid, ValidScenario
from .within_memory import taken, taken_in_states

#: Points beyond these have no memory: a build is planned for each.
MOST_PLANNED = 50


def with_memory(valid: Valid, profile: Profile | None, mapping: Mapping) -> Mapping:
    """The mapping with the memory of networks at each point; as it is without networks, or if
    power was not compared. Raises Errors."""
    front = mapping.effort.front
    tasks = [task for part in valid.parts for task in part.tasks.values()]
    if all(task.network is None for task in tasks) or all(p.watts is None for p in front):
        return mapping

    def at(point: FrontPoint) -> FrontPoint:
        placed = with_places(mapping, read_pins(point.pins, valid.loaded))
        if isinstance(valid, ValidScenario):
            memory = taken_in_states(valid, profile, replace(placed, states=()))
        else:
            memory = taken(valid, profile, placed)
        return replace(point, bytes=memory.total)

    points = (*map(at, front[:MOST_PLANNED]), *front[MOST_PLANNED:])
    return replace(mapping, effort=replace(mapping.effort, front=points))


def with_places(mapping: Mapping, pins: Sequence[Pin]) -> Mapping:
    """The mapping with other places: those of all its tasks, as pins."""
    divided = {pin.task: _is_divided(pin) for pin in pins}
    whole = (pin for pin in pins if not divided[pin.task])
    cut = (pin for pin in pins if divided[pin.task])
    return replace(
        mapping,
        placements=tuple(map(as_placement, whole)),
        networks=tuple(map(as_plan, cut)),
    )


def _is_divided(pin: Pin) -> bool:
    """Does a pin say more than a place: stages, threads around a network, or a moving cut?"""
    return len(pin.stages) > 1 or pin.pre > 1 or pin.post > 1 or pin.adapt
