"""The mapping that `map` stored beside a text, `STEM.PLATFORM.mapping.json`, applied like pins.

In: a system after its own pins. Out: the system with the stored plans applied. A mapping for other
code or other pins is reported and not used; one that was edited by hand is checked like pins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model.diagnostic import Diagnostic, has_errors
from ..model.mapping import Mapping, Pin, PinStage, Supposed, as_pin
from ..model.platform import Platform
from ..model.priorities import in_order
from ..model.scenario import Scenario, State
from ..model.system import System
from ..model.transfers import without_transfers
from ..profiling.identity import listed_changes, task_hashes
from ..targets.pins import pinned
from .precision import Precision, with_precision
from .staged import Staged, tasks_of
from .stages import with_stages

#: The key of the pins among the hashes of tasks: no task is called so.
PINS = "pins of the text"


def identity(system: System, platform: Platform) -> dict[str, str]:
    """The inputs of a mapping: hashes of its tasks, and of the pins of the text."""
    carriers = {t.name for t in tasks_of(system).values() if t.transfer is not None}
    system = replace(system, apps=tuple(without_transfers(a) for a in system.apps))
    pins = [
        _words(p)
        for p in (*system.pins, *system.other_pins)
        if p.platform == platform.name and p.task not in carriers
    ]
    shape: list[object] = [
        (a.name, a.period_ns, [(c.name, c.delay) for c in a.channels]) for a in system.apps
    ]
    shares = [(a.name, a.share) for a in system.apps if a.share is not None]
    shape += [(name, share.part, share.period_ns) for name, share in shares]
    shape += _tolerances(system)
    shape += [(p.name, p.wakeup_ns) for p in platform.pools if p.wakeup_ns]
    others: list[System] = []
    about: tuple[object, ...] = (pins, shape, platform.processors)
    if system.scenario is not None:
        others = [replace(system, apps=apps) for apps in system.others]
        about += tuple(_apps(s) for s in system.scenario.states)
        about += _power(system, system.scenario, platform)
    digest = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
    inputs = {PINS: digest}
    for part in (*others, system):
        inputs.update(task_hashes(part))
    return inputs


def _words(pin: Pin) -> tuple[object, ...]:
    """A pin in an identity."""
    stages = [
        (
            *(s.processors, s.until, s.streams, s.threads, s.process, s.graph, s.fallback),
            *_bands(s),
            *_engine(s),
        )
        for s in pin.stages
    ]
    return (pin.task, stages, pin.wcet_ns, pin.buffers, pin.pre, pin.post, pin.adapt)


@dataclass(frozen=True, slots=True)
class StoredMapping:
    """The mapping of a `file`, and the `identity` of what it was found for."""

    mapping: Mapping
    identity: dict[str, str]
    file: str

    def stale(self, system: System, platform: Platform) -> Diagnostic | None:
        """The reason why it does not apply to a system."""
        now = identity(system, platform)
        names = {**now, **self.identity}
        changed = [name for name in names if now.get(name) != self.identity.get(name)]
        if not changed:
            return None
        tasks = [name for name in changed if name != PINS]
        shown = ["the graph or its pins"] if PINS in changed else []
        if tasks:
            shown.append(listed_changes(system, tasks, limit=3))
        return not_used(f"`{self.file}` is stale: {' and '.join(shown)} changed since")

    def __call__(self, staged: Staged) -> Staged:
        system, platform = staged.system, staged.platform
        stale = self.stale(system, platform)
        if stale is not None:
            return _with(staged, stale)
        mapped, faults = carried_out(system, platform, self.mapping)
        if has_errors(faults):
            return _with(staged, *(self._placed(fault) for fault in faults))
        supposed = self.mapping.supposed
        if supposed is None:
            return Precision()(replace(staged, system=mapped, mapping=self.mapping))
        mapping = without_bounds(self.mapping) if supposed.fps else self.mapping
        warned = _with(staged, _for_another(self.file, supposed))
        return Precision()(replace(warned, system=mapped, mapping=mapping))

    def _placed(self, fault: Diagnostic) -> Diagnostic:
        """The fault, with the file that it is in."""
        place = f"this is said in `{self.file}`"
        return replace(fault, help=f"{fault.help}; {place}" if fault.help else place)


def _with(staged: Staged, *more: Diagnostic) -> Staged:
    return replace(staged, diagnostics=(*staged.diagnostics, *more))


def carried_out(
    system: System, platform: Platform, mapping: Mapping
) -> tuple[System, tuple[Diagnostic, ...]]:
    """The system with networks cut, tasks pinned, precisions and priorities chosen by a mapping, as
    far as the text leaves them open; faults.
    """
    own = {p.task for p in system.pins if p.platform == platform.name}
    pins = [p for p in _pins(system, platform.name, mapping) if p.task not in own]
    staged = with_stages(system.apps, platform, pins)
    faults = staged.diagnostics or pinned(staged.apps, platform, staged.pins)[1]
    apps = in_order(staged.apps, mapping.priorities)
    mapped = replace(system, apps=apps, pins=(*system.pins, *staged.pins))
    mapped, _, _ = with_precision(mapped, platform.tensorrt)
    return mapped, tuple(d for d in faults if d.code != "F603")


def _pins(system: System, platform: str, mapping: Mapping) -> Iterator[Pin]:
    """The plans and placements of a mapping as pins; a plan overrides a placement."""
    tasks = tasks_of(system)
    for plan in mapping.networks:
        task = tasks.get(plan.task)
        # Only the profile knows the layers of a network without a file: its plan is data, and cuts
        # nothing.
        if task is not None and (task.network is not None or len(plan.stages) == 1):
            yield as_pin(plan, platform, task.span)
    planned = {plan.task for plan in mapping.networks}
    for place in mapping.placements:
        if place.task in tasks and place.task not in planned:
            span = tasks[place.task].span
            stage = PinStage(
                place.processors,
                None,
                place.streams,
                span,
                place.threads,
                place.process,
                place.graph,
                place.fallback,
                place.bands,
                engine=place.engine,
                precision=place.precision,
            )
            yield Pin(platform, place.task, (stage,), None, place.buffers, span)


def _for_another(file: str, supposed: Supposed) -> Diagnostic:
    """The warning that a mapping is used that was found under other assumptions than the text."""
    help_text = "it is used as it is; `flowc map` finds one for the text"
    return Diagnostic(
        "F734", f"`{file}` was found for {supposed}", None, help=help_text, severity="warning"
    )


def without_bounds(mapping: Mapping) -> Mapping:
    """Remove proofs for other rates, or for another kind of program."""
    return replace(mapping, groups=(), utilization=(), bound=None, states=(), transitions=())


def not_used(message: str) -> Diagnostic:
    """The warning that a stored mapping is not used."""
    help_text = "`flowc map` finds a new one; without it, tasks are placed by a quick rule"
    return Diagnostic("F609", message, None, help=help_text, severity="warning")


def _apps(state: State) -> tuple[object, ...]:
    """What runs in a state; where it may have several variants, which these are, not which one it
    has.
    """
    if not state.options:
        return (state.name, [(a.name, a.period_ns, a.variants) for a in state.apps])
    periods = [(a.name, a.period_ns) for a in state.apps]
    options = [(o.choices, o.accuracy) for o in state.options]
    return (state.name, periods, options, *([state.prefers] if state.prefers else []))


def _power(system: System, scenario: Scenario, platform: Platform) -> tuple[object, ...]:
    """The inputs that clock rates depend on; empty if none are requested."""
    wanted = [(p.pool, p.state, p.hz) for p in system.clocks if p.platform == platform.name]
    prefers = any(word == "energy" for state in scenario.states for word, _ in state.prefers)
    if not (scenario.asks_for_power or wanted or prefers):
        return ()
    limits = [(s.name, s.power_w) for s in scenario.states]
    pools = [(p.name, p.frequencies_hz, p.idle_w, p.busy_w) for p in platform.pools]
    return (scenario.least_energy, limits, wanted, platform.power_w, pools)


def _bands(stage: PinStage) -> tuple[object, ...]:
    """The part of bands in an identity: empty without bands, for compatibility with older files."""
    return (stage.bands,) if stage.bands else ()


def _tolerances(system: System) -> Iterator[object]:
    """How near networks have to be to 32 bits whose precision a mapping may choose."""
    for task in tasks_of(system).values():
        if task.network is not None and task.network.any_precision:
            yield task.name, task.network.within_db


def _engine(stage: PinStage) -> tuple[object, ...]:
    """The part of an engine and a precision in an identity: empty where none is named, for the same
    reason."""
    return (stage.engine, stage.precision) if stage.engine or stage.precision else ()
