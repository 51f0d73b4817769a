"""Edges between ports of units to channels between tasks, with the clauses on them.

In: the tasks of an app, and edges whose ends are their ports or knots (ports of composites). Out: a
channel for each input of a task, two if a `repeat` or `last` is between, and the resampling tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, count

from ..model.application import Channel, Port, Task
from ..model.span import Span
from ..model.types import TensorType
from .context import Context
from .wiring import InitialTokens, Key, Resampled, Step, WiredEdge

#: An app with more values of initial tokens in all has a mistake in a number.
MOST_INITIAL = 1_000_000


class Channels:
    """The channels of one app: call `made` once. Then `resampling` are the tasks on arrows."""

    def __init__(self, context: Context, tasks: Iterable[Task], edges: Iterable[WiredEdge]) -> None:
        self._context = context
        self._tasks = tuple(tasks)
        self._names = {t.name for t in self._tasks}
        self._types: dict[Key, TensorType | None] = {}
        for task in self._tasks:
            self._types.update(((task.name, port.name), port.type) for port in task.outputs)
        self._following: dict[Key, list[WiredEdge]] = defaultdict(list)
        for edge in edges:
            self._following[edge.source].append(edge)
        self._initial = 0
        self.resampling: list[Task] = []

    def made(self) -> Iterator[Channel]:
        """Follow every task output through the knots to task inputs; faults go to the context."""
        leaves: set[Key] = set()
        for task in self._tasks:
            leaves.update((task.name, port.name) for port in (*task.inputs, *task.outputs))
        for task in self._tasks:
            for port in task.outputs:
                stack = [
                    (edge, edge.steps) for edge in reversed(self._following[task.name, port.name])
                ]
                while stack:
                    edge, steps = stack.pop()
                    if edge.destination in leaves:
                        if not self._may_hold(steps, edge.span):
                            return
                        yield from self._joined((task.name, port.name), edge, steps)
                    else:
                        stack.extend(
                            (e, (*steps, *e.steps))
                            for e in reversed(self._following[edge.destination])
                        )

    def _may_hold(self, steps: Iterable[Step], span: Span) -> bool:
        """Count values of initial tokens, before they are listed."""
        delays = [s for s in steps if isinstance(s, InitialTokens)]
        if any(s.values for s in delays):
            self._initial += sum(s.count for s in delays)
        if self._initial > MOST_INITIAL:
            message = f"more than {MOST_INITIAL} initial tokens with values"
            self._context.fault(
                "F105", message, span, help="without a value, tokens are zero and need no list"
            )
        return self._initial <= MOST_INITIAL

    def _joined(self, source: Key, edge: WiredEdge, steps: Iterable[Step]) -> Iterator[Channel]:
        """One channel, or those to and from each resampling task on the way."""
        here, delays = source, list[InitialTokens]()
        for step in steps:
            if isinstance(step, InitialTokens):
                delays.append(step)
                continue
            task = self._resampling(step, source, edge.destination)
            yield self._channel(here, (task.name, "in"), delays, edge.span)
            here, delays = (task.name, "out"), []
        yield self._channel(here, edge.destination, delays, edge.span)

    def _resampling(self, step: Resampled, source: Key, destination: Key) -> Task:
        """The task for one `repeat` or `last`, named after its arrow."""
        what, kind = step.what, self._types.get(source)
        few, many = (what.block,), (what.count * what.block,)
        taken, made = (few, many) if what.word == "repeat" else (many, few)
        app, _, writer = source[0].partition(".")
        reader = destination[0].partition(".")[2]
        word = str(what).replace(" ", "")  # names stand side by side in schedules
        plain = f"{app}.{writer}->{word}->{reader}"
        exact = f"{app}.{writer}.{source[1]}->{word}->{reader}.{destination[1]}"
        wanted = chain((plain, exact), (f"{exact} ({n})" for n in count(2)))
        name = next(n for n in wanted if n not in self._names)
        self._names.add(name)
        ports = (
            Port("in", "in", kind, taken, taken[0] > 1, step.span),
            Port("out", "out", kind, made, made[0] > 1, step.span),
        )
        task = Task(
            name,
            what.word,
            ports[:1],
            ports[1:],
            (),
            (),
            (),
            True,
            (Fraction(0),),
            None,
            "",
            step.span,
            resampling=what,
        )
        self._types[name, "out"] = kind
        self.resampling.append(task)
        return task

    def _channel(
        self, source: Key, destination: Key, delays: Iterable[InitialTokens], span: Span
    ) -> Channel:
        delay, values = _all_of(delays)
        type_ = self._types.get(source)
        if type_ is not None:
            self._check_values(values, type_, span)
        name = f"{'.'.join(source)}->{'.'.join(destination)}"
        return Channel(name, *source, *destination, delay, values, span)

    def _check_values(self, values: Iterable[Fraction], type_: TensorType, span: Span) -> None:
        """Report the first initial token that its type cannot hold."""
        several = {id(v): v for v in values}.values()  # a delay of many tokens repeats one value
        bad = next((v for v in several if not _fits(v, type_.dtype)), None)
        if bad is not None:
            shown = bad if bad.denominator == 1 else float(bad)
            message = f"the initial token {shown} is no {type_.dtype}"
            self._context.fault("F210", message, span, help="give values that the type can hold")


def _all_of(delays: Iterable[InitialTokens]) -> tuple[int, tuple[Fraction, ...]]:
    """Several delays in a row as one; tokens nearer to the destination are read first."""
    total, values = 0, tuple[Fraction, ...]()
    for delay in delays:
        if values or delay.values:
            values = (delay.values or (Fraction(0),) * delay.count) + (
                values or (Fraction(0),) * total
            )
        total += delay.count
    return total, values


def _fits(value: Fraction, dtype: str) -> bool:
    """Can a token of that dtype hold the value? Floating-point numbers round; whole ones do not."""
    if dtype == "bool":
        return value in (0, 1)
    if not dtype.startswith(("int", "uint")):
        return True
    signed, bits = dtype.startswith("int"), int(dtype.lstrip("uint"))
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return value.denominator == 1 and low <= value <= high
