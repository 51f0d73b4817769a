"""How long a moving cut looks at its stages before it moves, and when it takes a move back: under
noise, in virtual time.

Usage: python benchmarks/moving_windows.py

The loads of the paper on system H come and go as in `published.py`, every five seconds; times of the
stages have noise of several kinds. Shown are frames over those of the best of its cuts, means over
`SEEDS`; *steady* is the least of them under one load that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from statistics import mean
from unittest import mock

from flowc.runtime import adapt
from flowc.search.throughput.partition import Costs
from paired import table
from published_systems.changing_load import (
    ALONE,
    HELD,
    LASTS,
    Times,
    fixed,
    loaded_cuts,
    moving,
    stages,
)
from published_systems.partition import loads

#: Frames and seconds of a window, and what part of the time between frames a move has to keep.
RULES = ((20, 0.3, 0.98), (10, 0.1, 0.98), (10, 0.1, 1.1), (4, 0.04, 1.1))
SEEDS = range(6)
#: Of both stages, in ns.
Pair = tuple[float, float]
#: Times at a time in ns, given those without a load and with one.
Noise = Callable[[int, Pair, Pair], Pair]


def exact(random: Random) -> Noise:
    """No noise."""
    return lambda now, alone, loaded: loaded


def normal(random: Random) -> Noise:
    """Normally distributed, 5 %."""

    def times(now: int, alone: Pair, loaded: Pair) -> Pair:
        front, back = (max(0.1, random.gauss(1, 0.05)) * ns for ns in loaded)
        return front, back

    return times


def spikes(random: Random) -> Noise:
    """The same, and 3 % of the times are three times as long."""
    even = normal(random)

    def times(now: int, alone: Pair, loaded: Pair) -> Pair:
        front, back = (ns * (3 if random.random() < 0.03 else 1) for ns in even(now, alone, loaded))
        return front, back

    return times


def slices(random: Random) -> Noise:
    """A loaded processor runs for a part of each 30 ms, and waits for the rest, more or less."""
    whole = 30e6

    def took(alone: float, loaded: float) -> float:
        runs = whole * min(1.0, alone / loaded)
        left, total, done = alone, 0.0, random.uniform(0, runs)
        while left > runs - done:
            left -= runs - done
            total += runs - done + (whole - runs) * random.uniform(0.5, 1.5)
            done = 0.0
        return total + left

    def times(now: int, alone: Pair, loaded: Pair) -> Pair:
        return took(alone[0], loaded[0]), took(alone[1], loaded[1])

    return times


def bursts(random: Random) -> Noise:
    """5 %; other programs take half of each processor, for two seconds in four in the mean."""
    own = [Random(random.random()) for _ in range(2)]  # the same times for every cut
    even, until, busy = normal(random), [0.0, 0.0], [False, False]

    def times(now: int, alone: Pair, loaded: Pair) -> Pair:
        for k in range(2):
            while until[k] <= now:
                busy[k] = not busy[k]
                until[k] += own[k].expovariate(1 / 2e9)
        front, back = even(now, alone, loaded)
        return front * (1 + busy[0]), back * (1 + busy[1])

    return times


KINDS: Mapping[str, Callable[[Random], Noise]] = {
    "none": exact,
    "5 %": normal,
    "5 % and spikes": spikes,
    "slices of 30 ms": slices,
    "bursts of 2 s": bursts,
}


def gain(
    kind: Callable[[Random], Noise],
    rule: tuple[int, float, float],
    seed: int,
    costs: list[Costs],
    alone: Costs,
) -> float:
    """Frames of moving cuts over those of the best fixed one of the cuts that a program holds."""

    def times() -> Times:
        noise = kind(Random(seed))

        def at(cut: int, now: int) -> Pair:
            load = costs[now // LASTS % len(costs)]
            return noise(now, stages(alone, cut), stages(load, cut))

        return at

    end = 10 * LASTS
    best = max(fixed(cut, times(), end) for cut in HELD)
    window, seconds, kept = rule
    with mock.patch.multiple(adapt, WINDOW=window, SECONDS=seconds, KEPT=kept):
        return moving(loaded_cuts(alone), times(), end) / best


def main() -> None:
    """Print a line for each kind of noise."""
    profiles = loads()
    alone, each = profiles[ALONE], list(profiles.values())
    rows = [["noise", *(f"{n} frames, {s:g} s, {kept:g}" for n, s, kept in RULES)]]
    for name, kind in KINDS.items():
        cells = []
        for rule in RULES:
            changing = mean(gain(kind, rule, seed, each, alone) for seed in SEEDS)
            steady = min(
                mean(gain(kind, rule, seed, [load], alone) for seed in SEEDS) for load in each
            )
            cells.append(f"{changing:.2f}, steady {steady:.2f}")
        rows.append([name, *cells])
    print(table(rows))


if __name__ == "__main__":
    main()
