"""The problem of a search for throughput: mean times, and networks with their parts.

In: a valid text, its times and its profile. Out: a `Problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from ...analysis.dataflow.order import components
from ...model.application import Application, Task
from ...model.mapping import Placement
from ...model.platform import Platform
from ...model.profile import Profile, ProfileEntry
from ...model.resampling import resampled, without_resampling
from ...model.times import FiringTime, Times
from ...model.transfers import without_transfers
from ...networks.onnx.cuts import read_chain
from ...networks.onnx.interface import NetworkError
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.divisible import divisible, transfer_model
from ...search.throughput.partition import Costs
from ...search.throughput.problem import Divisible, Problem
from ...targets.accelerators import barred_from
from ...targets.inference import chosen_engines, engine_for
from ...targets.npu import keeps_whole
from ...targets.pins import pinned
from ..measure.measure import may_be_cut
from ..plan.program import firing_means, usual_ns
from ..text.check import Valid


def problem_of(valid: Valid, times: Times, profile: Profile | None) -> Problem:
    """The problem: mean times by type of processors, and networks with their parts."""
    platform = valid.platform
    apps = tuple(without_resampling(without_transfers(app)) for app in valid.system.apps)
    pins = _pins_of_tasks(valid, apps)
    means = _means(valid, times, apps)
    transfer = transfer_model(() if profile is None else profile.transfers, platform.kinds)
    networks: dict[str, Divisible] = {}
    for task in _unsettled_networks(valid, apps, pins):
        known = {} if profile is None else times.of[task.name]
        networks[task.name] = _divisible(task, known, means[task.name], transfer, platform)
    problem = Problem(
        apps,
        platform,
        valid.repetition,
        means,
        pins,
        networks,
        transfer=transfer,
        engines=chosen_engines(valid.system),
        phases=_phases(times, apps),
        resampled=resampled(valid.system.apps),
    )
    if profile is not None:
        held = {e.subject: e.held for e in profile.entries if e.held is not None}
        problem = replace(problem, held=held, runtime_ns=profile.firing_ns or 0.0)
    return replace(problem, pins={**on_gpu(problem, networks=False), **pins})


def _pins_of_tasks(valid: Valid, apps: tuple[Application, ...]) -> dict[str, Placement]:
    """The pins of the tasks that a search sees."""
    names = {task.name for app in apps for task in app.tasks}
    pins = pinned(valid.system.apps, valid.platform, valid.system.pins)[0]
    return {name: placement for name, placement in pins.items() if name in names}


def _means(
    valid: Valid, times: Times, apps: tuple[Application, ...]
) -> dict[str, dict[str, float]]:
    """The mean time of each task by type of processors, an assumed one where none is known."""
    kinds = valid.platform.kinds
    usual = usual_ns(firing_means(valid, times))
    means: dict[str, dict[str, float]] = {}
    for app in apps:
        for task in app.tasks:
            known = {type_: float(time.mean_ns) for type_, time in times.of[task.name].items()}
            means[task.name] = known or _guessed(task, kinds, times, usual)
    return means


def _phases(times: Times, apps: tuple[Application, ...]) -> dict[str, tuple[Fraction, ...]]:
    """The times of phases that differ, as multiples of their mean."""
    phases: dict[str, tuple[Fraction, ...]] = {}
    for app in apps:
        for task in app.tasks:
            time = times.here(task.name)
            if time is not None and len(time.usual_ns) > 1 and time.mean_ns:
                phases[task.name] = tuple(ns / time.mean_ns for ns in time.usual_ns)
    return phases


def _unsettled_networks(
    valid: Valid, apps: tuple[Application, ...], pins: Collection[str]
) -> Iterator[Task]:
    """The networks that a search may cut or replicate: not pinned, without a declared WCET, and
    not in a cycle."""
    platform = valid.platform
    own = [pin for pin in valid.system.pins if pin.platform == platform.name]
    with_wcet = {pin.task for pin in own if pin.wcet_ns is not None}
    for app in apps:
        cyclic = {name for component in components(app) for name in component}
        settled = {*pins, *cyclic, *with_wcet}
        for task in app.tasks:
            if task.network is not None and task.name not in settled:
                yield task


def _guessed(
    task: Task, kinds: MappingABC[str, str], times: Times, usual: float
) -> dict[str, float]:
    """An assumed time for a task without one, so that it can be placed."""
    code = {i.kind for i in task.implementations}.intersection(kinds.values()) or {"cpu"}
    able = [type_ for type_, kind in kinds.items() if kind in code]
    return dict.fromkeys(able or ["cpu"], times.reference_ns.get(task.name, usual))


def _divisible(
    task: Task,
    known: MappingABC[str, FiringTime],
    means: dict[str, float],
    transfer: Callable[[str, str, int], float],
    platform: Platform,
) -> Divisible:
    """A network with the parts that it can be cut into; whole where it cannot be cut."""
    costs = Costs(
        {type_: [ns] for type_, ns in means.items()},
        dict.fromkeys(means, 0.0),
        (),
        lambda a, b, count: 0.0,
    )
    whole = Divisible((task.name,), costs)
    entries: dict[str, ProfileEntry] = {
        type_: t.entry for type_, t in known.items() if t.entry is not None
    }
    if task.network is None or not entries or not may_be_cut(task):
        return whole
    if any(entry.engine and not entry.layers for entry in entries.values()):
        return whole
    if task.network.any_precision and task.network.precision == "int8":
        return whole  # its stages would be cut from the file in 32 bits
    if keeps_whole(task.network, platform):
        return whole
    engine = engine_for(task.network)
    try:
        barred = barred_from(task, platform)
        chain = read_chain(Path(task.network.path), task.network.shapes)

        def barred_on(type_: str, layer: str) -> bool:
            return barred(platform.kinds[type_], layer)

        return divisible(chain, entries, transfer, barred_on, engine.cut_ns_per_byte)
    except NetworkError:
        return whole
