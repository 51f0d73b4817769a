"""The reports of the parts of a program, as one report.

In: the document of each part, as it wrote it. Out: one document of the same form, with results of
single parts under `parts`. An app is reported by the parts where its frames end; clocks of
different machines agree to within half a round trip, which stands beside their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from ...runtime.report import VERSION

#: A report, as JSON.
Document = dict[str, Any]


def joined(reports: Mapping[str, Document], status: int, digest: str) -> Document:
    """One report for all parts that could write one."""
    apps: dict[str, list[tuple[Document, Document]]] = {}
    for report in reports.values():
        for name, app in report["apps"].items():
            apps.setdefault(name, []).append((app, report))
    channels: dict[str, Document] = {}
    for report in reports.values():
        for name, channel in report["channels"].items():
            most = max(channel["most"], channels.get(name, channel)["most"])
            channels[name] = {**channel, "most": most}
    after_end = {
        k: v for report in reports.values() for k, v in report.get("after_end", {}).items()
    }
    return {
        "version": VERSION,
        "status": status,
        "failure": _cause(reports),
        "build": digest,
        "apps": {name: _app(name, parts) for name, parts in apps.items()},
        "processors": _all(reports, "processors"),
        "tasks": _all(reports, "tasks"),
        "channels": channels,
        "memory": _memory(reports),
        "dropped": _all(reports, "dropped"),
        **({"after_end": after_end} if after_end else {}),
        **_unpaced(reports),
        **({"twin": True} if any("twin" in report for report in reports.values()) else {}),
        "parts": {name: _part(report) for name, report in reports.items()},
    }


def _unpaced(reports: Mapping[str, Document]) -> Document:
    """The apps below all others and those with shares, where some are: an app has workers on
    several machines."""
    below: dict[str, None] = {}
    shares: dict[str, Document] = {}
    for report in reports.values():
        below.update(dict.fromkeys(report.get("background", ())))
        for name, places in report.get("shares", {}).items():
            shares.setdefault(name, {}).update(places)
    found: Document = {}
    if below:
        found["background"] = list(below)
    if shares:
        found["shares"] = shares
    return found


def _part(report: Document) -> Document:
    part = report.get("part", {})
    return {
        "status": report["status"],
        "failure": report["failure"],
        "memory": report["memory"],
        "where": report["where"],
        "clocks": part.get("clocks", {}),
        "refused": part.get("refused", 0),
    }


def _all(reports: Mapping[str, Document], what: str) -> Document:
    together: Document = {}
    for report in reports.values():
        together |= report[what]
    return together


def _memory(reports: Mapping[str, Document]) -> Document:
    """Values of single machines are under `parts`, and are not added up."""
    bands: Document = {}
    for report in reports.values():
        bands |= report["memory"]["bands"]
    known = ("planned", "process", "resident", "proportional", "before_networks", "arenas")
    return {**dict.fromkeys(known), "bands": bands}


def _cause(reports: Mapping[str, Document]) -> Document | None:
    """The failure that caused the others: that of a task, if there is one."""
    failures = [r["failure"] for r in reports.values() if r["failure"] is not None]
    of_tasks = [failure for failure in failures if failure["task"] is not None]
    return next(iter(of_tasks or failures), None)


def _app(name: str, parts: list[tuple[Document, Document]]) -> Document:
    """An app of which several machines run a part. What one of them could not tell is unknown."""
    lost = next((app for app, _ in parts if app["frames"] is None), None)
    if lost is not None:
        return lost
    apps = [app for app, _ in parts]
    ended = [app for app, report in parts if name not in report.get("part", {}).get("passed", ())]
    ended = ended or apps
    slowest = max(ended, key=lambda a: a["latency_ms"]["max"] or 0.0)
    return {
        **slowest,
        "frames": min(a["frames"] for a in ended),
        "skipped": max(a["skipped"] for a in ended),
        "deadline_misses": max(a["deadline_misses"] for a in ended),
        "overruns": sum(app["overruns"] for app in apps),
        "not_begun": max(app["not_begun"] for app in apps),
        "paths": list(chain.from_iterable(app["paths"] for app in apps)),
    }


def clocks(document: Document) -> list[list[Any]]:
    """Rows of a table: clock offsets between parts, in us."""
    rows: list[list[Any]] = [["clock of", "seen from", "ahead us", "+- us"]]
    for name, part in document["parts"].items():
        for peer, clock in part["clocks"].items():
            ahead, near = clock["offset_ns"] / 1e3, clock["round_trip_ns"] / 2e3
            rows.append([peer, name, f"{ahead:.0f}", f"{near:.0f}"])
    return rows
