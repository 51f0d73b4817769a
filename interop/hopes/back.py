"""A mapping that flowc found, as files of the HOPES project that the application came from.

In: an application with its mapping and times, and the project. Out: `NAME_mapping.xml` and `NAME_profile.xml`; the
project stays what it is otherwise. Tasks are found by importing the project again: what they are called in the text
follows from it, so nothing has to be kept beside a text. Of the sets of a mapping, `Default` is written and the one
that an import takes (that of a state); all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ...model.diagnostic import Diagnostic, Errors, did_you_mean
from ...model.hopes import CANNOT, SCHEMA
from ...model.mapping import NetworkPlan, StagePlan
from ..names import listed, shown
from ..registry import Source
from ..xml_tree import Element
from .files import Collector, read_xml
from .importer import Understood, understand
from .mapping import PLACEHOLDER, states_of
from .networks import HopesNetwork
from .platform import Board
from .tasks import Way

#: What cannot be said in HOPES, or not of this project.
CANNOT_SAY = "F724"


def back(source: Source, folder: Path) -> dict[Path, str]:
    """The files that carry the mapping of an application into its project. Raises Errors with everything at once."""
    say = Collector()
    found = understand(folder, source.whole.stem, say)
    if found.board is None:
        message = f"the project `{found.project.name}` has no architecture that a mapping could name"
        raise Errors([Diagnostic(CANNOT_SAY, message, None, help="give it a device with processors in HOPES")])
    return _Back(source, found, found.board).files()


@dataclass(slots=True)
class _Back:
    source: Source
    project: Understood
    board: Board
    faults: list[Diagnostic] = field(default_factory=list)
    #: The states that run something, the first of which decides what an import takes.
    states: tuple[str, ...] = ()

    def files(self) -> dict[Path, str]:
        self.states = states_of(self.project.project, self.project.graph, Collector())
        names = {text: part for part, text in self.project.texts.names.items()}
        self._compare(names.keys())
        places, plans = self._places(), self._plans()
        by_way: dict[Way, tuple[str, ...]] = {}
        layers: dict[Way, dict[str, tuple[str, ...]]] = {}
        for text, (way, role) in names.items():
            network = self.project.networks.get(way)
            if network is None:
                if text in places:
                    by_way[way] = places[text]
                continue
            own = layers.setdefault(way, {})
            if role:
                layer = network.pre if role == "pre" else network.post
                if layer is not None and text in places:
                    own[layer] = places[text]
            else:
                own |= _of_layers(network, plans.get(text), places.get(text, ()))
        self._whole(by_way, layers)
        if self.faults:
            raise Errors(self.faults)
        made = {self._file("mapping"): self._mapping(by_way, layers)}
        profile = self._profile(names)
        if profile is not None:
            made[self._file("profile")] = profile
        return made

    def _file(self, kind: str) -> Path:
        project = self.project.project
        return next(iter(project.beside(kind)), project.files / f"{project.name}_{kind}.xml")

    def _fault(self, message: str, help_text: str = "") -> None:
        self.faults.append(Diagnostic(CANNOT_SAY, message, None, help=help_text))

    # -- what the application says -----------------------------------------------------------------------------------
    def _compare(self, there: Iterable[str]) -> None:
        """Both have to have the same tasks."""
        ours, theirs = {t.name for a in self.source.whole.apps for t in a.tasks}, set(there)
        name = self.project.project.name
        for task in sorted(ours - theirs):
            help_text = did_you_mean(task, theirs - ours) or "import the project again"
            self._fault(f"the project `{name}` has no task that becomes {shown(task)}", help_text)
        if theirs - ours:
            text = Path(self.source.whole.path).name
            self._fault(f"`{text}` has no {listed(sorted(theirs - ours), 4)}", "import the project again")

    def _places(self) -> dict[str, tuple[str, ...]]:
        """The processors of each task by its name: what was mapped, else what is pinned."""
        mapping, board = self.source.mapping, self.source.platform.name
        found = {p.task: p.stages[0].processors for p in self.source.whole.pins if p.platform == board}
        found |= {p.task: p.processors for p in mapping.placements} if mapping is not None else {}
        return {task: processors for task, processors in found.items() if self._known(task, processors)}

    def _plans(self) -> dict[str, tuple[StagePlan, ...]]:
        mapping, board = self.source.mapping, self.source.platform.name
        pinned = [NetworkPlan(p.task, tuple(StagePlan(s.processors, s.until) for s in p.stages))
                  for p in self.source.whole.pins if p.platform == board]  # fmt: skip
        found = {plan.task: plan.stages for plan in (*pinned, *(mapping.networks if mapping is not None else ()))}
        return {task: stages for task, stages in found.items() if all(self._known(task, s.processors) for s in stages)}

    def _known(self, task: str, processors: Iterable[str]) -> bool:
        pools = {p.name for p in self.board.pools if p.kind}
        foreign = [p for p in processors if p.partition("[")[0] not in pools]
        if foreign:
            message = f"{shown(task)} runs on {listed(foreign)}, which the device {shown(self.board.device)} has not"
            self._fault(message, f"map it with `--platform {self.board.name}.flow`")
        return not foreign

    def _whole(self, tasks: Mapping[Way, object], layers: Mapping[Way, Mapping[str, object]]) -> None:
        """Is everything mapped?"""
        missing = ["_".join(w) for w, t in self.project.tasks.items() if t.kind == "task" and w not in tasks]
        for way, network in self.project.networks.items():
            missing += [f"{'_'.join(way)}_{n}" for n in network.everything if n not in layers.get(way, {})]
        if missing and not self.faults:
            message = f"nothing says where {listed(missing, 4)} run" + ("s" if len(missing) == 1 else "")
            self._fault(message, f"run `flowc map`, or pin them on {self.board.name}")

    # -- the mapping -------------------------------------------------------------------------------------------------
    def _mapping(
        self, tasks: Mapping[Way, tuple[str, ...]], layers: Mapping[Way, Mapping[str, tuple[str, ...]]]
    ) -> str:
        old = self._old_mapping()
        pools = sorted((p for p in self.board.pools if p.kind), key=lambda p: p.kind != "cpu")
        first = pools[0].processor(0)
        lines: list[str] = []
        for way, task in self.project.tasks.items():
            if task.graph is None:
                # Control tasks, and the threads of networks, are where they were, or on the first core.
                lines += self._entry("task", "_".join(way), tasks.get(way, ()), old, first)
        for way, places in layers.items():
            name = "_".join(way)
            network = self.project.networks[way]
            lines += [f"    <externalTask name={quoteattr(name)}>"]
            for layer in network.everything:
                lines += [
                    "    " + line for line in self._entry("childTask", f"{name}_{layer}", places[layer], old, first)
                ]
            lines += ["    </externalTask>"]
        for node in old.values():
            if node.tag in ("library", "multicast"):
                lines += _as_text(node, 1)
        return _document("CIC_Mapping", lines)

    def _old_mapping(self) -> dict[str, Element]:
        """What the project says so far, by name; nothing if it cannot be read."""
        found: dict[str, Element] = {}
        for path in self.project.project.beside("mapping")[:1]:
            root = read_xml(path, Collector(), "CIC_Mapping")
            for node in root.below() if root is not None else ():
                if node.tag in ("task", "childTask", "library", "multicast"):
                    found[node.attributes.get("name") or node.attributes.get("groupName", "")] = node
        return found

    def _entry(
        self, tag: str, name: str, places: tuple[str, ...], old: Mapping[str, Element], first: str
    ) -> Iterator[str]:
        """The lines of a task or a layer: its new sets, and the old ones of other states."""
        before = list(_sets(old[name])) if name in old else []
        if not places and before:
            yield from _as_text(old[name], 1)
            return
        written = {PLACEHOLDER, *self._taken([s for _, s, _ in before])}
        sets = [(device, s, node) for device, s, node in before if s not in written]
        yield f"    <{tag}{_attributes(old.get(name, None), name)}>"
        new = [(self._device(p), p) for p in places or (first,)]
        for device in dict.fromkeys([*(d for d, _ in new), *(d for d, _, _ in sets)]):
            yield f"        <device name={quoteattr(device)}>"
            here = [p for d, p in new if d == device]
            for s in sorted(written) if here else ():
                yield f"            <mappingSet name={quoteattr(s)}>"
                yield from (f"                {self._processor(p)}" for p in here)
                yield "            </mappingSet>"
            for d, _, node in sets:
                if d == device:
                    yield from _as_text(node, 3)
            yield "        </device>"
        yield f"    </{tag}>"

    def _taken(self, there: list[str]) -> set[str]:
        """The set that an import of the project takes, of those that are there."""
        chosen = [s for s in self.states if s in there] or [s for s in there if s != PLACEHOLDER]
        return set(chosen[:1])

    def _device(self, processor: str) -> str:
        return self.board.pool_of(processor).device or self.board.device

    def _processor(self, processor: str) -> str:
        pool = self.board.pool_of(processor)
        number = processor.partition("[")[2].rstrip("]") or "0"
        return f'<processor pool={quoteattr(pool.element)} localId="{number}"/>'

    # -- times -------------------------------------------------------------------------------------------------------
    def _profile(self, names: Mapping[str, tuple[Way, str]]) -> str | None:
        """The times of tasks (layers have files of their own), in us and rounded up; None where nothing is known."""
        lines: list[str] = []
        for text, (way, _) in names.items():
            known = self.source.times.of.get(text, {})
            if way in self.project.networks or not known:
                continue
            lines += [f"    <task name={quoteattr('_'.join(way))}>", '        <mode name="Default">']
            for pool in self.board.pools:
                time = known.get(pool.kind)
                kind = quoteattr(pool.type)
                if time is None:
                    lines += [f'            <profile processorType={kind} value="{CANNOT}" unit="us"/>']
                    continue
                value, worst = (ceil(Fraction(ns) / 1000) for ns in (time.mean_ns, time.longest_ns))
                lines += [
                    f'            <profile processorType={kind} value="{value}" unit="us">',
                    f'                <bound type="Maximum" value="{worst}" unit="us"/>',
                    "            </profile>",
                ]
            lines += ["        </mode>", "    </task>"]
        return _document("CIC_Profile", lines) if lines else None


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
            yield holder.attributes.get("name", "") if holder is not node else "", s.attributes.get("name", ""), s


def _as_text(node: Element, depth: int) -> Iterator[str]:
    """An element as it was."""
    space = "    " * depth
    said = _attributes(node)
    if not node.children:
        yield f"{space}<{node.tag}{said}/>"
        return
    yield f"{space}<{node.tag}{said}>"
    for child in node.children:
        yield from _as_text(child, depth + 1)
    yield f"{space}</{node.tag}>"


def _attributes(node: Element | None, name: str = "") -> str:
    """Those of an element, or the name of one that was not there."""
    said = {"name": name} if node is None else node.attributes
    return "".join(f" {key}={quoteattr(value)}" for key, value in said.items())


def _document(root: str, lines: Iterable[str]) -> str:
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return "\n".join([head, f'<{root} xmlns="{SCHEMA}">', *lines, f"</{root}>"]) + "\n"
