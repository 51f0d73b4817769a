"""The static orders of a deployment, with all that is needed to write out their rounds.

In: a deployment. Out: for each worker an `Order`: its tasks, numbered as they come in the order,
the channels between them, and those to other workers. Which tasks begin and end a frame is what the
runtime decides as well when it is wired (`runtime/graph.py: App.prepare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...model.deployment import (
    DeployedApp,
    DeployedPath,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Entry,
)
from ..app_function import FunctionLayout, layouts_of
from ..frames import enders, fed_by, opens, samples, starts_frame
from ..kinds import code_of


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an order. `feeders` and `readers` are the channels of its ports, by name.

    It fires `firings` times in an iteration. `opens`: it can be the first to fire in a frame;
    `hesitates`: it must not take initial tokens too early; `keeps_releases`: those of its firings
    are asked for; `measured`: paths end with it; `samples`: it chooses its token when it fires.

    `in_c`: its code is a C function. `passes_on`: it resamples, see `Code` of the runtime.
    `requests`: it takes so many in a batch. `apart`: its firings are not simply calls of the
    worker's, as those in batches and around devices.
    """

    name: str
    inputs: tuple[DeployedPort, ...]
    outputs: tuple[DeployedPort, ...]
    feeders: tuple[str, ...]
    readers: tuple[tuple[str, ...], ...]
    firings: int
    live: bool = False
    on_error: str = "stop"
    opens: bool = False
    hesitates: bool = False
    starts_frame: bool = False
    ends_frame: bool = False
    keeps_releases: bool = False
    measured: bool = False
    samples: bool = False
    in_c: bool = False
    passes_on: tuple[int, int | None] | None = None
    requests: int = 0
    apart: bool = False

    @property
    def ports(self) -> tuple[DeployedPort, ...]:
        """All ports."""
        return (*self.inputs, *self.outputs)

    @property
    def phases(self) -> int:
        """The length of its cycle."""
        return max([len(port.rates) for port in self.ports] or [1])

    @property
    def is_source(self) -> bool:
        """Has it no inputs?"""
        return not self.inputs

    @property
    def lists(self) -> bool:
        """Has it ports of lists?"""
        return any(port.count for port in self.ports)


@dataclass(frozen=True, slots=True)
class App:
    """An app: all of its tasks, wherever they fire."""

    name: str
    paced: bool
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Order:
    """The order of a worker, which fires tasks of one app; `name` is that of the processor, behind
    that of the state. `delays` are those of the channels inside, by name."""

    name: str
    app: App
    entries: tuple[Entry, ...]
    delays: Mapping[str, int]

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Its tasks, as they come."""
        named = {task.name: task for task in self.app.tasks}
        return tuple(named[name] for name in dict.fromkeys(e.task for e in self.entries))

    @cached_property
    def _viewed(self) -> set[str]:
        return {
            channel
            for task in self.tasks
            for port, channel in zip(task.inputs, task.feeders, strict=True)
            if port.window or port.count or (port.bounded and port.stacked)
        }

    def is_inside(self, channel: str) -> bool:
        """Does this worker write and read it?"""
        return channel in self.delays

    def is_viewed(self, channel: str) -> bool:
        """Does its reader see something else than the tokens that it takes?"""
        return channel in self._viewed


def orders_of(deployment: Deployment) -> list[Order | None]:
    """The orders of all workers, as main.py has them; None: there is nothing to write out."""
    if deployment.part is not None:
        return [None] * len(deployment.processors)
    if deployment.scenario is None:
        return list(_orders(deployment.apps, deployment.processors))
    found: list[Order | None] = []
    for layout in layouts_of(deployment.scenario):
        workers = [worker for worker in layout.state.processors if worker.order]
        found += _orders(layout.state.apps, workers, layout)
    return found


def _orders(
    apps: Sequence[DeployedApp],
    workers: Sequence[DeployedWorker],
    layout: FunctionLayout | None = None,
) -> Iterator[Order | None]:
    """Those of a program, or of a state of it."""
    described = _Described(apps, layout)
    tasks = {task.name: app for app in apps for task in app.tasks}
    places: dict[str, set[int]] = {}
    for number, worker in enumerate(workers):
        for entry in worker.order:
            places.setdefault(entry.task, set()).add(number)
    for number, worker in enumerate(workers):
        app = tasks[worker.order[0].task] if worker.order else None
        if app is None or not _is_plain(worker, app, tasks):
            yield None
            continue
        inside = {}
        for channel in app.channels:
            if places[channel.source] | places[channel.destination] == {number}:
                inside[channel.name] = channel.delay
        name = worker.processor if layout is None else f"{layout.state.name} {worker.processor}"
        yield Order(name, described.app(app), worker.order, inside)


def _is_plain(worker: DeployedWorker, app: DeployedApp, tasks: Mapping[str, DeployedApp]) -> bool:
    """Does it fire tasks of one app, each firing by itself, and without a budget?"""
    if worker.server is not None:
        return False
    for entry in worker.order:
        if tasks[entry.task] is not app or entry.replica[1] > 1 or entry.round[1] > 1:
            return False
    return True


class _Described:
    """The tasks of the apps that run together."""

    def __init__(self, apps: Sequence[DeployedApp], layout: FunctionLayout | None) -> None:
        self._layout = layout
        self._paths: list[DeployedPath] = []
        for app in apps:
            self._paths += [path for path in app.paths if path.kind != "part"]
        self._asked = {path.source for path in self._paths}

    def app(self, app: DeployedApp) -> App:
        """An app with its tasks."""
        on_device = {task.name for task in app.tasks if code_of(task).on_device}
        tasks = tuple(self._task(app, task, on_device) for task in app.tasks)
        return App(app.name, app.period_ns is not None, tasks)

    def _task(self, app: DeployedApp, task: DeployedTask, on_device: set[str]) -> Task:
        code, fed = code_of(task), [channel for channel, _ in fed_by(app, task)]
        by_port = {channel.destination_port: channel.name for channel in fed}
        return Task(
            name=task.name,
            inputs=task.inputs,
            outputs=task.outputs,
            feeders=tuple(by_port[port.name] for port in task.inputs),
            readers=tuple(_readers(app, task.name, port.name) for port in task.outputs),
            firings=task.firings,
            live=task.live,
            on_error=task.on_error,
            opens=opens(app, task) or (task.live and self._layout is not None),
            hesitates=len(fed) > 1 and any(channel.delay for channel in fed),
            starts_frame=starts_frame(app, task),
            ends_frame=task.name in enders(app),
            keeps_releases=task.name in self._asked,
            measured=any(path.sink == task.name for path in self._paths),
            samples=samples(app, task),
            in_c=code.called_in_c and task.keep is None and not self._is_selected(task),
            passes_on=code.passes_on,
            requests=code.requests(task),
            apart=code.batch > 1
            or task.name in on_device
            or any(channel.source in on_device for channel in fed),
        )

    def _is_selected(self, task: DeployedTask) -> bool:
        """Is its code one of several alternatives?"""
        layout = self._layout
        return layout is not None and layout.place(task.name) in layout.selected


def _readers(app: DeployedApp, task: str, port: str) -> tuple[str, ...]:
    return tuple(c.name for c in app.channels if (c.source, c.source_port) == (task, port))
