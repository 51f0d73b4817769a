"""Joint problems whose networks go in bands of rows: slower, in less memory.

In: a `JointProblem` and a choice of bands for some of its networks. Out: the same problem with the
times that bands take; `answer.mapping_of` writes the bands into its mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from ...networks.bands.choose import Choice
from .problem import Candidate, DeadlineNetwork, DeadlineTask, JointProblem


def banded(problem: JointProblem, chosen: Mapping[str, Choice]) -> JointProblem:
    """With these choices for networks that run whole on a CPU.

    What was seen of many firings of a whole network is not known of bands: each counts as the
    longest.
    """
    return replace(
        problem,
        tasks=tuple(
            _slower_item(i, chosen[i.name]) if i.name in chosen else i for i in problem.tasks
        ),
        networks=tuple(
            _slower_net(n, chosen[n.name]) if n.name in chosen else n for n in problem.networks
        ),
        bands={name: choice.bands for name, choice in chosen.items() if choice.bands},
    )


def _slower_item(task: DeadlineTask, choice: Choice) -> DeadlineTask:
    if not choice.bands or "cpu" not in task.wcet_ns:
        return task
    times = {
        kind: ceil(ns * choice.time) if kind == "cpu" else ns for kind, ns in task.wcet_ns.items()
    }
    curves = {kind: curve for kind, curve in task.curves.items() if kind != "cpu"}
    phases = {kind: own for kind, own in task.phases.items() if kind != "cpu"}
    return replace(task, wcet_ns=times, curves=curves, phases=phases)


def _slower_net(network: DeadlineNetwork, choice: Choice) -> DeadlineNetwork:
    if not choice.bands:
        return network
    return replace(network, candidates=tuple(_slower(c, choice) for c in network.candidates))


def _slower(candidate: Candidate, choice: Choice) -> Candidate:
    if [s.kind for s in candidate.stages] != ["cpu"]:
        return candidate
    (stage,) = candidate.stages
    kernels = tuple(ceil(ns * choice.time) for ns in stage.kernels)
    return replace(candidate, stages=(replace(stage, kernels=kernels, curve=None),))
