"""Firings over time for a report: predicted with mean times, and from a trace, from the same frame
on.

In: the data for pictures of a text, or a trace. Out: `ChartRow`s, whose times are whole ns.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...report.document import ChartRow, FrameRow, Lane
from ...report.gantt import MOST_BARS, Chart
from ...report.measured import MOST_FIRINGS, Traced
from ..text.check import Valid
from .show import Shown

#: Iterations that are predicted, if they fit; from the first one on that finds all lanes at work.
ITERATIONS = 12


def predicted_charts(shown: Shown, index: Mapping[str, int]) -> tuple[ChartRow, ...]:
    """A chart for each app; none for an app whose iterations are too long to be drawn."""
    found = []
    for app in shown.valid.system.apps:
        count = sum(shown.valid.repetition[app.name].values())
        iterations = min(ITERATIONS, MOST_BARS // max(1, count))
        if iterations:
            chart = shown.at_mean_times(app, iterations=iterations)
            found.append(_row(app.name, chart, index, iterations))
    return tuple(found)


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
    rows = tuple(Lane(name, tuple(bars)) for name, bars in lanes.items())
    return ChartRow(
        app, rows, tuple(round(r) for r in chart.releases), zero, max(0, frame), chart.unit
    )


def measured_chart(traced: Traced, valid: Valid, index: Mapping[str, int]) -> ChartRow | None:
    """The rows of a trace, up to the number that a page can show; None if there are none."""
    per = {task: n for counts in valid.repetition.values() for task, n in counts.items()}
    known = [f for f in traced.firings if f[1] in index]
    known.sort(key=lambda f: f[4])
    if not known:
        return None
    said, shown = "", known
    if len(known) > MOST_FIRINGS:
        shown = known[:MOST_FIRINGS]
        last = shown[-1][4] / 1e9
        said = (
            f"the first {MOST_FIRINGS} of {len(known)} firings, until {last:.3f} s; --trace-frames"
            " chooses others"
        )
    frames = [firing // per.get(task, 1) for _, task, firing, *_ in shown]
    lanes: dict[str, list[int]] = {name: [] for name in sorted({f[0] for f in shown})}
    for lane, task, firing, _, start, duration in shown:
        lanes[lane] += (index[task], firing, start, duration)
    first, last_frame = min(frames), max(frames)
    frame = min(first + len(lanes) - 1, (first + last_frame) // 2)
    zero = min(
        (f[4] for f, n in zip(shown, frames, strict=True) if n == frame), default=shown[0][4]
    )
    begin, end = shown[0][4], max(f[4] + f[5] for f in shown)
    return ChartRow(
        app="",
        lanes=tuple(Lane(name, tuple(bars)) for name, bars in lanes.items()),
        releases=tuple(time for _, time in traced.releases if begin <= time <= end),
        zero_ns=zero,
        frame=frame,
        frames=tuple(FrameRow(*f) for f in sorted(traced.frames) if f[2] <= end and f[3] >= begin),
        fills={name: _steps(fills, begin, end) for name, fills in sorted(traced.fills.items())},
        said=said,
    )


def _steps(fills: list[int], begin: int, end: int) -> tuple[int, ...]:
    """The numbers of tokens at the times when these change."""
    found: list[int] = []
    for time, tokens in sorted(zip(fills[::2], fills[1::2], strict=True)):
        if begin <= time <= end and (not found or found[-1] != tokens):
            found += (time, tokens)
    return tuple(found)
