"""Networks in stages whose cuts move at run time (the word `adapt` on a pin), on CPUs."""

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
File = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DeployedVariant:
    """Cuts of a network that may move, after `layers`; the models of the stages, and their times
    (ns, or anything in proportion)."""

    layers: tuple[str, ...]
    parts: tuple[File, ...]
    work: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MovingCode(BuildCode):
    """A `stage`, counted from 0, of a network whose cuts move among `variants`; `tensors` are those
    of its own ports.

    `others` is the time of the other tasks on the processors of each stage per frame, in the unit
    of `work`; stages with equal `places` share a processor. `common` is the file that lists the
    weights that variants have in common.
    """

    network: str
    stage: int
    tensors: tuple[str, ...]
    variants: tuple[DeployedVariant, ...]
    start: int
    others: tuple[float, ...]
    places: tuple[int, ...]
    common: str = ""
    kind: str = "moving"

    moves = True
    words = frozenset({"Cut", "Stage", "Variant"})
    not_choosable = "has a cut that moves"

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime(),)

    def cut_id(self, ids: Identifiers) -> str:
        """The identifier in main.py of the cuts that all stages share."""
        return f"{ids[self.network + '.stage1']}_cut"

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        return f"Stage({self.cut_id(ids)}, {self.stage}, {names(self.tensors)})"

    def options_text(self) -> str:
        """The last arguments of the cut in main.py."""
        shared = len(set(self.places)) < len(self.places)
        places = option("places", list(self.places) if shared else None)
        return places + option("common", self.common)

    def variant_texts(self) -> list[str]:
        """The arguments of each variant in main.py."""
        return [
            f"{names(v.layers)}, [{', '.join(map(_file, v.parts))}], {literal(v.work)}"
            for v in self.variants
        ]


def _file(file: File) -> str:
    return f"({literal(file[0])}, {names(file[1])}, {names(file[2])})"


def _make(task: Task, site: CodeSite) -> MovingCode | None:
    """The models of all variants as files; all stages name the same ones."""
    network = task.network
    if network is None or network.moving is None:
        return None
    moving, file = network.moving, Path(network.path)

    stem = re.sub(r"\[(\d+)\]", r"-\1", f"{file.stem}={moving.network}")
    models: dict[str, str] = {}
    files: dict[Part, File] = {}

    def place(part: Part, stage: int) -> File:
        if part not in files:
            own = file.with_name(f"{stem}.stage{stage}.{len(files) + 1}{file.suffix}")
            models[_digest(part)] = own.name
            placed = site.sources.place("networks", own, part.model)
            files[part] = placed, part.inputs, part.outputs
        return files[part]

    variants = []
    for v in moving.variants:
        parts = tuple(place(part, k) for k, part in enumerate(v.parts, 1))
        variants.append(DeployedVariant(v.layers, parts, v.work))
    common = _common(moving.variants, str(file.with_name(f"{stem}.weights")))
    listed = "" if common is None else place_common(common, models, site.sources)
    ports = (*network.inputs, *network.outputs)
    return MovingCode(
        moving.network,
        moving.stage,
        tuple(t.name for t in ports),
        tuple(variants),
        moving.start,
        moving.others,
        moving.places,
        listed,
    )


def _digest(part: Part) -> str:
    return hashlib.sha256(part.model).hexdigest()[:16]


@lru_cache(maxsize=8)
def _common(variants: tuple[Variant, ...], file: str) -> CommonWeights | None:
    """What all variants have in common: each holds the whole network."""
    parts = [part for v in variants for part in v.parts]
    return common_weights({_digest(part): part.model for part in parts}, file)


KIND = Kind("moving", MovingCode.words, CPU, _make)
