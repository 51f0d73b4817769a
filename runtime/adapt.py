"""A network in stages whose cuts move at run time, among choices of cuts that are loaded already.

Every frame carries the number of its choice from stage to stage, so that frames neither get lost
nor change their order when a cut moves. How long all stages take is measured all the time; when
other cuts would balance them clearly better (another program takes a core), they are used from the
next frame on.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .memory import LoadedSession, Rehearsal
from .own_graph import APART, opened
from .tokens import Port, on_host

#: Frames and seconds that are looked at before the cut may move.
WINDOW, SECONDS = 10, 0.1
#: A move has to promise this much of the load; it may take this much of the time between frames.
#: More is allowed than before, since a load may have come with it.
CLEARLY, KEPT = 0.93, 1.1
#: After a move that is undone, that many windows pass before the next, then twice as many, up to
#: the last number.
PAUSE = (2, 32)


class Variant:
    """A choice of cuts, after `layers`: for each stage the file with the tensors that it reads and
    makes.

    `work` is what the stages take, in any unit: ratios count.
    """

    def __init__(
        self,
        layers: Sequence[str],
        parts: Sequence[Tuple[str, Sequence[str], Sequence[str]]],
        work: Sequence[float],
    ) -> None:
        self.layers, self.parts, self.work = list(layers), list(parts), list(work)


class Cut:
    """Where a network is cut now, and what is known of its stages.

    `others` is the work of the other tasks on the processors of each stage, in the unit of the
    variants. Stages with equal `places` share a processor (empty: none do). `common` is the file
    that lists the weights that all variants have in common.
    """

    def __init__(
        self,
        name: str,
        variants: Sequence[Variant],
        start: int,
        others: Sequence[float] = (),
        places: Sequence[int] = (),
        common: str = "",
    ) -> None:
        self.name, self.variants = name, list(variants)
        self.common = common
        #: The number of the last stage.
        self.last = len(self.variants[0].work) - 1
        self.others = list(others) or [0.0] * (self.last + 1)
        self.places = list(places) or list(range(self.last + 1))
        self.current = start
        self.moves = 0
        self.paced = False
        self.say: Callable[[str], None] = lambda text: None
        self._lock = threading.Lock()
        self._spent: List[List[int]] = [[] for _ in self.others]
        self._since = 0
        self._trial: Optional[Tuple[int, float]] = None
        self._pause = self._wait = 0

    def meet(self, task: Any, run: Any) -> None:
        """Before the first frame: the task of a stage, and the run that it is in."""
        self.say = run.warn_once
        self.paced = task.app.period is not None and not run.full_speed

    def beside(self, stage: int, variant: int) -> float:
        """How much of the time of a stage the other tasks on its processor take."""
        work = self.variants[variant].work[stage]
        return self.others[stage] / work if work else 0.0

    def took(self, stage: int, variant: int, ns: int) -> None:
        """A stage has worked on a frame; maybe cuts move."""
        with self._lock:
            if variant != self.current:
                return
            now = time.perf_counter_ns()
            if stage == self.last and not self._spent[stage]:
                self._since = now
            self._spent[stage].append(ns)
            count = min(len(s) for s in self._spent)
            if stage == self.last and count > WINDOW and now - self._since > SECONDS * 1e9:
                self._consider((now - self._since) / (len(self._spent[stage]) - 1))
                self._spent = [[] for _ in self.others]

    def _consider(self, period: float) -> None:
        """Go back if the last move made frames slower, else move if other cuts promise to be
        clearly better.

        Each stage is slower than planned by some factor, which holds for all that its processor
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
            layers = ", ".join("`%s`" % name for name in self.variants[self.current].layers)
            self.say("the cut of %s moved to %s" % (self.name, layers))
        if self._wait:
            self._wait -= 1
            return
        work = self.variants[self.current].work
        slow = [sum(s) / len(s) / w if w else 1.0 for s, w in zip(self._spent, work)]

        def load(variant: Variant) -> float:
            """Of the busiest processor."""
            own = [0.0] * len(slow)
            others = [0.0] * len(slow)
            for place, f, w, o in zip(self.places, slow, variant.work, self.others):
                own[place] += f * w
                others[place] = max(others[place], f * o)
            return max(a + b for a, b in zip(own, others))

        best = min(range(len(self.variants)), key=lambda k: load(self.variants[k]))
        if load(self.variants[best]) < CLEARLY * load(self.variants[self.current]):
            self._trial = (self.current, period)
            self.current = best


class Frame:
    """What goes from stage to stage: the number of the variant, tensors by name (on a device, or
    arrays), and since when."""

    def __init__(self, variant: int, tensors: Dict[str, Any], ready: int) -> None:
        self.variant, self.tensors, self.ready = variant, tensors, ready


def frame_of(cut: Cut, number: int, tensors: Sequence[str], inputs: Sequence[Any]) -> Frame:
    """The frame that a stage is given; the first one begins it with the `tensors` of its ports."""
    if number == 0:
        return Frame(cut.current, dict(zip(tensors, inputs)), 0)
    frame: Frame = inputs[0][()]
    return frame


def token_of(variant: int, tensors: Dict[str, Any]) -> np.ndarray:
    """A frame, for the next stage, from now on."""
    token = np.empty((), object)
    token[()] = Frame(variant, tensors, time.perf_counter_ns())
    return token


class Stage(Code):
    """The layers between two cuts; `tensors` are those of its ports that belong to the network."""

    exact = False
    has_weights = True

    def __init__(self, cut: Cut, number: int, tensors: Sequence[str]) -> None:
        self.cut, self.number = cut, number
        self._tensors = list(tensors)
        #: After `open`: why each variant has weights of its own; empty where they are in common.
        self.apart = ""
        #: By variant.
        self._parts: List[LoadedSession] = []
        self._ended = 0

    def meet(self, task: Any, run: Any) -> None:
        self.cut.meet(task, run)

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        files = [v.parts[self.number][0] for v in self.cut.variants]
        once = list(dict.fromkeys(files))
        sessions, self.apart = opened(home, once, self.cut.common)
        loaded = {file: LoadedSession(made) for file, made in zip(once, sessions)}
        self._parts = [loaded[file] for file in files]

    @property
    def layout(self) -> str:
        """Where weights are not in common although they could be, why."""
        return APART + self.apart if self.apart else ""

    def rehearsals(self) -> List[Rehearsal]:
        """The work of a part stands for its bytes, which are not counted."""
        known: Dict[int, Tuple[LoadedSession, int]] = {}
        for part, variant in zip(self._parts, self.cut.variants):
            known[id(part)] = part, int(variant.work[self.number])
        return [run for part, work in known.values() for run in part.rehearsals(work)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        frame = frame_of(self.cut, self.number, self._tensors, inputs)
        variant, tensors = frame.variant, dict(frame.tensors)
        _, reads, _ = self.cut.variants[variant].parts[self.number]
        awaits = any(not isinstance(tensors[n], np.ndarray) for n in reads)
        feeds = {n: on_host(tensors[n]) for n in reads}
        begin = time.perf_counter_ns()
        tensors.update(self._parts[variant].run(feeds))
        end = time.perf_counter_ns()
        # how long results of a device have been there is not known
        ready = begin if awaits else frame.ready
        self.cut.took(self.number, variant, end - begin + self._late(ready, variant, begin, end))
        self._ended = end
        if self.number == self.cut.last:
            return tuple(on_host(tensors[n]) for n in self._tensors)
        return token_of(variant, tensors)

    def _late(self, ready: int, variant: int, begin: int, end: int) -> int:
        """On a core that is shared, a thread that slept is served late: that is the core's slowness
        as well.

        What else the worker did since the last frame is not, nor is waiting for a release.
        """
        if self.number == 0 or self.cut.paced:
            return 0
        beside = int(self.cut.beside(self.number, variant) * (end - begin))
        return max(0, begin - max(ready, self._ended) - beside)
