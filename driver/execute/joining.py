"""The reports of the parts of a program, as that of one program.

In: the document of each part, as it wrote it. Out: one document of the same form, with what is about parts alone under
`parts`. An app is reported by the parts where its frames end; clocks of different machines agree as far as half a round
trip, which stands beside their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A report, as JSON.
Document = dict[str, Any]


def joined(reports: Mapping[str, Document], status: int, digest: str) -> Document:
    """One report for all parts; those that could not write any are missing."""
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
    """Each machine has its own: what is under `parts` is not to be added."""
    bands = {name: layout for r in reports.values() for name, layout in r["memory"]["bands"].items()}
    known = ("planned", "process", "resident", "proportional", "before_networks", "arenas")
    return {**dict.fromkeys(known), "bands": bands}


def _cause(reports: Mapping[str, Document]) -> Document | None:
    """The failure that the others followed: one of a task, if any is."""
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
    """Rows of a table: how far the clocks of parts are apart, in us."""
    rows: list[list[Any]] = [["clock of", "seen from", "ahead us", "+- us"]]
    for name, part in document["parts"].items():
        for peer, clock in part["clocks"].items():
            ahead, near = clock["offset_ns"] / 1e3, clock["round_trip_ns"] / 2e3
            rows.append([peer, name, f"{ahead:.0f}", f"{near:.0f}"])
    return rows
