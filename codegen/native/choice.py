"""Networks of which each frame takes the variant of its state, in a program with states that follow
each other without a pause.

In: a scenario. Out: each set of states with the apps and workers that serve them all: tasks of
networks with several variants bear the names of their places there, as in programs in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedScenario,
    DeployedState,
    DeployedTask,
)
from ..app_function import FunctionLayout, layouts_of


@dataclass(frozen=True, slots=True)
class ChoiceCode:
    """The task that stands in its place in each of some states. With `breaks`, an inference can be
    broken off."""

    of_states: tuple[DeployedTask, ...]
    breaks: bool
    kind: str = "choice"
    batch: int = 1
    moves: bool = False

    @property
    def distinct(self) -> tuple[DeployedTask, ...]:
        """Its variants, each once."""
        return tuple({task.name: task for task in self.of_states}.values())


@dataclass(frozen=True, slots=True)
class Served:
    """States that one set of apps and workers serves: those of `state`; `alike` are the others."""

    state: DeployedState
    alike: tuple[DeployedState, ...]


def served(scenario: DeployedScenario) -> list[Served]:
    """The sets of states of a scenario, in its order."""
    at_once = {t.source for t in scenario.transitions if t.protocol == "at once"}
    found = []
    for layout in layouts_of(scenario):
        states = layout.state, *layout.alike
        breaks = any(state.name in at_once for state in states)
        found.append(Served(_with_choices(layout, breaks), layout.alike))
    return found


def chooses(scenario: DeployedScenario | None) -> bool:
    """Does a frame take the variant of its state?"""
    return scenario is not None and any(layout.selected for layout in layouts_of(scenario))


def _with_choices(layout: FunctionLayout, breaks: bool) -> DeployedState:
    """The state of a layout, with the choices of all its states."""
    if not layout.selected:
        return layout.state
    tasks = {}
    for state in (layout.state, *layout.alike):
        tasks.update({task.name: task for app in state.apps for task in app.tasks})
    codes = {
        place: ChoiceCode(tuple(tasks[task] for _, task in variants), breaks)
        for place, variants in layout.selected.items()
    }

    def made(task: DeployedTask) -> DeployedTask:
        code = codes.get(layout.name(task.name))
        return task if code is None else replace(task, name=layout.name(task.name), code=code)

    apps = tuple(_renamed(app, layout.name, made) for app in layout.state.apps)
    processors = tuple(
        replace(w, order=tuple(replace(e, task=layout.name(e.task)) for e in w.order))
        for w in layout.state.processors
    )
    return replace(layout.state, apps=apps, processors=processors)


def _renamed(
    app: DeployedApp,
    name: Callable[[str], str],
    made: Callable[[DeployedTask], DeployedTask],
) -> DeployedApp:
    def channel(c: DeployedChannel) -> DeployedChannel:
        source, destination = name(c.source), name(c.destination)
        if (source, destination) == (c.source, c.destination):
            return c
        named = f"{source}.{c.source_port}->{destination}.{c.destination_port}"
        return replace(c, name=named, source=source, destination=destination)

    paths = tuple(replace(p, source=name(p.source), sink=name(p.sink)) for p in app.paths)
    return replace(
        app,
        tasks=tuple(made(task) for task in app.tasks),
        channels=tuple(channel(c) for c in app.channels),
        paths=paths,
    )
