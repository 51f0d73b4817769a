"""The verb `analyze`: properties of a graph, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._common import (
    Json,
    OnPlatform,
    Places,
    Shapes,
    TextOrNetwork,
    print_json,
    progress,
    show_diagnostics,
    with_shapes,
)
from ._graphs import graph_tables
from ._groups import grouped
from ._scenario import states_in_table
from ._tables import band_table, cut_table, cycle_tasks, in_tensorrt, network_table, table, windows
from ._variants import variants_table

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis, Capacities, PathLatency
    from ..driver.show.analyze import Analyzed
    from ..driver.show.mapped_network import MappedGraph
    from ..driver.show.networks import NetworkMemory
    from ..model.application import Application


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """What is analyzed beside period, latency and verdicts, and how."""

    buffers: Annotated[
        bool,
        typer.Option(
            "--buffers", help="Also the least capacities that keep the period, channel by channel."
        ),
    ] = False
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Also the whole trade-off of memory against period.")
    ] = False
    overlap: Annotated[
        bool,
        typer.Option(
            "--auto-concurrency", help="Let firings of the same task overlap, as SDF3 does."
        ),
    ] = False
    by_parts: Annotated[
        bool,
        typer.Option(
            "--by-parts", help="Of a network: every layer works through its rows one by one."
        ),
    ] = False
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help=(
                "Of a network: memory between its layers against time, in bands of rows; with"
                " --by-parts also the "
                "genetic search of Minakova's thesis, for comparison."
            ),
        ),
    ] = False
    cuts: Annotated[
        bool,
        typer.Option(
            "--cuts", help="Of a network: the layers after which a pin may cut it into stages."
        ),
    ] = False
    csdf: Annotated[
        bool,
        typer.Option(
            "--csdf",
            help="Of a network: its actors, phases and channels; with --places, on processors.",
        ),
    ] = False
    places: Places = None
    seconds: Annotated[
        float,
        typer.Option(help="Time for each search; after it the best so far is printed.", min=0.1),
    ] = 10.0
    looks: Annotated[
        int | None,
        typer.Option(
            help=(
                "With --memory --by-parts: how many chromosomes the genetic search looks at,"
                " instead of its time."
            ),
            min=2,
            metavar="N",
            show_default=False,
        ),
    ] = None
    population: Annotated[
        int, typer.Option(help="The same: chromosomes of a generation.", min=2, metavar="N")
    ] = 100
    platform: OnPlatform = "host"
    shape: Shapes = None

    @property
    def for_networks(self) -> list[str]:
        """The given options that only .onnx files have."""
        chosen = {
            "--by-parts": self.by_parts,
            "--cuts": self.cuts,
            "--memory": self.memory,
            "--csdf": self.csdf,
            "--places": self.places is not None,
            "--looks": self.looks is not None,
        }
        return [name for name, is_given in chosen.items() if is_given]


@grouped
def analyze(file: TextOrNetwork, options: AnalysisOptions, as_json: Json = False) -> int:
    """Prove what a graph can do: period, latency, buffers, schedules. Runs no code of the text."""
    is_network = file.suffix == ".onnx"
    file = with_shapes(file, options.shape)
    if options.looks is not None and not (options.memory and options.by_parts):
        message = "it is for the genetic search of `--memory --by-parts`"
        raise typer.BadParameter(message, param_hint="--looks")
    if options.memory and is_network:
        return _bands(file, options, as_json)
    if options.cuts and is_network:
        return _list_cuts(file, as_json)
    if file.suffix == ".xml":
        raise typer.BadParameter(f"import it first: flowc import {file}", param_hint="APP.flow")
    if options.for_networks and not is_network:
        raise typer.BadParameter("it is for .onnx files", param_hint=options.for_networks[0])
    if options.by_parts and (options.csdf or options.places is not None):
        message = "a layer by parts has phases of its own: leave `--csdf` and `--places` out"
        raise typer.BadParameter(message, param_hint="--by-parts")
    return _analyze(file, options, as_json)


def _analyze(file: Path, options: AnalysisOptions, as_json: bool) -> int:
    """Analyze the apps of a text, or a network as an app of its layers."""
    from ..driver.show.analyze import analyze as driver_analyze
    from ..driver.show.mapped_network import mapped_graphs
    from ..driver.show.networks import network_memory

    analyzed = driver_analyze(
        file,
        platform=options.platform,
        overlap=options.overlap,
        for_period=options.buffers,
        pareto=options.pareto,
        by_parts=options.by_parts,
        places=options.places,
        seconds=options.seconds,
        report=progress,
        noticed=lambda diagnostics, checked: show_diagnostics(diagnostics, checked.system.sources),
        answered=None if as_json else _GrowingTables(options.buffers),
    )
    memory = network_memory(file) if options.by_parts else None
    graphs = mapped_graphs(file, options.places) if options.csdf else ()
    if as_json:
        print_json(_document(analyzed, memory) | _graphs(graphs))
    elif graphs:
        print(f"\n{graph_tables(graphs)}")
    elif memory is not None:
        print(f"\n{network_table(memory)}")
    else:
        _print_states_and_variants(analyzed)
    return 1 if analyzed.refused else 0


class _GrowingTables:
    """Prints the results of each app as they arrive: each time the lines that are new."""

    def __init__(self, buffers: bool) -> None:
        self._buffers = buffers
        self._printed: dict[str, int] = {}

    def __call__(self, app: Application, so_far: Analysis, orders: dict[str, str]) -> None:
        lines = table(app, so_far, orders, self._buffers)
        if self._printed and app.name not in self._printed:
            print()
        for line in lines[self._printed.get(app.name, 0) :]:
            print(line, flush=True)
        self._printed[app.name] = len(lines)


def _print_states_and_variants(analyzed: Analyzed) -> None:
    if analyzed.states:
        print(f"\n{states_in_table(analyzed)}")
    for comparison in analyzed.alternatives:
        print(f"\n{variants_table(comparison)}")


def _list_cuts(file: Path, as_json: bool) -> int:
    from ..driver.show.networks import network_cuts

    points = network_cuts(file)
    if as_json:
        print_json({"cuts": [asdict(p) for p in points]})
    else:
        print(cut_table(points))
    return 0


def _bands(file: Path, options: AnalysisOptions, as_json: bool) -> int:
    from ..driver.build.engine_memory import memory_of_file, sizes_of
    from ..driver.show.networks import GeneticSearch, network_bands, network_by_thesis

    genetic = GeneticSearch(options.seconds, options.looks, options.population)
    thesis = network_by_thesis(file, genetic if options.by_parts else None)
    bands = network_bands(file)
    engine = memory_of_file(file, sizes_of(file))
    if as_json:
        whole = asdict(bands.whole) | {"proved": bands.whole.proved}
        document = asdict(bands) | {"whole": whole, "minakova": asdict(thesis)}
        print_json(document if engine is None else {**document, "tensorrt": asdict(engine)})
    else:
        print(band_table(bands, thesis))
        if engine is not None:
            print(f"\n{in_tensorrt(engine)}")
    return 0


# -- JSON ------------------------------------------------------------------------------------------
def _document(analyzed: Analyzed, memory: NetworkMemory | None) -> dict[str, Any]:
    apps = {}
    for app in analyzed.checked.system.apps:
        orders = {"processors": analyzed.orders[app.name]}
        apps[app.name] = _data(analyzed.apps[app.name]) | orders | windows(app)
    document: dict[str, Any] = {"apps": apps}
    if analyzed.states:
        document["states"] = {
            name: {app: _data(answer) for app, answer in own.items()}
            for name, own in analyzed.states.items()
        }
    if analyzed.alternatives:
        document["variants"] = [asdict(comparison) for comparison in analyzed.alternatives]
    if memory is not None:
        document["memory"] = _memory(memory)
    return document


def _graphs(graphs: Iterable[MappedGraph]) -> dict[str, Any]:
    """The graphs of `--csdf` by the rules of their phases, if there are any."""
    found = {g.rule: asdict(g) | {"period_ns": _exact(g.period_ns)} for g in graphs}
    return {"csdf": found} if found else {}


def _data(analysis: Analysis) -> dict[str, Any]:
    looped: dict[str, Any] | None = None
    if analysis.looped_schedule is not None:
        looped = {"text": analysis.looped_schedule.text, "total": analysis.looped_schedule.total}
    return {
        "consistent": analysis.verdicts.consistent.holds,
        "deadlock_free": analysis.verdicts.deadlock_free.holds,
        "repetition": analysis.verdicts.repetition,
        "period": _exact(analysis.period),
        "period_lower_bound": _exact(analysis.period_lower),
        "period_on_any_mapping": _exact(analysis.mapping_lower),
        "period_at_mean_times": _exact(analysis.mean_period),
        "critical_cycle": cycle_tasks(analysis.critical_cycle),
        "critical_channels": list(
            dict.fromkeys(h.channel for h in analysis.critical_cycle if h.channel)
        ),
        "latency": _exact(analysis.latency),
        "latency_at_period": _exact(analysis.latency_period),
        "latency_on_any_mapping": _exact(analysis.latency_lower),
        "paths": [_path(path) for path in analysis.paths],
        "min_buffers": _capacities(analysis.least_buffers),
        "period_buffers": _capacities(analysis.period_buffers),
        **_pareto(analysis),
        "schedule": None if analysis.schedule is None else analysis.schedule.text,
        "looped_schedule": looped,
        "times_from": analysis.times.source,
        "unit_times": list(analysis.times.guessed),
        "cut": analysis.cut,
    }


def _pareto(analysis: Analysis) -> dict[str, Any]:
    """The trade-off of memory against period, if it was requested."""
    if analysis.pareto is None:
        return {"pareto": None, "pareto_complete": None}
    points = [_capacities(point) for point in analysis.pareto]
    return {"pareto": points, "pareto_complete": analysis.pareto_complete}


def _path(path: PathLatency) -> dict[str, Any]:
    return {
        "source": path.source,
        "task": path.sink,
        "latency": _exact(path.latency),
        "latency_on_any_mapping": _exact(path.lower),
        "deadline": _exact(path.deadline),
    }


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _capacities(capacities: Capacities | None) -> dict[str, Any] | None:
    if capacities is None:
        return None
    return {
        "period": _exact(capacities.period),
        "period_proved": capacities.exact,
        "total": capacities.total,
        "bytes": capacities.bytes,
        "minimized": "tokens" if capacities.bytes is None else "bytes",
        "lower_bound": capacities.lower,
        "proved": capacities.proved,
        "channels": capacities.channels,
    }


def _memory(memory: NetworkMemory) -> dict[str, Any]:
    return {
        "layer_by_layer": memory.layerwise,
        "by_parts": memory.by_parts,
        "by_parts_proved": memory.by_parts_proved,
        "algorithm4": memory.algorithm4,
        "algorithm4_overlap": memory.overlap,
        "algorithm4_does_not_apply": memory.reason or None,
    }
