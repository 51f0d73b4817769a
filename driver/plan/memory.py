"""Memory of networks: what a build would take, what its platform has, and how far networks can be
reduced.

A GPU whose pool declares `memory` has memory of its own; else it shares that of the CPUs, as on all
boards of NVIDIA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...codegen.deploy import Deployed
from ...codegen.memory import on_devices
from ...model.application import Network, Task
from ...model.deployment import PlannedMemory
from ...model.diagnostic import Diagnostic
from ...model.platform import Platform, Pool
from ...model.profile import BandCosts, Profile
from ...model.quantity import in_bytes
from ...networks.bands.choose import Choice, front
from ...networks.bands.firings import CannotBand
from ...networks.bands.made import blocked_of, net_of
from ...networks.engines import ENGINES
from ...networks.onnx.interface import NetworkError
from ...networks.onnx.memory import needs
from ...search.throughput.problem import Problem
from ...targets.inference import engine_for
from ...targets.memory import BASE, declared_memory

#: Seconds for the search for bands, over all networks.
SEARCHING = 5.0


def beyond_platform(deployed: Deployed, platform: Platform) -> tuple[Diagnostic, ...]:
    """Errors if a program needs more memory than its platform has, as far as that is known."""
    planned = deployed.deployment.planned
    if planned is None:
        return ()
    faults, elsewhere = [], 0
    for pool in (p for p in platform.pools if p.kind not in ("cpu", "link") and p.memory_bytes):
        weights, arenas = on_devices(deployed.deployment, pool.processors)
        elsewhere += weights + arenas
        if weights + arenas > pool.memory_bytes:
            faults.append(_beyond_device(pool, platform, weights, arenas))
    limit, here = declared_memory(platform), planned.total - elsewhere
    if limit is not None and here + BASE > limit:
        message = f"networks need {in_bytes(here)} beside {in_bytes(BASE)} for Python and libraries"
        message += f", but `{platform.name}` has {in_bytes(limit)}"
        help_text = (
            f"{largest(planned)}; search for less with `flowc map --memory`, or correct `memory` of"
            " the platform"
        )
        faults.append(Diagnostic("F521", message, platform.span, help=help_text))
    return tuple(faults)


def room_of(platform: Platform) -> int | None:
    """Bytes that the CPUs have for networks; None if that is not declared."""
    limit = declared_memory(platform)
    return None if limit is None else max(0, limit - BASE)


def _beyond_device(pool: Pool, platform: Platform, weights: int, arenas: int) -> Diagnostic:
    message = f"networks need {in_bytes(weights + arenas)} on `{pool.name}` of `{platform.name}`"
    message += f", but it has {in_bytes(pool.memory_bytes)}"
    help_text = f"{in_bytes(weights)} are weights, {in_bytes(arenas)} are buffers between layers"
    help_text += ": use fewer `streams`, or correct `memory` of the pool"
    return Diagnostic("F513", message, platform.span, help=help_text)


def fronts(problem: Problem, profile: Profile | None = None) -> dict[str, tuple[Choice, ...]]:
    """Trade-offs of memory against time for each network without a pin that may run on a CPU."""
    cpus = problem.platform.types_of("cpu")
    cpu: dict[str, float] = {}
    for name, times in problem.firing_ns.items():
        own = [times[type_] for type_ in cpus if type_ in times]
        if own:
            cpu[name] = max(own)
    tasks = []
    for app in problem.apps:
        tasks += [t for t in app.tasks if t.name in problem.networks and t.name in cpu]
    return fronts_of(tasks, cpu, profile)


def fronts_of(
    tasks: Iterable[Task], cpu_ns: Mapping[str, float], profile: Profile | None = None
) -> dict[str, tuple[Choice, ...]]:
    """The same for those of these tasks that are networks and may run in bands, with their times on
    a CPU.

    The costs of bands are those of the profile.
    """
    entries = profile.entries if profile is not None else ()
    costs = {e.subject: e.bands for e in entries if e.on_cpu and not e.estimated}
    networks = {}
    for task in tasks:
        if task.network is not None and may_band(task):
            networks[task.name] = task.network
    fronts = {}
    for name, network in networks.items():
        seconds = SEARCHING / len(networks)
        try:
            choices = _front_of(name, network, cpu_ns, seconds, costs.get(name))
        except (CannotBand, NetworkError):
            continue
        if choices is not None:
            fronts[name] = choices
    return fronts


def _front_of(
    name: str,
    network: Network,
    cpu_ns: Mapping[str, float],
    seconds: float,
    costs: BandCosts | None,
) -> tuple[Choice, ...] | None:
    """The trade-off of a network; None if its memory is not known. Raises CannotBand and
    NetworkError."""
    net, blocked, whole = net_of(network), blocked_of(network), needs(network)
    if whole is None:
        return None
    plain = None if blocked is None else net
    return front(blocked or net, whole, cpu_ns[name], seconds, plain, costs)


def may_band(task: Task) -> bool:
    """Is it a network of one image, in layers that are known, whose cut does not move?"""
    network = task.network
    if network is None or network.one_piece:
        return False
    return network.batch == 1 and network.moving is None and engine_for(network) is ENGINES[0]


def largest(planned: PlannedMemory) -> str:
    """The parts of a plan, in words."""
    figures = sorted(planned.figures.items(), key=lambda figure: -figure[1])
    return ", ".join(f"{in_bytes(count)} are {name}" for name, count in figures)
