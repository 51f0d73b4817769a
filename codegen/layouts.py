"""States that differ only in variants of networks: one set of channels and workers serves them all.

In: the deployments of two states. Out: whether one can follow the other without a pause, and if
not, why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from ..model.deployment import DeployedApp, DeployedPort, DeployedState, DeployedTask, Entry
from .kinds import Code

#: Kinds of code that a program may choose from in each frame, and those of them that it can abort.
CHOSEN = ("onnx", "segments", "bands", "python", "c")
BROKEN_OFF = ("onnx", "segments")

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
    return (t for a in state.apps for t in a.tasks if place(t.name) != t.name)


def apart(a: DeployedState, b: DeployedState) -> str | None:
    """Why one set of channels and workers cannot serve both states; None if it can."""
    found = {s.name: {app.name: app for app in s.apps} for s in (a, b)}
    lone = sorted(found[a.name].keys() ^ found[b.name].keys())
    if lone:
        return f"`{lone[0]}` runs in one of the states only"
    for name, app in found[a.name].items():
        other = found[b.name][name]
        if (app.period_ns, app.deadline_ns, app.priority) != (
            other.period_ns,
            other.deadline_ns,
            other.priority,
        ):
            return f"`{name}` has another period or deadline"
    places = place_of(a), place_of(b)
    mine, theirs = (
        {place(t.name): t for t in chosen(s)} for s, place in zip((a, b), places, strict=True)
    )
    for where in mine.keys() | theirs.keys():
        if where not in mine or where not in theirs:
            lacking = mine.get(where) or theirs[where]
            return f"`{lacking.name}` has no counterpart in the other variant"
        wrong = next((t for t in (mine[where], theirs[where]) if not _choosable(t)), None)
        if wrong is not None and mine[where].name != theirs[where].name:
            return f"`{wrong.name}` {_not_choosable(wrong)}"
    homes = [
        {place(e.task): w.processor for w in s.processors for e in w.order}
        for s, place in zip((a, b), places, strict=True)
    ]
    for where, task in mine.items():
        if homes[0][where] != homes[1][where]:
            return f"`{task.name}` and `{theirs[where].name}` are on different processors"
    if _shape(a, places[0]) != _shape(b, places[1]):
        return "their tasks fire in different orders, or have different channels"
    return None


def _choosable(task: DeployedTask) -> bool:
    code = cast(Code, task.code)
    return (
        code.kind in CHOSEN
        and code.batch == 1
        and not code.moves
        and not getattr(code, "process", False)
    )


def _not_choosable(task: DeployedTask) -> str:
    code = cast(Code, task.code)
    if code.on_device:
        return "runs on a GPU or DLA"
    if code.moves:
        return "has a cut that moves"
    return (
        "collects firings until it has a batch"
        if code.batch > 1
        else "runs in a process of its own"
    )


def not_broken_off(state: DeployedState) -> str | None:
    """Why an inference of a state that can follow another one cannot be aborted; None if it can."""
    place, instances = place_of(state), dict(state.choices)
    for task in chosen(state):
        if place(task.name) not in instances:
            return f"`{task.name}` is a part of a network"
        if cast(Code, task.code).kind not in BROKEN_OFF:
            return f"`{task.name}` is no single inference of ONNX Runtime"
    return None


# -- what has to be alike --------------------------------------------------------------------------
def _shape(state: DeployedState, place: Place) -> object:
    """Everything that determines channels, workers and reports of a state, with places for
    tasks."""
    apps = tuple(_app(app, place) for app in state.apps)
    workers = tuple(
        (w.processor, w.scheduler, tuple(_entry(e, place) for e in w.order), w.fixed_priority)
        for w in state.processors
    )
    return apps, workers


def _app(app: DeployedApp, place: Place) -> object:
    tasks = {t.name: t for t in app.tasks}
    return (
        app.name,
        tuple(_task(t, place) for t in app.tasks),
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
        tuple((place(p.source), place(p.sink), p.newest, p.deadline_ns) for p in app.paths),
    )


def _task(task: DeployedTask, place: Place) -> object:
    """Ports count by their positions: names of tensors inside of networks do not matter."""
    ports = [
        tuple((p.dtype, p.shape, p.rates, p.stacked, p.window) for p in s)
        for s in (task.inputs, task.outputs)
    ]
    own = None if place(task.name) != task.name else task.code
    return place(task.name), own, *ports, task.firings, task.live, task.keep, task.on_error


def _number(ports: tuple[DeployedPort, ...], name: str) -> int:
    return [p.name for p in ports].index(name)


def _entry(entry: Entry, place: Place) -> object:
    return place(entry.task), entry.times, entry.first, entry.stage, entry.replica, entry.round
