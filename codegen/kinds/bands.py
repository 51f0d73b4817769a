"""Networks on CPUs whose layers go in bands of rows (the word `bands` of a pin)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.application import Task
from ...model.deployment import Deployment
from ...model.mapping import Bands
from ...networks.bands.firings import Plan, View
from ...networks.bands.made import Made, made
from ...networks.bands.units import inner_bytes
from ..names import literal
from .kind import Identifiers, Kind, Site, names, tensors

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class BandsCode:
    """`file` is the whole network, `plan` lists what is fired and copied instead.

    `weights`, `arena` (between firings) and `block` (inside of one) are bytes. `threads` of the library do not spin:
    each model has its own.
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
    threads: int = 1
    kind: str = "bands"

    on_device = False
    batch, moves = 1, False
    words = frozenset({"Bands"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ("onnxruntime",)

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        threads = f", threads={self.threads}" if self.threads > 1 else ""
        return f"Bands({literal(self.plan)}, {names(self.inputs)}, {names(self.outputs)}{threads})"


def _serves(task: Task, site: Site) -> bool:
    return task.network is not None and site.on_cpu and bool(site.place.bands)


def _make(task: Task, site: Site) -> BandsCode:
    """The plan and its models as files beside the whole network."""
    network = task.network
    assert network is not None
    found = made(network, site.place.bands)
    file = Path(network.path)
    stem = f"{file.stem if network.model else f'{file.stem}={task.name}'}.bands"
    stem = re.sub(r"\[(\d+)\]", r"-\1", stem)
    files = [
        site.sources.place("networks", file.with_name(f"{stem}.{k}.onnx"), content)
        for k, content in enumerate(found.models)
    ]
    document = json.dumps(_document(found, files, *tensors(network)), separators=(",", ":")) + "\n"
    planned = found.plan
    return BandsCode(
        site.network(network),
        site.sources.place("networks", file.with_name(f"{stem}.json"), document.encode()),
        *tensors(network),
        site.place.bands,
        len(planned.calls),
        found.weights,
        planned.arena,
        planned.block,
        site.place.threads,
    )


def _document(found: Made, files: list[str], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> dict[str, Any]:
    """What `runtime/bands.py` reads."""
    planned = found.plan
    tokens = {t: k for k, t in reversed(list(enumerate((*inputs, *outputs))))}

    def view(v: View) -> list[Any]:
        return _view(planned, v, tokens)

    blocks = [0] * len(files)
    for call, model in zip(planned.calls, found.which, strict=True):
        firing = call.firing
        inner = planned.block if firing.band is None else inner_bytes(firing.unit, *firing.band)
        blocks[model] = max(blocks[model], inner)
    return {
        "version": PLAN_VERSION,
        "arena": planned.arena,
        "models": files,
        "blocks": blocks,
        "calls": [
            {
                "model": model,
                "before": [[view(m.source), view(m.target)] for m in call.before],
                "reads": [[v.tensor, view(v)] for v in call.reads],
                "makes": [[v.tensor, view(v)] for v in call.makes],
                "after": [[view(m.source), view(m.target)] for m in call.after],
            }
            for call, model in zip(planned.calls, found.which, strict=True)
        ],
    }


def _view(planned: Plan, view: View, tokens: dict[str, int]) -> list[Any]:
    """Base (-1: the arena, else a token), byte, type, shape of what is there, and rows of it."""
    net = planned.net
    shape = list(net.shapes[view.tensor])
    first, end = (r - view.held[0] for r in view.rows)
    if len(shape) == 4:
        shape[2] = view.held[1] - view.held[0]
    token = view.key[0] == "token"
    base, at = (tokens[view.tensor], 0) if token else (-1, planned.offsets[view.key])
    return [base, at, net.chain.tensors[view.tensor].dtype, shape, first, end]


KIND = Kind("bands", BandsCode.words, _serves, _make)
