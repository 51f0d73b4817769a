"""Output of verbs for a scenario: tables, and the same as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fractions import Fraction

    from ..analysis.dataflow.analyze import Analysis
    from ..driver.show.analyze import Analyzed
    from ..model.application import Application
    from ..model.scenario import Scenario, State, Transition


def scenario_table(scenario: Scenario, late: Mapping[str, Mapping[str, str]]) -> str:
    """States with their apps, and the transitions; `late` says of apps that are late in a state on
    every mapping in which way."""
    from ..runtime.report import columns

    rows = [["state", "runs", "variants", "weight"]]
    for state in scenario.states:
        name = f"{state.name} (initial)" if state.name == scenario.initial else state.name
        runs = [_run(app, late[state.name].get(app.name)) for app in state.apps]
        weight = f"{float(state.weight):.0%}"
        rows.append([name, ", ".join(runs), _choices(state) or "-", weight])
    tables = [columns(rows, left=3)]
    if scenario.transitions:
        rows = [["from", "to", "on"]]
        rows += [[t.source, t.target, cause(t)] for t in scenario.transitions]
        tables.append(columns(rows, left=3))
    return "\n\n".join(tables)


def _run(app: Application, late: str | None) -> str:
    text = app.name
    if app.period_ns is not None:
        text += f" every {float(app.period_ns) / 1e6:g} ms"
    return f"{text} ({late})" if late else text


def _choices(state: State) -> str:
    """The variants of a state; `best` marks those that flowc chose."""
    variants = []
    for instance, variant in state.choices:
        best = " (best)" if instance in state.best else ""
        variants.append(f"{instance} = {variant}{best}")
    return ", ".join(variants)


def states_in_table(analyzed: Analyzed) -> str:
    """Properties of the apps in each state: they depend on its periods, deadlines and variants."""
    from ..runtime.report import columns

    def ms(ns: Fraction | None) -> str:
        return "-" if ns is None else f"{float(ns) / 1e6:.6g}"

    rows = [
        [
            "state",
            "app",
            "",
            "period ms",
            "least",
            "on any mapping",
            "latency",
            "on any mapping",
            "deadline",
        ]
    ]
    for name, state in analyzed.checked.states.items():
        for app in state.system.apps:
            analysis = analyzed.states[name][app.name]
            figures: Sequence[Fraction | None] = (None,) * 4
            if not analysis.times.unknown:
                figures = (
                    analysis.period,
                    analysis.mapping_lower,
                    analysis.latency,
                    analysis.latency_lower,
                )
            row = [name, app.name, _verdict(app, analysis), ms(app.period_ns)]
            rows.append([*row, *map(ms, figures), ms(app.due_ns)])
    return columns(rows, left=3)


def _verdict(app: Application, analysis: Analysis) -> str:
    if analysis.times.unknown:
        return ""
    if analysis.too_slow(app):
        return "too fast"
    return "too late" if analysis.too_late(app) else ""


def cause(transition: Transition) -> str:
    """The trigger of a transition, in words."""
    text = ", ".join(transition.events)
    if transition.after_ns is not None:
        text = f"after {float(transition.after_ns) / 1e9:g} s"
    return f"{text}, at once" if transition.at_once else text


def scenario_as_data(scenario: Scenario, apps: Mapping[str, Any]) -> dict[str, Any]:
    """As in docs/json.md; `apps` has the verdicts of apps by state."""
    return {
        "name": scenario.name,
        "initial": scenario.initial,
        "events": list(scenario.events),
        "states": {state.name: _state(state, apps[state.name]) for state in scenario.states},
        "transitions": [_transition(transition) for transition in scenario.transitions],
    }


def _state(state: State, apps: Any) -> dict[str, Any]:
    periods = {app.name: _exact(app.period_ns) for app in state.apps}
    return {
        "periods_ns": periods,
        "choices": dict(state.choices),
        "best": list(state.best),
        "weight": str(state.weight),
        "apps": apps,
    }


def _transition(transition: Transition) -> dict[str, Any]:
    return {
        "from": transition.source,
        "to": transition.target,
        "events": list(transition.events),
        "after_ns": _exact(transition.after_ns),
        "at_once": transition.at_once,
    }


def _exact(ns: Fraction | int | None) -> str | None:
    return None if ns is None else str(ns)
