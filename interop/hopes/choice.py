"""The imported part of a HOPES project, if not all of it: a mode of each task with modes, a state,
a device.

In: the graphs of a project, and the user's choice. Out: graphs with that part only. The machine of
a control task defines the tasks of a state, the mapping those of a device: both are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ...model.diagnostic import Diagnostic, did_you_mean, one_of
from ...model.span import Span
from ..names import listed, shown
from .design import Direction, HopesChannel, HopesGraph, HopesPort, HopesTask, Way, every
from .files import HopesCollector

#: Diagnostic: the project has no part of that name.
UNKNOWN = "F727"


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """`modes` by the full name of a task; None for a state or a device: all of them."""

    modes: dict[str, str] = field(default_factory=dict)
    state: str | None = None
    device: str | None = None

    @property
    def whole(self) -> bool:
        """Are all tasks imported, in some mode?"""
        return self.state is None and self.device is None


@dataclass(frozen=True, slots=True)
class ModeTransition:
    """From one state to another, after a time if that is its only condition."""

    name: str
    source: str
    target: str
    after_ns: Fraction | None


@dataclass(frozen=True, slots=True)
class ModeMachine:
    """The states of a control task, with the tasks of the top level that each of them runs."""

    control: str
    states: Mapping[str, tuple[str, ...]]
    initial: str
    transitions: tuple[ModeTransition, ...]
    span: Span


def check_modes(graph: HopesGraph, choice: ModeChoice, say: HopesCollector) -> None:
    """Report chosen tasks and modes that do not exist."""
    there = {"_".join(way): task.modes for way, task in every(graph).items() if task.modes}
    for task, mode in choice.modes.items():
        if task not in there:
            help_text = did_you_mean(task, there) or (f"there is {one_of(there)}" if there else "")
            _unknown(say, f"there is no task {shown(task)} with modes", help_text)
        elif mode not in there[task]:
            help_text = did_you_mean(mode, there[task]) or f"there is {one_of(there[task])}"
            _unknown(say, f"{shown(task)} has no mode {shown(mode)}", help_text)


def in_state(
    graph: HopesGraph, machines: tuple[ModeMachine, ...], state: str, say: HopesCollector
) -> HopesGraph:
    """The tasks of a state: those that it names, and those that no state names."""
    there = [name for machine in machines for name in machine.states]
    if state not in there:
        help_text = did_you_mean(state, there)
        if not help_text and there:
            help_text = f"there is {one_of(dict.fromkeys(there))}"
        _unknown(say, f"there is no state {shown(state)}", help_text)
        return graph
    of_states: set[str] = set()
    running: set[str] = set()
    for machine in machines:
        if state in machine.states:
            of_states.update(*machine.states.values())
            running.update(machine.states[state])
    if not of_states:
        say.warn(
            f"state {shown(state)} names no applications: all of them are imported", graph.span
        )
    kept = {}
    for name, task in graph.tasks.items():
        if name in running or name not in of_states:
            kept[name] = task
    if not _has_dataflow(kept):
        _unknown(say, f"nothing runs in state {shown(state)}", "")
        return graph
    return _with(graph, kept, _between(graph, kept))


def _has_dataflow(tasks: Mapping[str, HopesTask]) -> bool:
    """Is one of them no control task?"""
    return any(t.kind != "control" for t in tasks.values())


def on_device(
    graph: HopesGraph, devices: Mapping[Way, str], device: str, say: HopesCollector
) -> HopesGraph:
    """The tasks of a device, with sources and sinks for links to other devices; `devices` are those
    of tasks."""
    there = [*dict.fromkeys(devices.values())]
    if device not in there:
        help_text = did_you_mean(device, there)
        if not help_text and there:
            help_text = f"there is {one_of(there)}"
        _unknown(
            say,
            f"nothing runs on a device {shown(device)}",
            help_text or "the mapping says where tasks run",
        )
        return graph
    found, _ = _part(graph, (), devices, device, say)
    return found


def part_of(graph: HopesGraph, tasks: Sequence[str]) -> HopesGraph:
    """The part with these tasks of the top level, and the control tasks that may release them."""
    kept = {}
    for name, task in graph.tasks.items():
        if name in tasks or task.kind == "control":
            kept[name] = task
    return _with(graph, kept, _between(graph, kept))


def _between(graph: HopesGraph, tasks: Mapping[str, HopesTask]) -> list[HopesChannel]:
    """The channels with both ends at these tasks."""
    return [c for c in graph.channels if c.source[0] in tasks and c.destination[0] in tasks]


def _unknown(say: HopesCollector, message: str, help_text: str) -> None:
    say.faults.append(Diagnostic(UNKNOWN, message, None, help=help_text))


def _with(
    graph: HopesGraph, tasks: dict[str, HopesTask], channels: list[HopesChannel]
) -> HopesGraph:
    """The graph with some of its tasks, and the libraries that these call."""
    calls = {}
    for end, called in graph.calls.items():
        if end[0] in tasks:
            calls[end] = called
    libraries = {}
    for name, library in graph.libraries.items():
        if name in calls.values():
            libraries[name] = library
    return replace(graph, tasks=tasks, channels=tuple(channels), libraries=libraries, calls=calls)


def _part(
    graph: HopesGraph, level: Way, devices: Mapping[Way, str], device: str, say: HopesCollector
) -> tuple[HopesGraph, set[tuple[str, Direction, str]]]:
    """The part of a level on a device, and the ports of composites there that lead to others."""
    tasks: dict[str, HopesTask] = {}
    closed: set[tuple[str, Direction, str]] = set()
    for name, task in graph.tasks.items():
        way = (*level, name)
        if task.graph is None:
            if task.kind == "control" or devices.get(way, device) == device:
                tasks[name] = task
            continue
        inside, elsewhere = _part(task.graph, way, devices, device, say)
        if not _has_dataflow(inside.tasks):
            continue
        lost = _lost(task, inside, elsewhere)
        closed |= {(name, *end) for end in lost}
        tasks[name] = _without(replace(task, graph=inside), lost)
    channels = []
    for channel in graph.channels:
        here = []
        for end, direction in _ends(channel):
            here.append(end[0] in tasks and (end[0], direction, end[1]) not in closed)
        if all(here):
            channels.append(channel)
        elif _reaches_task(channel, here, tasks):
            made, link = _link(channel, graph.tasks, tasks, "out" if here[1] else "in", say)
            tasks[made.name] = made
            channels.append(link)
    return _with(graph, tasks, channels), closed


def _lost(
    task: HopesTask, inside: HopesGraph, elsewhere: set[tuple[str, Direction, str]]
) -> set[tuple[Direction, str]]:
    """The ports of a composite that lead to tasks or ports which are not `inside` any more."""
    lost = set()
    for end, (inner, port) in task.inside.items():
        if inner not in inside.tasks or (inner, end[0], port) in elsewhere:
            lost.add(end)
    return lost


def _without(task: HopesTask, lost: set[tuple[Direction, str]]) -> HopesTask:
    """A composite without some of its ports."""
    return replace(
        task,
        ports={end: port for end, port in task.ports.items() if end not in lost},
        inside={end: inner for end, inner in task.inside.items() if end not in lost},
    )


def _reaches_task(channel: HopesChannel, here: list[bool], tasks: Mapping[str, HopesTask]) -> bool:
    """Is one of the ends that are `here` a task that is no control task?"""
    for (end, _), own in zip(_ends(channel), here, strict=True):
        if own and tasks[end[0]].kind != "control":
            return True
    return False


def _ends(channel: HopesChannel) -> Iterator[tuple[tuple[str, str], Direction]]:
    yield channel.source, "out"
    yield channel.destination, "in"


def _link(
    channel: HopesChannel,
    before: Mapping[str, HopesTask],
    tasks: Mapping[str, HopesTask],
    way: Direction,
    say: HopesCollector,
) -> tuple[HopesTask, HopesChannel]:
    """A source (`out`) or a sink that stands for the other end of a channel, and the channel to
    it."""
    other, own = channel.source, channel.destination
    if way == "in":
        other, own = own, other
    name = f"from_{other[0]}_{other[1]}"
    inward: Direction = "in"
    what = "a source stands for the link from another device"
    if way == "in":
        name, inward = f"to_{other[0]}_{other[1]}", "out"
        what = "a sink stands for the link to another device"
    while name in tasks or name in before:
        name += "_"
    near = before[own[0]].ports[inward, own[1]]
    far = before[other[0]].ports[way, other[1]]
    port = HopesPort(
        "data",
        way,
        near.rate,
        max(near.size, far.size),
        channel.span,
        near.keeps_newest or far.keeps_newest,
    )
    made = HopesTask(name, "task", {(way, "data"): port}, channel.span, link=".".join(other))
    say.warn_together(".".join(other), what, channel.span, "fill in the stub")
    end = (name, "data")
    if way == "in":
        return made, replace(channel, destination=end)
    return made, replace(channel, source=end)


def told(choice: ModeChoice) -> str:
    """The choice, in words; empty if everything is imported."""
    parts = [f"{task} in mode {mode}" for task, mode in choice.modes.items()]
    if choice.state is not None:
        parts.append(f"state {choice.state}")
    if choice.device is not None:
        parts.append(f"device {choice.device}")
    if not parts:
        return ""
    verb = "is" if len(parts) == 1 else "are"
    return f"Of it {listed(parts, 8)} {verb} here."
