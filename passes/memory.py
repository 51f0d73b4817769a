"""Networks whose pins say `memory` and no bands: those that are too large as a whole go in the
fastest bands that fit.

In: a system on its way. Out: the same with `bands` in such pins. If the platform has less than a
pin gives, the smaller limit applies. If no bands are small enough, the pin is unchanged, and the
stage that applies it reports the fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.application import Task
from ..model.mapping import Pin
from ..model.platform import Platform
from ..model.system import System
from ..targets.memory import room_for
from .staged import Staged, tasks_of


@dataclass(frozen=True, slots=True)
class BandsWithinMemory:
    """Give every pin with `memory` bands that fit."""

    def __call__(self, staged: Staged) -> Staged:
        system = staged.system
        tasks = tasks_of(system)
        pins = tuple(_within(p, tasks.get(p.task), system, staged.platform) for p in system.pins)
        return replace(staged, system=replace(system, pins=pins))


def _within(pin: Pin, task: Task | None, system: System, platform: Platform) -> Pin:
    memory = _limit(pin, platform)
    network = None if task is None else task.network
    if memory is None or network is None or network.batch > 1 or network.moving is not None:
        return pin
    if network.one_piece:
        return pin
    from ..networks.bands.choices import choices_of
    from ..networks.onnx.memory import needs

    whole, room = needs(network), room_for(network, system.apps, platform)
    if room is not None:
        memory = min(memory, room)
    if whole is None or whole.weights + whole.block <= memory:
        return pin
    fitting = [c for c in choices_of(network) if c.bytes <= memory]
    if not fitting:
        return pin
    best = min(fitting, key=lambda c: c.time)
    return replace(pin, stages=(replace(pin.stages[0], bands=best.bands),))


def _limit(pin: Pin, platform: Platform) -> int | None:
    """The `memory` of a pin of this platform to CPUs, in one stage without bands."""
    if pin.platform != platform.name or len(pin.stages) != 1 or pin.stages[0].bands:
        return None
    (stage,) = pin.stages
    for processor in stage.processors:
        if processor not in platform.processors or platform.pool_of(processor).kind != "cpu":
            return None
    return stage.memory
