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
from ...analysis.dataflow.static_order import OrderStep as StaticStep
from ...analysis.dataflow.static_order import Schedule, schedule
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors
from ...model.profile import Profile
from ...model.times import AppTimes, Times, times_of
from ...report.gantt import MOST_BARS, Bar, Chart
from ..build.accelerators import OnAccelerator, accelerator_reports
from ..plan.program import firing_means, places, uncut
from ..plan.states import with_stored
from ..text import store
from ..text.check import Checked, Valid, ValidScenario, check
from ..text.repeated_worst_cases import repeated_worst_cases


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
    reports: tuple[OnAccelerator, ...]
    diagnostics: tuple[Diagnostic, ...]

    def limits(self, *, seconds: float = 2.0) -> dict[str, Analysis]:
        """The least period of every app, and what determines it (see
        `analysis.dataflow.analyze.limits`)."""
        analyses = {}
        for app in self.valid.system.apps:
            verdicts, times = self.valid.verdicts[app.name], self.times.app(app)
            analyses[app.name] = limits(app, verdicts, times, seconds=seconds)
        return analyses

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
        planned = self.planned or Schedule({}, {})
        return _chart(app, self.valid, self.times.app_means(app), planned, iterations)


def look(path: str | Path, *, platform: str = "host", native: bool = False) -> Shown:
    """Everything that `show` draws, of the program in Python or of the `native` one. Raises
    Errors."""
    built = valid = check(path, platform=platform, native=native).require()
    if not valid.system.apps:
        raise Errors([Diagnostic("F215", "there is no app to draw", None)])
    profile, warnings = store.read_profile(valid)
    if isinstance(valid, ValidScenario):
        valid, unused = with_stored(valid)
        warnings = (*warnings, *unused)
    times = times_of(valid.system, valid.platform, profile)
    placements = places(valid, times, profile)
    processors = {p.task: p.processors for p in placements}
    if placements:
        processors |= _of_stages(valid)
    return Shown(
        valid,
        built,
        profile,
        times.on_mapping(placements, valid.platform),
        processors,
        accelerator_reports(valid.system, valid.platform),
        (*warnings, *repeated_worst_cases(valid, times)),
    )


def _of_stages(valid: Valid) -> dict[str, tuple[str, ...]]:
    """The processors of networks that are one task here, and stages on the board."""
    places = {}
    for name, plan in uncut(valid).items():
        processors: dict[str, None] = {}
        for stage in plan.stages:
            processors |= dict.fromkeys(stage.processors)
        places[name] = tuple(processors)
    return places


def charts(valid: Valid, times: Times, profile: Profile | None, *, iterations: int) -> list[Chart]:
    """Self-timed execution of each app alone, from the start; on the mapping once tasks are placed.

    Raises Errors.
    """
    planned = _planned(valid, times, profile) or Schedule({}, {})
    return [_chart(a, valid, times.app(a), planned, iterations) for a in valid.system.apps]


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
    texts: dict[str, dict[str, str]] = {a.name: {} for a in valid.system.apps}
    if planned is None:
        return texts
    for app in valid.system.apps:
        index = {t.name: i for i, t in enumerate(app.tasks)}
        names = [t.name.partition(".")[2] for t in app.tasks]
        for processor, steps in sorted(planned.orders.items()):
            own = [(index[s.task], s.times) for s in steps if s.app == app.name]
            loops = looped.folded(own)
            if loops:
                texts[app.name][processor] = looped.text(loops, names)
    return texts


def _chart(
    app: Application, valid: Valid, times: AppTimes, planned: Schedule, iterations: int
) -> Chart:
    """Self-timed execution of an app, in the planned order and with its capacities, if there are
    any. Raises Errors."""
    vector = valid.verdicts[app.name].repetition
    graph = graph_of(app, vector, times.ns)
    if planned.capacities:
        limited = {i: planned.capacities[c.name] for i, c in enumerate(app.channels)}
        graph = bounded(graph, limited)
    _require_drawable(app, sum(graph.firings) * iterations, iterations)
    index = {n: i for i, n in enumerate(graph.names)}
    lanes = {}
    for processor, steps in sorted(planned.orders.items()):
        sequence = _sequence(steps, app.name, index, vector, iterations)
        if sequence:
            lanes[processor] = sequence
    short = [n.partition(".")[2] for n in graph.names]
    names = list(lanes) or short
    bars = []
    releases = _releases(app, graph, iterations)
    for f in self_timed(graph, iterations, list(lanes.values()), releases):
        lane = names[f.processor] if f.processor >= 0 else short[f.task]
        iteration = f.index // graph.firings[f.task]
        start, end = float(graph.ns(f.start)), float(graph.ns(f.end))
        bars.append(Bar(lane, short[f.task], iteration, start, end))
    starts: list[float] = []
    if app.period_ns is not None:
        starts = [float(app.period_ns) * i for i in range(iterations)]
    on = "on the mapping" if lanes else "as many processors as tasks"
    title = f"{app.name}: {iterations} iterations, {on}"
    return Chart(title, tuple(names), tuple(bars), tuple(starts), times.unknown)


def _require_drawable(app: Application, firings: int, iterations: int) -> None:
    """Raises Errors if there are more firings than a chart can show."""
    if firings > MOST_BARS:
        message = f"{iterations} iterations of `{app.name}` have {firings} firings"
        help_text = f"draw fewer with --iterations; at most {MOST_BARS} firings fit"
        raise Errors([Diagnostic("F605", message, app.span, help=help_text)])


def _releases(app: Application, graph: Graph, iterations: int) -> dict[int, list[int]]:
    """A source of an app with a period is released evenly over each period."""
    if app.period_ns is None:
        return {}
    period = app.period_ns * graph.per_ns
    releases = {}
    for source in sources_and_sinks(graph)[0]:
        firings = graph.firings[source]
        releases[source] = [int(period * k / firings) for k in range(iterations * firings)]
    return releases


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
