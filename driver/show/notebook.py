"""Results as a notebook shows them: the `_repr_html_` of results of the verbs in Python.

In: a result. Out: HTML with tables, and the diagnostics that belong to it. Names come from
untrusted files: all text is escaped, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING

from ...model.diagnostic import Diagnostic

if TYPE_CHECKING:
    from ..build.build import Built
    from ..execute.run import Ran, Tested
    from ..measure.measure import Profiled
    from ..solve.map import Answer
    from ..text.check import Checked
    from .analyze import Analyzed

#: Most rows of a table.
MOST = 200
_WORDS = {True: "yes", False: "no", None: "not decided"}


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; cells are text."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    found = list(rows)
    body = "".join(line(row, "td") for row in found[:MOST])
    more = f"<p>and {len(found) - MOST} more</p>" if len(found) > MOST else ""
    return f"<table><thead>{line(heading, 'th')}</thead><tbody>{body}</tbody></table>{more}"


def diagnostics(found: Sequence[Diagnostic]) -> str:
    """Diagnostics with their places and help; empty if there are none."""
    if not found:
        return ""
    rows = []
    for d in found:
        place = f"{d.span.file}:{d.span.line}" if d.span is not None else ""
        rows.append([d.severity, d.code, place, d.message, d.help])
    return table(["", "code", "place", "message", "help"], rows)


def checked(result: Checked) -> str:
    """The verdicts of every app."""
    rows = []
    for app in result.system.apps:
        v = result.verdicts[app.name]
        verdicts = [_WORDS[x.holds] for x in (v.consistent, v.deadlock_free, v.schedulable)]
        firings = ", ".join(f"{n.partition('.')[2]} {q}" for n, q in v.repetition.items())
        rows.append([app.name, len(app.tasks), len(app.channels), *verdicts, firings])
    heading = [
        "app",
        "tasks",
        "channels",
        "consistent",
        "deadlock-free",
        "schedulable",
        "firings in an iteration",
    ]
    return (table(heading, rows) if rows else "") + diagnostics(result.diagnostics)


def analyzed(result: Analyzed) -> str:
    """Period, latency and buffers of every app, and the trade-off between them if it was
    requested."""
    rows, fronts = [], ""
    for name, a in result.apps.items():
        exact = not a.times.unknown
        least = a.least_buffers
        buffers = "" if least is None else f"{least.total} tokens"
        rows.append([name, _ns(a.period, exact), _ns(a.latency, exact), buffers, a.times.source])
        if a.pareto is not None:
            steps = [
                [p.total, "" if p.bytes is None else p.bytes, _ns(p.period, exact)]
                for p in a.pareto
            ]
            fronts += f"<p>{escape(name)}: memory against period</p>" + table(
                ["tokens", "bytes", "period"], steps
            )
    heading = ["app", "least period", "latency", "least buffers", "times"]
    return table(heading, rows) + fronts + diagnostics(result.diagnostics)


def profiled(result: Profiled) -> str:
    """The times of every task."""
    rows = [
        [
            e.subject,
            e.implementation,
            e.processor,
            e.samples,
            *(_us(ns) for ns in (e.mean_ns, e.max_ns, e.wcet_ns)),
        ]
        for e in result.entries
    ]
    heading = ["task", "implementation", "on", "samples", "mean us", "max us", "wcet us"]
    said = f"<p>{escape(result.profile.host)}; measured noise: {result.noise:.0%}</p>"
    return said + table(heading, rows) + diagnostics(result.diagnostics)


def answer(result: Answer) -> str:
    """Places, with bounds if there are deadlines, else with the configurations that were
    compared."""
    mapping = result.mapping
    places = [[p.task, ", ".join(p.processors)] for p in mapping.placements]
    for n in mapping.networks:
        places.append([n.task, " | ".join(", ".join(s.processors) for s in n.stages)])
    places += [
        [f"{p.task} in {s.state}", ", ".join(p.processors)]
        for s in mapping.states
        for p in s.placements
    ]
    found = table(["task", "processors"], places)
    if mapping.states:
        rows = [
            [
                s.state,
                g.app,
                "yes" if g.schedulable else "no",
                *(_ms(t) for t in (g.response_ns, g.deadline_ns, g.seen_ns)),
            ]
            for s in mapping.states
            for g in s.groups
        ]
        found += table(
            ["state", "app", "schedulable", "response ms", "deadline ms", "longest seen ms"], rows
        )
    elif mapping.groups:
        rows = [
            [
                g.app,
                "yes" if g.schedulable else "no",
                _ms(g.response_ns),
                _ms(g.deadline_ns),
                _ms(g.seen_ns),
            ]
            for g in mapping.groups
        ]
        found += table(
            ["app", "schedulable", "response ms", "deadline ms", "longest seen ms"], rows
        )
    elif mapping.contestants:
        tried = [
            [c.name, c.configuration, _ms(c.predicted_ns), _ms(c.measured_ns)]
            for c in mapping.contestants
        ]
        unit = "mJ" if mapping.effort.objective == "energy" else "ms"  # energies are in nJ
        found += table(
            ["contestant", "configuration", f"predicted {unit}", f"measured {unit}"], tried
        )
    return found + diagnostics(result.diagnostics)


def built(result: Built) -> str:
    """The program's directory, and the places in it."""
    places = [[p.task, ", ".join(p.processors)] for p in result.mapping.placements]
    said = f"<p>{escape(str(result.directory))}{'' if result.fresh else ' (unchanged)'}</p>"
    return said + table(["task", "processors"], places) + diagnostics(result.diagnostics)


def ran(result: Ran) -> str:
    """Frames, latencies and times of tasks, if the result holds the report; latencies beside their
    bounds."""
    found = f"<p>exit status {result.status}</p>"
    if result.disagreed:
        found += f"<pre>{escape(result.disagreed)}</pre>"
    if result.report is not None:
        report = json.loads(result.report)
        apps = []
        for name, a in report["apps"].items():
            latency = [a["latency_ms"][k] for k in ("mean", "p50", "p99", "max")]
            apps.append([name, a["frames"], a["fps"], *latency, a["deadline_misses"]])
        found += table(
            ["app", "frames", "fps", "latency ms: mean", "p50", "p99", "max", "missed"], apps
        )
        tasks = [
            [n, t["processor"], t["firings"], t["mean_us"], t["max_us"]]
            for n, t in report["tasks"].items()
        ]
        found += table(["task", "processor", "firings", "mean us", "max us"], tasks)
    if result.bounded:
        bounds = [
            [b.source, b.task, _ms(b.bound_ns), _ms(b.longest_ns), _ms(b.deadline_ns)]
            for b in result.bounded
        ]
        found += table(["from", "to", "bound ms", "longest ms", "deadline ms"], bounds)
    if result.slower:
        slow = [[s.task, _us(s.mean_ns), _us(s.profile_ns)] for s in result.slower]
        found += table(["task", "mean us", "alone us"], slow)
    return found + diagnostics(result.built.diagnostics)


def tested(result: Tested) -> str:
    """The result of each test."""
    rows = [[t.name, t.app or "", t.outcome, f"{t.seconds:.3g}", t.message] for t in result.tests]
    return f"<p>exit status {result.status}</p>" + table(
        ["test", "app", "outcome", "seconds", "message"], rows
    )


def _ns(value: Fraction | None, exact: bool) -> str:
    """A time of an analysis; a plain number if no times are known and every firing counts 1."""
    if value is None:
        return "not known"
    return f"{float(value) / 1e3:.6g} us" if exact else f"{float(value):g}"


def _us(ns: float) -> str:
    return f"{ns / 1e3:.4g}"


def _ms(ns: float | None) -> str:
    return "" if ns is None else f"{ns / 1e6:.4g}"
