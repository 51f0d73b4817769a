"""The architecture of a HOPES project as a platform: pools, kinds, frequencies, schedulers.

In: the file of the tool, which holds the architecture as a text, or an `architecture.xml`. Out: a
`HopesBoard` that finds processors under the names in other files (`i7` for the architecture's
`i7_0`), and its text. `mapping` reads the places of tasks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...model.diagnostic import did_you_mean, one_of
from ...model.span import Span
from ..names import identifiers, reserved_words, shown
from ..xml_tree import Element
from .files import HopesCollector, HopesProject, embedded, read_xml, start_of

#: A GPU or a DLA is a "virtual" processor of HOPES; only its name shows the kind.
_KINDS = (
    ("gpu", ("cuda", "gpu")),
    ("dla", ("dla",)),
    ("cpu", ("cpu", "i7", "arm", "carmel", "denver", "cortex")),
)
_NUMBERED = re.compile(r"(.+?)_\d+")


@dataclass(frozen=True, slots=True)
class HopesPool:
    """`name` is that of the text, `element` and `type` those of HOPES. `kind` is "" if flowc has
    none."""

    name: str
    kind: str
    count: int
    mhz: tuple[int, ...]
    element: str
    type: str
    device: str
    span: Span

    def processor(self, number: int) -> str:
        """The name of one of its processors in the text."""
        return f"{self.name}[{number}]" if self.count > 1 else self.name

    def text(self, type_: str = "") -> str:
        """The pool in the language; with its type of processors, if that has another name."""
        count = f"[{self.count}]" if self.count > 1 else ""
        scheduler = "fixed_priority" if self.kind == "cpu" else "fifo"
        rates = ", ".join(map(str, self.mhz))
        frequencies = f" frequencies [{rates}] MHz" if rates else ""
        of_type = f" type {type_}" if type_ else ""
        return f"{self.kind} {self.name}{count}{of_type} scheduler {scheduler}{frequencies}"


@dataclass(frozen=True, slots=True)
class HopesBoard:
    """`file` is where it was read."""

    name: str
    pools: tuple[HopesPool, ...]
    device: str
    file: str

    def pool(self, name: str, device: str = "") -> HopesPool | None:
        """The pool of that name, with or without the number that the tool adds."""
        own = [p for p in self.pools if device in ("", p.device)]
        for pool in own:
            if pool.element == name:
                return pool
        return next((p for p in own if _bare(p.element) == _bare(name)), None)

    def kind_of(self, type_name: str) -> str | None:
        """The kind of a type of processor; "" for one that flowc does not support, None if there is
        no such type."""
        pool = self._with(type_name)
        return None if pool is None else pool.kind

    def processor_of(self, type_name: str) -> str:
        """What times on a type of processors are for in a profile (`timed`); "" for none."""
        pool = self._with(type_name)
        return "" if pool is None else self.timed(pool)

    def timed(self, pool: HopesPool) -> str:
        """What times on the processors of a pool are for in a profile: their kind; or, where there
        are several pools of CPUs, the first one with their type."""
        cpus = [p for p in self.pools if p.kind == "cpu"]
        if pool.kind != "cpu" or len(cpus) == 1:
            return pool.kind
        return next(p.name for p in cpus if p.type == pool.type)

    def _with(self, type_name: str) -> HopesPool | None:
        """The first pool with processors of a type."""
        for pool in self.pools:
            if pool.type == type_name:
                return pool
        return next((p for p in self.pools if _bare(p.type) == _bare(type_name)), None)

    def only(self, device: str) -> HopesBoard:
        """The part of one device."""
        pools = tuple(p for p in self.pools if p.device == device)
        return HopesBoard(_board_name(device), pools, device, self.file)

    def pool_of(self, processor: str) -> HopesPool:
        """The pool of a processor of the text. Raises StopIteration."""
        return next(p for p in self.pools if p.name == processor.partition("[")[0])

    def text(self) -> str:
        """The platform in the language."""
        file = shown(Path(self.file).name)
        lines = [
            f"/// Imported from {file} (HOPES): device {shown(self.device)}.",
            f"platform {self.name} {{",
        ]
        for pool in self.pools:
            if pool.kind:
                timed = self.timed(pool)
                own_type = timed if timed not in (pool.kind, pool.name) else ""
                lines.append(f"    {pool.text(own_type)}")
        if any(p.kind == "dla" for p in self.pools):
            lines.append(
                "    // HOPES does not say how many engines fit into a DLA; for a Xavier add"
                " `engines 4 total`."
            )
        return "\n".join([*lines, "}"]) + "\n"


def _board_name(device: str) -> str:
    """The name of a platform for a device."""
    bare = device.lower().removeprefix("jetson_")
    (name,) = identifiers([bare], "board", {*reserved_words(), "host"})
    return name


def _bare(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found.group(1) if found else name


def board_of(
    project: HopesProject, others: Iterable[Path], say: HopesCollector, device: str | None = None
) -> HopesBoard | None:
    """The board of a project; `others` are the architectures that external tasks name. None if
    there is none.

    The file of the tool comes first: it has the frequencies, and the authors edit it. All have to
    agree on pools. With `device`, only that one counts.
    """
    boards: list[HopesBoard] = []
    for path, root in _architectures(project, others, say):
        boards.append(_board(root, str(path), say, quiet=bool(boards), alone=device))
    if not boards:
        return None
    first = boards[0]
    if not any(pool.kind for pool in first.pools):
        say.warn("this architecture has no processor that flowc knows", start_of(Path(first.file)))
        return None
    for other in boards[1:]:
        _compare(first, other, say)
    return first


def _architectures(
    project: HopesProject, others: Iterable[Path], say: HopesCollector
) -> Iterator[tuple[Path, Element]]:
    """The architectures of a project that can be read, with their files."""
    if project.gui is not None:
        root = embedded(project.gui, say)
        if root is not None:
            yield project.gui, root
    files = [*project.beside("architecture"), *others]
    of_task = project.graph.parent / "architecture.xml"
    if not project.translated and os.path.isfile(of_task):
        files.insert(0, of_task)
    for path in dict.fromkeys(files):
        root = read_xml(path, say, "CIC_Architecture")
        if root is not None:
            yield path, root


def _compare(first: HopesBoard, other: HopesBoard, say: HopesCollector) -> None:
    """Two descriptions of a board have the same pools."""
    for pool in other.pools:
        known = first.pool(pool.element)
        if known is not None and known.count == pool.count:
            continue
        there = "has none of that name"
        if known is not None:
            there = f"has {known.count}"
        message = (
            f"here are {pool.count} processors {shown(pool.element)}, but"
            f" `{Path(first.file).name}` {there}"
        )
        say.fault(message, pool.span, "both describe the same board")


def _board(
    root: Element, file: str, say: HopesCollector, quiet: bool = False, alone: str | None = None
) -> HopesBoard:
    """A board; with `quiet`, only the main file gives warnings."""
    types = {t.attributes.get("name", ""): t for t in root.within("elementTypes", "elementType")}
    devices = [*root.within("devices", "device")]
    _different(devices, "devices", say)
    processors: list[_Processors] = []
    for device in devices:
        processors += _processors(device, device.attributes.get("name", ""), types, say, quiet)
    if not devices:
        processors += _processors(root, "", types, say, quiet)
    pools = []
    for name, each in zip(_pool_names(processors), processors, strict=True):
        pool = _pool(name, each.element, each.type, each.device, say)
        if pool is not None:
            pools.append(pool)
    first = root.attributes.get("target", "")
    if devices:
        first = devices[0].attributes.get("name", "")
    if not quiet:
        _beyond(devices, pools, say, alone)
    return HopesBoard(_board_name(first), tuple(pools), first, file)


@dataclass(frozen=True, slots=True)
class _Processors:
    """Processors of one kind in a device: their element, and its type."""

    element: Element
    type: Element
    device: str

    @property
    def name(self) -> str:
        return self.element.attributes.get("name", "")


def _processors(
    holder: Element, device: str, types: Mapping[str, Element], say: HopesCollector, quiet: bool
) -> Iterator[_Processors]:
    """The processors of a device; its memories are not imported."""
    elements = [*holder.within("elements", "element")]
    _different(elements, "elements of a device", say)
    for element in elements:
        said = element.attributes.get("type", "")
        kind = types.get(said)
        if kind is None:
            message = f"there is no elementType {shown(said)}"
            say.fault(message, element.span, did_you_mean(said, types))
        elif kind.attributes.get("category") == "processor":
            yield _Processors(element, kind, device)
        elif not quiet:
            name = element.attributes.get("name", "?")
            say.warn_together(name, "memories are not imported", element.span)


def _pool_names(processors: list[_Processors]) -> list[str]:
    """Names for pools: without numbers where that is enough."""
    bare = [_bare(each.name) for each in processors]
    names = []
    for each, short in zip(processors, bare, strict=True):
        names.append(each.name if bare.count(short) > 1 else short)
    return identifiers(names, "pool", reserved_words())


def _different(nodes: Iterable[Element], what: str, say: HopesCollector) -> None:
    """An error for two elements of one name, which references cannot distinguish."""
    seen: set[str] = set()
    for node in nodes:
        name = node.attributes.get("name", "")
        if name and name in seen:
            say.fault(
                f"two {what} are called {shown(name)}", node.span, "give one of them another name"
            )
        seen.add(name)


def _pool(
    name: str, element: Element, kind: Element, device: str, say: HopesCollector
) -> HopesPool | None:
    element_name = say.attribute(element, "name")
    count = say.whole(
        element.attributes.get("poolSize", "1"), "the size of this pool", element.span, 1
    )
    clocks = [c for c in kind.all("clockType") if "clock" in c.attributes]
    mhz = [say.whole(c.attributes["clock"], "a clock", c.span, 1) for c in clocks]
    if element_name is None or count is None:
        return None
    known = tuple(sorted(m for m in mhz if m is not None))
    type_name = kind.attributes.get("name", "")
    return HopesPool(
        name, _kind(kind, element_name), count, known, element_name, type_name, device, element.span
    )


def _kind(kind: Element, element: str) -> str:
    said = kind.attributes.get("subcategory", "").lower()
    if said in ("cpu", "gpu", "dla"):
        return said
    names = " ".join(
        [kind.attributes.get("model", ""), kind.attributes.get("name", ""), element]
    ).lower()
    return next((k for k, words in _KINDS if any(w in names for w in words)), "")


def _beyond(
    devices: list[Element], pools: list[HopesPool], say: HopesCollector, alone: str | None
) -> None:
    """Warnings about elements that flowc does not support."""
    help_text = f"flowc knows {one_of(k for k, _ in _KINDS)}"
    for pool in pools:
        if not pool.kind:
            message = f"{shown(pool.element)} is left out: its kind is not known"
            say.warn(message, pool.span, help_text)
    for device in devices:
        _beyond_in(device, say)
    if len(devices) > 1 and alone is None:
        message = "several devices become one platform: the costs of their connection are unknown"
        say.warn(message, devices[1].span, "give transfers in the profile")


def _beyond_in(device: Element, say: HopesCollector) -> None:
    scheduler = device.attributes.get("scheduler", "fifo")
    if scheduler != "fifo":
        message = f"scheduler {shown(scheduler)} of this device becomes fixed_priority"
        say.warn(message, device.span, "flowc's programs run under SCHED_FIFO")
    parts = []
    for group in device.children:
        if group.tag != "elements":
            parts += [part.tag for part in group.children]
    if parts:
        say.warn(f"{one_of(dict.fromkeys(parts))} of a device is not imported", device.span)
    for part in device.below():
        if part.attributes.get("encryption", "NO") not in ("NO", ""):
            say.warn(
                f"encryption ({part.attributes['encryption']}) of a link is not imported",
                part.span,
            )
