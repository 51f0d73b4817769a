"""Self-timed execution as a Gantt chart: a lane per processor, or per task where nothing is mapped.

In: the firings that the analysis found. Out: a picture. What runs where is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .graph import COLOURS, TooLarge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More bars than this are a grey smear.
MOST_BARS = 6000


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
    """The bars of one app; `unit` is false when the times are real ns."""

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    unit: bool


def draw(charts: Sequence[Chart], target: Path) -> None:
    """Write the picture, one panel per chart; its format follows the ending of `target`. Raises TooLarge."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "flowc"
    from matplotlib.figure import Figure

    count = sum(len(c.bars) for c in charts)
    if count > MOST_BARS:
        raise TooLarge(f"{count} firings are too many for a chart (at most {MOST_BARS})")
    heights = [0.32 * len(c.lanes) + 0.9 for c in charts]
    figure = Figure(figsize=(10, sum(heights) + 0.2), layout="constrained")
    panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, chart in zip(panels, charts, strict=True):
        _panel(axes, chart)
    metadata = {"Date": None} if target.suffix == ".svg" else None
    figure.savefig(target, dpi=130, metadata=metadata)


def _panel(axes: Axes, chart: Chart) -> None:
    tasks = list(dict.fromkeys(b.task for b in chart.bars))
    colour = {t: COLOURS[i % len(COLOURS)] for i, t in enumerate(tasks)}
    row = {lane: i for i, lane in enumerate(chart.lanes)}
    end = max((b.end for b in chart.bars), default=1.0) or 1.0
    size, unit = (1.0, "") if chart.unit else _unit(end)
    named_by_task = set(chart.lanes) == set(tasks)
    for bar in chart.bars:
        width = (bar.end - bar.start) / size
        shade = 1.0 if bar.iteration % 2 == 0 else 0.55
        axes.barh(
            row[bar.lane], width, left=bar.start / size, height=0.72, color=colour[bar.task], alpha=shade,
            edgecolor="#37474f", linewidth=0.4,
        )  # fmt: skip
        label = str(bar.iteration) if named_by_task else bar.task
        if width > (0.012 * len(label) + 0.004) * end / size:
            axes.text(bar.start / size + width / 2, row[bar.lane], label, ha="center", va="center", fontsize=6.5)
    axes.set_yticks(range(len(chart.lanes)), chart.lanes, fontsize=8)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)
    axes.set_xlim(0, end / size * 1.01)
    axes.set_title(chart.title, fontsize=10, loc="left")
    axes.set_xlabel(f"time{f' in {unit}' if unit else ' (every firing takes 1)'}", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#cfd8dc", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _unit(longest: float) -> tuple[float, str]:
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if longest >= size:
            return size, name
    return 1.0, "ns"
