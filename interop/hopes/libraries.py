"""Libraries of a HOPES graph: functions (`.cicl`) that tasks call through library ports.

In: the root of a graph, or a task in it. Out: the libraries of that level, and which port leads to
which. `code` decides whether their code can be used.
"""

from __future__ import annotations

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
    masters = {
        n.attributes.get("masterLibrary", n.attributes.get("src_library"))
        for group in root.all("libraryLibraryConnection_list")
        for n in group.all("libraryLibraryConnection")
    }
    found = {}
    for node in (n for group in root.all("library_list") for n in group.all("library")):
        values = {
            p.attributes.get("name"): p.attributes.get("value", "")
            for config in node.all("config")
            for p in config.all("parameter")
        }
        name, stateful = node.attributes.get("name", ""), values.get("HasInternalStates") != "No"
        file, header, language = (
            values.get(key, "") for key in ("LibraryFile", "LibraryHeader", "Language")
        )
        found[name] = HopesLibrary(
            name, file, header, language, stateful, name in masters, node.span
        )
    calls = {}
    for node in (
        n
        for group in root.all("taskLibraryConnection_list")
        for n in group.all("taskLibraryConnection")
    ):
        said = node.attributes
        task, port = (
            said.get("masterTask", said.get("src_task", "")),
            said.get("masterPort", said.get("src_port", "")),
        )
        calls[task, port] = said.get("slaveLibrary", said.get("dst_library", ""))
    return found, calls


def library_ports(node: Element) -> dict[str, tuple[str, str]]:
    """For a composite: its library ports, and the task and port inside that each leads to."""
    found = {}
    for m in (m for group in node.all("portMap_list") for m in group.all("portMap")):
        said = m.attributes
        if said.get("direction") == "LibraryPort":
            found[said.get("macroNodePort", "")] = (
                said.get("insideTask", ""),
                said.get("insideTaskPort", ""),
            )
    return found
