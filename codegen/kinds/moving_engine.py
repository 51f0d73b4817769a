"""Stages on a GPU of networks whose cuts move at run time: an engine for each part that a variant
has there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...model.application import Moving, Network, Task, Tensor
from ...model.deployment import DeployedPort, DeployedTask, Deployment
from ..libraries import Library
from ..names import literal
from . import onnx_cuda, tensorrt
from .kind import BuildCode, BuiltEngine, CodeSite, DeviceMemory, Identifiers, Kind, names
from .moving import WORDS, MovingCode, files_of, moving_code

#: What runs an engine: the first one that makes code of it.
_ENGINES = (onnx_cuda.KIND, tensorrt.KIND)
_WORDS = (WORDS - {"Stage"}) | {"Port", "StageOnDevice"}


@dataclass(frozen=True, slots=True)
class MovingEngineCode(MovingCode):
    """A stage as in `MovingCode`, and the engines that it has `built`, one for each part."""

    built: tuple[BuiltEngine, ...] = ()
    kind: str = "moving_engine"

    on_device = True

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return _WORDS.union(*(engine.code.words for engine in self.built))

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return self.built[0].code.libraries(deployment)

    @property
    def memory(self) -> DeviceMemory | None:
        """The weights of all engines at once, and the largest arena: one of them runs at a time."""
        known = [engine.code.memory for engine in self.built]
        engines = [memory for memory in known if isinstance(memory, DeviceMemory)]
        if len(engines) < len(known):
            return None
        weights = [memory.weights for memory in engines if memory.weights is not None]
        arenas = [memory.arena for memory in engines if memory.arena is not None]
        return DeviceMemory(
            sum(weights) if len(weights) == len(engines) else None,
            max(arenas) if len(arenas) == len(engines) else None,
            engines[0].processors,
        )

    def engines(self, task: DeployedTask) -> Sequence[BuiltEngine]:
        """See `BuildCode`."""
        return self.built

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        indent = "\n" + 12 * " "
        engines = "".join(f"{indent}{_engine(engine, ids)}," for engine in self.built)
        given = f"{self.cut_id(ids)}, {self.stage}, {names(self.tensors)}"
        return f"StageOnDevice({given}, [{engines}\n        ])"


def _engine(engine: BuiltEngine, ids: Identifiers) -> str:
    return f"({engine.code.text(ids)}, {_ports(engine.inputs)}, {_ports(engine.outputs)})"


def _ports(ports: Iterable[DeployedPort]) -> str:
    given = (", ".join(map(literal, (p.name, p.dtype, p.shape))) for p in ports)
    return "[" + ", ".join(f"Port({words})" for words in given) + "]"


def _make(task: Task, site: CodeSite) -> MovingEngineCode | None:
    network = task.network
    if network is None or network.moving is None:
        return None
    code = moving_code(MovingEngineCode, network, network.moving, site)
    return replace(code, built=_built(task, network, network.moving, site))


def _built(task: Task, network: Network, moving: Moving, site: CodeSite) -> tuple[BuiltEngine, ...]:
    """The engines of a stage, each once."""
    files = files_of(network, moving)
    parts = dict.fromkeys(variant.parts[moving.stage] for variant in moving.variants)
    built = []
    for part in parts:
        own = replace(
            network,
            file=files[part].name,
            path=str(files[part]),
            inputs=part.inputs,
            outputs=part.outputs,
            external=(),
            content_hash=hashlib.sha256(part.model).hexdigest(),
            model=part.model,
            moving=None,
        )
        code = _code_of_engine(replace(task, network=own), site)
        built.append(BuiltEngine(code, _deployed(part.inputs), _deployed(part.outputs)))
    return tuple(built)


def _code_of_engine(task: Task, site: CodeSite) -> BuildCode:
    made = (kind.make(task, site) for kind in _ENGINES)
    return next(code for code in made if code is not None)


def _deployed(tensors: Iterable[Tensor]) -> tuple[DeployedPort, ...]:
    return tuple(DeployedPort(t.name, t.type.dtype, t.type.shape, (1,), False) for t in tensors)


KIND = Kind(
    "moving_engine",
    _WORDS.union(*(kind.words for kind in _ENGINES)),
    frozenset({"gpu"}),
    _make,
)
