"""Measuring an application here: it is built for one core and run, and every task and layer gets
its times.

In: a valid system. Out: a profile. Only `profile`, the verb, and long searches (`with_layers`)
store it. `devices` measures times on GPUs and DLAs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...analysis.dataflow.order import TooLong
from ...analysis.dataflow.static_order import grouped_runs
from ...codegen.deploy import Deployed, deploy, sequential
from ...dsl.modules import local_modules
from ...machines.host import HERE, Host, has_accelerators, own_platform
from ...machines.on_cores import on_cores
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic, Errors, listed
from ...model.files import read_bytes, scratch
from ...model.profile import LayerTime, Profile, ProfileEntry, SilentTask
from ...model.system import System
from ...networks.engines.openvino import ENGINE as OPENVINO
from ...networks.onnx.cuts import read_chain
from ...networks.onnx.interface import NetworkError, data_dependent
from ...networks.quantization.quantize import QuantizationLoss
from ...profiling import machine
from ...profiling.identity import task_hashes
from ...profiling.layers import layer_times
from ...profiling.measure import MeasuredTimes, MeasurementFailed, run_build
from ...profiling.measure import profile as profile_of
from ...profiling.openvino_layers import openvino_layer_times
from ...targets.inference import engines_in, runs_in
from ..plan.program import (
    require_buildable,
    require_native,
    require_native_places,
    too_long,
    write_program,
)
from ..text import store
from ..text.check import OnMeasure, Report, Valid, ValidScenario, prepare
from ..text.notebook_result import NotebookResult
from .native_costs import native_costs

if TYPE_CHECKING:
    from .energy import Meter
    from .foreign_times import TimesFile

T = TypeVar("T")

#: Seconds for which a build without a stored profile measures the application, and seconds for the
#: layers of one network.
SHORT, LAYERS = 1.5, 2.0

#: What Python says of a module that it does not find.
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
#: Packages whose modules have another name.
_PACKAGES = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "serial": "pyserial",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


@dataclass(frozen=True, slots=True)
class Profiled(NotebookResult):
    """The measurement: `profile` holds those of `entries` for the tasks of the text.

    `path` is where it is stored, None if that was not possible. `noise` is how much the time of
    equal work varies. `celsius` is the temperature before and after, if the machine reports it.
    """

    profile: Profile
    entries: tuple[ProfileEntry, ...]
    path: Path | None
    noise: float
    celsius: tuple[float, float] | None
    losses: dict[str, tuple[QuantizationLoss, ...]]
    diagnostics: tuple[Diagnostic, ...]


def profile(
    path: str | Path,
    *,
    platform: str = "host",
    native: bool = False,
    host: Host = HERE,
    seconds: float = 5.0,
    files: Sequence[TimesFile] = (),
    energy: Meter | None = None,
    on_measure: OnMeasure | None = None,
    report: Report | None = None,
) -> Profiled:
    """Measure every task and network of a text at `host`, and store the times beside it. Raises
    Errors.

    With `native` the program in C++ measures itself; its times are stored apart.
    On a board with its GPU, tasks that can run on the GPU and the DLAs are measured there as well.
    Times of other tools come from `files`: then a stored profile is enough beside them.
    A meter measures the `energy` of networks as well.
    `on_measure` is called before tasks run, `report` if there is none.
    """
    from .band_costs import with_band_costs
    from .devices import measure_devices
    from .energy import require_meter, with_energy
    from .foreign_times import entries_of

    valid = prepare(path, platform=platform, native=native, host=host, report=report).require()
    given, of_files = entries_of(valid, files)
    if energy is not None:
        require_meter(host, energy)
    cold = host.celsius
    known, _ = store.read_profile(valid) if files else (None, ())
    if known is None:
        measured, warnings = measure(valid, seconds=seconds, on_measure=on_measure or report)
    else:
        measured, warnings = known, ()
    measured, warnings = measured.with_entries(given), (*of_files, *warnings)
    unsaved = store.save_profile(valid, measured)
    devices = has_accelerators(host, valid.platform)
    if devices:
        measured = measure_devices(valid, measured, seconds, report).with_entries(given)
        unsaved = store.save_profile(valid, measured)
    stored, _ = store.read_profile(valid)  # with the layers that are known
    if valid.at_hand or devices:
        measured, _ = with_layers(valid, stored or measured, seconds, report)
        if not native:
            measured, _ = with_band_costs(valid, measured, report)
    if energy is not None:
        measured, unsure = with_energy(valid, measured, energy, report)
        warnings = (*warnings, *unsure)
    tasks: set[str] = set()
    for part in (valid, *valid.others):
        tasks |= task_hashes(part.system).keys()
    own = tuple(e for e in measured.entries if e.subject in tasks)
    kept = None if unsaved else store.profile_path(valid.system, valid.platform)
    noise, hot = _asked(machine.noise, host)
    celsius = None if cold is None or hot is None else (cold, hot)
    return Profiled(measured, own, kept, noise, celsius, valid.losses, (*unsaved, *warnings))


def measure(
    valid: Valid, *, seconds: float | None = None, on_measure: OnMeasure | None = None
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """Run the application on one core and measure every task, for a `SHORT` time if none is given;
    also returns warnings.

    It runs again for other variants of its networks. Raises Errors if it cannot be built or run.
    """
    seconds = SHORT if seconds is None else seconds
    if valid.platform.native:
        require_native(valid)
    for part in (valid, *valid.others):
        require_buildable(part)
        _require_twins(part)
    if on_measure is not None:
        each = f"{1 + len(valid.others)} x " if valid.others else ""
        on_measure(
            f"measuring {valid.system.stem} for {each}{seconds:g} s: its tasks run, sinks included"
        )
    result, warnings = _measured(valid, seconds)
    for other in valid.others:
        own, own_warnings = _measured(other, seconds)
        result, warnings = result.over(own), tuple(dict.fromkeys((*warnings, *own_warnings)))
    return result, warnings


def _measured(valid: Valid, seconds: float) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The times of the tasks of one version of the application, on each type of CPUs."""
    first, *others = cpu_types(valid)
    result, warnings = _measured_on(valid, first, seconds)
    for type_ in others:
        own, own_warnings = _measured_on(valid, type_, seconds)
        result = result.with_entries(own.entries)
        warnings = tuple(dict.fromkeys((*warnings, *own_warnings)))
    return result, warnings


@dataclass(frozen=True, slots=True)
class CpuType:
    """What times are measured on: a type of CPUs, or all of them (`cpu`), and where."""

    processor: str
    host: Host


def cpu_types(valid: Valid) -> tuple[CpuType, ...]:
    """The types of CPUs that a machine can be measured on. Where it is another one than the
    platform, nothing is known of its cores."""
    platform = valid.platform
    types = platform.types_of("cpu")
    if not valid.at_hand or len(types) < 2:
        return (CpuType("cpu", valid.host),)
    own: dict[str, list[int]] = {type_: [] for type_ in types}
    for processor, number in platform.cores.items():
        if platform.types[processor] in own:
            own[platform.types[processor]].append(number)
    return tuple(CpuType(type_, on_cores(valid.host, own[type_])) for type_ in types)


def _measured_on(
    valid: Valid, cpus: CpuType, seconds: float
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The times on one type of CPUs."""
    valid = replace(valid, host=cpus.host)
    own, plain = own_platform(valid.host), without_periods(valid.system)
    engines = engines_in(valid.system, valid.platform)
    placed = sequential(plain, own, engines)
    try:
        deployed = deploy(plain, own, placed, valid.repetition, {}, local_modules)
    except TooLong as error:
        raise too_long(valid.system, error) from error
    seen = run_deployed(valid, deployed, seconds, strict=True)
    tasks = [t for t in valid.tasks.values() if t.resampling is None and t.transfer is None]
    digests = task_hashes(valid.system)
    runs: dict[str, tuple[int, ...]] = {}
    for app in valid.system.apps:
        runs |= grouped_runs(app, valid.repetition[app.name])
    result = profile_of(valid.platform.name, tasks, digests, seen, valid.host.identity, runs)
    run_on = runs_in(valid.system, valid.platform)
    entries = (
        replace(
            e,
            processor=cpus.processor,
            engine=run_on.get(e.subject, ("", ""))[0],
            depends=_depending(valid.tasks[e.subject]),
            estimated=not valid.at_hand,
        )
        for e in result.entries
    )
    silent = tuple(t for t in tasks if not seen.samples.get(t.name))
    result = replace(
        result,
        entries=tuple(entries),
        silent=tuple(SilentTask(t.name, digests[t.name]) for t in silent),
    )
    warnings = [_waiting(valid.tasks[name]) for name in seen.waits]
    if silent:
        warnings.append(_silent(valid, silent, seconds))
    return result, tuple(warnings)


def _depending(task: Task) -> str:
    """An operator of a task's network whose work may depend on the values of its data."""
    network = task.network
    if network is None:
        return ""
    return data_dependent(network.model or read_bytes(Path(network.path)))


def _silent(valid: Valid, tasks: Sequence[Task], seconds: float) -> Diagnostic:
    """Tasks that nothing has reached."""
    names = listed([t.name for t in tasks], 4)
    message = (
        f"no times of {names} are known: they did not fire while the application was measured"
        f" ({seconds:g} s, or until its streams ended)"
    )
    longer = max(20, round(10 * seconds))
    help_text = (
        f"`flowc profile{valid.about} --seconds {longer}` measures for longer, a `wcet` states them"
    )
    waiting = [t for t in tasks if not t.inputs and not t.live]
    if waiting:
        name = waiting[0].definition
        help_text = f"write `live` in task `{name}`, if its data come from outside; {help_text}"
    return Diagnostic("F626", message, tasks[0].span, severity="warning", help=help_text)


def _waiting(task: Task) -> Diagnostic:
    """A source that waits for data, on the worker of other tasks."""
    message = (
        f"`{task.name}` spends its time in waiting for data, which blocks the other tasks of its"
        " processor"
    )
    help_text = f"write `live` in task `{task.definition}`, if its data come from outside"
    return Diagnostic("F616", message, task.span, severity="warning", help=help_text)


def without_periods(system: System) -> System:
    """The same at full speed."""
    apps = [replace(app, period_ns=None, deadline_ns=None) for app in system.apps]
    return replace(system, apps=tuple(apps))


def _require_twins(valid: Valid) -> None:
    """Measuring here runs everything on a CPU. Raises Errors for tasks with code for a GPU only."""
    faults = []
    for task in valid.tasks.values():
        if task.built_in or task.network is not None:
            continue
        if task.implementation_on("cpu") is None and task.reference is None:
            message = (
                f"`{task.definition}` has code for a GPU only: it can neither be measured nor run"
                " here"
            )
            help_text = (
                'add `reference python "file.py:function"`, or bring the profile of the board'
            )
            faults.append(Diagnostic("F610", message, task.span, help=help_text))
    if faults:
        raise Errors(list(dict.fromkeys(faults)))


def run_deployed(
    valid: Valid,
    deployed: Deployed,
    seconds: float,
    *,
    strict: bool = False,
    report: Report | None = None,
) -> MeasuredTimes:
    """Write a program to a temporary folder and measure it: `strict` at full speed, else at its own
    pace.

    Raises Errors if it fails.
    """
    return run_elsewhere(valid, deployed, seconds, strict=strict, paced=not strict, report=report)


def run_elsewhere(
    valid: Valid,
    deployed: Deployed,
    seconds: float,
    *,
    strict: bool,
    paced: bool,
    report: Report | None = None,
) -> MeasuredTimes:
    """Write a program to a temporary folder and run it (`run_build`). Raises Errors if it fails."""
    native = valid.platform.native
    if native:
        require_native_places(valid, deployed)
    with scratch() as folder:
        directory = folder / "measured"
        write_program(deployed, directory, native=native)
        try:
            return run_build(
                directory,
                seconds,
                strict=strict,
                paced=paced,
                native=native,
                host=valid.host,
                about=f"{valid.system.path}.measured",
                report=report,
            )
        except MeasurementFailed as failure:
            reason = str(failure)
            for place in (directory.resolve(), directory):
                reason = reason.replace(f"{place}/tasks/", "")
            raise Errors([_failed(valid, reason)]) from failure


def _failed(valid: Valid, reason: str) -> Diagnostic:
    longest_first = sorted(valid.tasks.values(), key=lambda task: -len(task.name))
    task = next((t for t in longest_first if f"task {t.name} " in reason), None)
    message = f"the application failed while it was measured\n{reason}"
    helps = [*_missing_module(valid, reason)]
    fed = any(each.border for each in valid.tasks.values())
    if fed:
        helps.append("open ends were fed random tokens")
    if task is None or not task.inputs or helps:
        # Most likely a source without its camera, or one that waits for data from outside.
        helps.append("`flowc build --no-measure` builds without running anything")
    span = task.span if task else None
    return Diagnostic("F606", message, span, help="; ".join(helps))


def _missing_module(valid: Valid, reason: str) -> Iterator[str]:
    """What to install, if Python did not find a module."""
    missing = _NO_MODULE.search(reason)
    if missing is None:
        return
    module = missing[1].partition(".")[0]
    package = _PACKAGES.get(module, module)
    command = " ".join([*valid.host.python, "-m", "pip", "install", package])
    yield f"install what has `{module}` for the Python that runs the tasks: `{command}`"


# -- layers ----------------------------------------------------------------------------------------
def with_layers(
    valid: Valid, profile: Profile, seconds: float | None = None, report: Report | None = None
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The profile with the layers of networks that could be cut, and the costs of firings,
    transfers and changes of state.

    It is stored after each network, so that an interrupted profile can be continued. Known layers
    are not measured again. Raises Errors; returns what could not be stored.
    """
    seconds = LAYERS if seconds is None else seconds
    unsaved: set[Diagnostic] = set()
    if profile.firing_ns is None:
        if report is not None:
            report("measuring the overhead of the runtime for firings and hand-overs")
        ask = native_costs if valid.platform.native else machine.runtime_costs
        costs = [_asked(ask, cpus.host) for cpus in cpu_types(valid)]
        slowest = max(costs, key=lambda cost: cost.firing_ns)
        profile = replace(profile, transfers=(slowest.transfer,), firing_ns=slowest.firing_ns)
        unsaved.update(store.save_profile(valid, profile))
    if isinstance(valid, ValidScenario) and profile.change_ns is None:
        profile = replace(profile, change_ns=_asked(machine.change_ns, valid.host))
        unsaved.update(store.save_profile(valid, profile))
    tasks = valid.every_task
    hosts = {cpus.processor: cpus.host for cpus in cpu_types(valid)}
    for position, entry in enumerate(profile.entries):
        task = tasks.get(entry.subject)
        if task is None or task.network is None or not may_be_cut(task):
            continue
        if not entry.on_cpu or entry.layers:
            continue
        if entry.engine == OPENVINO.name and valid.host is not HERE:
            continue
        host = hosts.get(entry.processor, valid.host)
        same = _same_with_layers(profile, entry)
        if same is None:
            entry = _layered(entry, task, task.network, seconds, host, report)
        else:
            entry = replace(entry, layers=same.layers, overhead_ns=same.overhead_ns)
        profile = with_entry(profile, position, entry)
        unsaved.update(store.save_profile(valid, profile))
    return profile, tuple(unsaved)


def with_entry(profile: Profile, position: int, entry: ProfileEntry) -> Profile:
    """The profile with another entry at a position."""
    before, after = profile.entries[:position], profile.entries[position + 1 :]
    return replace(profile, entries=(*before, entry, *after))


def _same_with_layers(profile: Profile, entry: ProfileEntry) -> ProfileEntry | None:
    """An entry of the same network whose layers are known, the last one."""
    for other in reversed(profile.entries):
        same = (other.processor, other.content_hash) == (entry.processor, entry.content_hash)
        if same and other.on_engine == entry.on_engine and other.layers:
            return other
    return None


def _asked(ask: Callable[[Host], T], host: Host) -> T:
    """The overheads of the machine. Raises Errors."""
    try:
        return ask(host)
    except MeasurementFailed as failure:
        message = f"the overheads of the machine cannot be measured\n{failure}"
        raise Errors([Diagnostic("F606", message, None)]) from failure


def _layered(
    entry: ProfileEntry,
    task: Task,
    network: Network,
    seconds: float,
    host: Host,
    report: Report | None,
) -> ProfileEntry:
    """The entry of a task with the layers of its network, measured. Raises Errors."""
    if report is not None:
        report(f"measuring the layers of {task.name} for {seconds:g} s")
    path = Path(network.path)
    try:
        chain = read_chain(path, network.shapes)
        if entry.engine == OPENVINO.name:
            times = openvino_layer_times(path, chain, entry.precision, seconds)
        else:
            times = layer_times(path, chain, seconds, host)
    except NetworkError:  # the network cannot be cut; it runs as a whole
        return entry
    except Errors:  # about the machine, and not about the network
        raise
    except Exception as error:  # what engines raise has no common type
        message = f"`{network.file}` does not run: {str(error).strip().splitlines()[0]}"
        raise Errors([Diagnostic("F606", message, task.span)]) from error
    layers = tuple(LayerTime(name, ns) for name, ns in times.mean_ns.items())
    return replace(entry, layers=layers, overhead_ns=round(times.overhead_ns))


def may_be_cut(task: Task) -> bool:
    """May searches cut this network, so that times of its layers matter?"""
    network = task.network
    return network is not None and network.cuttable and network.batch == 1
