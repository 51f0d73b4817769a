"""Systems that cannot be a project of HOPES (F723), and features that are left out of it (F725).

In: the text as it was written, and its places. Out: diagnostics, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ....model.application import Application, Task, all_tasks
from ....model.diagnostic import Diagnostic, listed
from ....model.mapping import Pin, Placement
from ....model.platform import Platform
from ....model.system import System
from .graph import blocked
from .library import ROOM, has_code, is_called
from .project import MOST, PlacedSystem, ProjectPlan, is_exact, unfed

#: Most tasks: HOPES' generated program has a thread for each.
MOST_TASKS = 4096


def refusals(system: System) -> list[Diagnostic]:
    """Errors for features without a counterpart in HOPES, before anything is counted."""
    found: list[Diagnostic] = []
    tasks = [*all_tasks(system.apps)]
    if len(tasks) > MOST_TASKS:
        help_text = f"export apps one by one: at most {MOST_TASKS} tasks"
        message = f"there are {len(tasks)} tasks, and a program of HOPES has a thread for each"
        found.append(Diagnostic("F723", message, system.apps[0].span, help=help_text))
    for task in tasks:
        found += _task(task)
    return list(dict.fromkeys(found))


def _no(message: str, task: Task, help_text: str) -> Diagnostic:
    return Diagnostic("F723", message, task.span, help=help_text)


def _task(task: Task) -> Iterator[Diagnostic]:
    short = task.name.partition(".")[2]
    if task.link is not None and not task.link.latest:
        help_text = "write `latest`, leave one of the apps out, or join them by a plain arrow"
        message = (
            f"`drop oldest` joins two apps at `{short}`, but queues of HOPES never drop tokens"
        )
        yield _no(message, task, help_text)
    elif task.transfer is not None:
        way = task.transfer
        message = (
            f"`{short}` leads from `{way.source}` to `{way.destination}`, but a project is for one"
            " machine"
        )
        yield _no(message, task, "export it for a platform of one machine")
    elif task.border is not None:
        help_text = "give it a task that reads or writes the data"
        yield _no(f"`{short}` is an open end: HOPES has no caller to serve it", task, help_text)
    elif task.network is not None:
        if task.network.moving is not None:
            message = f"the cut of `{short}` moves, but HOPES has fixed tasks"
            yield _no(message, task, "leave `adapt` out of its pin")
    elif is_called(task) and task.implementations:
        yield from _code(task)
    for port in task.list_ports:
        message = f"`{port.name}` of `{short}` is a list: queues of HOPES have fixed rates"
        yield _no(message, task, f"write `rate {port.rates[0]}`, and fill up what is not there")
    for port in task.sized_ports:
        message = f"`{port.name}` of `{short}` is {port.type}: channels of HOPES have fixed sizes"
        yield _no(message, task, "give it a fixed size, and fill up what is not there")
    for port in task.open_ports:
        help_text = "leave out what follows the last tensor of fixed size"
        yield _no(
            f"`{port.name}` of `{short}` is {port.type}: channels of HOPES have fixed sizes",
            task,
            help_text,
        )


def _code(task: Task) -> Iterator[Diagnostic]:
    if task.implementation_on("cpu") is None and task.reference is None:
        help_text = 'add `c "FILE.c:FUNCTION"` or `reference python "file.py:function"` to it'
        yield _no(f"`{task.definition}` has code for a GPU only", task, help_text)


def blocking(app: Application, firings: Mapping[str, int]) -> Iterator[Diagnostic]:
    """The cycle that deadlocks if a task fires once for all of its phases. Raises TooLong."""
    witnesses = blocked(app, firings)
    if witnesses:
        names = [b.task for b in witnesses]
        lacks = witnesses[0]
        message = (
            f"HOPES fires a task once for all of its phases, and then {listed(names)} wait for each"
            f" other: `{lacks.task}` needs {lacks.missing} more tokens on `{lacks.channel.name}`"
        )
        help_text = "give the cycle a larger `delay`, or make tasks of the phases"
        yield Diagnostic("F723", message, lacks.channel.span, help=help_text)


def too_large(system: System, made: ProjectPlan) -> Iterator[Diagnostic]:
    """Errors for channels with more bytes than HOPES supports, and firings that transfer more."""
    text = {name: flow for flow, name in made.names.items()}
    known = {}
    for app in system.apps:
        for channel in app.channels:
            port = made.kept.port(channel.destination, channel.destination_port)
            known[channel.destination, port] = channel
    spans = {task.name: task.span for task in all_tasks(system.apps)}
    for c in made.channels:
        if c.length * c.size > MOST:
            source, destination = text[c.source], text[c.destination]
            name, span = f"{source} -> latest -> {destination}", spans[destination]
            if (destination, c.destination_port) in known:
                channel = known[destination, c.destination_port]
                name, span = channel.name, channel.span
            message = (
                f"`{name}` would have {c.length * c.size} bytes, but HOPES supports at most {MOST}"
            )
            yield Diagnostic(
                "F723", message, span, help="make its tokens smaller, or fewer of them a firing"
            )


def left_out(placed: PlacedSystem, pins: Mapping[str, Pin]) -> list[Diagnostic]:
    """Warnings about features without a counterpart in HOPES, which are left out."""
    system, platform = placed.system, placed.platform
    found: list[Diagnostic] = []
    for app in system.apps:
        found += _times(app, placed.firings[app.name])
        for task in app.tasks:
            place = placed.placements.get(task.name)
            found += _left_out_of(task, platform, place, pins.get(task.name))
    if system.scenario is not None:
        message = f"the states of `{system.scenario.name}` cannot be expressed in HOPES"
        help_text = "all apps run all the time, with the first variants of their networks"
        found.append(_warning(message, system.scenario.span, help_text))
    if platform.contention:
        found.append(
            _warning(
                f"`contention` of `{platform.name}` cannot be expressed in HOPES", platform.span, ""
            )
        )
    return list(dict.fromkeys(found))


def _mapped(task: Task, place: Placement, pin: Pin | None) -> Iterator[Diagnostic]:
    """Wishes of a mapping that HOPES does not know."""
    words = [*_wishes(place, pin)]
    if words:
        span = task.span
        if pin is not None:
            span = pin.span
        message = f"HOPES knows no {listed(words)}, which `{task.name}` is mapped with"
        yield _warning(message, span, "the project is right without it, and may be slower")


def _left_out_of(
    task: Task, platform: Platform, place: Placement | None, pin: Pin | None
) -> Iterator[Diagnostic]:
    """Features of a task."""
    if place is not None:
        yield from _mapped(task, place, pin)
    if not has_code(task):
        message = f"`{task.definition}` has no code: it reads, and writes zeros"
        yield _warning(message, task.span, "add the code between reads and writes in its `.cic`")
    if place is not None:
        yield from _elsewhere(task, platform, place)
    if task.live or task.keep is not None:
        word = "drop oldest"
        if task.keep is None:
            word = "live"
        message = f"`{task.name}` is no `{word}` source in HOPES"
        yield _warning(message, task.span, "others wait for it")
    if task.on_error != "stop":
        message = f"`on error {task.on_error}` of `{task.definition}` has no effect in HOPES"
        yield _warning(message, task.span, "its failure ends the program")


def elsewhere(system: System, files: Iterable[str]) -> Iterator[Diagnostic]:
    """A warning for folders that a program expects beside its own, if the tool chooses that."""
    rooms = set()
    for path in files:
        if path.startswith((f"{ROOM}/", "data/")):
            rooms.add(path.partition("/")[0])
    if rooms:
        message = (
            f"its program looks for {listed(sorted(rooms))} beside its own folder, which HOPES'"
            " tool chooses"
        )
        help_text = "put it there"
        if len(rooms) > 1:
            help_text = "put them there"
        yield _warning(message, system.apps[0].span, help_text)


def _elsewhere(task: Task, platform: Platform, place: Placement) -> Iterator[Diagnostic]:
    if platform.pool_of(place.processors[0]).kind != "cpu":
        message = (
            f"`{task.name}` is mapped to `{place.processors[0]}`, but its code for HOPES runs on"
            " a CPU"
        )
        yield _warning(
            message,
            task.span,
            "the mapping keeps that processor; replace its `.cic` by code for that processor",
        )


def _warning(message: str, span: object, help_text: str) -> Diagnostic:
    return Diagnostic("F725", message, span, help=help_text, severity="warning")  # type: ignore[arg-type]


def _times(app: Application, firings: Mapping[str, int]) -> Iterator[Diagnostic]:
    for path in app.paths:
        message = f"a deadline from `{path.source}` to `{path.sink}` cannot be expressed in HOPES"
        yield _warning(message, path.span, "that of the app stays")
    if app.share is not None:
        message = f"the share of `{app.name}` cannot be expressed in HOPES"
        yield _warning(message, app.share.span, "it runs as fast as it can")
    if app.period_ns is None:
        return
    sources = unfed(app)
    if not sources and len(app.tasks) > 1:
        message = (
            f"`{app.name}` has a period but no source: HOPES would not release any task by time"
        )
        yield _warning(message, app.span, "it runs as fast as it can")
    for task in app.tasks:
        if task.name in sources and not is_exact(app.period_ns / firings[task.name]):
            message = (
                f"`{task.name}` fires every {app.period_ns / firings[task.name]} ns, but HOPES has"
                " whole us only"
            )
            yield _warning(message, app.span, "it is rounded down")


def _wishes(place: Placement, pin: Pin | None) -> Iterator[str]:
    if len(place.processors) > 1:
        yield "sharing"
    if place.streams > 1:
        yield "streams"
    if place.threads > 1:
        yield "threads"
    if place.engine:
        yield "engine"
    if place.precision:
        yield "precision"
    if place.process:
        yield "process"
    if place.graph:
        yield "graph"
    if place.fallback:
        yield "fallback"
    if pin is not None and pin.adapt:
        yield "adapt"
