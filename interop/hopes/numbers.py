"""Numbers that a text has otherwise than its project of HOPES: parameters of tasks and periods of apps, in its XML.

In: a project, the apps that an import of it makes, and those that they have become. Out: the files that say these
numbers, with the values replaced where they stand: all else in the file stays as it is. Nothing here knows whether that
is all that changed; who imports the files again does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ...model.application import Application
from ...model.files import read_bytes
from ..xml_tree import Element
from .baggage import Baggage
from .design import Way
from .files import Collector, read_xml
from .importer import Understood

#: Lengths of the units of HOPES in ns, the longest first.
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3))


@dataclass(frozen=True, slots=True)
class _Edit:
    """Another value of an attribute of an element."""

    node: Element
    attribute: str
    value: str


def renumbered(
    found: Understood, kept: Baggage, was: Iterable[Application], now: Iterable[Application]
) -> dict[Path, bytes]:
    """The files that say other numbers now, by their paths."""
    edits: dict[Path, list[_Edit]] = defaultdict(list)
    before = {app.name: app for app in was}
    project = _Nodes(found)
    for app in now:
        if app.name in before:
            own = before[app.name], app
            for edit in (*_periods(found, kept, project, *own), *_parameters(kept, project, *own)):
                edits[Path(edit.node.span.file)].append(edit)
    return {path: _edited(path, own) for path, own in edits.items()}


def _periods(found: Understood, kept: Baggage, nodes: _Nodes, was: Application, now: Application) -> Iterator[_Edit]:
    """What releases an app has the period of its firings: all of them change by the same factor."""
    if was.period_ns in (None, now.period_ns) or now.period_ns is None:
        return
    assert was.period_ns is not None
    top = {t.hopes[0] for t in kept.tasks if t.task.partition(".")[0] == now.name}
    for way, task in found.tasks.items():
        if way[0] in top and task.time_driven and task.period_ns is not None:
            period = task.period_ns * now.period_ns / was.period_ns
            unit, length = next(((u, n) for u, n in _UNITS if not period % n), ("", 1))
            if unit:
                yield from nodes.period(way, str(Fraction(period / length)), unit)


def _parameters(kept: Baggage, nodes: _Nodes, was: Application, now: Application) -> Iterator[_Edit]:
    tasks = {t.name: dict(t.parameters) for t in was.tasks}
    named = {t.task: t for t in kept.tasks}
    for task in now.tasks:
        known = named.get(task.name)
        if known is None or known.code is None:
            continue
        for name, value in task.parameters:
            if name in known.code.parameters and value != tasks.get(task.name, {}).get(name, value):
                text = str(float(value)) if isinstance(value, Fraction) else str(value)
                yield from nodes.parameter(known.hopes, known.code.parameters[name], text)


class _Nodes:
    """The elements of a project that say numbers."""

    def __init__(self, found: Understood) -> None:
        self._found, self._roots = found, dict[str, Element | None]()

    def _root(self, file: str) -> Element | None:
        if file not in self._roots:
            self._roots[file] = read_xml(Path(file), Collector(), "cic_manual", "CIC_Algorithm")
        return self._roots[file]

    def _task(self, way: Way) -> Iterator[Element]:
        root = self._root(self._found.tasks[way].span.file)
        translated = self._found.project.translated
        group, name = ("tasks", "_".join(way)) if translated else ("task_list", way[-1])
        for tasks in root.all(group) if root is not None else ():
            yield from (t for t in tasks.all("task") if t.attributes.get("name") == name)

    def parameter(self, way: Way, name: str, value: str) -> Iterator[_Edit]:
        """Another value of a parameter of a task."""
        for task in self._task(way):
            nodes = task.children if self._found.project.translated else [*task.below()]
            for node in (n for n in nodes if n.tag == "parameter" and "type" in n.attributes):
                if node.attributes.get("name") == name:
                    yield _Edit(node, "value", value)

    def period(self, way: Way, value: str, unit: str) -> Iterator[_Edit]:
        """Another period of a task."""
        if not self._found.project.translated:
            said = {"Period": value, "PeriodUnit": unit}
            for config in (c for task in self._task(way) for c in task.all("config")):
                for node in config.all("parameter"):
                    if node.attributes.get("name") in said:
                        yield _Edit(node, "value", said[node.attributes["name"]])
            return
        root = self._root(self._found.tasks[way].span.file)
        for task in (n for group in root.all("modes") for n in group.below()) if root is not None else ():
            if task.tag == "task" and task.attributes.get("name") == "_".join(way):
                for node in task.all("period"):
                    yield from (_Edit(node, "value", value), _Edit(node, "metric", unit))


def _edited(path: Path, edits: Iterable[_Edit]) -> bytes:
    """A file with attributes replaced where they stand."""
    text = read_bytes(path).decode("utf-8", "surrogateescape")
    starts = [0, *(m.end() for m in re.finditer("\r\n|\r|\n", text))]
    places: list[tuple[int, int, str]] = []
    for edit in edits:
        begin = starts[edit.node.span.line - 1] + edit.node.span.column - 1
        found = re.compile(rf"""\b{edit.attribute}\s*=\s*("[^"]*"|'[^']*')""").search(
            text, begin, text.find(">", begin)
        )
        if found is not None:
            places.append((*found.span(1), quoteattr(edit.value)))
    for start, end, value in sorted(places, reverse=True):
        text = text[:start] + value + text[end:]
    return text.encode("utf-8", "surrogateescape")
