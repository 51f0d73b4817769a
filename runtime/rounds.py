"""Straight rounds: what a worker does once its static order leaves nothing to decide.

In: a worker, and the function that the build has written for its order in rounds.py, or in
recorded_rounds.py where others are told what firings read and made. Out: rounds, one after the
other. `worker.py` does the first ones, and the last ones from wherever the stream ends; it does all
of them where the function cannot do what is asked for in this run.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from .chain import Chain, Sums, Windows, has_library
from .channel import EndOfStream, Stopped
from .code import C, address
from .failures import NO_SOURCE, RECORDED_ROUNDS, ROUNDS, Failure, describe, details_of
from .graph import Fire, Task, signed
from .modules import load
from .plan import Block, Segment, State, fire, name_of, pass_on
from .tokens import TaskError, freeze, joined, split_outputs

if TYPE_CHECKING:
    from .worker import Worker

#: Statistics are kept in variables, and handed over after so many ns.
TELL = 20_000_000
#: The same where the end of the first frames of a state has to be known.
TELL_OFTEN = 1_000_000
#: Workers begin side by side, and their functions are in one module.
_LOADING = threading.Lock()

#: What rounds.py says of a block that lies on a channel: task, output, firing, age, first token,
#: tokens.
_Lying = Tuple[int, int, int, int, int, int]


class Rounds:
    """The rounds of a worker. Call `enter` between two rounds; it returns where they stopped, or
    None: not yet.

    What has no underscore is for the function in rounds.py.
    """

    Stopped, EndOfStream = Stopped, EndOfStream
    freeze, join, address = staticmethod(freeze), staticmethod(joined), staticmethod(address)

    def __init__(self, worker: Worker, written: Callable[["Rounds"], Any]) -> None:
        self.worker = worker
        self.tasks = list(dict.fromkeys(entry.task for entry in worker.order))
        self.app = self.tasks[0].app
        self.run = self.app.run
        self.paced = self.app.period is not None and not self.run.full_speed
        self.tell_after = TELL if worker.control is None else TELL_OFTEN
        sums = Sums(len(self.tasks))
        self.take = sums.take
        self._windows = Windows(self.tasks)
        self.chain = partial(Chain, worker, self.tasks, sums, self._windows)
        self._rounds: Callable[[Dict[str, Any]], int] = written(self)

    # -- for the function --------------------------------------------------------------------------
    def expect(
        self,
        warm: int,
        blocks: Sequence[Sequence[str]],
        start: Mapping[Tuple[int, int], Sequence[_Lying]],
        in_c: Sequence[int] = (),
        releases: Sequence[int] = (),
        passing: Sequence[int] = (),
        guards: Optional[Mapping[Tuple[int, int], Tuple[int, int, int, int]]] = None,
    ) -> None:
        """What the rounds are written for. Raises Unexpected where the program is another one.

        From round `warm` on the channels look as in `start`. `blocks` are the variables of what
        tasks write; tasks `in_c` may be in chains, of others `releases` are kept, and those
        `passing` only pass tokens on. `guards`: on which token of a list a firing depends.
        """
        for number, task in enumerate(self.tasks):
            if (type(task.code) is C) != (number in in_c):
                raise Unexpected
            if number in releases and not task.releases:
                task.keep_releases()
            elif task.releases and number not in releases:
                raise Unexpected
        if in_c and not has_library(self.run.home):
            raise Unexpected
        self._warm, self._names, self._passing = warm, blocks, passing
        self._guards = guards or {}
        self._start: State = {}
        for (number, i), lying in start.items():
            channel = self.tasks[number].feeders[i]
            self._start[channel] = [self._segment(*where) for where in lying]
        self.done = list(self._done())

    def call(self, task: Task, phase: int) -> Callable[..., Any]:
        """The function that fires a task in a phase."""
        quick = task.code.caller(phase)
        if quick is not None:
            return signed(quick, task.name)
        fire, line = task.code.fire, self.worker.line

        def call(*inputs: Any) -> Any:
            return fire(inputs, line[1])

        return call

    def accept(self, task: Task) -> Callable[[Any, int], List[np.ndarray]]:
        """What a firing returned, as one read-only array for each output. Raises TaskError."""
        outputs = task.outputs

        def accept(result: Any, firing: int) -> List[np.ndarray]:
            found = [p.accept(v, firing) for p, v in zip(outputs, split_outputs(result, outputs))]
            for array in found:
                freeze(array)
            return found

        return accept

    def agree(self, task: Task) -> Callable[[Sequence[Any]], None]:
        """Looks whether lists with one count have one length. Raises TaskError."""
        agree: Callable[[Sequence[Any]], None] = partial(
            task.lists.agree, [*task.inputs, *task.outputs]
        )
        return agree

    def seen(self, task: Task) -> Callable[..., None]:
        """Tells who wants to know of a firing what it read and made; None where it was left out."""
        recorder, recorded = self.run.recorder, task.recorded

        def seen(firing: int, inputs: Any, outputs: Any) -> None:
            if recorder is not None:
                recorder(task, firing, 1, inputs, outputs)
            if recorded is not None and outputs is not None:
                recorded(firing, 1, outputs)

        return seen

    @staticmethod
    def again(token: np.ndarray, times: int) -> np.ndarray:
        """A token several times."""
        return np.broadcast_to(token, (times,) + token.shape)

    def leave(self, error: Optional[BaseException], position: int, blocks: Dict[str, Any]) -> int:
        """Put what lies in variables back on the channels; the entry to go on with."""
        worker, run = self.worker, self.run
        number, entry, task, offset = self._at(position)
        if run.strayed:  # what the board says is the other process's
            run.end_stray(task, (worker.round - entry.stage) * task.per_iteration + offset)
        firing, worker.line[0] = worker.firing, 0
        if error is not None:
            _ended(worker, entry, firing, error)
        self._write(position, blocks)
        self._windows.end()
        return 0 if error is None else number + 1

    # -- between rounds ----------------------------------------------------------------------------
    def enter(self) -> Optional[int]:
        """Run as many rounds as possible; the entry of the order to go on with."""
        # One round more than channels need to look the same, so that all of them have been as full
        # as they get.
        if self.worker.round <= self._warm:
            return None
        blocks = self._read()
        if blocks is None:
            return None
        self._windows.begin()
        return self._rounds(blocks)

    def _read(self) -> Optional[Dict[str, Any]]:
        """The blocks that lie on the channels, by variable; None where they do not look as they
        should."""
        found: Dict[str, Any] = {}
        for channel, segments in self._start.items():
            pieces = channel.pieces()
            if len(pieces) != len(segments):
                return None
            for (array, start), (block, first, count, single) in zip(pieces, segments):
                if (start < 0) != single or (
                    start >= 0 and (start, len(array) - start) != (first, count)
                ):
                    return None
                if found.setdefault(name_of(self._names, block), array) is not array:
                    return None
        return found

    def _write(self, position: int, blocks: Dict[str, Any]) -> None:
        """Put on the channels what lies there before that firing."""
        state = {channel: list(segments) for channel, segments in self._start.items()}
        for at, _, number, task, offset in self._sequence():
            if at == position:
                break
            if number in self._passing:
                assert task.code.passes_on is not None
                pass_on(state, task, task.code.passes_on, offset)
            else:
                fire(state, number, task, offset)
        for channel, segments in state.items():
            pieces: List[Tuple[Any, int]] = []
            for segment in segments:
                block = blocks[name_of(self._names, segment.block)]
                guard = self._guard(segment)
                if guard is None:
                    pieces.append(_piece(block, segment))
                else:
                    pieces += self._of_list(segment, guard, block)
            channel.replace(pieces, sum(segment.tokens for segment in segments))

    def _sequence(self) -> Iterator[Tuple[int, int, int, Task, int]]:
        """The firings of a round: position, entry, task and its number, firing in the iteration."""
        position = 0
        numbers = {task: number for number, task in enumerate(self.tasks)}
        for place, entry in enumerate(self.worker.order):
            number = numbers[entry.task]
            passes = number in self._passing
            for offset in range(entry.first, entry.first + entry.times):
                yield -1 if passes else position, place, number, entry.task, offset
                position += not passes

    def _at(self, position: int) -> Tuple[int, Fire, Task, int]:
        """The firing at a position: its entry, the task, the firing in the iteration."""
        for at, place, _, task, offset in self._sequence():
            if at == position:
                return place, self.worker.order[place], task, offset
        raise AssertionError("a round has no firing %d" % position)

    def _done(self) -> Iterator[List[int]]:
        """For every position: how often each task has fired before it in the round."""
        counts = [0] * len(self.tasks)
        for position, _, number, _, _ in self._sequence():
            if position >= 0:
                yield list(counts)
            counts[number] += 1
        yield counts

    # -- tokens ------------------------------------------------------------------------------------
    def _segment(
        self, number: int, output: int, firing: int, age: int, first: int, count: int
    ) -> Segment:
        single = not self.tasks[number].outputs[output].stacked
        return Segment(Block(number, output, firing, age), first, count, single)

    def _guard(self, segment: Segment) -> Optional[Tuple[int, int, int, int]]:
        """The list on which tokens depend; None for those that are always there."""
        number, output, firing, _ = segment.block
        if self.tasks[number].outputs[output].count:
            return number, output, firing, segment.first
        return self._guards.get((number, firing))

    def _of_list(
        self, segment: Segment, guard: Tuple[int, int, int, int], tokens: Any
    ) -> Iterator[Tuple[Any, int]]:
        """A segment as it lies on a channel for a worker, with null tokens for what is not there.
        `tokens` is what rounds have in its place."""
        _, first, count, single = segment
        of_list: Any = self.tasks[guard[0]].outputs[guard[1]]
        there = 0 if tokens is None else 1 if single else len(tokens[first : first + count])
        if there:
            yield (tokens, -1) if single else (tokens[first : first + there], 0)
        if there < count:
            yield of_list.null(count - there), 0


def _piece(array: Any, segment: Segment) -> Tuple[Any, int]:
    """A segment on a channel: to the end of an array."""
    _, first, count, single = segment
    if single:
        return array, -1
    return (array, first) if first + count == len(array) else (array[first : first + count], 0)


def _ended(
    worker: Worker, entry: Fire, inside: Optional[Tuple[Task, int, int]], error: BaseException
) -> None:
    """A round was left: the stream ends there, or everything does (Stopped)."""
    if inside is None:
        if not isinstance(error, EndOfStream):
            raise error  # between two firings: our own mistake
        return
    task, number, _ = inside
    if isinstance(error, EndOfStream) or (isinstance(error, StopIteration) and task.is_source):
        task.app.end_at(worker.round - entry.stage)
        return
    if isinstance(error, StopIteration):
        error = TaskError(NO_SOURCE)
    task.failed += 1
    task.app.run.fail(Failure(task.app.name, task.name, number, describe(error), details_of(error)))
    raise Stopped from None


class Unexpected(Exception):
    """The program is another one than that for which the build has written rounds: code was
    replaced, or is not compiled."""


def rounds_of(worker: Worker) -> Optional[Rounds]:
    """The rounds of a worker, or None where there are none, or others want to know more."""
    run = worker.order[0].task.app.run
    if run.tracer is not None or run.transport is not None or run.played is not None:
        return None
    written = written_for(worker)
    if written is None:
        return None
    try:
        return Rounds(worker, written)
    except Unexpected:
        return None


def written_for(worker: Worker) -> Optional[Callable[[Rounds], Any]]:
    """The function that the build has for a worker."""
    if not worker.written:
        return None
    tasks = {entry.task for entry in worker.order}
    run = worker.order[0].task.app.run
    recorded = run.recorder is not None or any(task.recorded is not None for task in tasks)
    file = RECORDED_ROUNDS if recorded else ROUNDS
    with _LOADING:
        module = load(os.path.join(run.home, file))
    found: Callable[[Rounds], Any] = getattr(module, worker.written)
    return found
