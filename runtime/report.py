"""What a run has measured: as data (the document of `run --json`) and as a table."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from .digits import decimals, plain
from .failures import Failure
from .graph import App, Path, Task
from .memory import taken
from .program import Program
from .run import Run
from .states import document, table_rows
from .where import manifest_of, where

#: Of the document: fields may be added, those that are there keep their meaning.
VERSION = 1
#: What is said of a reader that goes on after the end of a stream.
AFTER_END = "%s went on with the last token of a stream that had ended: %s firings"
#: Bins of a histogram: as many as are narrower than people see, and few enough to be printed.
BINS = 64


def report(program: Program, status: int = 0) -> Dict[str, Any]:
    """The document of `run --json`, of a program that exits with that status."""
    run = program.run
    seconds = max(run.seconds, 1e-9)
    apps = run.totals or program.apps
    made: Dict[str, Any] = {
        "version": VERSION,
        "status": status,
        "failure": _failure(run.failure),
        "build": build_of(run.home),
        "where": where(run.home, run.started),
        "apps": {app.name: _app(app) for app in apps},
        "processors": _processors(run, seconds),
        "tasks": _tasks(program, apps, seconds),
        "channels": _channels(program),
        "memory": _memory(program, apps),
        "dropped": _dropped(program, apps),
    }
    after_end = {link.name: link.after_end for link in program.links.values() if link.after_end}
    if after_end:
        made["after_end"] = after_end
    if run.twin:
        made["twin"] = True
    for worker in run.workers:
        if worker.scheduling is not None:
            worker.scheduling.note(made, worker, seconds)
    if program.control is not None:
        made.update(document(program.control))
    if run.transport is not None:
        made["part"] = run.transport.document()
    return made


#: The parts of a report that are counted while the program runs, and what is known of them before.
_COUNTED = ("apps", "processors", "tasks", "channels", "dropped", "after_end", "states")
_KNOWN = ("deadline_ms", "capacity", "wcet_us", "period_us", "limit")


def uncounted(document: Dict[str, Any]) -> Dict[str, Any]:
    """The report of a program whose process has ended before it could tell what it had counted:
    None in its place."""
    return {key: _unknown(one) if key in _COUNTED else one for key, one in document.items()}


def _unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: one if key in _KNOWN else _unknown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_unknown(one) for one in value]
    return value if isinstance(value, str) else None


def _processors(run: Run, seconds: float) -> Dict[str, Dict[str, float]]:
    """How busy the workers of each processor were together."""
    shares: Dict[str, float] = {}
    for worker in run.workers:
        share = worker.busy / 1e9 / seconds
        shares[worker.processor] = shares.get(worker.processor, 0.0) + share
    return {name: {"utilization": round(share, 6)} for name, share in shares.items()}


def _tasks(program: Program, apps: Sequence[App], seconds: float) -> Dict[str, Dict[str, Any]]:
    """What each task has done, alternatives under their own names."""
    processors: Dict[str, Dict[str, None]] = {}
    for processor in program.processors:
        for entry in processor.order:
            for name, _ in entry.task.codes():
                processors.setdefault(name, {})[processor.name] = None
    found = {}
    for app in apps:
        for whole in app.tasks:
            for task in whole.apart():
                found[task.name] = _task(task, ", ".join(processors[task.name]), seconds)
    for task in (task for app in apps for task in app.tasks if task.live):
        found[task.name]["wait"] = _wait(task)
    return found


def _wait(task: Task) -> Dict[str, Any]:
    """The longest time in which a live source has waited for data behind its first ones, and the
    time from one firing to the next that analyses count with."""
    longest = task.longest_wait
    step = None if task.app.period is None else task.app.period / task.per_iteration
    return {
        "max_us": None if longest is None else round(longest / 1e3, 3),
        "period_us": None if step is None else round(float(step) / 1e3, 3),
    }


def _task(task: Task, processors: str, seconds: float) -> Dict[str, Any]:
    mean = deviation = None
    if task.firings:
        mean = round(task.busy / 1e3 / task.firings, 3)
        deviation = _deviation(task)
    return {
        "processor": processors,
        "firings": task.firings,
        "mean_us": mean,
        "std_us": deviation,
        "max_us": round(task.longest / 1e3, 3),
        **({} if task.wcet is None else {"wcet_us": task.wcet / 1e3}),
        "share": round(task.busy / 1e9 / seconds, 6),
        "failed": task.failed,
        "skipped": task.skipped,
        **({"engine": task.code.engine} if task.code.engine else {}),
        **({} if task.lists is None else task.lists.told(task.outputs)),
    }


def _dropped(program: Program, apps: Sequence[App]) -> Dict[str, Dict[str, int]]:
    """Tokens that links, and firings that live sources, have written and dropped."""
    places = {link.name: link.place for link in program.links.values() if not link.looked_at}
    for app in apps:
        for task in app.tasks:
            if task.code.place is not None:
                places[task.name] = task.code.place
    return {
        name: {"written": place.written, "dropped": place.dropped} for name, place in places.items()
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
        return str(manifest_of(home)["identity"]["digest"])
    except (KeyError, TypeError):
        return None


def _memory(program: Program, apps: Sequence[App]) -> Dict[str, Any]:
    """What was planned for networks, and what the process that ran takes, in bytes; None:
    unknown."""
    planned = None
    if program.planned is not None:
        planned = dict(program.planned, total=sum(program.planned.values()))
    run = program.run
    found = taken() if run.workers else None
    known = found or dict.fromkeys(("process", "resident", "proportional", "before_networks"))
    shared = {} if program.shared is None else {"shared": program.shared}
    bands = {t.name: t.code.layout for app in apps for t in app.tasks if t.code.layout}
    arenas_of = {id(worker.arena): worker.arena for worker in run.workers}
    used = [arena for arena in arenas_of.values() if arena is not None and arena.nbytes]
    arenas = None
    if used:
        arenas = {"shared": sum(a.nbytes for a in used), "apart": sum(a.apart for a in used)}
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
    complete = app.frames - app.skipped
    seconds = (app.last_end - (app.first_start or 0)) / 1e9 if app.last_end else 0.0
    return {
        "frames": app.frames,
        "skipped": app.skipped,
        "seconds": round(seconds, 4),
        "fps": _rate(app, seconds),
        "deadline_ms": _ms(app.deadline),
        "deadline_misses": app.misses,
        "overruns": app.overruns,
        "not_begun": app.not_begun,
        "latency_ms": _latency(app.latencies, app.total_latency, complete, app.longest_latency),
        "histogram": histogram(app.latencies),
        "paths": [_path(path) for path in app.paths],
    }


def _path(path: Path) -> Dict[str, Any]:
    return {
        "kind": path.kind,
        "source": path.source.name,
        "task": path.sink.name,
        "firings": path.count,
        "deadline_ms": _ms(path.deadline),
        "deadline_misses": path.misses,
        "latency_ms": _latency(path.latencies, path.total, path.count, path.longest),
        "histogram": histogram(path.latencies),
    }


def _ms(ns: Optional[Fraction]) -> Optional[float]:
    return None if ns is None else round(float(ns) / 1e6, 6)


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
    inner = set(between.tolist())  # np.unique would import numpy.ma
    edges = [least] + sorted(n for n in inner if least < n <= longest) + [longest + 1]
    counts, _ = np.histogram(values, edges)
    return {"ns": edges, "counts": [int(n) for n in counts]}


def _rate(app: App, seconds: float) -> Optional[float]:
    """Frames per second between the first and the last end; the way through the pipeline is
    latency, not rate."""
    if app.frames > 1 and app.last_end > app.first_end:
        return round((app.frames - 1) * 1e9 / (app.last_end - app.first_end), 2)
    return round(app.frames / seconds, 2) if seconds else None


def missed_of(counted: Dict[str, Any]) -> Optional[int]:
    """Deadlines that an app or a path of the document has missed; None: it has no deadline."""
    missed: int = counted["deadline_misses"]
    return None if counted["deadline_ms"] is None else missed


def missed_deadlines(document: Dict[str, Any]) -> List[str]:
    """Each app and each path that has missed deadlines, with how many of all."""
    found = []
    for name, app in document["apps"].items():
        if app["deadline_misses"]:
            complete = app["frames"] - app["skipped"] + app["not_begun"]
            found.append("%s %d of %d" % (name, app["deadline_misses"], complete))
        for path in app["paths"]:
            if path["deadline_misses"]:
                missed = path["deadline_misses"], path["firings"]
                found.append("%s %d of %d" % (_ends(path), *missed))
    return found


def left_out(document: Dict[str, Any]) -> List[str]:
    """Each app with frames that were left out after errors, with how many of all."""
    return [
        "%d of %d frames of %s" % (app["skipped"], app["frames"], name)
        for name, app in document["apps"].items()
        if app["skipped"]
    ]


def above_wcet(document: Dict[str, Any]) -> List[str]:
    """Each task with a firing that took longer than the `wcet` that the text declares."""
    return [
        "%s %s ms instead of %s ms" % (name, plain(task["max_us"] / 1e3), plain(wcet / 1e3))
        for name, task in document["tasks"].items()
        for wcet in (task.get("wcet_us"),)
        if wcet is not None and (task["max_us"] or 0) > wcet
    ]


def pauses(waits: Iterable[Tuple[str, Optional[float], Optional[float]]]) -> List[str]:
    """Each live source that has waited for data for more than two of its periods, with how long; of
    sources with their longest waits and periods in us."""
    found = []
    for name, longest, period in waits:
        if longest is not None and period is not None and longest > 2 * period:
            said = name, decimals(longest / 1e3, 1), decimals(period / 1e3, 1)
            found.append("%s had no data for %s ms (its period: %s ms)" % said)
    return found


def waits_of(tasks: Dict[str, Any]) -> List[Tuple[str, Optional[float], Optional[float]]]:
    """The live sources of the document's tasks, for `pauses`."""
    return [
        (name, task["wait"]["max_us"], task["wait"]["period_us"])
        for name, task in tasks.items()
        if "wait" in task
    ]


def unfinished(apps: Sequence[App]) -> List[str]:
    """Of each source that has ended in the middle of a frame, which is not finished then: how many
    firings led to nothing."""
    found = []
    for app in apps:
        for task in app.tasks if app.exhausted else ():
            left = task.firings - app.limit * task.per_iteration
            if task.is_source and 0 < left < task.per_iteration:
                found.append(
                    "%s ended in the middle of a frame of %d firings: what the last %d made was "
                    "dropped" % (task.name, task.per_iteration, left)
                )
    return found


def _ends(path: Dict[str, Any]) -> str:
    kind = "" if path["kind"] == "path" else "%s " % path["kind"]
    return "%s%s -> %s" % (kind, path["source"], path["task"].partition(".")[2])


#: A table: its heading, and its rows.
Table = List[List[Any]]


def table(document: Dict[str, Any]) -> str:
    """The same as text."""
    apps: Table = [
        ["app", "frames", "fps", "latency ms: mean", "p50", "p99", "max", "missed", "overruns"]
    ]
    for name, a in document["apps"].items():
        latency = _figures(a["latency_ms"])
        apps.append([name, a["frames"], a["fps"], *latency, missed_of(a), a["overruns"]])
    tasks: Table = [["task", "processor", "firings", "mean us", "max us", "share"]]
    for name, t in document["tasks"].items():
        share = _percent(t["share"])
        tasks.append([name, t["processor"], t["firings"], t["mean_us"], t["max_us"], share])
    processors: Table = [["processor", "busy"]]
    for name, p in document["processors"].items():
        processors.append([name, _percent(p["utilization"])])
    tables = [columns(rows) for rows in (apps, *_others(document))]
    if "states" in document:
        for rows in table_rows(document):
            tables.append(columns(rows, left=3 if rows[0][1] == "to" else 1))
    names = ", ".join(document.get("background", ()))
    below = ["in the background, with what the others leave (nice 19): " + names] if names else []
    for app, places in document.get("shares", {}).items():
        for name, share in places.items():
            said = (app, name, 100 * share["part"], 100 * share["used"])
            below.append("%s has a share of %s: %.1f %%, and used %.1f %%" % said)
            below[-1] += "" if share["above"] else "; no priority puts it above the others"
    for name, firings in document.get("after_end", {}).items():
        below.append(AFTER_END % (name, firings))
    if missed_deadlines(document):
        below += pauses(waits_of(document["tasks"]))
    return "\n\n".join([*tables, *below, columns(tasks), columns(processors)])


def _percent(share: Optional[float]) -> Optional[str]:
    return None if share is None else decimals(100 * share, 1) + " %"


def _others(document: Dict[str, Any]) -> List[Table]:
    """Tables that most programs have nothing for."""
    memory = document["memory"]
    tables = [
        _paths_table(document["apps"]),
        _lost_table(document["tasks"]),
        _dropped_table(document["dropped"]),
        _lists_table(document["tasks"]),
        _engines_table(document["tasks"]),
        _memory_table(memory),
        _weights_table(memory),
        _arenas_table(memory),
        [["network", "layout"], *([name, layout] for name, layout in memory["bands"].items())],
    ]
    return [rows for rows in tables if len(rows) > 1]


def _engines_table(tasks: Dict[str, Any]) -> Table:
    rows: Table = [["network", "engine"]]
    return rows + [[name, t["engine"]] for name, t in tasks.items() if "engine" in t]


def _figures(latency: Dict[str, Any]) -> List[Any]:
    return [latency[key] for key in ("mean", "p50", "p99", "max")]


def _paths_table(apps: Dict[str, Any]) -> Table:
    rows: Table = [["path", "firings", "latency ms: mean", "p50", "p99", "max", "missed"]]
    for app in apps.values():
        for path in app["paths"]:
            latency = _figures(path["latency_ms"])
            rows.append([_ends(path), path["firings"], *latency, missed_of(path)])
    return rows


def _lost_table(tasks: Dict[str, Any]) -> Table:
    rows: Table = [["task", "failed", "left out"]]
    for name, task in tasks.items():
        if task["failed"] or task["skipped"]:
            rows.append([name, task["failed"], task["skipped"]])
    return rows


def _dropped_table(dropped: Dict[str, Any]) -> Table:
    rows: Table = [["source: firings, link: tokens", "written", "dropped"]]
    for name, tokens in dropped.items():
        rows.append([name, tokens["written"], tokens["dropped"]])
    return rows


def _lists_table(tasks: Dict[str, Any]) -> Table:
    rows: Table = [["list", "written", "tokens: mean", "most", "limit"]]
    for name, task in tasks.items():
        for port, seen in task.get("lists", {}).items():
            figures = [seen[key] for key in ("written", "mean", "most", "limit")]
            rows.append(["%s.%s" % (name, port), *figures])
    return rows


def _memory_table(memory: Dict[str, Any]) -> Table:
    planned = memory["planned"]
    if planned is None:
        return []
    parts = {name: size for name, size in planned.items() if name != "total"}
    sizes = [*parts.values(), planned["total"], memory["process"], memory["before_networks"]]
    heading = ["memory MB", *parts, "planned", "process", "before networks"]
    return [heading, ["", *map(_mb, sizes)]]


def _weights_table(memory: Dict[str, Any]) -> Table:
    if "shared" not in memory:
        return []
    shared = memory["shared"]
    sizes = [shared["separate"], shared["distinct"], shared["built"], memory["proportional"]]
    heading = ["weights of alternatives MB", "separate", "distinct", "as built", "process, PSS"]
    return [heading, ["", *map(_mb, sizes)]]


def _arenas_table(memory: Dict[str, Any]) -> Table:
    arenas = memory["arenas"]
    if arenas is None:
        return []
    planned = None if memory["planned"] is None else memory["planned"].get("arenas", 0)
    sizes = [planned, arenas["shared"], arenas["apart"]]
    heading = ["arenas of devices MB", "planned", "shared", "each its own"]
    return [heading, ["", *map(_mb, sizes)]]


def _mb(size: Optional[int]) -> Optional[str]:
    return None if size is None else "%.2f" % (size / 1e6)


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
