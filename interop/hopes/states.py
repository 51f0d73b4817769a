"""The states of a control task as a scenario: a text that uses that of the application, beside it.

In: the machines of control tasks, and the apps. Out: the text; empty if no state lists its
applications. Apps in no list run in each state. A transition after a time is kept, and any other
one becomes an event of the same name, because flowc does not know the conditions of HOPES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..names import capitalised, identifiers, listed, reserved_words, shown
from .choice import ModeMachine
from .files import HopesCollector
from .groups import ConnectedTasks
from .text import in_units


def scenario_text(
    machines: Sequence[ModeMachine],
    groups: Sequence[ConnectedTasks],
    apps: Sequence[str],
    use: str,
    project: str,
    say: HopesCollector,
) -> str:
    """The scenario of the one machine whose states name applications. `apps` are the names of the
    groups."""
    of_apps = [m for m in machines if any(m.states.values())]
    if not of_apps:
        return ""
    machine, *others = of_apps
    if others:
        names = listed(m.control for m in others)
        say.warn(
            f"the states of {names} are not imported: those of {shown(machine.control)} are",
            others[0].span,
        )
    runs = dict(_runs(machine, groups, apps, say))
    empty = [state for state in machine.states if not runs[state]]
    if empty:
        say.warn(
            f"{listed(empty)} of {shown(machine.control)}: a state in which nothing runs is"
            " left out",
            machine.span,
        )
    about = (
        f"// The states of {shown(machine.control)} of the HOPES project {shown(project)}, and"
        " which apps run in them."
    )
    lines = [about, *_scenario(machine, runs, apps, use, say)]
    return "\n".join(lines) + "\n"


def _scenario(
    machine: ModeMachine,
    runs: Mapping[str, list[str]],
    apps: Sequence[str],
    use: str,
    say: HopesCollector,
) -> Iterator[str]:
    """The lines of the text; `runs` has the apps of each state."""
    there = [state for state in machine.states if runs[state]]
    reserved = {*reserved_words(), *apps}
    names = dict(zip(there, identifiers(there, "state", reserved), strict=True))
    events, transitions = _transitions(machine, names, say)
    (name,) = identifiers([capitalised(machine.control, "states")], "states", reserved)
    if events:
        yield (
            "// Events stand for transitions: in HOPES they have conditions that are not imported."
        )
    yield f'use "{use}"'
    yield ""
    yield f"scenario {name} {{"
    if events:
        yield f"    event {', '.join(events)}"
    initial = _initial(machine, there)
    for state in there:
        word = "initial state" if state == initial else "state"
        yield f"    {word} {names[state]} {{ run {', '.join(runs[state])} }}"
    for line in transitions:
        yield f"    {line}"
    yield "}"


def _runs(
    machine: ModeMachine, groups: Sequence[ConnectedTasks], apps: Sequence[str], say: HopesCollector
) -> Iterator[tuple[str, list[str]]]:
    """The apps of each state."""
    anywhere = set().union(*machine.states.values())
    for state, tasks in machine.states.items():
        running = []
        for group, app in zip(groups, apps, strict=True):
            # Of the tasks of some state.
            switched = anywhere.intersection(group.tasks)
            here = switched.intersection(tasks)
            if here or not switched:
                running.append(app)
                if here != switched:
                    what = f"in state {shown(state)} HOPES runs a part of it, flowc all of it"
                    say.warn_together(app, what, machine.span, "connected tasks run together")
        yield state, running


def _initial(machine: ModeMachine, there: Sequence[str]) -> str:
    """The state at the start, or the first one after it in which something runs."""
    seen: list[str] = []
    waiting = [machine.initial]
    while waiting:
        state = waiting.pop(0)
        if state in there:
            return state
        seen.append(state)
        for t in machine.transitions:
            if t.source == state and t.target not in seen:
                waiting.append(t.target)
    return there[0]


def _transitions(
    machine: ModeMachine, names: dict[str, str], say: HopesCollector
) -> tuple[list[str], list[str]]:
    """The events, and the lines of transitions between existing states."""
    timed: set[str] = set()
    lines: list[str] = []
    asked = []
    for t in machine.transitions:
        if t.source not in names or t.target not in names or t.source == t.target:
            continue
        if t.after_ns is None:
            asked.append(t)
        elif t.source not in timed:
            timed.add(t.source)
            lines.append(f"{names[t.source]} -> {names[t.target]} after {in_units(t.after_ns)}")
        else:
            say.warn(
                f"{shown(t.source)} is left after a time twice: the first one counts", machine.span
            )
    events = identifiers((t.name for t in asked), "event", {*reserved_words(), *names.values()})
    for t, event in zip(asked, events, strict=True):
        lines.append(f"{names[t.source]} -> {names[t.target]} on {event}")
    if asked:
        what = "transitions have conditions that are not imported: each is an event to be raised"
        say.warn_together(machine.control, what, machine.span)
    return events, lines
