"""A project of HOPES in the form of its tool: a file for the tool, and a folder for each level of
tasks.

In: a `ProjectPlan` and the files of its other form. Out: a plan with `NAME`,
`NAME.files/CICTask/task.xml`, a folder with the same for each composite, mapping and profile beside
them. Wrappers are on the level of their tasks, and the C code that they call at the top; code of
HOPES is on its level with all of its files. The tool makes the other form of it itself, so policy
and orders are not included. Boxes stand in columns along the data (`report.layout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ....codegen.sources import Plan
from ....model.system import System
from ....report.layout import layout
from ..words import ORDERS, SCHEMA
from .library import ROOM
from .project import ProjectPlan, XmlChannel, XmlPort, XmlTask

if TYPE_CHECKING:
    from jinja2 import Environment

#: Distances and sizes in the tool's drawing, in pixels.
_LEFT, _TOP, _COLUMN, _BETWEEN, _WIDTH, _PORT = 40, 40, 160, 40, 80, 20


@dataclass(frozen=True, slots=True)
class Box:
    """A task on its level; `name` is without that of the composite around it.

    `maps` are pairs of a port and the (task, port) inside.
    """

    name: str
    task: XmlTask
    file: str
    x: int
    y: int
    inputs: tuple[XmlPort, ...]
    outputs: tuple[XmlPort, ...]
    maps: tuple[tuple[XmlPort, str, str], ...] = ()

    @property
    def height(self) -> int:
        """In pixels."""
        return _PORT * (max(1, len(self.inputs), len(self.outputs)) + 1)

    def at(self, port: str, outputs: bool) -> tuple[int, int]:
        """The point where an arrow meets a port."""
        x, ports = self.x, self.inputs
        if outputs:
            x, ports = self.x + _WIDTH, self.outputs
        names = [p.name for p in ports]
        return x, self.y + _PORT * (names.index(port) + 1)


@dataclass(frozen=True, slots=True)
class ToolChannel:
    """A channel of a level: its ends are (box, port), with their points."""

    source: tuple[str, str]
    destination: tuple[str, str]
    channel: XmlChannel
    edges: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Level:
    """The tasks of a composite, or of the top; `name` is that of the composite, "" for the top."""

    name: str
    boxes: dict[str, Box] = field(default_factory=dict)
    wires: list[ToolChannel] = field(default_factory=list)


def as_tool(
    plan: Plan,
    made: ProjectPlan,
    system: System,
    codes: Mapping[str, Mapping[str, Any]],
    jinja: Environment,
) -> Plan:
    """The files of a project whose form for the translator is `plan`."""
    files = f"{made.name}.files"
    levels = _levels(made, system, codes)
    wanted = _wanted(made, levels, codes)
    found: Plan = {}
    for path, content in plan.items():
        kind = path.removeprefix(f"{made.name}_").removesuffix(".xml")
        if path.startswith(f"{ORDERS}/") or kind in ("algorithm", "architecture", "configuration"):
            continue
        if path.startswith((f"{ROOM}/", "data/")):
            found[path] = content
        elif kind in ("mapping", "profile"):
            found[f"{files}/{path}"] = content
        else:
            for name in wanted.get(path, {""}):
                found[f"{PurePosixPath(files, name, 'CICTask', path)}"] = content
    for level in levels:
        words = {"project": made, "level": level, "codes": codes, "width": _WIDTH}
        text = jinja.get_template("task.xml.j2").render(words)
        found[f"{PurePosixPath(files, level.name, 'CICTask/task.xml')}"] = text.encode()
    architecture = jinja.get_template("architecture.xml.j2").render(project=made, schema=SCHEMA)
    found[made.name] = jinja.get_template("tool.xml.j2").render(architecture=architecture).encode()
    return found


def _wanted(
    made: ProjectPlan, levels: Iterable[_Level], codes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, None]]:
    """The levels that need a file, for files that may not be at the top alone."""
    found: dict[str, dict[str, None]] = {}
    for level in levels:
        for box in level.boxes.values():
            if box.task.inside:
                continue
            own = made.kept.own.get(box.task.flow)
            names = [codes[box.task.flow]["file"]]
            if own is not None:
                names = [path.name for path in own.files]
            for name in names:
                found.setdefault(name, {})[level.name] = None
    return found


def _levels(
    made: ProjectPlan, system: System, codes: Mapping[str, Mapping[str, Any]]
) -> list[_Level]:
    """The top first."""
    levels = {"": _Level("")}
    for task in made.tasks:
        if task.inside:
            levels[task.name] = _Level(task.name)
    columns = dict(_columns(made, system))
    #: The position of the next box of a column, by level and column.
    free: dict[tuple[str, int], int] = {}
    inside = {(m.task, m.port): (m.child, m.child_port) for m in made.maps}
    for task in made.tasks:
        level = levels[""]
        if made.several and not task.inside:
            level = levels[task.parent]
        column = columns.get(task.name, 0)
        box = Box(
            _local(task.name, level.name),
            task,
            f"{task.name}/CICTask/task.xml" if task.inside else codes[task.flow]["file"],
            _LEFT + _COLUMN * column,
            free.get((level.name, column), _TOP),
            tuple(p for p in task.ports if p.direction == "input"),
            tuple(p for p in task.ports if p.direction == "output"),
            tuple(_maps(task, inside)),
        )
        level.boxes[task.name] = box
        free[level.name, column] = box.y + box.height + _BETWEEN
    _wire(made, levels)
    return list(levels.values())


def _maps(
    task: XmlTask, inside: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterator[tuple[XmlPort, str, str]]:
    """The ports of a composite, with the task and the port inside that each leads to."""
    if task.inside:
        for port in task.ports:
            child, child_port = inside[task.name, port.name]
            yield port, _local(child, task.name), child_port


def _wire(made: ProjectPlan, levels: Mapping[str, _Level]) -> None:
    """Draw each channel on its level: on the top if it joins two composites."""
    outer = {(m.child, m.child_port): (m.task, m.port) for m in made.maps}
    parents = {t.name: "" for t in made.tasks}
    if made.several:
        parents = {t.name: t.parent for t in made.tasks}
    for channel in made.channels:
        source = channel.source, channel.source_port
        destination = channel.destination, channel.destination_port
        level = levels[parents[channel.source]]
        if parents[channel.source] != parents[channel.destination]:
            source, destination, level = outer[source], outer[destination], levels[""]
        first, second = level.boxes[source[0]], level.boxes[destination[0]]
        edges = first.at(source[1], True), second.at(destination[1], False)
        level.wires.append(
            ToolChannel((first.name, source[1]), (second.name, destination[1]), channel, edges)
        )


def _local(name: str, around: str) -> str:
    if around:
        return name.removeprefix(f"{around}_")
    return name


def _columns(made: ProjectPlan, system: System) -> Iterator[tuple[str, int]]:
    """Name in HOPES and column of each task."""
    for app in system.apps:
        names = {t.name for t in app.tasks}
        for number, column in enumerate(layout(app).columns):
            for name in column:
                if name in names:
                    yield made.names[name], number
