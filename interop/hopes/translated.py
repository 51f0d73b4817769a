"""The translator's form of a HOPES project (`NAME_algorithm.xml`) as the graphs of the tool's own
form.

In: the root of a CIC_Algorithm: one list with the tasks of all levels under their full names, and
channels between the tasks that fire. Out: the tree of a task.xml with that of every composite
inside its task, which `tasks` reads like files; each element keeps its place in the text. `tasks`
interprets it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ...model.diagnostic import Note, did_you_mean
from ..names import shown
from ..xml_tree import Element
from .files import MOST_LEVELS, HopesCollector
from .vocabulary import tell_unknown

_ATTRIBUTES = {
    "file": "CICFile",
    "runCondition": "RunCondition",
    "hasInternalStates": "HasInternalStates",
    "cflags": "CompileFlags",
    "ldflags": "LinkFlags",
    "hasMTM": "HasMTM",
    "hasSubGraph": "HasSubGraph",
    "isHardwareDependent": "IsHardwareDependent",
    "language": "Language",
    "fsmFile": "fsmFile",
}
_LIBRARY = {
    "file": "LibraryFile",
    "header": "LibraryHeader",
    "language": "Language",
    "hasInternalStates": "HasInternalStates",
}
_EXTRA = {"extraHeader": "Header", "extraSource": "Source", "extraCIC": "CIC", "extraFile": "File"}
#: A port of a task by its full name, and whether tokens go in or out.
_Port = tuple[str, str, str]


def levels_of(root: Element, name: str, say: HopesCollector) -> Element:
    """The graphs of the project `name`."""
    tell_unknown(root, say, "translator")
    return _Algorithm(root, name, say).level("")


def _made(
    tag: str, at: Element, attributes: dict[str, str], children: Iterable[Element] = ()
) -> Element:
    return Element(tag, attributes, list(children), at.span)


def _values(said: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    return {ours: said[theirs] for theirs, ours in names.items() if theirs in said}


_HARDWARE = {
    "architecture": "Architecture",
    "platform": "Platform",
    "runtime": "Runtime",
    "processorType": "ProcessorType",
}


class _Algorithm:
    def __init__(self, root: Element, name: str, say: HopesCollector) -> None:
        self._root, self._name, self._say = root, name, say
        #: The first one of each name.
        self._tasks = {
            n.attributes.get("name", ""): n for n in reversed([*root.within("tasks", "task")])
        }
        #: By the full name of a composite, "" for the top: its tasks, in the order of the file.
        self._members: dict[str, list[Element]] = defaultdict(list)
        #: The composites around a task, from outside to inside.
        self._around: dict[str, tuple[str, ...]] = {}
        self._times: dict[str, Element] = {}
        self._parents: dict[str, str] = {}
        for node in root.within("tasks", "task"):
            self._parent_of(node)
        for task in self._parents:
            self._place(task)
        self._modes()
        self._maps: dict[str, list[Element]] = defaultdict(list)
        #: The ports of composites that lead to a port inside.
        self._outer: dict[_Port, list[str]] = defaultdict(list)
        for node in root.within("portMaps", "portMap"):
            self._map(node)
        self._channels: dict[str, list[Element]] = defaultdict(list)
        for node in root.within("channels", "channel"):
            self._channel(node)
        self._libraries: dict[str, list[Element]] = defaultdict(list)
        self._calls: dict[str, list[Element]] = defaultdict(list)
        self._link_libraries()
        for node in root.within("headers", "headerFile"):
            say.warn_together(
                node.text, "headers of the whole application are not imported", node.span
            )

    def level(self, name: str) -> Element:
        """The tree of a composite, or of the top."""
        node, key = self._root, "property"
        if name:
            node, key = self._tasks[name], "subGraphProperty"
        kind = node.attributes.get(key, "")
        groups = [
            ("setting_list", [_made("setting", node, {"TaskGraphProperty": kind})]),
            ("task_list", [self._task(n) for n in self._members[name]]),
            ("channel_list", self._channels[name]),
            ("library_list", self._libraries[name]),
            ("taskLibraryConnection_list", self._calls[name]),
            (
                "libraryLibraryConnection_list",
                [*self._root.within("libraryConnections", "libraryLibraryConnection")],
            ),
        ]
        if not name:
            groups += [
                (
                    "multicast_group_list",
                    [*map(_group, node.within("multicastGroups", "multicastGroup"))],
                ),
                ("taskGroupList", [*node.within("taskGroups", "taskGroup")]),
            ]
        return _made(
            "cic_manual",
            node,
            {"name": name or self._name},
            (_made(tag, node, {}, c) for tag, c in groups),
        )

    # -- where tasks stand -------------------------------------------------------------------------
    def _parent_of(self, node: Element) -> None:
        name = self._say.attribute(node, "name")
        if name is None:
            return
        if node is not self._tasks[name]:
            notes = [Note("the first one", self._tasks[name].span)]
            self._say.fault(f"two tasks are called {shown(name)}", node.span, "", notes)
            return
        parent = node.attributes.get("ParentTask", "")
        if parent in ("", name):
            self._parents[name] = ""
        elif parent not in self._tasks:
            help_text = did_you_mean(parent, self._tasks)
            self._say.fault(
                f"there is no task {shown(parent)} around {shown(name)}", node.span, help_text
            )
        elif not name.startswith(f"{parent}_") or name == f"{parent}_":
            help_text = f"HOPES calls it {shown(f'{parent}_{name}')}"
            self._say.fault(
                f"{shown(name)} is inside {shown(parent)}, but not called like it",
                node.span,
                help_text,
            )
        elif self._tasks[parent].attributes.get("hasSubGraph") != "Yes":
            message = f"{shown(name)} is inside {shown(parent)}, which has no graph"
            self._say.fault(message, node.span, 'write `hasSubGraph="Yes"` there')
        else:
            self._parents[name] = parent

    def _place(self, name: str) -> None:
        """Tasks inside one with a fault in its place are left out, too."""
        around: list[str] = []
        outside = self._parents[name]
        while outside and outside in self._parents:  # names get shorter, so this ends
            around.insert(0, outside)
            outside = self._parents[outside]
        if len(around) > MOST_LEVELS:
            span = self._tasks[name].span
            self._say.fault(f"{shown(name)} is inside more than {MOST_LEVELS} composites", span)
        elif not outside:
            self._around[name] = tuple(around)
            self._members[_innermost(around)].append(self._tasks[name])

    def _local(self, name: str) -> str:
        """The name of a task in its composite."""
        around = _innermost(self._around.get(name, ()))
        if around:
            return name.removeprefix(f"{around}_")
        return name

    # -- tasks -------------------------------------------------------------------------------------
    def _task(self, node: Element) -> Element:
        name = node.attributes["name"]
        ports: dict[str, list[Element]] = {"input": [], "output": []}
        for port in node.all("port"):
            self._port(port, name, ports)
        parts = [
            ("config", self._config(node, name)),
            ("inport_list", ports["input"]),
            ("outport_list", ports["output"]),
            ("portMap_list", [self._port_map(m) for m in self._maps[name]]),
            ("multicast_port_list", [_multicast_port(p) for p in node.all("multicastPort")]),
            ("extraSetting_list", list(_extra(node))),
        ]
        groups = [_made(tag, node, {}, children) for tag, children in parts]
        groups.append(
            _made("control", node, {}, [_made("control_params", node, {}, node.all("parameter"))])
        )
        groups += node.all("mtm")
        groups += map(_dependency, node.all("hardwareDependency"))
        for n in node.all("faultTolerance"):
            groups.append(_made("faultTolerance", n, {"enable": "Yes"}))
        if node.attributes.get("hasSubGraph") == "Yes":
            groups.append(self.level(name))
        for parallel in node.all("dataParallel"):
            if parallel.attributes.get("type", "none") != "none":
                self._say.warn_together(
                    name, "a data-parallel task fires sequentially", parallel.span
                )
        kind = node.attributes.get("taskType", "")
        return _made("task", node, {"name": self._local(name), "type": kind}, groups)

    def _config(self, node: Element, name: str) -> Iterator[Element]:
        for key, value in _values(node.attributes, _ATTRIBUTES).items():
            yield _parameter(node, key, value)
        for loop in node.all("loopStructure"):
            yield _parameter(loop, "LoopType", loop.attributes.get("type", "").upper())
            yield _parameter(loop, "LoopCount", loop.attributes.get("loopCount", ""))
            self._check_end(loop, name)
        for external in node.all("externalConfig"):
            for key in ("networkFile", "architectureFile", "profileFile", "mappingFile"):
                yield _parameter(external, key, external.attributes.get(key, ""))
        if any(node.all("hardwareDependency")):
            yield _parameter(node, "IsHardwareDependent", "Yes")
        if name in self._times:
            yield from _of_mode(self._times[name])

    def _check_end(self, loop: Element, name: str) -> None:
        """The task that may end a loop exists."""
        task = loop.attributes.get("designatedTask", "")
        if task and task not in self._tasks:
            message = f"there is no task {shown(task)} that may end the loop {shown(name)}"
            self._say.fault(message, loop.span, did_you_mean(task, self._tasks))

    def _known(self, task: str, node: Element) -> bool:
        """Does a task exist? If not, that is a fault."""
        if task in self._tasks:
            return True
        message = f"there is no task {shown(task)}"
        self._say.fault(message, node.span, did_you_mean(task, self._tasks))
        return False

    def _modes(self) -> None:
        """Periods, deadlines and priorities: those of one mode of the application."""
        modes = [*self._root.within("modes", "mode")]
        if not modes:
            return
        chosen = next((m for m in modes if m.attributes.get("name") == "Default"), modes[0])
        if len(modes) > 1:
            name = shown(chosen.attributes.get("name", ""))
            self._say.warn(f"of several modes of the application, {name} is taken", chosen.span)
        for node in chosen.all("task"):
            task = self._say.attribute(node, "name")
            if task is not None and self._known(task, node):
                self._times[task] = node
        for node in chosen.all("taskGroup"):
            self._say.warn_together(
                node.attributes.get("name", "?"),
                "times of groups of tasks are not imported",
                node.span,
            )

    def _port(self, node: Element, task: str, ports: dict[str, list[Element]]) -> None:
        stated = self._say.attributes(node, "name", "direction", "sampleSize")
        if stated is None:
            return
        name, direction, size = stated
        if direction not in ports:
            message = f"the direction of port {shown(f'{task}.{name}')} is {shown(direction)}"
            self._say.fault(message, node.span, "there is input and output")
            return
        rates = [*node.all("rate")]
        made = {
            "name": name,
            "type": node.attributes.get("type", "fifo"),
            "sample_size": size,
            "sample_rate": "Fixed" if rates else "Variable",
            "sampleType": node.attributes.get("sampleType", ""),
        }
        ports[direction].append(_made("port", node, made, rates))

    # -- composites --------------------------------------------------------------------------------
    def _map(self, node: Element) -> None:
        stated = self._say.attributes(node, "task", "port", "direction")
        if stated is None:
            return
        task, port, direction = stated
        if not self._known(task, node):
            return
        child = node.attributes.get("childTask", "")
        inside = {n.attributes["name"] for n in self._members[task]}
        if child and child not in inside:
            message = f"there is no task {shown(child)} inside {shown(task)}"
            self._say.fault(message, node.span, did_you_mean(child, inside))
            return
        self._maps[task].append(node)
        if child:
            self._outer[child, node.attributes.get("childTaskPort", ""), direction].append(port)

    def _port_map(self, node: Element) -> Element:
        said = node.attributes
        made = {
            "macroNodePort": said["port"],
            "direction": said["direction"],
            "portMapType": said.get("type", "normal"),
        }
        made["insideTask"] = self._local(said.get("childTask", ""))
        made["insideTaskPort"] = said.get("childTaskPort", "")
        return _made("portMap", node, made)

    # -- channels ----------------------------------------------------------------------------------
    def _channel(self, node: Element) -> None:
        for source in node.all("src"):
            for destination in node.all("dst"):
                first, second = self._end(source), self._end(destination)
                if first is not None and second is not None:
                    self._connect(node, first, second)
        for tag in ("src", "dst"):
            if not any(node.all(tag)):
                self._say.fault(
                    f"this channel has no `{tag}`",
                    node.span,
                    f'write `<{tag} task="..." port="..."/>`',
                )

    def _connect(self, node: Element, first: tuple[str, str], second: tuple[str, str]) -> None:
        """A channel between two tasks, on the innermost level that holds both."""
        around = [self._around[task] for task, _ in (first, second)]
        shared = []
        for level, other in zip(*around, strict=False):
            if level != other:
                break
            shared.append(level)
        out = self._up(first, "output", len(shared), node)
        into = self._up(second, "input", len(shared), node)
        if out is None or into is None:
            return
        ends = {
            "src_task": out[0],
            "src_port": out[1],
            "dst_task": into[0],
            "dst_port": into[1],
        }
        names = {"initialDataSize": "init_size", "sampleSize": "sampleSize", "size": "size"}
        made = _made("channel", node, ends | _values(node.attributes, names))
        self._channels[_innermost(shared)].append(made)

    def _end(self, node: Element) -> tuple[str, str] | None:
        task, port = self._say.attribute(node, "task"), self._say.attribute(node, "port")
        if task is None or port is None or not self._known(task, node):
            return None
        # the fault of its place is reported elsewhere
        if task in self._around:
            return (task, port)
        return None

    def _up(
        self, end: tuple[str, str], direction: str, level: int, node: Element
    ) -> tuple[str, str] | None:
        """The task on a level that holds an end of a channel, and its port for that end."""
        task, port = end
        while len(self._around[task]) > level:
            ports = self._outer[task, port, direction]
            outside = self._around[task][-1]
            if not ports:
                message = (
                    f"a channel leads to {shown(f'{task}.{port}')}, but no port of {shown(outside)}"
                    " does"
                )
                self._say.fault(message, node.span, "add a `portMap`")
                return None
            # One port inside may be that of several: each has a channel of its own.
            task, port = outside, ports.pop(0) if len(ports) > 1 else ports[0]
        return self._local(task), port

    # -- libraries ---------------------------------------------------------------------------------
    def _link_libraries(self) -> None:
        """Each library is placed where its first user is, and is visible on all other levels with
        users."""
        libraries = {
            n.attributes.get("name", ""): n for n in self._root.within("libraries", "library")
        }
        seen: set[tuple[str, str]] = set()
        for node in self._root.within("libraryConnections", "taskLibraryConnection"):
            stated = self._say.attributes(node, "masterTask", "masterPort", "slaveLibrary")
            if stated is None:
                continue
            task, port, library = stated
            self._known(task, node)
            if library not in libraries:
                message = f"there is no library {shown(library)}"
                self._say.fault(message, node.span, did_you_mean(library, libraries))
            elif task in self._around:
                level = _innermost(self._around[task])
                made = {"src_task": self._local(task), "src_port": port, "dst_library": library}
                self._calls[level].append(_made("taskLibraryConnection", node, made))
                if (level, library) not in seen:
                    self._libraries[level].append(_library(libraries[library]))
                seen.add((level, library))
        used = {library for _, library in seen}
        for name, node in libraries.items():
            if name not in used:
                self._libraries[""].append(_library(node))


def _innermost(around: Sequence[str]) -> str:
    """The composite that a task is in; "" for the top."""
    if around:
        return around[-1]
    return ""


def _dependency(node: Element) -> Element:
    places = [_made("hardware", h, _values(h.attributes, _HARDWARE)) for h in node.all("hardware")]
    return _made("HardwareDependency", node, {}, places)


def _of_mode(times: Element) -> Iterator[Element]:
    """Priority, period and deadline of a task in a mode of the application."""
    if "priority" in times.attributes:
        yield _parameter(times, "Priority", times.attributes["priority"])
    for tag, key in (("period", "Period"), ("deadline", "Deadline")):
        for time in times.all(tag):
            yield _parameter(time, key, time.attributes.get("value", ""))
            yield _parameter(time, f"{key}Unit", time.attributes.get("metric", "us"))


def _library(node: Element) -> Element:
    config = []
    for key, value in _values(node.attributes, _LIBRARY).items():
        config.append(_parameter(node, key, value))
    return _made(
        "library",
        node,
        {"name": node.attributes.get("name", "")},
        [_made("config", node, {}, config)],
    )


def _multicast_port(node: Element) -> Element:
    said = node.attributes
    way = {"input": "IN", "output": "OUT"}.get(said.get("direction", ""), "")
    made = {"name": said.get("name", ""), "groupName": said.get("group", ""), "direction": way}
    return _made("multicast_port", node, made)


def _group(node: Element) -> Element:
    made = {"name": node.attributes.get("groupName", ""), "size": node.attributes.get("size", "")}
    return _made("multicast_group", node, made)


def _parameter(at: Element, name: str, value: str) -> Element:
    return _made("parameter", at, {"name": name, "value": value})


def _extra(node: Element) -> Iterator[Element]:
    for extra in node.all(*_EXTRA):
        yield _made(
            "extraSetting", extra, {"name": extra.text, "type": f"Extra {_EXTRA[extra.tag]}"}
        )
