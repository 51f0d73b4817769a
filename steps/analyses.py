"""The steps that ask what a graph can do: analysis, pictures of it, its exchange with other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

from ..analysis import looped
from ..analysis.analyze import Analysis, Times, execution_times, limits
from ..analysis.analyze import analyze as analyze_app
from ..analysis.buffers import Buffers, least_capacities
from ..analysis.check import check as check_app
from ..analysis.graph import Graph, bounded, graph_of
from ..analysis.latency import sources_and_sinks
from ..analysis.order import TooLong
from ..analysis.repetition import repetition
from ..analysis.selftimed import self_timed
from ..analysis.static_order import Schedule, schedule
from ..analysis.static_order import Step as StaticStep
from ..interop import sdf3
from ..model.application import Application
from ..model.diagnostic import Diagnostic, Faults, one_of
from ..model.profile import Profile
from ..model.system import System
from ..networks import parts
from ..networks.cuts import Chain, read_chain
from ..networks.dataflow import as_sdf
from ..networks.layers import Cnn
from ..networks.onnx_import import NetworkFault
from ..networks.onnx_layers import read_layers
from ..profiling.host import host_platform
from ..profiling.layers import LayerTimes, layer_times
from ..report.gantt import MOST_BARS, Bar, Chart
from . import Checked, Report, firing_times, map_system, stored_profile

#: Faults that are the verdicts of an analysis.
VERDICT_CODES = ("F203", "F204", "F211", "F216")


def analyze(
    checked: Checked,
    profile: Profile | None,
    *,
    overlap: bool = False,
    for_period: bool = False,
    pareto: bool = False,
    seconds: float = 10.0,
    report: Report | None = None,
    answered: Callable[[Application, Analysis], None] | None = None,
) -> dict[str, Analysis]:
    """What every app can do: period, latency, buffers, schedules (analysis.analyze). Raises Faults.

    Texts whose only faults are rates that do not balance, or deadlocks, are analysed as far as that goes. Times are
    those pinned for the platform, else declared, else stored in a profile; nothing is measured here. `answered` gets
    what is known of an app whenever there is an answer more.
    """
    if _broken(checked):
        raise Faults(checked.diagnostics)
    if not checked.system.apps:
        raise Faults([Diagnostic("F215", "there is no app to analyse", None, "", (), "add `app Name { ... }`")])
    times = worst_times(checked, profile)
    means = _mean_periods(checked, profile, overlap)
    found = {}
    for app in checked.system.apps:

        def tell(so_far: Analysis, app: Application = app) -> None:
            if answered is not None:
                answered(app, replace(so_far, mean_period=means.get(app.name)))

        answer = analyze_app(
            app,
            checked.verdicts[app.name],
            times[app.name],
            overlap=overlap,
            for_period=for_period,
            pareto=pareto,
            seconds=seconds,
            progress=report,
            answered=tell,
        )
        found[app.name] = replace(answer, mean_period=means.get(app.name))
    return found


def _mean_periods(checked: Checked, profile: Profile | None, overlap: bool) -> dict[str, Fraction | None]:
    """Least periods where every measured task takes its mean time: worst cases alone may be far from what happens."""
    if profile is None:
        return {}
    times = _times(checked, {e.subject: Fraction(e.mean_ns) for e in profile.entries})
    apps = [a for a in checked.system.apps if times[a.name].source == "profile"]
    return {
        a.name: limits(a, checked.verdicts[a.name], times[a.name], overlap=overlap, seconds=2.0).period for a in apps
    }


def worst_times(checked: Checked, profile: Profile | None) -> dict[str, Times]:
    """The worst-case times of every app's tasks, as far as they are known without measuring."""
    return _times(checked, {e.subject: Fraction(e.wcet_ns) for e in profile.entries} if profile else {})


def usable_profile(checked: Checked) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The stored profile of an app that was measured, and why it is not used.

    Networks on their own have none, and a faulty text may name code that does not exist.
    """
    alone = Path(checked.system.path).suffix == ".onnx"
    return (None, ()) if alone or _broken(checked) else stored_profile(checked)


def _broken(checked: Checked) -> bool:
    """True when a text has faults other than the verdicts of an analysis."""
    return any(d.severity == "error" and d.code not in VERDICT_CODES for d in checked.diagnostics)


def _times(checked: Checked, measured: dict[str, Fraction]) -> dict[str, Times]:
    assert checked.platform is not None
    pins = [p for p in checked.system.pins if p.platform == checked.platform.name]
    pinned = {p.task: p.wcet_ns for p in pins if p.wcet_ns is not None}
    return {app.name: execution_times(app, pinned, measured) for app in checked.system.apps}


def critical_cycles(checked: Checked, profile: Profile | None, *, seconds: float = 2.0) -> dict[str, Analysis]:
    """The least period of every app, and what dictates it (see `analysis.analyze.limits`)."""
    times = worst_times(checked, profile)
    return {a.name: limits(a, checked.verdicts[a.name], times[a.name], seconds=seconds) for a in checked.system.apps}


def export_sdf3(checked: Checked, profile: Profile | None, wanted: str | None) -> tuple[str, str]:
    """The name of an app, by default of the only one, and its graph as SDF3 XML. Raises Faults."""
    if not checked.ok:
        raise Faults(checked.diagnostics)
    apps = {a.name: a for a in checked.system.apps}
    if wanted is None and len(apps) == 1:
        wanted = next(iter(apps))
    if wanted is None or wanted not in apps:
        message = f"there is no app `{wanted}`" if wanted else "it is not clear which app to export"
        help_text = f"choose one with --app: {one_of(apps)}" if apps else "add `app Name { ... }`"
        raise Faults([Diagnostic("F215", message, None, "", (), help_text)])
    times = worst_times(checked, profile)[wanted]
    return wanted, sdf3.write(apps[wanted], {t: ns for t, ns in times.ns.items() if t not in times.guessed})


# -- networks as graphs ------------------------------------------------------------------------------------------------
def check_network(path: str | Path, *, by_parts: bool = False) -> Checked:
    """An ONNX network as an app of its own: a task per layer, a token per element of its data.

    `by_parts` lets every layer work through its data row by row (networks.parts). Raises Faults.
    """
    cnn = _layers(path)
    stem = Path(path).stem
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem) or "network"
    try:
        app = parts.by_parts(cnn, name) if by_parts else as_sdf(cnn, name)
    except NetworkFault as fault:
        raise Faults([_as_diagnostic(fault)]) from fault
    verdicts, diagnostics = check_app(app)
    system = System(stem, str(path), (app,), (), (), {})
    return Checked(system, host_platform(), {name: verdicts}, diagnostics)


def _layers(path: str | Path) -> Cnn:
    try:
        return read_layers(Path(path))
    except NetworkFault as fault:
        raise Faults([_as_diagnostic(fault)]) from fault


def _as_diagnostic(fault: NetworkFault) -> Diagnostic:
    return Diagnostic(fault.code, fault.message, None, "", (), fault.help)


@dataclass(frozen=True, slots=True)
class NetworkMemory:
    """Elements in the buffers between the layers of a network: each layer at once, by parts, and by Algorithm 4.

    Where Algorithm 4 does not apply, `algorithm4` is None and `reason` says why. `overlap` are the elements that it
    keeps in self-loops beside the buffers of the edges.
    """

    layerwise: int
    by_parts: int
    by_parts_proved: bool
    algorithm4: int | None
    overlap: int
    reason: str


def network_memory(path: str | Path) -> NetworkMemory:
    """Least buffers of a network in three ways of running it. Raises Faults."""
    cnn = _layers(path)
    ours = _least(parts.by_parts(cnn, "Net"))
    printed, overlap, reason = None, 0, ""
    try:
        app = parts.algorithm4(cnn, "Net")
    except parts.DoesNotApply as error:
        reason = str(error)
    else:
        least = _least(app)
        loops = {i for i, c in enumerate(app.channels) if c.source == c.destination}
        overlap = sum(n for c, n in least.capacities.items() if c in loops)
        printed = least.total
    return NetworkMemory(parts.layerwise_elements(cnn), ours.total, ours.proved, printed, overlap, reason)


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A place to cut a network: after `layer`; `share` of its work is done before.

    Work is multiplications, or measured time.
    """

    layer: str
    tensors: tuple[str, ...]
    bytes: int
    share: float


def network_cuts(path: str | Path) -> tuple[CutPoint, ...]:
    """Where a network can be cut into stages without parting what becomes one kernel. Raises Faults."""
    chain = _chain(path)
    return _cut_points(chain, {x.name: x.macs for x in chain.layers})


def measured_cuts(path: str | Path, seconds: float) -> tuple[tuple[CutPoint, ...], LayerTimes]:
    """The same by time on a CPU of this machine, and the times of the layers. Raises Faults."""
    chain = _chain(path)
    try:
        times = layer_times(Path(path), chain, seconds)
    except Exception as error:  # what ONNX Runtime raises has no common type
        said = str(error).strip().splitlines()[0]
        raise Faults([Diagnostic("F606", f"`{path}` does not run: {said}", None)]) from error
    return _cut_points(chain, times.mean_ns), times


def _chain(path: str | Path) -> Chain:
    try:
        return read_chain(Path(path))
    except NetworkFault as fault:
        raise Faults([Diagnostic(fault.code, fault.message, None, "", (), fault.help)]) from fault


def _cut_points(chain: Chain, work: Mapping[str, float]) -> tuple[CutPoint, ...]:
    done = list(accumulate(work[x.name] for x in chain.layers))
    return tuple(
        CutPoint(c.layer, c.tensors, c.bytes, done[c.after] / done[-1] if done[-1] else 0.0)
        for c in chain.cuts()
        if not chain.fused(c.after)
    )


def _least(app: Application) -> Buffers:
    return least_capacities(graph_of(app, repetition(app).vector, overlap=True))


# -- pictures ----------------------------------------------------------------------------------------------------------
def charts(checked: Checked, profile: Profile | None, *, iterations: int) -> list[Chart]:
    """Self-timed execution of every app on its own, from the start; on the mapping once a profile is stored.

    Raises Faults.
    """
    assert checked.platform is not None
    times = worst_times(checked, profile)
    planned = _planned(checked, profile)
    orders, capacities = (planned.orders, planned.capacities) if planned is not None else ({}, {})
    return [_chart(a, checked, times[a.name], orders, capacities, iterations) for a in checked.system.apps]


def _planned(checked: Checked, profile: Profile | None) -> Schedule | None:
    """Who fires what in which order, each app on its own, once a profile is stored; None where that is too long."""
    if profile is None:
        return None
    places = {p.task: p.processors for p in map_system(checked, profile).placements}
    vectors = {name: v.repetition for name, v in checked.verdicts.items()}
    known = firing_times(checked, profile)
    orders: dict[str, tuple[StaticStep, ...]] = {}
    capacities: dict[str, int] = {}
    try:
        for app in checked.system.apps:
            alone = schedule([app], vectors, places, known)
            capacities.update(alone.capacities)
            for processor, steps in alone.orders.items():
                orders[processor] = orders.get(processor, ()) + steps
    except TooLong:
        return None
    return Schedule(orders, capacities)


def processor_schedules(checked: Checked, profile: Profile | None) -> dict[str, dict[str, str]]:
    """The static order of every processor in loop notation, by app and processor; empty without a stored profile.

    One round in a steady state: after the processors' pipeline has filled. Raises Faults.
    """
    planned = _planned(checked, profile) if checked.ok else None
    found: dict[str, dict[str, str]] = {a.name: {} for a in checked.system.apps}
    if planned is None:
        return found
    for app in checked.system.apps:
        index = {t.name: i for i, t in enumerate(app.tasks)}
        names = [t.name.partition(".")[2] for t in app.tasks]
        for processor, steps in sorted(planned.orders.items()):
            loops = looped.folded([(index[s.task], s.times) for s in steps if s.app == app.name])
            if loops:
                found[app.name][processor] = looped.text(loops, names)
    return found


def _chart(
    app: Application,
    checked: Checked,
    times: Times,
    orders: dict[str, tuple[StaticStep, ...]],
    capacities: dict[str, int],
    iterations: int,
) -> Chart:
    graph = graph_of(app, checked.verdicts[app.name].repetition, times.ns)
    if capacities:
        graph = bounded(graph, {i: capacities[c.name] for i, c in enumerate(app.channels)})
    if sum(graph.firings) * iterations > MOST_BARS:
        message = f"{iterations} iterations of `{app.name}` have {sum(graph.firings) * iterations} firings"
        help_text = f"draw fewer with --iterations; at most {MOST_BARS} firings fit"
        raise Faults([Diagnostic("F605", message, app.span, "", (), help_text)])
    index = {n: i for i, n in enumerate(graph.names)}
    vector = checked.verdicts[app.name].repetition
    lanes = {p: _sequence(steps, app.name, index, vector, iterations) for p, steps in orders.items()}
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
        for f in self_timed(graph, iterations, list(lanes.values()), _releases(app, graph, iterations))
    )
    starts = [float(app.period_ns) * i for i in range(iterations)] if app.period_ns is not None else []
    on = "on the mapping" if lanes else "as many processors as tasks"
    unit = len(times.guessed) == len(app.tasks)
    return Chart(f"{app.name}: {iterations} iterations, {on}", tuple(names), bars, tuple(starts), unit)


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
    steps: tuple[StaticStep, ...], app: str, index: dict[str, int], vector: dict[str, int], iterations: int
) -> list[tuple[int, int]]:
    """The firings of one processor over some iterations: rounds, each stage as many iterations behind."""
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
