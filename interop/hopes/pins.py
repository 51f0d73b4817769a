"""The mapping by the authors of a HOPES project, as placements and plans, and as a text with pins.

In: their places of each task and each layer, and the names that tasks got. Out: the data of
`model.mapping`, and a text that uses the application and the platform. Successive layers on one
processor are a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from ...model.mapping import NetworkPlan, Placement, StagePlan, in_words
from ..names import shown
from .design import Way
from .mapping import Places
from .networks import HopesNetwork
from .platform import HopesBoard
from .text import Part


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
        placements += [
            Placement(names[p], (layers[n],)) for p, n in around if n is not None and n in layers
        ]
        stages = []
        for processor, run in groupby(
            (n for n in network.layers if n in layers), key=lambda n: layers[n]
        ):
            members = list(run)
            kind = board.pool_of(processor).kind
            costs = [
                c.value
                for n in members
                for t, c in network.times.get(n, {}).items()
                if board.kind_of(t) == kind
            ]
            until = None if members[-1] == network.layers[-1] else members[-1]
            stages.append(StagePlan((processor,), until, predicted_ns=float(sum(costs))))
        if stages:
            plans.append(NetworkPlan(names[way, ""], tuple(stages)))
    return tuple(sorted(placements, key=lambda p: p.task)), tuple(
        sorted(plans, key=lambda p: p.task)
    )


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
    lines += [f"    {p.task} -> {', '.join(p.processors)}" for p in placements]
    for plan in plans:
        line = f"{plan.task} -> {in_words(plan)}"
        lines.append(f"    // {line}" if len(plan.stages) > 1 else f"    {line}")
    return "\n".join([*lines, "}"]) + "\n"
