"""The verb `show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import Json, OnPlatform, Text, in_full, print_json, show_diagnostics
from ._tables import on_dla

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis
    from ..report.graph import Critical


def show(
    file: Text,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Picture to write: .svg or .png (default: STEM.svg).",
            show_default=False,
        ),
    ] = None,
    gantt: Annotated[
        bool, typer.Option("--gantt", help="Draw the firings over time instead of the graph.")
    ] = False,
    scenario: Annotated[
        bool, typer.Option("--scenario", help="Draw the states of a scenario instead.")
    ] = False,
    iterations: Annotated[int, typer.Option(help="Iterations of a Gantt chart.", min=1)] = 3,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Draw the graph with its critical cycle, firings, or states.

    Once a profile is stored, colors say what runs where.
    """
    from ..driver.show.show import look
    from ..model.diagnostic import Diagnostic, Errors
    from ..model.extras import require
    from ..report import gantt as chart
    from ..report.graph import TooLarge, draw
    from ..report.machine import draw_machine

    require("matplotlib", "plots", "`flowc show`")
    shown = look(file, platform=platform)
    machine = shown.valid.system.scenario if scenario else None
    if scenario and machine is None:
        help_text = "write `scenario Name { initial state one { run App } }`"
        raise Errors([Diagnostic("F605", "there is no scenario to draw", None, help=help_text)])
    ending = ".scenario" if scenario else ".gantt" if gantt else ""
    target = output or Path(f"{shown.valid.system.stem}{ending}.svg")
    if target.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter(
            "the picture must end in .svg, .png or .pdf", param_hint="--output"
        )
    show_diagnostics(shown.diagnostics, {})
    try:
        if machine is not None:
            draw_machine(machine, target)
        elif gantt:
            chart.draw(shown.charts(iterations=iterations), target)
        else:
            notes = {r.network: f"{r.legal} of {r.layers} layers on a DLA" for r in shown.reports}
            draw(shown.valid.system, target, shown.places, _critical(shown.limits()), notes)
    except TooLarge as error:
        raise Errors([Diagnostic("F605", str(error), None, help="draw a smaller app")]) from error
    if as_json:
        print_json({"picture": str(target), "tasks": {t: list(p) for t, p in shown.places.items()}})
    else:
        print(in_full(target))
        for report in shown.reports:
            print(f"\n{on_dla(report)}")
    return 0


def _critical(found: Mapping[str, Analysis]) -> dict[str, Critical]:
    """What determines each period, for the picture."""
    from ..report.graph import Critical
    from ._tables import cycle, period

    marks = {}
    for name, a in found.items():
        if a.critical_cycle:
            tasks = frozenset(h.task for h in a.critical_cycle)
            channels = frozenset(h.channel for h in a.critical_cycle if h.channel)
            unknown = "no times are known, every firing counts 1: " if a.times.unknown else ""
            marks[name] = Critical(
                tasks, channels, f"{unknown}least period {period(a)}; {cycle(a, most=90)}"
            )
    return marks
