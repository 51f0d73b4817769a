"""Alternatives behind one task: which of them a frame takes is fixed once, for all tasks of the
frame.

So a state can follow another one between two frames, while older ones are under way. A change at
once goes further: an inference under way is broken off, and its frame is done again with the next
alternative.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code, Network
from .memory import Rehearsal
from .segments import Segments
from .tokens import Port


class Pick:
    """Which state counts for each iteration of an app; whatever is chosen for one counts for all
    later ones.

    `asked` is the newest iteration that was asked for, `done` the newest of which something was
    computed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: List[int] = [0]
        self._states: List[str] = [""]
        self.asked = self.done = -1
        self._under_way: Dict[int, Tuple[int, Any]] = {}

    def begin(self, stays: Sequence[Tuple[str, int]]) -> None:
        """Anew: states, each with the first iteration that it counts for."""
        with self._lock:
            self._states, self._marks = [s for s, _ in stays], [m for _, m in stays]
            self.asked = self.done = -1

    def of(self, iteration: int) -> str:
        """The state that counts for an iteration, from now on."""
        with self._lock:
            return self._fixed(iteration)

    def _fixed(self, iteration: int) -> str:
        if iteration > self.asked:
            self.asked = iteration
        return self._states[bisect_right(self._marks, iteration) - 1]

    def follow(self, state: str, least: int, at_once: bool) -> int:
        """Another state counts from the first iteration on that was not asked for yet (at once: not
        computed yet).

        That is `least` at least. Inferences under way for it, or for later ones, are broken off.
        """
        with self._lock:
            mark = max(least, 1 + (self.done if at_once else self.asked))
            self._marks.append(mark)
            self._states.append(state)
            for iteration, options in self._under_way.values():
                if iteration >= mark:
                    options.terminate = True
            return mark

    def start(self, iteration: int, options: Any) -> str:
        """An inference begins, which `options` can break off; the state that counts for it so
        far."""
        with self._lock:
            self._under_way[id(options)] = iteration, options
            return self._fixed(iteration)

    def stop(self, iteration: int, options: Any, state: str, good: bool) -> bool:
        """It is over. Does the state still count, so that what it made stands?"""
        with self._lock:
            del self._under_way[id(options)]
            stands = self._fixed(iteration) == state
            if stands and good and iteration > self.done:
                self.done = iteration
            return stands

    def stretches(self, until: int) -> Iterator[Tuple[str, int]]:
        """States with how many of the first `until` iterations they counted for, one stretch after
        another."""
        with self._lock:
            ends, states = [*self._marks[1:], until], list(self._states)
            marks = list(self._marks)
        for state, first, end in zip(states, marks, ends):
            yield state, max(0, min(end, until) - first)


class AlternativeUse:
    """What an alternative has done; times in ns."""

    def __init__(self) -> None:
        self.firings = self.busy = self.squares = self.longest = 0
        #: Firings before the apps of its state began anew the last time.
        self.before = 0


class Select(Code):
    """`alternatives`: for each state the name that the task has there, and its code."""

    has_weights = True

    def __init__(self, alternatives: Sequence[Tuple[str, str, Code]]) -> None:
        self._codes = {state: code for state, _, code in alternatives}
        self._names = {state: name for state, name, _ in alternatives}
        self._shares = {name: AlternativeUse() for _, name, _ in alternatives}
        self._of_name = {name: code for _, name, code in alternatives}
        self.pick = Pick()
        self.per_iteration = 1
        #: Can an inference be broken off?
        self.breaks = False

    @property
    def shares(self) -> Dict[str, Any]:
        return self._shares

    def alternatives(self) -> List[Tuple[str, Code]]:
        return list(self._of_name.items())

    def meet(self, task: Any, run: Any) -> None:
        task.app.pick = self.pick = task.app.pick or self.pick

    def fired_per_iteration(self, firings: int) -> None:
        self.per_iteration = firings

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Its codes are opened one by one."""

    def rehearsals(self) -> List[Rehearsal]:
        return [run for code in self._of_name.values() for run in code.rehearsals()]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        iteration, begin = firing // self.per_iteration, time.perf_counter_ns()
        if self.breaks:
            state, made = self._until_it_stands(inputs, firing, iteration)
        else:
            state = self.pick.of(iteration)
            made = self._codes[state].fire(inputs, firing)
        spent, share = time.perf_counter_ns() - begin, self._shares[self._names[state]]
        share.busy += spent  # replicas may lose an update to each other: these are statistics
        share.squares += spent * spent
        if spent > share.longest:
            share.longest = spent
        return made

    def _until_it_stands(
        self, inputs: Sequence[np.ndarray], firing: int, iteration: int
    ) -> Tuple[str, Any]:
        pick = self.pick
        while True:
            options = stoppable()
            state = pick.start(iteration, options)
            code, good = self._codes[state], False
            assert isinstance(code, (Network, Segments))
            try:
                made = code.fire(inputs, firing, options)
                good = True
            except Exception:
                # It may have been broken off, and its state may count again: another replica has
                # ended meanwhile.
                if pick.stop(iteration, options, state, False) and not options.terminate:
                    raise
                continue
            if pick.stop(iteration, options, state, good):
                return state, made

    def named(self, firing: int) -> Optional[Tuple[str, int]]:
        """What the task is called in the state that counts for a firing, and the firing's number
        under this name."""
        iteration, rest = divmod(firing, self.per_iteration)
        name = self._names[self.pick.of(iteration)]
        return name, self._shares[name].before + self._counts(iteration)[
            name
        ] * self.per_iteration + rest

    def _counts(self, iterations: int) -> Dict[str, int]:
        """How many of the first iterations were whose."""
        found = dict.fromkeys(self._shares, 0)
        for state, count in self.pick.stretches(iterations):
            found[self._names[state]] += count
        return found

    def leave(self, iterations: int) -> Dict[str, int]:
        """The apps of the state have had so many iterations, and end or begin anew: the firings
        under each name."""
        found = {
            name: count * self.per_iteration for name, count in self._counts(iterations).items()
        }
        for name, firings in found.items():
            self._shares[name].firings += firings
        return found


def stoppable() -> Any:
    """Options of a run that can be broken off, without a word of ONNX Runtime about it."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    return options
