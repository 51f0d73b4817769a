"""The steps of flowc as functions: what the CLI calls, and what scripts call through `flowc.load` and the like.

Each step takes and returns plain data; faults of the user are raised as `Faults` or returned as diagnostics. Nothing
here prints.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.check import check as check_app
from ..analysis.check import measured_too_slow
from ..analysis.order import TooLong
from ..codegen.deploy import Deployed, deploy, missing, sequential
from ..codegen.emit import digest, emit
from ..codegen.nvrtc import faults as cuda_faults
from ..codegen.write import CannotWrite, refuse_foreign, write
from ..dsl import load as dsl
from ..dsl.modules import local_modules
from ..mapping import greedy
from ..mapping.accelerate import on_gpu
from ..mapping.moving import calibrated
from ..mapping.problem import Problem, pinned
from ..mapping.stages import with_stages
from ..mapping.targets import unlaunchable
from ..model.application import Task
from ..model.collecting import no_garbage_collection
from ..model.diagnostic import Diagnostic, Faults, did_you_mean, has_errors, one_of
from ..model.files import read_bytes, reason, replace_file
from ..model.mapping import Mapping
from ..model.platform import Platform
from ..model.profile import Profile
from ..model.system import System
from ..model.verdict import AppVerdicts
from ..networks.quantise import Loss
from ..profiling.host import host_hash, host_platform
from ..profiling.identity import implementation_on
from .precision import convert_network, with_precision
from .stored import task_hashes, with_stored_mapping

if TYPE_CHECKING:
    from ..profiling.measure import Seen

Report = Callable[[str], None]
#: What cannot be built yet is still a faultless text.
BUILD_ONLY = ("F505", "F603")
#: Boards whose descriptions come with flowc, by name.
SHIPPED = {p.stem: p for p in sorted((Path(__file__).resolve().parent.parent / "platforms").glob("*.flow"))}
#: Seconds that a build without a stored profile measures the application for.
SHORT = 1.5


@dataclass(frozen=True, slots=True)
class Checked:
    """A loaded text with everything that could be found out without running anything.

    `mapping` is the stored one, if it speaks for this text: its networks are cut and its places are pinned already.
    `unquantised` has a task of each network that is still to be brought to 8 or 16 bits, `losses` what 8 bits cost.
    """

    system: System
    platform: Platform | None
    verdicts: dict[str, AppVerdicts]
    diagnostics: tuple[Diagnostic, ...]
    mapping: Mapping | None = None
    unquantised: tuple[Task, ...] = ()
    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True when there is no error (warnings are fine)."""
        return not has_errors(self.diagnostics)


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build. `fresh` is false when the directory already held exactly this."""

    directory: Path
    digest: str
    mapping: Mapping
    profile: Profile | None
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool
    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)


def check(path: str | Path, *, platform: str = "host", mapped: bool = True) -> Checked:
    """Load a text and check everything: names, types, code, networks, rates, deadlock, pins of the platform.

    `platform` is `host`, a platform declared in the text, or a .flow file that declares one. A mapping that is stored
    beside the text counts like pins (unless not `mapped`), where the text has none.
    """
    with no_garbage_collection():
        platform = _file_of(platform)
        also = [platform] if platform.endswith(".flow") else []
        loaded = dsl.load(path, builtin=[host_platform()], also=also)
        if platform in SHIPPED and all(p.name != platform for p in loaded.system.platforms):
            platform = str(SHIPPED[platform])
            loaded = dsl.load(path, builtin=[host_platform()], also=[platform])
        diagnostics = list(loaded.diagnostics)
        verdicts = {}
        broken = has_errors(diagnostics)
        chosen, fault = _platform(loaded.system, platform)
        pins = [p for p in loaded.system.pins if chosen is not None and p.platform == chosen.name]
        pinned_ns = {p.task: p.wcet_ns for p in pins if p.wcet_ns is not None}
        system, unquantised, losses = with_precision(loaded.system, () if chosen is None else chosen.tensorrt)
        stored = None
        if chosen is not None and not broken:
            staged = with_stages(system.apps, chosen.name, system.pins)
            system = replace(system, apps=staged.apps, pins=staged.pins)
            diagnostics += [d for d in staged.diagnostics if d.code not in BUILD_ONLY]
        if mapped and chosen is not None and not has_errors(diagnostics):
            system, stored, said = with_stored_mapping(system, chosen)
            diagnostics += said
        for app in system.apps:
            verdicts[app.name], faults = check_app(app, pinned_ns)
            # A graph with missing arrows or ports balances differently: only speak of rates when it is whole.
            if not broken or not any(d.code in ("F101", "F201", "F202", "F207", "F001") for d in loaded.diagnostics):
                diagnostics += faults
            elif has_errors(faults):
                diagnostics += [f for f in faults if f.code in ("F203", "F204")]
        if fault is not None:
            diagnostics.append(fault)
        if chosen is not None and not has_errors(diagnostics):
            diagnostics += unlaunchable(system.apps, chosen)
            wishes = pinned(system.apps, chosen, system.pins)[1]
            diagnostics += [d for d in wishes if d.code not in BUILD_ONLY]
        return Checked(system, chosen, verdicts, tuple(_in_order(diagnostics)), stored, unquantised, losses)


def _file_of(platform: str) -> str:
    """A platform's file, where it is one: the user's, else the one of that name that comes with flowc."""
    name = Path(platform).stem
    if platform.endswith(".flow") and not Path(platform).exists() and platform == f"{name}.flow" and name in SHIPPED:
        return str(SHIPPED[name])
    return platform


def _in_order(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    def place(d: Diagnostic) -> tuple[bool, str, int, int]:
        return (d.span is None, d.span.file, d.span.line, d.span.column) if d.span else (True, "", 0, 0)

    return sorted(diagnostics, key=place)


def _platform(system: System, wanted: str) -> tuple[Platform | None, Diagnostic | None]:
    declared = {p.name: p for p in system.platforms}
    if wanted.endswith(".flow"):
        found = [p for p in system.platforms if p.span is not None and _same_file(p.span.file, wanted)]
        if len(found) == 1:
            return found[0], None
        what = (
            "declares no platform"
            if not found
            else "declares " + one_of(p.name for p in found).replace(" or ", " and ")
        )
        return None, Diagnostic(
            "F506", f"`{wanted}` {what}", None, "", (), "it needs exactly one `platform Name { ... }`"
        )
    if wanted in declared:
        return declared[wanted], None
    known = [*declared, *SHIPPED]
    help_text = did_you_mean(wanted, known) or f"there is {one_of(known)}; another one is given as a .flow file"
    return None, Diagnostic("F506", f"there is no platform `{wanted}`", None, "", (), help_text)


def _same_file(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def prepared(path: str | Path, *, platform: str, mapped: bool = True, report: Report | None = None) -> Checked:
    """As `check`, with networks converted to 8 or 16 bits; those that are ready are left alone. Raises Faults."""
    checked = check(path, platform=platform, mapped=mapped)
    if not checked.ok or not checked.unquantised:
        return checked
    for task in checked.unquantised:
        if report is not None:
            report(f"converting {task.definition}")
        convert_network(checked.system, task, () if checked.platform is None else checked.platform.tensorrt)
    return check(path, platform=platform, mapped=mapped)


# -- profiles ----------------------------------------------------------------------------------------------------------
def profile_path(checked: Checked) -> Path:
    """STEM.PLATFORM.profile.json beside the text."""
    assert checked.platform is not None
    return Path(checked.system.path).parent / f"{checked.system.stem}.{checked.platform.name}.profile.json"


def content_hashes(checked: Checked) -> dict[str, str]:
    """What a profile entry of each task has to match: a hash over its code, parameters and types."""
    return task_hashes(checked.system)


def stored_profile(checked: Checked) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The stored profile if it speaks for every task of this text (on this machine, for `host`), and what does not."""
    path = profile_path(checked)
    if not path.is_file():
        return None, ()
    try:
        profile = Profile.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        return None, (Diagnostic("F607", f"`{path.name}` is not used: {reason(error)}", None, severity="warning"),)
    digests = content_hashes(checked)
    assert checked.platform is not None
    if checked.platform.name == "host" and any(e.host_hash != host_hash() for e in profile.entries):
        message = f"`{path.name}` was measured on another machine ({profile.host})"
        return None, (Diagnostic("F607", message, None, severity="warning"),)
    seen: dict[str, set[str]] = {}
    for e in profile.entries:
        seen.setdefault(e.subject, set()).add(e.content_hash)
    stale = [n for n, d in digests.items() if seen.get(n) != {d}]
    if stale and all(n not in seen for n in stale):  # stages that were not there yet
        return None, ()
    if stale:
        message = f"`{path.name}` is stale: {one_of(stale).replace(' or ', ' and ')} changed since"
        return None, (Diagnostic("F607", message, None, severity="warning"),)
    return profile, ()


def measure(checked: Checked, *, seconds: float = SHORT, report: Report | None = None) -> Profile:
    """Run the application on one core and measure every task. Raises Faults when it cannot be built or run."""
    from ..profiling.measure import profile

    assert checked.platform is not None
    _require_buildable(checked)
    _require_twins(checked)
    if report is not None:
        report(f"measuring {checked.system.stem} for {seconds:g} s")
    host = host_platform()
    plain = replace(
        checked.system, apps=tuple(replace(a, period_ns=None, deadline_ns=None) for a in checked.system.apps)
    )
    repetition = {name: v.repetition for name, v in checked.verdicts.items()}
    try:
        deployed = deploy(plain, host, sequential(plain, host), repetition, {}, local_modules)
    except TooLong as error:
        raise _too_long(checked, error) from error
    seen = run_deployed(checked, deployed, seconds, strict=True)
    tasks = [t for a in checked.system.apps for t in a.tasks]
    digests = content_hashes(checked)
    result = profile(checked.platform.name, tasks, digests, seen)
    if checked.platform.name != "host":
        result = replace(result, entries=tuple(replace(e, estimated=True) for e in result.entries))
    silent = [t.name for t in tasks if not seen.samples.get(t.name)]
    if silent:
        names = one_of(silent).replace(" or ", " and ")
        message = f"the stream ended before {names} fired once"
        raise Faults(
            [
                Diagnostic(
                    "F606",
                    message,
                    checked.system.apps[0].span,
                    "",
                    (),
                    "a source has to deliver at least one iteration",
                )
            ]
        )
    return result


def run_deployed(checked: Checked, deployed: Deployed, seconds: float, *, strict: bool = False) -> Seen:
    """Write a program to a folder that is gone afterwards and measure it: `strict` at full speed, else at its own pace.

    Raises Faults when it fails.
    """
    import tempfile

    from ..profiling.measure import MeasurementFailed, run_build

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "measured"
        _write(emit(deployed), directory, deployed, force=False)
        try:
            return run_build(directory, seconds, strict=strict, paced=not strict)
        except MeasurementFailed as failure:
            said = (
                str(failure).replace(str(directory.resolve()) + "/tasks/", "").replace(str(directory) + "/tasks/", "")
            )
            raise Faults([_failed(checked.system, said)]) from failure


def _failed(system: System, said: str) -> Diagnostic:
    tasks = sorted((t for a in system.apps for t in a.tasks), key=lambda t: -len(t.name))
    task = next((t for t in tasks if f"task {t.name} " in said), None)
    return Diagnostic("F606", f"the application failed while it was measured\n{said}", task.span if task else None)


def save_profile(checked: Checked, profile: Profile) -> Diagnostic | None:
    """Store a profile beside the text; a warning where that is not possible.

    What is known of other tasks (a network that is cut now, stages that are one network now) stays, if it was measured
    on the same machine.
    """
    path = profile_path(checked)
    with contextlib.suppress(OSError, ValueError):
        old = Profile.from_json(read_bytes(path))
        if old.host == profile.host:
            profile = profile.over(old)
    try:
        replace_file(path, profile.to_json())
    except OSError as error:
        return Diagnostic("F607", f"the profile is not kept: `{path}`: {error.strerror}", None, severity="warning")
    return None


# -- mapping and building ----------------------------------------------------------------------------------------------
def _unhonoured(system: System, platform: Platform, mapping: Mapping) -> tuple[Diagnostic, ...]:
    """Wishes that this version does not fulfil; the program is right without them, so these are warnings."""
    found = {}
    kinds = {p: pool.kind for pool in platform.pools for p in pool.processors}
    for task in (t for a in system.apps for t in a.tasks):
        halves = platform.tensorrt and kinds[mapping.of(task.name)[0]] != "cpu"
        if task.network is not None and task.network.precision == "fp16" and not halves:
            message = f"`{task.definition}` runs in the precision of its file: only TensorRT computes in fp16"
            found[task.definition] = Diagnostic("F608", message, task.span, severity="warning")
    return tuple(found.values())


def _require_buildable(checked: Checked) -> None:
    if not checked.ok:
        raise Faults(checked.diagnostics)
    if not checked.system.apps:
        help_text = "add `app Name { ... }`"
        raise Faults([Diagnostic("F215", "there is no app to build", None, "", (), help_text)])
    faults = [*missing(checked.system), *_without_gpu(checked)]
    if has_errors(faults):
        raise Faults([*checked.diagnostics, *faults])


def _without_gpu(checked: Checked) -> list[Diagnostic]:
    """Tasks that need a GPU, on a platform that has none: as errors, or warnings where a reference stands in."""
    platform = checked.platform
    if platform is None or any(pool.kind == "gpu" for pool in platform.pools):
        return []
    found = {}
    for task in (t for a in checked.system.apps for t in a.tasks):
        if task.network is not None or not task.implementations or implementation_on(task) is not None:
            continue
        message = f"`{task.definition}` has code for a GPU only, and `{platform.name}` has none"
        if task.reference is None:
            help_text = 'add `reference python "file.py:function"`, or build for another `--platform`'
            found[task.definition] = Diagnostic("F503", message, task.span, "", (), help_text)
        else:
            found[task.definition] = Diagnostic(
                "F610", f"{message}: it runs as its reference", task.span, severity="warning"
            )
    return list(found.values())


def _require_twins(checked: Checked) -> None:
    """Measuring here runs everything on a CPU. Raises Faults for what has code for a GPU only."""
    faults = []
    for task in (t for a in checked.system.apps for t in a.tasks):
        if task.network is None and implementation_on(task) is None and task.reference is None:
            message = f"`{task.definition}` has code for a GPU only: it can neither be measured nor tried here"
            help_text = 'add `reference python "file.py:function"`, or bring the profile of the board'
            faults.append(Diagnostic("F610", message, task.span, "", (), help_text))
    if faults:
        raise Faults(list(dict.fromkeys(faults)))


def firing_times(checked: Checked, profile: Profile | None, mapping: Mapping | None = None) -> dict[str, float]:
    """Mean time of one firing in ns by task: what was pinned, measured, declared or predicted (in this order).

    On the processor that a mapping gives it, where its time there is known; else on a CPU.
    """
    assert checked.platform is not None
    where = (
        {} if mapping is None else {p.task: checked.platform.pool_of(p.processors[0]).kind for p in mapping.placements}
    )
    times: dict[str, float] = {}
    for name, known in _times_on(checked, profile).items():
        found = known.get(where.get(name, "cpu"), known.get("cpu"))
        if found is not None:
            times[name] = found
    for network in checked.mapping.networks if checked.mapping is not None else ():
        for number, stage in enumerate(network.stages, 1):
            name = network.task if len(network.stages) == 1 else f"{network.task}.stage{number}"
            times.setdefault(name, stage.predicted_ns)
    return times


def _times_on(checked: Checked, profile: Profile | None) -> dict[str, dict[str, float]]:
    """Mean times of a firing in ns by task and kind of processor: pinned, measured or declared."""
    assert checked.platform is not None
    kinds = [pool.kind for pool in checked.platform.pools]
    pins = {p.task: p.wcet_ns for p in checked.system.pins if p.platform == checked.platform.name}
    times: dict[str, dict[str, float]] = {}
    for task in (t for a in checked.system.apps for t in a.tasks):
        pin = pins.get(task.name)
        own = {e.processor: float(e.mean_ns) for e in profile.entries if e.subject == task.name} if profile else {}
        if pin is not None:
            own = dict.fromkeys(kinds, float(pin))
        elif not own and task.wcet_ns:
            own = {"cpu": float(sum(task.wcet_ns, Fraction(0)) / len(task.wcet_ns))}
        times[task.name] = own
    return times


def map_system(checked: Checked, profile: Profile | None, *, seed: int = 0, report: Report | None = None) -> Mapping:
    """Decide where every task runs."""
    assert checked.platform is not None
    apps = checked.system.apps
    pins, faults = pinned(apps, checked.platform, checked.system.pins)
    if faults:
        raise Faults(faults)
    times, known = firing_times(checked, profile), _times_on(checked, profile)
    problem_times = {t.name: known[t.name] or {"cpu": times.get(t.name, 1.0)} for a in apps for t in a.tasks}
    repetition = {name: v.repetition for name, v in checked.verdicts.items()}
    problem = Problem(apps, checked.platform, repetition, problem_times, pins)
    if not problem.cpus:
        message = f"platform `{checked.platform.name}` has no cpu: something has to feed its other processors"
        raise Faults([Diagnostic("F603", message, checked.platform.span, "", (), "add `cpu core[4]`")])
    problem = replace(problem, pins={**on_gpu(problem), **problem.pins})
    found = greedy.search(problem, seed=seed, progress=report)
    return found if checked.mapping is None else replace(checked.mapping, placements=found.placements)


def plan(checked: Checked, profile: Profile | None, mapping: Mapping) -> Deployed:
    """The deployment of a mapping."""
    assert checked.platform is not None
    times = firing_times(checked, profile, mapping)
    repetition = {name: v.repetition for name, v in checked.verdicts.items()}
    system = replace(checked.system, apps=tuple(calibrated(a, mapping, times) for a in checked.system.apps))
    try:
        return deploy(system, checked.platform, mapping, repetition, times, local_modules)
    except TooLong as error:
        raise _too_long(checked, error) from error


def _too_long(checked: Checked, error: TooLong) -> Faults:
    help_text = "make the rates smaller: a program lists the firings of one iteration"
    return Faults([Diagnostic("F213", str(error), checked.system.apps[0].span, "", (), help_text)])


def build(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    force: bool = False,
    report: Report | None = None,
) -> Built:
    """From a text to a directory with a running program. Raises Faults.

    Without a stored profile the application is measured for a moment first, and the profile is stored beside the text.
    """
    checked = prepared(path, platform=platform, report=report)
    _require_buildable(checked)
    directory = Path(output) if output is not None else Path("build") / checked.system.stem
    try:  # before anything is measured
        refuse_foreign(directory, force)
    except CannotWrite as error:
        raise Faults([error.diagnostic]) from error
    assert checked.platform is not None
    impossible = pinned(checked.system.apps, checked.platform, checked.system.pins)[1]
    if impossible:
        raise Faults(impossible)
    profile, warnings = stored_profile(checked)
    extra = [*warnings, *_without_gpu(checked)]
    if profile is None:
        profile = measure(checked, report=report)
        unsaved = save_profile(checked, profile)
        extra += [unsaved] if unsaved else []
    mapping = map_system(checked, profile)
    extra += _unhonoured(checked.system, checked.platform, mapping)
    cores = sum(pool.count for pool in checked.platform.pools if pool.kind == "cpu")
    times = firing_times(checked, profile, mapping)
    for app in checked.system.apps:
        extra += measured_too_slow(app, checked.verdicts[app.name].repetition, times, cores)
    deployed = plan(checked, profile, mapping)
    extra += _compiled_kernels(checked)
    files = emit(deployed)
    fresh = _write(files, directory, deployed, force=force)
    return Built(directory, digest(files), mapping, profile, (*checked.diagnostics, *extra), fresh, checked.losses)


def _compiled_kernels(checked: Checked) -> list[Diagnostic]:
    """Compile the kernels for the platform's GPU, where a compiler for it is installed. Raises Faults.

    Returns warnings about what could not be compiled here.
    """
    assert checked.platform is not None
    targets = {pool.compute for pool in checked.platform.pools if pool.compute is not None}
    codes = {i.path: i for a in checked.system.apps for t in a.tasks for i in t.implementations if i.language == "cuda"}
    found = [cuda_faults(Path(path), code.file, compute) for path, code in codes.items() for compute in sorted(targets)]
    broken = [f for f in found if f is not None]
    if has_errors(broken):
        raise Faults(broken)
    return broken


def _write(files: dict[str, bytes | Path], directory: Path, deployed: Deployed, *, force: bool) -> bool:
    try:
        return write(files, directory, deployed.c_tasks, force=force)
    except CannotWrite as error:
        raise Faults([error.diagnostic]) from error
