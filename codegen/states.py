"""The deployments of all states of a scenario as one: code, files and C sources are shared by name.

In: a scenario, and the deployment of each of its states. Out: one deployment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..model.application import Application
from ..model.deployment import (
    DeployedApp,
    DeployedClock,
    DeployedScenario,
    DeployedState,
    DeployedTransition,
    Deployment,
    PlannedMemory,
    SharedWeights,
)
from ..model.mapping import ChangeBound, StateBound
from ..model.platform import Platform
from ..model.scenario import Scenario, State
from .deploy import Deployed
from .layouts import why_not_one_layout
from .memory import engines_of, planned, shared_arenas
from .sources import CTask, Plan


def together(
    scenario: Scenario,
    apps: tuple[Application, ...],
    states: Mapping[str, Deployed],
    changes: Mapping[tuple[str, str], ChangeBound],
    proved: Mapping[str, StateBound],
    platform: Platform,
    weights: SharedWeights | None = None,
) -> Deployed:
    """`apps` are all apps of the text: the events are those that their tasks can raise, and those
    from outside.

    `changes` have the protocol and the bound of each change, `proved` the proofs of a state on a
    `platform`, if known; `weights` are those of variants that share some.
    """
    first = states[scenario.initial]
    raised = []
    for app in apps:
        for task in app.tasks:
            raised += [f"{task.name}.{event}" for event in task.events]
    made = DeployedScenario(
        scenario.initial,
        (*scenario.events, *raised),
        with_likes(
            tuple(
                _proved(s, proved.get(s.name), platform) for s in deployed_states(scenario, states)
            ),
            changes.values(),
        ),
        tuple(
            DeployedTransition(
                t.source,
                t.target,
                t.events,
                None if t.after_ns is None else str(t.after_ns),
                changes[t.source, t.target].delay_ns,
                changes[t.source, t.target].protocol,
            )
            for t in scenario.transitions
        ),
        weights,
    )
    files: Plan = {}
    c_tasks: dict[str, dict[str, CTask]] = {}
    for d in states.values():
        files.update(d.files)
        for source, tasks in d.c_tasks.items():
            c_tasks.setdefault(source, {}).update((c.task.name, c) for c in tasks)
    memory = memory_of([d.deployment for d in states.values()])
    deployment = replace(first.deployment, apps=(), processors=(), planned=memory, scenario=made)
    return Deployed(
        deployment,
        files,
        {source: tuple(tasks.values()) for source, tasks in c_tasks.items()},
        first.declared,
    )


def deployed_states(
    scenario: Scenario, states: Mapping[str, Deployed]
) -> tuple[DeployedState, ...]:
    """The deployment of each state, in the order of `states`."""
    return tuple(_deployed(scenario.state(n), d) for n, d in states.items())


def _deployed(state: State, deployed: Deployed) -> DeployedState:
    made = DeployedState(
        state.name, deployed.deployment.apps, deployed.deployment.processors, state.choices
    )
    if state.level is None:
        return made
    fastest = min(a.period_ns for a in state.apps if a.period_ns is not None)
    return replace(made, level_of=(state.of, round(float(10**9 / fastest), 6)))


def with_likes(
    states: tuple[DeployedState, ...], changes: Collection[ChangeBound]
) -> tuple[DeployedState, ...]:
    """States that can follow each other without a pause get the layout of the first of them."""
    linked: set[str] = set()
    for change in changes:
        if change.protocol != "idle":
            linked |= {change.source, change.target}
    hosts: list[DeployedState] = []
    result = []
    for state in states:
        if state.name not in linked:
            result.append(state)
            continue
        host = next((h for h in hosts if why_not_one_layout(h, state) is None), None)
        if host is None:
            hosts.append(state)
            result.append(state)
        else:
            result.append(replace(state, like=host.name))
    return tuple(result)


def _proved(state: DeployedState, proved: StateBound | None, platform: Platform) -> DeployedState:
    """A state with the proofs of a stored mapping."""
    if proved is None:
        return state
    pools = {pool.name: pool for pool in platform.pools}
    clocks = tuple(
        DeployedClock(n, pools[n].kind, hz, round(max(pools[n].frequencies_hz)))
        for n, hz in proved.clocks_hz
    )
    return replace(state, clocks=clocks, energy_mw=proved.energy_mw)


def memory_of(states: Sequence[Deployment]) -> PlannedMemory | None:
    """The weights and sessions of all networks, which stay, and the rest of the state that needs
    most."""
    apps: list[DeployedApp] = []
    for state in states:
        apps += state.apps
    whole = planned(apps, [])
    if whole is None:
        return None
    known = [s.planned for s in states if s.planned is not None]
    most = max(known, key=lambda m: m.buffers + m.tokens, default=whole)
    engines = engines_of(t for app in apps for t in app.tasks)
    return PlannedMemory(
        whole.weights,
        most.buffers,
        most.tokens,
        shared_arenas(engines, [s.processors for s in states]),
        whole.sessions,
    )
