"""The states of a program, the changes from one to another, and the stays in them.

Data alone: `control.py` decides which state the program is in, `outside.py` what is asked of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .clocks import Wanted
from .graph import FOREVER, App

if TYPE_CHECKING:
    from .worker import Worker

#: Seconds between two polls of the frames that an app has begun, or finished.
LOOK = 0.001


class State:
    """Apps that run together, and what leads to other states. Times in ns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.apps: List[App] = []
        self.workers: List[Worker] = []
        self.leads: Dict[str, str] = {}
        #: Everything that it leads to.
        self.targets: List[str] = []
        #: The states that differ from it in their pace alone, with their frames per second, fastest
        #: first.
        self.levels: List[Tuple[float, "State"]] = []
        self.after: Optional[Tuple[int, str]] = None
        #: What a change to another state takes at most, and how it is made where that is not
        #: `idle`.
        self.bounds: Dict[str, int] = {}
        self.protocols: Dict[str, str] = {}
        #: Clock rates that it is meant for, and its mean power by the model in mW (None = not
        #: known).
        self.clocks: Wanted = {}
        self.energy_mw: Optional[float] = None
        #: How often and for how long; since when it is in it, and since when its time runs.
        self.entered = self.spent = self.since = self.timer = 0

    @property
    def parked(self) -> bool:
        """Has every worker nothing left to do?"""
        return all(w.parked for w in self.workers)

    @property
    def begun(self) -> bool:
        """Has every app begun a frame, unless its stream has ended?"""
        return all(a.under_way or a.limit <= a.mark for a in self.apps)

    @property
    def due(self) -> int:
        """When it is left without an event, in ns; it may be FOREVER."""
        return FOREVER if self.after is None else self.timer + self.after[0]


class Change:
    """From one state to another. `asked`: when the event came, or the state began; `drained`: its
    last frame has ended.

    `first`: when every app of the next state had ended a frame. From `ready` on nothing kept it
    waiting but the controller, who stopped the apps (`stopped`); after their last frame (`ended`)
    it `entered` the next state.
    """

    def __init__(self, source: State, target: State, event: str, asked: int) -> None:
        self.source, self.target, self.event, self.asked = source, target, event, asked
        self.protocol = source.protocols.get(target.name, "idle")
        self.drained = self.first = self.ready = self.stopped = self.ended = self.entered = 0

    @property
    def control(self) -> int:
        """What the controller itself took, in ns."""
        return self.stopped - self.ready + self.entered - self.ended

    def reached(self, time_ns: int) -> None:
        """An app has ended its first frame in the next state."""
        self.first = max(self.first, time_ns)


class Stay:
    """Being in a state; `frames` are those of each app, once it is left."""

    def __init__(self, state: str, frames: Optional[Dict[str, int]] = None) -> None:
        self.state, self.frames = state, frames or {}


def tour(
    initial: str, leads: Mapping[str, Sequence[str]], apps: Mapping[str, Sequence[str]], frames: int
) -> List[Stay]:
    """Stays in states so that every transition is used that can be reached without ever being at a
    dead end; `leads` and `apps` are the next states and the apps of each state."""
    nexts = {state: sorted(set(targets)) for state, targets in leads.items()}
    left = {(a, b) for a, targets in nexts.items() for b in targets}
    way = [initial]
    while True:
        following = _nearest(way[-1], nexts, left)
        if not following:
            break
        for state in following:
            left.discard((way[-1], state))
            way.append(state)
    # Another number of frames each time, so that changes come at every place of a pipeline and of
    # what is shared.
    return [Stay(s, dict.fromkeys(apps[s], frames + n % 3)) for n, s in enumerate(way)]


def _nearest(state: str, leads: Dict[str, List[str]], left: Set[Tuple[str, str]]) -> List[str]:
    """The shortest way that ends with a transition that is left."""
    ways: List[List[str]] = [[state]]
    seen = {state}
    for way in ways:  # grows while it is gone through
        for target in leads[way[-1]]:
            if (way[-1], target) in left:
                return (way + [target])[1:]
            if target not in seen:
                seen.add(target)
                ways.append(way + [target])
    return []
