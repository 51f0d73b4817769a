"""A network in two stages whose cut may move at run time: the word `adapt` on its pin.

In: a task and its pin. Out: two tasks, front and back, with the models of several cuts: the pinned
one and its neighbors, a step of work apart. One channel between them carries all crossing tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from ..model.application import (
    CUT,
    Application,
    Channel,
    Moving,
    Network,
    Part,
    Port,
    Task,
    Variant,
)
from ..model.mapping import Mapping
from ..model.types import TensorType
from ..networks.onnx.cuts import LayerChain, read_chain, size
from ..networks.onnx.split import Stage, split
from .stages import ending_at

#: Neighbors on each side of the pinned cut, and how much of the work lies between two of them.
NEIGHBORS, STEP = 3, 0.08


def moving(app: Application, task: Task, network: Network, layer: str) -> Application:
    """The app with the network of a task in two stages, cut after `layer` at first.

    Raises SplitError and NetworkError.
    """
    path = Path(network.path)
    fixed = network.shapes
    chain = read_chain(path, fixed)
    split(path, fixed, 1, (layer,))  # raises the fault of the layer
    variants, start, largest = _variants(path, fixed, chain, layer)
    digest = hashlib.sha256(
        repr((network.content_hash, [v.layer for v in variants], start)).encode()
    ).hexdigest()
    kind = TensorType("uint8", (largest,))
    front = replace(
        task,
        name=f"{task.name}.stage1",
        outputs=(Port(CUT, "out", kind, (1,), False, task.span),),
        network=replace(
            network,
            outputs=(),
            content_hash=digest,
            moving=Moving(task.name, "front", variants, start),
        ),
    )
    back = replace(
        task,
        name=f"{task.name}.stage2",
        inputs=(Port(CUT, "in", kind, (1,), False, task.span),),
        network=replace(
            network,
            inputs=(),
            content_hash=digest,
            moving=Moving(task.name, "back", variants, start),
        ),
    )
    return _wired(app, task, front, back)


def _variants(
    path: Path, fixed: dict[str, tuple[int, ...]], chain: LayerChain, layer: str
) -> tuple[tuple[Variant, ...], int, int]:
    """The models of all cuts, the number of the pinned one, and the most bytes that cross."""
    names = [x.name for x in chain.layers]
    done = list(accumulate(x.macs for x in chain.layers))
    whole = done[-1] or 1
    cuts = {c.after: c.bytes for c in chain.cuts() if not chain.fused(c.after)}
    pinned = names.index(layer)
    wanted = [done[pinned] / whole + k * STEP for k in range(-NEIGHBORS, NEIGHBORS + 1)]
    near = {pinned}
    for share in wanted:
        if 0 < share < 1 and cuts:
            near.add(min(cuts, key=lambda c: abs(done[c] / whole - share)))
    chosen = sorted(near)
    variants = []
    for cut in chosen:
        front, back = split(path, fixed, 1, (names[cut],))
        work = float(done[cut]), float(whole - done[cut])
        variants.append(Variant(names[cut], _part(front), _part(back), work))
    own = sum(size(chain.tensors[t]) for t in chain.inputs)
    largest = max(cuts.get(c, 0) for c in chosen) + own
    return tuple(variants), chosen.index(pinned), largest


def _part(stage: Stage) -> Part:
    return Part(
        stage.model,
        tuple(i.tensor.name for i in stage.inputs),
        tuple(b.name for b in stage.outputs),
    )


def _wired(app: Application, task: Task, front: Task, back: Task) -> Application:
    channels = []
    for c in app.channels:
        source = back.name if c.source == task.name else c.source
        reader = front.name if c.destination == task.name else c.destination
        own_name = f"{source}.{c.source_port}->{reader}.{c.destination_port}"
        channels.append(replace(c, name=own_name, source=source, destination=reader))
    name = f"{front.name}.{CUT}->{back.name}.{CUT}"
    channels.append(Channel(name, front.name, CUT, back.name, CUT, 0, (), task.span))
    at = app.tasks.index(task)
    tasks = (*app.tasks[:at], front, back, *app.tasks[at + 1 :])
    return replace(app, tasks=tasks, channels=tuple(channels), paths=ending_at(app, task, back))


def calibrated(app: Application, mapping: Mapping, times: MappingABC[str, float]) -> Application:
    """The app with times: work of moving cuts in ns, and the other load of their processors."""
    tasks = []
    for task in app.tasks:
        network = task.network
        if network is not None and network.moving is not None:
            known = _calibrated(network.moving, mapping, times)
            task = replace(task, network=replace(network, moving=known))
        tasks.append(task)
    return replace(app, tasks=tuple(tasks))


def _calibrated(moving: Moving, mapping: Mapping, times: MappingABC[str, float]) -> Moving:
    """Unchanged where the time of a side is not known."""
    sides = f"{moving.network}.stage1", f"{moving.network}.stage2"
    if not all(times.get(side) for side in sides):
        return moving
    front, back = moving.variants[moving.start].work
    front_ns = times[sides[0]] / front if front else 1.0
    back_ns = times[sides[1]] / back if back else 1.0
    variants = []
    for variant in moving.variants:
        work = variant.work[0] * front_ns, variant.work[1] * back_ns
        variants.append(replace(variant, work=work))
    busy_front = _other_load(sides[0], sides, mapping, times)
    busy_back = _other_load(sides[1], sides, mapping, times)
    return replace(moving, variants=tuple(variants), others=(busy_front, busy_back))


def _other_load(
    side: str, sides: tuple[str, str], mapping: Mapping, times: MappingABC[str, float]
) -> float:
    """What tasks other than both sides take on the processors of one side."""
    processors = set(mapping.of(side))
    return sum(
        times.get(p.task, 0.0) / len(p.processors)
        for p in mapping.placements
        if p.task not in sides and processors & set(p.processors)
    )
