"""A network in stages whose cuts may move at run time: the word `adapt` on its pin.

In: a task and its pin. Out: a task for each stage, with the models of several choices of cuts: the
pinned ones and their neighbors, a step of work apart. One channel between two stages carries all
tensors that cross.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from pathlib import Path

from ..model.application import (
    Application,
    Channel,
    Moving,
    Network,
    Part,
    Port,
    Task,
    Tensor,
    Variant,
)
from ..model.mapping import Mapping
from ..model.types import TensorType
from ..networks.onnx.cuts import LayerChain, read_chain, size
from ..networks.onnx.interface import Border
from ..networks.onnx.split import Stage, split
from .stages import ending_at

#: By the number of stages, neighbors on each side of each pinned cut, so that there are a few dozen
#: choices at most; and how much of the work lies between two of them.
NEIGHBORS, STEP = {2: 3, 3: 2, 4: 1}, 0.08


def moving(app: Application, task: Task, network: Network, layers: tuple[str, ...]) -> Application:
    """The app with the network of a task in stages, cut after `layers` at first.

    Raises SplitError and NetworkError.
    """
    path = Path(network.path)
    fixed = network.shapes
    chain = read_chain(path, fixed)
    split(path, fixed, 1, layers)  # raises the fault of a layer
    variants, start, largest = _variants(network, chain, layers)
    digest = hashlib.sha256(
        repr((network.content_hash, [v.layers for v in variants], start)).encode()
    ).hexdigest()
    kind = TensorType("uint8", (largest,))
    last = len(layers)
    stages = []
    for k in range(last + 1):
        before = Port(_name(k), "in", kind, (1,), False, task.span)
        after = Port(_name(k + 1), "out", kind, (1,), False, task.span)
        made = replace(
            network,
            inputs=() if k else network.inputs,
            outputs=network.outputs if k == last else (),
            content_hash=digest,
            moving=Moving(
                task.name, k, variants, start, (0.0,) * (last + 1), tuple(range(last + 1))
            ),
        )
        stages.append(
            replace(
                task,
                name=f"{task.name}.stage{k + 1}",
                inputs=(before,) if k else task.inputs,
                outputs=task.outputs if k == last else (after,),
                network=made,
            )
        )
    return _wired(app, task, stages)


def _name(cut: int) -> str:
    """Of the ports of a cut, counted from 1."""
    return "cut" if cut == 1 else f"cut{cut}"


@dataclass(frozen=True, slots=True)
class _Row:
    """The layers of a network: their `names`, the work that is `done` behind each, and the bytes
    that cross where it may be cut, by the number of the layer in front."""

    names: tuple[str, ...]
    done: tuple[int, ...]
    crossing: MappingABC[int, int]

    @classmethod
    def of(cls, chain: LayerChain) -> _Row:
        """Those of a chain."""
        done = accumulate(layer.macs for layer in chain.layers)
        crossing = {c.after: c.bytes for c in chain.cuts() if not chain.fused(c.after)}
        return cls(tuple(layer.name for layer in chain.layers), tuple(done), crossing)

    @property
    def whole(self) -> int:
        """All of the work, at least 1."""
        return self.done[-1] or 1

    def choices(self, pinned: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The pinned cuts and their neighbors, in every combination that is in order."""
        reach = NEIGHBORS[len(pinned) + 1]
        near = [self._near(place, reach) for place in pinned]
        return [c for c in product(*near) if all(a < b for a, b in pairwise(c))]

    def _near(self, place: int, reach: int) -> list[int]:
        """A cut, and so many on each side of it, a step of the work apart."""
        found = {place}
        for k in range(-reach, reach + 1):
            wanted = self.done[place] / self.whole + k * STEP
            if 0 < wanted < 1 and self.crossing:
                found.add(min(self.crossing, key=lambda c: abs(self.done[c] / self.whole - wanted)))
        return sorted(found)

    def layers(self, choice: tuple[int, ...]) -> tuple[str, ...]:
        """The names of the layers in front of cuts."""
        return tuple(self.names[c] for c in choice)

    def work(self, choice: tuple[int, ...]) -> tuple[float, ...]:
        """Of each stage."""
        ends = (0, *(self.done[c] for c in choice), self.whole)
        return tuple(float(b - a) for a, b in pairwise(ends))


def _variants(
    network: Network, chain: LayerChain, layers: tuple[str, ...]
) -> tuple[tuple[Variant, ...], int, int]:
    """The models of all choices of cuts, the number of the pinned one, and the most bytes that
    cross."""
    path, fixed = Path(network.path), network.shapes
    ports = {t.name: t for t in (*network.inputs, *network.outputs)}
    row = _Row.of(chain)
    pinned = tuple(row.names.index(layer) for layer in layers)
    choices = row.choices(pinned)
    known: dict[Part, Part] = {}
    variants = []
    for choice in choices:
        parts = (_part(stage, ports) for stage in split(path, fixed, 1, row.layers(choice)))
        models = tuple(known.setdefault(part, part) for part in parts)
        variants.append(Variant(row.layers(choice), models, row.work(choice)))
    inputs = sum(size(chain.tensors[t]) for t in chain.inputs)
    largest = max(sum(row.crossing.get(c, 0) for c in choice) for choice in choices) + inputs
    return tuple(variants), choices.index(pinned), largest


def _part(stage: Stage, ports: MappingABC[str, Tensor]) -> Part:
    """The part that a stage is; `ports` are the tensors of the whole network."""

    def tensor(border: Border) -> Tensor:
        known = ports.get(border.name)
        return known or Tensor(border.name, TensorType(border.dtype, border.shape))

    inputs = tuple(tensor(i.tensor) for i in stage.inputs)
    return Part(stage.model, inputs, tuple(map(tensor, stage.outputs)))


def _wired(app: Application, task: Task, stages: Sequence[Task]) -> Application:
    first, last = stages[0], stages[-1]
    channels = []
    for c in app.channels:
        source = last.name if c.source == task.name else c.source
        reader = first.name if c.destination == task.name else c.destination
        own_name = f"{source}.{c.source_port}->{reader}.{c.destination_port}"
        channels.append(replace(c, name=own_name, source=source, destination=reader))
    for number, (before, after) in enumerate(pairwise(stages), 1):
        cut = _name(number)
        name = f"{before.name}.{cut}->{after.name}.{cut}"
        channels.append(Channel(name, before.name, cut, after.name, cut, 0, (), task.span))
    at = app.tasks.index(task)
    tasks = (*app.tasks[:at], *stages, *app.tasks[at + 1 :])
    return replace(app, tasks=tasks, channels=tuple(channels), paths=ending_at(app, task, last))


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
    """Times unchanged where that of a stage is not known."""
    stages = [f"{moving.network}.stage{k}" for k in range(1, len(moving.others) + 1)]
    processors = [mapping.of(stage) for stage in stages]
    moving = replace(moving, places=tuple(processors.index(own) for own in processors))
    if not all(times.get(stage) for stage in stages):
        return moving
    planned = moving.variants[moving.start].work
    unit = [times[stage] / w if w else 1.0 for stage, w in zip(stages, planned, strict=True)]
    variants = []
    for variant in moving.variants:
        work = tuple(w * ns for w, ns in zip(variant.work, unit, strict=True))
        variants.append(replace(variant, work=work))
    others = tuple(_other_load(stage, stages, mapping, times) for stage in stages)
    return replace(moving, variants=tuple(variants), others=others)


def _other_load(
    stage: str, stages: Sequence[str], mapping: Mapping, times: MappingABC[str, float]
) -> float:
    """What tasks other than these stages take on the processors of one of them."""
    processors = set(mapping.of(stage))
    return sum(
        times.get(p.task, 0.0) / len(p.processors)
        for p in mapping.placements
        if p.task not in stages and processors & set(p.processors)
    )
