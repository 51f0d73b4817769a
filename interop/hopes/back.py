"""A mapping of flowc as files of the HOPES project that the application came from.

In: an application with its mapping and times, and the project. Out: `NAME_mapping.xml` and
`NAME_profile.xml`, and the files of a policy (`orders`); the rest of the project is unchanged.
HOPES' names of tasks are in the import manifest; without one, they follow from importing the
project again. Of the sets of a mapping, `Default` and the one that an import takes (that of a
state) are written; all others stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ...model.diagnostic import Diagnostic, Errors, did_you_mean
from ...model.mapping import NetworkPlan, StagePlan
from ...model.times import FiringTime, Times
from ..names import listed, shown
from ..registry import Changes, Source
from ..xml_tree import Element, as_text, attributes_as_text
from .design import Way
from .files import HopesCollector, read_xml
from .import_manifest import WRONG, ImportManifest, beside, read_manifest
from .importer import Understood, understand
from .mapping import PLACEHOLDER, machines_of, states_of
from .networks import HopesNetwork, meant
from .orders import running, runs_as
from .platform import HopesBoard
from .text import Part
from .words import CANNOT, SCHEMA

#: Diagnostic: HOPES, or this project, cannot express it.
CANNOT_SAY = "F724"
#: The processors of each layer of networks.
_Layers = dict[Way, dict[str, tuple[str, ...]]]


def back(source: Source, folder: Path, policy: str | None) -> Changes:
    """The files that carry the mapping of an application into its project. Raises Errors with
    everything at once.

    `policy` is one of `words.POLICIES`, or None to keep the project's.
    """
    say = HopesCollector()
    path = beside(source.whole)
    kept = choice = None
    if os.path.exists(path):
        kept = read_manifest(path)
        choice = kept.choice
    found = understand(folder, source.whole.stem, say, choice)
    names, warnings = _names(path, kept, found)
    if found.board is None:
        message = (
            f"the project `{found.project.name}` has no architecture that a mapping could name"
        )
        raise Errors(
            [
                Diagnostic(
                    CANNOT_SAY, message, None, help="give it a device with processors in HOPES"
                )
            ]
        )
    return Changes(_Back(source, found, found.board, names, policy).files(), warnings)


def onto(
    source: Source, found: Understood, kept: ImportManifest, before: Times, policy: str | None
) -> dict[Path, str]:
    """The changed files of a project; `found` is the text with the same tasks that an import of it
    gives.

    They differ from the text in its times, which were `before`, its places, if it has any, and the
    policy, if one is given. Raises Errors.
    """
    if found.board is None:
        return {}
    parts: dict[tuple[Way, str], Part] = {part: part for part in found.texts.names}
    names = {}
    for t in kept.tasks:
        if (t.hopes, t.role) in parts:
            names[t.task] = parts[t.hopes, t.role]
    return _Back(source, found, found.board, names, policy, before).files()


def _names(
    path: Path, kept: ImportManifest | None, found: Understood
) -> tuple[dict[str, Part], tuple[Diagnostic, ...]]:
    """The tasks of the text as parts of the project: by the manifest, which has to be that of the
    project."""
    there = found.texts.names
    if kept is None:
        return {text: part for part, text in there.items()}, ()
    wrong = _wrong(kept, found)
    if wrong:
        raise Errors(
            [Diagnostic(WRONG, f"`{path.name}` {wrong}", None, help="import the project again")]
        )
    parts: dict[tuple[Way, str], Part] = {part: part for part in there}
    names = {t.task: parts[t.hopes, t.role] for t in kept.tasks}
    changed = kept.changed(found.project)
    if not changed:
        return names, ()
    message = (
        f"{listed(changed)} of the project changed after the import: rates and sizes may differ"
    )
    return names, (
        Diagnostic(WRONG, message, None, help="import the project again", severity="warning"),
    )


def _wrong(kept: ImportManifest, found: Understood) -> str:
    """Why a manifest is not that of a project; empty if it is."""
    if kept.project != found.project.name:
        return (
            f"is that of the project {shown(kept.project)}, and this is {shown(found.project.name)}"
        )
    named = [(t.hopes, t.role) for t in kept.tasks]
    if len({*named}) < len(named):
        twice = next(part for part in named if named.count(part) > 1)
        return f"has two names for {shown('_'.join(twice[0]))}"
    gone = ["_".join(part[0]) for part in named if part not in found.texts.names]
    if gone:
        return f"names {listed(gone, 4)}, which the project does not have"
    come = ["_".join(part[0]) for part in found.texts.names if part not in {*named}]
    if come:
        return f"does not name {listed(come, 4)} of the project"
    return ""


@dataclass(slots=True)
class _Back:
    source: Source
    project: Understood
    board: HopesBoard
    names: Mapping[str, Part]
    policy: str | None
    #: The times of the project; None: all known times are written.
    previous_times: Times | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    #: The states that run some app; the first determines what an import takes.
    states: tuple[str, ...] = ()

    def files(self) -> dict[Path, str]:
        choice = self.project.choice
        self.states = states_of(
            machines_of(self.project.project, self.project.graph, choice, HopesCollector()), choice
        )
        if self.previous_times is None:
            self._compare(self.names.keys())
        places = self._places()
        placements_by_task, layers = self._placements_by_task(places)
        if self.previous_times is None:
            self._whole(placements_by_task, layers)
        made = self._policy(places)
        if self.faults:
            raise Errors(self.faults)
        if self.previous_times is not None:
            placements_by_task = self._moved_tasks(placements_by_task)
            layers = self._moved_layers(layers)
        if self.previous_times is None or placements_by_task or any(layers.values()):
            made[self._file("mapping")] = self._mapping(placements_by_task, layers)
        profile = self._profile(self.names)
        if profile is not None:
            made[self._file("profile")] = profile
        return made

    def _policy(self, places: Mapping[str, tuple[str, ...]]) -> dict[Path, str]:
        """The files of the wanted policy; none if the project has that policy already."""
        if self.policy is None:
            return {}
        as_it_runs = self.previous_times is not None and runs_as(self.project, self.policy)
        if as_it_runs or self.faults:
            return {}
        cores = {text: self._core(processors[0]) for text, processors in places.items()}
        apps = self.source.whole.apps
        return running(self.policy, self.project, apps, self.names, cores, self.faults)

    def _placements_by_task(
        self, places: Mapping[str, tuple[str, ...]]
    ) -> tuple[dict[Way, tuple[str, ...]], _Layers]:
        """The places of tasks, and of the layers of networks, by their names in HOPES."""
        plans = self._plans()
        placements_by_task: dict[Way, tuple[str, ...]] = {}
        layers: _Layers = {}
        for text, (way, role) in self.names.items():
            network = self.project.networks.get(way)
            if network is None:
                if text in places:
                    placements_by_task[way] = places[text]
                continue
            own = layers.setdefault(way, {})
            if not role:
                own |= _of_layers(network, plans.get(text), places.get(text, ()))
                continue
            if role == "pre":
                layer = network.pre
            else:
                layer = network.post
            if layer is not None and text in places:
                own[layer] = places[text]
        return placements_by_task, layers

    def _file(self, kind: str) -> Path:
        project = self.project.project
        return next(iter(project.beside(kind)), project.files / f"{project.name}_{kind}.xml")

    def _fault(self, message: str, help_text: str = "") -> None:
        self.faults.append(Diagnostic(CANNOT_SAY, message, None, help=help_text))

    # -- what the application says -----------------------------------------------------------------
    def _compare(self, there: Iterable[str]) -> None:
        """Both must have the same tasks."""
        ours, theirs = {t.name for a in self.source.whole.apps for t in a.tasks}, set(there)
        name = self.project.project.name
        for task in sorted(ours - theirs):
            help_text = did_you_mean(task, theirs - ours) or "import the project again"
            self._fault(f"the project `{name}` has no task for {shown(task)}", help_text)
        if theirs - ours:
            text = Path(self.source.whole.path).name
            self._fault(
                f"`{text}` has no {listed(sorted(theirs - ours), 4)}", "import the project again"
            )

    def _places(self) -> dict[str, tuple[str, ...]]:
        """The processors of each task by its name: mapped ones, else pinned ones."""
        mapping, board = self.source.mapping, self.source.platform.name
        found = {}
        for p in self.source.whole.pins:
            if p.platform == board:
                found[p.task] = p.stages[0].processors
        if mapping is not None:
            found |= {p.task: p.processors for p in mapping.placements}
        known = {}
        for task, processors in found.items():
            if self._known(task, processors):
                known[task] = processors
        return known

    def _plans(self) -> dict[str, tuple[StagePlan, ...]]:
        mapping, board = self.source.mapping, self.source.platform.name
        plans = []
        for p in self.source.whole.pins:
            if p.platform == board:
                stages = tuple(StagePlan(s.processors, s.until) for s in p.stages)
                plans.append(NetworkPlan(p.task, stages))
        if mapping is not None:
            plans += mapping.networks
        found = {plan.task: plan.stages for plan in plans}
        known = {}
        for task, stages in found.items():
            if all(self._known(task, s.processors) for s in stages):
                known[task] = stages
        return known

    def _known(self, task: str, processors: Iterable[str]) -> bool:
        pools = set()
        for p in self.board.pools:
            if p.kind:
                pools.add(p.name)
        foreign = [p for p in processors if p.partition("[")[0] not in pools]
        if foreign:
            message = (
                f"{shown(task)} runs on {listed(foreign)}, which the device"
                f" {shown(self.board.device)} does not have"
            )
            self._fault(message, f"map it with `--platform {self.board.name}.flow`")
        return not foreign

    def _whole(
        self, tasks: Mapping[Way, object], layers: Mapping[Way, Mapping[str, object]]
    ) -> None:
        """Is everything mapped?"""
        missing = []
        for w, t in self.project.tasks.items():
            if t.kind == "task" and w not in tasks:
                missing.append("_".join(w))
        for way, network in self.project.networks.items():
            for n in network.everything:
                if n not in layers.get(way, {}):
                    missing.append(f"{'_'.join(way)}_{n}")
        if missing and not self.faults:
            message = f"no processor is known for {listed(missing, 4)}"
            self._fault(message, f"run `flowc map`, or pin them on {self.board.name}")

    # -- what the project says already -------------------------------------------------------------
    def _moved_tasks(self, tasks: Mapping[Way, tuple[str, ...]]) -> dict[Way, tuple[str, ...]]:
        """Tasks that have another place in the project."""
        there = self.project.places.tasks
        return {way: places for way, places in tasks.items() if there.get(way) != places}

    def _moved_layers(self, layers: Mapping[Way, Mapping[str, tuple[str, ...]]]) -> _Layers:
        """Layers that have another place in the project."""
        there = self.project.places.layers
        return {
            way: {layer: p for layer, p in own.items() if there.get(way, {}).get(layer) != p[0]}
            for way, own in layers.items()
        }

    def _as_timed(self, text: str) -> bool:
        """Are the project's times the only known ones of a task?"""
        known = self.source.times.of.get(text)
        return self.previous_times is not None and (
            not known or known == self.previous_times.of.get(text)
        )

    # -- the mapping -------------------------------------------------------------------------------
    def _mapping(
        self,
        tasks: Mapping[Way, tuple[str, ...]],
        layers: Mapping[Way, Mapping[str, tuple[str, ...]]],
    ) -> str:
        old = self._old_mapping()
        pools = sorted((p for p in self.board.pools if p.kind), key=lambda p: p.kind != "cpu")
        first = pools[0].processor(0)
        lines: list[str] = []
        for way, task in self.project.tasks.items():
            if task.graph is None:
                # Control tasks, and the threads of networks, stay in their place, or go to the
                # first core.
                lines += self._entry("task", "_".join(way), tasks.get(way, ()), old, first)
        lines += self._others("task")
        for way, places in layers.items():
            name = "_".join(way)
            own = []
            for layer in self.project.networks[way].everything:
                for line in self._entry(
                    "childTask", f"{name}_{layer}", places.get(layer, ()), old, first
                ):
                    own.append("    " + line)
            if own or self.previous_times is None:  # its layers may be in a file of the network
                lines += [f"    <externalTask name={quoteattr(name)}>", *own, "    </externalTask>"]
        lines += self._others("externalTask", "library", "multicast")
        return _document("CIC_Mapping", lines)

    def _old_mapping(self) -> dict[str, Element]:
        """The project's present mapping, by name; empty if it cannot be read."""
        found: dict[str, Element] = {}
        root = self._present("mapping")
        if root is None:
            return found
        for node in root.below():
            if node.tag in ("task", "childTask"):
                found[node.attributes.get("name", "")] = node
        return found

    def _present(self, kind: str) -> Element | None:
        """The root of the project's present mapping or profile; None if it cannot be read."""
        for path in self.project.project.beside(kind)[:1]:
            return read_xml(path, HopesCollector(), f"CIC_{kind.capitalize()}")
        return None

    def _others(self, *tags: str) -> Iterator[str]:
        """The parts of the mapping beyond the text: libraries and groups, and tasks that were not
        imported."""
        root = self._present("mapping")
        if root is None:
            return
        there = set()
        for way, task in self.project.tasks.items():
            if task.graph is None:
                there.add("_".join(way))
        for node in root.all(*tags):
            is_task = node.tag in ("task", "externalTask")
            if not is_task or meant(node.attributes.get("name", ""), there) is None:
                yield from as_text(node, 1)

    def _entry(
        self, tag: str, name: str, places: tuple[str, ...], old: Mapping[str, Element], first: str
    ) -> Iterator[str]:
        """The lines of a task or a layer: its new sets, and the old ones of other states."""
        node = old.get(name)
        before: list[tuple[str, str, Element]] = []
        attributes = {"name": name}
        if node is not None:
            before = list(_sets(node))
            attributes = node.attributes
        if not places and (before or self.previous_times is not None):
            if node is not None:
                yield from as_text(node, 1)
            return
        written = {PLACEHOLDER, *self._taken([s for _, s, _ in before])}
        others: dict[str, list[Element]] = {}
        new: dict[str, list[str]] = {}
        for device, of_set, each in before:
            if of_set not in written:
                others.setdefault(device, []).append(each)
        for processor in places or (first,):
            new.setdefault(self._device(processor), []).append(processor)
        yield f"    <{tag}{attributes_as_text(attributes)}>"
        for device in dict.fromkeys([*new, *others]):
            yield f"        <device name={quoteattr(device)}>"
            yield from self._new_sets(written, new.get(device, []))
            for each in others.get(device, ()):
                yield from as_text(each, 3)
            yield "        </device>"
        yield f"    </{tag}>"

    def _new_sets(self, names: Iterable[str], processors: list[str]) -> Iterator[str]:
        """The lines of the sets of a device, all with the same processors."""
        if not processors:
            return
        for name in sorted(names):
            yield f"            <mappingSet name={quoteattr(name)}>"
            for p in processors:
                yield f"                {self._processor(p)}"
            yield "            </mappingSet>"

    def _taken(self, there: list[str]) -> set[str]:
        """The existing set that an import of the project takes."""
        chosen = [s for s in self.states if s in there] or [s for s in there if s != PLACEHOLDER]
        return set(chosen[:1])

    def _device(self, processor: str) -> str:
        return self.board.pool_of(processor).device or self.board.device

    def _processor(self, processor: str) -> str:
        pool = self.board.pool_of(processor)
        return f'<processor pool={quoteattr(pool.element)} localId="{_number(processor)}"/>'

    def _core(self, processor: str) -> tuple[str, int] | None:
        """Element and number of a CPU."""
        pool = self.board.pool_of(processor)
        if pool.kind == "cpu":
            return (pool.element, _number(processor))
        return None

    # -- times -------------------------------------------------------------------------------------
    def _profile(self, names: Mapping[str, Part]) -> str | None:
        """The times of tasks (layers have files of their own), in us and rounded up; None if no
        time is known."""
        lines: list[str] = []
        written: set[str] = set()
        for text, (way, _) in names.items():
            known = self.source.times.of.get(text, {})
            if known and way not in self.project.networks and not self._as_timed(text):
                written.add("_".join(way))
                lines += self._profile_of(way, known)
        if lines and self.previous_times is not None:
            lines += self._other_times(written)
        if lines:
            return _document("CIC_Profile", lines)
        return None

    def _profile_of(self, way: Way, known: Mapping[str, FiringTime]) -> Iterator[str]:
        """The lines of a task, by its times on types of processors, or on their kinds."""
        yield f"    <task name={quoteattr('_'.join(way))}>"
        yield '        <mode name="Default">'
        for pool in self.board.pools:
            time = known.get(self.board.timed(pool)) or known.get(pool.kind)
            kind = quoteattr(pool.type)
            if time is None:
                yield f'            <profile processorType={kind} value="{CANNOT}" unit="us"/>'
                continue
            value, worst = (ceil(Fraction(ns) / 1000) for ns in (time.mean_ns, time.longest_ns))
            yield f'            <profile processorType={kind} value="{value}" unit="us">'
            yield f'                <bound type="Maximum" value="{worst}" unit="us"/>'
            yield "            </profile>"
        yield "        </mode>"
        yield "    </task>"

    def _other_times(self, written: set[str]) -> Iterator[str]:
        """The profile's present times of other tasks."""
        root = self._present("profile")
        if root is None:
            return
        for node in root.all("task"):
            if node.attributes.get("name") not in written:
                yield from as_text(node, 1)


def _number(processor: str) -> int:
    return int(processor.partition("[")[2].rstrip("]") or "0")


def _of_layers(
    network: HopesNetwork, stages: tuple[StagePlan, ...] | None, processors: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The processors of each layer, of the plan of a network or of the place of the whole."""
    if not stages:
        if processors:
            return dict.fromkeys(network.layers, processors[:1])
        return {}
    found: dict[str, tuple[str, ...]] = {}
    rest = list(network.layers)
    for stage in stages:
        if stage.until in rest:
            end = rest.index(stage.until) + 1
        else:
            end = len(rest)
        found |= dict.fromkeys(rest[:end], stage.processors[:1])
        rest = rest[end:]
    return found


def _sets(node: Element) -> Iterator[tuple[str, str, Element]]:
    """The sets of a mapping: device, name, element."""
    devices = [(device.attributes.get("name", ""), device) for device in node.all("device")]
    for name, holder in devices or [("", node)]:
        for each in holder.all("mappingSet"):
            yield name, each.attributes.get("name", ""), each


def _document(root: str, lines: Iterable[str]) -> str:
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return "\n".join([head, f'<{root} xmlns="{SCHEMA}">', *lines, f"</{root}>"]) + "\n"
