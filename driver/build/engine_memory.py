"""The memory of networks in TensorRT, before there is a board: what NVIDIA's builder counts, beside
what flowc plans.

In: a valid system and its platform, or an ONNX file. Out: `EngineMemory`s, where the extra `rtx` is
installed. The builder is that of TensorRT for RTX: others may need less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.files import scratch
from ...model.platform import Platform
from ...model.system import System
from ...networks.onnx.interface import read_network
from ...networks.onnx.memory import needs_in_tensorrt
from ...networks.tensorrt.referee import answers, ask, is_installed

#: Seconds for the networks of a text.
PATIENCE = 120


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes of the weights of a network, and of what lies between its layers in one execution: as
    the builder counts, and as flowc plans (None: unknown), for the types in the file."""

    network: str
    weights: int
    between: int
    planned_weights: int | None
    planned_between: int | None


def sizes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """The sizes of a file's inputs, where an open first one is 1."""
    inputs = read_network(path, {}, 1).inputs
    return {border.name: border.shape for border in inputs if border.fixed}


def memory_of_file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> EngineMemory | None:
    """That of a file with inputs of these sizes; None if the builder says nothing."""
    if not is_installed():
        return None
    with scratch() as folder:
        file = sized(path, shapes, folder / "0.onnx")
        answer = ask(file, build=True, patience=PATIENCE)
    if answer is None or answer.weights is None or answer.activations is None:
        return None
    return EngineMemory(path.name, answer.weights, answer.activations, None, None)


def engine_memory(systems: Iterable[System], platform: Platform) -> tuple[EngineMemory, ...]:
    """That of each network of a text, whose `systems` have all of its variants, on a platform that
    states its TensorRT and its memory."""
    stated = platform.tensorrt and any(pool.memory_bytes for pool in platform.pools)
    if not stated or not is_installed():
        return ()
    networks: dict[tuple[object, ...], Network] = {}
    for app in (app for system in systems for app in system.apps):
        for task in app.tasks:
            if task.network is not None:
                whole = task.network.cut_from or task.network
                if not whole.model and not whole.one_piece:
                    networks.setdefault((whole.content_hash, whole.inputs), whole)
    with scratch() as folder:
        files = [
            sized(Path(network.path), network.shapes, folder / f"{number}.onnx")
            for number, network in enumerate(networks.values())
        ]
        said = answers(files, build=True, patience=PATIENCE) if files else []
    found = []
    for network, answer in zip(networks.values(), said, strict=True):
        if answer is None or answer.weights is None or answer.activations is None:
            continue
        plan = needs_in_tensorrt(network)
        planned = (None, None) if plan is None else (plan.weights, plan.block)
        name = network.definition
        found.append(EngineMemory(name, answer.weights, answer.activations, *planned))
    return tuple(found)


def sized(path: Path, shapes: Mapping[str, tuple[int, ...]], place: Path) -> Path:
    """The file with the sizes of its inputs; the file itself if it has them."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    changed = False
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(value.name, ()), strict=False):
            changed |= dim.dim_value != size
            dim.dim_value = size
    if not changed:
        return path
    onnx.load_external_data_for_model(model, str(path.parent))
    onnx.save(model, place)
    return place
