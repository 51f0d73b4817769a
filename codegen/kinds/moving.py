"""Networks in stages whose cuts move at run time (the word `adapt` on a pin), on CPUs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from ...model.application import CommonWeights, Moving, Network, Part, Task, Tensor, Variant
from ...model.deployment import Deployment
from ...networks.common_weights import common_weights
from ..libraries import Library, onnxruntime
from ..names import literal, option
from .common_weights import place_common
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind, names

#: What main.py imports for a stage.
WORDS = frozenset({"Cut", "Stage", "Variant"})
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
    not_choosable = "has a cut that moves"

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return WORDS

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


Code = TypeVar("Code", bound=MovingCode)


def _file(file: File) -> str:
    return f"({literal(file[0])}, {names(file[1])}, {names(file[2])})"


def files_of(network: Network, moving: Moving) -> dict[Part, Path]:
    """A file for each model of a network whose cuts move, beside the file of the network."""
    whole, stem = Path(network.path), _stem(network, moving)
    files: dict[Part, Path] = {}
    for variant in moving.variants:
        for stage, part in enumerate(variant.parts, 1):
            name = f"{stem}.stage{stage}.{len(files) + 1}{whole.suffix}"
            files.setdefault(part, whole.with_name(name))
    return files


def _stem(network: Network, moving: Moving) -> str:
    return re.sub(r"\[(\d+)\]", r"-\1", f"{Path(network.path).stem}={moving.network}")


def moving_code(of: type[Code], network: Network, moving: Moving, site: CodeSite) -> Code:
    """The code of a stage, with the models of all variants as files; all stages name the same
    ones."""
    paths = files_of(network, moving)
    models = {_digest(part): path.name for part, path in paths.items()}
    files = {
        part: (
            site.sources.place("networks", path, part.model),
            _names(part.inputs),
            _names(part.outputs),
        )
        for part, path in paths.items()
    }
    variants = (
        DeployedVariant(v.layers, tuple(files[part] for part in v.parts), v.work)
        for v in moving.variants
    )
    weights = Path(network.path).with_name(f"{_stem(network, moving)}.weights")
    common = _common(moving.variants, str(weights))
    listed = "" if common is None else place_common(common, models, site.sources)
    ports = (*network.inputs, *network.outputs)
    return of(
        moving.network,
        moving.stage,
        tuple(t.name for t in ports),
        tuple(variants),
        moving.start,
        moving.others,
        moving.places,
        listed,
    )


def _make(task: Task, site: CodeSite) -> MovingCode | None:
    network = task.network
    if network is None or network.moving is None:
        return None
    return moving_code(MovingCode, network, network.moving, site)


def _names(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    return tuple(t.name for t in tensors)


def _digest(part: Part) -> str:
    return hashlib.sha256(part.model).hexdigest()[:16]


@lru_cache(maxsize=8)
def _common(variants: tuple[Variant, ...], file: str) -> CommonWeights | None:
    """What all variants have in common: each holds the whole network."""
    parts = [part for v in variants for part in v.parts]
    return common_weights({_digest(part): part.model for part in parts}, file)


KIND = Kind("moving", WORDS, CPU, _make)
