"""The verb `analyze`: properties of a graph, as a table or as JSON."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._common import Json, OnPlatform, TextOrNetwork, print_json, progress, show_diagnostics
from ._scenario import states_in_table
from ._tables import band_table, cut_table, cycle_tasks, network_table, table, windows
from ._variants import variants_table

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis, Capacities
    from ..driver.show.networks import CutPoint, NetworkMemory
    from ..driver.text.check import Checked
    from ..model.application import Application
    from ..model.diagnostic import Diagnostic
    from ..networks.bands.compare import Comparison
    from ..networks.dataflow.reduced import Reduction


def analyze(
    file: TextOrNetwork,
    buffers: Annotated[
        bool,
        typer.Option(
            "--buffers", help="Also the least capacities that keep the period, channel by channel."
        ),
    ] = False,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Also the whole trade-off of memory against period.")
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option(
            "--auto-concurrency", help="Let firings of the same task overlap, as SDF3 does."
        ),
    ] = False,
    by_parts: Annotated[
        bool,
        typer.Option(
            "--by-parts", help="Of a network: every layer works through its rows one by one."
        ),
    ] = False,
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
    ] = False,
    cuts: Annotated[
        bool,
        typer.Option(
            "--cuts", help="Of a network: the layers after which a pin may cut it into stages."
        ),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(help="Time for each search; after it the best so far is printed.", min=0.1),
    ] = 10.0,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Prove what a graph can do: period, latency, buffers, schedules. Runs no code of the text."""
    from ..driver.show.analyze import analyze as driver_analyze
    from ..driver.show.networks import (
        network_bands,
        network_by_thesis,
        network_cuts,
        network_memory,
    )

    if memory and file.suffix == ".onnx":
        found_by_thesis = network_by_thesis(file, seconds if by_parts else None)
        return _bands(network_bands(file), found_by_thesis, as_json)
    if cuts and file.suffix == ".onnx":
        return _list_cuts(network_cuts(file), as_json)
    if file.suffix == ".xml":
        raise typer.BadParameter(f"import it first: flowc import {file}", param_hint="APP.flow")
    alone = {"--by-parts": by_parts, "--cuts": cuts, "--memory": memory}
    if any(alone.values()) and file.suffix != ".onnx":
        hint = next(name for name, given in alone.items() if given)
        raise typer.BadParameter("it is for .onnx files", param_hint=hint)
    printed: dict[str, int] = {}

    def tell(app: Application, so_far: Analysis, orders: dict[str, str]) -> None:
        """Print the answers as they arrive."""
        lines = table(app, so_far, orders, buffers)
        if printed and app.name not in printed:
            print()
        for line in lines[printed.get(app.name, 0) :]:
            print(line, flush=True)
        printed[app.name] = len(lines)

    def notice(diagnostics: tuple[Diagnostic, ...], checked: Checked) -> None:
        show_diagnostics(diagnostics, checked.system.sources)

    found = driver_analyze(
        file,
        platform=platform,
        overlap=overlap,
        for_period=buffers,
        pareto=pareto,
        by_parts=by_parts,
        seconds=seconds,
        report=progress,
        noticed=notice,
        answered=None if as_json else tell,
    )
    elements = network_memory(file) if by_parts else None
    if as_json:
        document: dict[str, Any] = {
            "apps": {
                a.name: _data(found.apps[a.name])
                | {"processors": found.orders[a.name]}
                | windows(a)
                for a in found.checked.system.apps
            }
        }
        if found.states:
            document["states"] = {
                name: {app: _data(answer) for app, answer in own.items()}
                for name, own in found.states.items()
            }
        document |= (
            {"variants": [asdict(c) for c in found.alternatives]} if found.alternatives else {}
        )
        print_json(document | ({"memory": _memory(elements)} if elements is not None else {}))
    elif elements is not None:
        print(f"\n{network_table(elements)}")
    else:
        more = [states_in_table(found)] if found.states else []
        print(
            "".join(f"\n{text}\n" for text in (*more, *map(variants_table, found.alternatives))),
            end="",
        )
    return 1 if found.refused else 0


def _list_cuts(points: tuple[CutPoint, ...], as_json: bool) -> int:
    if as_json:
        print_json({"cuts": [asdict(p) for p in points]})
    else:
        print(cut_table(points))
    return 0


def _bands(found: Comparison, thesis: Reduction, as_json: bool) -> int:
    if as_json:
        whole = asdict(found.whole) | {"proved": found.whole.proved}
        print_json(asdict(found) | {"whole": whole, "minakova": asdict(thesis)})
    else:
        print(band_table(found, thesis))
    return 0


# -- JSON ------------------------------------------------------------------------------------------
def _data(a: Analysis) -> dict[str, Any]:
    return {
        "consistent": a.verdicts.consistent.holds,
        "deadlock_free": a.verdicts.deadlock_free.holds,
        "repetition": a.verdicts.repetition,
        "period": _exact(a.period),
        "period_lower_bound": _exact(a.period_lower),
        "period_on_any_mapping": _exact(a.mapping_lower),
        "period_at_mean_times": _exact(a.mean_period),
        "critical_cycle": cycle_tasks(a.critical_cycle),
        "critical_channels": list(dict.fromkeys(h.channel for h in a.critical_cycle if h.channel)),
        "latency": _exact(a.latency),
        "latency_at_period": _exact(a.latency_period),
        "latency_on_any_mapping": _exact(a.latency_lower),
        "paths": [
            {
                "source": p.source,
                "task": p.sink,
                "latency": _exact(p.latency),
                "latency_on_any_mapping": _exact(p.lower),
                "deadline": _exact(p.deadline),
            }
            for p in a.paths
        ],
        "min_buffers": _capacities(a.least_buffers),
        "period_buffers": _capacities(a.period_buffers),
        "pareto": None if a.pareto is None else [_capacities(p) for p in a.pareto],
        "pareto_complete": None if a.pareto is None else a.pareto_complete,
        "schedule": None if a.schedule is None else a.schedule.text,
        "looped_schedule": None
        if a.looped_schedule is None
        else {"text": a.looped_schedule.text, "total": a.looped_schedule.total},
        "times_from": a.times.source,
        "unit_times": list(a.times.guessed),
        "cut": a.cut,
    }


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _capacities(c: Capacities | None) -> dict[str, Any] | None:
    if c is None:
        return None
    return {
        "period": _exact(c.period),
        "period_proved": c.exact,
        "total": c.total,
        "bytes": c.bytes,
        "minimized": "tokens" if c.bytes is None else "bytes",
        "lower_bound": c.lower,
        "proved": c.proved,
        "channels": c.channels,
    }


def _memory(m: NetworkMemory) -> dict[str, Any]:
    return {
        "layer_by_layer": m.layerwise,
        "by_parts": m.by_parts,
        "by_parts_proved": m.by_parts_proved,
        "algorithm4": m.algorithm4,
        "algorithm4_overlap": m.overlap,
        "algorithm4_does_not_apply": m.reason or None,
    }
