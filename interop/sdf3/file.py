"""The place of the graph in an SDF3 file, and the collector for faults of a file.

In: the XML tree. Out: the two elements that hold the graph and its properties, or one fault if
there is no importable graph; and a collector for the reader of the graph. `graph` reads these
elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...model.diagnostic import Diagnostic, Errors, Note
from ...model.span import Span
from ..names import listed, shown
from ..xml_tree import Element
from . import sequences
from .sequences import Runs

#: The elements that are graphs, and those with the properties of their actors and channels.
GRAPHS = {"sdf": "sdfProperties", "csdf": "csdfProperties"}
_SCENARIOS = ("sadf", "fsmsadf", "scenariographs", "scenariograph")
_NUMBERS = 'write whole numbers, one for each phase: "2", "1,3" or "2*1,3"'


def find(root: Element) -> tuple[Element, Element]:
    """The application graph and the graph in it. Raises Errors."""
    if root.tag != "sdf3":
        raise _refused(
            f"the root of this XML is {shown(root.tag)}, not `sdf3`", root, "is this an SDF3 file?"
        )
    _refuse_scenarios(root)
    applications = list(root.all("applicationGraph"))
    if not applications:
        raise _refused(
            f"this SDF3 file has no `applicationGraph`, but {_tags(root.children)}",
            root,
            "only graphs can be imported",
        )
    graphs = [(a, graph) for a in applications for graph in a.all(*GRAPHS)]
    if not graphs:
        there = _tags(e for a in applications for e in a.children)
        raise _refused(f"there is no `sdf` or `csdf` graph here, but {there}", applications[0], "")
    further = [graph for _, graph in graphs[1:]] or applications[1:]
    if further:
        raise _several(graphs[0][0], further[0])
    return graphs[0]


def _several(first: Element, further: Element) -> Errors:
    message = "this file has several graphs"
    help_text = "leave one graph in the file, and import the others from files of their own"
    notes = (Note("the first one", first.span),)
    return Errors([Diagnostic("F702", message, further.span, notes=notes, help=help_text)])


def _refuse_scenarios(root: Element) -> None:
    everything = [root, *root.below()]
    scenarios = next((e for e in everything if e.tag.lower() in _SCENARIOS), None)
    if scenarios is None and root.attributes.get("type", "").lower() in _SCENARIOS:
        scenarios = root
    if scenarios is not None:
        help_text = "import one scenario as an `sdf` or `csdf` graph of its own"
        raise _refused("scenario-aware graphs are not supported", scenarios, help_text)


def _tags(elements: Iterable[Element]) -> str:
    return listed(dict.fromkeys(e.tag for e in elements)) or "nothing"


def _refused(message: str, at: Element, help_text: str) -> Errors:
    return Errors([Diagnostic("F701", message, at.span, help=help_text)])


@dataclass(slots=True)
class Sdf3Collector:
    """Errors and warnings of one graph; `span` is its place."""

    span: Span
    faults: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def fault(
        self, message: str, span: Span, help_text: str = "", notes: Iterable[Note] = ()
    ) -> None:
        """An error: the import is impossible."""
        self.faults.append(Diagnostic("F702", message, span, notes=tuple(notes), help=help_text))

    def warn(self, message: str, help_text: str) -> None:
        """A warning: the import leaves something out."""
        self.warnings.append(
            Diagnostic("F703", message, self.span, help=help_text, severity="warning")
        )

    def attribute(self, node: Element, name: str) -> str | None:
        """A required attribute; None after a fault."""
        if name not in node.attributes:
            self.fault(
                f"this `{node.tag}` has no `{name}`", node.span, f'write `<{node.tag} {name}="..."`'
            )
        return node.attributes.get(name)

    def numbers(self, node: Element, attribute: str, of: str, *, whole: bool) -> Runs | None:
        """The numbers of a required attribute; None after a fault."""
        text = self.attribute(node, attribute)
        if text is None:
            return None
        try:
            return sequences.parse(text, whole=whole)
        except sequences.Unreadable as reason:
            self.fault(f"{of} {reason}", node.span, _NUMBERS if whole else "")
            return None

    def stop(self) -> None:
        """Raises Errors in the order of the file, if there are any."""
        if self.faults:
            raise Errors(sorted(self.faults, key=_place))


def _place(fault: Diagnostic) -> tuple[int, int]:
    if fault.span is None:
        return (0, 0)
    return (fault.span.line, fault.span.column)
