"""Times of firings with as much as bounds count: full runs of a batch, full lists, largest tokens.

In: the tasks of a program that is about to be measured; they are watched while it runs. Out: with
how much they fired, and the times of firings with more, after the run: on data of the application,
repeated until there are enough of them. Only what keeps nothing between firings is fired again: a
network, and a function in Python that hands on what it makes.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np

from .samples import FEWEST

#: Inputs that are kept of each task, the last ones.
KEPT = 4
#: Most firings of one size, and seconds after which there are no more; the first one is left out.
MOST, SECONDS, LEAST = 30, 0.5, 2

#: For each port, tokens of a list and places of a token.
Counts = Dict[str, Tuple[int, int]]


class Watched:
    """A task that may fire with less than bounds count."""

    def __init__(self, task: Any) -> None:
        self._task, self._code = task, task.code
        self._varying = [p for p in (*task.inputs, *task.outputs) if p.count or p.bounded]
        self._inputs: List[List[Any]] = []
        self._fire: Callable[[Sequence[Any], int], Any] = _not_begun
        self.counts: Counts = {}

    @property
    def varies(self) -> bool:
        """May it fire with less than bounds count?"""
        return self._code.batch > 1 or bool(self._varying)

    def begin(self) -> None:
        """Watch its firings from now on."""
        code = self._code
        if code.batch == 1:
            self._fire = code.fire
            code.fire, code.caller = self._seen, lambda phase: None
            return
        fire_batch = code.fire_batch

        def keep_and_fire(inputs: Sequence[Any]) -> Any:
            self._keep(inputs)
            return fire_batch(inputs)

        self._fire = lambda inputs, firing: fire_batch(inputs)
        code.fire_batch = keep_and_fire

    def _seen(self, inputs: Sequence[Any], firing: int) -> Any:
        made = self._fire(inputs, firing)
        self._keep(inputs)
        outputs = self._task.outputs
        several = isinstance(made, tuple) or (isinstance(made, list) and len(outputs) > 1)
        values = made if several else (made,)
        for port, value in (*zip(self._task.inputs, inputs), *zip(outputs, values)):
            if port.count or port.bounded:
                tokens, places = self.counts.get(port.name, (0, 0))
                seen = _counted(port, value)
                self.counts[port.name] = max(tokens, seen[0]), max(places, seen[1])
        return made

    def _keep(self, inputs: Sequence[Any]) -> None:
        if not self._inputs or all(each.shape[:1] != (0,) for each in inputs):
            self._inputs.append(list(inputs))
            del self._inputs[:-KEPT]

    # -- after the run -----------------------------------------------------------------------------
    @property
    def _size(self) -> int:
        """The firings of the largest run."""
        return int(min(self._code.batch, self._task.per_iteration))

    def runs(self, beat: Callable[[], None]) -> Dict[int, List[int]]:
        """Times of whole runs in ns, by how many firings they compute: 1, 2, 4 and so on up to a
        full one, which comes first, and is the only one of code that computes no fewer."""
        found: Dict[int, List[int]] = {}
        if self._size == 1 or not self._inputs:
            return found
        sizes = [self._size]
        while self._code.computes_fewer and sizes[-1] > 1:
            sizes.append(1 << ((sizes[-1] - 1).bit_length() - 1))
        for size in sizes:
            inputs = [_repeated(np.concatenate(column), size) for column in zip(*self._inputs)]
            found[size] = _times(partial(self._fire, inputs, 0), beat)
        return found

    def full(self, beat: Callable[[], None]) -> List[int]:
        """Times of firings with full lists of the largest tokens in ns; empty where the task fires
        no such ones, or is not fired again."""
        if self._size > 1 or not self._inputs or not self._may_fire_again:
            return []
        inputs = [
            _full(port, value) if port.count or port.bounded else value
            for port, value in zip(self._task.inputs, self._inputs[-1])
        ]
        try:
            return _times(partial(self._seen, inputs, 0), beat)
        except Exception:  # such data are none of this task: its times stay what they are
            return []

    @property
    def _may_fire_again(self) -> bool:
        code = self._code.innermost
        taken = any(p.count or p.bounded for p in self._task.inputs)
        if not taken or not self._task.outputs:
            return False
        is_function = hasattr(code, "parameters") and getattr(code, "_object", 0) is None
        return is_function or code.has_weights


def _times(fire: Callable[[], Any], beat: Callable[[], None]) -> List[int]:
    """Times of some firings in ns."""
    times: List[int] = []
    end = time.monotonic() + SECONDS
    while len(times) <= MOST:
        begin = time.perf_counter_ns()
        fire()
        times.append(time.perf_counter_ns() - begin)
        beat()
        if len(times) > LEAST and time.monotonic() > end:
            break
        if len(times) > FEWEST and time.monotonic() > end - SECONDS / 2:
            break
    return times[1:]


def _counted(port: Any, value: Any) -> Tuple[int, int]:
    """How many tokens there are, and the places of the largest one."""
    tokens: Sequence[Any] = value if port.stacked else [value]
    places = 0
    if port.bounded:
        for token in tokens:
            shape = np.shape(token)
            places = max(places, _product(shape[axis] for axis in port.bounded))
    return len(tokens), places


def _product(numbers: Iterator[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


def _repeated(tokens: Any, count: int) -> Any:
    """So many of these tokens, again and again."""
    return np.resize(tokens, (count, *tokens.shape[1:]))


def _full(port: Any, value: Any) -> Any:
    """As many tokens as the port can take, each as large as it can be."""
    if not port.bounded:
        return _repeated(value, port.rates[0]) if len(value) else value
    tokens = [np.resize(t, port.shape) for t in (value if port.stacked else [value])]
    if not port.stacked:
        return tokens[0]
    wanted = port.rates[0]
    return type(value)((tokens * wanted)[:wanted])


def watch(tasks: Sequence[Any]) -> Dict[str, Watched]:
    """The tasks that may fire with less than bounds count, watched as soon as they are prepared:
    their calls get the names of tasks then."""
    found = {}
    for task in tasks:
        watched = Watched(task)
        if watched.varies and not task.code.alternatives():
            task.sign_calls = _both(task.sign_calls, watched.begin)
            found[task.name] = watched
    return found


def _both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        then()

    return both


def _not_begun(inputs: Sequence[Any], firing: int) -> Any:
    raise AssertionError("fired before it was watched")
