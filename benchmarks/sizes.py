"""Networks of all sizes, from 20 us to 200 ms, alone in an app: what `flowc map` chooses against
plain loops.

Six structures, each in six sizes, with the tasks and peers of one_network.py: a loop around ONNX
Runtime as it opens a session by default, with two threads, and with one. Small networks are where a
runtime of its own costs most: to hand a tensor to another core takes as long as a network of 0.1
ms. No line should be below 0.97.

Beside it stands how well whole configurations were predicted: frames per second as predicted over
as measured, for the one that was chosen and for one core.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import one_network
import onnx
import steady
import structures
from flowc.driver.solve.map import find_mapping
from flowc.search.throughput.race import EQUAL
from paired import Others, Spread, alternate, machine, ratio, table, verdict

LEAST = 0.97
#: Side of the image, channels, layers.
SIZES = ((8, 4, 1), (12, 8, 3), (24, 16, 4), (32, 32, 6), (64, 64, 10), (160, 96, 16))


def plain(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """3x3 convolutions in a row."""
    for _ in range(depth):
        x = g.relu(g.conv(x, channels, channels, 3))
    return x


def depthwise(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """Depthwise and pointwise in turn."""
    for _ in range(2 * depth):
        x = g.relu(g.conv(x, channels, channels, 3, group=channels))
        x = g.relu(g.conv(x, channels, channels))
    return x


def residual(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """Blocks that are added to what they read."""
    for _ in range(depth):
        x = g.relu(
            g.add("Add", x, g.conv(g.relu(g.conv(x, channels, channels, 3)), channels, channels))
        )
    return x


def fire(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """A narrow layer, two wide ones side by side, put together."""
    for _ in range(depth):
        narrow = g.relu(g.conv(x, channels, max(1, channels // 4)))
        wide = [
            g.relu(g.conv(narrow, max(1, channels // 4), channels // 2, size)) for size in (1, 3)
        ]
        x = g.add("Concat", *wide, axis=1)
    return x


def hourglass(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """Down to half the size and up again, with a short way around."""
    for _ in range(depth):
        small = g.relu(g.conv(g.pool(x), channels, channels, 3))
        scales = g.constant(f"scales{len(g.nodes)}", np.array([1, 1, 2, 2]))
        x = g.relu(g.conv(g.add("Add", x, g.add("Resize", small, "", scales)), channels, channels))
    return x


def attention(g: structures.Graph, x: str, channels: int, depth: int) -> str:
    """Channels weighted by what their means say."""
    for _ in range(depth):
        x = g.relu(g.conv(x, channels, channels, 3))
        weights = g.add("Sigmoid", g.conv(g.add("GlobalAveragePool", x), channels, channels))
        x = g.add("Mul", x, weights)
    return x


FAMILIES: dict[str, Callable[[structures.Graph, str, int, int], str]] = {
    f.__name__: f for f in (plain, depthwise, residual, fire, hourglass, attention)
}


def write(folder: Path, family: str, number: int) -> Path:
    """One of the networks as a file."""
    side, channels, depth = SIZES[number]
    graph = structures.Graph(family, number, side)
    x = FAMILIES[family](graph, graph.relu(graph.conv("image", 3, channels, 3)), channels, depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{family}{number}.onnx"
    onnx.save(graph.classify(x, channels), path)
    return path


def predicted(text: Path) -> tuple[float, float]:
    """Predicted over measured frames per second: of the best contestant, and of one core. Searches
    once more."""
    found = find_mapping(text, budget=one_network.BUDGET).mapping.contestants
    plain_way = next(c for c in found if c.name == "one core")
    over = [(c.measured_ns or 0.0) / c.predicted_ns for c in (found[0], plain_way)]
    return over[0], over[1]


def main() -> None:
    """Network by network: search, alternate, and one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument(
        "--only", action="append", choices=list(FAMILIES), metavar="STRUCTURE", help="repeatable"
    )
    parser.add_argument(
        "--size",
        action="append",
        type=int,
        choices=range(len(SIZES)),
        metavar="K",
        help="repeatable",
    )
    given = parser.parse_args()
    others, quiet = Others(), steady.Quiet()
    rows = [
        [
            "network",
            "ms",
            *(f"over {way}" for way in one_network.WAYS),
            "predicted",
            "one core",
            "chosen",
        ]
    ]
    least = float("inf")
    with tempfile.TemporaryDirectory() as scratch:
        for family in given.only or list(FAMILIES):
            for number in given.size or range(len(SIZES)):
                quiet.wait()
                one = one_network.mapped(
                    f"{family} {number}",
                    write(Path(scratch), family, number),
                    Path(scratch) / f"{family}{number}",
                )
                samples = alternate(
                    {side: quiet.side(call) for side, call in one.sides.items()}, given.rounds
                )
                over = [ratio(samples[way], samples["flowc"]) for way in one_network.WAYS]
                least = min(least, *(gain.median for gain in over))
                told = predicted(one.folder / "app.flow")
                rows.append(
                    [
                        one.name,
                        f"{Spread.of(samples['one core']).median / 1e6:.3g}",
                        *(gain.text() for gain in over),
                        *(f"{x:.2f}" for x in told),
                        one.chosen.partition(":")[0],
                    ]
                )
                print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(f"{machine()}; {others.text()}\n{quiet.text()}")
    print(
        f"{given.rounds} rounds; times as fast: median [quartiles] least..most; equal is"
        f" {EQUAL:.1%}\n"
    )
    print(table(rows), end="\n\n")
    print(f"least of all: {least:.3f} {verdict(least, least=LEAST)}")


if __name__ == "__main__":
    main()
