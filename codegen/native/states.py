"""The parts of main.cpp of a program with states: what all states share, and the apps, channels and
workers that each of them has for itself.

In: a deployment with a scenario. Out: strings for the template of main.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...model.deployment import (
    DeployedScenario,
    DeployedState,
    DeployedTransition,
    Deployment,
)
from .. import c_text
from ..marks import Marks
from .choice import Served, served
from .layout import layout
from .main_cpp import MainText, rendered
from .scope import Scope
from .symbols import symbols_of

if TYPE_CHECKING:
    from jinja2 import Environment

#: How a change is made, where that is not `idle`.
_PROTOCOLS = {"idle": "", "next": ", flow::Protocol::NEXT", "at once": ", flow::Protocol::AT_ONCE"}
#: What says in C++ that a number is not known.
_UNKNOWN = "-1"


def main_with_states(
    jinja: Environment, deployment: Deployment, scenario: DeployedScenario
) -> bytes:
    """The text of main.cpp."""
    return rendered(jinja, deployment, _words(deployment, scenario))


def _words(deployment: Deployment, scenario: DeployedScenario) -> dict[str, Any]:
    symbols = symbols_of(deployment)
    sets = served(scenario)
    # with the names of places beside those of variants
    named = replace(scenario, states=(*scenario.states, *(one.state for one in sets)))
    whole = replace(deployment, scenario=named)

    def text_of(state: DeployedState) -> MainText:
        own = replace(deployment, apps=state.apps, processors=state.processors, scenario=None)
        places = layout(own, in_states=True)
        return MainText(Scope(own, places, symbols, Marks((), {}), whole))

    texts = {state.name: text_of(state) for state in scenario.states}
    ids = next(iter(texts.values())).states
    prototypes: dict[str, dict[str, str]] = {}
    links: dict[str, None] = {}
    settings: dict[str, None] = {}
    for text in texts.values():
        prototypes |= {p["name"]: p for p in text.prototypes()}
        links |= dict.fromkeys(text.links())
        settings |= dict.fromkeys(text.settings())
    lanes = dict.fromkeys(w.processor for w in deployment.every_worker if w.order)
    planned = deployment.planned
    return {
        "prototypes": list(prototypes.values()),
        "links": list(links),
        "shared": _shared(scenario, texts),
        "parts": [_part(one, ids, text_of(one.state)) for one in sets],
        "scenario": {
            "states": [f"&{id_}::state" for id_ in ids.values()],
            "initial": f"{ids[scenario.initial]}::state",
            "events": [c_text.text(event) for event in scenario.events],
            "transitions": [_transition(t, ids) for t in scenario.transitions],
        },
        "about": {
            "joined": [f"{ids[one.state.name]}::channels" for one in sets],
            "lanes": [c_text.text(name) for name in lanes],
            "planned": [] if planned is None else list(planned.figures.items()),
            "settings": list(settings),
        },
    }


def _shared(scenario: DeployedScenario, texts: Mapping[str, MainText]) -> list[dict[str, Any]]:
    """The code that a task has in all states. An engine has something for each worker: it is as in
    the state in which these are most."""
    shared: dict[str, dict[str, Any]] = {}
    workers: dict[str, int] = {}
    for state in scenario.states:
        text = texts[state.name]
        for task in (task for app in state.apps for task in app.tasks):
            if text.replicas_of(task.name) > workers.get(task.name, 0):
                workers[task.name] = text.replicas_of(task.name)
                shared[task.name] = {"id": text.id_of(task.name), "code": text.code(task)}
    return list(shared.values())


def _part(one: Served, ids: dict[str, str], text: MainText) -> dict[str, Any]:
    state, part = one.state, text.part()
    apps = ", ".join(f"&{app['id']}" for app in part["apps"])
    workers = ", ".join(f"&{worker['id']}" for worker in part["workers"])
    return part | {
        "id": ids[state.name],
        "name": state.name,
        "head": f"{c_text.text(state.name)}, {{{apps}}}, {{{workers}}}",
        "channels": [text.channels(app) for app in state.apps],
        "energy": _energy(state),
        "fills": list(text.fills()),
        "alike": [
            {
                "id": ids[other.name],
                "name": other.name,
                "head": c_text.text(other.name),
                "rest": f"{_energy(other)}, {number}",
            }
            for number, other in enumerate(one.alike, 1)
        ],
    }


def _energy(state: DeployedState) -> str:
    """What it takes, its clock rates, and of which state it is a level."""
    energy = _UNKNOWN if state.energy_mw is None else repr(float(state.energy_mw))
    level, rate = state.level_of or ("", 0.0)
    rates = []
    for clock in state.clocks:
        named = f"{c_text.text(clock.pool)}, {c_text.text(clock.kind)}"
        rates.append(f"{{{named}, INT64_C({clock.hz}), INT64_C({clock.highest_hz})}}")
    return f"{energy}, {{{', '.join(rates)}}}, {c_text.text(level)}, {float(rate)!r}"


def _transition(transition: DeployedTransition, ids: dict[str, str]) -> str:
    events = ", ".join(c_text.text(event) for event in transition.events)
    after = _UNKNOWN if transition.after_ns is None else str(int(Fraction(transition.after_ns)))
    bound = _UNKNOWN if transition.bound_ns is None else str(transition.bound_ns)
    ends = f"{ids[transition.source]}::state, {ids[transition.target]}::state"
    protocol = _PROTOCOLS[transition.protocol]
    return f"{{{ends}, {{{events}}}, {after}, {bound}{protocol}}}"
