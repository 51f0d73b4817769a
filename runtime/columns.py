"""All firings of a task for the requests of a batch, one behind the other: a column.

In: a program whose apps take requests in batches. Out: the tasks that fire in columns, and how. The
tokens of all firings of an iteration are taken at once, and what they make is handed on at once, so
that waiting, counting and waking others happen once in a batch.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .failures import NO_SOURCE
from .graph import App, Task, signed
from .tokens import Missing, Pieces, TaskError, freeze, split_outputs
from .worker import record_path_ends

if TYPE_CHECKING:
    from .program import Program
    from .worker import Worker


def find_columns(program: Program) -> None:
    """Say which tasks fire in columns, once channels are known.

    Where every entry of an order fires a task for a whole iteration, and channels have room for
    one, waiting for all firings at once is waiting for nothing more: what a firing takes does not
    depend on what the others of its task have made.
    """
    if program.control is not None or program.run.transport is not None:
        return
    split = {
        entry.task.app
        for processor in program.processors
        for entry in processor.order
        if entry.times < entry.task.per_iteration or processor.scheduling is not None
    }
    for app in program.apps:
        if app not in split and _is_in_batches(app):
            for task in app.tasks:
                if _fits(task):
                    task.column = Column(task)


def _is_in_batches(app: App) -> bool:
    return any(task.code.requests(task.outputs) for task in app.tasks) and not any(
        channel.delay for channel in app.channels
    )


def _fits(task: Task) -> bool:
    """Does it take and make plain tokens, as many at each firing, with room for all of them?"""
    code = task.code
    if task.is_source or task.from_device or code.device is not None or code.batch > 1:
        return False
    ends = [(port, [feeder]) for port, feeder in zip(task.inputs, task.feeders)]
    ends += [(port, list(channels)) for port, channels in zip(task.outputs, task.readers)]
    for port, channels in ends:
        if len(port.rates) > 1 or port.window or port.bounded or port.dtype.kind == "O":
            return False
        tokens = port.rates[0] * task.per_iteration
        if any(channel is None or channel.capacity < tokens for channel in channels):
            return False
    return True


class Column:
    """The firings of a task in an iteration."""

    def __init__(self, task: Task) -> None:
        self._task, self._times = task, task.per_iteration
        self._call: Callable[..., Any] = _not_open
        self._quick = False
        #: The type of the only output, where an array of it needs no closer look.
        self._plain: Optional[Tuple[np.dtype[Any], Tuple[int, ...]]] = None
        if len(task.outputs) == 1 and not task.outputs[0].count:
            self._plain = task.outputs[0].dtype, task.outputs[0].block_shape(0)

    def prepare(self) -> None:
        """After its code was opened."""
        task = self._task
        # One that begins anew after a failure has another function then.
        quick = None if task.on_error == "restart" else task.code.caller(0)
        if quick is not None:
            self._call, self._quick = signed(quick, task.name), True

    def fire(self, worker: Worker, iteration: int) -> None:
        """All of them. Raises EndOfStream and Stopped as a single firing does."""
        task, run, line = self._task, worker.of_run, worker.line
        first = iteration * self._times
        if task.opens:
            task.app.begin(iteration)
        rows = self._taken(worker, first)
        made: List[Sequence[Any]] = []
        start = worker.enter(task, first)
        try:
            for firing, arrays in enumerate(rows, first):
                missing: Any = next((a for a in arrays if isinstance(a, Missing)), None)
                if missing is not None:
                    made.append(self._left_out(worker, firing, iteration, missing))
                    continue
                line[1], line[2] = firing, start
                line[0] = task.number
                try:
                    made.append(self._made(worker, firing, arrays))
                except BaseException as error:
                    made.append(worker.failed(error, task, firing, 1, iteration))
                end = time.perf_counter_ns()
                self._tell(worker, firing, start, end)
                start = end
        finally:
            if run.strayed:
                run.end_stray(task, line[1])
            line[0] = 0
        self._hand_on(first, made)
        worker.progress += 1

    def _taken(self, worker: Worker, first: int) -> List[Sequence[Any]]:
        """What each firing takes, once there is room for what all make."""
        task, times = self._task, self._times
        if task.turnstile is not None:
            task.turnstile.enter(first, worker)
        columns = [
            channel.acquire_each(times, port.rates[0], port.stacked, worker)  # type: ignore[union-attr]
            for port, channel in zip(task.inputs, task.feeders)
        ]
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels:
                channel.claim(times * port.rates[0], worker)
        if task.turnstile is not None:
            task.turnstile.leave(times)
        return list(zip(*columns))

    def _left_out(self, worker: Worker, firing: int, iteration: int, missing: Any) -> Sequence[Any]:
        """What a firing hands on for which tokens are missing."""
        task, run = self._task, worker.of_run
        if not missing.expected:
            task.firings += 1
            return worker.left_out(task, firing, 1, iteration)
        task.absent += 1
        if run.recorder is not None:
            run.recorder(task, firing, 1, None, None)
        return [missing.passed(port, port.rates[0]) for port in task.outputs]

    def _made(self, worker: Worker, firing: int, arrays: Sequence[Any]) -> Sequence[Any]:
        """What a firing makes."""
        task, run = self._task, worker.of_run
        if self._quick:
            results = self._called(arrays, firing)
        else:
            results = worker.call(task, list(arrays), firing, 1)
        if run.recorder is not None:
            run.recorder(task, firing, 1, list(arrays), results)
        if task.recorded is not None:
            task.recorded(firing, 1, results)
        return results

    def _called(self, arrays: Sequence[Any], firing: int) -> Sequence[Any]:
        try:
            result = self._call(*arrays)
        except StopIteration:
            raise TaskError(NO_SOURCE) from None
        if type(result) is np.ndarray and (result.dtype, result.shape) == self._plain:
            return (result,)
        task = self._task
        values = split_outputs(result, task.outputs) if task.outputs else ()
        made = [port.accept(value, firing) for port, value in zip(task.outputs, values)]
        if task.lists is not None:
            task.lists.agree(task.inputs + task.outputs, [*arrays, *made])
        return made

    def _tell(self, worker: Worker, firing: int, start: int, end: int) -> None:
        """What a firing took."""
        task, tracer = self._task, worker.of_run.tracer
        task.firings += 1
        worker.spend(task, end - start)
        if task.paths:
            record_path_ends(task, firing, 1, start, end)
        if tracer is not None:
            tracer.firing(worker.name, task, firing, 1, start, end)

    def _hand_on(self, first: int, made: Sequence[Sequence[Any]]) -> None:
        """Tokens and room for others."""
        task, times = self._task, self._times
        turn = None if task.turnstile is None else (first, times)
        for port, channels, blocks in zip(task.outputs, task.readers, zip(*made)):
            pieces: List[Any] = []
            for block in blocks:
                freeze(block)
                laid = port.laid(block)
                if isinstance(laid, Pieces):
                    pieces += laid.pieces
                elif isinstance(laid, Missing) or port.stacked:
                    pieces.append(laid)
                else:
                    pieces.append(laid[None])
            for channel in channels:
                channel.commit(InRow(pieces), times * port.rates[0], True, turn)
        for port, feeder in zip(task.inputs, task.feeders):
            feeder.release(times * port.rates[0])  # type: ignore[union-attr]


class InRow(Pieces):
    """What the firings of a column have made, on its way to channels."""

    def __init__(self, pieces: List[Any]) -> None:
        self.pieces = pieces


def _not_open(*inputs: Any) -> Any:
    raise AssertionError("fired before it was opened")
