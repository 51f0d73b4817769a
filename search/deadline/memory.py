"""Joint problems whose networks go in bands of rows: slower, in less memory.

In: a `JointProblem` and a choice of bands for some of its networks. Out: the same problem with the
times that bands take; `answer.mapping_of` writes the bands into its mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from ...networks.bands.choose import Choice
from .power import PowerModel
from .problem import Candidate, DeadlineNetwork, DeadlineTask, JointProblem


def banded(problem: JointProblem, chosen: Mapping[str, Choice]) -> JointProblem:
    """With these choices for networks that run whole on a CPU.

    What was seen of many firings of a whole network is not known of bands: each counts as the
    longest.
    """
    return replace(
        problem,
        tasks=tuple(
            _slower_item(i, chosen[i.name], problem.cpu_types) if i.name in chosen else i
            for i in problem.tasks
        ),
        networks=tuple(
            _slower_net(n, chosen[n.name], problem.cpu_types) if n.name in chosen else n
            for n in problem.networks
        ),
        bands={name: choice.bands for name, choice in chosen.items() if choice.bands},
        power=_slower_work(problem, chosen),
    )


def _slower_work(problem: JointProblem, chosen: Mapping[str, Choice]) -> PowerModel | None:
    """The power model with the mean times of bands."""
    model = problem.power
    if model is None:
        return None
    works = dict(model.works)
    for name, choice in chosen.items():
        if choice.bands and name in works:
            works[name] = {
                type_: work.longer(Fraction(choice.time)) if type_ in problem.cpu_types else work
                for type_, work in works[name].items()
            }
    return replace(model, works=works)


def _slower_item(task: DeadlineTask, choice: Choice, cpus: frozenset[str]) -> DeadlineTask:
    if not choice.bands or not cpus & task.wcet_ns.keys():
        return task
    times = {
        type_: ceil(ns * choice.time) if type_ in cpus else ns for type_, ns in task.wcet_ns.items()
    }
    curves = {type_: curve for type_, curve in task.curves.items() if type_ not in cpus}
    phases = {type_: own for type_, own in task.phases.items() if type_ not in cpus}
    return replace(task, wcet_ns=times, curves=curves, phases=phases)


def _slower_net(network: DeadlineNetwork, choice: Choice, cpus: frozenset[str]) -> DeadlineNetwork:
    if not choice.bands:
        return network
    slower = tuple(_slower(c, choice) if c.whole_on in cpus else c for c in network.candidates)
    return replace(network, candidates=slower)


def _slower(candidate: Candidate, choice: Choice) -> Candidate:
    (stage,) = candidate.stages
    kernels = tuple(ceil(ns * choice.time) for ns in stage.kernels)
    return replace(candidate, stages=(replace(stage, kernels=kernels, curve=None),))
