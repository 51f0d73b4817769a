"""Verbs that look at a text and change nothing: check, show, explain, doctor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Json, OnPlatform, Text, number, print_json, say, show_diagnostics
from .wording import on_dla

if TYPE_CHECKING:
    from ..analysis.analyze import Analysis
    from ..report.graph import Critical
    from ..steps import Checked


def check(file: Text, platform: OnPlatform = "host", as_json: Json = False) -> int:
    """Check a text without running anything: names, types, code, networks, rates, deadlock."""
    from .. import steps
    from ..render import as_data
    from ..steps.dla import dla_reports

    checked = steps.check(file, platform=platform)
    if as_json:
        apps = {
            name: {
                "consistent": v.consistent.holds,
                "deadlock_free": v.deadlock_free.holds,
                "schedulable": v.schedulable.holds,
                "repetition": v.repetition,
            }
            for name, v in checked.verdicts.items()
        }
        document = {"ok": checked.ok, "diagnostics": as_data(checked.diagnostics), "apps": apps}
        reports = {r.network: asdict(r) for r in dla_reports(checked)} if checked.ok else {}
        print_json({**document, "dla": reports} if reports else document)
    show_diagnostics(checked.diagnostics, checked.system.sources)
    if not as_json:
        _print_verdicts(checked)
        for report in dla_reports(checked) if checked.ok else ():
            print(f"\n{on_dla(report)}")
    elif not checked.ok:
        say(_count(checked))
    return 0 if checked.ok and not any(v.impossible for v in checked.verdicts.values()) else 1


def _print_verdicts(checked: Checked) -> None:
    if not checked.ok:
        print(_count(checked))
        return
    words = {True: "yes", False: "no", None: "not decided"}
    for found in checked.system.apps:
        verdicts = checked.verdicts[found.name]
        print(f"{found.name}: {number(len(found.tasks), 'task')}, {number(len(found.channels), 'channel')}")
        rows = {
            "consistent": verdicts.consistent,
            "deadlock-free": verdicts.deadlock_free,
            "schedulable": verdicts.schedulable,
        }
        for name, verdict in rows.items():
            print(f"  {name:<14} {words[verdict.holds]:<12} {verdict.witness}")
        several = [f"{n.partition('.')[2]} {q}" for n, q in verdicts.repetition.items() if q != 1]
        if several:
            shown = ", ".join(several[:12]) + (", ..." if len(several) > 12 else "")
            print(f"  {'iteration':<14} {shown}{', the others 1' if len(several) < len(found.tasks) else ''}")


def _count(checked: Checked) -> str:
    errors = sum(d.severity == "error" for d in checked.diagnostics)
    return number(errors, "error")


def show(
    file: Text,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture to write: .svg or .png (default: STEM.svg).", show_default=False),
    ] = None,
    gantt: Annotated[bool, typer.Option("--gantt", help="Draw the firings over time instead of the graph.")] = False,
    iterations: Annotated[int, typer.Option(help="Iterations of a Gantt chart.", min=1)] = 3,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Draw the graph: tasks, channels, rates, delays, the critical cycle, and the mapping once a profile is stored."""
    from .. import steps
    from ..model.diagnostic import Diagnostic, Faults
    from ..report import gantt as chart
    from ..report.graph import TooLarge, draw
    from ..steps import analyses
    from ..steps.dla import dla_reports

    checked = steps.check(file, platform=platform)
    if not checked.ok:
        raise Faults(checked.diagnostics)
    if not checked.system.apps:
        raise Faults([Diagnostic("F215", "there is no app to draw", None)])
    target = output or Path(f"{checked.system.stem}{'.gantt' if gantt else ''}.svg")
    if target.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter("the picture must end in .svg, .png or .pdf", param_hint="--output")
    profile, stale = steps.stored_profile(checked)
    show_diagnostics(stale, {})
    mapping = steps.map_system(checked, profile) if profile is not None else None
    places = {p.task: p.processors for p in mapping.placements} if mapping is not None else {}
    try:
        if gantt:
            chart.draw(analyses.charts(checked, profile, iterations=iterations), target)
        else:
            notes = {r.network: f"{r.legal} of {r.layers} layers on a DLA" for r in dla_reports(checked)}
            draw(checked.system, target, places, _critical(analyses.critical_cycles(checked, profile)), notes)
    except TooLarge as error:
        raise Faults([Diagnostic("F605", str(error), None, "", (), "draw a smaller app")]) from error
    except OSError as error:
        raise Faults([Diagnostic("F605", f"cannot write `{target}`: {error.strerror}", None)]) from error
    if as_json:
        print_json({"picture": str(target), "tasks": {t: list(p) for t, p in places.items()}})
    else:
        print(target)
        for report in dla_reports(checked):
            print(f"\n{on_dla(report)}")
    return 0


def _critical(found: Mapping[str, Analysis]) -> dict[str, Critical]:
    """What dictates each period, for the picture."""
    from ..report.graph import Critical
    from .wording import cycle, period

    marks = {}
    for name, a in found.items():
        if a.critical_cycle:
            tasks = frozenset(h.task for h in a.critical_cycle)
            channels = frozenset(h.channel for h in a.critical_cycle if h.channel)
            marks[name] = Critical(tasks, channels, f"least period {period(a)}; {cycle(a, most=90)}")
    return marks


def doctor(as_json: Json = False) -> int:
    """What this machine has, and what to install for more."""
    from ..profiling.doctor import examine

    findings = examine()
    if as_json:
        print_json({f.name: {"found": f.found, "needed_for": f.purpose, "install": f.install} for f in findings})
        return 0
    for f in findings:
        mark = "ok " if f.found else "-- "
        print(f"{mark}{f.name:<14} {f.found or 'not found'}")
        if not f.found:
            print(f"   {'':<14} for {f.purpose}: {f.install}")
    return 0


def explain(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, such as F203.")], as_json: Json = False
) -> int:
    """Explain a diagnostic."""
    from ..model.catalogue import CODES
    from ..model.diagnostic import did_you_mean

    wanted = code.upper()
    if wanted not in CODES:
        raise typer.BadParameter(f"there is no diagnostic {code}. {did_you_mean(wanted, CODES)}".rstrip())
    title, text = CODES[wanted]
    if as_json:
        print_json({"code": wanted, "title": title, "text": text})
    else:
        print(f"{wanted}: {title}\n\n{text}")
    return 0
