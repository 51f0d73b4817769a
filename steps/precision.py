"""Networks in 8 bits: quantised once per network and calibration data, kept beside the text.

In: a system as it was loaded. Out: the same with the quantised files in place of the original ones, as far as they are
there; making them is a step of its own, because it runs the network.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

from ..codegen.sources import KEPT
from ..model.application import Application, Network, Task
from ..model.diagnostic import Diagnostic, Faults
from ..model.system import System
from ..networks.calibration import calibration
from ..networks.onnx_import import Border, NetworkFault
from ..networks.quantise import Loss, loss, quantise
from ..profiling.host import version_of

#: Changes when the same network and data would be quantised differently.
RULES = 1


def with_precision(system: System) -> tuple[System, tuple[Task, ...], dict[str, tuple[Loss, ...]]]:
    """The system with networks in 8 bits as far as they are ready, a task of each other one, and losses by network."""
    waiting: dict[str, Task] = {}
    losses: dict[str, tuple[Loss, ...]] = {}

    def ready(task: Task) -> Task:
        network = task.network
        if network is None or network.precision != "int8" or network.calibrate is None:
            return task
        place = _place(system, network)
        file = place / _name(network, place)
        try:
            losses[network.definition] = tuple(Loss(**x) for x in json.loads((place / "loss.json").read_text()))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except (OSError, ValueError, TypeError):
            waiting.setdefault(network.definition, task)
            return task
        return replace(task, network=replace(network, path=str(file), external=(), content_hash=digest))

    apps = tuple(_each(app, ready) for app in system.apps)
    return replace(system, apps=apps), tuple(waiting.values()), losses


def _each(app: Application, change: Callable[[Task], Task]) -> Application:
    return replace(app, tasks=tuple(change(t) for t in app.tasks))


def _name(network: Network, place: Path) -> str:
    return f"{Path(network.path).stem}.int8-{place.name[:6]}.onnx"


def _place(system: System, network: Network) -> Path:
    """The folder of a quantised network: by its content, that of its calibration data, and who quantised it."""
    assert network.calibrate is not None
    root, pattern = Path(network.calibrate.path), network.calibrate.text
    digest = hashlib.sha256(repr((RULES, version_of("onnxruntime"), network.content_hash, pattern)).encode())
    for file in _files(root, pattern):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return Path(system.path).parent / KEPT / digest.hexdigest()[:16]


def _files(root: Path, pattern: str) -> Iterable[Path]:
    try:
        return sorted(p for p in root.glob(pattern) if p.is_file())
    except (ValueError, NotImplementedError):  # no pattern: said when the network is quantised
        return ()


def quantise_network(system: System, task: Task) -> tuple[Loss, ...]:
    """Quantise the network of a task and keep it with its loss. Raises Faults."""
    network = task.network
    assert network is not None and network.calibrate is not None
    borders = [Border(t.name, t.type.dtype, t.type.shape) for t in network.inputs]
    try:
        samples = calibration(network.calibrate.text, Path(network.calibrate.path), borders)
        model = quantise(Path(network.path), samples)
        found = loss(Path(network.path), model, samples)
    except NetworkFault as fault:
        raise Faults([Diagnostic(fault.code, fault.message, task.span, "", (), fault.help)]) from fault
    place = _place(system, network)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, content in (
            (_name(network, place), model),
            ("loss.json", json.dumps([asdict(x) for x in found]).encode()),
        ):
            temporary = place / f".{name}.new"
            temporary.write_bytes(content)
            os.replace(temporary, place / name)
    except OSError as error:
        raise Faults([Diagnostic("F605", f"cannot write `{place}`: {error.strerror}", None)]) from error
    return found
