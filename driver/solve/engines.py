"""The step before a search: inference engines of networks on CPUs.

In: a text, its times, and a request. Out: the text with the fastest engine of each network, and its
times there; and in words what was looked at, or why nothing was.

Searches see a text whose networks run on these engines, and place them. What has deadlines is
measured again on them, in the application: a bound needs more than a few inferences alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...machines.host import HERE
from ...model.diagnostic import Diagnostic, listed
from ...model.mapping import OtherEngine
from ...model.profile import Profile, ProfileEntry
from ...model.system import System
from ...model.times import times_of
from ...networks.engines import ENGINES
from ...passes.precision import with_precision
from ...search.memory import MemoryLimit
from ...targets.inference import with_engines
from ..measure.engine_times import Engines, fastest_engines, open_networks
from ..measure.measure import measure, with_layers
from ..plan.states import places_of_variants
from ..text import store
from ..text.check import Valid, ValidScenario
from .known_times import KnownTimes
from .request import MapRequest

#: Why changes at once keep a network on ONNX Runtime.
BROKEN_OFF = "changes at once break inferences off, which no other engine does"


@dataclass(frozen=True, slots=True)
class OnEngines:
    """The text with networks on their engines, and its times there. `said` has for each network
    what was looked at, in words."""

    valid: Valid
    known: KnownTimes
    said: dict[str, str]
    diagnostics: tuple[Diagnostic, ...] = ()


def on_engines(
    valid: Valid,
    known: KnownTimes,
    request: MapRequest,
    limit: MemoryLimit | None,
    *,
    runnable: bool,
) -> OnEngines:
    """The engines of all networks that a search places; if it is not `runnable`, by stored times.
    Raises Errors if the application fails."""
    open_ = open_networks(valid)
    alone = OnEngines(valid, known, {})
    wishes = [name for name, task in open_.items() if task.network and task.network.any_precision]
    if not wishes and not any(engine.version for engine in ENGINES[1:]):
        return alone
    why = _why_not(valid, known, request, limit)
    if why or known.profile is None:
        said = {name: f"{name}: on ONNX Runtime, as {why}" for name in open_}
        warned = (_in_full(valid, wishes, why),) if wishes else ()
        return replace(alone, said=said, diagnostics=warned)
    found = fastest_engines(
        valid, known.profile, _excluded(valid), runs=runnable, report=request.report
    )
    return _applied(valid, known.profile, found, known, request, runnable=runnable)


def _why_not(
    valid: Valid, known: KnownTimes, request: MapRequest, limit: MemoryLimit | None
) -> str:
    """Why engines are not compared; empty if they are."""
    if limit is not None:
        return "memory is limited, and what other engines take between layers is not known"
    if request.what_if.profile is not None:
        return "the times are those of a given profile"
    if valid.platform.machines:
        return "engines are not compared on several machines"
    if not valid.at_hand or valid.host is not HERE:
        return "engines are compared on this machine only"
    return "no times are measured" if known.profile is None else ""


def _in_full(valid: Valid, wishes: list[str], why: str) -> Diagnostic:
    """A warning that the precision that a text leaves open is that of its files."""
    message = f"{listed(wishes)} {'stay' if len(wishes) > 1 else 'stays'} in 32 bits: {why}"
    span = valid.every_task[wishes[0]].span
    help_text = "a pin can choose: `-> core[0] precision bf16`"
    return Diagnostic("F542", message, span, help=help_text, severity="warning")


def _excluded(valid: Valid) -> dict[str, str]:
    """The networks that have to stay on ONNX Runtime for what the program does, with the reason."""
    if not isinstance(valid, ValidScenario):
        return {}
    if not any(transition.at_once for transition in valid.scenario.transitions):
        return {}
    options = [o for own in valid.options.values() for o in own if isinstance(o, Valid)]
    excluded: dict[str, str] = {}
    for state in (*valid.states.values(), *options):
        excluded |= {task: BROKEN_OFF for task, _ in places_of_variants(state)}
    return excluded


def _applied(
    valid: Valid,
    profile: Profile,
    found: Engines,
    known: KnownTimes,
    request: MapRequest,
    *,
    runnable: bool,
) -> OnEngines:
    """The text and its times on the engines that were found."""
    chosen, said, diagnostics = dict(found.chosen), dict(found.said), found.unsaved
    times = found.times
    if chosen and runnable and _has_deadlines(valid):
        whole, warnings = _in_application(valid, profile, found, request)
        diagnostics = (*diagnostics, *warnings)
        times = (*whole, *times)
        slower = _slower(profile, whole)
        for name, words in slower.items():
            del chosen[name]
            said[name] += words
    if not chosen:
        return OnEngines(valid, known, said, diagnostics)
    on = _on(valid, chosen)
    every = replace(profile, entries=_first((*profile.entries, *times)))
    own = every.on_engines(store.runs_of(on))
    if runnable:
        own, unsaved = with_layers(on, own, report=request.report)
        diagnostics = (*diagnostics, *unsaved)
    its_times = times_of(on.system, on.platform, own)
    return OnEngines(on, replace(known, profile=own, times=its_times), said, diagnostics)


def _on(valid: Valid, chosen: Mapping[str, OtherEngine]) -> Valid:
    """The text with networks on their engines, in the files of their precisions."""

    def rewritten(system: System) -> System:
        return with_precision(with_engines(system, chosen), valid.platform.tensorrt)[0]

    return valid.rewritten_by(rewritten)


def _has_deadlines(valid: Valid) -> bool:
    return any(app.period_ns is not None for part in valid.parts for app in part.system.apps)


def _in_application(
    valid: Valid, profile: Profile, found: Engines, request: MapRequest
) -> tuple[tuple[ProfileEntry, ...], tuple[Diagnostic, ...]]:
    """The times of networks on their engines in the application, measured if they are only
    estimated; and what could not be stored."""
    on = _on(valid, found.chosen)
    runs = store.runs_of(on)
    entries = [e for e in found.times if e.on_engine == runs.get(e.subject)]
    if not any(e.estimated for e in entries):
        return tuple(entries), ()
    measured, _ = measure(on, on_measure=request.on_measure or request.report)
    entries = [e for e in measured.entries if e.subject in found.chosen]
    kept = replace(profile, entries=(*profile.entries, *entries))
    return tuple(entries), store.save_profile(valid, kept)


def _slower(profile: Profile, times: tuple[ProfileEntry, ...]) -> dict[str, str]:
    """The networks whose worst case is not shorter on their engine, with that in words."""
    own = {e.subject: e for e in profile.entries if e.on_cpu and not e.engine}
    return {
        e.subject: f"; its worst case there is {e.wcet_ns / 1e6:.3g} ms, and on ONNX Runtime"
        f" {own[e.subject].wcet_ns / 1e6:.3g} ms"
        for e in times
        if e.wcet_ns >= own[e.subject].wcet_ns
    }


def _first(entries: tuple[ProfileEntry, ...]) -> tuple[ProfileEntry, ...]:
    """The entries without later ones of the same task, processor and engine."""
    kept: dict[tuple[object, ...], ProfileEntry] = {}
    for e in entries:
        kept.setdefault((e.processor, e.on_engine, e.subject), e)
    return tuple(kept.values())
