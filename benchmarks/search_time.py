"""How long the exact search takes: the proved best partition of a random chain into up to four
stages.

A chain of layers with random times on three kinds of processors (two CPUs, a GPU, an accelerator
that cannot run some layers), a cut behind every layer, transfers between kinds. Each objective, and
chains of growing length, in turns. There is no peer: trying all partitions of 500 layers into four
stages would take the time of 2.6 billion evaluations.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import get_args

from flowc.search.throughput.partition import (
    MOST_STAGES,
    Costs,
    Objective,
    StagePlace,
    best_partitions,
    configurations,
)
from paired import Others, Spread, alternate, machine, rounds, table, verdict

LENGTHS = (125, 250, 500, 1000)
#: Of the middle length; each objective.
AIM, AIMED = 2.0, 500
PLACES = (
    StagePlace(("cpu[0]",), "cpu"),
    StagePlace(("cpu[1]",), "cpu"),
    StagePlace(("gpu",), "gpu"),
    StagePlace(("dla",), "dla"),
)
SPEEDS = {"cpu": 1.0, "gpu": 0.2, "dla": 0.3}
#: One layer in so many does not run on the accelerator.
BARRED = 10


def chain(length: int) -> Costs:
    """Random times of layers, like those of a CNN: from 10 us to 1 ms on a CPU."""
    rng = random.Random(length)
    work = [10 ** rng.uniform(4, 6) for _ in range(length)]
    layers = {
        kind: [w * speed * rng.uniform(0.7, 1.4) for w in work] for kind, speed in SPEEDS.items()
    }
    layers["dla"] = [float("inf") if rng.randrange(BARRED) == 0 else w for w in layers["dla"]]
    cuts = tuple((after, rng.randrange(1_000, 1_000_000)) for after in range(1, length))
    return Costs(
        layers,
        dict.fromkeys(layers, 20_000.0),
        cuts,
        lambda a, b, size: 30_000 + (size * 0.2 if a != b else 0),
    )


def search(costs: Costs, objective: Objective) -> Callable[[], float]:
    """Seconds of one search."""

    def run() -> float:
        begin = time.perf_counter()
        best_partitions(costs, PLACES, objective)
        return time.perf_counter() - begin

    return run


def main() -> None:
    """All chains and objectives in turns."""
    count = rounds(__doc__, 7)
    others = Others()
    objectives: tuple[Objective, ...] = get_args(Objective)
    sides = {
        (length, objective): search(chain(length), objective)
        for length in LENGTHS
        for objective in objectives
    }
    samples = alternate(
        {f"{length} {objective}": call for (length, objective), call in sides.items()}, count
    )

    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds; seconds: median [quartiles] least..most\n")
    rows = [["layers", "partitions", *objectives, "aim"]]
    for length in LENGTHS:
        spreads = [Spread.of(samples[f"{length} {objective}"]) for objective in objectives]
        worst = max(spread.median for spread in spreads)
        number = sum(
            configurations(length, len(PLACES), stages) for stages in range(1, MOST_STAGES + 1)
        )
        aim = verdict(worst, most=AIM) if length == AIMED else ""
        rows.append([f"{length:,}", f"{number:.1e}", *(spread.text() for spread in spreads), aim])
    print(table(rows))


if __name__ == "__main__":
    main()
