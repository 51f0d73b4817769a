"""Draws docs/overview.svg: what flowc does, in one picture."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, LIGHT, ACCENT, GREEN = "#263238", "#eceff1", "#bbdefb", "#c8e6c9"
BOXES = {
    "text": (0.2, 1.6, "app.flow", "tasks, rates, networks,\nperiods, wired as a graph", LIGHT),
    "code": (0.2, 0.2, "your code", "Python, C, model.onnx", LIGHT),
    "check": (3.4, 1.6, "check", "types, rates, deadlock:\nproved, or shown where not", ACCENT),
    "profile": (3.4, 0.2, "profile", "each task and network\nmeasured on this machine", ACCENT),
    "map": (6.6, 0.9, "map", "which processor runs what,\nin which order", ACCENT),
    "program": (9.8, 1.6, "program", "readable Python: workers,\nbounded channels, trace", GREEN),
    "harness": (9.8, 0.2, "harness", "program = sequential\nreference, tested", GREEN),
}
ARROWS = (
    ("text", "check"),
    ("code", "profile"),
    ("text", "profile"),
    ("check", "map"),
    ("profile", "map"),
    ("map", "program"),
    ("map", "harness"),
)
WIDTH, HEIGHT = 2.5, 0.95


def main(target: Path) -> None:
    """Write the picture to `target`."""
    matplotlib.rcParams.update({"svg.hashsalt": "flowc", "svg.fonttype": "none"})
    figure = Figure(figsize=(9.2, 2.15))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, 12.5)
    axes.set_ylim(0, 2.75)
    for x, y, title, text, color in BOXES.values():
        style = "round,pad=0,rounding_size=0.12"
        axes.add_patch(
            FancyBboxPatch((x, y), WIDTH, HEIGHT, boxstyle=style, facecolor=color, edgecolor=INK)
        )
        axes.text(
            x + WIDTH / 2,
            y + 0.72,
            title,
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=INK,
        )
        axes.text(x + WIDTH / 2, y + 0.32, text, ha="center", va="center", fontsize=7.5, color=INK)
    for a, b in ARROWS:
        start = (BOXES[a][0] + WIDTH, BOXES[a][1] + HEIGHT / 2)
        end = (BOXES[b][0], BOXES[b][1] + HEIGHT / 2)
        axes.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=11, color=INK, shrinkA=1, shrinkB=1
            )
        )
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("overview.svg"))
