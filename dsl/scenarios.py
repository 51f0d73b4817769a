"""Scenarios: states that run some apps each, with periods and variants of networks of their own,
and transitions.

In: the declaration, the flat apps of the text, and a function that gives them with other variants.
Out: a scenario whose states are plain systems, or None after faults; all faults are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations

from ..model.application import Application, Task
from ..model.diagnostic import Note, did_you_mean, has_errors, listed, one_of
from ..model.scenario import Option, Scenario, State, Transition
from ..model.span import Span
from . import syntax as s
from .at_once import every_option, hindrance
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
        self._tasks = {t.name: t for a in apps for t in a.tasks}
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
        limits = {
            (name, k): dict(self._limits(mode, k))
            for name, mode in self._modes.items()
            for k in levels[name]
        }
        transitions = [
            t
            for item in declaration.items
            if isinstance(item, s.TransitionDecl)
            for t in self._all(item)
        ]
        self._alone(transitions)
        self._unheard(outside, transitions)
        weights = self._weights()
        powers = {name: self._power(mode) for name, mode in self._modes.items()}
        least_energy = self._minimised()
        self._never_run()
        if initial is not None:
            self._unreached(initial, transitions)
        self._cannot_change()
        if initial is None or has_errors(self._context.faults):
            return None
        states: list[State] = []
        for name in self._modes:
            state = State(
                name,
                (),
                weights[name] / len(levels[name]),
                self._modes[name].name.span,
                powers[name],
            )
            best = wanted(choices[name])
            states += self._levels_of(
                state, best, variants[name], {k: limits[name, k] for k in levels[name]}
            )
        transitions = list(self._between_levels(transitions, levels))
        initial = _level(initial, levels[initial][0])
        by_name = {s.name: s for s in states}
        for transition in transitions:
            if transition.at_once:
                self._require_possible(transition, by_name)
        if has_errors(self._context.faults):
            return None
        names = tuple(outside)
        return Scenario(
            declaration.name.text,
            names,
            initial,
            tuple(states),
            tuple(transitions),
            declaration.name.span,
            least_energy,
        )

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
                Option(self._with(state.name, apps, own), accuracy) for apps, accuracy in versions
            )
            name = _level(state.name, level)
            made = replace(state, name=name, apps=options[0].apps, level=level)
            yield replace(made, best=best, options=options) if best else made

    def _with(
        self, state: str, apps: Sequence[Application], limits: Limits
    ) -> tuple[Application, ...]:
        """The apps of a state, with its periods and variants."""
        found = []
        for app in apps:
            if app.name in self._runs[state]:
                period, deadline = limits[app.name]
                found.append(
                    replace(
                        app,
                        period_ns=period or app.period_ns,
                        deadline_ns=deadline or app.deadline_ns,
                    )
                )
        return tuple(found)

    # -- states ------------------------------------------------------------------------------------
    def _find_states(self) -> None:
        for item in self._declaration.items:
            if not isinstance(item, s.ModeDecl):
                continue
            first = self._modes.setdefault(item.name.text, item)
            if first is not item:
                self._context.called_twice("states", item.name, first.name.span)

    def _initial(self) -> str | None:
        found = [m for m in self._modes.values() if m.initial]
        if len(found) == 1:
            return found[0].name.text
        name = self._declaration.name
        if found:
            notes = [Note("another one", m.name.span) for m in found[1:]]
            help_text = "keep `initial` at one of them only"
            message = f"`{name.text}` has {len(found)} initial states"
            self._context.fault("F801", message, found[0].name.span, notes=notes, help=help_text)
        else:
            help_text = (
                "write `initial` in front of one of its states"
                if self._modes
                else "add `initial state NAME { run App }`"
            )
            self._context.fault(
                "F801", f"`{name.text}` has no initial state", name.span, help=help_text
            )
        return None

    def _running(self, mode: s.ModeDecl) -> Iterator[tuple[str, s.RunDecl]]:
        """The apps of a state."""
        seen: dict[str, Span] = {}
        for item in mode.items:
            for word in item.apps if isinstance(item, s.RunDecl) else ():
                if word.text in seen:
                    notes = [Note("the first time", seen[word.text])]
                    self._context.fault(
                        "F115", f"`{word.text}` is run twice", word.span, notes=notes
                    )
                elif word.text in self._apps:
                    seen[word.text] = word.span
                    assert isinstance(item, s.RunDecl)
                    yield word.text, item
                elif word.text not in self._context.poisoned:
                    help_text = (
                        did_you_mean(word.text, self._apps) or f"there is {one_of(self._apps)}"
                    )
                    self._context.fault(
                        "F101", f"there is no app `{word.text}`", word.span, help=help_text
                    )
        if not any(isinstance(item, s.RunDecl) for item in mode.items):
            message = f"state `{mode.name.text}` runs no app"
            self._context.fault("F215", message, mode.name.span, help="add `run App`")

    def _levels(self, mode: s.ModeDecl, outside: Mapping[str, Span]) -> tuple[int | None, ...]:
        """The levels of a state whose periods are lists; `[None]` without lists."""
        lists = [i for i in mode.items if isinstance(i, s.RunDecl) and i.levels]
        if not lists:
            return (None,)
        for run in lists:
            periods = [self._time("period", q) for q in run.levels]
            span = run.levels[0].span.to(run.levels[-1].span)
            if any(a is not None and b is not None and a >= b for a, b in pairwise(periods)):
                help_text = "write the shortest one first"
                self._context.fault(
                    "F105", f"the periods of `{mode.name.text}` do not rise", span, help=help_text
                )
            if len(run.levels) != len(lists[0].levels):
                notes = [Note("the first list", lists[0].span)]
                message = (
                    f"`{mode.name.text}` has lists of {len(lists[0].levels)} and of"
                    f" {len(run.levels)} periods"
                )
                self._context.fault(
                    "F105",
                    message,
                    span,
                    notes=notes,
                    help="all lists change together: give them one length",
                )
        if PACE not in outside:
            message = f"no event selects among the periods of `{mode.name.text}`"
            help_text = (
                f"add `event {PACE}` to the scenario: raised with a rate, it selects the slowest"
                " sufficient one"
            )
            self._context.fault("F105", message, lists[0].span, help=help_text)
        return tuple(range(min(len(run.levels) for run in lists)))

    def _between_levels(
        self, transitions: Sequence[Transition], levels: Mapping[str, tuple[int | None, ...]]
    ) -> Iterator[Transition]:
        """The transitions of every level, to every level; and those between the levels of a
        state."""
        for t in transitions:
            for a in levels[t.source]:
                for b in levels[t.target]:
                    yield replace(t, source=_level(t.source, a), target=_level(t.target, b))
        for name, own in levels.items():
            for a, b in permutations(own, 2):
                yield Transition(
                    _level(name, a), _level(name, b), (PACE,), None, self._modes[name].span
                )

    def _limits(
        self, mode: s.ModeDecl, level: int | None
    ) -> Iterator[tuple[str, tuple[Fraction | None, Fraction | None]]]:
        """Period and deadline of the apps that run in a state, if the state changes them."""
        for name, run in self._runs[mode.name.text].items():
            given = run.levels[level] if level is not None and run.levels else run.period
            period, deadline = (
                self._time(w, q) for w, q in (("period", given), ("deadline", run.deadline))
            )
            timed = next((t for t in self._apps[name].tasks if t.every_ns is not None), None)
            if period is not None and timed is not None and period != self._apps[name].period_ns:
                assert given is not None
                notes = [Note("it follows from this source", timed.span)]
                message = f"the period of `{name}` is {_ms(self._apps[name].period_ns)}"
                help_text = "remove `every`, and give the app a `period`"
                self._context.fault("F218", message, given.span, notes=notes, help=help_text)
            yield name, (period, deadline)

    def _time(self, what: str, given: s.Quantity | None) -> Fraction | None:
        if given is None:
            return None
        value = self._evaluate.quantity(given.amount, given.unit, "time", f"a {what}", {})
        if value == 0:
            self._context.fault("F105", f"a {what} of 0", given.span, label="must be longer")
            return None
        return value

    def _choices(self, mode: s.ModeDecl) -> Iterator[tuple[str, str]]:
        """The variants that a state selects, or `best`."""
        networks, seen = self._versions.networks, dict[str, Span]()
        for item in mode.items:
            if not isinstance(item, s.ChoiceDecl):
                continue
            name, span = self._evaluate.path(item.path), item.path[0].span.to(item.path[-1].span)
            app = item.path[0].name.text
            if name in seen:
                notes = [Note("the first time", seen[name])]
                self._context.fault(
                    "F115", f"the variant of `{name}` is selected twice", span, notes=notes
                )
            elif name not in networks:
                there = any(t == name or t.startswith(f"{name}.") for t in self._tasks)
                help_text = "" if there else did_you_mean(name, networks)
                help_text = help_text or (
                    f"there is {one_of(networks)}" if networks else "write variants in its network"
                )
                message = f"`{name}` has no variants" if there else f"there is no network `{name}`"
                self._context.fault("F804", message, span, help=help_text)
            elif app not in self._runs[mode.name.text]:
                message = f"`{app}` does not run in `{mode.name.text}`"
                self._context.fault(
                    "F804", message, span, help=f"add `run {app}`, or remove the selection"
                )
            elif item.variant.text != BEST and item.variant.text not in (
                known := [v.name.text for v in networks[name].variants]
            ):
                notes = [Note("its network", networks[name].name.span)]
                help_text = (
                    did_you_mean(item.variant.text, [*known, BEST])
                    or f"there is {one_of(known)}, or `{BEST}`"
                )
                message = f"`{item.variant.text}` is no variant of `{name}`"
                self._context.fault("F804", message, item.variant.span, notes=notes, help=help_text)
            else:
                seen[name] = span
                yield name, item.variant.text

    def _weights(self) -> dict[str, Fraction]:
        """The share of each state; states without one share the rest of 1."""
        found: dict[str, Fraction] = {}
        for name, mode in self._modes.items():
            for item in mode.items:
                if isinstance(item, s.WeightDecl):
                    value = self._evaluate.number(item.value, {}, "a weight", 0)
                    found[name] = value if value is not None else Fraction(0)
        given, open_ = sum(found.values(), Fraction(0)), [n for n in self._modes if n not in found]
        if self._modes and not open_ and not given and not has_errors(self._context.faults):
            self._context.fault(
                "F105", "all weights are 0", self._declaration.name.span, help="leave them out"
            )
        rest = max(Fraction(0), 1 - given) / len(open_) if open_ else Fraction(0)
        total = given + rest * len(open_) or Fraction(1)
        return {n: found.get(n, rest) / total for n in self._modes}

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
    def _all(self, item: s.TransitionDecl) -> Iterator[Transition]:
        """A transition from each of its states."""
        events = tuple(e for path in item.events if (e := self._event(path, item)) is not None)
        after = self._time("time", item.after)
        for word in (*item.sources, item.target):
            if word.text not in self._modes and word.text not in self._context.poisoned:
                help_text = did_you_mean(word.text, self._modes) or (
                    f"there is {one_of(self._modes)}" if self._modes else ""
                )
                self._context.fault(
                    "F101", f"there is no state `{word.text}`", word.span, help=help_text
                )
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
        outside = self._outside()
        if len(path) == 1:
            if name == PACE:
                message = (
                    f"`{PACE}` selects among the periods of a state, and leads to no other state"
                )
                self._context.fault(
                    "F808", message, span, help="give the state a list: `period [1 / 30, 1 / 20] s`"
                )
                return None
            if name in outside:
                return name
            raised = [f"{t.name}.{e}" for t in self._tasks.values() for e in t.events]
            help_text = (
                did_you_mean(name, [*outside, *raised])
                or f"add `event {name}` to the scenario, or name a task's"
            )
            self._context.fault("F806", f"there is no event `{name}`", span, help=help_text)
            return None
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

    def _no_event(self, path: tuple[s.Element, ...], task: Task | None, span: Span) -> None:
        if path[0].name.text in self._context.poisoned:
            return
        if task is None:
            name = self._evaluate.path(path[:-1])
            raising = [t.name for t in self._tasks.values() if t.events]
            help_text = did_you_mean(name, raising) or (
                f"events are raised by {listed(raising)}" if raising else ""
            )
            self._context.fault("F806", f"there is no task `{name}`", span, help=help_text)
            return
        what = (
            f"`{task.definition}` declares {listed(task.events)}"
            if task.events
            else f"`{task.definition}` raises none"
        )
        help_text = did_you_mean(path[-1].name.text, task.events) or what
        self._context.fault(
            "F806", f"`{task.name}` has no event `{path[-1].name.text}`", span, help=help_text
        )

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
        heard = {e for t in transitions for e in t.events}
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
        running = {name for apps in self._runs.values() for name in apps}
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
                    message = f"`{app.name}` has open ends, so it is not known when its frames end"
                    self._context.fault(
                        "F811", message, task.span, help="leave it out of a text with a scenario"
                    )
                elif task.link is not None and not task.link.latest and not task.link.writes:
                    message = f"`{app.name}` waits for another app, which may have stopped"
                    self._context.fault(
                        "F811", message, task.span, help="read the newest token: `-> latest ->`"
                    )

    def _require_possible(self, transition: Transition, states: Mapping[str, State]) -> None:
        """Check that it can be made at once, whichever variants are the best ones."""
        source, target = states[transition.source], states[transition.target]
        found = next(
            (
                h
                for a in every_option(source)
                for b in every_option(target)
                if (h := hindrance(a, b))
            ),
            None,
        )
        if found is not None:
            self._context.fault(
                "F811", f"it cannot be made at once: {found[0]}", transition.span, help=found[1]
            )


def _level(state: str, level: int | None) -> str:
    """The name of a level of a state."""
    return state if level is None else f"{state}[{level}]"


def _ms(ns: Fraction | None) -> str:
    return f"{float(ns or 0) / 1e6:g} ms"
