"""The content of a HOPES project as frozen data: tasks, ports, channels and the graphs of
composites.

`tasks` reads it from files, `choice` selects a part of it, and the modules that write texts read
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from ...model.span import Span
from .libraries import HopesLibrary

Direction = Literal["in", "out"]
#: The names of a task and of the composites around it, from outside to inside.
Way = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HopesPort:
    """A firing transfers `rate` tokens; `size` is the port's statement of their bytes, which may be
    wrong.

    `keeps_newest`: a reader gets the newest token, however many there were (`overwritable`). `type`
    is that of a token in flowc, if the port has one of that size.
    """

    name: str
    direction: Direction
    rate: int
    size: int
    span: Span
    keeps_newest: bool = False
    type: str = ""


@dataclass(frozen=True, slots=True)
class HopesLoop:
    """Turns of a task or of its graph. DATA: each has tokens of its own; CONVERGENT: all read the
    same ones."""

    kind: Literal["DATA", "CONVERGENT"]
    count: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a task's code reads (`GET_PARAM_INT`, `GET_PARAM_FLOAT`), with its value at the
    start."""

    name: str
    value: int | Fraction


@dataclass(frozen=True, slots=True)
class HopesTask:
    """`network` names further files of a task by their attributes, `graph` is the graph of a
    composite.

    `inside` maps a port of a composite to (task, port) in it, and `maps` gives, for the ports of a
    loop, how tokens get to its turns (`portMapType`). `headers` are included before the code,
    `sources` have to be compiled with it, `files` are beside it, `flags` are those of the compiler,
    `linked` of the linker; `libraries` maps a library port of a composite to (task, port) in it.
    `mode` is the effective one of its `modes`, `changes` are transitions between them (name, from,
    to), `link` is the far end of a channel that a source or a sink replaces. `kinds` are those of
    processors that it may run on, () all. Times are None if they are placeholders.
    """

    name: str
    kind: Literal["task", "network", "graph", "control"]
    ports: dict[tuple[Direction, str], HopesPort]
    span: Span
    code: str = ""
    language: str = ""
    stateful: bool = True
    time_driven: bool = False
    period_ns: Fraction | None = None
    deadline_ns: Fraction | None = None
    priority: int = 0
    network: dict[str, str] = field(default_factory=dict)
    graph: HopesGraph | None = None
    inside: dict[tuple[Direction, str], tuple[str, str]] = field(default_factory=dict)
    loop: HopesLoop | None = None
    maps: dict[tuple[Direction, str], str] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    libraries: dict[str, tuple[str, str]] = field(default_factory=dict)
    flags: str = ""
    linked: str = ""
    files: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    mode: str = ""
    changes: tuple[tuple[str, str, str], ...] = ()
    link: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HopesChannel:
    """Ends are (task, port); the channel starts with `initial` samples of `size` bytes.

    `room` is its capacity in bytes, 0 if unknown.
    """

    source: tuple[str, str]
    destination: tuple[str, str]
    initial: int
    size: int
    span: Span
    room: int = 0


@dataclass(frozen=True, slots=True)
class HopesGraph:
    """One level; `tasks` by name, in the order of the file. HOPES knows no iteration of a process
    network.

    `calls` has the name of the library of a task's library port.
    """

    name: str
    tasks: dict[str, HopesTask]
    channels: tuple[HopesChannel, ...]
    span: Span
    process_network: bool = False
    libraries: dict[str, HopesLibrary] = field(default_factory=dict)
    calls: dict[tuple[str, str], str] = field(default_factory=dict)


def every(graph: HopesGraph, level: Way = ()) -> dict[Way, HopesTask]:
    """The tasks of all levels, each composite before what is in it."""
    found: dict[Way, HopesTask] = {}
    for name, task in graph.tasks.items():
        found[*level, name] = task
        if task.graph is not None:
            found |= every(task.graph, (*level, name))
    return found


def graphs_of(graph: HopesGraph, tasks: Mapping[Way, HopesTask]) -> list[HopesGraph]:
    """The graphs of all levels, from that of the project; `tasks` are all of its tasks."""
    return [graph, *(t.graph for t in tasks.values() if t.graph is not None)]
