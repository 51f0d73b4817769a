"""From a path to a valid system: load, stage, check.

In: a text and the name of a platform. Out: `Checked`, with all results that need no execution, or,
by `require`, `Valid`: the input of all later stages, which never have to check again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...analysis.dataflow.check import check as check_app
from ...analysis.dataflow.repetition import repetition
from ...dsl.load import Loaded, load
from ...machines.host import HERE, Host, own_platform
from ...model.application import Application, Task
from ...model.collecting import no_garbage_collection
from ...model.diagnostic import Diagnostic, Errors, has_errors, in_order
from ...model.mapping import Mapping
from ...model.platform import Platform
from ...model.scenario import Scenario, StateOption
from ...model.system import System
from ...model.times import times_of
from ...model.verdict import AppVerdicts, Verdict
from ...passes import Staged, stage, with_transfers
from ...passes.staged import BUILD_ONLY
from ...passes.stored_mapping import carried_out
from ...targets.fitness import unlaunchable
from ...targets.inference import unfit_unpinned
from ...targets.memory import too_little
from ...targets.pins import pinned
from . import store
from .notebook_result import NotebookResult
from .together import together

if TYPE_CHECKING:
    from ...networks.quantization.quantize import QuantizationLoss

Report = Callable[[str], None]
#: Called with a message before tasks are run to be measured.
OnMeasure = Callable[[str], None]
#: Unsaved texts, by the real paths of their files.
TextsByPath = MappingABC[str, str]
#: The chosen variant of each network with variants.
Choices = tuple[tuple[str, str], ...]
#: Diagnostics after which rates are meaningless: arrows or ports are missing.
NOT_WHOLE = ("F101", "F201", "F202", "F207", "F001")
#: Diagnostics that are verdicts of an analysis about a whole graph.
VERDICT_CODES = ("F203", "F204", "F211", "F216")


@dataclass(frozen=True, slots=True)
class Valid:
    """A system without errors for an existing platform.

    `loaded` is the text as it was written, before networks were cut; `mapping` the stored one, if
    it matches this text: its networks are cut and its places are pinned already. `repetition` has
    the firings of every task in one iteration by app; empty for an app whose rates do not balance,
    which only analyses accept (`Checked.require`). Programs run on `host`. `others` are the same
    with other variants of networks, so that each variant is in one of them.
    """

    loaded: Loaded
    system: System
    platform: Platform
    verdicts: dict[str, AppVerdicts]
    diagnostics: tuple[Diagnostic, ...]
    mapping: Mapping | None = None
    losses: dict[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)
    host: Host = HERE

    @property
    def at_hand(self) -> bool:
        """Do programs run on the platform itself, so that measurements there apply to it?"""
        return self.host is not HERE or self.platform.name == HERE.name

    others: tuple[Valid, ...] = ()

    @property
    def about(self) -> str:
        """What a command of flowc needs to be about the same program; a space stands in front."""
        where = "" if self.platform.name == self.host.name else f" --platform {self.platform.name}"
        return where + (" --target native" if self.platform.native else "")

    @property
    def parts(self) -> tuple[Valid, ...]:
        """The sets of apps that run at once: the states of a scenario, or all apps."""
        return (self,)

    @property
    def repetition(self) -> dict[str, dict[str, int]]:
        """Firings of each task in one iteration, by app."""
        return {name: v.repetition for name, v in self.verdicts.items()}

    @property
    def tasks(self) -> dict[str, Task]:
        """All tasks by name."""
        tasks: dict[str, Task] = {}
        for app in self.system.apps:
            tasks |= {task.name: task for task in app.tasks}
        return tasks

    def rewritten_by(self, change: Callable[[System], System]) -> Self:
        """The same with changed tasks in all of its versions, for which the results still hold."""
        others = tuple(other.rewritten_by(change) for other in self.others)
        return replace(self, system=change(self.system), others=others)

    @property
    def every_task(self) -> dict[str, Task]:
        """All tasks, also those of other variants of networks."""
        tasks: dict[str, Task] = {}
        for part in (*self.others, self):
            tasks |= part.tasks
        return tasks

    def mapped(self, mapping: Mapping) -> Self:
        """The same with a mapping applied. Raises Errors."""
        system, faults = carried_out(self.system, self.platform, mapping)
        system, of_transfers = with_transfers(system, self.platform)
        if has_errors((*faults, *of_transfers)):
            raise Errors((*faults, *of_transfers))
        return replace(self.rewritten(system), mapping=mapping)

    def rewritten(self, system: System) -> Self:
        """The same with other tasks, for which the results still hold."""
        before = {a.name: a for a in self.system.apps}
        verdicts = {}
        for app in system.apps:
            verdicts[app.name] = self.verdicts[app.name]
            if app is not before[app.name]:
                verdicts[app.name] = _again(self.verdicts[app.name], app)
        return replace(self, system=system, verdicts=verdicts)


@dataclass(frozen=True, slots=True)
class ValidScenario(Valid):
    """A valid system with a scenario: `states` are its states, each a plain system.

    `options` has, for states that ask for the best variants, each of `State.options`, or the first
    of its errors. Only mappings use them.
    """

    states: dict[str, Valid] = field(default_factory=dict)
    options: dict[str, tuple[Valid | str, ...]] = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        """The declarations of its states and changes."""
        assert self.system.scenario is not None
        return self.system.scenario

    def rewritten_by(self, change: Callable[[System], System]) -> Self:
        """See `Valid.rewritten_by`: its states and their options as well."""
        states = {name: state.rewritten_by(change) for name, state in self.states.items()}
        options: dict[str, tuple[Valid | str, ...]] = {}
        for name, own in self.options.items():
            options[name] = tuple(o if isinstance(o, str) else o.rewritten_by(change) for o in own)
        others = tuple(other.rewritten_by(change) for other in self.others)
        system = change(self.system)
        return replace(self, system=system, others=others, states=states, options=options)

    @property
    def parts(self) -> tuple[Valid, ...]:
        """The sets of apps that run at once: its states."""
        return tuple(self.states.values())

    def in_order(self, state: str, order: Sequence[int]) -> ValidScenario:
        """The same with the options of a state in another order."""
        options = {**self.options, state: tuple(self.options[state][k] for k in order)}
        states = []
        for each in self.scenario.states:
            if each.name == state:
                own = tuple(each.options[k] for k in order)
                each = replace(each, options=own)
            states.append(each)
        scenario = replace(self.scenario, states=tuple(states))
        return replace(self, system=replace(self.system, scenario=scenario), options=options)

    def taking(self, option: MappingABC[str, int]) -> ValidScenario:
        """The same with these options of states."""
        chosen = {name: self.options[name][k] for name, k in option.items()}
        states = {name: own for name, own in chosen.items() if isinstance(own, Valid)}
        apps = {name: self.scenario.state(name).options[option[name]].apps for name in states}
        system = replace(self.system, scenario=self.scenario.taking(apps))
        return replace(self, system=system, states=self.states | states)


def _again(verdicts: AppVerdicts, app: Application) -> AppVerdicts:
    """Verdicts of an app whose networks were cut: a cut keeps the verdicts, but changes the
    tasks."""
    return replace(verdicts, repetition=repetition(app).vector)


@dataclass(frozen=True, slots=True)
class Checked(NotebookResult):
    """A text with all results that need no execution.

    `staged` is None if there is no such platform, or the text is so faulty that it was not
    rewritten. `others` are the same with other variants of networks, so that each variant is in one
    of them, `states` those of a scenario. `options` are the candidates of states that ask for the
    best variants, in the order of `State.options`; one of them is the state. Only a search for a
    mapping uses them.
    """

    loaded: Loaded
    staged: Staged | None
    verdicts: dict[str, AppVerdicts]
    diagnostics: tuple[Diagnostic, ...]
    host: Host = HERE
    others: tuple[Checked, ...] = ()
    states: dict[str, Checked] = field(default_factory=dict)
    options: dict[str, tuple[Checked, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A line: all of it is for programs."""
        errors = sum(d.severity == "error" for d in self.diagnostics)
        warnings = len(self.diagnostics) - errors
        said = f"{errors} errors, the first one: {self.first_error}" if errors else "no errors"
        return f"<{type(self).__name__} {self.system.path}: {said}; {warnings} warnings>"

    @property
    def impossible(self) -> bool:
        """Is some app late on every mapping, in any state?"""
        verdicts = [*self.verdicts.values()]
        for state in self.states.values():
            verdicts += state.verdicts.values()
        return any(verdict.impossible for verdict in verdicts)

    @property
    def ok(self) -> bool:
        """True when there is no error (warnings are fine)."""
        return not has_errors(self.diagnostics)

    @property
    def first_error(self) -> str:
        """The message of the first error; empty where there is none."""
        return next((d.message for d in self.diagnostics if d.severity == "error"), "")

    @property
    def system(self) -> System:
        """The system as far as it was rewritten."""
        return self.loaded.system if self.staged is None else self.staged.system

    @property
    def platform(self) -> Platform | None:
        """The requested platform."""
        return self.loaded.platform

    @property
    def mapping(self) -> Mapping | None:
        """The stored mapping, if it was applied."""
        return None if self.staged is None else self.staged.mapping

    def require(self, despite: Collection[str] = ()) -> Valid:
        """The input of later stages. Raises Errors for errors, except those whose codes are in
        `despite`."""
        broken = any(d.severity == "error" and d.code not in despite for d in self.diagnostics)
        if broken or self.staged is None:
            raise Errors(self.diagnostics)
        staged = self.staged
        valid = Valid(
            self.loaded,
            staged.system,
            staged.platform,
            self.verdicts,
            self.diagnostics,
            mapping=staged.mapping,
            losses=staged.losses,
            host=self.host,
            others=tuple(o.require(despite) for o in self.others),
        )
        return self._with_states(valid, despite) if self.states else valid

    def _with_states(self, valid: Valid, despite: Collection[str]) -> ValidScenario:
        """The same with the states of its scenario. Raises Errors."""
        states = {name: c.require(despite) for name, c in self.states.items()}
        options: dict[str, tuple[Valid | str, ...]] = {}
        for name, own in self.options.items():
            options[name] = tuple(c.require(despite) if c.ok else c.first_error for c in own)
        same = {each.name: getattr(valid, each.name) for each in fields(valid)}
        return ValidScenario(**same, states=states, options=options)


def check(
    path: str | Path,
    *,
    platform: str = "host",
    mapped: bool = True,
    native: bool = False,
    opened: str | None = None,
    host: Host = HERE,
    texts: TextsByPath | None = None,
) -> Checked:
    """Load a text and check everything: names, types, code, networks, rates, deadlock, pins of the
    platform.

    `platform` is `host` (of a board that is reached over ssh: `board`), a platform declared in the
    text, the name of a board that comes with flowc, or a .flow file that declares one. Programs run
    on `host`, `native` ones in C++. A mapping that is stored beside the text counts like pins
    (unless not `mapped`), if the text has none. With `opened` only that graph or app counts, and
    `texts` replace the content of files (see `load`).
    """
    if platform == HERE.name:
        platform = host.name
    with no_garbage_collection():
        loaded = load(
            path, platform=platform, builtin=[own_platform(host)], opened=opened, texts=texts
        )
        if native and loaded.platform is not None:
            loaded = replace(loaded, platform=replace(loaded.platform, native=True))
        return _checked(loaded, mapped and opened is None, host)


def prepare(
    path: str | Path,
    *,
    platform: str = "host",
    mapped: bool = True,
    native: bool = False,
    opened: str | None = None,
    host: Host = HERE,
    report: Report | None = None,
) -> Checked:
    """As `check`, with networks converted to 8 or 16 bits; those that are ready are left alone.
    Raises Errors."""
    checked = check(path, platform=platform, mapped=mapped, native=native, opened=opened, host=host)
    unconverted = _unconverted(checked)
    if not checked.ok or not unconverted:
        return checked
    from ...passes.precision import convert_network

    for staged in unconverted:
        for task in staged.unquantized:
            if report is not None:
                report(f"converting {task.definition}")
            convert_network(staged.system, task, staged.platform.tensorrt)
    return _checked(checked.loaded, mapped and opened is None, host)


def _unconverted(checked: Checked) -> list[Staged]:
    """The versions of a system that have networks to be converted."""
    parts = [checked, *checked.others, *checked.states.values()]
    for options in checked.options.values():
        parts += options
    stages = [part.staged for part in parts if part.staged is not None]
    return [staged for staged in stages if staged.unquantized]


def _checked(loaded: Loaded, mapped: bool, host: Host) -> Checked:
    """The whole text: its apps, other variants of their networks, and the states of a scenario."""
    scenario = loaded.system.scenario
    whole = _alone(loaded, mapped and scenario is None, host)
    if not whole.ok or not (loaded.system.others or scenario):
        return whole

    def part(apps: tuple[Application, ...]) -> Checked:
        system = loaded.system.with_apps(apps)
        return _alone(replace(loaded, system=system, diagnostics=()), False, host)

    others = tuple(part(apps) for apps in loaded.system.others)
    stored = _stored_choices(whole.staged) if mapped and whole.staged is not None else {}
    own = _CheckedStates()
    if scenario is not None:
        own = _check_states(scenario, stored, part, not mapped)
        if own.best and whole.staged is not None:
            system = replace(whole.staged.system, scenario=scenario.taking(own.best))
            whole = replace(whole, staged=replace(whole.staged, system=system))
    diagnostics: dict[Diagnostic, None] = {}
    for checked in (whole, *others, *own.states.values()):
        diagnostics |= dict.fromkeys(checked.diagnostics)
    return replace(
        whole,
        diagnostics=in_order(diagnostics),
        others=others,
        states=own.states,
        options=own.options,
    )


@dataclass(frozen=True, slots=True)
class _CheckedStates:
    """The states of a scenario; of those that ask for the best variants, the candidates and the
    apps of the best one."""

    states: dict[str, Checked] = field(default_factory=dict)
    options: dict[str, tuple[Checked, ...]] = field(default_factory=dict)
    best: dict[str, tuple[Application, ...]] = field(default_factory=dict)


def _check_states(
    scenario: Scenario,
    stored: MappingABC[str, Choices],
    part: Callable[[tuple[Application, ...]], Checked],
    for_search: bool,
) -> _CheckedStates:
    """Check each state; a search for a mapping needs all candidates of states with the best
    variants."""
    own = _CheckedStates()
    for state in scenario.states:
        if not state.options:
            own.states[state.name] = part(state.apps)
            continue
        wanted = [o for o in state.options if o.choices == stored.get(state.name)]
        wanted = wanted or [*state.options]
        candidates: Iterable[Checked] = (part(option.apps) for option in wanted)
        if for_search:
            candidates = own.options[state.name] = tuple(candidates)
        own.states[state.name], own.best[state.name] = _best(wanted, candidates)
    return own


def _best(
    options: Sequence[StateOption], checked: Iterable[Checked]
) -> tuple[Checked, tuple[Application, ...]]:
    """The first option that may keep its deadlines, else the last one, with its apps."""
    for option, candidate in zip(options, checked, strict=True):
        best = candidate, option.apps
        if candidate.ok and not candidate.impossible:
            break
    return best


def _stored_choices(staged: Staged) -> dict[str, Choices]:
    """The best variants according to a stored mapping, if it matches the text."""
    system, platform = staged.system, staged.platform
    if system.scenario is None or not any(s.options for s in system.scenario.states):
        return {}
    stored, _ = store.read_mapping(system, platform)
    if stored is None or stored.stale(system, platform) is not None:
        return {}
    return {s.state: s.choices for s in stored.mapping.states if s.choices}


def _alone(loaded: Loaded, mapped: bool, host: Host) -> Checked:
    """The apps of the system, and no other variants of their networks."""
    diagnostics = list(loaded.diagnostics)
    staged = None
    if loaded.platform is not None and not has_errors(loaded.diagnostics):
        staged, warnings = _staged(loaded, loaded.platform, mapped)
        diagnostics += warnings
    system = loaded.system if staged is None else staged.system
    times = times_of(system, loaded.platform) if loaded.platform is not None else None
    verdicts = {}
    may_lack_parts = has_errors(d for d in loaded.diagnostics if d.code not in _OF_CODE)
    for app in system.apps:
        found, faults = check_app(app, None if times is None else times.app(app))
        verdicts[app.name] = _of_a_part(found) if may_lack_parts else found
        diagnostics += _without_consequential_rate_errors(faults, loaded)
    plain = loaded.system.scenario is None and not may_lack_parts
    if staged is not None and times is not None and plain:
        pins = _pins_of_the_text(loaded, staged)
        verdicts = together(system.apps, verdicts, times, staged.platform, pins)
    if loaded.unknown_platform is not None:
        diagnostics.append(loaded.unknown_platform)
    if staged is not None and not has_errors(diagnostics):
        diagnostics += _unfit(staged.system, staged.platform)
        too_much = too_little(loaded.system.apps, staged.platform)
        if too_much is not None:
            diagnostics.append(too_much)
    return Checked(loaded, staged, verdicts, in_order(diagnostics), host)


def _pins_of_the_text(loaded: Loaded, staged: Staged) -> dict[str, list[str]]:
    """The processors of tasks that the text pins; those of a stored mapping may be others."""
    pins = staged.system.pins if staged.mapping is None else loaded.system.pins
    processors = {}
    for pin in pins:
        if pin.platform == staged.platform.name:
            processors[pin.task] = [name for stage in pin.stages for name in stage.processors]
    return processors


def _unfit(system: System, platform: Platform) -> Iterator[Diagnostic]:
    """What a platform cannot run: launches, pins, and tasks without a pin."""
    yield from unlaunchable(system.apps, platform)
    for fault in pinned(system.apps, platform, system.pins)[1]:
        if fault.code not in BUILD_ONLY:
            yield fault
    yield from unfit_unpinned(system, platform)


def _staged(
    loaded: Loaded, platform: Platform, mapped: bool
) -> tuple[Staged, Sequence[Diagnostic]]:
    """The system after all passes, and diagnostics; that of the stored mapping only if there is no
    error."""
    stored, warnings = store.read_mapping(loaded.system, platform) if mapped else (None, ())
    staged = stage(loaded.system, platform, stored)
    if has_errors(staged.diagnostics):
        return staged, staged.diagnostics
    return staged, (*staged.diagnostics, *warnings)


#: Errors in the code of a task, which leave the graph as it is.
_OF_CODE = frozenset(f"F{number}" for number in range(302, 311))


def _of_a_part(verdicts: AppVerdicts) -> AppVerdicts:
    """Verdicts of an app in a text with errors, which may lack tasks and channels: what forbids a
    part of a graph forbids all of it, and nothing else is known."""

    def known(verdict: Verdict) -> Verdict:
        if verdict.holds is False:
            return verdict
        return Verdict(None, "not decided: the text has errors")

    return AppVerdicts(
        known(verdicts.consistent),
        known(verdicts.deadlock_free),
        known(verdicts.schedulable),
        {},
    )


def _without_consequential_rate_errors(
    faults: Sequence[Diagnostic], loaded: Loaded
) -> Sequence[Diagnostic]:
    """The diagnostics about an app's rates that apply: a graph with missing arrows or ports
    balances differently."""
    complete = not has_errors(loaded.diagnostics)
    if complete or not any(d.code in NOT_WHOLE for d in loaded.diagnostics):
        return faults
    if not has_errors(faults):
        return ()
    return [d for d in faults if d.code in ("F203", "F204")]
