"""What a run has measured: as data (the document of `run --json`) and as a table."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .failures import Failure
from .graph import App, Path, Task
from .memory import taken
from .program import Program
from .states import document, table_rows

#: Where a build says what it is.
MANIFEST = ".flowc-manifest.json"
#: Bins of a histogram: as many as are narrower than people see, and few enough to be printed.
BINS = 64


def report(program: Program, status: int = 0) -> Dict[str, Any]:
    """The document of `run --json`, of a program that exits with that status."""
    seconds = max(program.seconds, 1e-9)
    tasks = {}
    where: Dict[str, List[str]] = {}
    for processor, order in program.orders:
        for name in [name for entry in order for name, _ in entry.task.codes()]:
            places = where.setdefault(name, [])
            if processor not in places:
                places.append(processor)
    apps = program.told or program.apps
    for app in apps:
        for task in [part for whole in app.tasks for part in whole.apart()]:
            tasks[task.name] = {
                "processor": ", ".join(where[task.name]),
                "firings": task.firings,
                "mean_us": round(task.busy / 1e3 / task.firings, 3) if task.firings else None,
                "std_us": _deviation(task) if task.firings else None,
                "max_us": round(task.longest / 1e3, 3),
                "share": round(task.busy / 1e9 / seconds, 4),
                "failed": task.failed,
                "skipped": task.skipped,
            }
    links = [link for link in program.links.values() if not link.looked_at]
    processors: Dict[str, float] = {}
    for worker in program.workers:
        processors[worker.processor] = (
            processors.get(worker.processor, 0.0) + worker.busy / 1e9 / seconds
        )
    return {
        "status": status,
        "failure": _failure(program.failure),
        "build": build_of(program.home),
        "apps": {app.name: _app(app) for app in apps},
        "processors": {name: {"utilization": round(u, 4)} for name, u in processors.items()},
        "tasks": tasks,
        "channels": _channels(program),
        "memory": _memory(program),
        "dropped": {
            **{
                link.name: {"written": link.place.written, "dropped": link.place.dropped}
                for link in links
            },
            **{
                task.name: {"written": task.code.place.written, "dropped": task.code.place.dropped}
                for task in program.tasks
                if task.code.place is not None
            },
        },
        **(document(program.control) if program.control is not None else {}),
        **({"part": program.mesh.document()} if program.mesh is not None else {}),
    }


def _channels(program: Program) -> Dict[str, Dict[str, int]]:
    """How full each channel was at most; of those that states have under one name, the largest of
    both numbers."""
    found: Dict[str, Dict[str, int]] = {}
    for c in program.channels:
        known = found.setdefault(c.name, {"capacity": 0, "most": 0})
        known["capacity"] = max(known["capacity"], c.capacity)
        known["most"] = max(known["most"], c.capacity - c.least_free)
    return found


def build_of(home: str) -> Optional[str]:
    """The digest of the build in a directory; None where it is unknown."""
    try:
        with open(os.path.join(home, MANIFEST)) as stream:
            return str(json.load(stream)["identity"]["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _memory(program: Program) -> Dict[str, Any]:
    """What was planned for networks, and what the process that ran takes, in bytes; None:
    unknown."""
    planned = (
        None
        if program.planned is None
        else dict(program.planned, total=sum(program.planned.values()))
    )
    found = taken() if program.workers else None
    bands = {t.name: t.code.layout for t in program.tasks if t.code.layout}
    known = found or dict.fromkeys(("process", "resident", "proportional", "before_networks"))
    shared = {} if program.shared is None else {"shared": program.shared}
    used = [a for a in {id(a): a for a in program.arenas}.values() if a.nbytes]
    arenas = (
        {"shared": sum(a.nbytes for a in used), "apart": sum(a.apart for a in used)}
        if used
        else None
    )
    return {"planned": planned, **known, **shared, "arenas": arenas, "bands": bands}


def _failure(failure: Optional[Failure]) -> Optional[Dict[str, Any]]:
    if failure is None:
        return None
    place = {"app": failure.app or None, "task": failure.task or None, "firing": failure.firing}
    return {**place, "reason": failure.reason}


def _deviation(task: Task) -> float:
    mean = task.busy / task.firings
    variance: float = max(0.0, task.squares / task.firings - mean * mean)
    return round(math.sqrt(variance) / 1e3, 3)


def _app(app: App) -> Dict[str, Any]:
    seconds = (app.last_end - (app.first_start or 0)) / 1e9 if app.frames else 0.0
    complete = app.frames - app.skipped
    return {
        "frames": app.frames,
        "skipped": app.skipped,
        "seconds": round(seconds, 4),
        "fps": _rate(app, seconds),
        "deadline_misses": app.misses,
        "overruns": app.overruns,
        "latency_ms": _latency(app.latencies, app.total_latency, complete, app.longest_latency),
        "histogram": histogram(app.latencies),
        "paths": [_path(path) for path in app.paths],
    }


def _path(path: Path) -> Dict[str, Any]:
    return {
        "source": path.source.name,
        "task": path.sink.name,
        "firings": path.count,
        "deadline_misses": path.misses,
        "latency_ms": _latency(path.latencies, path.total, path.count, path.longest),
        "histogram": histogram(path.latencies),
    }


def _latency(latest: Sequence[int], total: int, count: int, longest: int) -> Dict[str, Any]:
    """The figures of a latency in ms; quantiles are those of the `latest` ones."""
    if not (count and latest):
        return dict.fromkeys(("mean", "p50", "p99", "max"))
    values = sorted(latest)

    def ms(ns: float) -> float:
        return round(ns / 1e6, 3)

    def quantile(q: float) -> float:
        return ms(values[min(len(values) - 1, int(q * len(values)))])

    return {
        "mean": ms(total / count),
        "p50": quantile(0.5),
        "p99": quantile(0.99),
        "max": ms(longest),
    }


def histogram(latest: Sequence[int]) -> Dict[str, List[int]]:
    """How many latencies lie in each of some bins that grow by the same factor, from the shortest
    to the longest.

    Bin k is from `ns[k]` on, and below `ns[k + 1]`. Empty without latencies.
    """
    if not latest:
        return {"ns": [], "counts": []}
    values = np.array(latest, np.int64)
    least, longest = int(values.min()), int(values.max())
    between = np.geomspace(max(1, least), longest + 1, BINS + 1)[1:-1].astype(np.int64)
    edges = [least] + [int(n) for n in np.unique(between) if least < n <= longest] + [longest + 1]
    counts, _ = np.histogram(values, edges)
    return {"ns": edges, "counts": [int(n) for n in counts]}


def _rate(app: App, seconds: float) -> Optional[float]:
    """Frames per second between the first and the last end; the way through the pipeline is
    latency, not rate."""
    if app.frames > 1 and app.last_end > app.first_end:
        return round((app.frames - 1) * 1e9 / (app.last_end - app.first_end), 2)
    return round(app.frames / seconds, 2) if seconds else None


def table(document: Dict[str, Any]) -> str:
    """The same as text."""
    apps = [["app", "frames", "fps", "latency ms: mean", "p50", "p99", "max", "missed", "overruns"]]
    for name, a in document["apps"].items():
        latency = [a["latency_ms"][k] for k in ("mean", "p50", "p99", "max")]
        apps.append([name, a["frames"], a["fps"], *latency, a["deadline_misses"], a["overruns"]])
    tasks = [["task", "processor", "firings", "mean us", "max us", "share"]]
    for name, t in document["tasks"].items():
        share = "%.1f %%" % (100 * t["share"])
        tasks.append([name, t["processor"], t["firings"], t["mean_us"], t["max_us"], share])
    processors = [["processor", "busy"]]
    for name, p in document["processors"].items():
        processors.append([name, "%.1f %%" % (100 * p["utilization"])])
    states = table_rows(document) if "states" in document else []
    tables = [columns(rows, left=3 if rows[0][1] == "to" else 1) for rows in states]
    return "\n\n".join(
        [
            *(columns(rows) for rows in (apps, *_others(document))),
            *tables,
            columns(tasks),
            columns(processors),
        ]
    )


def _others(document: Dict[str, Any]) -> List[List[List[Any]]]:
    """Tables that most programs have nothing for: paths, what failed, what was dropped."""
    paths: List[List[Any]] = [
        ["path", "firings", "latency ms: mean", "p50", "p99", "max", "missed"]
    ]
    for a in document["apps"].values():
        for p in a["paths"]:
            latency = [p["latency_ms"][k] for k in ("mean", "p50", "p99", "max")]
            name = "%s -> %s" % (p["source"], p["task"].partition(".")[2])
            paths.append([name, p["firings"], *latency, p["deadline_misses"]])
    lost: List[List[Any]] = [["task", "failed", "left out"]]
    lost += [
        [n, t["failed"], t["skipped"]]
        for n, t in document["tasks"].items()
        if t["failed"] or t["skipped"]
    ]
    dropped: List[List[Any]] = [["tokens", "written", "dropped"]]
    dropped += [[name, d["written"], d["dropped"]] for name, d in document["dropped"].items()]
    memory: List[List[Any]] = []
    found = document["memory"]
    if found["planned"] is not None:
        planned = {k: size for k, size in found["planned"].items() if k != "total"}
        memory = [["memory MB", *planned, "planned", "process", "before networks"]]
        values = [
            *planned.values(),
            found["planned"]["total"],
            found["process"],
            found["before_networks"],
        ]
        memory.append([""] + [None if n is None else "%.2f" % (n / 1e6) for n in values])
    weights: List[List[Any]] = [
        ["weights of alternatives MB", "separate", "distinct", "as built", "process, PSS"]
    ]
    if "shared" in found:
        values = [found["shared"][k] for k in ("separate", "distinct", "built")] + [
            found["proportional"]
        ]
        weights.append([""] + [None if n is None else "%.2f" % (n / 1e6) for n in values])
    arenas: List[List[Any]] = [["arenas of devices MB", "planned", "shared", "each its own"]]
    if found["arenas"] is not None:
        wanted = None if found["planned"] is None else found["planned"].get("arenas", 0)
        sizes = [wanted, found["arenas"]["shared"], found["arenas"]["apart"]]
        arenas.append([""] + [None if n is None else "%.2f" % (n / 1e6) for n in sizes])
    bands = [["bands", "layout"], *([name, layout] for name, layout in found["bands"].items())]
    return [
        rows for rows in (paths, lost, dropped, memory, weights, arenas, bands) if len(rows) > 1
    ]


def columns(rows: Sequence[Sequence[Any]], left: int = 1) -> str:
    """A table as text, its first row as heading; the first `left` columns are aligned to the
    left."""
    text = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in text) for i in range(len(text[0]))]
    lines = []
    for row in text:
        cells = [
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)
