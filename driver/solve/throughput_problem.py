"""The problem of a search for throughput: mean times, and networks with their parts.

In: a valid text, its times and its profile. Out: a `Problem`.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from pathlib import Path

from ...analysis.dataflow.order import components
from ...model.application import Task
from ...model.platform import Platform
from ...model.profile import Profile, ProfileEntry
from ...model.resampling import without_resampling
from ...model.times import FiringTime, Times
from ...model.transfers import without_transfers
from ...networks.onnx.cuts import read_chain
from ...networks.onnx.interface import NetworkError
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.divisible import divisible, transfer_model
from ...search.throughput.partition import Costs
from ...search.throughput.problem import Divisible, Problem
from ...targets.dla import barred_from_dla
from ...targets.pins import pinned
from ..measure.measure import may_be_cut
from ..plan.program import firing_means, usual_ns
from ..text.check import Valid


def problem_of(valid: Valid, times: Times, profile: Profile | None) -> Problem:
    """The problem: mean times per kind of processor, and networks with their parts."""
    apps, platform = (
        tuple(without_resampling(without_transfers(a)) for a in valid.system.apps),
        valid.platform,
    )
    names = {t.name for a in apps for t in a.tasks}
    pins = {
        name: p
        for name, p in pinned(valid.system.apps, platform, valid.system.pins)[0].items()
        if name in names
    }
    given = {
        p.task for p in valid.system.pins if p.platform == platform.name and p.wcet_ns is not None
    }
    kinds = {pool.kind for pool in platform.pools}
    means: dict[str, dict[str, float]] = {}
    networks: dict[str, Divisible] = {}
    usual = usual_ns(firing_means(valid, times))
    for app in apps:
        cyclic = {name for component in components(app) for name in component}
        for task in app.tasks:
            known = times.of[task.name]
            means[task.name] = {kind: float(t.mean_ns) for kind, t in known.items()} or _guessed(
                task, kinds, times, usual
            )
            if (
                task.network is not None
                and task.name not in (*pins, *cyclic)
                and task.name not in given
            ):
                networks[task.name] = _divisible(task, known, means[task.name], profile, platform)
    held = {e.subject: e.held for e in profile.entries if e.held is not None} if profile else {}
    problem = Problem(
        apps,
        platform,
        valid.repetition,
        means,
        pins,
        networks,
        held=held,
        transfer=transfer_model(profile.transfers if profile else ()),
        runtime_ns=(profile.firing_ns or 0.0) if profile else 0.0,
    )
    return replace(problem, pins={**on_gpu(problem, networks=False), **pins})


def _guessed(task: Task, kinds: Collection[str], times: Times, usual: float) -> dict[str, float]:
    """An assumed time for a task without one, so that it can be placed."""
    code = {i.kind for i in task.implementations}.intersection(kinds)
    return dict.fromkeys(code or {"cpu"}, times.reference_ns.get(task.name, usual))


def _divisible(
    task: Task,
    known: MappingABC[str, FiringTime],
    means: dict[str, float],
    profile: Profile | None,
    platform: Platform,
) -> Divisible:
    whole = Divisible(
        (task.name,),
        Costs(
            {k: [ns] for k, ns in means.items()},
            dict.fromkeys(means, 0.0),
            (),
            lambda a, b, count: 0.0,
        ),
    )
    entries: dict[str, ProfileEntry] = {
        kind: t.entry for kind, t in known.items() if t.entry is not None
    }
    if not entries or not may_be_cut(task) or profile is None:
        return whole
    assert task.network is not None
    try:
        barred = barred_from_dla(task, platform)
        return divisible(
            read_chain(Path(task.network.path), task.network.shapes),
            entries,
            profile.transfers,
            barred,
        )
    except NetworkError:
        return whole
