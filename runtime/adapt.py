"""A network in two stages whose cut moves at run time, among cuts that are loaded already.

Every frame carries the number of its cut from the front to the back, so that frames neither get
lost nor change their order when the cut moves. How long both sides take is measured all the time;
when another cut would balance them clearly better (another program takes a core), it is used from
the next frame on.
"""

from __future__ import annotations

import abc
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .memory import LoadedSession, Rehearsal
from .own_graph import APART, opened
from .tokens import Port

#: Frames and seconds that are looked at before the cut may move.
WINDOW, SECONDS = 20, 0.3
#: A move has to promise this much, and to keep this much of the time between frames.
CLEARLY, KEPT = 0.93, 0.98
#: After a move that was none, that many windows pass before the next, then twice as many, up to the
#: last number.
PAUSE = (2, 32)


class Variant:
    """One cut, after `layer`: the files of both sides with the tensors that they read and make.

    `work` is what front and back take, in any unit: ratios count.
    """

    def __init__(
        self,
        layer: str,
        front: Tuple[str, Sequence[str], Sequence[str]],
        back: Tuple[str, Sequence[str], Sequence[str]],
        work: Tuple[float, float],
    ) -> None:
        self.layer, self.front, self.back, self.work = layer, front, back, work


class Cut:
    """Where a network is cut now, and what is known of both sides.

    `others` is the work of the other tasks on the processors of both sides, in the unit of the
    variants; `common` is the file that lists the weights that all of them have in common.
    """

    def __init__(
        self,
        name: str,
        variants: Sequence[Variant],
        start: int,
        others: Tuple[float, float] = (0.0, 0.0),
        common: str = "",
    ) -> None:
        self.name, self.variants, self.others = name, list(variants), others
        self.common = common
        self.current = start
        self.moves = 0
        self.paced = False
        self.say: Callable[[str], None] = lambda text: None
        self._lock = threading.Lock()
        self._spent: Tuple[List[int], List[int]] = ([], [])
        self._since = 0
        self._trial: Optional[Tuple[int, float]] = None
        self._pause = self._wait = 0

    def beside(self, variant: int) -> float:
        """How much of the time of a back the other tasks on its processor take."""
        work = self.variants[variant].work[1]
        return self.others[1] / work if work else 0.0

    def took(self, side: int, variant: int, ns: int) -> None:
        """The front (0) or the back (1) has worked on a frame; maybe the cut moves."""
        with self._lock:
            if variant != self.current:
                return
            now = time.perf_counter_ns()
            if side == 1 and not self._spent[1]:
                self._since = now
            self._spent[side].append(ns)
            count = min(len(s) for s in self._spent)
            if side == 1 and count > WINDOW and now - self._since > SECONDS * 1e9:
                self._consider((now - self._since) / (len(self._spent[1]) - 1))
                self._spent = ([], [])

    def _consider(self, period: float) -> None:
        """Go back if the last move was none, else move if another cut promises to be clearly
        better.

        Each side is slower than planned by some factor, which holds for all that its processor
        does. Means, not medians: a core that is shared gives some frames all of its time and others
        none.
        """
        if self._trial is not None:
            before, then = self._trial
            self._trial = None
            if period > KEPT * then:
                self.current = before
                self._pause = min(max(PAUSE[0], 2 * self._pause), PAUSE[1])
                self._wait = self._pause
                return
            self.moves += 1
            self._pause = 0
            self.say("the cut of %s moved to `%s`" % (self.name, self.variants[self.current].layer))
        if self._wait:
            self._wait -= 1
            return
        work = self.variants[self.current].work
        slow = [sum(s) / len(s) / w if w else 1.0 for s, w in zip(self._spent, work)]

        def load(variant: Variant) -> float:
            return max(f * (w + o) for f, w, o in zip(slow, variant.work, self.others))

        best = min(range(len(self.variants)), key=lambda k: load(self.variants[k]))
        if load(self.variants[best]) < CLEARLY * load(self.variants[self.current]):
            self._trial = (self.current, period)
            self.current = best


class _Frame:
    """What goes from the front to the back: the number of the cut, tensors by name, and since
    when."""

    def __init__(self, variant: int, tensors: Dict[str, np.ndarray]) -> None:
        self.variant, self.tensors = variant, tensors
        self.ready = time.perf_counter_ns()


class _Side(Code):
    exact = False

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        #: After `open`: why each cut has weights of its own; empty where they are in common.
        self.apart = ""
        self._parts: List[LoadedSession] = []

    def _load(self, home: str, files: Sequence[str]) -> None:
        sessions, self.apart = opened(home, files, self.cut.common)
        self._parts = [LoadedSession(made) for made in sessions]

    @property
    def layout(self) -> str:
        """Where weights are not in common although they could be, why."""
        return APART + self.apart if self.apart else ""

    def rehearsals(self) -> List[Rehearsal]:
        blocks = self._by_size()
        return [run for k, part in enumerate(self._parts) for run in part.rehearsals(blocks[k])]

    @abc.abstractmethod
    def _by_size(self) -> List[int]:
        """Numbers that grow with the layers of a part, whose bytes are not counted."""


class Front(_Side):
    """The layers up to the cut; `inputs` are the tensors of its input ports."""

    has_weights = True

    def __init__(self, cut: Cut, inputs: Sequence[str]) -> None:
        _Side.__init__(self, cut)
        self._inputs = list(inputs)

    def meet(self, task: Any, run: Any) -> None:
        self.cut.say = run.say
        self.cut.paced = task.app.period is not None and not run.full_speed

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._load(home, [v.front[0] for v in self.cut.variants])

    def _by_size(self) -> List[int]:
        return list(range(len(self._parts)))

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        number = self.cut.current
        _, reads, _ = self.cut.variants[number].front
        begin = time.perf_counter_ns()
        tensors = dict(zip(self._inputs, inputs))
        tensors.update(self._parts[number].run({n: tensors[n] for n in reads}))
        self.cut.took(0, number, time.perf_counter_ns() - begin)
        token = np.empty((), object)
        token[()] = _Frame(number, tensors)
        return token


class Back(_Side):
    """The layers after the cut; `outputs` are the tensors of its output ports."""

    def __init__(self, cut: Cut, outputs: Sequence[str]) -> None:
        _Side.__init__(self, cut)
        self._outputs = list(outputs)
        self._ended = 0

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._load(home, [v.back[0] for v in self.cut.variants])

    def _by_size(self) -> List[int]:
        return list(range(len(self._parts)))[::-1]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        frame: _Frame = inputs[0][()]  # type: ignore[assignment]
        _, reads, _ = self.cut.variants[frame.variant].back
        begin = time.perf_counter_ns()
        made = self._parts[frame.variant].run({n: frame.tensors[n] for n in reads})
        end = time.perf_counter_ns()
        late = 0
        if not self.cut.paced:
            # On a core that is shared, a thread that slept is served late: that is the core's
            # slowness as well. What else the worker did since the last frame is not, nor is waiting
            # for a release.
            late = (
                begin
                - max(frame.ready, self._ended)
                - int(self.cut.beside(frame.variant) * (end - begin))
            )
        self._ended = end
        self.cut.took(1, frame.variant, end - begin + max(0, late))
        found = dict(frame.tensors)
        found.update(made)
        return tuple(found[n] for n in self._outputs)
