"""The states of a control task as a scenario: a text that uses that of the application, beside it.

In: the machines of control tasks, and the apps. Out: the text; empty if no state lists its
applications. Apps in no list run in each state. A transition after a time is kept, and any other
one becomes an event of the same name, because flowc does not know the conditions of HOPES.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    told = [m for m in machines if any(m.states.values())]
    if not told:
        return ""
    if len(told) > 1:
        names = listed(m.control for m in told[1:])
        say.warn(
            f"the states of {names} are not imported: those of {shown(told[0].control)} are",
            told[1].span,
        )
    machine = told[0]
    runs = dict(_runs(machine, groups, apps, say))
    empty = [state for state in machine.states if not runs[state]]
    if empty:
        say.warn(
            f"{listed(empty)} of {shown(machine.control)}: a state in which nothing runs is"
            " left out",
            machine.span,
        )
    there = [state for state in machine.states if runs[state]]
    reserved = {*reserved_words(), *apps}
    names_ = dict(zip(there, identifiers(there, "state", reserved), strict=True))
    events, lines = _transitions(machine, names_, say)
    initial = _initial(machine, there)
    (name,) = identifiers([capitalised(machine.control, "states")], "states", {*reserved, *apps})
    head = [
        f"// The states of {shown(machine.control)} of the HOPES project {shown(project)}, and"
        " which apps run in them."
    ]
    if events:
        head.append(
            "// Events stand for transitions: in HOPES they have conditions that are not imported."
        )
    head += [f'use "{use}"', "", f"scenario {name} {{"]
    if events:
        head.append(f"    event {', '.join(events)}")
    states = []
    for state in there:
        word = "initial state" if state == initial else "state"
        states.append(f"    {word} {names_[state]} {{ run {', '.join(runs[state])} }}")
    return "\n".join([*head, *states, *(f"    {line}" for line in lines), "}"]) + "\n"


def _runs(
    machine: ModeMachine, groups: Sequence[ConnectedTasks], apps: Sequence[str], say: HopesCollector
) -> Iterator[tuple[str, list[str]]]:
    """The apps of each state."""
    anywhere = {task for tasks in machine.states.values() for task in tasks}
    for state, tasks in machine.states.items():
        found = []
        for group, app in zip(groups, apps, strict=True):
            here = [task for task in group.tasks if task in tasks or task not in anywhere]
            if any(task in tasks for task in group.tasks) or not anywhere & {*group.tasks}:
                found.append(app)
                if len(here) < len(group.tasks):
                    what = f"in state {shown(state)} HOPES runs a part of it, flowc all of it"
                    say.warn_together(app, what, machine.span, "connected tasks run together")
        yield state, found


def _initial(machine: ModeMachine, there: Sequence[str]) -> str:
    """The state at the start, or the first one after it in which something runs."""
    seen: list[str] = []
    waiting = [machine.initial]
    while waiting:
        state = waiting.pop(0)
        if state in there:
            return state
        seen.append(state)
        waiting += [
            t.target for t in machine.transitions if t.source == state and t.target not in seen
        ]
    return there[0]


def _transitions(
    machine: ModeMachine, names: dict[str, str], say: HopesCollector
) -> tuple[list[str], list[str]]:
    """The events, and the lines of transitions between existing states."""
    known = [
        t
        for t in machine.transitions
        if t.source in names and t.target in names and t.source != t.target
    ]
    timed: set[str] = set()
    lines: list[str] = []
    asked = []
    for t in known:
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
    lines += [
        f"{names[t.source]} -> {names[t.target]} on {e}" for t, e in zip(asked, events, strict=True)
    ]
    if asked:
        what = "transitions have conditions that are not imported: each is an event to be raised"
        say.warn_together(machine.control, what, machine.span)
    return events, lines
