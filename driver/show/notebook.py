"""Results as a notebook shows them: the `_repr_html_` of results of the verbs in Python.

In: a result. Out: HTML with tables, and the diagnostics that belong to it. Names come from
untrusted files: all text is escaped, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from ...model.diagnostic import Diagnostic
from ...model.mapping import race_in_words
from ...runtime.report import missed_of

if TYPE_CHECKING:
    from ...model.mapping import GroupBound, Mapping
    from ...model.verdict import Verdict
    from ..build.build import Built
    from ..execute.run import FinishedRun, Tested
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

    shown = list(rows)
    hidden = len(shown) - MOST
    body = "".join(line(row, "td") for row in shown[:MOST])
    text = f"<table><thead>{line(heading, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"{text}<p>and {hidden} more</p>" if hidden > 0 else text


def diagnostics(found: Sequence[Diagnostic]) -> str:
    """Diagnostics with their places and help; empty if there are none."""
    if not found:
        return ""
    rows = []
    for d in found:
        place = f"{d.span.file}:{d.span.line}" if d.span is not None else ""
        rows.append([d.severity, d.code, place, d.message, d.help])
    return table(["", "code", "place", "message", "help"], rows)


def _in_words(verdict: Verdict) -> str:
    return _WORDS[verdict.holds] + (", as measured" if verdict.measured else "")


def checked(result: Checked) -> str:
    """The verdicts of every app."""
    rows = []
    for app in result.system.apps:
        v = result.verdicts[app.name]
        verdicts = [_in_words(x) for x in (v.consistent, v.deadlock_free, v.schedulable)]
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
    for name, analysis in result.apps.items():
        exact = not analysis.times.unknown
        least = analysis.least_buffers
        buffers = "" if least is None else f"{least.total} tokens"
        rows.append(
            [
                name,
                _ns(analysis.period, exact),
                _ns(analysis.latency, exact),
                buffers,
                analysis.times.source,
            ]
        )
        if analysis.pareto is not None:
            steps: list[list[object]] = []
            for point in analysis.pareto:
                size = "" if point.bytes is None else point.bytes
                steps.append([point.total, size, _ns(point.period, exact)])
            fronts += f"<p>{escape(name)}: memory against period</p>"
            fronts += table(["tokens", "bytes", "period"], steps)
    heading = ["app", "least period", "latency", "least buffers", "times"]
    return table(heading, rows) + fronts + diagnostics(result.diagnostics)


def profiled(result: Profiled) -> str:
    """The times of every task."""
    rows: list[list[object]] = []
    for e in result.entries:
        times = [_us(ns) for ns in (e.mean_ns, e.max_ns, e.wcet_ns)]
        rows.append([e.subject, e.implementation, e.processor, e.samples, *times])
    heading = ["task", "implementation", "on", "samples", "mean us", "max us", "wcet us"]
    heading_line = f"<p>{escape(result.profile.host)}; measured noise: {result.noise:.0%}</p>"
    return heading_line + table(heading, rows) + diagnostics(result.diagnostics)


def answer(result: Answer) -> str:
    """Places, with bounds if there are deadlines, else with the configurations that were
    compared."""
    mapping = result.mapping
    html = table(["task", "processors"], _places(mapping))
    bounds = ["schedulable", "response ms", "deadline ms", "longest seen ms"]
    if mapping.states:
        rows = []
        for state in mapping.states:
            rows += [[state.state, *_bound(group)] for group in state.groups]
        html += table(["state", "app", *bounds], rows)
    elif mapping.groups:
        html += table(["app", *bounds], [_bound(group) for group in mapping.groups])
    elif mapping.contestants:
        tried = []
        for c in mapping.contestants:
            times = _ms(c.predicted_ns), _ms(c.measured_ns)
            tried.append([c.name, c.configuration, *times, c.runs])
        unit = "mJ" if mapping.effort.objective == "energy" else "ms"  # energies are in nJ
        heading = ["contestant", "configuration", f"predicted {unit}", f"measured {unit}", "runs"]
        html += table(heading, tried) + f"<p>{escape(race_in_words(mapping))}</p>"
    return html + diagnostics(result.diagnostics)


def _places(mapping: Mapping) -> list[list[str]]:
    """The processors of tasks, of the stages of networks, and those in single states."""
    places = [[p.task, ", ".join(p.processors)] for p in mapping.placements]
    for network in mapping.networks:
        stages = [", ".join(stage.processors) for stage in network.stages]
        places.append([network.task, " | ".join(stages)])
    for state in mapping.states:
        for p in state.placements:
            places.append([f"{p.task} in {state.state}", ", ".join(p.processors)])
    return places


def _bound(group: GroupBound) -> list[str]:
    times = [_ms(ns) for ns in (group.response_ns, group.deadline_ns, group.seen_ns)]
    good = f"yes, if {group.supposed}" if group.supposed else "yes"
    return [group.app, good if group.schedulable else "no", *times]


def built(result: Built) -> str:
    """The program's directory, and the places in it."""
    places = [[p.task, ", ".join(p.processors)] for p in result.mapping.placements]
    unchanged = "" if result.fresh else " (unchanged)"
    heading_line = f"<p>{escape(str(result.directory))}{unchanged}</p>"
    return heading_line + table(["task", "processors"], places) + diagnostics(result.diagnostics)


def finishedrun(result: FinishedRun) -> str:
    """Frames, latencies and times of tasks, if the result holds the report; latencies beside their
    bounds."""
    html = f"<p>exit status {result.status}</p>"
    if result.disagreed:
        html += f"<pre>{escape(result.disagreed)}</pre>"
    if result.report is not None:
        html += _report(json.loads(result.report))
    if result.bounded:
        bounds = []
        for b in result.bounded:
            times = [_ms(ns) for ns in (b.bound_ns, b.longest_ns, b.deadline_ns)]
            bounds.append([b.name, *times])
        html += table(["latency of", "bound ms", "longest ms", "deadline ms"], bounds)
    if result.slower:
        slow = [[s.task, _us(s.mean_ns), _us(s.profile_ns)] for s in result.slower]
        html += table(["task", "mean us", "alone us"], slow)
    return html + diagnostics(result.built.diagnostics)


def _report(report: dict[str, Any]) -> str:
    """Frames and latencies of apps, and times of tasks."""
    apps = []
    for name, app in report["apps"].items():
        latency = [app["latency_ms"][k] for k in ("mean", "p50", "p99", "max")]
        apps.append([name, app["frames"], app["fps"], *latency, missed_of(app)])
    tasks = []
    for name, task in report["tasks"].items():
        times = [task["mean_us"], task["max_us"]]
        tasks.append([name, task["processor"], task["firings"], *times])
    latencies = ["latency ms: mean", "p50", "p99", "max"]
    return table(["app", "frames", "fps", *latencies, "missed"], apps) + table(
        ["task", "processor", "firings", "mean us", "max us"], tasks
    )


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
