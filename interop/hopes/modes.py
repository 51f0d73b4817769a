"""The modes of a task (MTM) beside each other: an app for each, and a scenario that changes between
them.

In: a project, and the text of its first modes. Out: a text that uses that one, with another app of
the task for every further mode (`App_MODE`), with the mode's rates, tasks and code. Each has a
state of its own. A transition becomes an event of the same name, because flowc does not know the
conditions of HOPES.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ..names import capitalised, identifiers, listed, reserved_words, shown
from .choice import part_of
from .code import held_by, sources_of
from .design import HopesTask, Way, every
from .files import HopesCollector, HopesProject
from .groups import ConnectedTasks, Flow, flow_of
from .networks import HopesNetwork
from .tasks import graph_of
from .text import Naming, Texts, texts_of
from .wrapper import wrapped


@dataclass(frozen=True, slots=True)
class Modes:
    """`text` is empty if no task has several modes; `code` has the C files of further modes,
    `stubs` those to fill in."""

    text: str = ""
    code: Mapping[str, str | bytes] = field(default_factory=dict)
    stubs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Mode:
    """A further mode: its declarations and apps."""

    lines: tuple[str, ...]
    apps: tuple[str, ...]
    declared: frozenset[str]
    code: Mapping[str, str | bytes]
    stubs: tuple[str, str]


def modes_of(
    project: HopesProject,
    stem: str,
    tasks: Mapping[Way, HopesTask],
    networks: Mapping[Way, HopesNetwork],
    flow: Flow,
    first: Texts,
    say: HopesCollector,
) -> Modes:
    """The modes of the first task that has several; `first` is the text of the first modes."""
    way = _first_of_several(tasks, flow, say)
    if way is None:
        return Modes()
    task = tasks[way]
    group, app = _app_of(way, flow, first)
    if group is None or _sees_newest(group, flow):
        what = (
            "its modes do not stand beside each other, as its app and others see the newest tokens"
            " of each other"
        )
        say.warn_together(task.name, what, task.span, "`--mode TASK=MODE` imports one of them")
        return Modes()
    made: dict[str, _Mode] = {}
    taken = first.declared
    for mode, called in zip(task.modes[1:], identifiers(task.modes[1:], "mode"), strict=True):
        naming = Naming(f"{stem}_{called}", app, f"_{called}", taken)
        each = _mode(project, way, mode, group, networks, naming, say)
        if each is not None:
            made[mode] = each
            taken |= each.declared
    if not made:
        return Modes()
    rest = [a for a in first.apps if a != app]
    states = {task.modes[0]: (app, *rest)}
    lines = [
        (
            f"// The modes of {shown('_'.join(way))} of the HOPES project {shown(project.name)}: an"
            " app for each of them."
        ),
        f'use "{stem}.flow"',
    ]
    code: dict[str, bytes | str] = {}
    stubs = {}
    for mode, each in made.items():
        states[mode] = (*each.apps, *rest)
        lines += each.lines
        code |= each.code
        file, text = each.stubs
        if text:
            stubs[file] = text
    lines += _scenario(task, states, taken, say)
    return Modes("\n".join(lines) + "\n", code, stubs)


def _first_of_several(
    tasks: Mapping[Way, HopesTask], flow: Flow, say: HopesCollector
) -> Way | None:
    """The first task with several modes; None if there is none."""
    several = [way for way, task in tasks.items() if len(task.modes) > 1 and way in flow.tasks]
    if not several:
        return None
    first, *others = several
    if others:
        names = listed("_".join(way) for way in others)
        taken = shown(tasks[first].name)
        say.warn(
            f"modes of {names} do not stand beside each other: those of {taken} do",
            tasks[others[0]].span,
        )
    return first


def _sees_newest(group: ConnectedTasks, flow: Flow) -> bool:
    """Has an app a channel to or from another one?"""
    for channel in flow.newest:
        if channel.source[0] in group.tasks or channel.destination[0] in group.tasks:
            return True
    return False


def _app_of(way: Way, flow: Flow, texts: Texts) -> tuple[ConnectedTasks | None, str]:
    """The group of a task, and the name of its app."""
    for group, app in zip(flow.groups, texts.apps, strict=True):
        if way[0] in group.tasks:
            return group, app
    return None, ""


def _mode(
    project: HopesProject,
    way: Way,
    mode: str,
    group: ConnectedTasks,
    networks: Mapping[Way, HopesNetwork],
    naming: Naming,
    say: HopesCollector,
) -> _Mode | None:
    """The app of a group in a mode; None, with a warning, if that is faulty."""
    part = HopesCollector()
    whole = graph_of(project, part, {"_".join(way): mode})
    if whole is None:
        raise part.errors()  # it was read before
    graph = part_of(whole, group.tasks)
    tasks = every(graph)
    sources = sources_of(project, graph, tasks, part)
    flow = None
    if graph.tasks:
        flow = flow_of(graph, part, held_by(sources))
    if part.faults or flow is None:
        why = "nothing fires in it"
        if part.faults:
            why = part.faults[0].message
        say.warn(f"mode {shown(mode)} of {shown('_'.join(way))} is left out: {why}", graph.span)
        return None
    code = wrapped(graph.name, naming.stem, sources, flow)
    there = {w: network for w, network in networks.items() if w in tasks}
    texts = texts_of(graph.name, flow, there, code, (), naming)
    lines = ("", f"// Mode {shown(mode)}.", *texts.application.strip("\n").split("\n"))
    stubs = (naming.stubs, texts.stubs)
    return _Mode(lines, texts.apps, texts.declared, code.files, stubs)


def _changes(task: HopesTask, modes: Collection[str]) -> list[tuple[str, str, str]]:
    """The transitions between imported modes: event, source and target."""
    stated = []
    for event, source, target in task.changes:
        if source in modes and target in modes and source != target:
            stated.append((event, source, target))
    if stated:
        return stated
    # then its code changes modes: any transition is possible
    return [(f"to_{target}", source, target) for source, target in _pairs(modes)]


def _pairs(modes: Collection[str]) -> Iterator[tuple[str, str]]:
    for target in modes:
        for source in modes:
            if source != target:
                yield source, target


def _scenario(
    task: HopesTask,
    states: Mapping[str, tuple[str, ...]],
    taken: frozenset[str],
    say: HopesCollector,
) -> Iterator[str]:
    """A state for each mode, the first one initial."""
    reserved = {*reserved_words(), *taken}
    names = dict(zip(states, identifiers(states, "mode", reserved), strict=True))
    (name,) = identifiers([f"{capitalised(task.name, 'modes')}Modes"], "modes", reserved)
    changes = _changes(task, names)
    wanted = list(dict.fromkeys(event for event, _, _ in changes))
    events = dict(
        zip(wanted, identifiers(wanted, "event", {*reserved, *names.values()}), strict=True)
    )
    yield ""
    yield "// Events stand for transitions: in HOPES they have conditions, or code decides."
    yield f"scenario {name} {{"
    if events:
        yield f"    event {', '.join(events.values())}"
    for mode, run in states.items():
        initial = "initial " if mode == task.modes[0] else ""
        yield f"    {initial}state {names[mode]} {{ run {', '.join(run)} }}"
    for event, source, target in changes:
        yield f"    {names[source]} -> {names[target]} on {events[event]}"
    yield "}"
    if events:
        what = "its changes of modes are not imported: each transition is an event to be raised"
        say.warn_together(task.name, what, task.span)
