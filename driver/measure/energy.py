"""Measuring the energy of networks on CPUs: `profile --energy`.

In: a text, its profile with the times of layers, and a machine with a meter. Out: the profile with
the energy of a firing of each network, and of its layers.

A network runs whole, and in stages; each stage runs by itself. What the whole takes beside the
machine at rest is the energy of a firing. Layers share it by their times and the watts of their
stage, where these are known: no meter tells single layers apart.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ...machines.host import Host
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ...model.profile import Profile, ProfileEntry
from ...networks.onnx.cuts import LayerChain, read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.onnx.split import SplitError, Stage, split
from ...profiling.power import PieceFit, pieces_of
from ...profiling.there.kernels import INPUTS, MODEL
from ..text import store
from ..text.check import Report, Valid
from .measure import cpu_types, may_be_cut, with_entry
from .power import BLOCKS, OFF, metered

#: Stages whose energy is measured, at most.
STAGES = 8
#: Seconds in which a piece is loaded and the machine gets used to it, about.
BEGINS = 1.0


@dataclass(frozen=True, slots=True)
class Meter:
    """What says watts: a command, or the machine's own meters below `root`; every step lasts so
    many seconds."""

    command: str = ""
    seconds: float = 5.0
    root: str = "/sys"


def with_energy(
    valid: Valid, profile: Profile, meter: Meter, report: Report | None = None
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The profile with the energies of networks on ONNX Runtime; it is stored after each. Returns
    warnings. Raises Errors (F606, F663)."""
    found: list[Diagnostic] = []
    hosts = {cpus.processor: cpus.host for cpus in cpu_types(valid)}
    known: dict[tuple[str, str], ProfileEntry | None] = {}
    for position, entry in enumerate(profile.entries):
        task = valid.every_task.get(entry.subject)
        if task is None or task.network is None or not entry.on_cpu:
            continue
        why = _left_out(task, entry, hosts)
        if why:
            found.append(_warning(task, f"the energy of `{task.name}` is not measured: {why}"))
            continue
        content = entry.processor, entry.content_hash
        try:
            if content not in known:
                known[content] = _measured(valid, entry, task, meter, report)
        except (NetworkError, SplitError) as error:
            found.append(_warning(task, f"the energy of `{task.name}` is not measured: {error}"))
            continue
        same = known[content]
        if same is None:
            said = f"the energy of `{task.name}` may be off by more than {OFF:.0%}"
            found.append(_warning(task, said, "measure for longer: `--seconds 30`"))
            continue
        entry = replace(entry, energy_nj=same.energy_nj, layers=same.layers)
        profile = with_entry(profile, position, entry)
        found += store.save_profile(valid, profile)
    return profile, tuple(dict.fromkeys(found))


def _left_out(task: Task, entry: ProfileEntry, hosts: Collection[str]) -> str:
    """Why nothing is measured of a network; empty if it is."""
    if entry.engine:
        return f"it runs on {entry.engine}"
    if not may_be_cut(task):
        return "it has a `batch`, or runs in one piece"
    if entry.processor not in hosts or not entry.layers:
        return "the times of its layers are not known, which only its own machine (`--board`) tells"
    return ""


def _warning(task: Task, message: str, help_text: str = "") -> Diagnostic:
    return Diagnostic("F663", message, task.span, severity="warning", help=help_text)


def _measured(
    valid: Valid, entry: ProfileEntry, task: Task, meter: Meter, report: Report | None
) -> ProfileEntry | None:
    """An entry with energies; None if they are not known well enough. Raises Errors, and as
    `split`."""
    assert task.network is not None
    stages = _stages(task.network, entry)
    if report is not None:
        lasts = (1 + len(stages)) * BLOCKS * (meter.seconds + BEGINS)
        report(f"measuring the energy of {entry.subject} for about {lasts:.0f} s")
    whole, *parts = _asked(valid, entry.processor, task, stages, meter)
    if not whole.watts.is_known(OFF):
        return None
    watts = dict.fromkeys((layer.layer for layer in entry.layers), whole.watts.watts)
    for part, stage in zip(parts, stages[1:], strict=True):
        if part.watts.is_known(OFF):
            watts |= dict.fromkeys(stage.layers, part.watts.watts)
    taken = [watts[layer.layer] * layer.mean_ns for layer in entry.layers]
    scale = whole.energy_nj / sum(taken) if any(taken) else 0.0
    layers = (
        replace(layer, energy_nj=round(scale * own, 1))
        for layer, own in zip(entry.layers, taken, strict=True)
    )
    return replace(entry, energy_nj=round(whole.energy_nj), layers=tuple(layers))


def _stages(network: Network, entry: ProfileEntry) -> list[Stage]:
    """A network in one piece, and then in stages, if it has any. Raises as `split`."""
    path = Path(network.path)
    whole = split(path, network.shapes, 1, ())
    after = _ends(read_chain(path, network.shapes), entry)
    return [*whole, *(split(path, network.shapes, 1, after) if after else ())]


def _ends(chain: LayerChain, entry: ProfileEntry) -> list[str]:
    """The layers after which a network is cut into stages that take about as long."""
    times = {layer.layer: layer.mean_ns for layer in entry.layers}
    whole, done = sum(times.values()), 0.0
    sums = {}
    for number, layer in enumerate(chain.layers):
        done += times.get(layer.name, 0.0)
        sums[number] = done
    ends = []
    for part, cuts in groupby(
        (cut for cut in chain.cuts() if not chain.fused(cut.after)),
        key=lambda cut: int(STAGES * sums[cut.after] / whole) if whole else 0,
    ):
        if 0 < part < STAGES:
            ends.append(next(cuts).layer)
    return ends


def _asked(
    valid: Valid, processor: str, task: Task, pieces: Sequence[Stage], meter: Meter
) -> tuple[PieceFit, ...]:
    """What each piece of a task's network takes. Raises Errors."""
    (host,) = (cpus.host for cpus in cpu_types(valid) if cpus.processor == processor)
    with scratch() as folder:
        for number, piece in enumerate(pieces):
            own = folder / "energy" / str(number)
            own.mkdir(parents=True)
            (own / MODEL).write_bytes(piece.model)
            inputs = [(i.tensor.name, i.tensor.dtype, i.tensor.dims) for i in piece.inputs]
            (own / INPUTS).write_text(json.dumps(inputs))
        names = [str(number) for number in range(len(pieces))]
        said = _said(host, host.put(folder / "energy", "energy"), names, meter, BLOCKS)
    if "failed" in said and task.network is not None:
        message = f"`{task.network.file}` does not run by itself: {said['failed']}"
        raise Errors([Diagnostic("F606", message, task.span)])
    return pieces_of(said["rows"], len(pieces), BLOCKS)


def require_meter(host: Host, meter: Meter) -> None:
    """Raise Errors (F663) if nothing says watts."""
    _said(host, "", [], meter, 0)


def _said(
    host: Host, folder: str, pieces: Sequence[str], meter: Meter, blocks: int
) -> dict[str, Any]:
    """What was measured of pieces in a folder of the machine, or why one `failed`. Raises
    Errors."""
    request = {
        "folder": folder,
        "pieces": pieces,
        "seconds": meter.seconds,
        "blocks": blocks,
        "seed": 0,
        "meter": meter.command,
        "root": meter.root,
    }
    return metered(host, "energy", request)
