"""Firings over time for a report: predicted with mean times, and from a trace, from the same frame
on.

In: the data for pictures of a text, or a trace. Out: `ChartRow`s, whose times are whole ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...report.document import ChartLane, ChartRow, FrameRow
from ...report.gantt import MOST_BARS, Chart
from ...report.measured import MOST_FIRINGS, Traced
from ..text.check import Valid
from .show import Shown

#: A firing of a trace: lane, task, firing, number of firings, start, duration.
_Firing = tuple[str, str, int, int, int, int]
#: Iterations that are predicted, if they fit; from the first one on that finds all lanes at work.
ITERATIONS = 12


def predicted_charts(shown: Shown, index: Mapping[str, int]) -> tuple[ChartRow, ...]:
    """A chart for each app; none for an app whose iterations are too long to be drawn."""
    charts = []
    for app in shown.valid.system.apps:
        count = sum(shown.valid.repetition[app.name].values())
        iterations = min(ITERATIONS, MOST_BARS // max(1, count))
        if iterations:
            chart = shown.at_mean_times(app, iterations=iterations)
            charts.append(_row(app.name, chart, index, iterations))
    return tuple(charts)


def _row(app: str, chart: Chart, index: Mapping[str, int], iterations: int) -> ChartRow:
    lanes: dict[str, list[int]] = {name: [] for name in chart.lanes}
    firings: dict[str, int] = {}
    for bar in chart.bars:
        number = firings.get(bar.task, 0)
        firings[bar.task] = number + 1
        start, end = round(bar.start), round(bar.end)
        lanes[bar.lane] += (index[f"{app}.{bar.task}"], number, start, end - start)
    frame = min(len(chart.lanes) - 1, iterations // 2)
    zero = min((round(b.start) for b in chart.bars if b.iteration == frame), default=0)
    rows = tuple(ChartLane(name, tuple(bars)) for name, bars in lanes.items())
    return ChartRow(
        app, rows, tuple(round(r) for r in chart.releases), zero, max(0, frame), chart.unit
    )


def measured_chart(traced: Traced, valid: Valid, index: Mapping[str, int]) -> ChartRow | None:
    """The rows of a trace, up to the number that a page can show; None if there are none."""
    known = sorted((f for f in traced.firings if f[1] in index), key=lambda f: f[4])
    if not known:
        return None
    shown = known[:MOST_FIRINGS]
    lanes = _lanes(shown, index)
    begin, end = shown[0][4], max(f[4] + f[5] for f in shown)
    frame, zero = _middle_frame(shown, valid, len(lanes))
    return ChartRow(
        app="",
        lanes=lanes,
        releases=tuple(time for _, time in traced.releases if begin <= time <= end),
        zero_ns=zero,
        frame=frame,
        frames=tuple(FrameRow(*f) for f in sorted(traced.frames) if f[2] <= end and f[3] >= begin),
        fills={name: _steps(fills, begin, end) for name, fills in sorted(traced.fills.items())},
        said=_note(len(known), shown[-1]),
    )


def _lanes(shown: Sequence[_Firing], index: Mapping[str, int]) -> tuple[ChartLane, ...]:
    """The firings of each lane."""
    lanes: dict[str, list[int]] = {name: [] for name in sorted({f[0] for f in shown})}
    for lane, task, firing, _, start, duration in shown:
        lanes[lane] += (index[task], firing, start, duration)
    return tuple(ChartLane(name, tuple(bars)) for name, bars in lanes.items())


def _note(firings: int, last: _Firing) -> str:
    """What the chart leaves out, if anything; `last` is the last firing in it."""
    if firings <= MOST_FIRINGS:
        return ""
    return (
        f"the first {MOST_FIRINGS} of {firings} firings, until {last[4] / 1e9:.3f} s;"
        " --trace-frames chooses others"
    )


def _middle_frame(shown: Sequence[_Firing], valid: Valid, lanes: int) -> tuple[int, int]:
    """A frame in the middle of the firings, after the pipeline of the lanes has filled, and its
    start."""
    repetition: dict[str, int] = {}
    for vector in valid.repetition.values():
        repetition |= vector
    starts: dict[int, int] = {}
    for _, task, firing, _, start, _ in shown:
        frame = firing // repetition.get(task, 1)
        starts[frame] = min(start, starts.get(frame, start))
    first, last = min(starts), max(starts)
    middle = min(first + lanes - 1, (first + last) // 2)
    return middle, starts.get(middle, shown[0][4])


def _steps(fills: list[int], begin: int, end: int) -> tuple[int, ...]:
    """The numbers of tokens at the times when these change."""
    steps: list[int] = []
    for time, tokens in sorted(zip(fills[::2], fills[1::2], strict=True)):
        if begin <= time <= end and (not steps or steps[-1] != tokens):
            steps += (time, tokens)
    return tuple(steps)
