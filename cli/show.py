"""The verb `show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ._common import Json, OnPlatform, Text, in_full, print_json, show_diagnostics
from ._tables import on_accelerator

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis
    from ..driver.show.show import Shown
    from ..report.graph import CriticalPart

#: What a picture can show.
Subject = Literal["graph", "gantt", "scenario"]


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
    from ..report.graph import TooManyTasks

    require("matplotlib", "plots", "`flowc show`")
    shown = look(file, platform=platform)
    if scenario and shown.valid.system.scenario is None:
        help_text = "write `scenario Name { initial state one { run App } }`"
        raise Errors([Diagnostic("F605", "there is no scenario to draw", None, help=help_text)])
    subject: Subject = "graph"
    if scenario:
        subject = "scenario"
    elif gantt:
        subject = "gantt"
    ending = "" if subject == "graph" else f".{subject}"
    target = output or Path(f"{shown.valid.system.stem}{ending}.svg")
    if target.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter(
            "the picture must end in .svg, .png or .pdf", param_hint="--output"
        )
    show_diagnostics(shown.diagnostics, {})
    try:
        _draw(shown, subject, target, iterations)
    except TooManyTasks as error:
        raise Errors([Diagnostic("F605", str(error), None, help="draw a smaller app")]) from error
    if as_json:
        print_json({"picture": str(target), "tasks": {t: list(p) for t, p in shown.places.items()}})
    else:
        print(in_full(target))
        for report in shown.reports:
            print(f"\n{on_accelerator(report)}")
    return 0


def _draw(shown: Shown, subject: Subject, target: Path, iterations: int) -> None:
    """Draw the states of a scenario, firings over time, or the graph. Raises TooLarge."""
    from ..report import gantt
    from ..report.graph import draw
    from ..report.machine import draw_machine

    system = shown.valid.system
    if subject == "scenario" and system.scenario is not None:
        draw_machine(system.scenario, target)
    elif subject == "gantt":
        gantt.draw(shown.charts(iterations=iterations), target)
    else:
        notes = {r.network: f"{r.legal} of {r.layers} layers on a DLA" for r in shown.reports}
        draw(system, target, shown.places, _critical(shown.limits()), notes)


def _critical(analyses: Mapping[str, Analysis]) -> dict[str, CriticalPart]:
    """What determines each period, for the picture."""
    from ..report.graph import CriticalPart
    from ._tables import cycle, period

    marks = {}
    for name, analysis in analyses.items():
        if analysis.critical_cycle:
            tasks = frozenset(h.task for h in analysis.critical_cycle)
            channels = frozenset(h.channel for h in analysis.critical_cycle if h.channel)
            unknown = (
                "no times are known, every firing counts 1: " if analysis.times.unknown else ""
            )
            marks[name] = CriticalPart(
                tasks,
                channels,
                f"{unknown}least period {period(analysis)}; {cycle(analysis, most=90)}",
            )
    return marks
