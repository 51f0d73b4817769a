"""Self-timed execution as a Gantt chart: a lane per processor, or per task if nothing is mapped.

In: the firings of an analysis. Out: a picture. The mapping of tasks to lanes is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .graph import COLORS, CRITICAL, TooLarge
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
        raise TooLarge(f"{count} firings are too many for a chart (at most {MOST_BARS})")
    heights = [0.32 * len(c.lanes) + 0.9 for c in charts]
    figure = Figure(figsize=(10, sum(heights) + 0.2), layout="constrained")
    panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, chart in zip(panels, charts, strict=True):
        _panel(axes, chart)
    save(figure, target)


def _panel(axes: Axes, chart: Chart) -> None:
    from matplotlib.patches import Patch

    tasks = list(dict.fromkeys(b.task for b in chart.bars))
    color = {t: COLORS[i % len(COLORS)] for i, t in enumerate(tasks)}
    row = {lane: i for i, lane in enumerate(chart.lanes)}
    end = max((b.end for b in chart.bars), default=1.0) or 1.0
    size, unit = (1.0, "") if chart.unit else _unit(end)
    by_task = set(chart.lanes) == set(tasks)
    for bar in chart.bars:
        shade = 1.0 if bar.iteration % 2 == 0 else 0.55
        narrow = bar.end - bar.start < NARROW * end  # otherwise only its edges would be visible
        axes.barh(
            row[bar.lane],
            (bar.end - bar.start) / size,
            left=bar.start / size,
            height=0.72,
            color=color[bar.task],
            alpha=shade,
            edgecolor="#37474f",
            linewidth=0.0 if narrow else 0.4,
        )
    for first, last in _runs(chart):
        label = str(first.iteration) if by_task else f"{first.task} {first.iteration}"
        if last.end - first.start > (0.0056 * len(label) + 0.002) * end:
            middle = (first.start + last.end) / 2 / size
            axes.text(middle, row[first.lane], label, ha="center", va="center", fontsize=6.5)
    for at in chart.releases:
        axes.axvline(at / size, color=CRITICAL, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(chart.lanes)), chart.lanes, fontsize=8)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)
    axes.set_xlim(0, end / size * 1.01)
    axes.set_title(chart.title, fontsize=10, loc="left")
    axes.set_xlabel(f"time{f' in {unit}' if unit else ' (every firing takes 1)'}", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#cfd8dc", linewidth=0.5)
    axes.set_axisbelow(True)
    if not by_task and len(tasks) <= 16:
        shown = [
            Patch(facecolor=color[t], edgecolor="#37474f", linewidth=0.4, label=t) for t in tasks
        ]
        axes.legend(
            handles=shown, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False
        )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


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
