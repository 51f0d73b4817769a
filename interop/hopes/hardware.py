"""The hardware dependencies of a HOPES task, as kinds of processors.

In: the element of a task. Out: kinds; required instruction sets and systems, which flowc does not
model, are reported. A task that cannot run somewhere has no time there (`times`).
"""

from __future__ import annotations

from ...model.platform import KINDS
from ..names import shown
from ..xml_tree import Element
from .files import HopesCollector

#: Values that mean any place.
_ANY = "ALL"


def kinds_of(node: Element, name: str, say: HopesCollector) -> tuple[str, ...]:
    """The kinds of processors that a task may run on; () = all with times."""
    found: dict[str, None] = {}
    places = [n for group in node.all("HardwareDependency") for n in group.all("hardware")]
    for place in places:
        said = place.attributes.get("ProcessorType", _ANY)
        if said.lower() in KINDS:
            found[said.lower()] = None
        elif said != _ANY:
            what = (
                "a processor type of its hardware dependency is not known: it may run wherever it"
                " has a time"
            )
            say.warn_together(f"{name} ({said})", what, place.span)
        others = [
            v
            for key in ("Architecture", "Platform", "Runtime")
            if (v := place.attributes.get(key, _ANY)) != _ANY
        ]
        if others:
            what = f"needs {shown(others[0])}, which platforms of flowc do not declare"
            say.warn_together(
                name, f"hardware dependencies are not imported: it {what}", place.span
            )
    everywhere = any(p.attributes.get("ProcessorType", _ANY).lower() not in KINDS for p in places)
    return () if everywhere else tuple(found)


def says_nothing(node: Element) -> bool:
    """Does a task depend on hardware without naming it?"""
    return not any(
        n.tag == "hardware" for group in node.all("HardwareDependency") for n in group.children
    )
