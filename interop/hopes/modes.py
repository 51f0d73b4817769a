"""The modes of a task (MTM) beside each other: an app for each, and a scenario that changes between
them.

In: a project, and the text of its first modes. Out: a text that uses that one, with another app of
the task for every further mode (`App_MODE`), with the mode's rates, tasks and code. Each has a
state of its own. A transition becomes an event of the same name, because flowc does not know the
conditions of HOPES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..names import capitalised, identifiers, listed, reserved_words, shown
from .choice import part_of
from .code import sources_of
from .counts import Place
from .design import HopesTask, Way, every
from .files import HopesCollector, HopesProject
from .groups import ConnectedTasks, Flow, flow_of
from .networks import HopesNetwork
from .tasks import graph_of
from .text import Texts, texts_of
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
    several = {
        way: task for way, task in tasks.items() if len(task.modes) > 1 and way in flow.tasks
    }
    if not several:
        return Modes()
    (way, task), *others = several.items()
    if others:
        names = listed("_".join(other) for other, _ in others)
        say.warn(
            f"modes of {names} do not stand beside each other: those of {shown(task.name)} do",
            others[0][1].span,
        )
    group, app = _app_of(way, flow, first)
    ends = {end[0] for c in flow.newest for end in (c.source, c.destination)}
    if group is None or ends & {*group.tasks}:
        what = (
            "its modes do not stand beside each other, as its app and others see the newest tokens"
            " of each other"
        )
        say.warn_together(task.name, what, task.span, "`--mode TASK=MODE` imports one of them")
        return Modes()
    made: dict[str, _Mode] = {}
    taken = first.declared
    for mode, called in zip(task.modes[1:], identifiers(task.modes[1:], "mode"), strict=True):
        own = _Names(f"{stem}_{called}", app, f"_{called}", taken)
        each = _mode(project, way, mode, group, networks, own, say)
        if each is not None:
            made[mode] = each
            taken |= each.declared
    if not made:
        return Modes()
    rest = [a for a in first.apps if a != app]
    states = {task.modes[0]: (app, *rest)}
    states |= {mode: (*each.apps, *rest) for mode, each in made.items()}
    lines = [
        (
            f"// The modes of {shown('_'.join(way))} of the HOPES project {shown(project.name)}: an"
            " app for each of them."
        ),
        f'use "{stem}.flow"',
    ]
    code: dict[str, bytes | str] = {}
    for each in made.values():
        lines += each.lines
        code |= each.code
    lines += _scenario(task, states, taken, say)
    stubs = dict(each.stubs for each in made.values() if each.stubs[1])
    return Modes("\n".join(lines) + "\n", code, stubs)


def _app_of(way: Way, flow: Flow, texts: Texts) -> tuple[ConnectedTasks | None, str]:
    """The group of a task, and the name of its app."""
    for group, app in zip(flow.groups, texts.apps, strict=True):
        if way[0] in group.tasks:
            return group, app
    return None, ""


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of a mode: its files begin with `stem`, its declarations end with `suffix` and avoid
    those that are `taken`."""

    stem: str
    app: str
    suffix: str
    taken: frozenset[str]


def _mode(
    project: HopesProject,
    way: Way,
    mode: str,
    group: ConnectedTasks,
    networks: Mapping[Way, HopesNetwork],
    own: _Names,
    say: HopesCollector,
) -> _Mode | None:
    """The app of a group in a mode; None, with a warning, if that is faulty."""
    part = HopesCollector()
    graph = graph_of(project, part, {"_".join(way): mode})
    assert graph is not None  # it was read before
    graph = part_of(graph, group.tasks)
    tasks = every(graph)
    sources = sources_of(project, graph, tasks, part)
    held: dict[Place, int] = {
        (w, "in", port): n for w, s in sources.items() for port, n in s.held.items()
    }
    flow = flow_of(graph, part, held) if graph.tasks else None
    if part.faults or flow is None:
        why = part.faults[0].message if part.faults else "nothing fires in it"
        say.warn(f"mode {shown(mode)} of {shown('_'.join(way))} is left out: {why}", graph.span)
        return None
    code = wrapped(graph.name, own.stem, sources, flow)
    stubs = f"{own.stem}_tasks.py"
    there = {w: network for w, network in networks.items() if w in tasks}
    texts = texts_of(
        graph.name,
        flow,
        there,
        code,
        (),
        stubs,
        app=own.app,
        suffix=own.suffix,
        taken=own.taken,
    )
    lines = ("", f"// Mode {shown(mode)}.", *texts.application.strip("\n").split("\n"))
    return _Mode(lines, texts.apps, texts.declared, code.files, (stubs, texts.stubs))


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
    changes = [(n, a, b) for n, a, b in task.changes if a in names and b in names and a != b]
    if not changes:  # then its code changes modes: any transition is possible
        changes = [(f"to_{b}", a, b) for b in names for a in names if a != b]
    wanted = list(dict.fromkeys(n for n, _, _ in changes))
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
