"""The graphs of a HOPES project (`task.xml`, one for each level) to tasks, ports and channels, with
every fault.

In: a project; the form of the translator is turned into that of the tool (`translated`). Out: a
`HopesGraph` with the content of the files, with the graphs of its composites inside, and warnings
about the rest. `groups` computes rates and apps, `text` the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from ...model.diagnostic import Note, did_you_mean, one_of
from ...model.span import Span
from ...model.types import DTYPES, TensorType
from ..names import listed, shown
from ..xml_tree import Element
from .design import Direction, HopesChannel, HopesGraph, HopesLoop, HopesPort, HopesTask, Parameter
from .files import MOST_LEVELS, HopesCollector, HopesProject, read_xml
from .hardware import kinds_of, says_nothing
from .libraries import libraries_of, library_ports
from .multicast import ends_of, pairs_of, sizes_of
from .translated import levels_of
from .vocabulary import PARAMETERS, tell_unknown

#: The tool writes 1 us if the author gave no time.
PLACEHOLDER_NS = Fraction(1000)


def graph_of(
    project: HopesProject, say: HopesCollector, modes: Mapping[str, str] | None = None
) -> HopesGraph | None:
    """The top level with everything below it; None after a fault that leaves nothing to read.

    `modes` are those of tasks by their full names; the default is the first one.
    """
    around = _Around(modes or {})
    if not project.translated:
        return _level(project, project.graph, say, around)
    root = read_xml(project.graph, say, "CIC_Algorithm")
    if root is None:
        return None
    return _Level(project, project.graph, say, around).read(levels_of(root, project.name, say))


@dataclass(frozen=True, slots=True)
class _Around:
    """The surroundings of a level: the open files, the composites by their full name, and the mode
    of theirs."""

    modes: Mapping[str, str]
    files: tuple[Path, ...] = ()
    name: str = ""
    mode: str = ""


def _level(
    project: HopesProject, path: Path, say: HopesCollector, around: _Around
) -> HopesGraph | None:
    root = read_xml(path, say, "cic_manual")
    if root is None:
        return None
    return _Level(project, path, say, around).read(root)


class _Level:
    """Reads one file; collects faults and continues."""

    def __init__(
        self, project: HopesProject, path: Path, say: HopesCollector, around: _Around
    ) -> None:
        self._project, self._path, self._say, self._around = project, path, say, around
        self._tasks: dict[str, HopesTask] = {}
        #: Tasks with a fault, so that channels to them are not reported too.
        self._broken: set[str] = set()
        #: The bytes of a message of each multicast group, and its writers and readers.
        self._sizes: dict[str, int] = {}
        self._ends: dict[tuple[str, Direction, str], tuple[str, Span]] = {}

    def read(self, root: Element) -> HopesGraph:
        if not self._project.translated:  # there the whole file was checked
            tell_unknown(root, self._say)
        self._sizes = sizes_of(root, self._say)
        for node in root.within("task_list", "task"):
            self._task(node)
        if not self._tasks and not self._broken:
            self._say.fault("this graph has no tasks", root.span)
        channels = []
        for node in root.within("channel_list", "channel"):
            channel = self._channel(node)
            if channel is not None:
                channels.append(channel)
        for source, destination, span in pairs_of(self._ends):
            channels.append(HopesChannel(source, destination, 0, 1, span))
        self._tell_groups(root)
        name = root.attributes.get("name") or self._project.name
        network = _is_process_network(root)
        if network:
            what = (
                "a process network is read as dataflow: its rates make an iteration, and what is"
                " connected an app"
            )
            self._say.warn_together(name, what, root.span)
        libraries, calls = libraries_of(root)
        moving = tuple(self._moving(channels))
        self._leave_out_idle()
        return HopesGraph(name, self._tasks, moving, root.span, network, libraries, calls)

    def _tell_groups(self, root: Element) -> None:
        for group in root.all("taskGroupList"):
            for node in group.children:
                self._say.warn(
                    "groups of tasks are not imported", node.span, "an app is what is connected"
                )

    def _moving(self, channels: list[HopesChannel]) -> Iterator[HopesChannel]:
        """The channels that transfer tokens in the effective modes."""
        for channel in channels:
            (source, out), (destination, into) = channel.source, channel.destination
            ends = self._tasks[source].ports["out", out], self._tasks[destination].ports["in", into]
            if all(port.rate for port in ends):
                yield channel
            elif any(port.rate for port in ends):
                what = "only one end of this channel moves anything in this mode: it is left out"
                self._say.warn_together(f"{source}.{out}", what, channel.span)

    def _leave_out_idle(self) -> None:
        """Leave out ports that transfer nothing in the effective modes, and tasks with such ports
        alone."""
        for name, task in [*self._tasks.items()]:
            ports = {end: port for end, port in task.ports.items() if port.rate}
            if task.ports and not ports:
                self._say.warn_together(
                    name, "it moves nothing in this mode: it is left out", task.span
                )
                del self._tasks[name]
            elif len(ports) < len(task.ports):
                self._tasks[name] = replace(task, ports=ports)

    # -- tasks -------------------------------------------------------------------------------------
    def _task(self, node: Element) -> None:
        name = self._say.attribute(node, "name")
        if name is None:
            return
        earlier = self._tasks.get(name)
        if earlier is not None:
            self._say.fault(
                f"two tasks are called {shown(name)}",
                node.span,
                "",
                [Note("the first one", earlier.span)],
            )
            return
        before = len(self._say.faults)
        said = _parameters_of(node)
        values = {key: value for key, (value, _) in said.items()}
        kind = _kind(node, values)
        full = f"{self._around.name}{name}"
        modes: tuple[str, ...] = ()
        changes: tuple[tuple[str, str, str], ...] = ()
        mode = ""
        if values.get("HasMTM") == "Yes":
            modes = _modes(node)
        if modes:
            mode = self._around.modes.get(full, modes[0])
            changes = _changes(node)
        ports = self._ports(node, name, mode or self._around.mode)
        inner = replace(self._around, name=f"{full}_", mode=mode or self._around.mode)
        graph = None
        if kind == "graph":
            graph = self._inside(name, said, node, inner)
        extra = _Extra.of(node)
        task = HopesTask(
            name,
            kind,
            ports,
            node.span,
            code=values.get("CICFile", ""),
            language=values.get("Language", ""),
            stateful=values.get("HasInternalStates") != "No",
            time_driven=values.get("RunCondition") == "time-driven",
            period_ns=_meant(self._time(said, "Period", name, node)),
            deadline_ns=_meant(self._time(said, "Deadline", name, node)),
            priority=self._priority(said, name, node),
            network=_network_files(values),
            graph=graph,
            inside=self._maps(node, name, ports, graph),
            loop=self._loop(said, name, node),
            maps=dict(self._kinds(node)),
            parameters=tuple(self._parameters(node, name)),
            headers=extra.headers,
            sources=extra.sources,
            libraries=library_ports(node),
            flags=values.get("CompileFlags", ""),
            linked=values.get("LinkFlags", ""),
            files=extra.others,
            modes=modes,
            mode=mode,
            changes=changes,
            kinds=self._processor_kinds(node, name, values),
        )
        self._beyond(node, task, values)
        if len(self._say.faults) > before:
            self._broken.add(name)
        self._tasks[name] = task

    def _processor_kinds(self, node: Element, name: str, values: dict[str, str]) -> tuple[str, ...]:
        """The kinds of processors that a task may run on; () = all."""
        if not _dependent(values):
            return ()
        return kinds_of(node, name, self._say)

    def _time(
        self, said: dict[str, tuple[str, Span]], key: str, name: str, node: Element
    ) -> Fraction | None:
        if key not in said:
            return None
        text, span = said[key]
        unit, _ = said.get(f"{key}Unit", ("us", node.span))
        return self._say.time_ns(text, unit, f"the {key.lower()} of {shown(name)}", span)

    def _priority(self, said: dict[str, tuple[str, Span]], name: str, node: Element) -> int:
        text, span = said.get("Priority", ("0", node.span))
        return self._say.whole(text, f"the priority of {shown(name)}", span) or 0

    def _loop(
        self, said: dict[str, tuple[str, Span]], name: str, node: Element
    ) -> HopesLoop | None:
        kind, span = said.get("LoopType", ("NONE", node.span))
        if kind in ("NONE", ""):
            return None
        text, span = said.get("LoopCount", ("", span))
        count = self._say.whole(text, f"the loop count of {shown(name)}", span, 1) or 1
        if kind == "DATA":
            return HopesLoop("DATA", count)
        if kind != "CONVERGENT":
            self._say.fault(
                f"{shown(name)} is a loop of type {shown(kind)}",
                span,
                "there is DATA and CONVERGENT",
            )
        what = f"the loop may end before its {count} turns in HOPES; here it runs all of them"
        self._say.warn_together(name, what, node.span)
        return HopesLoop("CONVERGENT", count)

    def _parameters(self, node: Element, task: str) -> Iterator[Parameter]:
        """The numeric parameters; others are reported."""
        for group in node.within("control", "control_params"):
            for p in group.all("parameter"):
                name, kind, text = (p.attributes.get(key, "") for key in ("name", "type", "value"))
                value = _number(text, kind)
                if value is not None and name:
                    yield Parameter(name, value)
                else:
                    what = (
                        f"it is {shown(text)} of type {shown(kind)}: parameters are whole numbers"
                        " (int) and others (float)"
                    )
                    self._say.warn_together(f"{task}.{name}", what, p.span)

    def _kinds(self, node: Element) -> Iterator[tuple[tuple[Direction, str], str]]:
        """How the tokens of a port get to the turns of a loop."""
        for m in node.within("portMap_list", "portMap"):
            way = _direction(m.attributes.get("direction", ""))
            if way is not None:
                end = (way, m.attributes.get("macroNodePort", ""))
                yield end, m.attributes.get("portMapType", "")

    def _ports(self, node: Element, task: str, mode: str) -> dict[tuple[Direction, str], HopesPort]:
        found: dict[tuple[Direction, str], HopesPort] = {}
        lists: tuple[tuple[str, Direction], ...] = (("inport_list", "in"), ("outport_list", "out"))
        for tag, way in lists:
            for port in node.within(tag, "port"):
                name = self._say.attribute(port, "name")
                if name is None:
                    continue
                if (way, name) in found:
                    note = Note("the first one", found[way, name].span)
                    self._say.fault(
                        f"{shown(task)} has two ports {shown(name)}", port.span, "", [note]
                    )
                    continue
                found[way, name] = self._port(port, name, way, task, mode)
        for way, name, group, span in ends_of(node):
            if group not in self._sizes:
                what = "a multicast port is left out: its group is not on this level"
                self._say.warn_together(f"{task}.{name}", what, span)
            elif (way, name) not in found:
                found[way, name] = HopesPort(
                    name, way, 1, self._sizes[group], span, keeps_newest=True
                )
                self._ends[task, way, name] = group, span
        return found

    def _port(self, port: Element, name: str, way: Direction, task: str, mode: str) -> HopesPort:
        """A port of a channel. One fault is enough: it stays, so that channels find it."""
        of = f"port {shown(f'{task}.{name}')}"
        text = self._say.attribute(port, "sample_size")
        size = None
        if text is not None:
            size = self._say.whole(text, f"the sample size of {of}", port.span, 1)
        rate = self._rate(port, of, task, mode)
        if rate is None:
            rate = 1
        self._unusual(port, of, task)
        newest = port.attributes.get("type") == "overwritable"
        kind = _type(port.attributes.get("sampleType", ""), size)
        return HopesPort(name, way, rate, size or 1, port.span, newest, kind)

    def _rate(self, port: Element, of: str, task: str, mode: str) -> int | None:
        rates = list(port.all("rate"))
        if not rates:
            return 1
        by_mode = {r.attributes.get("mode", ""): r for r in reversed(rates)}
        chosen = by_mode.get(mode) or by_mode.get("Default") or rates[0]
        several = len({r.attributes.get("rate") for r in rates}) > 1
        if several:
            taken = shown(chosen.attributes.get("mode", ""))
            help_text = (
                "flowc has one set of rates; a task that changes its rates needs one app for each"
                " mode"
            )
            what = f"rates of other modes are left out: those of {taken} are taken"
            self._say.warn_together(task, what, port.span, help_text)
        text = self._say.attribute(chosen, "rate")
        if text is None:
            return None
        return self._say.whole(text, f"the rate of {of}", chosen.span, 0 if several else 1)

    def _unusual(self, port: Element, of: str, task: str) -> None:
        if port.attributes.get("sample_rate", "Fixed") != "Fixed":
            what = "its ports have variable rates: the given ones are taken"
            self._say.warn_together(task, what, port.span)
        kind = port.attributes.get("type", "fifo")
        if kind not in ("fifo", "overwritable"):
            self._say.fault(
                f"{of} is of type {shown(kind)}", port.span, "there is fifo and overwritable"
            )

    def _beyond(self, node: Element, task: HopesTask, values: dict[str, str]) -> None:
        """Report the properties of a task that flowc does not support."""
        say, name, span = self._say, task.name, task.span
        if task.kind == "network" and task.language:
            say.warn_together(
                name, f"{task.language} code is not imported", span, "fill in the stubs"
            )
        self._tell_modes(task)
        if _dependent(values) and says_nothing(node):
            help_text = "the profile says where a task can run"
            say.warn_together(name, "hardware dependencies are not imported", span, help_text)
        if values.get("RunCondition") == "control-driven":
            say.warn_together(
                name, "it runs only when a control task says so; here it runs always", span
            )
        own = [key for key in values if key not in PARAMETERS]
        if own:
            say.warn_together(
                f"{name} ({listed(own)})", "parameters of a task are not imported", span
            )
        if _has_flags(task.flags) or _has_flags(task.linked):
            help_text = "they belong to the code, and the machine of its authors"
            say.warn_together(
                name, "flags of compiler and linker are not imported", span, help_text
            )
        if any(f.attributes.get("enable") == "Yes" for f in node.all("faultTolerance")):
            say.warn_together(name, "fault tolerance is not imported", span)

    def _tell_modes(self, task: HopesTask) -> None:
        others = [mode for mode in task.modes if mode != task.mode]
        if len(task.modes) > 1:
            what = f"modes of a task (MTM): it stays in {shown(task.mode)}"
            help_text = f"`--mode TASK=MODE` takes another one: {listed(others)}"
            self._say.warn_together(task.name, what, task.span, help_text)

    # -- composites --------------------------------------------------------------------------------
    def _inside(
        self, name: str, said: dict[str, tuple[str, Span]], node: Element, around: _Around
    ) -> HopesGraph | None:
        if self._project.translated:
            level = _Level(self._project, self._path, self._say, around)
            return next((level.read(n) for n in node.all("cic_manual")), None)
        text, span = said.get("CICFile", ("", node.span))
        path = self._project.below(text, self._path.parent.parent)
        if path is None:
            help_text = "the path is relative to the folder of the project"
            self._say.fault(
                f"the graph of {shown(name)} is missing: there is no {shown(text)}", span, help_text
            )
            return None
        opened = (*self._around.files, self._path.resolve())
        if path.resolve() in opened or len(opened) > MOST_LEVELS:
            self._say.fault(f"the graph of {shown(name)} contains itself", span)
            return None
        return _level(self._project, path, self._say, replace(around, files=opened))

    def _maps(
        self,
        node: Element,
        name: str,
        ports: Mapping[tuple[Direction, str], HopesPort],
        graph: HopesGraph | None,
    ) -> dict[tuple[Direction, str], tuple[str, str]]:
        """The ports of a composite with the (task, port) inside that each leads to."""
        found: dict[tuple[Direction, str], tuple[str, str]] = {}
        if graph is None:
            return found
        #: Ports whose fault is reported, or whose inner end may be left out in this mode.
        excused: set[tuple[Direction, str]] = set()
        for m in node.within("portMap_list", "portMap"):
            ends = self._port_map(m)
            if ends is None:
                continue
            outer, inner = ends
            if outer not in ports:
                self._missing_port(name, outer, ports, m.span)
            elif ports[outer].rate and self._end(graph.tasks, inner, outer[0], m.span):
                found[outer] = inner
            else:
                excused.add(outer)
        for end, port in ports.items():
            if end not in found and end not in excused:
                help_text = "add a `portMap` that leads to a task inside"
                self._say.fault(
                    f"port {shown(f'{name}.{port.name}')} leads nowhere", port.span, help_text
                )
        return found

    def _port_map(self, node: Element) -> tuple[tuple[Direction, str], tuple[str, str]] | None:
        """The port outside, and (task, port) inside; None after a fault, and for libraries."""
        stated = self._say.attributes(
            node, "macroNodePort", "direction", "insideTask", "insideTaskPort"
        )
        if stated is None:
            return None
        outer, direction, task, port = stated
        way = _direction(direction)
        if way is not None:
            return (way, outer), (task, port)
        if direction != "LibraryPort":  # those of libraries are not dataflow
            message = f"a port map has the direction {shown(direction)}"
            self._say.fault(message, node.span, "there is In, Out and LibraryPort")
        return None

    # -- channels ----------------------------------------------------------------------------------
    def _channel(self, node: Element) -> HopesChannel | None:
        said, span = node.attributes, node.span
        ends = self._say.attributes(node, "src_task", "src_port", "dst_task", "dst_port")
        initial = self._say.whole(
            said.get("init_size", "0"), "the initial data of this channel", span
        )
        size = self._say.whole(said.get("sampleSize", "1"), "the sample size of this channel", span)
        room = self._say.whole(said.get("size") or "0", "the size of this channel", span)
        if ends is None:
            return None
        source, out, destination, into = ends
        good = [
            self._end(self._tasks, (source, out), "out", span),
            self._end(self._tasks, (destination, into), "in", span),
        ]
        if not all(good):
            return None
        size = size or 1
        return HopesChannel(
            (source, out), (destination, into), initial or 0, size, span, (room or 0) * size
        )

    def _end(
        self,
        tasks: Mapping[str, HopesTask],
        end: tuple[str, str],
        way: Direction,
        span: Span,
    ) -> bool:
        """Does such a port exist? If not, that is a fault."""
        task, port = end
        if task not in tasks:
            if task not in self._broken:
                self._say.fault(f"there is no task {shown(task)}", span, did_you_mean(task, tasks))
            return False
        ports = tasks[task].ports
        if (way, port) in ports:
            return True
        self._missing_port(task, (way, port), ports, span)
        return False

    def _missing_port(
        self,
        task: str,
        end: tuple[Direction, str],
        ports: Iterable[tuple[Direction, str]],
        span: Span,
    ) -> None:
        way, port = end
        there = {name for direction, name in ports if direction == way}
        help_text = did_you_mean(port, there)
        if there and not help_text:
            help_text = f"there is {one_of(sorted(there))}"
        what = "input" if way == "in" else "output"
        self._say.fault(f"{shown(task)} has no {what} {listed([port])}", span, help_text)


@dataclass(frozen=True, slots=True)
class _Extra:
    """The files that belong to a task beside its code."""

    headers: tuple[str, ...]
    sources: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, node: Element) -> _Extra:
        headers: list[str] = []
        sources: list[str] = []
        others: list[str] = []
        for setting in node.within("extraSetting_list", "extraSetting"):
            name = setting.attributes.get("name", "")
            kind = setting.attributes.get("type", "")
            if kind == "Extra Header":
                headers.append(name)
            elif kind == "Extra Source":
                sources.append(name)
            else:
                others.append(name)
        return cls(tuple(headers), tuple(sources), tuple(others))


def _has_flags(flags: str) -> bool:
    """Are there flags beyond that of the mathematical library, which every program has?"""
    return flags.split() not in ([], ["-lm"])


def _is_process_network(root: Element) -> bool:
    for setting in root.within("setting_list", "setting"):
        if setting.attributes.get("TaskGraphProperty") == "ProcessNetwork":
            return True
    return False


def _parameters_of(node: Element) -> dict[str, tuple[str, Span]]:
    """The settings of a task, with their places."""
    found = {}
    for parameter in node.within("config", "parameter"):
        said = parameter.attributes
        if "name" in said:
            found[said["name"]] = (said.get("value", ""), parameter.span)
    return found


def _kind(
    node: Element, values: Mapping[str, str]
) -> Literal["task", "network", "graph", "control"]:
    said = node.attributes.get("type")
    if said == "Control":
        return "control"
    if said == "External":
        return "network"
    if values.get("HasSubGraph") == "Yes":
        return "graph"
    return "task"


def _network_files(values: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in values.items() if key.endswith("File") and key != "CICFile"
    }


def _type(text: str, size: int | None) -> str:
    """A type as `TensorType` writes it, if it has that size."""
    found = re.fullmatch(r"(\w+)(?:\[([1-9]\d{0,8}(?:, [1-9]\d{0,8})*)\])?", text, re.ASCII)
    if found is None or found[1] not in DTYPES:
        return ""
    shape: tuple[int, ...] = ()
    if found[2]:
        shape = tuple(map(int, found[2].split(", ")))
    if TensorType(found[1], shape).bytes == size:
        return text
    return ""


def _number(text: str, kind: str) -> int | Fraction | None:
    if re.fullmatch(r"[+-]?\d{1,15}", text) and kind == "int":
        return int(text)
    number = re.fullmatch(
        r"[+-]?(\d{1,15}\.?\d{0,15}|\.\d{1,15})([eE][+-]?\d{1,2})?", text, re.ASCII
    )
    if number is not None and kind in ("float", "double"):
        return Fraction(text)
    return None


def _modes(node: Element) -> tuple[str, ...]:
    """The modes of a task, the initial one first."""
    found = []
    for mtm in node.all("mtm"):
        found += [m.attributes.get("name", "") for m in mtm.within("mode_list", "mode")]
    start = [mtm.attributes.get("initial_state", "") for mtm in node.all("mtm")]
    return tuple(dict.fromkeys([*(s for s in start if s in found), *found]))


def _dependent(values: dict[str, str]) -> bool:
    return values.get("IsDependency", values.get("IsHardwareDependent")) == "Yes"


def _changes(node: Element) -> tuple[tuple[str, str, str], ...]:
    """The transitions between modes of a task: name, from, to."""
    found = []
    for mtm in node.all("mtm"):
        for t in mtm.within("transition_list", "transition"):
            said = t.attributes
            found.append((said.get("name", ""), said.get("src_mode", ""), said.get("dst_mode", "")))
    return tuple(found)


def _meant(time_ns: Fraction | None) -> Fraction | None:
    if time_ns == PLACEHOLDER_NS:
        return None
    return time_ns


def _direction(said: str) -> Direction | None:
    return {"in": "in", "input": "in", "out": "out", "output": "out"}.get(said.lower())  # type: ignore[return-value]
