"""The mapping by the authors of a HOPES project, as placements and plans, and as a text with pins.

In: their places of each task and each layer, and the names that tasks got. Out: the data of
`model.mapping`, and a text that uses the application and the platform. Successive layers on one
processor are a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ...model.mapping import NetworkPlan, Placement, StagePlan, in_words
from ..names import shown
from .design import Way
from .mapping import Places
from .networks import HopesNetwork
from .platform import HopesBoard
from .text import Part
from .times import by_processor


def pins_of(
    names: Mapping[Part, str],
    places: Places,
    networks: Mapping[Way, HopesNetwork],
    board: HopesBoard,
) -> tuple[tuple[Placement, ...], tuple[NetworkPlan, ...]]:
    """Placements of tasks, and plans of networks: stages are successive layers on one processor."""
    placements = [Placement(names[way, ""], processors) for way, processors in places.tasks.items()]
    plans = []
    for way, layers in places.layers.items():
        network = networks[way]
        around: tuple[tuple[Part, str | None], ...] = (
            ((way, "pre"), network.pre),
            ((way, "post"), network.post),
        )
        for part, layer in around:
            if layer is not None and layer in layers:
                placements.append(Placement(names[part], (layers[layer],)))
        stages = tuple(_stages(network, layers, board))
        if stages:
            plans.append(NetworkPlan(names[way, ""], stages))
    placements.sort(key=lambda p: p.task)
    plans.sort(key=lambda p: p.task)
    return tuple(placements), tuple(plans)


def _stages(
    network: HopesNetwork, layers: Mapping[str, str], board: HopesBoard
) -> Iterator[StagePlan]:
    """The stages of a network; `layers` has the processor of each layer that has a place."""
    placed = [layer for layer in network.layers if layer in layers]
    for processor, run in groupby(placed, key=lambda layer: layers[layer]):
        members = list(run)
        until = None
        if members[-1] != network.layers[-1]:
            until = members[-1]
        timed = board.timed(board.pool_of(processor))
        costs = [by_processor(network.times.get(layer, {}), board) for layer in members]
        predicted_ns = sum(own[timed].value for own in costs if timed in own)
        yield StagePlan((processor,), until, predicted_ns=float(predicted_ns))


def mapping_text(
    board: HopesBoard,
    placements: Iterable[Placement],
    plans: Iterable[NetworkPlan],
    files: Iterable[str],
    where: str,
) -> str:
    """The authors' mapping as pins. Stages of an abstract task are comments: no check can verify
    its layers."""
    lines = [f"// The mapping that the authors of the project made, from {shown(where)}."]
    lines += [*(f'use "{f}"' for f in files), "", f"mapping on {board.name} {{"]
    for p in placements:
        lines.append(f"    {p.task} -> {', '.join(p.processors)}")
    for plan in plans:
        line = f"{plan.task} -> {in_words(plan)}"
        lines.append(f"    // {line}" if len(plan.stages) > 1 else f"    {line}")
    return "\n".join([*lines, "}"]) + "\n"
