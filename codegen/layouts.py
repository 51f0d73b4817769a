"""States that differ only in variants of networks: one set of channels and workers serves them all.

In: the deployments of two states. Out: whether one can follow the other without a pause, and if
not, why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..model.deployment import DeployedApp, DeployedPort, DeployedState, DeployedTask, Entry
from .kinds import code_of

#: The name of a task's place, which is the same for all variants.
Place = Callable[[str], str]


def place_of(state: DeployedState) -> Place:
    """Tasks of a network with variants lose the name of the variant."""
    wholes = [(f"{instance}.{variant}", instance) for instance, variant in state.choices]

    def place(task: str) -> str:
        for whole, instance in wholes:
            if task == whole or task.startswith(f"{whole}."):
                return instance + task[len(whole) :]
        return task

    return place


def chosen(state: DeployedState) -> Iterator[DeployedTask]:
    """Its tasks that belong to networks with variants."""
    place = place_of(state)
    for app in state.apps:
        yield from (t for t in app.tasks if place(t.name) != t.name)


def why_not_one_layout(a: DeployedState, b: DeployedState) -> str | None:
    """Why one set of channels and workers cannot serve both states; None if it can."""
    reason = _other_apps(a, b) or _other_tasks(a, b) or _other_processors(a, b)
    if reason is None and _shape(a) != _shape(b):
        return "their tasks fire in different orders, or have different channels"
    return reason


def _other_apps(a: DeployedState, b: DeployedState) -> str | None:
    """An app that one of the states lacks, or with other times."""
    of_a, of_b = ({app.name: app for app in state.apps} for state in (a, b))
    lone = sorted(of_a.keys() ^ of_b.keys())
    if lone:
        return f"`{lone[0]}` runs in one of the states only"
    for name, app in of_a.items():
        if _times(app) != _times(of_b[name]):
            return f"`{name}` has another period or deadline"
    return None


def _times(app: DeployedApp) -> object:
    return app.period_ns, app.deadline_ns, app.priority


def _other_tasks(a: DeployedState, b: DeployedState) -> str | None:
    """A task of a variant without a counterpart, or of which no program can choose in each
    frame."""
    of_a, of_b = _chosen_at(a), _chosen_at(b)
    for place in of_a.keys() | of_b.keys():
        if place not in of_a or place not in of_b:
            lacking = of_a.get(place) or of_b[place]
            return f"`{lacking.name}` has no counterpart in the other variant"
        both = of_a[place], of_b[place]
        if both[0].name == both[1].name:
            continue
        for task in both:
            reason = code_of(task).not_choosable
            if reason is not None:
                return f"`{task.name}` {reason}"
    return None


def _chosen_at(state: DeployedState) -> dict[str, DeployedTask]:
    """The tasks of networks with variants by their places."""
    place = place_of(state)
    return {place(t.name): t for t in chosen(state)}


def _other_processors(a: DeployedState, b: DeployedState) -> str | None:
    """Variants of a task on different processors."""
    of_a, of_b = _processors(a), _processors(b)
    others = _chosen_at(b)
    for place, task in _chosen_at(a).items():
        if of_a[place] != of_b[place]:
            return f"`{task.name}` and `{others[place].name}` are on different processors"
    return None


def _processors(state: DeployedState) -> dict[str, str]:
    """The processor of each task by the place of the task."""
    place = place_of(state)
    processors = {}
    for worker in state.processors:
        for entry in worker.order:
            processors[place(entry.task)] = worker.processor
    return processors


def not_broken_off(state: DeployedState) -> str | None:
    """Why an inference of a state that can follow another one cannot be aborted; None if it can."""
    place, instances = place_of(state), dict(state.choices)
    for task in chosen(state):
        if place(task.name) not in instances:
            return f"`{task.name}` is a part of a network"
        if not code_of(task).abortable:
            return f"`{task.name}` is no single inference of ONNX Runtime"
    return None


# -- what has to be alike --------------------------------------------------------------------------
def _shape(state: DeployedState) -> object:
    """Everything that determines channels, workers and reports of a state, with places for
    tasks."""
    place = place_of(state)
    apps = tuple(_app(app, place) for app in state.apps)
    workers = tuple(
        (
            w.processor,
            w.scheduler,
            tuple(_entry(e, place) for e in w.order),
            w.fixed_priority,
            w.bound,
            w.urgency,
            w.background,
            w.server,
        )
        for w in state.processors
    )
    return apps, workers


def _app(app: DeployedApp, place: Place) -> object:
    tasks = {t.name: t for t in app.tasks}
    return (
        app.name,
        tuple(_key_of_task(t, place) for t in app.tasks),
        tuple(
            (
                place(c.source),
                _number(tasks[c.source].outputs, c.source_port),
                place(c.destination),
                _number(tasks[c.destination].inputs, c.destination_port),
                c.capacity,
                c.delay,
                c.values,
            )
            for c in app.channels
        ),
        tuple((p.kind, place(p.source), place(p.sink), p.newest, p.deadline_ns) for p in app.paths),
    )


def _key_of_task(task: DeployedTask, place: Place) -> object:
    """Ports count by their positions: names of tensors inside of networks do not matter."""
    is_chosen = place(task.name) != task.name
    return (
        place(task.name),
        None if is_chosen else task.code,
        [_port(p) for p in task.inputs],
        [_port(p) for p in task.outputs],
        task.firings,
        task.live,
        task.keep,
        task.on_error,
        task.restart,
    )


def _port(port: DeployedPort) -> object:
    return port.dtype, port.shape, port.rates, port.stacked, port.window, port.count, port.bounded


def _number(ports: tuple[DeployedPort, ...], name: str) -> int:
    return [p.name for p in ports].index(name)


def _entry(entry: Entry, place: Place) -> object:
    return place(entry.task), entry.times, entry.first, entry.stage, entry.replica, entry.round
