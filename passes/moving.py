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

from ..model.application import CUT, Application, Channel, Moving, Part, Port, Task, Variant
from ..model.mapping import Mapping
from ..model.types import TensorType
from ..networks.onnx.cuts import Chain, read_chain, size
from ..networks.onnx.split import Stage, split
from .stages import ending_at

#: Neighbors on each side of the pinned cut, and how much of the work lies between two of them.
NEIGHBORS, STEP = 3, 0.08


def moving(app: Application, task: Task, layer: str) -> Application:
    """The app with the network in two stages, cut after `layer` at first. Raises SplitError and
    NetworkError.
    """
    assert task.network is not None
    network = task.network
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
    path: Path, fixed: dict[str, tuple[int, ...]], chain: Chain, layer: str
) -> tuple[tuple[Variant, ...], int, int]:
    """The models of all cuts, the number of the pinned one, and the most bytes that cross."""
    names = [x.name for x in chain.layers]
    done = list(accumulate(x.macs for x in chain.layers))
    whole = done[-1] or 1
    cuts = {c.after: c.bytes for c in chain.cuts() if not chain.fused(c.after)}
    pinned = names.index(layer)
    wanted = [done[pinned] / whole + k * STEP for k in range(-NEIGHBORS, NEIGHBORS + 1)]
    near = {
        min(cuts, key=lambda c: abs(done[c] / whole - share))
        for share in wanted
        if 0 < share < 1 and cuts
    }
    chosen = sorted({*near, pinned})
    parts = [split(path, fixed, 1, (names[c],)) for c in chosen]
    variants = tuple(
        Variant(names[c], _part(front), _part(back), (float(done[c]), float(whole - done[c])))
        for c, (front, back) in zip(chosen, parts, strict=True)
    )
    own = sum(size(chain.tensors[t]) for t in chain.inputs)
    largest = max(cuts.get(c, 0) for c in chosen) + own
    return variants, chosen.index(pinned), largest


def _part(stage: Stage) -> Part:
    return Part(
        stage.model,
        tuple(i.tensor.name for i in stage.inputs),
        tuple(b.name for b in stage.outputs),
    )


def _wired(app: Application, task: Task, front: Task, back: Task) -> Application:
    channels = [
        replace(
            c,
            name=f"{s}.{c.source_port}->{d}.{c.destination_port}",
            source=s,
            destination=d,
        )
        for c in app.channels
        for s in [back.name if c.source == task.name else c.source]
        for d in [front.name if c.destination == task.name else c.destination]
    ]
    name = f"{front.name}.{CUT}->{back.name}.{CUT}"
    channels.append(Channel(name, front.name, CUT, back.name, CUT, 0, (), task.span))
    at = app.tasks.index(task)
    tasks = (*app.tasks[:at], front, back, *app.tasks[at + 1 :])
    return replace(app, tasks=tasks, channels=tuple(channels), paths=ending_at(app, task, back))


def calibrated(app: Application, mapping: Mapping, times: MappingABC[str, float]) -> Application:
    """The app with times: work of moving cuts in ns, and the other load of their processors."""
    tasks = []
    for task in app.tasks:
        moving = task.network.moving if task.network is not None else None
        sides = (
            (f"{moving.network}.stage1", f"{moving.network}.stage2") if moving is not None else ()
        )
        if task.network is None or moving is None or not all(times.get(s) for s in sides):
            tasks.append(task)
            continue
        at = moving.variants[moving.start].work
        scale = [times[s] / w if w else 1.0 for s, w in zip(sides, at, strict=True)]
        variants = tuple(
            replace(v, work=(v.work[0] * scale[0], v.work[1] * scale[1])) for v in moving.variants
        )
        busy = [
            sum(
                times.get(p.task, 0.0) / len(p.processors)
                for p in mapping.placements
                if p.task not in sides and set(p.processors) & set(mapping.of(side))
            )
            for side in sides
        ]
        known = replace(moving, variants=variants, others=(busy[0], busy[1]))
        tasks.append(replace(task, network=replace(task.network, moving=known)))
    return replace(app, tasks=tuple(tasks))
