"""Memory of networks: what a build plans to take against what its platform has, and what a network can do with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..codegen.deploy import Deployed
from ..model.application import Task
from ..model.deployment import PlannedMemory
from ..model.diagnostic import Diagnostic
from ..model.platform import Platform
from ..networks.bands.choose import Choice, front
from ..networks.bands.firings import CannotBand
from ..networks.bands.made import blocked_of, net_of
from ..networks.onnx.interface import NetworkError
from ..search.throughput.problem import Problem
from ..targets.memory import BASE, memory_of

#: Seconds for the search for bands, over all networks.
SEARCHING = 5.0


def beyond_platform(deployed: Deployed, platform: Platform) -> Diagnostic | None:
    """The error that a program needs more memory than the CPUs of its platform have; None where that is not known."""
    planned = deployed.deployment.planned
    limit = memory_of(platform)
    if planned is None or limit is None or planned.total + BASE <= limit:
        return None
    message = f"networks need {in_mb(planned.total)} beside {in_mb(BASE)} for Python and libraries"
    message += f", and `{platform.name}` has {in_mb(limit)}"
    help_text = f"{largest(planned)}; `flowc map --memory` looks for less, `memory` of the platform says what there is"
    return Diagnostic("F521", message, platform.span, help=help_text)


def fronts(problem: Problem) -> dict[str, tuple[Choice, ...]]:
    """What each network that nobody has pinned can do with, where it may run on a CPU."""
    cpu = {name: of["cpu"] for name, of in problem.firing_ns.items() if "cpu" in of}
    tasks = [t for a in problem.apps for t in a.tasks if t.name in problem.networks and t.name in cpu]
    return fronts_of(tasks, cpu)


def fronts_of(tasks: Iterable[Task], cpu_ns: Mapping[str, float]) -> dict[str, tuple[Choice, ...]]:
    """The same of those tasks that are networks and may go in bands; they take so long on a CPU."""
    found = {}
    able = [t for t in tasks if _may_band(t)]
    for task in able:
        assert task.network is not None
        try:
            net, blocked = net_of(task.network), blocked_of(task.network)
            spent, seconds = cpu_ns[task.name], SEARCHING / len(able)
            found[task.name] = front(net, spent, seconds) if blocked is None else front(blocked, spent, seconds, net)
        except (CannotBand, NetworkError):
            continue
    return found


def _may_band(task: Task) -> bool:
    return task.network is not None and task.network.batch == 1 and task.network.moving is None


def largest(planned: PlannedMemory) -> str:
    """What a plan is made of, in words."""
    parts = {"weights": planned.weights, "buffers": planned.buffers, "tokens": planned.tokens}
    return ", ".join(f"{in_mb(n)} are {name}" for name, n in sorted(parts.items(), key=lambda p: -p[1]))


def in_mb(count: int) -> str:
    """Bytes in millions."""
    return f"{count / 1e6:.4g} MB"
