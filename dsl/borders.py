"""Open ends of an app: a task for each, and the port that arrows use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model.application import Port, Task
from ..model.diagnostic import Note
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope
from .wiring import Edge, Key, PortView


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """An `in` (a source) or `out` (a sink) of an app; `edge` joins its task to the port."""

    view: PortView
    task: Task
    edge: Edge

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
            notes = [Note("the first one", first[name].span)]
            context.fault("F102", f"two ports are called `{name}`", part.name.span, notes=notes)
            continue
        first[name] = part
        if part.type is None:
            help_text = f"write `{part.direction} {name}: TYPE`"
            context.fault("F602", f"open end `{name}` has no type", part.span, help=help_text)
        kind = None if part.type is None else evaluate.type(part.type, scope)
        view = PortView(kind, part.span, (app, name), part.direction)
        source = part.direction == "in"
        port = Port(name, "out" if source else "in", kind, (1,), False, part.span)
        inputs, outputs = ((), (port,)) if source else ((port,), ())
        task = Task(
            f"{app}.{name}",
            part.direction,
            inputs,
            outputs,
            (),
            (),
            (),
            False,
            (),
            None,
            "",
            part.span,
        )
        key = task.name, name
        edge = Edge(key, view.key, (), part.span) if source else Edge(view.key, key, (), part.span)
        yield OpenEnd(view, replace(task, live=source, border=part.direction), edge)
