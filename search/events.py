"""Progress events of a running search, and their history.

In: texts and numbers from a search. Out: an `SearchEvent` to the listener, and at the end the
history of the best value and of the bound, for the file of the mapping.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ..model.mapping import MOST_POINTS, Point


@dataclass(frozen=True, slots=True)
class SearchEvent:
    """The state of a search after `seconds` and `evaluations`.

    `value` is the best so far in the unit of its objective (None: no valid answer yet), `bound` a
    lower bound (None: unknown). `text` describes the event in a line.
    """

    seconds: float
    evaluations: int
    value: float | None
    bound: float | None
    text: str

    def __str__(self) -> str:
        return self.text


P = TypeVar("P")
#: The listener of events, or None.
Listener = Callable[[SearchEvent], None] | None


class Teller:
    """Passes events on, and keeps their numbers. An event without a number has that of the previous
    event.
    """

    def __init__(self, listener: Callable[[SearchEvent], None] | None = None) -> None:
        self._listener, self._begin = listener, time.monotonic()
        self._last = SearchEvent(0.0, 0, None, None, "")
        self._points: list[Point] = []

    def __call__(
        self,
        text: str,
        *,
        evaluations: int = 0,
        value: float | None = None,
        bound: float | None = None,
    ) -> None:
        """Report an event. A value or bound that is not better than the best one changes
        nothing.
        """
        last = self._last
        values = [v for v in (last.value, value) if v is not None]
        bounds = [b for b in (last.bound, bound) if b is not None]
        event = SearchEvent(
            seconds=time.monotonic() - self._begin,
            evaluations=max(last.evaluations, evaluations),
            value=min(values, default=None),
            bound=max(bounds, default=None),
            text=text,
        )
        self._last = event
        if (event.value, event.bound) != (last.value, last.bound):
            seconds = round(event.seconds, 3)
            self._points.append(Point(seconds, event.evaluations, event.value, event.bound))
        if self._listener is not None:
            self._listener(event)

    def history(self) -> tuple[Point, ...]:
        """The value and the bound at each improvement: at most `MOST_POINTS`, including the last
        one.
        """
        return tuple(thinned(self._points))


def thinned(points: list[P]) -> list[P]:
    """At most `MOST_POINTS` of them, including the last one."""
    while len(points) > MOST_POINTS:
        points = [*points[:-1:2], points[-1]]
    return points


#: The reporter of events that searches get.
Progress = Teller


def heard(
    report: Callable[[str], None] | None, listener: Callable[[SearchEvent], None] | None = None
) -> Listener:
    """A listener that passes lines to `report` and events to `listener`; None without both."""
    if report is None and listener is None:
        return None

    def tell(event: SearchEvent) -> None:
        if report is not None:
            report(str(event))
        if listener is not None:
            listener(event)

    return tell
