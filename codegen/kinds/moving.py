"""Networks in two stages whose cut moves at run time (the word `adapt` on a pin), on CPUs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...model.application import CommonWeights, Part, Task, Variant
from ...model.deployment import Deployment
from ...networks.common_weights import common_weights
from ..libraries import Library, onnxruntime
from ..names import literal, option
from .common_weights import place_common
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind, names

#: A file of the build with its input and output tensors.
Side = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DeployedVariant:
    """A cut of a network that may move, after `layer`, and the times of both sides (ns, or anything
    in proportion)."""

    layer: str
    front: Side
    back: Side
    work: tuple[float, float]


@dataclass(frozen=True, slots=True)
class MovingCode(BuildCode):
    """One side (`front`, `back`) of a network whose cut moves among `variants`; `tensors` are those
    of its own ports.

    `others` is the time of the other tasks on the processors of both sides per frame, in the unit
    of `work`. `common` is the file that lists the weights that cuts have in common.
    """

    network: str
    side: str
    tensors: tuple[str, ...]
    variants: tuple[DeployedVariant, ...]
    start: int
    others: tuple[float, float]
    common: str = ""
    kind: str = "moving"

    moves = True
    words = frozenset({"Back", "Cut", "Front", "Variant"})
    not_choosable = "has a cut that moves"

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime(),)

    def cut_id(self, ids: Identifiers) -> str:
        """The identifier in main.py of the cut that both sides share."""
        return f"{ids[self.network + '.stage1']}_cut"

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        side = "Front" if self.side == "front" else "Back"
        return f"{side}({self.cut_id(ids)}, {names(self.tensors)})"

    def common_text(self) -> str:
        """The argument of the cut in main.py."""
        return option("common", self.common)

    def variant_texts(self) -> list[str]:
        """The arguments of each variant in main.py."""
        return [
            f"{literal(v.layer)}, {_side(v.front)}, {_side(v.back)}, {literal(v.work)}"
            for v in self.variants
        ]


def _side(side: Side) -> str:
    return f"({literal(side[0])}, {names(side[1])}, {names(side[2])})"


def _make(task: Task, site: CodeSite) -> MovingCode | None:
    """The models of all cuts as files; both sides name the same ones."""
    network = task.network
    if network is None or network.moving is None:
        return None
    moving, file = network.moving, Path(network.path)

    stem = re.sub(r"\[(\d+)\]", r"-\1", f"{file.stem}={moving.network}")
    models: dict[str, str] = {}

    def place(part: Part, number: int, side: str) -> Side:
        own = file.with_name(f"{stem}.{side}{number}{file.suffix}")
        models[_digest(part)] = own.name
        return (site.sources.place("networks", own, part.model), part.inputs, part.outputs)

    variants = tuple(
        DeployedVariant(v.layer, place(v.front, k, "front"), place(v.back, k, "back"), v.work)
        for k, v in enumerate(moving.variants, 1)
    )
    common = _common(moving.variants, str(file.with_name(f"{stem}.weights")))
    listed = "" if common is None else place_common(common, models, site.sources)
    ports = network.inputs if moving.side == "front" else network.outputs
    return MovingCode(
        moving.network,
        moving.side,
        tuple(t.name for t in ports),
        variants,
        moving.start,
        moving.others,
        listed,
    )


def _digest(part: Part) -> str:
    return hashlib.sha256(part.model).hexdigest()[:16]


@lru_cache(maxsize=8)
def _common(variants: tuple[Variant, ...], file: str) -> CommonWeights | None:
    """What all cuts have in common: each holds the whole network."""
    parts = [part for v in variants for part in (v.front, v.back)]
    return common_weights({_digest(part): part.model for part in parts}, file)


KIND = Kind("moving", MovingCode.words, CPU, _make)
