"""The function in main.py that makes an app of a program with states.

In: an app as each state has it. Out: the lines of the function, and a call of it for each state.
What differs between states is a parameter; tasks of variants with other ports are in branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPath,
    DeployedScenario,
    DeployedState,
    DeployedTask,
)
from .function_text import Parameters, Statement, in_branches
from .layouts import chosen, place_of
from .names import identifiers, literal, one_line
from .statements import RESERVED, initial_tokens, offsets, pace, port_text

#: Names that main.py uses itself around functions of apps, and in them.
OWN = RESERVED | {"app", "code", "task"}
#: Columns of a line inside of a function of an app.
WIDTH = 92


@dataclass(frozen=True)
class FunctionLayout:
    """A state with apps, channels and processors of its own, which serve the states `like` it,
    too."""

    state: DeployedState
    alike: tuple[DeployedState, ...]

    @cached_property
    def selected(self) -> dict[str, list[tuple[str, str]]]:
        """The places of tasks for which these states have alternatives: state and task of each."""
        places: dict[str, list[tuple[str, str]]] = {}
        for state in (self.state, *self.alike):
            place = place_of(state)
            for task in chosen(state):
                places.setdefault(place(task.name), []).append((state.name, task.name))
        return {p: tasks for p, tasks in places.items() if len({name for _, name in tasks}) > 1}

    @cached_property
    def instances(self) -> dict[str, str]:
        """The name that tasks of each network with variants begin with in main.py."""
        names = {}
        for instance, variant in self.state.choices:
            names[instance] = f"{instance}.{variant}"
            if any(is_inside(place, instance) for place in self.selected):
                names[instance] = instance
        return names

    def place(self, task: str) -> str:
        """The name of a task without that of its variant."""
        return place_of(self.state)(task)

    def name(self, task: str) -> str:
        """The name of a task in main.py: that of its place, if there are alternatives."""
        place = self.place(task)
        return place if place in self.selected else task


def layouts_of(scenario: DeployedScenario) -> list[FunctionLayout]:
    """The states with apps of their own, in the order of the scenario."""
    result = []
    for state in scenario.states:
        if state.like is None:
            alike = tuple(s for s in scenario.states if s.like == state.name)
            result.append(FunctionLayout(state, alike))
    return result


def short(name: str) -> str:
    """The name of a task or an instance inside of its app."""
    return name.partition(".")[2]


def is_inside(task: str, instance: str) -> bool:
    """Does a task, named by its place, belong to that instance of a network?"""
    return task == instance or task.startswith(f"{instance}.")


class AppFunction:
    """The function for an app, which makes it for each of the layouts whose states run it."""

    def __init__(self, id_: str, name: str, layouts: Sequence[FunctionLayout]) -> None:
        self._id, self.name = id_, name
        self._versions: list[tuple[FunctionLayout, DeployedApp]] = []
        for layout in layouts:
            self._versions += [(layout, app) for app in layout.state.apps if app.name == name]
        self._first = self._versions[0][1]
        self._paced_alike = all(a.deadline_ns == a.period_ns for _, a in self._versions)
        self._parameters = Parameters([self._values(*v) for v in self._versions], OWN)
        places: dict[str, None] = {}
        for layout, app in self._versions:
            places |= dict.fromkeys(short(layout.place(t.name)) for t in app.tasks)
        self._ids = identifiers(places, OWN.union(self._parameters.ids))

    def _values(self, layout: FunctionLayout, app: DeployedApp) -> dict[str, str]:
        """What may differ between states, beside tasks and ports of variants."""
        values = {}
        for instance, name in layout.instances.items():
            if any(is_inside(layout.place(t.name), instance) for t in app.tasks):
                values[_tasks_of(instance)] = literal(name)
        values["period"] = literal(app.period_ns)
        if not self._paced_alike:
            values["deadline"] = literal(app.deadline_ns)
        for channel in app.channels:
            values[_capacity_of(layout, channel)] = literal(channel.capacity)
        for path in (p for p in app.paths if p.kind == "path"):
            values[_deadline_of(layout, path)] = literal(path.deadline_ns)
        return values

    # -- its text ----------------------------------------------------------------------------------
    @property
    def doc(self) -> str:
        """What the app is, in the words of the text."""
        return self._first.doc

    @property
    def signature(self) -> str:
        """Its name and its parameters."""
        return f"{self._id}({self._parameters.signature})"

    @property
    def app(self) -> str:
        """The expression that makes the app."""
        period = _given("period", self._parameters.text("period"))
        deadline = "period" if self._paced_alike else "deadline"
        return (
            f"p.app({literal(self.name)}{period}"
            f"{_given('deadline', self._parameters.text(deadline))})"
        )

    @property
    def tasks(self) -> list[str]:
        """The lines that make the tasks."""
        return self._lines([[self._task(v, t) for t in app.tasks] for v, app in self._versions])

    @property
    def channels(self) -> list[str]:
        """The lines that make the channels."""
        return self._lines([self._channels(*version) for version in self._versions])

    @property
    def paths(self) -> list[str]:
        """The lines that make the paths."""
        versions = []
        for layout, app in self._versions:
            # Each state has its own ages and reactions, once its apps are there.
            versions.append([self._path(layout, p) for p in app.paths if p.newest])
        return self._lines(versions)

    def call(self, layout: FunctionLayout) -> str:
        """Its call for a layout, with the pace of the app there in a comment."""
        for number, (other, app) in enumerate(self._versions):
            if other is layout:
                return f"{self._id}({self._parameters.arguments(number)})  # {pace(app)}"
        raise AssertionError(f"{self.name} does not run in {layout.state.name}")

    def _lines(self, versions: Sequence[Sequence[Statement]]) -> list[str]:
        return in_branches(versions, self._parameters.condition)

    # -- its statements ----------------------------------------------------------------------------
    def _task(self, layout: FunctionLayout, task: DeployedTask) -> Statement:
        arguments = ["app", self._name(layout, task.name)]
        if task.inputs:
            arguments.append(f"inputs=[{', '.join(port_text(p) for p in task.inputs)}]")
        if task.outputs:
            arguments.append(f"outputs=[{', '.join(port_text(p) for p in task.outputs)}]")
        if task.live:
            arguments.append("live=True")
        if task.on_error != "stop":
            arguments.append(f"on_error={literal(task.on_error)}")
        if task.restart is not None:
            arguments.append(f"restart={literal(task.restart)}")
        if task.wcet_ns is not None:
            arguments.append(f"wcet={task.wcet_ns}")
        doc = [f"# {one_line(task.doc)}"] if task.doc else []
        return *doc, *_filled(f"{self._id_of(layout, task.name)} = task(", arguments)

    def _channels(self, layout: FunctionLayout, app: DeployedApp) -> list[Statement]:
        """Those with tokens between two frames have a key, which is the same in all states."""
        statements: list[Statement] = []
        kept = 0
        for channel in app.channels:
            key = ""
            if _is_kept(app, channel):
                key = f', key="{kept}"'
                kept += 1
            source = self._id_of(layout, channel.source)
            destination = self._id_of(layout, channel.destination)
            capacity = self._parameters.text(_capacity_of(layout, channel))
            statements.append(
                (
                    f"p.channel({source}, {literal(channel.source_port)},"
                    f" {destination}, {literal(channel.destination_port)},"
                    f" capacity={capacity}{initial_tokens(channel)}{key})",
                )
            )
        return statements

    def _path(self, layout: FunctionLayout, path: DeployedPath) -> Statement:
        source, sink = self._id_of(layout, path.source), self._id_of(layout, path.sink)
        if path.kind == "part":
            return (f"app.part({source}, {sink}, newest={offsets(path.newest)})",)
        deadline = _given("deadline", self._parameters.text(_deadline_of(layout, path)))
        return (f"app.path({source}, {sink}, newest={offsets(path.newest)}{deadline})",)

    def _id_of(self, layout: FunctionLayout, task: str) -> str:
        return self._ids[short(layout.place(task))]

    def _name(self, layout: FunctionLayout, task: str) -> str:
        """The expression for the name of a task: variants differ in how it begins."""
        place = layout.place(task)
        for instance in layout.instances:
            parameter = _tasks_of(instance)
            if is_inside(place, instance) and self._parameters.differs(parameter):
                rest = place[len(instance) :]
                begin = self._parameters.text(parameter)
                return f"{begin} + {literal(rest)}" if rest else begin
        return literal(layout.name(task))


def _filled(begin: str, arguments: Sequence[str]) -> list[str]:
    """A call with its arguments, in as many lines as they need."""
    lines = [begin + arguments[0]]
    for argument in arguments[1:]:
        if len(lines[-1]) + len(argument) + len(", )") <= WIDTH:
            lines[-1] += f", {argument}"
        else:
            lines[-1] += ","
            lines.append(f"    {argument}")
    lines[-1] += ")"
    return lines


def _given(parameter: str, value: str) -> str:
    """A further argument, which is left out if it is None in all states."""
    return "" if value == "None" else f", {parameter}={value}"


# -- names of values that may differ, which parameters are called by ------------------------------
def _tasks_of(instance: str) -> str:
    return f"{short(instance)} as"


def _capacity_of(layout: FunctionLayout, channel: DeployedChannel) -> str:
    return f"capacity of {short(layout.place(channel.destination))}.{channel.destination_port}"


def _deadline_of(layout: FunctionLayout, path: DeployedPath) -> str:
    source, sink = short(layout.place(path.source)), short(layout.place(path.sink))
    return f"deadline of {source} to {sink}"


def _is_kept(app: DeployedApp, channel: DeployedChannel) -> bool:
    """Does it hold tokens between two frames, or does its reader keep some?"""
    reader = next(t for t in app.tasks if t.name == channel.destination)
    port = next(p for p in reader.inputs if p.name == channel.destination_port)
    return bool(channel.delay or port.window)
