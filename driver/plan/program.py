"""The parts of a program of a valid system: places, a deployment, files.

In: a valid system, its times, a mapping. Out: `Built`. Faults (missing code, kernels that do not
compile, a directory that holds other files) are raised or returned as diagnostics; nothing
half-written remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import mean

from ...analysis.dataflow.check import measured_too_slow
from ...analysis.dataflow.order import TooLong
from ...codegen.deploy import Deployed, deploy, missing
from ...codegen.emit import digest, emit, folder_of
from ...codegen.nvrtc import faults as cuda_faults
from ...codegen.robots import Robot, refusals
from ...codegen.sources import Plan
from ...codegen.states import deployed_states, together
from ...codegen.write import MADE_THERE, CannotWrite, write
from ...dsl.modules import local_modules
from ...model.diagnostic import Diagnostic, Errors, has_errors, listed
from ...model.mapping import Mapping, NetworkPlan, Placement
from ...model.platform import Platform
from ...model.profile import Profile
from ...model.resampling import with_resampling, without_resampling
from ...model.system import System
from ...model.times import Times, times_of
from ...model.transfers import without_transfers
from ...passes.moving import calibrated
from ...search.throughput import greedy
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.machines import on_machines
from ...search.throughput.problem import Problem, mapping_of
from ...targets.pins import pinned
from ..text.check import Valid, ValidScenario
from .protocols import changes_of_build


def deployment(
    valid: Valid, profile: Profile | None, measure: bool = True
) -> tuple[Mapping, Deployed, list[Diagnostic], list[Valid]]:
    """A text's places, its deployment, diagnostics, and its states, or itself. Raises Errors.

    Without `measure`, a warning names the tasks without times.
    """
    if not isinstance(valid, ValidScenario):
        mapping, deployed, told = _part(valid, profile, measure)
        return mapping, deployed, told, [valid]
    from .shared import with_shared_parts
    from .states import placed_states

    scenario, placed = valid.scenario, placed_states(valid, profile)
    states, weights = with_shared_parts(placed.states)
    found = {name: _part(state, profile, measure) for name, state in states.items()}
    told = [*placed.diagnostics, *(d for _, _, own in found.values() for d in own)]
    deployments = {n: d for n, (_, d, _) in found.items()}
    changes = changes_of_build(scenario, deployed_states(scenario, deployments), placed.bounds)
    deployed = together(
        scenario, valid.system.apps, deployments, changes, placed.proved, valid.platform, weights
    )
    whole = union(m for m, _, _ in found.values())
    return (
        union((whole, replace(whole, placements=placed.homes))),
        deployed,
        told,
        [*states.values()],
    )


def _times(valid: Valid, profile: Profile | None) -> Times:
    return times_of(valid.system, valid.platform, profile)


def _part(
    valid: Valid, profile: Profile | None, measure: bool
) -> tuple[Mapping, Deployed, list[Diagnostic]]:
    """The places of a state, or of a text without states, its deployment, and diagnostics."""
    times = _times(valid, profile)
    told = [*times.warnings(valid.tasks), *(() if measure else untimed(valid, times))]
    mapping = place(valid, times)
    if valid.platform.machines:  # remote channels are known now
        valid = valid.mapped(mapping)
        times = _times(valid, profile)
        mapping = place(valid, times)
    told += _unhonored(valid.system, valid.platform, mapping)
    cores = sum(pool.count for pool in valid.platform.pools if pool.kind == "cpu")
    means = firing_means(valid, times, mapping)
    for app in valid.system.apps:
        told += measured_too_slow(app, valid.repetition[app.name], means, cores)
    return mapping, plan(valid, times, mapping), told


def union(mappings: Iterable[Mapping]) -> Mapping:
    """The places of all tasks of all states."""
    first, *others = mappings
    places = {p.task: p for m in (first, *others) for p in m.placements}
    plans = {n.task: n for m in (first, *others) for n in m.networks}
    return replace(first, placements=tuple(places.values()), networks=tuple(plans.values()))


# -- what stands in the way ------------------------------------------------------------------------
def require_buildable(valid: Valid, robot: Robot | None = None) -> None:
    """Errors for tasks without code and ports without type, and for types that a robot's messages
    cannot hold."""
    if not valid.system.apps:
        help_text = "add `app Name { ... }`"
        raise Errors([Diagnostic("F215", "there is no app to build", None, help=help_text)])
    faults = [*missing(valid.system), *without_gpu(valid)]
    faults += [] if robot is None else refusals(valid.system, robot)
    if has_errors(faults):
        raise Errors([*valid.diagnostics, *faults])


def without_gpu(valid: Valid) -> list[Diagnostic]:
    """Tasks that need a GPU, on a platform without one: errors, or warnings if a reference replaces
    the code."""
    platform = valid.platform
    if any(pool.kind == "gpu" for pool in platform.pools):
        return []
    found = {}
    for task in valid.tasks.values():
        if (
            task.network is not None
            or not task.implementations
            or task.implementation_on("cpu") is not None
        ):
            continue
        message = f"`{task.definition}` has code for a GPU only, and `{platform.name}` has none"
        if task.reference is None:
            help_text = (
                'add `reference python "file.py:function"`, or build for another `--platform`'
            )
            found[task.definition] = Diagnostic("F503", message, task.span, help=help_text)
        else:
            found[task.definition] = Diagnostic(
                "F610", f"{message}: it runs as its reference", task.span, severity="warning"
            )
    return list(found.values())


def _unhonored(system: System, platform: Platform, mapping: Mapping) -> tuple[Diagnostic, ...]:
    """Warnings about options that are not supported; the program is correct without them."""
    found = {}
    kinds = {p: pool.kind for pool in platform.pools for p in pool.processors}
    for task in (t for a in system.apps for t in a.tasks):
        halves = platform.tensorrt and kinds[mapping.of(task.name)[0]] != "cpu"
        if task.network is not None and task.network.precision == "fp16" and not halves:
            message = (
                f"`{task.definition}` runs in the precision of its file: only TensorRT computes in"
                " fp16"
            )
            found[task.definition] = Diagnostic("F608", message, task.span, severity="warning")
    return tuple(found.values())


def kernel_faults(valid: Valid) -> list[Diagnostic]:
    """Compile the kernels for the platform's GPU, if a compiler is installed. Raises Errors.

    Returns warnings about kernels that could not be compiled here.
    """
    targets = {pool.compute for pool in valid.platform.pools if pool.compute is not None}
    codes = {
        i.path: i for t in valid.tasks.values() for i in t.implementations if i.language == "cuda"
    }
    found = [
        cuda_faults(Path(path), code.file, compute)
        for path, code in codes.items()
        for compute in sorted(targets)
    ]
    broken = [f for f in found if f is not None]
    if has_errors(broken):
        raise Errors(broken)
    return broken


# -- from times to a program -----------------------------------------------------------------------
def firing_means(valid: Valid, times: Times, mapping: Mapping | None = None) -> dict[str, float]:
    """Known mean times of one firing in ns by task, on the processors of a mapping, else on a CPU.

    Stages without measurement get the time that the stored mapping predicts, and with a mapping so
    do networks that are `uncut`.
    """
    found = times.means(() if mapping is None else mapping.placements, valid.platform)
    found = {**_predicted_stages(valid), **found}
    if mapping is not None:
        found |= {n: sum(s.predicted_ns for s in p.stages) for n, p in uncut(valid).items()}
    return found


def worst_firings(valid: Valid, times: Times, mapping: Mapping) -> dict[str, int | float]:
    """Known worst-case times of one firing in ns by task, on the processors of a mapping.

    The orders of a program depend on these. Stages of networks get the time that the stored mapping
    predicts, because its bounds were proved with that.
    """
    where = {p.task: valid.platform.pool_of(p.processors[0]).kind for p in mapping.placements}
    found: dict[str, int | float] = {**firing_means(valid, times, mapping)}
    for name, known in times.of.items():
        time = known.get(where.get(name, "cpu"), known.get("cpu"))
        if time is not None:
            found[name] = ceil(time.longest_ns)
    return found | _predicted_stages(valid)


def _predicted_stages(valid: Valid) -> dict[str, float]:
    """The stored mapping's predicted times of stages of networks, in ns."""
    found = {}
    for network in valid.mapping.networks if valid.mapping is not None else ():
        for number, stage in enumerate(network.stages, 1):
            name = network.task if len(network.stages) == 1 else f"{network.task}.stage{number}"
            if stage.predicted_ns:
                found[name] = stage.predicted_ns
    return found


def sources_of(valid: Valid, times: Times) -> dict[str, str]:
    """The source of each task's time; see `Built.times`."""
    predicted, found = firing_means(valid, times), {}
    for name in (n for n, t in valid.tasks.items() if t.resampling is None):
        time = times.here(name)
        if time is not None:
            found[name] = str(time.source)
        elif name in times.reference_ns:
            found[name] = "reference"
        else:
            found[name] = "predicted" if name in predicted else "unknown"
    return found


def untimed(valid: Valid, times: Times) -> tuple[Diagnostic, ...]:
    """A warning that names the tasks without known times."""
    unknown = [name for name, source in sources_of(valid, times).items() if source == "unknown"]
    if not unknown:
        return ()
    alike = (
        "all tasks are assumed to take the same time"
        if len(unknown) == len(sources_of(valid, times))
        else "they are assumed to take the mean of the others"
    )
    message = f"no times of {listed(unknown)} are known: {alike}"
    help_text = "give a `wcet`, or measure with `flowc profile` and keep the profile with the text"
    return (Diagnostic("F614", message, None, help=help_text, severity="warning"),)


def usual_ns(known: MappingABC[str, float]) -> float:
    """The assumed time of a firing without a known one: the mean of the known ones."""
    return mean(known.values()) if known else 1.0


def place(valid: Valid, times: Times, *, seed: int = 0) -> Mapping:
    """The place of every task: as pinned or stored, else by a quick rule. Raises Errors."""
    platform = valid.platform
    pins, faults = pinned(valid.system.apps, platform, valid.system.pins)
    if faults:
        raise Errors(faults)
    apps = tuple(without_transfers(a) for a in valid.system.apps)
    carriers = [p for name, p in pins.items() if valid.tasks[name].transfer is not None]
    pins = {name: p for name, p in pins.items() if p not in carriers}
    known = firing_means(valid, times)
    usual = usual_ns(known)
    means = {
        name: {kind: float(t.mean_ns) for kind, t in of.items()} or {"cpu": known.get(name, usual)}
        for name, of in times.of.items()
    }
    problem = Problem(
        tuple(without_resampling(a) for a in apps), platform, valid.repetition, means, pins
    )
    if not problem.cpus:
        message = f"platform `{platform.name}` has no cpu, which its other processors need"
        raise Errors([Diagnostic("F603", message, platform.span, help="add `cpu core[4]`")])
    chosen = on_machines(problem) if platform.machines else on_gpu(problem)
    problem = replace(problem, pins={**chosen, **problem.pins})
    places = problem.pins  # all of them, on several machines
    found = (
        mapping_of(problem, places, "greedy")
        if platform.machines
        else greedy.search(problem, seed=seed)
    )
    placements = (*with_resampling(apps, platform, found.placements), *carriers)
    return replace(found if valid.mapping is None else valid.mapping, placements=placements)


def places(valid: Valid, times: Times, profile: Profile | None) -> tuple[Placement, ...]:
    """The places that a build would choose once there is a profile or a stored mapping, for
    analyses.

    () without these, or if a build would be refused. A network that is `uncut` is placed where its
    longest stage is.
    """
    if profile is None and valid.mapping is None:
        return ()
    try:
        found = place(valid, times).placements
    except Errors:
        return ()
    longest = {
        n: max(p.stages, key=lambda s: s.predicted_ns).processors[:1]
        for n, p in uncut(valid).items()
    }
    return tuple(replace(p, processors=longest.get(p.task, p.processors)) for p in found)


def uncut(valid: Valid) -> dict[str, NetworkPlan]:
    """Plans of a stored mapping for cut networks without a file: one task here, stages on the
    board."""
    plans = () if valid.mapping is None else valid.mapping.networks
    return {p.task: p for p in plans if len(p.stages) > 1 and p.task in valid.tasks}


def plan(valid: Valid, times: Times, mapping: Mapping) -> Deployed:
    """The deployment of a mapping. Raises Errors."""
    means = firing_means(valid, times, mapping)
    system = replace(
        valid.system, apps=tuple(calibrated(a, mapping, means) for a in valid.system.apps)
    )
    try:
        arenas = measured_arenas(valid, times, mapping)
        worst = worst_firings(valid, times, mapping)
        return deploy(
            system, valid.platform, mapping, valid.repetition, worst, local_modules, arenas
        )
    except TooLong as error:
        raise too_long(valid.system, error) from error


def measured_arenas(valid: Valid, times: Times, mapping: Mapping) -> dict[str, int]:
    """TensorRT's overhead between layers of networks on their mapped processors, by task, as
    measured there."""
    found: dict[str, int] = {}
    for place in mapping.placements:
        kinds = {valid.platform.pool_of(p).kind for p in place.processors}
        entries = (t.entry for kind, t in times.of.get(place.task, {}).items() if kind in kinds)
        seen = [
            e.arena_bytes
            for e in entries
            if e is not None and e.arena_bytes is not None and not e.estimated
        ]
        found |= {place.task: max(seen)} if seen else {}
    return found


def too_long(system: System, error: TooLong) -> Errors:
    """The error that an iteration has too many firings for a program."""
    help_text = "make the rates smaller: a program lists the firings of one iteration"
    return Errors([Diagnostic("F213", str(error), system.apps[0].span, help=help_text)])


def write_program(
    deployed: Deployed, directory: Path, *, force: bool = False, robot: Robot | None = None
) -> tuple[str, bool]:
    """Write a program and compile its C code; raises Errors.

    Returns the digest of its files, and false if the directory already held exactly these.
    """
    root = "" if robot is None else robot.root(deployed.deployment)
    try:
        c_tasks = {root: deployed.c_tasks}
        c_tasks |= {
            f"{root}{folder_of(d.part.machine)}": p.c_tasks
            for p in deployed.parts
            if (d := p.deployment).part
        }
        made_there = made_there_for(robot)
        files = _plan_of(deployed, robot)
        return digest(files), write(files, directory, c_tasks, force=force, made_there=made_there)
    except CannotWrite as error:
        raise Errors([error.diagnostic]) from error


def made_there_for(robot: Robot | None) -> tuple[str, ...]:
    return MADE_THERE if robot is None else (*MADE_THERE, *robot.made_there)


def _plan_of(deployed: Deployed, robot: Robot | None) -> Plan:
    program = emit(deployed)
    return program if robot is None else robot.files(deployed, program)
