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
from ...model.times import Times
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
    kept = read_manifest(path) if os.path.exists(path) else None
    found = understand(folder, source.whole.stem, say, kept.choice if kept is not None else None)
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
    names = {t.task: parts[t.hopes, t.role] for t in kept.tasks if (t.hopes, t.role) in parts}
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
    said = [(t.hopes, t.role) for t in kept.tasks]
    if len({*said}) < len(said):
        twice = next(part for part in said if said.count(part) > 1)
        return f"has two names for {shown('_'.join(twice[0]))}"
    gone = ["_".join(way) for way, role in said if (way, role) not in found.texts.names]
    come = ["_".join(way) for way, role in found.texts.names if (way, role) not in {*said}]
    if gone:
        return f"names {listed(gone, 4)}, which the project does not have"
    return f"does not name {listed(come, 4)} of the project" if come else ""


@dataclass(slots=True)
class _Back:
    source: Source
    project: Understood
    board: HopesBoard
    names: Mapping[str, Part]
    policy: str | None
    #: The times of the project; None: all known times are written.
    before: Times | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    #: The states that run some app; the first determines what an import takes.
    states: tuple[str, ...] = ()

    def files(self) -> dict[Path, str]:
        choice = self.project.choice
        self.states = states_of(
            machines_of(self.project.project, self.project.graph, choice, HopesCollector()), choice
        )
        if self.before is None:
            self._compare(self.names.keys())
        places = self._places()
        by_way, layers = self._by_way(places)
        if self.before is None:
            self._whole(by_way, layers)
        made: dict[Path, str] = {}
        as_it_runs = (
            self.before is not None
            and self.policy is not None
            and runs_as(self.project, self.policy)
        )
        if self.policy is not None and not as_it_runs and not self.faults:
            cores = {text: self._core(processors[0]) for text, processors in places.items()}
            apps = self.source.whole.apps
            made = running(self.policy, self.project, apps, self.names, cores, self.faults)
        if self.faults:
            raise Errors(self.faults)
        if self.before is not None:
            by_way, layers = self._moved_tasks(by_way), self._moved_layers(layers)
        if self.before is None or by_way or any(layers.values()):
            made |= {self._file("mapping"): self._mapping(by_way, layers)}
        profile = self._profile(self.names)
        if profile is not None:
            made[self._file("profile")] = profile
        return made

    def _by_way(
        self, places: Mapping[str, tuple[str, ...]]
    ) -> tuple[dict[Way, tuple[str, ...]], _Layers]:
        """The places of tasks, and of the layers of networks, by their names in HOPES."""
        plans = self._plans()
        by_way: dict[Way, tuple[str, ...]] = {}
        layers: _Layers = {}
        for text, (way, role) in self.names.items():
            network = self.project.networks.get(way)
            if network is None:
                if text in places:
                    by_way[way] = places[text]
                continue
            own = layers.setdefault(way, {})
            if not role:
                own |= _of_layers(network, plans.get(text), places.get(text, ()))
                continue
            layer = network.pre if role == "pre" else network.post
            if layer is not None and text in places:
                own[layer] = places[text]
        return by_way, layers

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
        found = {
            p.task: p.stages[0].processors for p in self.source.whole.pins if p.platform == board
        }
        found |= {p.task: p.processors for p in mapping.placements} if mapping is not None else {}
        return {
            task: processors for task, processors in found.items() if self._known(task, processors)
        }

    def _plans(self) -> dict[str, tuple[StagePlan, ...]]:
        mapping, board = self.source.mapping, self.source.platform.name
        pinned = [
            NetworkPlan(p.task, tuple(StagePlan(s.processors, s.until) for s in p.stages))
            for p in self.source.whole.pins
            if p.platform == board
        ]
        found = {
            plan.task: plan.stages
            for plan in (*pinned, *(mapping.networks if mapping is not None else ()))
        }
        return {
            task: stages
            for task, stages in found.items()
            if all(self._known(task, s.processors) for s in stages)
        }

    def _known(self, task: str, processors: Iterable[str]) -> bool:
        pools = {p.name for p in self.board.pools if p.kind}
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
        missing = [
            "_".join(w)
            for w, t in self.project.tasks.items()
            if t.kind == "task" and w not in tasks
        ]
        for way, network in self.project.networks.items():
            missing += [
                f"{'_'.join(way)}_{n}" for n in network.everything if n not in layers.get(way, {})
            ]
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
        return self.before is not None and (not known or known == self.before.of.get(text))

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
            own = [
                "    " + line
                for layer in self.project.networks[way].everything
                for line in self._entry(
                    "childTask", f"{name}_{layer}", places.get(layer, ()), old, first
                )
            ]
            if own or self.before is None:  # its layers may be in a file of the network
                lines += [f"    <externalTask name={quoteattr(name)}>", *own, "    </externalTask>"]
        lines += self._others("externalTask", "library", "multicast")
        return _document("CIC_Mapping", lines)

    def _old_mapping(self) -> dict[str, Element]:
        """The project's present mapping, by name; empty if it cannot be read."""
        found: dict[str, Element] = {}
        for path in self.project.project.beside("mapping")[:1]:
            root = read_xml(path, HopesCollector(), "CIC_Mapping")
            for node in root.below() if root is not None else ():
                if node.tag in ("task", "childTask"):
                    found[node.attributes.get("name", "")] = node
        return found

    def _others(self, *tags: str) -> Iterator[str]:
        """The parts of the mapping beyond the text: libraries and groups, and tasks that were not
        imported."""
        there = {"_".join(way) for way, task in self.project.tasks.items() if task.graph is None}
        for path in self.project.project.beside("mapping")[:1]:
            root = read_xml(path, HopesCollector(), "CIC_Mapping")
            for node in root.all(*tags) if root is not None else ():
                if (
                    node.tag not in ("task", "externalTask")
                    or meant(node.attributes.get("name", ""), there) is None
                ):
                    yield from as_text(node, 1)

    def _entry(
        self, tag: str, name: str, places: tuple[str, ...], old: Mapping[str, Element], first: str
    ) -> Iterator[str]:
        """The lines of a task or a layer: its new sets, and the old ones of other states."""
        node = old.get(name)
        before = list(_sets(node)) if node is not None else []
        if not places and (before or self.before is not None):
            if node is not None:
                yield from as_text(node, 1)
            return
        written = {PLACEHOLDER, *self._taken([s for _, s, _ in before])}
        sets = [(device, each) for device, s, each in before if s not in written]
        said = node.attributes if node is not None else {"name": name}
        yield f"    <{tag}{attributes_as_text(said)}>"
        new = [(self._device(p), p) for p in places or (first,)]
        for device in dict.fromkeys([*(d for d, _ in new), *(d for d, _ in sets)]):
            yield f"        <device name={quoteattr(device)}>"
            yield from self._new_sets(written, [p for d, p in new if d == device])
            for d, each in sets:
                if d == device:
                    yield from as_text(each, 3)
            yield "        </device>"
        yield f"    </{tag}>"

    def _new_sets(self, names: Iterable[str], processors: list[str]) -> Iterator[str]:
        """The lines of the sets of a device, all with the same processors."""
        if not processors:
            return
        for name in sorted(names):
            yield f"            <mappingSet name={quoteattr(name)}>"
            yield from (f"                {self._processor(p)}" for p in processors)
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
        return (pool.element, _number(processor)) if pool.kind == "cpu" else None

    # -- times -------------------------------------------------------------------------------------
    def _profile(self, names: Mapping[str, Part]) -> str | None:
        """The times of tasks (layers have files of their own), in us and rounded up; None if no
        time is known."""
        lines: list[str] = []
        written: set[str] = set()
        for text, (way, _) in names.items():
            known = self.source.times.of.get(text, {})
            if way in self.project.networks or not known or self._as_timed(text):
                continue
            written.add("_".join(way))
            lines += [
                f"    <task name={quoteattr('_'.join(way))}>",
                '        <mode name="Default">',
            ]
            for pool in self.board.pools:
                time = known.get(pool.kind)
                kind = quoteattr(pool.type)
                if time is None:
                    lines += [
                        f'            <profile processorType={kind} value="{CANNOT}" unit="us"/>'
                    ]
                    continue
                value, worst = (ceil(Fraction(ns) / 1000) for ns in (time.mean_ns, time.longest_ns))
                lines += [
                    f'            <profile processorType={kind} value="{value}" unit="us">',
                    f'                <bound type="Maximum" value="{worst}" unit="us"/>',
                    "            </profile>",
                ]
            lines += ["        </mode>", "    </task>"]
        if lines and self.before is not None:
            lines += self._other_times(written)
        return _document("CIC_Profile", lines) if lines else None

    def _other_times(self, written: set[str]) -> Iterator[str]:
        """The profile's present times of other tasks."""
        for path in self.project.project.beside("profile")[:1]:
            root = read_xml(path, HopesCollector(), "CIC_Profile")
            for node in root.all("task") if root is not None else ():
                if node.attributes.get("name") not in written:
                    yield from as_text(node, 1)


def _number(processor: str) -> int:
    return int(processor.partition("[")[2].rstrip("]") or "0")


def _of_layers(
    network: HopesNetwork, stages: tuple[StagePlan, ...] | None, processors: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The processors of each layer, of the plan of a network or of the place of the whole."""
    if not stages:
        return dict.fromkeys(network.layers, processors[:1]) if processors else {}
    found: dict[str, tuple[str, ...]] = {}
    rest = list(network.layers)
    for stage in stages:
        end = rest.index(stage.until) + 1 if stage.until in rest else len(rest)
        found |= dict.fromkeys(rest[:end], stage.processors[:1])
        rest = rest[end:]
    return found


def _sets(node: Element) -> Iterator[tuple[str, str, Element]]:
    """The sets of a mapping: device, name, element."""
    for holder in list(node.all("device")) or [node]:
        for s in holder.all("mappingSet"):
            yield (
                holder.attributes.get("name", "") if holder is not node else "",
                s.attributes.get("name", ""),
                s,
            )


def _document(root: str, lines: Iterable[str]) -> str:
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return "\n".join([head, f'<{root} xmlns="{SCHEMA}">', *lines, f"</{root}>"]) + "\n"
