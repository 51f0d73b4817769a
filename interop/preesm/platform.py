"""A `.slam` file as a platform: operators of one type are a pool, in the order of their numbers.

In: the XML tree. Out: a `PreesmBoard` that maps operators to processors of the text, and its text.
`places` reads the places of actors.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...model.span import Span
from ..names import identifiers, listed, reserved_words, shown
from ..xml_tree import Element
from .files import NOT_PREESM, PreesmCollector, read_xml

#: Kinds of components that run actors, in slam files of different versions.
_KINDS = {"operator": "cpu", "cpu": "cpu", "gpu": "gpu"}


@dataclass(frozen=True, slots=True)
class PreesmPool:
    """`type` is that of PREESM, `operators` are the names of its processors."""

    name: str
    kind: str
    type: str
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreesmBoard:
    """`name` is that of the text."""

    name: str
    pools: tuple[PreesmPool, ...]
    file: Path
    span: Span

    def processors(self) -> Mapping[str, str]:
        """The name in the text of each operator."""
        found = {}
        for pool in self.pools:
            for number, operator in enumerate(pool.operators):
                found[operator] = pool.name
                if len(pool.operators) > 1:
                    found[operator] = f"{pool.name}[{number}]"
        return found

    def text(self) -> str:
        """The platform in the language."""
        lines = [f"/// Imported from {shown(self.file.name)} (PREESM).", f"platform {self.name} {{"]
        for pool in self.pools:
            count = ""
            if len(pool.operators) > 1:
                count = f"[{len(pool.operators)}]"
            lines.append(f"    {pool.kind} {pool.name}{count}")
        return "\n".join([*lines, "}"]) + "\n"


def read_board(path: Path, say: PreesmCollector, taken: tuple[str, ...] = ()) -> PreesmBoard | None:
    """None after a fault, and with a warning where no operator can run actors. The board's name
    differs from those in `taken`."""
    root = read_xml(path, say, "design", NOT_PREESM)
    if root is None:
        return None
    before = len(say.faults)
    descriptions = {}
    for node in root.below():
        if node.tag == "componentDescription":
            descriptions[node.attributes.get("componentRef", "")] = node
    operators: dict[str, list[tuple[int, str]]] = {}
    others: dict[str, Element] = {}
    for component in _components(root, descriptions, say):
        description = descriptions[component.type]
        kind = description.attributes.get("componentType", "")
        if kind.lower() in _KINDS:
            operators.setdefault(component.type, []).append((component.number, component.name))
        else:
            others.setdefault(kind, description)
    if len(say.faults) > before:
        return None
    for kind, where in others.items():
        if "ComNode" in kind:
            what, help_text = "costs of communication are", "give transfers in the profile"
        else:
            what, help_text = f"components of kind {shown(kind)} are", ""
        say.warn(f"{what} not imported", where.span, help_text)
    return _board(path, root, descriptions, operators, say, taken)


@dataclass(frozen=True, slots=True)
class _Component:
    """`number` is the sort key of operators of a type."""

    name: str
    type: str
    number: int


def _components(
    root: Element, descriptions: Container[str], say: PreesmCollector
) -> Iterator[_Component]:
    """The components of the architecture whose type is described; others are faults."""
    for instance in root.below():
        if instance.tag != "componentInstance":
            continue
        part = {c.tag: c for c in instance.children}
        name, type_name = _named(part)
        if not name or type_name is None:
            say.fault("this component has no name or no type", instance.span)
        elif type_name not in descriptions:
            say.fault(f"there is no componentDescription of {shown(type_name)}", instance.span)
        else:
            yield _Component(name, type_name, _number(part.get("hardwareId")))


def _named(part: Mapping[str, Element]) -> tuple[str, str | None]:
    """Name and type of a component."""
    name = type_name = None
    if "instanceName" in part:
        name = part["instanceName"].text
    if "componentRef" in part:
        type_name = part["componentRef"].attributes.get("name")
    return name or "", type_name


def _board(
    path: Path,
    root: Element,
    descriptions: Mapping[str, Element],
    operators: Mapping[str, list[tuple[int, str]]],
    say: PreesmCollector,
    taken: tuple[str, ...],
) -> PreesmBoard | None:
    names = [name for found in operators.values() for _, name in found]
    if len(set(names)) < len(names):
        twice = listed(dict.fromkeys(n for n in names if names.count(n) > 1))
        say.fault(f"there are several operators {twice}", root.span)
        return None
    if not operators:
        message = (
            "this architecture has no CPU or GPU as operator: platform, places and times are left"
            " out"
        )
        say.warn(message, root.span, "give a platform of flowc: `--platform`")
        return None
    pools = identifiers(operators, "pool", reserved_words())
    name = identifiers([*taken, path.stem], "board", {*reserved_words(), "host"})[-1]
    made = []
    for pool, (type_name, inside) in zip(pools, operators.items(), strict=True):
        kind = _KINDS[descriptions[type_name].attributes["componentType"].lower()]
        made.append(PreesmPool(pool, kind, type_name, tuple(n for _, n in sorted(inside))))
    return PreesmBoard(name, tuple(made), path, root.span)


def _number(said: Element | None) -> int:
    """The sort key of operators of a type."""
    if said is not None and re.fullmatch("[0-9]{1,9}", said.text):
        return int(said.text)
    return 0
