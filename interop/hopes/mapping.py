"""The mapping by the authors of a HOPES project: the places of tasks, and of layers of networks.

In: `NAME_mapping.xml` of the project, the mapping files of its networks, and the states of its
control tasks. Out: the processors of each task and each layer in the names of the platform. The set
of a state that runs something counts; `Default` is a placeholder if there are others. `pins` makes
pins and plans of them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...model.diagnostic import did_you_mean, one_of
from ...model.span import Span
from ..names import listed, shown
from ..xml_tree import Element
from .choice import ModeChoice, ModeMachine, ModeTransition
from .design import HopesGraph, HopesTask, Way
from .files import HopesCollector, HopesProject, read_xml, start_of
from .networks import HopesNetwork, meant
from .platform import HopesBoard, HopesPool

#: The set of a mapping that counts if no state has one of its own.
PLACEHOLDER = "Default"


@dataclass(frozen=True, slots=True)
class Places:
    """Processors by task, and by layer for networks; `file` is their source, "" if there is
    none."""

    file: str
    tasks: Mapping[Way, tuple[str, ...]]
    layers: Mapping[Way, Mapping[str, str]]

    def only(self, ways: Collection[Way]) -> Places:
        """Those of some tasks."""
        tasks = {way: places for way, places in self.tasks.items() if way in ways}
        layers = {way: places for way, places in self.layers.items() if way in ways}
        return Places(self.file, tasks, layers)


def machines_of(
    project: HopesProject, graph: HopesGraph, choice: ModeChoice, say: HopesCollector
) -> tuple[ModeMachine, ...]:
    """The machines of control tasks; their switching is not imported."""
    machines = []
    for control in graph.tasks.values():
        if control.kind == "control":
            machine = _machine(control, project, graph, say)
            if machine is not None:
                machines.append(machine)
                _tell_states(machine, choice, say)
    return tuple(machines)


def _machine(
    control: HopesTask, project: HopesProject, graph: HopesGraph, say: HopesCollector
) -> ModeMachine | None:
    """The states of a control task; None if it has none."""
    path = project.named(
        control.network.get("fsmFile") or f"{control.name}.xml", project.graph.parent
    )
    if path is None:
        return None
    root = read_xml(path, say, "fsms")
    if root is None:
        return None
    states: dict[str, tuple[str, ...]] = {}
    for state in _tagged(root, "state"):
        states[state.attributes.get("name", "")] = tuple(_applications(state, graph, say))
    if not states:
        return None
    initial = next(iter(states))
    for node in root.below():
        if node.attributes.get("initial_state") == "true":
            initial = node.attributes.get("name", "")
            break
    transitions = tuple(_transitions(root, say))
    return ModeMachine(control.name, states, initial, transitions, root.span)


def _tagged(node: Element, tag: str) -> Iterator[Element]:
    """All elements of that tag below one."""
    return (below for below in node.below() if below.tag == tag)


def _applications(state: Element, graph: HopesGraph, say: HopesCollector) -> Iterator[str]:
    """The tasks that a state runs."""
    for application in _tagged(state, "application"):
        name = application.attributes.get("name", "")
        if name not in graph.tasks:
            message = f"there is no task {shown(name)}"
            say.fault(message, application.span, did_you_mean(name, graph.tasks))
        yield name


def _tell_states(machine: ModeMachine, choice: ModeChoice, say: HopesCollector) -> None:
    """What of a machine is imported."""
    if choice.state is not None and choice.state in machine.states:
        message = f"of the states of {shown(machine.control)}, {shown(choice.state)} is imported"
        say.warn(message, machine.span)
    elif not any(machine.states.values()):
        names = listed(machine.states)
        message = f"the scenarios of {shown(machine.control)} are not imported: {names}"
        say.warn(message, machine.span, "all apps run all the time")


def _transitions(root: Element, say: HopesCollector) -> Iterator[ModeTransition]:
    for node in _tagged(root, "transition"):
        name, source, target = (
            node.attributes.get(key, "") for key in ("name", "src_state", "dst_state")
        )
        conditions = [n.attributes for n in _tagged(node, "condition")]
        after = None
        if len(conditions) == 1 and conditions[0].get("type") == "TimeOut":
            time, unit = (conditions[0].get(key, "") for key in ("timeVal", "timeUnit"))
            after = say.time_ns(time, unit.lower(), f"the time of {shown(name)}", node.span)
        yield ModeTransition(name or f"{source}_to_{target}", source, target, after or None)


def states_of(machines: Iterable[ModeMachine], choice: ModeChoice) -> tuple[str, ...]:
    """The states whose mapping counts: the chosen one, else those that run something."""
    if choice.state is not None:
        return (choice.state,)
    return tuple(
        dict.fromkeys(state for m in machines for state, tasks in m.states.items() if tasks)
    )


def places_of(
    project: HopesProject,
    tasks: Mapping[Way, HopesTask],
    networks: Mapping[Way, HopesNetwork],
    board: HopesBoard,
    states: tuple[str, ...],
    say: HopesCollector,
) -> Places:
    """The authors' places of everything; unmapped tasks are left out."""
    found = _Places(tasks, networks, board, states, say)
    files = project.beside("mapping")
    for path in files[:1]:
        root = read_xml(path, say, "CIC_Mapping")
        if root is not None:
            found.project(root)
    for path in files[1:]:
        say.warn(
            f"`{path.name}` is not imported: the mapping is in `{files[0].name}`", start_of(path)
        )
    of_networks = []
    for way, network in networks.items():
        if network.mapping is not None:
            of_networks.append(network.mapping)
            found.network(way, network, network.mapping)
    if files:
        _tell_missing(files[0], tasks, found.tasks, say)
    elif not found.layers:
        return Places("", {}, {})
    return Places(str([*files, *of_networks][0]), found.tasks, found.layers)


def _tell_missing(
    file: Path, tasks: Mapping[Way, HopesTask], places: Container[Way], say: HopesCollector
) -> None:
    """Tasks without a place."""
    missing = []
    for way, task in tasks.items():
        if task.kind == "task" and way not in places:
            missing.append("_".join(way))
    if missing:
        message = f"{listed(missing, 4)}: the mapping does not contain this"
        say.warn(message, start_of(file), "the search places it")


@dataclass(slots=True)
class _Places:
    known: Mapping[Way, HopesTask]
    networks: Mapping[Way, HopesNetwork]
    board: HopesBoard
    states: tuple[str, ...]
    say: HopesCollector
    tasks: dict[Way, tuple[str, ...]] = field(default_factory=dict)
    layers: dict[Way, dict[str, str]] = field(default_factory=dict)
    _seen: dict[Way, Span] = field(default_factory=dict)

    # -- the project's own -------------------------------------------------------------------------
    def project(self, root: Element) -> None:
        names = {"_".join(way): way for way in self.known}
        for node in root.all("task"):
            way = self._way(node, names)
            if way is not None:
                self._task(node, way)
        for node in root.all("externalTask"):
            way = self._way(node, names)
            if way is not None:
                self._external(node, way)
        for node in root.all("library", "multicast"):
            self.say.warn_together(
                node.tag, "mappings of libraries and multicast groups are not imported", node.span
            )

    def _task(self, node: Element, way: Way) -> None:
        task = self.known[way]
        places = self._processors(node, task.stateful and task.kind == "task")
        if task.kind == "network":
            what = "the place of an external task itself is not imported: its layers have their own"
            self.say.warn_together(task.name, what, node.span)
        elif task.kind == "task" and places:
            self.tasks[way] = places

    def _external(self, node: Element, way: Way) -> None:
        name = node.attributes["name"]
        if way in self.networks:
            nodes = node.all("childTask")
            self.layers[way] = dict(self._layers(way, self.networks[way], nodes, f"{name}_"))
        elif self.known[way].kind != "network":
            self.say.fault(f"{shown(name)} is no external task", node.span)

    def _way(self, node: Element, names: Mapping[str, Way]) -> Way | None:
        name = self.say.attribute(node, "name")
        if name is None:
            return None
        # A composite without a graph has unknown tasks, which was reported.
        unknown = []
        for way, task in self.known.items():
            if task.kind == "graph" and task.graph is None:
                unknown.append("_".join(way))
        own = meant(name, names)
        if own is None and not any(name.startswith(f"{prefix}_") for prefix in unknown):
            self.say.fault(f"there is no task {shown(name)}", node.span, did_you_mean(name, names))
        if own is None:
            return None
        return names[own]

    # -- networks ----------------------------------------------------------------------------------
    def network(self, way: Way, network: HopesNetwork, path: Path) -> None:
        """The mapping file of a network; that of the project comes first."""
        root = read_xml(path, self.say, "CIC_Mapping")
        if root is None:
            return
        own = dict(self._layers(way, network, root.all("task"), ""))
        if way not in self.layers:
            self.layers[way] = own
        elif own != self.layers[way]:
            layer = next(n for n in network.everything if own.get(n) != self.layers[way].get(n))
            message = (
                f"layer {shown(layer)} of {shown('_'.join(way))} has a different place in the"
                " mapping of the project"
            )
            self.say.warn(message, root.span, "that of the project is taken")

    def _layers(
        self, way: Way, network: HopesNetwork, nodes: Iterable[Element], prefix: str
    ) -> Iterator[tuple[str, str]]:
        known = network.everything
        missing = dict.fromkeys(known)
        last: Span | None = None
        for node in nodes:
            said = self.say.attribute(node, "name")
            if said is None:
                continue
            name, last = said.removeprefix(prefix), node.span
            if name not in known:
                help_text = did_you_mean(name, known)
                self.say.fault(
                    f"{shown(network.name)} has no layer {shown(name)}", node.span, help_text
                )
                continue
            missing.pop(name, None)
            for place in self._processors(node, True)[:1]:
                self._able(network, name, place, node.span)
                yield name, place
        if missing and last is not None:
            self.say.fault(
                f"the mapping of {shown('_'.join(way))} does not contain {listed(missing)}", last
            )

    def _able(self, network: HopesNetwork, layer: str, place: str, span: Span) -> None:
        pool = self.board.pool_of(place)
        costs = network.times.get(layer)
        known = {self.board.processor_of(t) for t in costs or ()}
        if costs is not None and self.board.timed(pool) not in known:
            what = (
                f"a layer is mapped to {shown(pool.name)}, where {shown(network.name)} cannot run"
                " it by its profile"
            )
            self.say.warn_together(layer, what, span)

    # -- processors --------------------------------------------------------------------------------
    def _processors(self, node: Element, single: bool) -> tuple[str, ...]:
        """The processors of the set that counts; one, if firings cannot be shared."""
        sets = _sets(node)
        chosen = self._chosen(node, [each.name for each in sets])
        found: list[str] = []
        for each in sets:
            if each.name == chosen:
                for p in each.element.all("processor"):
                    processor = self._processor(each.device, p)
                    if processor:
                        found.append(processor)
        if len(found) > 1 and single:
            what = "several processors for a task that keeps state: the first is taken"
            self.say.warn_together(node.attributes.get("name", "?"), what, node.span)
            return tuple(found[:1])
        return tuple(dict.fromkeys(found))

    def _chosen(self, node: Element, names: list[str]) -> str:
        if not names:
            self.say.fault(
                "this mapping has no set", node.span, 'write `<mappingSet name="Default">`'
            )
            return ""
        wanted = [s for s in self.states if s in names]
        wanted = wanted or [n for n in names if n != PLACEHOLDER] or names
        if len(set(wanted)) > 1:
            what = f"of several mappings, {shown(wanted[0])} is taken"
            self.say.warn_together(node.attributes.get("name", "?"), what, node.span)
        return wanted[0]

    def _processor(self, device: str, node: Element) -> str | None:
        name, text = self.say.attribute(node, "pool"), self.say.attribute(node, "localId")
        if name is None or text is None:
            return None
        number = self.say.whole(text, "the localId", node.span)
        pool = self._pool(name, device, node.span)
        if pool is None or number is None:
            return None
        if number >= pool.count:
            self.say.fault(
                f"{shown(name)} has {pool.count} processors, and no number {number}", node.span
            )
            return None
        if not pool.kind:
            what = "the place of a task on a processor that is left out"
            self.say.warn_together(pool.element, what, node.span)
            return None
        return pool.processor(number)

    def _pool(self, name: str, device: str, span: Span) -> HopesPool | None:
        """The pool of a processor; None after a fault."""
        pool = self.board.pool(name, device) or self.board.pool(name)
        if pool is None:
            there = [p.element for p in self.board.pools]
            help_text = did_you_mean(name, there) or f"there is {one_of(there)}"
            self.say.fault(f"there is no processor {shown(name)}", span, help_text)
        elif device and all(p.device != device for p in self.board.pools):
            what = (
                "the architecture has no device of that name: processors are found by their own"
                " names"
            )
            self.say.warn_together(device, what, span)
        return pool


@dataclass(frozen=True, slots=True)
class _Set:
    """Processors of a task on a device, that count in one state."""

    device: str
    name: str
    element: Element


def _sets(node: Element) -> list[_Set]:
    """The sets of a task or a layer."""
    holders = [(d.attributes.get("name", ""), d) for d in node.all("device")] or [("", node)]
    sets = []
    for device, holder in holders:
        for element in holder.all("mappingSet"):
            sets.append(_Set(device, element.attributes.get("name", ""), element))
    if sets:
        return sets
    # Older versions of HOPES have no sets.
    return [_Set(d, PLACEHOLDER, holder) for d, holder in holders if any(holder.all("processor"))]
