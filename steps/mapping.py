"""The step that searches: from a checked text and its profile to a mapping, with measured runs on this machine.

Layers of networks are measured where the profile does not have them yet, and kept in it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from ..analysis.check import check as check_app
from ..analysis.order import components
from ..codegen.deploy import missing
from ..codegen.emit import emit
from ..mapping.accelerate import on_gpu
from ..mapping.divisible import divisible, transfer_model
from ..mapping.exact import Costs, Objective
from ..mapping.joint.auto import SEARCHES as JOINT
from ..mapping.problem import Divisible, Measurement, Problem, pinned
from ..mapping.searches import SEARCHES
from ..mapping.targets import barred_from_dla
from ..model.application import Task
from ..model.diagnostic import Diagnostic, Faults, has_errors, one_of
from ..model.files import read_bytes, reason
from ..model.mapping import Mapping
from ..model.platform import Platform
from ..model.profile import LayerTime, Profile, ProfileEntry
from ..networks.cuts import read_chain
from ..networks.onnx_import import NetworkFault
from ..profiling import machine
from ..profiling.layers import layer_times
from ..profiling.measure import MeasurementFailed, run_build
from . import (
    Checked,
    Report,
    _failed,
    _require_buildable,
    _write,
    map_system,
    measure,
    plan,
    prepared,
    save_profile,
    stored_profile,
)
from .joint import Joint, map_jointly, wants_joint
from .stored import carried_out, save_mapping

#: Seconds for the layers of one network, and bounds for one run of a program.
LAYERS, SHORTEST, LONGEST = 2.0, 1.2, 5.0
#: Frames that a run should have.
FRAMES = 40


@dataclass(frozen=True, slots=True)
class Mapped:
    """What `map` found, where it was stored, and what was noticed on the way."""

    mapping: Mapping
    path: Path | None
    checked: Checked
    diagnostics: tuple[Diagnostic, ...]
    joint: Joint | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What to suppose instead of the text: the rate of every app, fewer CPU cores, another profile.

    A mapping for other rates or another board is not stored.
    """

    fps: Fraction | None = None
    cores: int | None = None
    profile: Path | None = None

    @property
    def kept(self) -> bool:
        """Does the mapping speak for the text as it is?"""
        return self.fps is None and self.cores is None


def find_mapping(
    path: str | Path,
    *,
    platform: str = "host",
    search: str = "auto",
    objective: Objective = "throughput",
    budget: float = 60.0,
    seed: int = 0,
    what_if: WhatIf | None = None,
    report: Report | None = None,
) -> Mapped:
    """Search for the best mapping of a text and store it beside it. Raises Faults.

    Apps that all have periods are mapped so that they meet their deadlines (`steps.joint`). Otherwise, on `host`,
    configurations are run to decide; for other platforms the times of a profile decide.
    """
    checked = prepared(path, platform=platform, mapped=False, report=report)
    if not checked.ok or checked.platform is None:
        raise Faults(checked.diagnostics)
    what_if = what_if or WhatIf()
    checked = supposed(checked, what_if)
    assert checked.platform is not None
    joint = wants_joint(checked)
    known = (*JOINT,) if joint else (*SEARCHES,)
    if search not in known:
        why = "apps with periods are mapped together" if joint else "there are apps without a period"
        message = f"`{search}` is no search for this text: {why}"
        raise Faults([Diagnostic("F508", message, None, "", (), f"choose {one_of(known)}")])
    here = checked.platform.name == "host"
    profile, warnings = _profile(checked, what_if.profile)
    if profile is None and not missing(checked.system) and what_if.profile is None:
        profile = measure(checked, report=report)
        save_profile(checked, profile)
    if profile is not None and here:
        profile, unsaved = with_layers(checked, profile, LAYERS, report)
        warnings = (*warnings, *unsaved)
    warnings = (*warnings, *_unmeasured(checked, profile))
    if joint:
        together = map_jointly(
            checked, profile, search=search, budget=budget, seed=seed, supposed=what_if.profile is not None,
            report=report,
        )  # fmt: skip
        # The best there is, even if something is late; `check` would refuse more engines than fit.
        fits = together.verdict is not None and not together.verdict.engines
        keep = what_if.kept and bool(together.mapping.groups) and fits
        place = save_mapping(checked.system, checked.platform, together.mapping) if keep else None
        return Mapped(together.mapping, place, checked, (*checked.diagnostics, *warnings), together)
    problem = problem_of(checked, profile)
    _require(problem, objective, checked)
    runnable = here and not missing(checked.system)
    if runnable:
        _require_buildable(checked)
    found = SEARCHES[search](
        problem,
        seed=seed,
        budget=budget,
        progress=report,
        measure=_Runs(checked, profile) if runnable else None,
        objective=objective,
    )
    stored = save_mapping(checked.system, checked.platform, found) if what_if.kept else None
    return Mapped(found, stored, checked, (*checked.diagnostics, *warnings))


def supposed(checked: Checked, what_if: WhatIf) -> Checked:
    """The text with other periods or fewer cores."""
    assert checked.platform is not None
    system, platform = checked.system, checked.platform
    if what_if.fps is not None:
        period = Fraction(10**9) / what_if.fps
        system = replace(system, apps=tuple(replace(a, period_ns=period, deadline_ns=None) for a in system.apps))
    if what_if.cores is not None:
        pools = tuple(replace(p, count=min(p.count, what_if.cores)) if p.kind == "cpu" else p for p in platform.pools)
        platform = replace(platform, pools=pools)
    return replace(checked, system=system, platform=platform)


def _profile(checked: Checked, given: Path | None) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """A profile that was named, or the stored one. Raises Faults for a named one that cannot be read."""
    if given is None:
        return stored_profile(checked)
    try:
        return Profile.from_json(read_bytes(given)), ()
    except (OSError, ValueError) as error:
        raise Faults([Diagnostic("F607", f"cannot read the profile `{given}`: {reason(error)}", None)]) from error


def _unmeasured(checked: Checked, profile: Profile | None) -> tuple[Diagnostic, ...]:
    """A warning for networks that stay off the accelerators of a platform because nobody measured them there."""
    assert checked.platform is not None
    kinds = dict.fromkeys(pool.kind for pool in checked.platform.pools if pool.kind != "cpu")
    known = {e.subject for e in profile.entries if e.processor in kinds} if profile is not None else set()
    known |= {p.task for p in checked.system.pins if p.platform == checked.platform.name}
    off = [t.name for a in checked.system.apps for t in a.tasks if t.network is not None and t.name not in known]
    if not kinds or not off:
        return ()
    names, where = one_of(off).replace(" or ", " and "), one_of(kinds)
    message = f"no times of {names} on a {where} of `{checked.platform.name}` are known: only CPUs are considered"
    help_text = "measure on the board with `flowc profile`, or pin networks with a `wcet`"
    return (Diagnostic("F612", message, None, "", (), help_text, "warning"),)


def _require(problem: Problem, objective: Objective, checked: Checked) -> None:
    assert checked.platform is not None
    if not problem.apps:
        raise Faults([Diagnostic("F215", "there is no app to map", None, "", (), "add `app Name { ... }`")])
    if not problem.cpus:
        message = f"platform `{checked.platform.name}` has no cpu"
        raise Faults([Diagnostic("F603", message, checked.platform.span, "", (), "add `cpu core[4]`")])
    silent = [n for n, d in problem.networks.items() if d.energy is None]
    if objective == "energy" and (silent or not problem.networks):
        what = f"of `{silent[0]}` on every kind of processor" if silent else "of a network"
        message = f"the profile does not say the energy {what}"
        help_text = "give `energy_nj` for its entries, or choose another --objective"
        raise Faults([Diagnostic("F607", message, None, "", (), help_text)])


# -- what is known -----------------------------------------------------------------------------------------------------
def with_layers(
    checked: Checked, profile: Profile, seconds: float, report: Report | None
) -> tuple[Profile, tuple[Diagnostic, ...]]:
    """The profile with the layers of every network that could be cut, and what firings and transfers cost here.

    It is stored after each network, so that an interrupted profile goes on where it was. Layers that are known are not
    measured again. Raises Faults; returns what could not be stored.
    """
    tasks = {t.name: t for a in checked.system.apps for t in a.tasks if may_be_cut(t)}
    unsaved: set[Diagnostic] = set()
    if profile.firing_ns is None:
        if report is not None:
            report("measuring what the runtime adds to firings and hand-overs")
        costs = machine.runtime_costs()
        profile = replace(profile, transfers=(costs.transfer,), firing_ns=costs.firing_ns)
        unsaved.update(filter(None, [save_profile(checked, profile)]))
    for position, e in enumerate(profile.entries):
        task = tasks.get(e.subject)
        if task is None or e.processor != "cpu" or e.layers:
            continue
        known = {k.content_hash: k for k in profile.entries if k.layers and k.processor == e.processor}
        layered = _layered(e, task, known.get(e.content_hash), seconds, report)
        entries = (*profile.entries[:position], layered, *profile.entries[position + 1 :])
        profile = replace(profile, entries=entries)
        unsaved.update(filter(None, [save_profile(checked, profile)]))
    return profile, tuple(unsaved)


def _layered(
    e: ProfileEntry, task: Task, same: ProfileEntry | None, seconds: float, report: Report | None
) -> ProfileEntry:
    assert task.network is not None
    if same is not None:
        return replace(e, layers=same.layers, overhead_ns=same.overhead_ns)
    if report is not None:
        report(f"measuring the layers of {task.name} for {seconds:g} s")
    path = Path(task.network.path)
    try:
        chain = read_chain(path, _fixed(task))
        times = layer_times(path, chain, seconds)
    except NetworkFault:  # nothing that could be cut; it runs as a whole
        return e
    except Exception as error:  # what ONNX Runtime raises has no common type
        said = str(error).strip().splitlines()[0]
        raise Faults([Diagnostic("F606", f"`{task.network.file}` does not run: {said}", task.span)]) from error
    layers = tuple(LayerTime(name, ns) for name, ns in times.mean_ns.items())
    return replace(e, layers=layers, overhead_ns=round(times.overhead_ns))


def may_be_cut(task: Task) -> bool:
    """Is it a network that searches may cut, so that times of its layers matter?"""
    return task.network is not None and not task.network.model and task.network.batch == 1


def _fixed(task: Task) -> dict[str, tuple[int, ...]]:
    assert task.network is not None
    return {t.name: t.type.shape for t in task.network.inputs}


def problem_of(checked: Checked, profile: Profile | None) -> Problem:
    """What a search gets: times per kind of processor as pinned, measured or declared; networks with their parts."""
    assert checked.platform is not None
    apps = checked.system.apps
    pins = pinned(apps, checked.platform, checked.system.pins)[0]
    entries: dict[str, dict[str, ProfileEntry]] = {}
    for e in profile.entries if profile else ():
        entries.setdefault(e.subject, {})[e.processor] = e
    wcets = {p.task: p.wcet_ns for p in checked.system.pins if p.platform == checked.platform.name}
    kinds = {pool.kind for pool in checked.platform.pools}
    times: dict[str, dict[str, float]] = {}
    networks: dict[str, Divisible] = {}
    for app in apps:
        cyclic = {name for component in components(app) for name in component}
        for task in app.tasks:
            own = {k: e for k, e in entries.get(task.name, {}).items() if k in kinds}
            times[task.name] = _times(task, own, wcets.get(task.name), kinds)
            if task.network is not None and task.name not in (*pins, *cyclic) and wcets.get(task.name) is None:
                networks[task.name] = _divisible(task, own, times[task.name], profile, checked.platform)
    repetition = {name: v.repetition for name, v in checked.verdicts.items()}
    held = {e.subject: e.held for e in profile.entries if e.held is not None} if profile else {}
    problem = Problem(
        apps, checked.platform, repetition, times, pins, networks, held=held,
        transfer=transfer_model(profile.transfers if profile else ()),
        runtime_ns=(profile.firing_ns or 0.0) if profile else 0.0,
    )  # fmt: skip
    return replace(problem, pins={**on_gpu(problem, networks=False), **pins})


def _times(task: Task, own: dict[str, ProfileEntry], pin: object, kinds: set[str]) -> dict[str, float]:
    if pin is not None:
        return dict.fromkeys(kinds, float(pin))  # type: ignore[arg-type]
    if own:
        return {kind: float(e.mean_ns) for kind, e in own.items()}
    declared = float(sum(task.wcet_ns) / len(task.wcet_ns)) if task.wcet_ns else 1.0
    code = {i.kind for i in task.implementations} & kinds
    return dict.fromkeys(code or {"cpu"}, declared)


def _divisible(
    task: Task, own: dict[str, ProfileEntry], times: dict[str, float], profile: Profile | None, platform: Platform
) -> Divisible:
    whole = Divisible(
        (task.name,),
        Costs({k: [ns] for k, ns in times.items()}, dict.fromkeys(times, 0.0), (), lambda a, b, count: 0.0),
    )
    if not own or not may_be_cut(task) or profile is None:
        return whole
    assert task.network is not None
    try:
        barred = barred_from_dla(task, platform)
        return divisible(read_chain(Path(task.network.path), _fixed(task)), own, profile.transfers, barred)
    except NetworkFault:
        return whole


# -- measured runs -----------------------------------------------------------------------------------------------------
class _Runs:
    """Builds a mapping somewhere and runs it for a moment: what searches measure with. Raises Faults."""

    def __init__(self, checked: Checked, profile: Profile | None) -> None:
        self._checked, self._profile = checked, profile

    def __call__(self, mapping: Mapping) -> Measurement:
        assert self._checked.platform is not None
        checked = _mapped(self._checked, mapping)
        expected = max((ns for _, ns in mapping.predicted_period_ns), default=0.0) / 1e9
        seconds = min(max(SHORTEST, FRAMES * expected), LONGEST)
        deployed = plan(checked, self._profile, map_system(checked, self._profile))
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "contestant"
            _write(emit(deployed), directory, deployed, force=False)
            try:
                seen = run_build(directory, seconds, strict=False)
            except MeasurementFailed as failure:
                raise Faults([_failed(checked.system, str(failure))]) from failure
        silent = [a.name for a in self._checked.system.apps if a.name not in seen.period_ns]
        if silent:
            message = f"`{silent[0]}` finished no frame while it was measured"
            help_text = "a source has to deliver at least one iteration"
            raise Faults([Diagnostic("F606", message, None, "", (), help_text)])
        return Measurement(seen.period_ns, seen.latency_ns, seen.mean_ns, seen.busy, seen.delayed)


def _mapped(checked: Checked, mapping: Mapping) -> Checked:
    """A checked text with a mapping carried out. Raises Faults."""
    assert checked.platform is not None
    system, faults = carried_out(checked.system, checked.platform, mapping)
    if has_errors(faults):
        raise Faults(faults)
    verdicts = {a.name: check_app(a)[0] for a in system.apps}
    return replace(checked, system=system, verdicts=verdicts, mapping=mapping)
