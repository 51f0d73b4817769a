"""The reports of the parts of a program, as one report.

In: the document of each part, as it wrote it. Out: one document of the same form, with results of
single parts under `parts`. An app is reported by the parts where its frames end; clocks of
different machines agree to within half a round trip, which stands beside their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    return {
        "status": status,
        "failure": _cause(reports),
        "build": digest,
        "apps": {name: _app(name, found) for name, found in apps.items()},
        "processors": _all(reports, "processors"),
        "tasks": _all(reports, "tasks"),
        "channels": channels,
        "memory": _memory(reports),
        "dropped": _all(reports, "dropped"),
        "parts": {
            name: {
                "status": r["status"],
                "failure": r["failure"],
                "memory": r["memory"],
                "clocks": r.get("part", {}).get("clocks", {}),
                "refused": r.get("part", {}).get("refused", 0),
            }
            for name, r in reports.items()
        },
    }


def _all(reports: Mapping[str, Document], what: str) -> Document:
    return {name: value for report in reports.values() for name, value in report[what].items()}


def _memory(reports: Mapping[str, Document]) -> Document:
    """Values of single machines are under `parts`, and are not added up."""
    bands = {
        name: layout for r in reports.values() for name, layout in r["memory"]["bands"].items()
    }
    known = ("planned", "process", "resident", "proportional", "before_networks", "arenas")
    return {**dict.fromkeys(known), "bands": bands}


def _cause(reports: Mapping[str, Document]) -> Document | None:
    """The failure that caused the others: that of a task, if there is one."""
    failures = [r["failure"] for r in reports.values() if r["failure"] is not None]
    return next((f for f in failures if f["task"] is not None), failures[0] if failures else None)


def _app(name: str, found: list[tuple[Document, Document]]) -> Document:
    ended = [app for app, report in found if name not in report.get("part", {}).get("passed", ())]
    ended = ended or [app for app, _ in found]
    slowest = max(ended, key=lambda a: a["latency_ms"]["max"] or 0.0)
    return {
        **slowest,
        "frames": min(a["frames"] for a in ended),
        "skipped": max(a["skipped"] for a in ended),
        "deadline_misses": max(a["deadline_misses"] for a in ended),
        "overruns": sum(app["overruns"] for app, _ in found),
        "paths": [path for app, _ in found for path in app["paths"]],
    }


def clocks(document: Document) -> list[list[Any]]:
    """Rows of a table: clock offsets between parts, in us."""
    rows: list[list[Any]] = [["clock of", "seen from", "ahead us", "+- us"]]
    for name, part in document["parts"].items():
        for peer, clock in part["clocks"].items():
            ahead, near = clock["offset_ns"] / 1e3, clock["round_trip_ns"] / 2e3
            rows.append([peer, name, f"{ahead:.0f}", f"{near:.0f}"])
    return rows
