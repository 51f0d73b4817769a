"""What a search tells while it runs, and what is kept of that.

In: words and numbers, from wherever a search knows more than before. Out: an `Event` to whoever listens, and at the end
the history of the best value and of the bound, for the file of the mapping.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ..model.mapping import MOST_POINTS, Point


@dataclass(frozen=True, slots=True)
class Event:
    """`seconds` after its begin, a search has looked at so many `evaluations`.

    `value` is that of the best so far in the unit of its objective (None: nothing that counts yet), `bound` what none
    can be below (None: unknown). `text` says in a line what has just happened.
    """

    seconds: float
    evaluations: int
    value: float | None
    bound: float | None
    text: str

    def __str__(self) -> str:
        return self.text


P = TypeVar("P")
#: Who is told of events, if anybody.
Listener = Callable[[Event], None] | None


class Teller:
    """Hands events on, and keeps their numbers. What is not said of an event is as it was before."""

    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        self._listener, self._begin = listener, time.monotonic()
        self._last = Event(0.0, 0, None, None, "")
        self._points: list[Point] = []

    def __call__(
        self, text: str, *, evaluations: int = 0, value: float | None = None, bound: float | None = None
    ) -> None:
        """Tell. A value that is worse than the best one, or a bound that is below the best one, changes nothing."""
        last = self._last
        values = [v for v in (last.value, value) if v is not None]
        bounds = [b for b in (last.bound, bound) if b is not None]
        count = max(last.evaluations, evaluations)
        event = Event(time.monotonic() - self._begin, count, min(values, default=None), max(bounds, default=None), text)
        self._last = event
        if (event.value, event.bound) != (last.value, last.bound):
            self._points.append(Point(round(event.seconds, 3), count, event.value, event.bound))
        if self._listener is not None:
            self._listener(event)

    def history(self) -> tuple[Point, ...]:
        """The value and the bound whenever one of them got better: `MOST_POINTS` at most, the last one among them."""
        return tuple(thinned(self._points))


def thinned(points: list[P]) -> list[P]:
    """`MOST_POINTS` of them at most, the last one among them."""
    while len(points) > MOST_POINTS:
        points = [*points[:-1:2], points[-1]]
    return points


#: What searches are given: a teller, or nobody to tell.
Progress = Teller


def heard(report: Callable[[str], None] | None, listener: Callable[[Event], None] | None = None) -> Listener:
    """What a search tells somebody who reads lines, and somebody who draws them; None where nobody listens."""
    if report is None and listener is None:
        return None

    def tell(event: Event) -> None:
        if report is not None:
            report(str(event))
        if listener is not None:
            listener(event)

    return tell
