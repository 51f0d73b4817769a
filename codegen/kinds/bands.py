"""Networks on CPUs whose layers run in bands of rows (the word `bands` of a pin)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...model.mapping import Bands
from ...networks.bands.blocked import initializers, without
from ...networks.bands.firings import ALIGNED, HELD, BandPlan, View
from ...networks.bands.made import Forms, Made, made, shared_weights
from ...networks.bands.net import BandNet
from ...networks.onnx.own_graph import probe, version_here
from ..libraries import Library, onnxruntime
from ..names import literal, option
from ..sources import Sources
from .kind import CPU, BuildCode, CodeSite, CpuMemory, Identifiers, Kind, names, several, tensors

PLAN_VERSION = 2


@dataclass(frozen=True, slots=True)
class BandsCode(BuildCode):
    """`file` is the whole network, `plan` lists the steps that replace it.

    `weights`, `arena` (between firings), `block` (inside of one) and `sessions` (kept by ONNX
    Runtime) are bytes. `threads` of the library do not spin: each model has its own.
    """

    file: str
    plan: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bands: tuple[Bands, ...]
    firings: int
    weights: int
    arena: int
    block: int
    sessions: int
    threads: int = 1
    kind: str = "bands"

    words = frozenset({"Bands"})

    not_choosable = None

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime(),)

    @property
    def memory(self) -> CpuMemory:
        """See `BuildCode`."""
        kept, sessions = HELD * self.firings, ((self.plan, self.sessions),)
        return CpuMemory(((self.plan, self.weights),), self.block, self.arena, kept, sessions)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        tensors_of = f"{names(self.inputs)}, {names(self.outputs)}"
        threads = option("threads", several(self.threads))
        return f"Bands({literal(self.plan)}, {tensors_of}{threads})"


def _make(task: Task, site: CodeSite) -> BandsCode | None:
    """The plan and its models as files beside the whole network."""
    network = task.network
    if network is None or not site.place.bands:
        return None
    plan, used = written(task.name, network, site.place.bands, site.sources)
    return BandsCode(
        site.network(network),
        plan,
        *tensors(network),
        site.place.bands,
        len(used.plan.calls),
        used.plan.weights,
        used.plan.arena,
        used.block,
        used.plan.sessions,
        site.place.threads,
    )


def written(
    task: str, network: Network, bands: tuple[Bands, ...], sources: Sources
) -> tuple[str, Made]:
    """The file of the plan of a task, placed with all files that it needs, and the form that this
    machine runs."""
    forms = made(network, bands)
    file = Path(network.path)
    stem = file.stem if network.model else f"{file.stem}={task}"
    stem = re.sub(r"\[(\d+)\]", r"-\1", f"{stem}.bands")

    def place(name: str, content: bytes) -> str:
        return sources.place("networks", file.with_name(f"{stem}.{name}"), content)

    content = json.dumps(document(forms, place, *tensors(network)), separators=(",", ":")) + "\n"
    return place("json", content.encode()), forms.used


def document(
    forms: Forms,
    place: Callable[[str, bytes], str],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    """The input of `runtime/bands.py`; `place` takes files by the ends of their names and returns
    their paths."""
    found = _head(forms.plain.plan.net, outputs) | {
        "plain": _plain(forms.plain, place, inputs, outputs)
    }
    if forms.blocked is None:
        return found | {"why": forms.why}
    return found | {"blocked": _blocked(forms.blocked, forms.shared, place, inputs, outputs)}


def document_here(
    made: Made,
    place: Callable[[str, bytes], str],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    """The same for one form, for this machine alone."""
    head, net = _head(made.plan.net, outputs), made.plan.net
    if net.blocked:
        return head | {"blocked": _blocked(made, shared_weights(made), place, inputs, outputs)}
    return head | {"plain": _plain(made, place, inputs, outputs), "why": "nothing else is needed"}


def _head(net: BandNet, outputs: tuple[str, ...]) -> dict[str, Any]:
    ends = [[t, net.chain.tensors[t].dtype, list(net.shapes[t])] for t in outputs]
    return {"version": PLAN_VERSION, "outputs": ends}


def _plain(
    made: Made,
    place: Callable[[str, bytes], str],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    return _form(made, [place(f"{k}.onnx", m) for k, m in enumerate(made.models)], inputs, outputs)


def _blocked(
    made: Made,
    shared_names: Sequence[str],
    place: Callable[[str, bytes], str],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    weights, shared = _weights(made, shared_names)
    file = place("weights", weights)
    places = {name: at for name, _, _, at in shared}
    contents = [without(m, Path(file).name, places) for m in made.models]
    names = [sorted(places.keys() & initializers(m)) for m in made.models]
    models = [place(f"blocked.{k}.onnx", m) for k, m in enumerate(contents)]
    return _form(made, models, inputs, outputs) | {
        "probe": place("probe.onnx", probe()),
        "block": max(made.plan.net.blocks.values()),
        "onnxruntime": version_here(),
        "weights": file,
        "shared": shared,
        "names": names,
    }


def _weights(
    made: Made, shared: Sequence[str]
) -> tuple[bytes, list[tuple[str, str, list[int], int]]]:
    """Weights that several models read, one after the other, with the position of each: name, type,
    shape, first byte."""
    from onnx import numpy_helper

    known = {w.name: w for w in made.plan.net.model.graph.initializer}
    content, found = bytearray(), []
    for name in shared:
        array = numpy_helper.to_array(known[name])
        found.append((name, array.dtype.name, list(array.shape), len(content)))
        content += array.tobytes()
        content += bytes(-len(content) % ALIGNED)
    return bytes(content), found


def _form(
    made: Made, files: list[str], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> dict[str, Any]:
    """A plan with its models."""
    planned = made.plan
    tokens = {t: k for k, t in reversed(list(enumerate((*inputs, *outputs))))}

    def view(v: View) -> list[Any]:
        return _view(planned, v, tokens)

    def bound(v: View) -> list[Any]:
        shape = list(planned.net.shapes[v.tensor])
        if len(shape) == 4:
            shape[2] = v.rows[1] - v.rows[0]
        return [v.tensor, view(v), shape]

    return {
        "arena": planned.arena,
        "models": files,
        "blocks": list(made.blocks),
        "calls": [
            {
                "model": model,
                "before": [[view(m.source), view(m.target)] for m in call.before],
                "reads": [bound(v) for v in call.reads],
                "makes": [bound(v) for v in call.makes],
                "after": [[view(m.source), view(m.target)] for m in call.after],
            }
            for call, model in zip(planned.calls, made.which, strict=True)
        ],
    }


def _view(planned: BandPlan, view: View, tokens: dict[str, int]) -> list[Any]:
    """Base (-1: the arena, else a token), byte, type, shape of the whole there, and its rows."""
    net = planned.net
    shape = list(net.laid(view.tensor, view.held[1] - view.held[0]))
    first, end = (r - view.held[0] for r in view.rows)
    if view.key[0] == "token":
        base, at = tokens[view.tensor], 0
    else:
        base, at = -1, planned.offsets[view.key]
    return [base, at, net.chain.tensors[view.tensor].dtype, shape, first, end]


KIND = Kind("bands", BandsCode.words, CPU, _make)
