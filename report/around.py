"""A stretch of a trace: what ran when something was late, how full channels were, and what is
proved.

In: a report's document, a trace, and a moment: a time of the day, or a frame. Out: rows for tables,
with times in ns from the start of the trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from .document import Document
from .measured import Traced

#: Before and after a moment that is shown, at least.
AROUND_NS = 100_000_000
#: So many frames and firings are shown, those that matter most.
MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class FrameThere:
    """A frame of an app: its begin, how long it took, and what it should have."""

    app: str
    number: int
    begin_ns: int
    took_ns: int
    deadline_ns: int | None
    bound_ns: int | None
    late_ns: int


@dataclass(frozen=True, slots=True)
class FiringThere:
    """A firing: where and when it ran, how long it took, and its time in the profile (None: not
    known) and in proofs."""

    task: str
    firing: int
    processor: str
    begin_ns: int
    took_ns: int
    predicted_ns: int | None
    worst_ns: int | None


@dataclass(frozen=True, slots=True)
class ChannelThere:
    """The least and the most tokens that a channel held, and its capacity."""

    name: str
    least: int
    most: int
    capacity: int | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a trace says of the time from `begin_ns` to `end_ns`; `began` is when its clock was 0.

    Firings are those that exceeded what was predicted most, in the order of time; `more` were left
    out.
    """

    began: datetime | None
    begin_ns: int
    end_ns: int
    frames: tuple[FrameThere, ...]
    firings: tuple[FiringThere, ...]
    channels: tuple[ChannelThere, ...]
    more: int


def stretch(document: Document, traced: Traced, moment: str) -> Stretch:
    """The stretch around a moment: `12:03:10.5`, `Planner 204`, or `204` where there is one app.

    Raises ValueError, where the trace has no such moment.
    """
    began = None
    if traced.began_unix_us is not None:
        began = datetime.fromtimestamp(traced.began_unix_us / 1e6).astimezone()
    begin, end = _span(traced, moment, began)
    firings = sorted(_firings(document, traced, begin, end), key=_excess, reverse=True)
    shown = sorted(firings[:MOST_ROWS], key=lambda firing: firing.begin_ns)
    return Stretch(
        began,
        begin,
        end,
        tuple(_frames(document, traced, begin, end))[:MOST_ROWS],
        tuple(shown),
        tuple(_channels(document, traced, begin, end)),
        len(firings) - len(shown),
    )


def _span(traced: Traced, moment: str, began: datetime | None) -> tuple[int, int]:
    """What is around a moment. Raises ValueError."""
    clock = re.fullmatch(r"(\d{1,2}):(\d\d):(\d\d(?:\.\d+)?)", moment)
    if clock is not None:
        if began is None:
            raise ValueError("the trace does not say at what time it was made: name a frame")
        midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
        wanted = 3600 * int(clock[1]) + 60 * int(clock[2]) + float(clock[3])
        at = round((wanted - (began - midnight).total_seconds()) * 1e9)
        if at < -AROUND_NS:
            at += 86_400 * 10**9  # the next day
        first, last = _ends(traced)
        if not first - AROUND_NS <= at <= last + AROUND_NS:
            raise ValueError(f"the trace has {_clock(began, first)} to {_clock(began, last)}")
        return at - AROUND_NS, at + AROUND_NS
    frame = re.fullmatch(r"(?:(\S+) )?(\d+)", moment)
    if frame is None:
        raise ValueError("write a time such as 12:03:10, or a frame such as `App 204`")
    found = [
        (begin, end)
        for app, number, begin, end, _ in traced.frames
        if number == int(frame[2]) and frame[1] in (None, app)
    ]
    if len(found) != 1:
        numbers = [f"{app} {number}" for app, number, *_ in traced.frames]
        there = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has no frames"
        several = "several apps have such a frame" if found else "the trace has no such frame"
        raise ValueError(f"{several}: {there}")
    begin, end = found[0]
    return begin - AROUND_NS, end + AROUND_NS


def _ends(traced: Traced) -> tuple[int, int]:
    """The first and the last time of a trace. Raises ValueError where it is empty."""
    times = [t for _, _, _, _, start, length in traced.firings for t in (start, start + length)]
    if not times:
        raise ValueError("the trace is empty")
    return min(times), max(times)


def _clock(began: datetime, time_ns: int) -> str:
    return datetime.fromtimestamp(began.timestamp() + time_ns / 1e9).strftime("%H:%M:%S")


def _frames(document: Document, traced: Traced, begin: int, end: int) -> Iterator[FrameThere]:
    """Frames that were under way."""
    proved = {row.app: row for row in document.paths if not row.task}
    for app, number, start, over, late in sorted(traced.frames, key=lambda frame: frame[2]):
        if start <= end and over >= begin:
            row = proved.get(app)
            due, bound = (None, None) if row is None else (row.deadline_ns, row.bound_ns)
            yield FrameThere(app, number, start, over - start, due, bound, late)


def _firings(document: Document, traced: Traced, begin: int, end: int) -> Iterator[FiringThere]:
    """Firings that ran."""
    known = {row.name: row for row in document.tasks}
    for processor, task, firing, _, start, length in traced.firings:
        if start <= end and start + length >= begin:
            row = known.get(task)
            predicted, worst = (None, None) if row is None else (row.predicted_ns, row.worst_ns)
            yield FiringThere(task, firing, processor, start, length, predicted, worst)


def _excess(firing: FiringThere) -> int:
    """By how much a firing exceeded its time."""
    return firing.took_ns - (firing.predicted_ns or 0)


def _channels(document: Document, traced: Traced, begin: int, end: int) -> Iterator[ChannelThere]:
    """Channels whose fill changed."""
    capacities = {row.name: row.capacity for row in document.channels}
    for name, fills in traced.fills.items():
        there = [n for t, n in zip(fills[::2], fills[1::2], strict=True) if begin <= t <= end]
        if there:
            yield ChannelThere(name, min(there), max(there), capacities.get(name))
