"""Output of verbs for a scenario: tables, and the same as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fractions import Fraction

    from ..driver.show.analyze import Analyzed
    from ..model.scenario import Scenario, Transition


def scenario_table(scenario: Scenario, late: Mapping[str, Sequence[str]]) -> str:
    """States with their apps, and the transitions; `late` are apps that are late in a state on
    every mapping."""
    from ..runtime.report import columns

    rows = [["state", "runs", "variants", "weight"]]
    for state in scenario.states:
        name = f"{state.name} (initial)" if state.name == scenario.initial else state.name
        runs = [
            f"{a.name}{'' if a.period_ns is None else f' every {float(a.period_ns) / 1e6:g} ms'}"
            f"{' (too late)' if a.name in late[state.name] else ''}"
            for a in state.apps
        ]
        choices = ", ".join(
            f"{instance} = {variant}{' (best)' if instance in state.best else ''}"
            for instance, variant in state.choices
        )
        rows.append([name, ", ".join(runs), choices or "-", f"{float(state.weight):.0%}"])
    tables = [columns(rows, left=3)]
    if scenario.transitions:
        rows = [["from", "to", "on"]]
        rows += [[t.source, t.target, cause(t)] for t in scenario.transitions]
        tables.append(columns(rows, left=3))
    return "\n\n".join(tables)


def states_in_table(found: Analyzed) -> str:
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
    for name, state in found.checked.states.items():
        for app in state.system.apps:
            a = found.states[name][app.name]
            timed = not a.times.unknown
            verdict = (
                "too fast"
                if timed and a.too_slow(app)
                else "too late"
                if timed and a.too_late(app)
                else ""
            )
            figures = (
                (a.period, a.mapping_lower, a.latency, a.latency_lower) if timed else (None,) * 4
            )
            rows.append(
                [name, app.name, verdict, ms(app.period_ns), *map(ms, figures), ms(app.due_ns)]
            )
    return columns(rows, left=3)


def cause(transition: Transition) -> str:
    """The trigger of a transition, in words."""
    said = ", ".join(transition.events)
    if transition.after_ns is not None:
        said = f"after {float(transition.after_ns) / 1e9:g} s"
    return f"{said}, at once" if transition.at_once else said


def scenario_as_data(scenario: Scenario, apps: Mapping[str, Any]) -> dict[str, Any]:
    """As in docs/json.md; `apps` has the verdicts of apps by state."""
    return {
        "name": scenario.name,
        "initial": scenario.initial,
        "events": list(scenario.events),
        "states": {
            s.name: {
                "periods_ns": {
                    a.name: None if a.period_ns is None else str(a.period_ns) for a in s.apps
                },
                "choices": dict(s.choices),
                "best": list(s.best),
                "weight": str(s.weight),
                "apps": apps[s.name],
            }
            for s in scenario.states
        },
        "transitions": [
            {
                "from": t.source,
                "to": t.target,
                "events": list(t.events),
                "after_ns": None if t.after_ns is None else str(t.after_ns),
                "at_once": t.at_once,
            }
            for t in scenario.transitions
        ],
    }
