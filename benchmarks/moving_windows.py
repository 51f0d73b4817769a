"""How long a moving cut looks at its stages before it moves: windows under noise, in virtual time.

Usage: python benchmarks/moving_windows.py

The loads of the paper on system H come and go as in `published.py`, every five seconds; times of the
stages have noise of several kinds. Shown are frames over those of the best of its cuts, means over
three seeds; *steady* is the least of them under one load that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from statistics import mean
from unittest import mock

from flowc.runtime import adapt
from flowc.search.throughput.partition import Costs
from paired import table
from published_systems.changing_load import ALONE, HELD, LASTS, fixed, loaded_cuts, moving, stages
from published_systems.partition import loads

#: Frames and seconds of a window.
WINDOWS = ((20, 0.3), (10, 0.1), (4, 0.04))
SEEDS = range(3)
#: Times of both stages, given those without a load and with one.
Noise = Callable[[Random, tuple[float, float], tuple[float, float]], tuple[float, float]]


def exact(
    random: Random, alone: tuple[float, float], now: tuple[float, float]
) -> tuple[float, float]:
    """No noise."""
    return now


def normal(
    random: Random, alone: tuple[float, float], now: tuple[float, float]
) -> tuple[float, float]:
    """Normally distributed, 5 %."""
    front, back = (max(0.1, random.gauss(1, 0.05)) * ns for ns in now)
    return front, back


def spikes(
    random: Random, alone: tuple[float, float], now: tuple[float, float]
) -> tuple[float, float]:
    """The same, and 3 % of the times are three times as long."""
    front, back = (ns * (3 if random.random() < 0.03 else 1) for ns in normal(random, alone, now))
    return front, back


def slices(whole: float) -> Noise:
    """A loaded processor runs for a part of each `whole` ns, and waits for the rest, more or less."""

    def took(random: Random, alone: float, now: float) -> float:
        runs = whole * min(1.0, alone / now)
        left, total = alone, 0.0
        done = random.uniform(0, runs)
        while left > runs - done:
            left -= runs - done
            total += runs - done + (whole - runs) * random.uniform(0.5, 1.5)
            done = 0.0
        return total + left

    def both(
        random: Random, alone: tuple[float, float], now: tuple[float, float]
    ) -> tuple[float, float]:
        return took(random, alone[0], now[0]), took(random, alone[1], now[1])

    return both


KINDS: Mapping[str, Noise] = {
    "none": exact,
    "5 %": normal,
    "5 % and spikes": spikes,
    "slices of 8 ms": slices(8e6),
    "slices of 30 ms": slices(30e6),
}


def gain(
    noise: Noise, window: tuple[int, float], seed: int, costs: list[Costs], alone: Costs
) -> float:
    """Frames of moving cuts over those of the best fixed one of the cuts that a program holds."""

    def times(random: Random) -> Callable[[int, int], tuple[float, float]]:
        def at(cut: int, now: int) -> tuple[float, float]:
            load = costs[now // LASTS % len(costs)]
            return noise(random, stages(alone, cut), stages(load, cut))

        return at

    end = 10 * LASTS
    best = max(fixed(cut, times(Random(seed)), end) for cut in HELD)
    with mock.patch.multiple(adapt, WINDOW=window[0], SECONDS=window[1]):
        return moving(loaded_cuts(alone), times(Random(seed)), end) / best


def main() -> None:
    """Print a line for each kind of noise."""
    profiles = loads()
    alone, each = profiles[ALONE], list(profiles.values())
    rows = [["noise", *(f"{n} frames, {s:g} s" for n, s in WINDOWS)]]
    for name, noise in KINDS.items():
        cells = []
        for window in WINDOWS:
            changing = mean(gain(noise, window, seed, each, alone) for seed in SEEDS)
            steady = min(
                mean(gain(noise, window, seed, [load], alone) for seed in SEEDS) for load in each
            )
            cells.append(f"{changing:.2f}, steady {steady:.2f}")
        rows.append([name, *cells])
    print(table(rows))


if __name__ == "__main__":
    main()
