"""The graph of a system as a picture: tasks in layers along the data flow, rates at the arrows,
mapping as colors.

The critical cycle is drawn in red.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.application import Application, Port, Task
from ..model.system import System
from .layout import layout
from .picture import load, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path as Curve

BOX_HEIGHT = 0.62
ROW = 1.25
COLORS = ("#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffff99", "#8dd3c7", "#d9d9d9")
NEUTRAL = "#eceff1"
CRITICAL = "#c62828"
#: The colors of boxes' edges and of arrows.
EDGE, LINE = "#37474f", "#455a64"
#: Larger graphs are drawn without rates and with smaller boxes; above the second limit a picture is
#: unreadable.
MOST_LABELED, MOST_TASKS = 120, 2000


class TooManyTasks(Exception):
    """The graph has more tasks than a picture can show."""


@dataclass(frozen=True, slots=True)
class CriticalPart:
    """What determines the least period of an app: its tasks and channels, and a caption."""

    tasks: frozenset[str]
    channels: frozenset[str]
    caption: str


def draw(
    system: System,
    target: Path,
    processors: Mapping[str, tuple[str, ...]],
    critical: Mapping[str, CriticalPart] | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the picture; its format follows the ending of `target` (svg, png, pdf).

    `processors[task]` gives a task the color of its processor; an empty mapping leaves all neutral.
    `critical[app]` marks what limits the speed; `notes[definition]` is shown below the names of its
    instances. Raises TooLarge.
    """
    load()
    from matplotlib.figure import Figure

    count = sum(len(a.tasks) for a in system.apps)
    if count > MOST_TASKS:
        raise TooManyTasks(f"{count} tasks are too many for a picture (at most {MOST_TASKS})")
    drawings = [_Drawing(app, (critical or {}).get(app.name), notes or {}) for app in system.apps]
    width = max(drawing.width for drawing in drawings)
    height = sum(drawing.height for drawing in drawings)
    figure = Figure(figsize=(max(4.0, 0.62 * width + 0.6), max(1.6, 0.72 * height + 0.7)))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    top = 0.0
    names = sorted({p for places in processors.values() for p in places})
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    for drawing in drawings:
        drawing.draw(axes, top, processors, colors)
        top -= drawing.height
    _legend(axes, colors, top)
    axes.set_xlim(-0.8, width + 0.3)
    axes.set_ylim(top - (0.9 if colors else 0.2), 0.9)
    save(figure, target)


def _legend(axes: Axes, colors: Mapping[str, str], top: float) -> None:
    from matplotlib.patches import Rectangle

    x = 0.0
    for name, color in colors.items():
        axes.add_patch(
            Rectangle(
                (x, top - 0.35), 0.35, 0.35, facecolor=color, edgecolor="#455a64", linewidth=0.8
            )
        )
        axes.text(x + 0.5, top - 0.18, name, va="center", fontsize=8)
        x += 1.2 + 0.14 * len(name)


class _Drawing:
    """One app: its layout with sizes, and how it is drawn."""

    def __init__(
        self, app: Application, critical: CriticalPart | None, notes: Mapping[str, str]
    ) -> None:
        self._app = app
        self._critical = critical or CriticalPart(frozenset(), frozenset(), "")
        self._layout = layout(app)
        boxes = [t for t in app.tasks if t.resampling is None]
        self._short = {t.name: t.name.partition(".")[2] for t in boxes}
        self._below = {
            t.name: ", ".join(filter(None, (t.definition, notes.get(t.definition)))) for t in boxes
        }
        self._labeled = len(app.tasks) <= MOST_LABELED
        widest = max(max(map(len, self._short.values())), 0.8 * max(map(len, self._below.values())))
        self._box = max(1.5, 0.135 * widest + 0.5)
        gap = 2.3 if self._labeled else 1.0
        self._step = self._box + gap
        self.width = len(self._layout.columns) * self._step - gap
        self.height = self._layout.rows * ROW + 1.0 + 0.35 * len(self._layout.back)

    def draw(
        self,
        axes: Axes,
        top: float,
        processors: Mapping[str, tuple[str, ...]],
        colors: Mapping[str, str],
    ) -> None:
        app = self._app
        title = app.name
        if app.period_ns is not None:
            title += f"   every {float(app.period_ns) / 1e6:g} ms"
        axes.text(-0.4, top + 0.45, title, fontsize=11, fontweight="bold", va="center")
        if self._critical.caption:
            axes.text(
                -0.4, top + 0.1, self._critical.caption, fontsize=7.5, color=CRITICAL, va="center"
            )
        middle = top - 0.35 - self._layout.rows * ROW / 2 + ROW / 2 - 0.3
        place: dict[str, tuple[float, float]] = {}
        for column, names in enumerate(self._layout.columns):
            for i, name in enumerate(names):
                place[name] = column * self._step, middle + ((len(names) - 1) / 2 - i) * ROW
        self._arrows(axes, place, top)
        for task in app.tasks:
            x, y = place[task.name]
            if task.resampling is not None:
                limits = task.name in self._critical.tasks
                self._on_arrow(axes, (x + self._box / 2, y), str(task.resampling), limits)
                continue
            shown = [colors[p] for p in processors.get(task.name, ())] or [NEUTRAL]
            self._task(axes, (x, y), task, shown)

    def _task(
        self, axes: Axes, place: tuple[float, float], task: Task, colors: Sequence[str]
    ) -> None:
        """A box in the colors of its processors, beside each other, with names on it."""
        from matplotlib.patches import FancyBboxPatch

        x, y = place
        style, edge, width = "round,pad=0,rounding_size=0.12", EDGE, 1.0
        if task.network is not None:
            style, width = "square,pad=0", 1.6
        if task.name in self._critical.tasks:
            edge, width = CRITICAL, 2.2
        part = self._box / len(colors)
        for i, color in enumerate(colors):
            axes.add_patch(
                FancyBboxPatch(
                    (x + i * part, y - BOX_HEIGHT / 2),
                    part,
                    BOX_HEIGHT,
                    boxstyle=style,
                    facecolor=color,
                    edgecolor=edge,
                    linewidth=width,
                    zorder=3,
                )
            )
        middle = x + self._box / 2
        axes.text(
            middle,
            y + 0.11,
            self._short[task.name],
            ha="center",
            va="center",
            fontsize=8.5,
            zorder=4,
        )
        axes.text(
            middle,
            y - 0.15,
            self._below[task.name],
            ha="center",
            va="center",
            fontsize=6.5,
            color="#546e7a",
            zorder=4,
        )

    def _on_arrow(
        self, axes: Axes, middle: tuple[float, float], words: str, critical: bool
    ) -> None:
        """A resampling, drawn like a delay: a dark spot on the line, with its label."""
        x, y = middle
        color, width = (CRITICAL, 2.0) if critical else (LINE, 1.0)
        ends = [x - self._box / 2, x + self._box / 2]
        axes.plot(ends, [y, y], color=color, linewidth=width)
        spot = {"boxstyle": "round,pad=0.35", "facecolor": "#263238", "edgecolor": "none"}
        axes.text(
            x,
            y,
            words,
            color="white",
            fontsize=6.5,
            ha="center",
            va="center_baseline",
            bbox=spot,
            zorder=6,
        )

    def _arrows(self, axes: Axes, place: dict[str, tuple[float, float]], top: float) -> None:
        outgoing: dict[str, list[str]] = defaultdict(list)
        incoming: dict[str, list[str]] = defaultdict(list)
        for c in sorted(self._app.channels, key=lambda c: (-place[c.destination][1], c.name)):
            outgoing[c.source].append(c.name)
        for c in sorted(self._app.channels, key=lambda c: (-place[c.source][1], c.name)):
            incoming[c.destination].append(c.name)
        tasks = {t.name: t for t in self._app.tasks}
        back = self._layout.back
        for c in self._app.channels:
            x0, y0 = place[c.source]
            x1, y1 = place[c.destination]
            y0 += self._offset(outgoing[c.source], c.name)
            y1 += self._offset(incoming[c.destination], c.name)
            x0 += self._box
            delay = f"{c.delay}" if c.delay else ""
            rates = (
                rate(tasks[c.source].port(c.source_port)),
                rate(tasks[c.destination].port(c.destination_port)),
            )
            lane = top - self.height + 0.75 + 0.35 * back.index(c.name) if c.name in back else None
            through = [place[name] for name in self._layout.routes[c.name]]
            limits = c.name in self._critical.channels
            self._arrow(
                axes,
                (x0, y0),
                (x1, y1),
                through,
                rates if self._labeled else ("", ""),
                delay,
                lane,
                limits,
            )

    @staticmethod
    def _offset(names: list[str], name: str) -> float:
        if len(names) == 1:
            return 0.0
        return (0.5 - names.index(name) / (len(names) - 1)) * BOX_HEIGHT * 0.75

    def _arrow(
        self,
        axes: Axes,
        start: tuple[float, float],
        end: tuple[float, float],
        through: list[tuple[float, float]],
        rates: tuple[str, str],
        delay: str,
        lane: float | None,
        critical: bool,
    ) -> None:
        from matplotlib.patches import FancyArrowPatch

        (x0, y0), (x1, y1) = start, end
        if lane is None:
            stops = [start]
            for x, y in through:
                stops += [(x, y), (x + self._box, y)]
            stops.append(end)
            path = _forward(stops)
            middle = ((stops[0][0] + stops[1][0]) / 2, (stops[0][1] + stops[1][1]) / 2)
        else:
            path = _back(start, end, lane)
            middle = ((x0 + x1) / 2, lane)
        axes.add_patch(
            FancyArrowPatch(
                path=path,
                arrowstyle="-|>",
                mutation_scale=9,
                linewidth=2.0 if critical else 1.0,
                color=CRITICAL if critical else LINE,
                zorder=2.5 if critical else 2,
                fill=False,
            )
        )
        if rates[0] not in ("", "1"):
            axes.text(x0 + 0.08, y0 + 0.1, rates[0], fontsize=6.5, color="#1565c0", zorder=5)
        if rates[1] not in ("", "1"):
            axes.text(
                x1 - 0.2, y1 + 0.1, rates[1], fontsize=6.5, color="#1565c0", ha="right", zorder=5
            )
        if delay:
            axes.plot(*middle, marker="o", markersize=11, color="#263238", zorder=5)
            axes.text(
                *middle,
                delay,
                color="white",
                fontsize=6.5,
                ha="center",
                va="center_baseline",
                zorder=6,
            )


def _forward(stops: Sequence[tuple[float, float]]) -> Curve:
    """Curves from column to column, straight lines across the columns between."""
    from matplotlib.path import Path as Curve

    points, codes = [stops[0]], [Curve.MOVETO]
    for i, (a, b) in enumerate(pairwise(stops)):
        if i % 2:
            points.append(b)
            codes.append(Curve.LINETO)
            continue
        bend = min(1.1, (b[0] - a[0]) * 0.45)
        points += [(a[0] + bend, a[1]), (b[0] - bend, b[1]), b]
        codes += [Curve.CURVE4] * 3
    return Curve(points, codes)


def _back(start: tuple[float, float], end: tuple[float, float], lane: float) -> Curve:
    """Back along a lane below the boxes."""
    from matplotlib.path import Path as Curve

    (x0, y0), (x1, y1) = start, end
    r = 0.45
    points = [
        (x0, y0),
        (x0 + r, y0),
        (x0 + r, lane),
        (x0, lane),
        (x1, lane),
        (x1 - r, lane),
        (x1 - r, y1),
        (x1, y1),
    ]
    codes = [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO, *[Curve.CURVE4] * 3]
    return Curve(points, codes)


def rate(port: Port) -> str:
    """Tokens of a firing as a label: `160`, `[2, 0x3]`, with a window `160/400`, `<=16`."""
    if port.count:
        return f"<={_rates(port)}"
    return f"{_rates(port)}/{port.window}" if port.window else _rates(port)


def _rates(port: Port) -> str:
    if len(port.rates) == 1:
        return str(port.rates[0])
    parts = []
    for rate, same in groupby(port.rates):
        count = len(list(same))
        parts.append(f"{rate}x{count}" if count > 1 else str(rate))
    text = ", ".join(parts)
    return f"[{text}]" if len(text) <= 14 else f"[{text[:12]}..]"
