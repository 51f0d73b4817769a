"""Open ends of an app: a task for each, and the port that arrows use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model.application import Port, Task
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope
from .wiring import Key, PortView, WiredEdge


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """An `in` (a source) or `out` (a sink) of an app; `edge` joins its task to the port."""

    view: PortView
    task: Task
    edge: WiredEdge

    @property
    def key(self) -> Key:
        """The port of its task."""
        return self.task.name, self.view.key[1]


def open_ends(
    declaration: s.AppDecl, evaluate: Evaluator, context: Context, scope: Scope
) -> Iterator[OpenEnd]:
    """The open ends of an app; faults go to the context. `scope` are the parameters of a graph that
    became an app.
    """
    app = declaration.name.text
    first: dict[str, s.Boundary] = {}
    for part in declaration.items:
        if not isinstance(part, s.Boundary):
            continue
        name = part.name.text
        if name in first:
            context.called_twice("ports", part.name, first[name].span)
            continue
        first[name] = part
        type_ = None
        rates = evaluate.rates(part.rate, scope, part.span) or (1,)
        if part.type is None:
            help_text = f"write `{part.direction} {name}: TYPE`"
            context.fault("F602", f"open end `{name}` has no type", part.span, help=help_text)
        else:
            type_ = evaluate.type(part.type, scope)
        yield _open_end(app, part, type_, rates)


def _open_end(
    app: str, part: s.Boundary, type_: TensorType | None, rates: tuple[int, ...]
) -> OpenEnd:
    """An open end with its task: an input is a source of its app, an output a sink."""
    name, span = part.name.text, part.span
    view = PortView(type_, span, (app, name), part.direction)
    task = Task(
        f"{app}.{name}",
        part.direction,
        (),
        (),
        (),
        (),
        (),
        False,
        (),
        None,
        "",
        span,
        border=part.direction,
    )
    key = task.name, name
    count = name if part.rate is not None else ""
    port = Port(name, "out", type_, rates, bool(count), span, count=count)
    if part.direction == "in":
        source = replace(task, outputs=(port,), live=True)
        return OpenEnd(view, source, WiredEdge(key, view.key, (), span))
    sink = replace(task, inputs=(replace(port, direction="in"),))
    return OpenEnd(view, sink, WiredEdge(view.key, key, (), span))
