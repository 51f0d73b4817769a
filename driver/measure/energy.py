"""Measuring the energy of networks on CPUs: `profile --energy`.

In: a text, its profile with the times of layers, and a machine with a meter. Out: the profile with
the energy of a firing of each network, and of its layers.

A network runs whole, and in stages; each stage runs by itself. What the whole takes beside the
machine at rest is the energy of a firing. Stages have their shares of it, and in a stage layers by
their times: no meter tells single layers apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ...machines.host import Host, last_words
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic
from ...model.files import scratch
from ...model.profile import Profile, ProfileEntry
from ...networks.onnx.cuts import LayerChain, read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.onnx.split import Stage, split
from ...profiling.power import Fitted, energies
from ...profiling.there.kernels import INPUTS, MODEL
from ..text import store
from ..text.check import Report, Valid
from .measure import cpu_types, may_be_cut, with_entry
from .power import BLOCKS, OFF, not_to_be_measured

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
    warnings. Raises Errors (F663)."""
    found: list[Diagnostic] = []
    hosts = {cpus.processor: cpus.host for cpus in cpu_types(valid)}
    known: dict[tuple[str, str], ProfileEntry] = {}
    for position, entry in enumerate(profile.entries):
        task = valid.every_task.get(entry.subject)
        if task is None or task.network is None or not may_be_cut(task):
            continue
        if entry.processor not in hosts or entry.engine or not entry.layers:
            continue
        content = entry.processor, entry.content_hash
        if content not in known:
            measured = _measured(valid, entry, task.network, meter, report)
            if measured is None:
                found.append(_unsure(task))
                continue
            known[content] = measured
        same = known[content]
        entry = replace(entry, energy_nj=same.energy_nj, layers=same.layers)
        profile = with_entry(profile, position, entry)
        found += store.save_profile(valid, profile)
    return profile, tuple(dict.fromkeys(found))


def _unsure(task: Task) -> Diagnostic:
    message = f"the energy of `{task.name}` may be off by more than {OFF:.0%}"
    help_text = "measure for longer: `--seconds 30`"
    return Diagnostic("F663", message, task.span, severity="warning", help=help_text)


def _measured(
    valid: Valid, entry: ProfileEntry, network: Network, meter: Meter, report: Report | None
) -> ProfileEntry | None:
    """An entry with energies; None if they are not known well enough. Raises Errors."""
    path = Path(network.path)
    whole = split(path, network.shapes, 1, ())
    try:
        after = _ends(read_chain(path, network.shapes), entry)
        stages = split(path, network.shapes, 1, after) if after else whole
    except NetworkError:  # it has no stages
        stages = whole
    pieces = [*whole, *stages]
    if report is not None:
        lasts = (1 + len(pieces)) * BLOCKS * (meter.seconds + BEGINS)
        report(f"measuring the energy of {entry.subject} for about {lasts:.0f} s")
    firing, *parts = _asked(valid, entry.processor, pieces, meter)
    if firing.off > OFF * firing.watts:
        return None
    times = {layer.layer: layer.mean_ns for layer in entry.layers}
    in_all = sum(max(0.0, part.watts) for part in parts)
    layers: dict[str, float] = {}
    for part, stage in zip(parts, stages, strict=True):
        energy = firing.watts * max(0.0, part.watts) / in_all if in_all else 0.0
        layers |= _by_time(energy, {name: times.get(name, 0.0) for name in stage.layers})
    energies_of = (round(layers.get(name, 0.0), 1) for name in times)
    own = (
        replace(layer, energy_nj=energy)
        for layer, energy in zip(entry.layers, energies_of, strict=True)
    )
    return replace(entry, energy_nj=round(firing.watts), layers=tuple(own))


def _by_time(energy: float, times: Mapping[str, float]) -> dict[str, float]:
    """The energy of layers by the times that they take."""
    whole = sum(times.values())
    if not whole:
        return dict.fromkeys(times, energy / len(times))
    return {name: energy * time / whole for name, time in times.items()}


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
    valid: Valid, processor: str, pieces: Sequence[Stage], meter: Meter
) -> tuple[Fitted, ...]:
    """The energy of a run of each piece. Raises Errors."""
    (host,) = (cpus.host for cpus in cpu_types(valid) if cpus.processor == processor)
    with scratch() as folder:
        for number, piece in enumerate(pieces):
            own = folder / "energy" / str(number)
            own.mkdir(parents=True)
            (own / MODEL).write_bytes(piece.model)
            inputs = [(i.tensor.name, i.tensor.dtype, i.tensor.dims) for i in piece.inputs]
            (own / INPUTS).write_text(json.dumps(inputs))
        names = [str(number) for number in range(len(pieces))]
        rows = _rows(host, host.put(folder / "energy", "energy"), names, meter, BLOCKS)
    return energies(rows, len(pieces), BLOCKS)


def require_meter(host: Host, meter: Meter) -> None:
    """Raise Errors (F663) if nothing says watts."""
    _rows(host, "", [], meter, 0)


def _rows(
    host: Host, folder: str, pieces: Sequence[str], meter: Meter, blocks: int
) -> list[dict[str, Any]]:
    """What was measured of pieces in a folder of the machine. Raises Errors."""
    request = {
        "folder": folder,
        "pieces": pieces,
        "seconds": meter.seconds,
        "blocks": blocks,
        "seed": 0,
        "meter": meter.command,
        "root": meter.root,
    }
    done = host.module("profiling.there.energy", [json.dumps(request)])
    if done.status:
        raise not_to_be_measured(last_words(done.stderr) or f"status {done.status}")
    said: dict[str, Any] = json.loads(done.stdout)
    if "error" in said:
        raise not_to_be_measured(said["error"])
    rows: list[dict[str, Any]] = said["rows"]
    return rows
