"""The memory of networks in TensorRT, before there is a board: what NVIDIA's builder counts, beside
what flowc plans.

In: a valid system and its platform, or an ONNX file. Out: `EngineMemory`s, where the extra `rtx` is
installed. The builder is that of TensorRT for RTX: others may need less.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.platform import Platform
from ...model.system import System
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


def memory_of_file(path: Path) -> EngineMemory | None:
    """That of a file with fixed sizes; None if the builder says nothing."""
    answer = ask(path, build=True, patience=PATIENCE) if is_installed() else None
    if answer is None or answer.weights is None or answer.activations is None:
        return None
    return EngineMemory(path.name, answer.weights, answer.activations, None, None)


def engine_memory(system: System, platform: Platform) -> tuple[EngineMemory, ...]:
    """That of each network of a text, on a platform that states its TensorRT and its memory."""
    stated = platform.tensorrt and any(pool.memory_bytes for pool in platform.pools)
    if not stated or not is_installed():
        return ()
    networks: dict[str, Network] = {}
    for app in system.apps:
        for task in app.tasks:
            if task.network is not None:
                whole = task.network.cut_from or task.network
                if not whole.model and not whole.one_piece:
                    networks.setdefault(whole.definition, whole)
    files = [Path(network.path) for network in networks.values()]
    said = answers(files, build=True, patience=PATIENCE) if files else []
    found = []
    for (name, network), answer in zip(networks.items(), said, strict=True):
        if answer is None or answer.weights is None or answer.activations is None:
            continue
        plan = needs_in_tensorrt(network)
        planned = (None, None) if plan is None else (plan.weights, plan.block)
        found.append(EngineMemory(name, answer.weights, answer.activations, *planned))
    return tuple(found)
