"""The content of a `.scenario` file: the graph and the architecture, values, sizes of types, times,
and places.

In: the XML tree. Out: a `PreesmScenario`. Actors are named as in PREESM, `top/sub_graph/actor`;
`places` checks whether they exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...model.span import Span
from ..names import shown
from ..xml_tree import Element
from .files import NOT_PREESM, PreesmCollector, read_xml

#: Other content of a scenario, with the warnings about its loss.
_IGNORED = {
    "papifyConfigs": "counters of PAPI are not imported",
    "energyConfigs": "energies are not imported",
}


@dataclass(frozen=True, slots=True)
class PreesmTiming:
    """The time of a firing of `actor` on a type of operator; `time` is an expression without a
    unit."""

    actor: str
    operator: str
    time: str
    span: Span


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value that a scenario gives a parameter."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class PreesmScenario:
    """`sizes` are bytes of types. `values` are by graph and parameter. `allowed` has the operators
    of each actor.

    `copies` is the place of the scenario's costs of copies.
    """

    file: Path
    algorithm: str
    architecture: str
    sizes: Mapping[str, int]
    values: Mapping[tuple[str, str], GivenValue]
    timings: tuple[PreesmTiming, ...]
    allowed: Mapping[str, tuple[str, ...]]
    copies: Span | None
    span: Span


def read_scenario(path: Path, say: PreesmCollector) -> PreesmScenario | None:
    """None after a fault that leaves nothing to look at."""
    root = read_xml(path, say, "scenario", NOT_PREESM)
    if root is None:
        return None
    algorithm = _url(root, "algorithm")
    if not algorithm:
        say.fault("this scenario names no `algorithm`", root.span)
        return None
    sizes = dict(_sizes(root, say))
    values = {}
    for p in root.within("parameterValues", "parameter"):
        key = (p.attributes.get("parent", ""), p.attributes.get("name", ""))
        values[key] = GivenValue(p.attributes.get("value", ""), p.span)
    copies = next((node.span for node in root.within("timings", "memcpyspeed")), None)
    _losses(root, say)
    return PreesmScenario(
        path,
        algorithm,
        _url(root, "architecture"),
        sizes,
        values,
        tuple(_timings(root, say)),
        _allowed(root),
        copies,
        root.span,
    )


def _url(root: Element, tag: str) -> str:
    """A file that the scenario names; empty if there is none."""
    for files in root.all("files"):
        for node in files.all(tag):
            return node.attributes.get("url", "")
        return ""
    return ""


def _sizes(root: Element, say: PreesmCollector) -> Iterator[tuple[str, int]]:
    bits = any(True for _ in root.within("flags", "sizesAreInBit"))
    for group in root.below():
        if group.tag == "dataTypes":
            for node in group.all("dataType"):
                yield from _size(node, bits, say)


def _size(node: Element, bits: bool, say: PreesmCollector) -> Iterator[tuple[str, int]]:
    stated = say.attributes(node, "name", "size")
    if stated is None:
        return
    name, text = stated
    size = say.whole(text, f"the size of {shown(name)}", node.span, 1)
    if size is None:
        return
    if not bits:
        yield name.strip(), size
    elif size % 8:
        say.fault(f"{shown(name)} has {size} bits, which are no whole bytes", node.span)
    else:
        yield name.strip(), size // 8


def _timings(root: Element, say: PreesmCollector) -> Iterator[PreesmTiming]:
    for group in root.all("timings"):
        if group.attributes.get("excelUrl"):
            help_text = "have PREESM write them into the scenario"
            say.warn(
                f"times in {shown(group.attributes['excelUrl'])} are not imported",
                group.span,
                help_text,
            )
        for node in group.all("timing"):
            if node.attributes.get("timingtype", "EXECUTION_TIME") != "EXECUTION_TIME":
                say.warn_together(
                    node.attributes["timingtype"], "times of this kind are not imported", node.span
                )
                continue
            stated = say.attributes(node, "vertexname", "time", "opname")
            if stated is not None:
                actor, time, operator = stated
                yield PreesmTiming(actor, operator, time, node.span)


def _allowed(root: Element) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in root.within("constraints", "constraintGroup"):
        named = [o for o in group.all("operator") if "name" in o.attributes]
        operators = [o.attributes["name"] for o in named]
        for task in group.all("task"):
            found.setdefault(task.attributes.get("name", ""), {}).update(dict.fromkeys(operators))
    return {task: tuple(operators) for task, operators in found.items()}


def _losses(root: Element, say: PreesmCollector) -> None:
    """Unsupported content is reported once, if it has an effect."""
    for tag, loss in _IGNORED.items():
        for node in root.all(tag):
            for objective in node.all("performanceObjective"):
                if objective.attributes.get("objectiveEPS", "0.0") != "0.0":
                    say.warn(
                        "the objective of this scenario is not imported",
                        objective.span,
                        "write a `period` in the app",
                    )
                    break
            inside = [e for e in node.children if e.tag != "performanceObjective"]
            if inside:
                say.warn(loss, inside[0].span)
