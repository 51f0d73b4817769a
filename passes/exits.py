"""Early exits: variants that use some outputs of a file lose the layers that only the others need.

In: variants with their files. Out: the same, with models of their own if their files have more
outputs than ports, and layers that only those need. ONNX Runtime computes all of a model, whichever
outputs are requested. Searches do not cut such a model into stages; other networks are left whole,
so that they can be cut.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from ..model.application import Application, Network, Task
from .staged import Staged


@dataclass(frozen=True, slots=True)
class Exits:
    """Every variant has the layers that its outputs need."""

    def __call__(self, staged: Staged) -> Staged:
        apps = tuple(_with_exits(a) for a in staged.system.apps)
        return replace(staged, system=replace(staged.system, apps=apps))


def _with_exits(app: Application) -> Application:
    if not app.variants:
        return app
    variants = {f"{instance}.{variant}" for instance, variant in app.variants}
    return replace(app, tasks=tuple(_cut(t) if t.name in variants else t for t in app.tasks))


def _cut(task: Task) -> Task:
    if task.network is None or not task.network.unread or not task.network.cuttable:
        return task
    return replace(task, network=_of_outputs(task.network))


def _of_outputs(network: Network) -> Network:
    from ..networks.onnx.extract import exit_of

    outputs = tuple(t.name for t in network.outputs)
    model = exit_of(network.path, os.stat(network.path).st_mtime_ns, outputs)
    if model is None:
        return network
    digest, path = hashlib.sha256(model).hexdigest(), Path(network.path)
    # No file of the user is expected to have an `=`.
    own = path.with_name(f"{path.stem}={digest[:8]}{path.suffix}")
    return replace(
        network, path=str(own), external=(), content_hash=digest, model=model, cut_from=network
    )
