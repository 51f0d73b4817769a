"""The text of main.py for a program with states: a function for each app, which states call with
what they change about it.

In: a deployment with a scenario. Out: the text of main.py. Code of tasks is made once, for all
states; apps, channels and processors are made for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..model.deployment import DeployedScenario, DeployedState, DeployedTransition, Deployment
from .app_function import OWN, AppFunction, FunctionLayout, layouts_of, short
from .names import identifiers, literal
from .statements import END_TO_END, code_text, end_to_end, entry_text, scheduling

if TYPE_CHECKING:
    from jinja2 import Environment


def main_with_states(
    jinja: Environment,
    deployment: Deployment,
    scenario: DeployedScenario,
    needs: str,
    words: Sequence[str],
    rounds: Sequence[str],
) -> bytes:
    """The text, with the libraries that it `needs` in words, the `words` of the runtime, and for
    each worker of all states the name of the function of its `rounds`."""
    written = iter(rounds)
    layouts = layouts_of(scenario)
    apps = list(dict.fromkeys(a.name for a in deployment.every_app))
    ids = identifiers([*(f"app {n}" for n in apps), *apps], OWN)
    functions = {name: AppFunction(ids[f"app {name}"], name, layouts) for name in apps}
    layout_of = {layout.state.name: layout for layout in layouts}
    states = []
    for state in scenario.states:
        text: dict[str, Any] = {
            "name": state.name,
            "like": state.like,
            "call": _state(state, state.name == scenario.initial),
        }
        if state.like is None:
            text |= _contents(layout_of[state.name], functions, ids, written)
        states.append(text)
    text_of_main = jinja.get_template("python/main_with_states.py.j2").render(
        deployment=deployment,
        scenario=scenario,
        needs=needs,
        words=words,
        codes={task.name: code_text(task, {}) for task in deployment.tasks},
        functions=functions.values(),
        states=states,
        transitions=[_transition(t) for t in scenario.transitions],
    )
    return text_of_main.encode()


def _state(state: DeployedState, initial: bool) -> str:
    """The call for a state: its clock rates, its power, and the state of which it is a level."""
    arguments = [literal(state.name)]
    if initial:
        arguments.append("initial=True")
    if state.clocks:
        rates = {c.pool: (c.kind, c.hz, c.highest_hz) for c in state.clocks}
        arguments.append(f"clocks={literal(rates)}")
    if state.energy_mw is not None:
        arguments.append(f"energy_mw={state.energy_mw}")
    if state.level_of is not None:
        arguments.append(f"level_of={literal(state.level_of)}")
    if state.like is not None:
        arguments.append(f"like={literal(state.like)}")
    return f"control.state({', '.join(arguments)})"


def _contents(
    layout: FunctionLayout,
    functions: Mapping[str, AppFunction],
    ids: Mapping[str, str],
    rounds: Iterator[str],
) -> dict[str, Any]:
    """The alternatives, the apps and the processors of a state; `rounds` are those of its workers
    and of the states behind it."""
    tasks = {}
    for app in layout.state.apps:
        for task in app.tasks:
            tasks[task.name] = f"{ids[app.name]}[{literal(short(layout.name(task.name)))}]"
    ends = []
    for app in layout.state.apps:
        for path in app.paths:
            if path.kind in END_TO_END:
                ends.append(end_to_end(path, tasks[path.source], tasks[path.sink]))
    workers = []
    for worker in layout.state.processors:
        order = [entry_text(entry, tasks[entry.task]) for entry in worker.order]
        if order:
            workers.append(
                {
                    "processor": worker.processor,
                    "order": order,
                    "scheduling": scheduling(worker),
                    "rounds": next(rounds),
                }
            )
    return {
        "selected": layout.selected,
        "apps": {ids[app.name]: functions[app.name].call(layout) for app in layout.state.apps},
        "ends": ends,
        "workers": workers,
    }


def _transition(transition: DeployedTransition) -> str:
    """The call for a transition."""
    arguments = [literal(transition.source), literal(transition.target)]
    if transition.events:
        arguments.append(f"events={literal(list(transition.events))}")
    if transition.after_ns:
        arguments.append(f"after={literal(transition.after_ns)}")
    if transition.bound_ns:
        arguments.append(f"bound={transition.bound_ns}")
    if transition.protocol != "idle":
        arguments.append(f"protocol={literal(transition.protocol)}")
    return f"control.transition({', '.join(arguments)})"
