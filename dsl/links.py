"""What is known once all apps are flat: arrows between apps, and periods that follow from `every` of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count

from ..analysis.dataflow.repetition import repetition
from ..model.application import Application, Channel, Link, Port, Task
from ..model.diagnostic import Note
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .flatten import Flattener, reached
from .wiring import LossyArrow


def joined(apps: Sequence[Application], flatteners: Sequence[Flattener], context: Context) -> list[Application]:
    """The apps with both ends of all links, and with the periods that their sources give them."""
    made = {a.name: a for a in apps}
    known = {f.name: f for f in flatteners}
    for flattener in flatteners:
        for arrow in flattener.links:
            _join(arrow, made, flattener.name, known, context)
    for flattener in flatteners:
        flattener.unread()
    for app in made.values():
        _may_skip(app, context)
    return [_paced(app, context) for app in made.values()]


def _may_skip(app: Application, context: Context) -> None:
    """What a frame lacks may not come back for ever through a cycle."""
    behind: dict[str, set[str]] = {}
    for task in app.tasks:
        if task.on_error == "stop":
            continue
        for name in (task.name, *sorted(reached(task.name, app.channels))):
            if name in behind.setdefault(name, reached(name, app.channels)):
                short, place = task.name.partition(".")[2], name.partition(".")[2]
                message = (
                    f"frames cannot be skipped at `{short}`: `{place}` is on a cycle, which would lose all later ones"
                )
                help_text = "let the task itself catch what may go wrong, and return something"
                context.fault("F217", message, task.span, help=help_text)
                break


def _join(
    arrow: LossyArrow, apps: dict[str, Application], reader: str, known: dict[str, Flattener], context: Context
) -> None:
    """Add the end that writes, and give the end that reads its type."""
    source = arrow.source
    name = source.element.name.text
    writer = known.get(name)
    if writer is None or name == reader or source.element.index is not None:
        inside = name == reader or writer is None
        if name not in context.poisoned:
            message = f"`{_text(source)}` is no task of another app"
            help_text = (
                "`latest` and `drop` join two apps: put what reads here into an app of its own" if inside else ""
            )
            context.fault("F219", message, source.span, help=help_text)
        return
    key = writer.output(source.inner)
    if isinstance(key, str):
        context.fault("F219", f"`{_text(source)}` is no output of app `{name}`", source.span, help=key)
        return
    writer.reads(key)
    app = apps[reader]
    end = app.task(arrow.task)
    assert end.link is not None
    port = apps[name].task(key[0]).port(key[1])
    wanted = _wanted(app, arrow.task)
    if wanted is not None and port.type is not None and wanted.type is not None and wanted.type != port.type:
        notes = [Note(f"{port.type} comes from here", port.span), Note(f"{wanted.type} is wanted here", wanted.span)]
        message = f"`{_text(source)}` is {port.type}, `{wanted.name}` is {wanted.type}"
        context.fault("F205", message, arrow.span, label="these do not fit", notes=notes)
    kind = port.type or (None if wanted is None else wanted.type)
    apps[reader] = _replaced(app, replace(end, outputs=(_typed(end.outputs[0], kind),)))
    apps[name] = _writing(apps[name], key, arrow, kind, end.link)


def _text(endpoint: s.Endpoint) -> str:
    return ".".join(e.name.text for e in (endpoint.element, *endpoint.inner))


def _wanted(app: Application, task: str) -> Port | None:
    """The input that reads from it."""
    return next((app.task(c.destination).port(c.destination_port) for c in app.channels if c.source == task), None)


def _typed(port: Port, kind: TensorType | None) -> Port:
    return replace(port, type=kind)


def _replaced(app: Application, task: Task) -> Application:
    return replace(app, tasks=tuple(task if t.name == task.name else t for t in app.tasks))


def _writing(
    app: Application, key: tuple[str, str], arrow: LossyArrow, kind: TensorType | None, link: Link
) -> Application:
    """The app with a sink that puts what the port makes on the link."""
    taken = {t.name for t in app.tasks}
    stem = f"{app.name}.to_{arrow.task.partition('.')[0]}"
    name = next(n for i in count(1) if (n := f"{stem}{i if i > 1 else ''}") not in taken)
    port = Port("in", "in", kind, (1,), False, arrow.span)
    link = replace(link, writes=True)
    end = Task(name, "link", (port,), (), (), (), (), False, arrow.wcet_ns, None, "", arrow.span, link=link)
    channel = Channel(f"{key[0]}.{key[1]}->{name}.in", *key, name, "in", 0, (), arrow.span)
    return replace(app, tasks=(*app.tasks, end), channels=(*app.channels, channel))


# -- periods -----------------------------------------------------------------------------------------------------------
def _paced(app: Application, context: Context) -> Application:
    """The app with the period that follows from the times between firings of its sources."""
    timed = [t for t in app.tasks if t.every_ns is not None]
    vector = repetition(app).vector if timed else {}
    if not vector:  # rates that do not balance are told elsewhere
        return app
    period = _iteration(timed[0], vector)
    notes = [Note(f"{_every(timed[0], vector)} gives {_ms(period)} for an iteration", timed[0].span)]
    for task in timed[1:]:
        if _iteration(task, vector) != period:
            right = period / vector[task.name]
            message = f"{_every(task, vector)} would give {_ms(_iteration(task, vector))} for an iteration"
            help_text = f"by the rates it is released every {_ms(right)}; an app of its own may have its own pace"
            context.fault("F218", message, task.span, notes=notes, help=help_text)
    if app.period_ns is not None and app.period_ns != period:
        message = f"the period of `{app.name}` is {_ms(app.period_ns)}"
        help_text = f"leave `period` out: `every` is enough, and stays right when rates change ({_ms(period)} now)"
        context.fault("F218", message, app.span, notes=notes, help=help_text)
    return replace(app, period_ns=period)


def _iteration(task: Task, vector: dict[str, int]) -> Fraction:
    assert task.every_ns is not None
    return task.every_ns * vector[task.name]


def _every(task: Task, vector: dict[str, int]) -> str:
    assert task.every_ns is not None
    times = f", {vector[task.name]} times," if vector[task.name] > 1 else ""
    return f"`{task.name.partition('.')[2]}` every {_ms(task.every_ns)}{times}"


def _ms(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:g} ms"
