"""Scenarios: states that run some apps each, with periods and variants of networks of their own,
and transitions.

In: the declaration, the flat apps of the text, and a function that gives them with other variants.
Out: a scenario whose states are plain systems, or None after faults; all faults are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, pairwise, permutations, product

from ..model.application import Application, Task, all_tasks
from ..model.diagnostic import Note, did_you_mean, has_errors, listed, one_of
from ..model.scenario import Scenario, State, StateOption, Transition
from ..model.span import Span
from ..model.supports import refusal
from . import syntax as s
from .at_once import Hindrance, every_option, hindrance
from .best import BEST, Choices, Ranking, wanted
from .context import Context
from .evaluate import Evaluator
from .versions import Versions


def scenario_of(
    declarations: Sequence[s.Declaration],
    apps: Sequence[Application],
    versions: Versions,
    context: Context,
    evaluator: Evaluator,
) -> Scenario | None:
    """The scenario of a text, if it has one; None after a fault as well."""
    scenarios = [d for d in declarations if isinstance(d, s.ScenarioDecl)]
    if not scenarios:
        return None
    first = scenarios[0]
    for other in scenarios[1:]:
        if other.name.text != first.name.text:  # else the duplicate name is reported already
            message = "a text has one scenario"
            context.repeated("F102", message, other.name.span, first.name.span, help="merge them")
    return _Builder(first, apps, versions, context, evaluator).scenario()


#: The event that selects among the levels of a state: it comes with a rate.
PACE = "pace"

#: Periods and deadlines that a state gives apps, None if it keeps theirs.
Limits = Mapping[str, tuple[Fraction | None, Fraction | None]]


class _Builder:
    """One scenario."""

    def __init__(
        self,
        declaration: s.ScenarioDecl,
        apps: Sequence[Application],
        versions: Versions,
        context: Context,
        evaluator: Evaluator,
    ) -> None:
        self._declaration, self._versions = declaration, versions
        self._context, self._evaluate = context, evaluator
        self._apps = {a.name: a for a in apps}
        self._tasks = {task.name: task for task in all_tasks(apps)}
        self._modes: dict[str, s.ModeDecl] = {}
        self._runs: dict[str, dict[str, s.RunDecl]] = {}

    def scenario(self) -> Scenario | None:
        """None after a fault."""
        declaration = self._declaration
        self._find_states()
        initial = self._initial()
        for name, mode in self._modes.items():
            self._runs[name] = dict(self._running(mode))
        choices = {name: dict(self._choices(mode)) for name, mode in self._modes.items()}
        outside = self._outside()
        levels = {name: self._levels(mode, outside) for name, mode in self._modes.items()}
        ranking, networks = Ranking(self._context, self._evaluate), self._versions.networks
        variants = {
            name: ranking.options(mode, choices[name], networks)
            for name, mode in self._modes.items()
        }
        limits = {name: self._all_limits(mode, levels[name]) for name, mode in self._modes.items()}
        transitions = self._transitions()
        self._alone(transitions)
        self._unheard(outside, transitions)
        weights = self._weights()
        powers = {name: self._power(mode) for name, mode in self._modes.items()}
        preferred = {}
        for name, mode in self._modes.items():
            preferred[name] = ranking.preferred(mode, wanted(choices[name]))
        least_energy = self._minimised()
        self._never_run()
        if initial is not None:
            self._unreached(initial, transitions)
        self._cannot_change()
        if initial is None or has_errors(self._context.faults):
            return None
        states: list[State] = []
        for name, mode in self._modes.items():
            weight = weights[name] / len(levels[name])
            state = State(name, (), weight, mode.name.span, powers[name], prefers=preferred[name])
            levels_of = [
                *self._levels_of(state, wanted(choices[name]), variants[name], limits[name])
            ]
            self._require_periods(mode, levels_of)
            states += levels_of
        transitions = list(self._between_levels(transitions, levels))
        self._check_at_once(transitions, states)
        if has_errors(self._context.faults):
            return None
        return Scenario(
            declaration.name.text,
            tuple(outside),
            _level(initial, levels[initial][0]),
            tuple(states),
            tuple(transitions),
            declaration.name.span,
            least_energy,
        )

    def _require_periods(self, mode: s.ModeDecl, levels: Iterable[State]) -> None:
        """What a state prefers is chosen by `map`, as far as deadlines allow."""
        for level in levels:
            for app in level.apps:
                if level.prefers and app.period_ns is None:
                    message = (
                        f"`{mode.name.text}` prefers something, and `{app.name}` has no period"
                    )
                    help_text = "give the app a `period`, or leave `prefer` out"
                    self._context.fault("F105", message, mode.name.span, help=help_text)
                    return

    def _levels_of(
        self,
        state: State,
        best: tuple[str, ...],
        variants: Sequence[Choices],
        limits: Mapping[int | None, Limits],
    ) -> Iterator[State]:
        """The levels of a state, each with its apps; one if it has no lists."""
        versions = [(self._versions.apps(choices), accuracy) for choices, accuracy in variants]
        for level, own in limits.items():
            options = tuple(
                StateOption(self._with(state.name, apps, own), accuracy)
                for apps, accuracy in versions
            )
            name = _level(state.name, level)
            of_level = replace(state, name=name, apps=options[0].apps, level=level)
            if best:
                of_level = replace(of_level, best=best, options=options)
            yield of_level

    def _with(
        self, state: str, apps: Sequence[Application], limits: Limits
    ) -> tuple[Application, ...]:
        """The apps of a state, with its periods and variants."""
        running = []
        for app in apps:
            if app.name in self._runs[state]:
                period, deadline = limits[app.name]
                period, deadline = period or app.period_ns, deadline or app.deadline_ns
                running.append(replace(app, period_ns=period, deadline_ns=deadline))
        return tuple(running)

    # -- states ------------------------------------------------------------------------------------
    def _find_states(self) -> None:
        for item in self._declaration.items:
            if not isinstance(item, s.ModeDecl):
                continue
            first = self._modes.setdefault(item.name.text, item)
            if first is not item:
                self._context.called_twice("states", item.name, first.name.span)

    def _initial(self) -> str | None:
        initial = [mode for mode in self._modes.values() if mode.initial]
        if len(initial) == 1:
            return initial[0].name.text
        name = self._declaration.name
        if initial:
            notes = [Note("another one", mode.name.span) for mode in initial[1:]]
            message = f"`{name.text}` has {len(initial)} initial states"
            help_text = "keep `initial` at one of them only"
            span = initial[0].name.span
            self._context.fault("F801", message, span, notes=notes, help=help_text)
            return None
        message = f"`{name.text}` has no initial state"
        help_text = "add `initial state NAME { run App }`"
        if self._modes:
            help_text = "write `initial` in front of one of its states"
        self._context.fault("F801", message, name.span, help=help_text)
        return None

    def _running(self, mode: s.ModeDecl) -> Iterator[tuple[str, s.RunDecl]]:
        """The apps of a state."""
        seen: dict[str, Span] = {}
        runs = [item for item in mode.items if isinstance(item, s.RunDecl)]
        for run in runs:
            for word in run.apps:
                name = word.text
                if name in seen:
                    notes = [Note("the first time", seen[name])]
                    self._context.fault("F115", f"`{name}` is run twice", word.span, notes=notes)
                elif name in self._apps:
                    seen[name] = word.span
                    yield name, run
                elif name not in self._context.poisoned:
                    help_text = did_you_mean(name, self._apps) or f"there is {one_of(self._apps)}"
                    message = f"there is no app `{name}`"
                    self._context.fault("F101", message, word.span, help=help_text)
        if not runs:
            message = f"state `{mode.name.text}` runs no app"
            self._context.fault("F215", message, mode.name.span, help="add `run App`")

    def _levels(self, mode: s.ModeDecl, outside: Mapping[str, Span]) -> tuple[int | None, ...]:
        """The levels of a state whose periods are lists; `[None]` without lists."""
        lists = [i for i in mode.items if isinstance(i, s.RunDecl) and i.levels]
        if not lists:
            return (None,)
        for run in lists:
            self._check_list(run, lists[0], mode)
        if PACE not in outside:
            message = f"no event selects among the periods of `{mode.name.text}`"
            help_text = (
                f"add `event {PACE}` to the scenario: raised with a rate, it selects the slowest"
                " sufficient one"
            )
            self._context.fault("F105", message, lists[0].span, help=help_text)
        return tuple(range(min(len(run.levels) for run in lists)))

    def _check_list(self, run: s.RunDecl, first: s.RunDecl, mode: s.ModeDecl) -> None:
        """The periods of a list rise, and it is as long as the first list of its state."""
        span = run.levels[0].span.to(run.levels[-1].span)
        periods = [self._time("period", period) for period in run.levels]
        for shorter, longer in pairwise(periods):
            if shorter is not None and longer is not None and shorter >= longer:
                message = f"the periods of `{mode.name.text}` do not rise"
                self._context.fault("F105", message, span, help="write the shortest one first")
        if len(run.levels) != len(first.levels):
            message = (
                f"`{mode.name.text}` has lists of {len(first.levels)} and of {len(run.levels)}"
                " periods"
            )
            notes = [Note("the first list", first.span)]
            help_text = "all lists change together: give them one length"
            self._context.fault("F105", message, span, notes=notes, help=help_text)

    def _between_levels(
        self, transitions: Sequence[Transition], levels: Mapping[str, tuple[int | None, ...]]
    ) -> Iterator[Transition]:
        """The transitions of every level, to every level; and those between the levels of a
        state."""
        for transition in transitions:
            for before, after in product(levels[transition.source], levels[transition.target]):
                source = _level(transition.source, before)
                yield replace(transition, source=source, target=_level(transition.target, after))
        for name, own in levels.items():
            span = self._modes[name].span
            for before, after in permutations(own, 2):
                yield Transition(_level(name, before), _level(name, after), (PACE,), None, span)

    def _all_limits(
        self, mode: s.ModeDecl, levels: Sequence[int | None]
    ) -> dict[int | None, Limits]:
        """Periods and deadlines of the apps of a state, for each of its levels."""
        return {level: dict(self._limits(mode, level)) for level in levels}

    def _limits(
        self, mode: s.ModeDecl, level: int | None
    ) -> Iterator[tuple[str, tuple[Fraction | None, Fraction | None]]]:
        """Period and deadline of the apps that run in a state, if the state changes them."""
        for name, run in self._runs[mode.name.text].items():
            written = run.period
            if level is not None and run.levels:
                written = run.levels[level]
            period = self._time("period", written)
            if written is not None and period is not None:
                self._check_period(self._apps[name], period, written.span)
            yield name, (period, self._time("deadline", run.deadline))

    def _check_period(self, app: Application, period: Fraction, span: Span) -> None:
        """A state does not change a period that follows from `every` of a source."""
        timed = next((task for task in app.tasks if task.every_ns is not None), None)
        if timed is not None and period != app.period_ns:
            notes = [Note("it follows from this source", timed.span)]
            message = f"the period of `{app.name}` is {_ms(app.period_ns)}"
            help_text = "remove `every`, and give the app a `period`"
            self._context.fault("F218", message, span, notes=notes, help=help_text)

    def _time(self, what: str, written: s.Quantity | None) -> Fraction | None:
        if written is None:
            return None
        value = self._evaluate.quantity(written.amount, written.unit, "time", f"a {what}", {})
        if value == 0:
            self._context.fault("F105", f"a {what} of 0", written.span, label="must be longer")
            return None
        return value

    def _choices(self, mode: s.ModeDecl) -> Iterator[tuple[str, str]]:
        """The variants that a state selects, or `best`."""
        seen: dict[str, Span] = {}
        for item in mode.items:
            if not isinstance(item, s.ChoiceDecl):
                continue
            name, span = self._evaluate.path(item.path), item.path[0].span.to(item.path[-1].span)
            if name in seen:
                notes = [Note("the first time", seen[name])]
                message = f"the variant of `{name}` is selected twice"
                self._context.fault("F115", message, span, notes=notes)
            elif self._can_choose(item, name, span, mode):
                seen[name] = span
                yield name, item.variant.text

    def _can_choose(self, item: s.ChoiceDecl, name: str, span: Span, mode: s.ModeDecl) -> bool:
        """Check that the network runs in that state, and has that variant."""
        app = item.path[0].name.text
        network = self._versions.networks.get(name)
        if network is None:
            self._without_variants(name, span)
            return False
        if app not in self._runs[mode.name.text]:
            message = f"`{app}` does not run in `{mode.name.text}`"
            help_text = f"add `run {app}`, or remove the selection"
            self._context.fault("F804", message, span, help=help_text)
            return False
        variant = item.variant.text
        known = [v.name.text for v in network.variants]
        if variant in (BEST, *known):
            return True
        notes = [Note("its network", network.name.span)]
        message = f"`{variant}` is no variant of `{name}`"
        help_text = did_you_mean(variant, [*known, BEST])
        help_text = help_text or f"there is {one_of(known)}, or `{BEST}`"
        self._context.fault("F804", message, item.variant.span, notes=notes, help=help_text)
        return False

    def _without_variants(self, name: str, span: Span) -> None:
        """Report a selection for something that is no network with variants."""
        networks = self._versions.networks
        is_task = any(task == name or task.startswith(f"{name}.") for task in self._tasks)
        message = f"there is no network `{name}`"
        help_text = did_you_mean(name, networks)
        if is_task:
            message, help_text = f"`{name}` has no variants", ""
        if not help_text:
            help_text = "write variants in its network"
            if networks:
                help_text = f"there is {one_of(networks)}"
        self._context.fault("F804", message, span, help=help_text)

    def _weights(self) -> dict[str, Fraction]:
        """The share of each state; states without one share the rest of 1."""
        weights: dict[str, Fraction] = {}
        for name, mode in self._modes.items():
            for item in mode.items:
                if isinstance(item, s.WeightDecl):
                    value = self._evaluate.number(item.value, {}, "a weight", 0)
                    weights[name] = value or Fraction(0)
        declared = sum(weights.values(), Fraction(0))
        others = [name for name in self._modes if name not in weights]
        if self._modes and not others and not declared and not has_errors(self._context.faults):
            self._context.fault(
                "F105", "all weights are 0", self._declaration.name.span, help="leave them out"
            )
        if others:
            share = max(Fraction(0), 1 - declared) / len(others)
            weights.update(dict.fromkeys(others, share))
        total = sum(weights.values(), Fraction(0)) or Fraction(1)
        return {name: weights[name] / total for name in self._modes}

    def _power(self, mode: s.ModeDecl) -> Fraction | None:
        """The limit on the mean power of a state, in watts."""
        powers = [i for i in mode.items if isinstance(i, s.PowerDecl)]
        return self._evaluate.power(powers, f"`{mode.name.text}` has two limits on its power")

    def _minimised(self) -> bool:
        """True if energy is minimized."""
        items = [i for i in self._declaration.items if isinstance(i, s.MinimiseDecl)]
        for item in items:
            goal = item.what
            if goal.text != "energy":
                message = f"`{goal.text}` cannot be minimized"
                help_text = (
                    "write `minimise energy`, or leave it out to minimize the maximum utilization"
                )
                self._context.fault("F105", message, goal.span, help=help_text)
        if len(items) > 1:
            message = "`minimise` is given twice"
            self._context.repeated("F115", message, items[1].span, items[0].span)
        return bool(items)

    # -- transitions -------------------------------------------------------------------------------
    def _transitions(self) -> list[Transition]:
        transitions: list[Transition] = []
        for item in self._declaration.items:
            if isinstance(item, s.TransitionDecl):
                transitions += self._all(item)
        return transitions

    def _all(self, item: s.TransitionDecl) -> Iterator[Transition]:
        """A transition from each of its states."""
        known = [self._event(path, item) for path in item.events]
        events = tuple(event for event in known if event is not None)
        after = self._time("time", item.after)
        for word in (*item.sources, item.target):
            if word.text not in self._modes and word.text not in self._context.poisoned:
                help_text = did_you_mean(word.text, self._modes)
                if self._modes and not help_text:
                    help_text = f"there is {one_of(self._modes)}"
                message = f"there is no state `{word.text}`"
                self._context.fault("F101", message, word.span, help=help_text)
        for word in item.sources:
            if word.text == item.target.text:
                message = f"`{word.text}` leads to itself"
                self._context.fault(
                    "F808", message, item.span, help="leave it out: nothing would change"
                )
            elif word.text in self._modes and item.target.text in self._modes:
                yield Transition(
                    word.text, item.target.text, events, after, item.span, item.at_once
                )

    def _event(self, path: tuple[s.Element, ...], item: s.TransitionDecl) -> str | None:
        """The event of a transition: of a task, or from outside."""
        name, span = self._evaluate.path(path), path[0].span.to(path[-1].span)
        if len(path) == 1:
            return self._event_from_outside(name, span)
        task = self._tasks.get(self._evaluate.path(path[:-1]))
        if task is None or path[-1].name.text not in task.events:
            self._no_event(path, task, span)
            return None
        app = path[0].name.text
        for word in item.sources:
            if word.text in self._modes and app not in self._runs[word.text]:
                message = f"`{name}` never happens in `{word.text}`, where `{app}` does not run"
                self._context.fault("F806", message, span, severity="warning")
        return name

    def _event_from_outside(self, name: str, span: Span) -> str | None:
        """None after a fault."""
        if name == PACE:
            message = f"`{PACE}` selects among the periods of a state, and leads to no other state"
            help_text = "give the state a list: `period [1 / 30, 1 / 20] s`"
            self._context.fault("F808", message, span, help=help_text)
            return None
        known = list(self._outside())
        if name in known:
            return name
        for task in self._tasks.values():
            known += [f"{task.name}.{event}" for event in task.events]
        help_text = did_you_mean(name, known)
        help_text = help_text or f"add `event {name}` to the scenario, or name a task's"
        self._context.fault("F806", f"there is no event `{name}`", span, help=help_text)
        return None

    def _no_event(self, path: tuple[s.Element, ...], task: Task | None, span: Span) -> None:
        if task is None:
            name = self._evaluate.path(path[:-1])
            if self._context.blamed(name):
                return
            raising = [t.name for t in self._tasks.values() if t.events]
            help_text = did_you_mean(name, raising)
            if raising and not help_text:
                help_text = f"events are raised by {listed(raising)}"
            self._context.fault("F806", f"there is no task `{name}`", span, help=help_text)
            return
        event = path[-1].name.text
        help_text = f"`{task.definition}` raises none"
        if task.events:
            help_text = f"`{task.definition}` declares {listed(task.events)}"
        help_text = did_you_mean(event, task.events) or help_text
        message = f"`{task.name}` has no event `{event}`"
        self._context.fault("F806", message, span, help=help_text)

    def _outside(self) -> dict[str, Span]:
        """Events that are raised from outside."""
        places: dict[str, Span] = {}
        for item in self._declaration.items:
            if not isinstance(item, s.EventsDecl):
                continue
            for word in item.names:
                first = places.setdefault(word.text, word.span)
                if first != word.span:
                    self._context.called_twice("events", word, first)
        return places

    def _alone(self, transitions: Sequence[Transition]) -> None:
        """An event leads from a state to one other state only."""
        seen: dict[tuple[str, str], Transition] = {}
        for transition in transitions:
            causes = {event: f"on `{event}`" for event in transition.events}
            if transition.after_ns is not None:
                causes["after"] = "twice after some time"
            for cause, when in causes.items():
                first = seen.setdefault((transition.source, cause), transition)
                if first is transition:
                    continue
                self._context.repeated(
                    "F808",
                    f"`{transition.source}` leaves to `{first.target}` and to"
                    f" `{transition.target}` {when}",
                    transition.span,
                    first.span,
                    help="one event leads to one state only",
                )

    def _unheard(self, outside: Mapping[str, Span], transitions: Sequence[Transition]) -> None:
        heard = set(chain.from_iterable(transition.events for transition in transitions))
        for name, span in outside.items():
            if name not in heard and name != PACE and not has_errors(self._context.faults):
                self._context.fault(
                    "F806", f"no transition uses `{name}`", span, severity="warning"
                )

    # -- the whole ---------------------------------------------------------------------------------
    def _unreached(self, initial: str, transitions: Sequence[Transition]) -> None:
        reached, waiting = {initial}, [initial]
        while waiting:
            state = waiting.pop()
            new = {t.target for t in transitions if t.source == state} - reached
            reached |= new
            waiting += sorted(new)
        for name, mode in self._modes.items():
            if name not in reached and not has_errors(self._context.faults):
                message = f"no transition leads to `{name}`"
                help_text = f"add one from {one_of(sorted(reached))}, or leave the state out"
                self._context.fault(
                    "F802", message, mode.name.span, help=help_text, severity="warning"
                )

    def _never_run(self) -> None:
        running = set(chain.from_iterable(self._runs.values()))
        for name, app in self._apps.items():
            if name not in running and not has_errors(self._context.faults):
                help_text = "add `run` to a state, or leave the app out"
                self._context.fault(
                    "F803", f"`{name}` never runs", app.span, help=help_text, severity="warning"
                )

    def _cannot_change(self) -> None:
        """Report apps that cannot be stopped between two frames and restarted later."""
        for app in self._apps.values():
            for task in app.tasks:
                if task.border is not None:
                    self._refuse("open ends", app, task)
                elif task.link is not None and not task.link.latest and not task.link.writes:
                    self._refuse("`drop oldest`", app, task)

    def _refuse(self, feature: str, app: Application, task: Task) -> None:
        self._context.report(refusal(feature, "states").at(task.span, {"app": app.name}))

    def _check_at_once(self, transitions: Iterable[Transition], states: Iterable[State]) -> None:
        """Transitions can be made at once where they say so, whichever variants are the best."""
        by_name = {state.name: state for state in states}
        for transition in transitions:
            if not transition.at_once:
                continue
            reason = _any_hindrance(by_name[transition.source], by_name[transition.target])
            if reason is not None:
                why, remedy = reason
                message = f"it cannot be made at once: {why}"
                self._context.fault("F811", message, transition.span, help=remedy)


def _any_hindrance(source: State, target: State) -> Hindrance | None:
    """The first one, with any variants that both may have."""
    for before in every_option(source):
        for after in every_option(target):
            reason = hindrance(before, after)
            if reason is not None:
                return reason
    return None


def _level(state: str, level: int | None) -> str:
    """The name of a level of a state."""
    return state if level is None else f"{state}[{level}]"


def _ms(ns: Fraction | None) -> str:
    return f"{float(ns or 0) / 1e6:g} ms"
