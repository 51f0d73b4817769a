"""The parts of a program of a valid system: places, a deployment, files.

In: a valid system, its times, a mapping. Out: a deployment, and its files in a directory. Faults
(missing code, kernels that do not compile, a directory that holds other files) are raised or
returned as diagnostics; nothing half-written remains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from statistics import mean

from ...analysis.dataflow.check import measured_too_slow
from ...analysis.dataflow.order import TooLong
from ...codegen.deploy import Deployed, deploy, missing
from ...codegen.emit import digest, emit, folder_of
from ...codegen.features import of_text, refused
from ...codegen.kinds import tensorrt
from ...codegen.native.files import linked_by, native_files, objects_of
from ...codegen.native.limits import refused_places
from ...codegen.nvrtc import faults as cuda_faults
from ...codegen.robots import Robot, refusals
from ...codegen.sources import Plan
from ...codegen.states import deployed_states, together
from ...codegen.write import MADE_THERE, CannotWrite, write
from ...dsl.modules import local_modules
from ...model.application import Implementation
from ...model.diagnostic import Diagnostic, Errors, has_errors, listed
from ...model.link_ends import ends_beside
from ...model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from ...model.platform import Platform
from ...model.profile import Profile
from ...model.resampling import resampled, with_resampling, without_resampling
from ...model.supports import refusal
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
from .compared import engine_faults
from .protocols import changes_of_build


def deployment(
    valid: Valid, profile: Profile | None, measure: bool = True
) -> tuple[Mapping, Deployed, list[Diagnostic], list[Valid]]:
    """A text's places, its deployment, diagnostics, and its states, or itself. Raises Errors.

    Without `measure`, a warning names the tasks without times.
    """
    if not isinstance(valid, ValidScenario):
        mapping, deployed, diagnostics = _part(valid, profile, measure)
        return mapping, deployed, diagnostics, [valid]
    from .shared import with_shared_parts
    from .states import placed_states

    scenario, placed = valid.scenario, placed_states(valid, profile)
    native = valid.platform.native
    # the sessions of a native program are those of whole files
    states, weights = (placed.states, None) if native else with_shared_parts(placed.states)
    diagnostics = [*placed.diagnostics]
    mappings: list[Mapping] = []
    deployments: dict[str, Deployed] = {}
    for name, state in states.items():
        mapping, deployments[name], warnings = _part(state, profile, measure)
        mappings.append(mapping)
        diagnostics += warnings
    made = deployed_states(scenario, deployments)
    changes = changes_of_build(scenario, made, placed.bounds)
    deployed = together(
        scenario, valid.system.apps, deployments, changes, placed.proved, valid.platform, weights
    )
    whole = union(mappings)
    with_homes = union((whole, replace(whole, placements=placed.homes)))
    return with_homes, deployed, diagnostics, [*states.values()]


def _times(valid: Valid, profile: Profile | None) -> Times:
    return times_of(valid.system, valid.platform, profile)


def _part(
    valid: Valid, profile: Profile | None, measure: bool
) -> tuple[Mapping, Deployed, list[Diagnostic]]:
    """The places of a state, or of a text without states, its deployment, and diagnostics."""
    times = _times(valid, profile)
    diagnostics = [*times.warnings(valid.tasks)]
    if not measure:
        diagnostics += untimed(valid, times)
    mapping = place(valid, times)
    if valid.platform.machines:  # remote channels are known now
        valid = valid.mapped(mapping)
        times = _times(valid, profile)
        mapping = place(valid, times)
    diagnostics += _unhonored(valid.system, valid.platform, mapping)
    cores = sum(pool.count for pool in valid.platform.pools if pool.kind == "cpu")
    means = firing_means(valid, times, mapping)
    for app in valid.system.apps:
        diagnostics += measured_too_slow(app, valid.repetition[app.name], means, cores)
    return mapping, plan(valid, times, mapping), diagnostics


def union(mappings: Iterable[Mapping]) -> Mapping:
    """The places of all tasks of all states."""
    first, *others = mappings
    places: dict[str, Placement] = {}
    plans: dict[str, NetworkPlan] = {}
    for mapping in (first, *others):
        places |= {placement.task: placement for placement in mapping.placements}
        plans |= {network.task: network for network in mapping.networks}
    return replace(first, placements=tuple(places.values()), networks=tuple(plans.values()))


# -- what stands in the way ------------------------------------------------------------------------
def require_buildable(valid: Valid, robot: Robot | None = None) -> None:
    """Errors for tasks without code and ports without type, and for types that a robot's messages
    cannot hold."""
    if not valid.system.apps:
        help_text = "add `app Name { ... }`"
        raise Errors([Diagnostic("F215", "there is no app to build", None, help=help_text)])
    faults = [*missing(valid.system), *without_gpu(valid)]
    faults += engine_faults(valid)
    if robot is not None:
        faults += refusals(valid.system, robot)
    if has_errors(faults):
        raise Errors([*valid.diagnostics, *faults])


def require_one_process(platform: Platform) -> None:
    """Raise Errors for a GPU that processes share in slices of time: a program is one."""
    faults = []
    for pool in platform.pools:
        if pool.slice is not None:
            message = f"`{pool.name}` is shared by processes, and a program uses it from one alone"
            help_text = (
                "write `scheduler fifo` or `priority` for this program; slices are for the bounds"
                " of programs that others have made"
            )
            faults.append(Diagnostic("F544", message, platform.span, help=help_text))
    if faults:
        raise Errors(faults)


def require_native(valid: Valid) -> None:
    """Errors for what a native program cannot carry out, as far as the text says it."""
    scenario = valid.scenario if isinstance(valid, ValidScenario) else None
    faults = refused(of_text(valid.system, valid.platform, scenario), "native")
    if faults:
        raise Errors([*valid.diagnostics, *faults])


def require_native_places(valid: Valid, deployed: Deployed) -> None:
    """The same for what only places decide on."""
    faults = refused_places(deployed.deployment, valid.system)
    if faults:
        raise Errors([*valid.diagnostics, *faults])


def without_gpu(valid: Valid) -> list[Diagnostic]:
    """Tasks that need a GPU, on a platform without one: errors, or warnings if a reference replaces
    the code."""
    platform = valid.platform
    if any(pool.kind == "gpu" for pool in platform.pools):
        return []
    faults = {}
    for task in valid.tasks.values():
        if task.network is not None or not task.implementations:
            continue
        if task.implementation_on("cpu") is not None:
            continue
        message = f"`{task.definition}` has code for a GPU only, and `{platform.name}` has none"
        if task.reference is None:
            help_text = (
                'add `reference python "file.py:function"`, or build for another `--platform`'
            )
            faults[task.definition] = Diagnostic("F503", message, task.span, help=help_text)
        else:
            message += ": it runs as its reference"
            faults[task.definition] = Diagnostic("F610", message, task.span, severity="warning")
    return list(faults.values())


def _unhonored(system: System, platform: Platform, mapping: Mapping) -> tuple[Diagnostic, ...]:
    """Warnings about options that are not supported; the program is correct without them."""
    warnings = {}
    in_half = _computing_in_half(platform)
    for app in system.apps:
        for task in app.tasks:
            if task.network is None or task.network.precision != "fp16":
                continue
            if mapping.of(task.name)[0] not in in_half:
                words = {"definition": task.definition}
                warnings[task.definition] = refusal("`precision`", "program").at(task.span, words)
    return tuple(warnings.values())


def _computing_in_half(platform: Platform) -> set[str]:
    """Processors of TensorRT, and NPUs (those that do not are refused)."""
    processors: set[str] = set()
    for pool in platform.pools:
        with_tensorrt = platform.tensorrt and pool.kind in tensorrt.KIND.processors
        if with_tensorrt or pool.kind == "npu":
            processors |= {*pool.processors}
    return processors


def kernel_faults(valid: Valid) -> list[Diagnostic]:
    """Compile the kernels for the platform's GPU, if a compiler is installed. Raises Errors.

    Returns warnings about kernels that could not be compiled here.
    """
    targets = {pool.compute for pool in valid.platform.pools if pool.compute is not None}
    codes: dict[str, Implementation] = {}
    for task in valid.tasks.values():
        codes |= {code.path: code for code in task.implementations if code.language == "cuda"}
    faults = []
    for path, code in codes.items():
        for compute in sorted(targets):
            fault = cuda_faults(Path(path), code.file, compute)
            if fault is not None:
                faults.append(fault)
    if has_errors(faults):
        raise Errors(faults)
    return faults


# -- from times to a program -----------------------------------------------------------------------
def firing_means(valid: Valid, times: Times, mapping: Mapping | None = None) -> dict[str, float]:
    """Known mean times of one firing in ns by task, on the processors of a mapping, else on a CPU.

    Stages without measurement get the time that the stored mapping predicts, and with a mapping so
    do networks that are `uncut`.
    """
    means = times.means(() if mapping is None else mapping.placements, valid.platform)
    means = {**_predicted_stages(valid), **means}
    if mapping is not None:
        for name, network in uncut(valid).items():
            means[name] = sum(stage.predicted_ns for stage in network.stages)
    return means


def worst_firings(
    valid: Valid, times: Times, mapping: Mapping
) -> dict[str, int | float | Fraction]:
    """Known worst-case times of one firing in ns by task, over its phases, on the processors of a
    mapping.

    The orders of a program depend on these. Stages of networks get the time that the stored mapping
    predicts, because its bounds were proved with that.
    """
    mapped = times.on_mapping(mapping.placements, valid.platform)
    worst: dict[str, int | float | Fraction] = {**firing_means(valid, times, mapping)}
    for name in times.of:
        time = mapped.on_mapped(name)
        if time is not None:
            phases = time.phases_ns or (ceil(time.longest_ns),)
            worst[name] = Fraction(sum(phases), len(phases))
    return worst | _predicted_stages(valid)


def _predicted_stages(valid: Valid) -> dict[str, float]:
    """The stored mapping's predicted times of stages of networks, in ns."""
    times: dict[str, float] = {}
    if valid.mapping is None:
        return times
    for network in valid.mapping.networks:
        for name, stage in stages_by_task(network):
            if stage.predicted_ns:
                times[name] = stage.predicted_ns
    return times


def stages_by_task(network: NetworkPlan) -> Iterator[tuple[str, StagePlan]]:
    """The stages of a network, with the names of their tasks: a network that is not cut is its
    own."""
    if len(network.stages) == 1:
        yield network.task, network.stages[0]
        return
    for number, stage in enumerate(network.stages, 1):
        yield f"{network.task}.stage{number}", stage


def sources_of(valid: Valid, times: Times) -> dict[str, str]:
    """The source of each task's time; see `Built.times`."""
    predicted, sources = firing_means(valid, times), {}
    for name, task in valid.tasks.items():
        if task.resampling is not None:
            continue
        time = times.here(name)
        if time is not None:
            sources[name] = str(time.source)
        elif name in times.reference_ns:
            sources[name] = "reference"
        else:
            sources[name] = "predicted" if name in predicted else "unknown"
    return sources


def without_times(valid: Valid, times: Times) -> list[str]:
    """The tasks without known times."""
    return [name for name, source in sources_of(valid, times).items() if source == "unknown"]


def untimed(valid: Valid, times: Times) -> tuple[Diagnostic, ...]:
    """A warning that names the tasks without known times."""
    unknown = without_times(valid, times)
    if not unknown:
        return ()
    alike = "they are assumed to take the mean of the others"
    if len(unknown) == len(sources_of(valid, times)):
        alike = "all tasks are assumed to take the same time"
    message = f"no times of {listed(unknown)} are known: {alike}"
    help_text = "give a `wcet`, or measure with `flowc profile` and keep the profile with the text"
    return (Diagnostic("F614", message, None, help=help_text, severity="warning"),)


def usual_ns(known: MappingABC[str, float]) -> float:
    """The assumed time of a firing without a known one: the mean of the known ones."""
    return mean(known.values()) if known else 1.0


def place(valid: Valid, times: Times) -> Mapping:
    """The place of every task: as pinned or stored, else by a quick rule. Raises Errors."""
    platform = valid.platform
    pins, faults = pinned(valid.system.apps, platform, valid.system.pins)
    if faults:
        raise Errors(faults)
    apps = tuple(without_transfers(a) for a in valid.system.apps)
    tasks = valid.tasks
    carriers = [p for name, p in pins.items() if tasks[name].transfer is not None]
    pins = {name: p for name, p in pins.items() if p not in carriers}
    own_code = tuple(without_resampling(app) for app in apps)
    means = _means_by_type(valid, times)
    problem = Problem(own_code, platform, valid.repetition, means, pins, resampled=resampled(apps))
    if not problem.cpus:
        message = f"platform `{platform.name}` has no cpu, which its other processors need"
        raise Errors([Diagnostic("F603", message, platform.span, help="add `cpu core[4]`")])
    mapping = _by_rule(problem)
    placements = (*with_resampling(apps, platform, mapping.placements), *carriers)
    return replace(mapping if valid.mapping is None else valid.mapping, placements=placements)


def _means_by_type(valid: Valid, times: Times) -> dict[str, dict[str, float]]:
    """The mean times of tasks on each type of processors; tasks without one run on CPUs, in the
    time that they are assumed to take."""
    known = firing_means(valid, times)
    usual = usual_ns(known)
    means = {}
    for name, by_type in times.of.items():
        own = {type_: float(time.mean_ns) for type_, time in by_type.items()}
        means[name] = own or dict.fromkeys(times.cpus or ("cpu",), known.get(name, usual))
    return means


def _by_rule(problem: Problem) -> Mapping:
    """The places of all tasks by a quick rule, beside the pins."""
    if problem.platform.machines:
        placed = {**on_machines(problem), **problem.pins}  # of all tasks
        pins = ends_beside(problem.apps, placed, problem.pins, problem.cpus)
        return mapping_of(replace(problem, pins=pins), pins, "greedy")
    problem = replace(problem, pins={**on_gpu(problem), **problem.pins})
    return greedy.search(problem)


def places(valid: Valid, times: Times, profile: Profile | None) -> tuple[Placement, ...]:
    """The places that a build would choose once there is a profile or a stored mapping, for
    analyses.

    () without these, or if a build would be refused. A network that is `uncut` is placed where its
    longest stage is.
    """
    if profile is None and valid.mapping is None:
        return ()
    try:
        placements = place(valid, times).placements
    except Errors:
        return ()
    longest = {}
    for name, network in uncut(valid).items():
        stage = max(network.stages, key=lambda stage: stage.predicted_ns)
        longest[name] = stage.processors[:1]
    return tuple(replace(p, processors=longest.get(p.task, p.processors)) for p in placements)


def uncut(valid: Valid) -> dict[str, NetworkPlan]:
    """Plans of a stored mapping for cut networks without a file: one task here, stages on the
    board."""
    plans = () if valid.mapping is None else valid.mapping.networks
    return {p.task: p for p in plans if len(p.stages) > 1 and p.task in valid.tasks}


def plan(valid: Valid, times: Times, mapping: Mapping) -> Deployed:
    """The deployment of a mapping. Raises Errors."""
    means = firing_means(valid, times, mapping)
    apps = [calibrated(app, mapping, means) for app in valid.system.apps]
    system = replace(valid.system, apps=tuple(apps))
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
    arenas: dict[str, int] = {}
    for place in mapping.placements:
        types = {valid.platform.pool_of(p).type for p in place.processors}
        for type_, time in times.of.get(place.task, {}).items():
            entry = time.entry
            if type_ not in types or entry is None or entry.estimated:
                continue
            if entry.arena_bytes is not None:
                arenas[place.task] = max(entry.arena_bytes, arenas.get(place.task, 0))
    return arenas


def too_long(system: System, error: TooLong) -> Errors:
    """The error that an iteration has too many firings for a program."""
    help_text = "make the rates smaller: a program lists the firings of one iteration"
    return Errors([Diagnostic("F213", str(error), system.apps[0].span, help=help_text)])


def write_program(
    deployed: Deployed,
    directory: Path,
    *,
    force: bool = False,
    robot: Robot | None = None,
    native: bool = False,
) -> tuple[str, bool]:
    """Write a program, compile its C code, and if it is `native` itself; raises Errors.

    Returns the digest of its files, and false if the directory already held exactly these.
    """
    root = "" if robot is None else robot.root(deployed.deployment)
    try:
        c_tasks = {root: deployed.c_tasks}
        for own in deployed.parts.values():
            part = own.deployment.part
            if part is not None:
                c_tasks[f"{root}{folder_of(part.machine)}"] = own.c_tasks
        made_there = made_there_for(robot)
        files = _plan_of(deployed, robot, native)
        made = write(
            files,
            directory,
            c_tasks,
            force=force,
            made_there=made_there,
            objects=objects_of(deployed) if native else (),
            linked=linked_by(deployed) if native else (),
        )
        return digest(files), made
    except CannotWrite as error:
        raise Errors(error.diagnostics) from error


def digests(deployed: Deployed, system: System) -> tuple[str, ...]:
    """The digest of the program in Python, and of the one in C++ where there can be one."""
    found = [digest(emit(deployed))]
    whole = deployed.deployment
    if not deployed.parts and not refused_places(whole, system):
        found.append(digest(_plan_of(deployed, None, native=True)))
    return tuple(found)


def made_there_for(robot: Robot | None) -> tuple[str, ...]:
    return MADE_THERE if robot is None else (*MADE_THERE, *robot.made_there)


def _plan_of(deployed: Deployed, robot: Robot | None, native: bool) -> Plan:
    program = emit(deployed, recorded=native)
    if native:
        return program | native_files(deployed)
    return program if robot is None else robot.files(deployed, program)
