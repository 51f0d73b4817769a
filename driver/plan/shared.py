"""Variants of networks share common parts and weights: these are in memory once.

In: the states of a scenario, with everything placed. Out: the same, with segments in the variants
that share some, and the memory that this saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...model.application import Application, Network, Segments, Task
from ...model.deployment import SharedWeights
from ...networks.common_weights import parts_in_program
from ...networks.supergraph import Saved, WholeNetwork, saved
from ..text.check import Valid

#: The key by which networks count as the same.
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """Segments of networks, and the bytes of weights that they save; `among` are the variants that
    were compared."""

    segments: Mapping[_Key, Segments]
    saved: Saved
    among: tuple[str, ...]


def shared(states: Mapping[str, Valid]) -> Shared | None:
    """The common parts of variants of the states; None if there are fewer than two variants."""
    networks: dict[_Key, Network] = {}
    names: dict[_Key, str] = {}
    for name, network in _variants(states):
        networks.setdefault(_key(network), network)
        names.setdefault(_key(network), name)
    if len(networks) < 2:
        return None
    wholes = [whole_of(n) for n in networks.values()]
    first = next(iter(networks.values()))
    parts = parts_in_program(wholes, str(Path(first.path).parent))
    segments = {key: p for key, p in zip(networks, parts, strict=True) if p is not None}
    return Shared(segments, saved(wholes, parts), tuple(names.values()))


def with_shared_parts(states: Mapping[str, Valid]) -> tuple[dict[str, Valid], SharedWeights | None]:
    """The states, with variants that run in shared segments; and their weights, if there are such
    variants."""
    known = shared(states)
    if known is None or not known.segments:
        return dict(states), None

    def with_segments(task: Task) -> Task:
        if task.network is None:
            return task
        segments = known.segments.get(_key(task.network))
        if segments is None:
            return task
        return replace(task, network=replace(task.network, segments=segments))

    def with_tasks(app: Application) -> Application:
        return replace(app, tasks=tuple(map(with_segments, app.tasks)))

    sharing = {}
    for name, state in states.items():
        apps = [with_tasks(app) for app in state.system.apps]
        sharing[name] = replace(state, system=replace(state.system, apps=tuple(apps)))
    return sharing, SharedWeights(known.saved.separate, known.saved.distinct, known.saved.built)


def _variants(states: Mapping[str, Valid]) -> Iterator[tuple[str, Network]]:
    """Whole networks that are variants, and take their inputs one by one."""
    for state in states.values():
        for app in state.system.apps:
            names = {f"{instance}.{variant}" for instance, variant in app.variants}
            for task in app.tasks:
                network = task.network
                if task.name not in names or network is None or network.one_piece:
                    continue
                if network.batch == 1:
                    yield task.name, network


def _key(network: Network) -> _Key:
    return network.path, network.content_hash, network.inputs, network.outputs


def whole_of(network: Network) -> WholeNetwork:
    """A network with its weights."""
    import onnx

    model: Any
    if network.model:
        model = onnx.load_model_from_string(network.model)
    else:
        model = onnx.load(str(Path(network.path)))
    inputs = tuple((t.name, t.type.shape) for t in network.inputs)
    return WholeNetwork(model, inputs, tuple(t.name for t in network.outputs))
