"""Memory of networks: what a build plans to take against what its platform has, and what a network can do with."""

from __future__ import annotations

from ..codegen.deploy import Deployed
from ..model.application import Task
from ..model.deployment import PlannedMemory
from ..model.diagnostic import Diagnostic
from ..model.platform import Platform
from ..networks.bands.choose import Choice, front
from ..networks.bands.firings import CannotBand
from ..networks.bands.made import net_of
from ..networks.onnx.interface import NetworkError
from ..search.throughput.problem import Problem

#: What a process takes with Python, numpy and ONNX Runtime before any network, in bytes.
BASE = 50_000_000
#: Seconds for the search for bands, over all networks.
SEARCHING = 5.0


def beyond_platform(deployed: Deployed, platform: Platform) -> Diagnostic | None:
    """The error that a program needs more memory than the CPUs of its platform have; None where that is not known."""
    planned = deployed.deployment.planned
    pools = [p for p in platform.pools if p.kind == "cpu" and p.memory_bytes]
    limit = sum(p.memory_bytes for p in pools)
    if planned is None or not pools or planned.total + BASE <= limit:
        return None
    message = f"networks need {in_mb(planned.total)} beside {in_mb(BASE)} for Python and libraries"
    message += f", and `{platform.name}` has {in_mb(limit)}"
    help_text = f"{largest(planned)}; `flowc map --memory` looks for less, `memory` of the platform says what there is"
    return Diagnostic("F521", message, platform.span, help=help_text)


def fronts(problem: Problem) -> dict[str, tuple[Choice, ...]]:
    """What each network that nobody has pinned can do with, where it may run on a CPU."""
    tasks = [t for a in problem.apps for t in a.tasks if t.name in problem.networks and _may_band(t)]
    tasks = [t for t in tasks if "cpu" in problem.firing_ns[t.name]]
    found = {}
    for task in tasks:
        assert task.network is not None
        try:
            net = net_of(task.network)
            found[task.name] = front(net, problem.firing_ns[task.name]["cpu"], SEARCHING / len(tasks))
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
