"""A scenario as a picture: states around a circle with their apps, transitions as arrows with their
events."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, hypot, pi, sin
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.scenario import Scenario, State
from .picture import load, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INITIAL, OTHER, EDGE = "#b2df8a", "#eceff1", "#455a64"
#: Least inches between the centers of neighboring states, and around a state.
APART, WIDE, LINE = 4.2, 0.085, 0.19

Point = tuple[float, float]


def draw_machine(scenario: Scenario, target: Path) -> None:
    """Write the picture; its format follows the ending of `target` (svg, png, pdf)."""
    load()
    from matplotlib.figure import Figure

    texts = {s.name: _text(s) for s in scenario.states}
    sizes = {
        n: (WIDE * max(map(len, lines)) + 0.3, LINE * len(lines) + 0.25)
        for n, lines in texts.items()
    }
    places = _places(scenario, max(w for w, _ in sizes.values()))
    reach = [(abs(x) + sizes[n][0] / 2, abs(y) + sizes[n][1] / 2) for n, (x, y) in places.items()]
    width, height = (2 * max(r[k] for r in reach) + 0.8 for k in (0, 1))
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(-width / 2, width / 2)
    axes.set_ylim(-height / 2, height / 2)
    for (source, other), causes in _arrows(scenario).items():
        _arrow(axes, places[source], places[other], sizes[source], sizes[other], causes)
    for state in scenario.states:
        _box(
            axes,
            places[state.name],
            sizes[state.name],
            texts[state.name],
            state.name == scenario.initial,
        )
    save(figure, target)


def _text(state: State) -> list[str]:
    """The name of a state, and a line for each of its apps."""
    chosen: dict[str, list[str]] = {}
    for instance, variant in state.choices:
        owner, _, name = instance.partition(".")
        chosen.setdefault(owner, []).append(f"{name.rpartition('.')[2]} = {variant}")
    lines = [state.name]
    for app in state.apps:
        pace = "" if app.period_ns is None else f" {float(app.period_ns) / 1e6:g} ms"
        lines.append(f"{app.name}{pace}{''.join(f', {c}' for c in chosen.get(app.name, ()))}")
    return lines


def _places(scenario: Scenario, widest: float) -> dict[str, Point]:
    """Positions on an ellipse, with the initial state at its left."""
    names = [s.name for s in scenario.states]
    first = names.index(scenario.initial)
    names = names[first:] + names[:first]
    if len(names) == 1:
        return {names[0]: (0.0, 0.0)}
    radius = max(APART, widest + 1.8) / (2 * sin(pi / len(names)))
    angles = {name: pi - 2 * pi * k / len(names) for k, name in enumerate(names)}
    return {name: (radius * cos(a), 0.62 * radius * sin(a)) for name, a in angles.items()}


def _arrows(scenario: Scenario) -> dict[tuple[str, str], list[str]]:
    """The triggers of a transition, in words."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for t in scenario.transitions:
        causes = list(t.events)
        if t.after_ns is not None:
            causes.append(f"after {float(t.after_ns) / 1e9:g} s")
        if t.at_once:
            causes = [f"{cause}, at once" for cause in causes]
        arrows.setdefault((t.source, t.target), []).extend(causes)
    return arrows


def _box(axes: Axes, place: Point, size: Point, lines: Sequence[str], initial: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = place, size
    corner = x - width / 2, y - height / 2
    style = "round,pad=0.05,rounding_size=0.12"
    color = INITIAL if initial else OTHER
    box = FancyBboxPatch(
        corner, width, height, boxstyle=style, facecolor=color, edgecolor=EDGE, zorder=3
    )
    axes.add_patch(box)
    top = y + height / 2 - LINE
    axes.text(x, top, lines[0], ha="center", va="center", fontsize=10, weight="bold", zorder=4)
    for k, line in enumerate(lines[1:], 1):
        axes.text(x, top - LINE * k, line, ha="center", va="center", fontsize=8, zorder=4)


def _arrow(
    axes: Axes, a: Point, b: Point, from_size: Point, to_size: Point, causes: Sequence[str]
) -> None:
    """A curve that bends to its left, so that both directions between two states are distinct."""
    from matplotlib.patches import FancyArrowPatch

    direction = atan2(b[1] - a[1], b[0] - a[0])
    bend = 0.22
    start, end = _border(a, from_size, direction + bend), _border(b, to_size, direction + pi - bend)
    curve = f"arc3,rad={-bend}"
    arrow = FancyArrowPatch(
        start, end, connectionstyle=curve, arrowstyle="-|>", mutation_scale=12, color=EDGE, zorder=1
    )
    axes.add_patch(arrow)
    length = hypot(end[0] - start[0], end[1] - start[1])
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    aside = bend * length / 2 + 0.12
    x, y = middle[0] - sin(direction) * aside, middle[1] + cos(direction) * aside
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    axes.text(
        x,
        y,
        "\n".join(causes),
        ha="center",
        va="center",
        fontsize=8,
        color="#1a237e",
        zorder=2,
        bbox=box,
    )


def _border(place: Point, size: Point, angle: float) -> Point:
    """The point where a ray from the center of a box leaves it."""
    x, y = cos(angle), sin(angle)
    scale = min(
        (size[0] / 2 + 0.08) / abs(x) if abs(x) > 1e-9 else 1e9,
        (size[1] / 2 + 0.08) / abs(y) if abs(y) > 1e-9 else 1e9,
    )
    return place[0] + scale * x, place[1] + scale * y
