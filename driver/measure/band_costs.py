"""Costs of bands of rows (row tiling) on this machine, measured: a network runs unsplit and in some
plans, in turns.

In: a text and its profile. Out: the profile, with costs by network. They are for networks for which
bands pay, and for the machine that runs flowc: plans in ONNX Runtime's own layout are made by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from ...codegen.kinds.bands import document_here
from ...machines.host import HERE, Host
from ...model.application import Network
from ...model.diagnostic import Diagnostic
from ...model.files import scratch
from ...model.profile import BandCosts, Profile
from ...networks.bands.choose import Choice, extra_of, front
from ...networks.bands.firings import CannotBand
from ...networks.bands.fitted import fitted
from ...networks.bands.made import as_made, blocked_of, net_of
from ...networks.bands.net import BandNet
from ...networks.onnx.interface import NetworkError
from ...networks.onnx.memory import needs, needs_of
from ...profiling.there import bands as there
from ..plan.memory import may_band
from ..text import store
from ..text.check import Report, Valid
from .measure import with_entry

#: Bytes between layers from which on bands are measured.
PAYS = 1_000_000
#: Seconds for the search for plans, and for runs, for each network; plans that are run.
SEARCHING, RUNNING, PLANS = 1.5, 2.0, 5


def with_band_costs(
    valid: Valid, profile: Profile, report: Report | None = None
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The profile with the costs of bands, of every network for which they pay; it is stored after
    each.

    Known costs are not measured again. Returns what could not be stored.
    """
    if valid.host is not HERE:
        return profile, ()
    unsaved: set[Diagnostic] = set()
    tasks = valid.every_task
    for position, entry in enumerate(profile.entries):
        task = tasks.get(entry.subject)
        if task is None or task.network is None or not may_band(task):
            continue
        if not entry.on_cpu or entry.bands is not None:
            continue
        costs = _known_costs(profile, entry.content_hash) or measured_costs(
            task.network, float(entry.mean_ns), valid.host, report
        )
        if costs is not None:
            profile = with_entry(profile, position, replace(entry, bands=costs))
            unsaved.update(store.save_profile(valid, profile))
    return profile, tuple(unsaved)


def _known_costs(profile: Profile, content_hash: str) -> BandCosts | None:
    """The costs of bands of the same network on a CPU."""
    for entry in profile.entries:
        if entry.content_hash == content_hash and entry.on_cpu and entry.bands:
            return entry.bands
    return None


def measured_costs(
    network: Network, whole_ns: float, host: Host = HERE, report: Report | None = None
) -> BandCosts | None:
    """The costs of bands of a network here; None if they do not pay, or nothing could be
    measured."""
    known = needs(network)
    if known is None or known.block < PAYS:
        return None
    try:
        net, blocked = net_of(network), blocked_of(network)
        with scratch() as folder:
            path = Path(network.path)
            if network.model:
                path = folder / path.name
                path.write_bytes(network.model)
            return costs_of(path, net, blocked, whole_ns, host, report)
    except (CannotBand, NetworkError):
        return None


def costs_of(
    path: Path,
    net: BandNet,
    blocked: BandNet | None,
    whole_ns: float | None = None,
    host: Host = HERE,
    report: Report | None = None,
) -> BandCosts | None:
    """The same for a model in a file, as it is and as ONNX Runtime executes it. Raises
    CannotBand."""
    form = blocked or net
    whole = needs_of(net.chain, net.model, net.folder)
    choices = front(form, whole, whole_ns, SEARCHING, None if blocked is None else net)
    plans = _spread([c for c in choices if c.bands])
    if len(plans) < 2:
        return None
    if report is not None:
        report(
            f"measuring the costs of bands of {net.file}, in {len(plans)} plans for {RUNNING:g} s"
        )
    return _measured(path, form, plans, host)


def _spread(choices: Sequence[Choice]) -> list[Choice]:
    """Some plans, from the smallest to the fastest."""
    if len(choices) <= PLANS:
        return list(choices)
    return [choices[round(k * (len(choices) - 1) / (PLANS - 1))] for k in range(PLANS)]


def _measured(path: Path, form: BandNet, choices: Sequence[Choice], host: Host) -> BandCosts | None:
    with scratch() as folder:
        made = [as_made(form, c.bands, asked=False) for c in choices]
        ends = {"inputs": _tensors(form, form.chain.inputs)}
        ends["outputs"] = _tensors(form, form.chain.outputs)
        (folder / there.ENDS).write_text(json.dumps(ends))
        (folder / there.MODEL).symlink_to(path.resolve())  # its weights may lie beside it
        for k, one in enumerate(made):
            (folder / str(k)).mkdir()
            plan = document_here(
                one, partial(_place, folder, str(k)), form.chain.inputs, form.chain.outputs
            )
            (folder / str(k) / there.PLAN).write_text(json.dumps(plan))
        done = host.module("profiling.there.bands", [host.put(folder, "bands"), str(RUNNING)])
    if done.status:  # without the measurement, the default costs apply
        return None
    whole, *spent = json.loads(done.stdout)
    seen = []
    for one, ns in zip(made, spent, strict=True):
        times = median(banded / plain for banded, plain in zip(ns, whole, strict=True))
        seen.append((extra_of(one.plan), times))
    return fitted(seen, float(median(whole)), form.blocked)


def _tensors(form: BandNet, names: Iterable[str]) -> list[tuple[str, str, Sequence[int]]]:
    """The name, type and shape of tensors."""
    return [(name, form.chain.tensors[name].dtype, form.shapes[name]) for name in names]


def _place(folder: Path, plan: str, name: str, content: bytes) -> str:
    (folder / plan / name).write_bytes(content)
    return f"{plan}/{name}"
