"""Numbers that differ between a text and its project of HOPES: parameters of tasks, periods and
deadlines of apps, in its XML.

In: a project, the apps that an import of it gives, and the present ones. Out: the files with these
numbers, with the values replaced in place: the rest of the file is unchanged. The caller imports
the files again to check for other changes.
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
from .design import Way
from .files import HopesCollector, read_xml
from .import_manifest import ImportManifest
from .importer import Understood

#: Lengths of units of HOPES in ns, the longest first.
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3))


@dataclass(frozen=True, slots=True)
class _Edit:
    """Another value of an attribute of an element."""

    node: Element
    attribute: str
    value: str


def renumbered(
    found: Understood, kept: ImportManifest, was: Iterable[Application], now: Iterable[Application]
) -> dict[Path, bytes]:
    """The changed files, by their paths."""
    edits: dict[Path, list[_Edit]] = defaultdict(list)
    before = {app.name: app for app in was}
    project = _Nodes(found)
    for app in now:
        if app.name in before:
            own = before[app.name], app
            for edit in (*_periods(found, kept, project, *own), *_parameters(kept, project, *own)):
                edits[Path(edit.node.span.file)].append(edit)
    return {path: _edited(path, own) for path, own in edits.items()}


def _periods(
    found: Understood, kept: ImportManifest, nodes: _Nodes, was: Application, now: Application
) -> Iterator[_Edit]:
    """A release has the period of its firings: all of them change by one factor, and so do
    deadlines.

    An app without a deadline has tasks whose deadlines are no shorter than its period: they change
    with that.
    """
    period = deadline = _factor(was.period_ns, now.period_ns)
    if was.deadline_ns or now.deadline_ns:
        deadline = _factor(was.deadline_ns, now.deadline_ns)
    top = {t.hopes[0] for t in kept.tasks if t.task.partition(".")[0] == now.name}
    for way, task in found.tasks.items():
        if way[0] not in top:
            continue
        if task.time_driven and task.period_ns is not None:
            yield from nodes.time(way, "Period", task.period_ns, period)
        if task.deadline_ns is not None:
            yield from nodes.time(way, "Deadline", task.deadline_ns, deadline)


def _factor(was: Fraction | None, now: Fraction | None) -> Fraction:
    """The factor of a changed time; 1 if there is no time."""
    if was and now:
        return now / was
    return Fraction(1)


def _parameters(
    kept: ImportManifest, nodes: _Nodes, was: Application, now: Application
) -> Iterator[_Edit]:
    tasks = {t.name: dict(t.parameters) for t in was.tasks}
    named = {t.task: t for t in kept.tasks}
    for task in now.tasks:
        known = named.get(task.name)
        if known is None or known.code is None:
            continue
        for name, value in task.parameters:
            if name in known.code.parameters and value != tasks.get(task.name, {}).get(name, value):
                if isinstance(value, Fraction):
                    text = str(float(value))
                else:
                    text = str(value)
                yield from nodes.parameter(known.hopes, known.code.parameters[name], text)


class _Nodes:
    """The elements of a project that say numbers."""

    def __init__(self, found: Understood) -> None:
        self._found, self._roots = found, dict[str, Element | None]()

    def _root(self, file: str) -> Element | None:
        if file not in self._roots:
            self._roots[file] = read_xml(
                Path(file), HopesCollector(), "cic_manual", "CIC_Algorithm"
            )
        return self._roots[file]

    def _task(self, way: Way) -> Iterator[Element]:
        root = self._root(self._found.tasks[way].span.file)
        if root is None:
            return
        group, name = "task_list", way[-1]
        if self._found.project.translated:
            group, name = "tasks", "_".join(way)
        for task in root.within(group, "task"):
            if task.attributes.get("name") == name:
                yield task

    def parameter(self, way: Way, name: str, value: str) -> Iterator[_Edit]:
        """Another value of a parameter of a task."""
        for task in self._task(way):
            nodes: Iterable[Element] = task.below()
            if self._found.project.translated:
                nodes = task.children
            for node in nodes:
                of_code = node.tag == "parameter" and "type" in node.attributes
                if of_code and node.attributes.get("name") == name:
                    yield _Edit(node, "value", value)

    def time(self, way: Way, key: str, ns: Fraction, factor: Fraction) -> Iterator[_Edit]:
        """The period or the deadline of a task (`key`), multiplied by a factor, if HOPES has whole
        units for it."""
        unit, length = next(((u, n) for u, n in _UNITS if not ns * factor % n), ("", 1))
        value = str(ns * factor / length)
        if factor == 1 or not unit:
            return
        if self._found.project.translated:
            yield from self._translated_time(way, key.lower(), value, unit)
            return
        said = {key: value, f"{key}Unit": unit}
        for task in self._task(way):
            for node in task.within("config", "parameter"):
                if node.attributes.get("name") in said:
                    yield _Edit(node, "value", said[node.attributes["name"]])

    def _translated_time(self, way: Way, tag: str, value: str, unit: str) -> Iterator[_Edit]:
        """The same in the form of the translator, where times belong to modes."""
        root = self._root(self._found.tasks[way].span.file)
        if root is None:
            return
        modes = [*root.within("modes", "mode")]
        chosen = [m for m in modes if m.attributes.get("name") == "Default"] or modes
        for mode in chosen[:1]:
            for task in mode.all("task"):
                if task.attributes.get("name") == "_".join(way):
                    for node in task.all(tag):
                        yield from (_Edit(node, "value", value), _Edit(node, "metric", unit))


def _edited(path: Path, edits: Iterable[_Edit]) -> bytes:
    """A file with attributes replaced in place."""
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
