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
from .staged import Staged


@dataclass(frozen=True, slots=True)
class Memory:
    """Give every pin with `memory` bands that fit."""

    def __call__(self, staged: Staged) -> Staged:
        system = staged.system
        if not any(s.memory for p in system.pins for s in p.stages):
            return staged
        tasks = {t.name: t for a in system.apps for t in a.tasks}
        pins = tuple(_within(p, tasks.get(p.task), system, staged.platform) for p in system.pins)
        return replace(staged, system=replace(system, pins=pins))


def _within(pin: Pin, task: Task | None, system: System, platform: Platform) -> Pin:
    if (
        pin.platform != platform.name
        or len(pin.stages) != 1
        or task is None
        or task.network is None
    ):
        return pin
    (stage,) = pin.stages
    on_cpu = all(
        p in platform.processors and platform.pool_of(p).kind == "cpu" for p in stage.processors
    )
    if (
        stage.memory is None
        or stage.bands
        or not on_cpu
        or task.network.batch > 1
        or task.network.moving is not None
    ):
        return pin
    from ..networks.bands.choices import choices_of
    from ..networks.onnx.memory import needs

    whole, room = needs(task.network), room_for(task.network, system.apps, platform)
    limit = stage.memory if room is None else min(stage.memory, room)
    if whole is None or whole.weights + whole.block <= limit:
        return pin
    fitting = [c for c in choices_of(task.network) if c.bytes <= limit]
    if not fitting:
        return pin
    best = min(fitting, key=lambda c: c.time)
    return replace(pin, stages=(replace(stage, bands=best.bands),))
