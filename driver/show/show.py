"""Pictures of a text: its graphs, and their execution over time; and the data for both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...analysis.dataflow import looped
from ...analysis.dataflow.analyze import Analysis, limits
from ...analysis.dataflow.graph import Graph, bounded, graph_of
from ...analysis.dataflow.latency import sources_and_sinks
from ...analysis.dataflow.order import TooLong
from ...analysis.dataflow.self_timed import self_timed
from ...analysis.dataflow.static_order import Schedule, schedule
from ...analysis.dataflow.static_order import Step as StaticStep
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors
from ...model.profile import Profile
from ...model.times import AppTimes, Times, times_of
from ...report.gantt import MOST_BARS, Bar, Chart
from ..build.dla import OnDla, dla_reports
from ..plan.program import firing_means, places, uncut
from ..plan.states import with_stored
from ..text import store
from ..text.check import Checked, Valid, ValidScenario, check


@dataclass(frozen=True)
class Shown:
    """The data for pictures of a text.

    `built` is the text as builds take it, before the common places of all states were pinned.
    `places` are the processors of tasks, once a profile or a mapping is stored; `limits` the least
    period of every app and what determines it. `diagnostics` come from collecting the data.
    """

    valid: Valid
    built: Valid
    profile: Profile | None
    times: Times
    places: dict[str, tuple[str, ...]]
    reports: tuple[OnDla, ...]
    diagnostics: tuple[Diagnostic, ...]

    def limits(self, *, seconds: float = 2.0) -> dict[str, Analysis]:
        """The least period of every app, and what determines it (see
        `analysis.dataflow.analyze.limits`)."""
        apps = self.valid.system.apps
        return {
            a.name: limits(a, self.valid.verdicts[a.name], self.times.app(a), seconds=seconds)
            for a in apps
        }

    def charts(self, *, iterations: int) -> list[Chart]:
        """Self-timed execution of every app. Raises Errors."""
        return charts(self.valid, self.times, self.profile, iterations=iterations)

    @cached_property
    def planned(self) -> Schedule | None:
        """The order of firings on each processor, for each app alone; None if nothing is placed, or
        that is too long."""
        return _planned(self.valid, self.times, self.profile)

    def at_mean_times(self, app: Application, *, iterations: int) -> Chart:
        """Self-timed execution of an app, with the mean time of every measured task."""
        orders, capacities = (
            (self.planned.orders, self.planned.capacities) if self.planned is not None else ({}, {})
        )
        return _chart(app, self.valid, self.times.app_means(app), orders, capacities, iterations)


def look(path: str | Path, *, platform: str = "host") -> Shown:
    """Everything that `show` draws. Raises Errors."""
    built = valid = check(path, platform=platform).require()
    if not valid.system.apps:
        raise Errors([Diagnostic("F215", "there is no app to draw", None)])
    profile, told = store.read_profile(valid)
    if isinstance(valid, ValidScenario):
        valid, unused = with_stored(valid)
        told = (*told, *unused)
    times = times_of(valid.system, valid.platform, profile)
    placements = places(valid, times, profile)
    return Shown(
        valid,
        built,
        profile,
        times.on_mapping(placements, valid.platform),
        {p.task: p.processors for p in placements} | (_of_stages(valid) if placements else {}),
        dla_reports(valid.system, valid.platform),
        told,
    )


def _of_stages(valid: Valid) -> dict[str, tuple[str, ...]]:
    """The processors of networks that are one task here, and stages on the board."""
    return {
        n: tuple(dict.fromkeys(p for s in plan.stages for p in s.processors))
        for n, plan in uncut(valid).items()
    }


def charts(valid: Valid, times: Times, profile: Profile | None, *, iterations: int) -> list[Chart]:
    """Self-timed execution of each app alone, from the start; on the mapping once tasks are placed.

    Raises Errors.
    """
    planned = _planned(valid, times, profile)
    orders, capacities = (planned.orders, planned.capacities) if planned is not None else ({}, {})
    return [
        _chart(a, valid, times.app(a), orders, capacities, iterations) for a in valid.system.apps
    ]


def _planned(valid: Valid, times: Times, profile: Profile | None) -> Schedule | None:
    """The order of firings on each processor, for each app alone; None if that is too long, or
    nothing is placed."""
    placed = {p.task: p.processors for p in places(valid, times, profile)}
    if not placed:
        return None
    known = firing_means(valid, times, valid.mapping)
    orders: dict[str, tuple[StaticStep, ...]] = {}
    capacities: dict[str, int] = {}
    try:
        for app in valid.system.apps:
            alone = schedule([app], valid.repetition, placed, known)
            capacities.update(alone.capacities)
            for processor, steps in alone.orders.items():
                orders[processor] = orders.get(processor, ()) + steps
    except TooLong:
        return None
    return Schedule(orders, capacities)


def processor_schedules(
    checked: Checked, valid: Valid, times: Times, profile: Profile | None
) -> dict[str, dict[str, str]]:
    """The static order of every processor in loop notation, by app and processor; empty without a
    stored profile.

    One round in a steady state: after the processors' pipeline has filled.
    """
    planned = _planned(valid, times, profile) if checked.ok else None
    found: dict[str, dict[str, str]] = {a.name: {} for a in valid.system.apps}
    if planned is None:
        return found
    for app in valid.system.apps:
        index = {t.name: i for i, t in enumerate(app.tasks)}
        names = [t.name.partition(".")[2] for t in app.tasks]
        for processor, steps in sorted(planned.orders.items()):
            loops = looped.folded([(index[s.task], s.times) for s in steps if s.app == app.name])
            if loops:
                found[app.name][processor] = looped.text(loops, names)
    return found


def _chart(
    app: Application,
    valid: Valid,
    times: AppTimes,
    orders: dict[str, tuple[StaticStep, ...]],
    capacities: dict[str, int],
    iterations: int,
) -> Chart:
    graph = graph_of(app, valid.verdicts[app.name].repetition, times.ns)
    if capacities:
        graph = bounded(graph, {i: capacities[c.name] for i, c in enumerate(app.channels)})
    if sum(graph.firings) * iterations > MOST_BARS:
        message = (
            f"{iterations} iterations of `{app.name}` have {sum(graph.firings) * iterations}"
            " firings"
        )
        help_text = f"draw fewer with --iterations; at most {MOST_BARS} firings fit"
        raise Errors([Diagnostic("F605", message, app.span, help=help_text)])
    index = {n: i for i, n in enumerate(graph.names)}
    vector = valid.verdicts[app.name].repetition
    lanes = {
        p: _sequence(steps, app.name, index, vector, iterations) for p, steps in orders.items()
    }
    lanes = {p: sequence for p, sequence in sorted(lanes.items()) if sequence}
    short = [n.partition(".")[2] for n in graph.names]
    names = list(lanes) or short
    bars = tuple(
        Bar(
            names[f.processor] if f.processor >= 0 else short[f.task],
            short[f.task],
            f.index // graph.firings[f.task],
            float(graph.ns(f.start)),
            float(graph.ns(f.end)),
        )
        for f in self_timed(
            graph, iterations, list(lanes.values()), _releases(app, graph, iterations)
        )
    )
    starts = (
        [float(app.period_ns) * i for i in range(iterations)] if app.period_ns is not None else []
    )
    on = "on the mapping" if lanes else "as many processors as tasks"
    unit = times.unknown
    return Chart(
        f"{app.name}: {iterations} iterations, {on}", tuple(names), bars, tuple(starts), unit
    )


def _releases(app: Application, graph: Graph, iterations: int) -> dict[int, list[int]]:
    """A source of an app with a period is released evenly over each period."""
    if app.period_ns is None:
        return {}
    period = app.period_ns * graph.per_ns
    return {
        t: [int(period * k / graph.firings[t]) for k in range(iterations * graph.firings[t])]
        for t in sources_and_sinks(graph)[0]
    }


def _sequence(
    steps: tuple[StaticStep, ...],
    app: str,
    index: dict[str, int],
    vector: dict[str, int],
    iterations: int,
) -> list[tuple[int, int]]:
    """The firings of one processor over some iterations: rounds, each stage as many iterations
    behind."""
    mine = [s for s in steps if s.app == app]
    if not mine:
        return []
    sequence: list[tuple[int, int]] = []
    for number in range(iterations + max(s.stage for s in mine) + 1):
        for s in mine:
            iteration = number * s.per_round + s.index - s.stage
            if 0 <= iteration < iterations and iteration % s.replicas == s.replica:
                first = iteration * vector[s.task] + s.first
                sequence += [(index[s.task], first + k) for k in range(s.times)]
    return sequence
