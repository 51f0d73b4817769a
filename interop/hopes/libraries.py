"""Libraries of a HOPES graph: functions (`.cicl`) that tasks call through library ports.

In: the root of a graph, or a task in it. Out: the libraries of that level, and which port leads to
which. `code` decides whether their code can be used.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from ...model.span import Span
from ..xml_tree import Element


@dataclass(frozen=True, slots=True)
class HopesLibrary:
    """`calls`: it calls functions of another library itself."""

    name: str
    file: str
    header: str
    language: str
    stateful: bool
    calls: bool
    span: Span


def libraries_of(root: Element) -> tuple[dict[str, HopesLibrary], dict[tuple[str, str], str]]:
    """The libraries of a level by name, and the one behind each library port of a task: (task,
    port) to its name."""
    masters = set()
    for n in root.within("libraryLibraryConnection_list", "libraryLibraryConnection"):
        masters.add(n.attributes.get("masterLibrary", n.attributes.get("src_library")))
    found = {}
    for node in root.within("library_list", "library"):
        library = _library(node, masters)
        found[library.name] = library
    calls = {}
    for node in root.within("taskLibraryConnection_list", "taskLibraryConnection"):
        said = node.attributes
        task = said.get("masterTask", said.get("src_task", ""))
        port = said.get("masterPort", said.get("src_port", ""))
        calls[task, port] = said.get("slaveLibrary", said.get("dst_library", ""))
    return found, calls


def _library(node: Element, masters: Container[str | None]) -> HopesLibrary:
    """A library; `masters` call others."""
    values = {}
    for p in node.within("config", "parameter"):
        values[p.attributes.get("name")] = p.attributes.get("value", "")
    name = node.attributes.get("name", "")
    return HopesLibrary(
        name,
        values.get("LibraryFile", ""),
        values.get("LibraryHeader", ""),
        values.get("Language", ""),
        values.get("HasInternalStates") != "No",
        name in masters,
        node.span,
    )


def library_ports(node: Element) -> dict[str, tuple[str, str]]:
    """For a composite: its library ports, and the task and port inside that each leads to."""
    found = {}
    for m in node.within("portMap_list", "portMap"):
        said = m.attributes
        if said.get("direction") == "LibraryPort":
            inside = (said.get("insideTask", ""), said.get("insideTaskPort", ""))
            found[said.get("macroNodePort", "")] = inside
    return found
