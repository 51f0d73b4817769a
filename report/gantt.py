"""Self-timed execution as a Gantt chart: a lane per processor, or per task if nothing is mapped.

In: the firings of an analysis. Out: a picture. The mapping of tasks to lanes is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .graph import COLORS, CRITICAL, EDGE, TooManyTasks
from .picture import load, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most bars: more could not be told apart.
MOST_BARS = 6000
#: Bars narrower than this share of the time have no edges.
NARROW = 0.004


@dataclass(frozen=True, slots=True)
class Bar:
    """One firing of `task` (short name) in iteration `iteration` on `lane`, times in ns."""

    lane: str
    task: str
    iteration: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars of one app; `releases` are the starts of its periods, `unit` is false if the times
    are real ns."""

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    releases: tuple[float, ...]
    unit: bool


def draw(charts: Sequence[Chart], target: Path) -> None:
    """Write the picture, one panel per chart; its format follows the ending of `target`. Raises
    TooLarge."""
    load()
    from matplotlib.figure import Figure

    count = sum(len(c.bars) for c in charts)
    if count > MOST_BARS:
        raise TooManyTasks(f"{count} firings are too many for a chart (at most {MOST_BARS})")
    heights = [0.32 * len(c.lanes) + 0.9 for c in charts]
    figure = Figure(figsize=(10, sum(heights) + 0.2), layout="constrained")
    panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, chart in zip(panels, charts, strict=True):
        _panel(axes, chart)
    save(figure, target)


def _panel(axes: Axes, chart: Chart) -> None:
    tasks = list(dict.fromkeys(b.task for b in chart.bars))
    color = {t: COLORS[i % len(COLORS)] for i, t in enumerate(tasks)}
    end = max((b.end for b in chart.bars), default=1.0) or 1.0
    size, label = 1.0, "time (every firing takes 1)"
    if not chart.unit:
        size, unit = _unit(end)
        label = f"time in {unit}"
    by_task = set(chart.lanes) == set(tasks)
    _draw_bars(axes, chart, color, size, end)
    _draw_labels(axes, chart, by_task, size, end)
    for at in chart.releases:
        axes.axvline(at / size, color=CRITICAL, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(chart.lanes)), chart.lanes, fontsize=8)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)
    axes.set_xlim(0, end / size * 1.01)
    axes.set_title(chart.title, fontsize=10, loc="left")
    axes.set_xlabel(label, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#cfd8dc", linewidth=0.5)
    axes.set_axisbelow(True)
    if not by_task and len(tasks) <= 16:
        _draw_legend(axes, color)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_bars(axes: Axes, chart: Chart, color: Mapping[str, str], size: float, end: float) -> None:
    """The firings, every other iteration in a lighter color; `size` is one unit of the axis in ns,
    `end` the end of the last firing."""
    row = {lane: i for i, lane in enumerate(chart.lanes)}
    for bar in chart.bars:
        narrow = bar.end - bar.start < NARROW * end  # otherwise only its edges would be visible
        axes.barh(
            row[bar.lane],
            (bar.end - bar.start) / size,
            left=bar.start / size,
            height=0.72,
            color=color[bar.task],
            alpha=1.0 if bar.iteration % 2 == 0 else 0.55,
            edgecolor=EDGE,
            linewidth=0.0 if narrow else 0.4,
        )


def _draw_labels(axes: Axes, chart: Chart, by_task: bool, size: float, end: float) -> None:
    """The iteration of firings that are wide enough for it, with the task unless lanes are those
    of tasks."""
    row = {lane: i for i, lane in enumerate(chart.lanes)}
    for first, last in _runs(chart):
        label = str(first.iteration) if by_task else f"{first.task} {first.iteration}"
        if last.end - first.start > (0.0056 * len(label) + 0.002) * end:
            middle = (first.start + last.end) / 2 / size
            axes.text(middle, row[first.lane], label, ha="center", va="center", fontsize=6.5)


def _draw_legend(axes: Axes, color: Mapping[str, str]) -> None:
    """The colors of tasks, beside the panel."""
    from matplotlib.patches import Patch

    handles = []
    for task, face in color.items():
        handles.append(Patch(facecolor=face, edgecolor=EDGE, linewidth=0.4, label=task))
    axes.legend(
        handles=handles, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False
    )


def _runs(chart: Chart) -> Iterator[tuple[Bar, Bar]]:
    """First and last of consecutive bars on a lane for one task in one iteration: they share a
    label."""
    lanes: dict[str, list[Bar]] = {}
    for bar in sorted(chart.bars, key=lambda b: (b.start, b.end)):
        lanes.setdefault(bar.lane, []).append(bar)
    for bars in lanes.values():
        first = bars[0]
        for bar, after in zip(bars, [*bars[1:], None], strict=True):
            if after is None or (after.task, after.iteration, after.start) != (
                bar.task,
                bar.iteration,
                bar.end,
            ):
                yield first, bar
                if after is not None:
                    first = after


def _unit(longest: float) -> tuple[float, str]:
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if longest >= size:
            return size, name
    return 1.0, "ns"
