"""The hardware dependencies of a HOPES task, as kinds of processors.

In: the element of a task. Out: kinds; required instruction sets and systems, which flowc does not
model, are reported. A task that cannot run somewhere has no time there (`times`).
"""

from __future__ import annotations

from ..names import shown
from ..xml_tree import Element
from .files import HopesCollector

#: Kinds of processors that projects speak of: NPUs are not among them.
KINDS = ("cpu", "gpu", "dla")
#: Values that mean any place.
_ANY = "ALL"


def kinds_of(node: Element, name: str, say: HopesCollector) -> tuple[str, ...]:
    """The kinds of processors that a task may run on; () = all with times."""
    found: dict[str, None] = {}
    everywhere = False
    for place in node.within("HardwareDependency", "hardware"):
        said = place.attributes.get("ProcessorType", _ANY)
        if said.lower() in KINDS:
            found[said.lower()] = None
        else:
            everywhere = True
            if said != _ANY:
                what = (
                    "a processor type of its hardware dependency is not known: it may run wherever"
                    " it has a time"
                )
                say.warn_together(f"{name} ({said})", what, place.span)
        _tell_others(place, name, say)
    if everywhere:
        return ()
    return tuple(found)


def _tell_others(place: Element, name: str, say: HopesCollector) -> None:
    """What a task needs beyond a kind of processor."""
    for key in ("Architecture", "Platform", "Runtime"):
        needed = place.attributes.get(key, _ANY)
        if needed != _ANY:
            message = (
                f"hardware dependencies are not imported: it needs {shown(needed)}, which platforms"
                " of flowc do not declare"
            )
            say.warn_together(name, message, place.span)
            return


def says_nothing(node: Element) -> bool:
    """Does a task depend on hardware without naming it?"""
    return not any(node.within("HardwareDependency", "hardware"))
