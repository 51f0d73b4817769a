"""Written rounds for programs that tests make by hand, from the same text as those of a build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowc.codegen.rounds.order import App, Order, Task
from flowc.codegen.rounds.straight import straight
from flowc.codegen.rounds.text import function_text
from flowc.model.deployment import DeployedPort, Entry
from flowc.runtime import graph
from flowc.runtime.channel import LocalChannel
from flowc.runtime.code import C
from flowc.runtime.tokens import Port
from flowc.runtime.worker import Worker

#: What a module of rounds begins with.
IMPORTS = """from time import perf_counter_ns as clock
from time import thread_time_ns as cpu
from numpy import ascontiguousarray, empty, ndarray
"""


def written_by_hand(worker: Worker) -> Callable[[Any], Any] | None:
    """The function for a worker of a program that is wired, in the place of
    `flowc.runtime.rounds.written_for`."""
    order = order_of(worker)
    rounds = None if order is None else straight(order)
    if rounds is None:
        return None
    run = worker.order[0].task.app.run
    recorded = run.recorder is not None or any(e.task.recorded for e in worker.order)
    lines = function_text("by_hand", rounds.plan, rounds.guards, recorded=recorded)
    names: dict[str, Any] = {}
    exec(compile(IMPORTS + "\n".join(lines), "rounds.py", "exec"), names)
    found: Callable[[Any], Any] = names["by_hand"]
    return found


def order_of(worker: Worker) -> Order | None:
    """The order of a worker; None where its rounds cannot be written out."""
    app = worker.order[0].task.app
    for entry in worker.order:
        if entry.task.app is not app or entry.replicas > 1 or entry.per_round > 1:
            return None
    if worker.scheduling is not None and worker.scheduling.limited:
        return None
    tasks = tuple(_task(task) for task in app.tasks)
    entries = tuple(
        Entry(
            e.task.name, e.times, e.first, e.stage, (e.replica, e.replicas), (e.index, e.per_round)
        )
        for e in worker.order
    )
    own = {entry.task for entry in worker.order}
    inside = {
        channel.name: channel.delay
        for task in own
        for channel in task.feeders
        if isinstance(channel, LocalChannel)
    }
    return Order(worker.processor, App(app.name, app.period is not None, tasks), entries, inside)


def _task(task: graph.Task) -> Task:
    code = task.code
    return Task(
        name=task.name,
        inputs=tuple(_port(port) for port in task.inputs),
        outputs=tuple(_port(port) for port in task.outputs),
        feeders=tuple(channel.name for channel in task.feeders if channel is not None),
        readers=tuple(tuple(channel.name for channel in readers) for readers in task.readers),
        firings=task.per_iteration,
        live=task.live,
        on_error=task.on_error,
        opens=task.opens,
        hesitates=task.hesitates,
        starts_frame=task.starts_frame,
        ends_frame=task.ends_frame,
        keeps_releases=bool(task.releases),
        measured=bool(task.paths),
        in_c=type(code) is C,
        passes_on=code.passes_on,
        requests=code.requests(task.outputs),
        apart=code.batch > 1
        or code.device is not None
        or task.from_device
        or task.turnstile is not None,
    )


def _port(port: Port) -> DeployedPort:
    return DeployedPort(
        port.name,
        port.dtype.name,
        port.shape,
        port.rates,
        port.stacked,
        port.window,
        port.count,
        port.bounded,
    )
