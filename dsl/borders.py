"""Open ends of an app: a task for each, and the port that arrows use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ..model.application import REQUESTS, Port, Task
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope
from .wiring import Key, PortView, WiredEdge


@dataclass(frozen=True, slots=True)
class Requests:
    """How an app takes requests: `most` together, those that come `within_ns` of the first."""

    most: int
    within_ns: Fraction


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
    declaration: s.AppDecl,
    evaluate: Evaluator,
    context: Context,
    scope: Scope,
    requests: Requests | None,
) -> Iterator[OpenEnd]:
    """The open ends of an app; faults go to the context. `scope` are the parameters of a graph that
    became an app, `requests` are there if it takes them in batches.
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
        if requests is not None and part.rate is not None:
            help_text = "without `rate` each request has one token there"
            message = f"open end `{name}` has a list, and the app takes requests in batches"
            context.fault("F229", message, part.span, help=help_text)
        end = _open_end(app, part, type_, rates)
        yield end if requests is None or part.rate is not None else _of_requests(end, requests)


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


def _of_requests(end: OpenEnd, requests: Requests) -> OpenEnd:
    """An open end of an app that takes requests in batches: an `in` has a list of them, an `out`
    fires for each."""
    if end.task.border == "out":
        return end
    (port,) = end.task.outputs
    listed = replace(port, rates=(requests.most,), stacked=True, count=REQUESTS)
    return replace(end, task=replace(end.task, outputs=(listed,), within_ns=requests.within_ns))
