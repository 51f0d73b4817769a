"""Multicast groups of a HOPES graph as channels that keep the newest message: from each writer to
each reader.

In: the root of a graph, and the tasks in it. Out: their ports, and channels. `groups` decides which
of them the text can express.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ...model.span import Span
from ..names import shown
from ..xml_tree import Element
from .files import HopesCollector

if TYPE_CHECKING:
    from .design import Direction

_WAYS: dict[str, Direction] = {"IN": "in", "OUT": "out"}


def sizes_of(root: Element, say: HopesCollector) -> dict[str, int]:
    """The bytes of a message of each group."""
    found = {}
    for node in (n for groups in root.all("multicast_group_list") for n in groups.children):
        name = say.attribute(node, "name")
        size = say.whole(
            node.attributes.get("size", ""),
            f"the size of multicast group {shown(name or '')}",
            node.span,
            1,
        )
        if name is not None and size is not None:
            found[name] = size
            message = (
                f"multicast group {shown(name)}: readers get its newest message, all of {size}"
                " bytes"
            )
            say.warn(
                message,
                node.span,
                "in HOPES messages may be shorter, and between devices they may be lost",
            )
    return found


def ends_of(node: Element) -> Iterator[tuple[Direction, str, str, Span]]:
    """The multicast ports of a task: direction, name, group, place."""
    for port in (p for ports in node.all("multicast_port_list") for p in ports.children):
        way = _WAYS.get(port.attributes.get("direction", ""))
        if way is not None and "name" in port.attributes:
            yield way, port.attributes["name"], port.attributes.get("groupName", ""), port.span


def pairs_of(
    ends: Mapping[tuple[str, Direction, str], tuple[str, Span]],
) -> Iterator[tuple[tuple[str, str], tuple[str, str], Span]]:
    """Writer, reader and place for each pair of (task, port) in a group; `ends` are groups by task
    and port."""
    readers: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (task, direction, port), (group, _) in ends.items():
        if direction == "in":
            readers[group].append((task, port))
    for (task, direction, port), (group, span) in ends.items():
        if direction == "out":
            for reader in readers[group]:
                yield (task, port), reader, span
