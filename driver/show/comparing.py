"""A report beside a mapping, another report, or a build.

In: rows of this report, and a path. Out: the differences, the largest change first, and rows of
only one side. Rows with the same name in the text are compared, whatever else differs. A task that
has another place in a state is compared there as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.deployment import DEPLOYMENT_VERSION
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import read_bytes, reason
from ...model.json_reader import of_version, parse_object, parse_version
from ...model.mapping import Mapping as StoredMapping
from ...report.document import (
    VERSION,
    ChangeRow,
    ChannelRow,
    CompareRow,
    Difference,
    PathRow,
    ProcessorRow,
    StateRow,
    TaskRow,
)
from ...report.page import data_of
from ..plan.program import stages_by_task

#: Values of one row by their column.
_Numbers = dict[str, float | str | None]
#: Rows of a section by name; `_IN` stands between a task, or an app, and its state.
_Side = dict[tuple[str, str], _Numbers]
_IN = " in "
#: Differences up to this size are ignored.
NOTHING = 0.0005
#: Most bytes of a report.
MOST_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class Rows:
    """The part of a report that is compared."""

    tasks: tuple[TaskRow, ...]
    channels: tuple[ChannelRow, ...]
    paths: tuple[PathRow, ...]
    processors: tuple[ProcessorRow, ...]
    states: tuple[StateRow, ...]
    changes: tuple[ChangeRow, ...]


def compared(other: Path, rows: Rows) -> CompareRow:
    """Compare. Raises Errors if the other side cannot be read."""
    here, there = _of_rows(rows), _read(other)
    for one, two in ((here, there), (there, here)):
        _complete(one, two)
    differences: list[Difference] = []
    for row in here:
        if row in there:
            differences += _differences(row, here[row], there[row])
    differences.sort(
        key=lambda d: (d.change is not None, -abs(d.change or 0.0), d.section, d.name, d.what)
    )
    sections = {section for section, _ in there}
    only_here = [row for row in here if row not in there and row[0] in sections]
    only_there = [row for row in there if row not in here]
    return CompareRow(other.name, tuple(differences), _named(only_here), _named(only_there))


def _named(rows: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{section}: {name}" for section, name in rows)


def _complete(side: _Side, other: _Side) -> None:
    """If only the other side has a place of its own for a task in a state, this side has the common
    place there."""
    for section, name in [k for k in other if k[0] == "places" and k not in side]:
        task, _, state = name.partition(_IN)
        common = side.get(("tasks", task), {}).get("processors")
        if ("states", state) in side and common is not None:
            side[section, name] = _place(common)


def _differences(key: tuple[str, str], here: _Numbers, there: _Numbers) -> Iterable[Difference]:
    for what in here.keys() & there.keys():
        mine, theirs = here[what], there[what]
        if mine == theirs or mine is None or theirs is None:
            continue
        change = None
        if isinstance(mine, int | float) and isinstance(theirs, int | float) and theirs:
            change = round(mine / theirs - 1, 4)
            if abs(change) < NOTHING:
                continue
        yield Difference(*key, what, mine, theirs, change)


def _task(
    processors: Iterable[str], predicted: int | None, measured: int | None, longest: int | None
) -> _Numbers:
    on = ", ".join(processors)
    return {
        "processors": on or None,
        "predicted_ns": predicted,
        "measured_ns": measured,
        "measured_max_ns": longest,
    }


def _place(processors: float | str | None) -> _Numbers:
    return {"processors": processors}


def _state(clocks: str | None, variants: str | None, energy_mw: float | None) -> _Numbers:
    return {"clocks": clocks or None, "variants": variants or None, "energy_mw": energy_mw}


def _change(bound: int | None, mean: int | None, longest: int | None) -> _Numbers:
    return {"bound_ns": bound, "mean_ns": mean, "max_ns": longest}


def _path(p50: int | None, p99: int | None, longest: int | None, bound: int | None) -> _Numbers:
    return {"p50_ns": p50, "p99_ns": p99, "max_ns": longest, "bound_ns": bound}


def _path_name(app: str, kind: str, source: str, task: str) -> str:
    if not task:
        return f"frames of {app}"
    return f"{source} -> {task}" if kind == "path" else f"{kind} {source} -> {task}"


def _read(other: Path) -> _Side:
    """The values of the other side. Raises Errors."""
    try:
        if other.is_dir():
            content = read_bytes(other / "deployment.json")
            return _of_build(parse_version(content, "deployment", DEPLOYMENT_VERSION))
        content = read_bytes(other, MOST_BYTES)
        if content.lstrip()[:1] == b"{":
            document = parse_object(content)
            if "placements" in document:
                return _of_mapping(StoredMapping.from_json(content)[0])
            return _of_report(document)
        return _of_report(parse_object(data_of(content)))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        why = "it is not in flowc's format"
        if isinstance(error, OSError | ValueError):
            why = reason(error)
        message = f"cannot compare with `{other}`: {why}"
        help_text = "name a mapping.json, a report (.html, or --json), or the directory of a build"
        raise Errors([Diagnostic("F622", message, None, help=help_text)]) from error


def _of_rows(rows: Rows) -> _Side:
    side: _Side = {}
    for t in rows.tasks:
        if t.kind != "resampling":
            figures = (t.predicted_ns, t.measured_ns, t.measured_max_ns)
            side["tasks", t.name] = _task(t.processors, *figures)
    for p in rows.paths:
        name = _path_name(p.app, p.kind, p.source, p.task)
        side["paths", name] = _path(p.p50_ns, p.p99_ns, p.max_ns, p.bound_ns)
    for c in rows.channels:
        side["buffers", c.name] = {"capacity": c.capacity, "most": c.most}
    for row in rows.processors:
        side["processors", row.name] = {"predicted": row.predicted, "measured": row.measured}
    for s in rows.states:
        side["states", s.name] = _state(s.clocks, ", ".join(s.variants), s.energy_mw)
        for task, on in s.own_places.items():
            side["places", task + _IN + s.name] = _place(on)
        for b in s.bounds:
            side["bounds", b.app + _IN + s.name] = {"bound_ns": b.bound_ns}
    for change in rows.changes:
        numbers = _change(change.bound_ns, change.mean_ns, change.max_ns)
        side["changes", f"{change.source} -> {change.target}"] = numbers
    return side


def _of_mapping(mapping: StoredMapping) -> _Side:
    side: _Side = {}
    for p in mapping.placements:
        side["tasks", p.task] = _task(p.processors, None, None, None)
    for network in mapping.networks:
        for name, stage in stages_by_task(network):
            predicted = round(stage.predicted_ns) or None
            side["tasks", name] = _task(stage.processors, predicted, None, None)
    for g in mapping.groups:
        side["paths", _path_name(g.app, "path", "", "")] = _path(None, None, None, g.response_ns)
        for path in g.paths:
            name = _path_name(g.app, path.kind, path.source, path.task)
            side["paths", name] = _path(None, None, None, path.latency_ns)
    for name, share in mapping.utilization:
        side["processors", name] = {"predicted": share}
    return side | _states_of_mapping(mapping)


def _states_of_mapping(mapping: StoredMapping) -> _Side:
    side: _Side = {}
    for s in mapping.states:
        clocks = ", ".join(f"{pool} {hz / 1e6:g} MHz" for pool, hz in s.clocks_hz)
        variants = ", ".join(f"{instance} = {variant}" for instance, variant in s.choices)
        side["states", s.state] = _state(clocks, variants, s.energy_mw)
        for p in s.placements:
            side["places", p.task + _IN + s.state] = _place(", ".join(p.processors))
        for g in s.groups:
            side["bounds", g.app + _IN + s.state] = {"bound_ns": g.response_ns}
    for t in mapping.transitions:
        side["changes", f"{t.source} -> {t.target}"] = _change(t.delay_ns, None, None)
    return side


def _of_build(document: Mapping[str, Any]) -> _Side:
    if document.get("scenario") is None:
        return _of_program(document)
    side, moving = _Side(), set[str]()
    states = {str(s["name"]): _of_program(s) for s in document["scenario"]["states"]}
    for name, own in states.items():
        side["states", name] = _state(None, None, None)
        for key, numbers in own.items():
            if side.setdefault(key, numbers) != numbers and key[0] == "tasks":
                moving.add(key[1])
    for task in moving:  # the report does not tell which of its places is the common one
        side["tasks", task] = _task((), None, None, None)
        for name, own in states.items():
            if ("tasks", task) in own:
                side["places", task + _IN + name] = _place(own["tasks", task]["processors"])
    return side


def _of_program(document: Mapping[str, Any]) -> _Side:
    """The values of a program without states, or of one of its states."""
    places: dict[str, list[str]] = {}
    for worker in document["processors"]:
        for entry in worker["order"]:
            known = places.setdefault(entry["task"], [])
            if worker["processor"] not in known:
                known.append(worker["processor"])
    side: _Side = {("tasks", name): _task(on, None, None, None) for name, on in places.items()}
    for app in document["apps"]:
        for c in app["channels"]:
            name = f"{c['source']}.{c['source_port']}->{c['destination']}.{c['destination_port']}"
            side["buffers", name] = {"capacity": int(c["capacity"])}
    return side


def _of_report(document: dict[str, Any]) -> _Side:
    document = of_version(document, "report", VERSION)
    if "paths" not in document:
        raise ValueError("it is no document of `flowc report --json`")
    side: _Side = {}
    for t in document["tasks"]:
        if t["kind"] != "resampling":
            figures = _numbers(t, "predicted_ns", "measured_ns", "measured_max_ns")
            side["tasks", str(t["name"])] = _task(map(str, t["processors"]), *figures)
    for p in document["paths"]:
        name = _path_name(
            str(p["app"]), str(p.get("kind", "path")), str(p["source"]), str(p["task"])
        )
        side["paths", name] = _path(*_numbers(p, "p50_ns", "p99_ns", "max_ns", "bound_ns"))
    for c in document["channels"]:
        capacity, most = _numbers(c, "capacity", "most")
        side["buffers", str(c["name"])] = {"capacity": capacity, "most": most}
    for row in document["processors"]:
        side["processors", str(row["name"])] = {
            "predicted": _decimal(row["predicted"]),
            "measured": _decimal(row["measured"]),
        }
    return side | _states_of_report(document)


def _states_of_report(document: Mapping[str, Any]) -> _Side:
    side: _Side = {}
    for s in document.get("states", ()):
        name = str(s["name"])
        variants = ", ".join(map(str, s["variants"]))
        side["states", name] = _state(str(s["clocks"]), variants, _decimal(s["energy_mw"]))
        for task, on in s.get("own_places", {}).items():
            side["places", task + _IN + name] = _place(str(on))
        for b in s.get("bounds", ()):
            side["bounds", str(b["app"]) + _IN + name] = {"bound_ns": _number(b["bound_ns"])}
    for c in document.get("changes", ()):
        numbers = _change(*_numbers(c, "bound_ns", "mean_ns", "max_ns"))
        side["changes", f"{c['source']} -> {c['target']}"] = numbers
    return side


def _numbers(row: Mapping[str, Any], *keys: str) -> list[int | None]:
    return [_number(row[key]) for key in keys]


def _decimal(value: Any) -> float | None:
    return None if value is None else float(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
