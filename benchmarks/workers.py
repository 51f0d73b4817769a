"""Searches with helpers: the same answer for any number of them, and so many more looks per second.

    python benchmarks/workers.py [--full] [--seeds N] [--evaluations N] [--rounds N] ...

Where evaluations are counted, every seed has to give the same answer with one worker, two and four:
`auto`, for a random system with the four networks of HOPES' example ImgProcessing on a Jetson
Xavier (boards.py), another one for each seed; with `--full` for the example itself, which takes a
minute and more each. Looks (bounds of response times) per second are those of the example, in so
many seconds: sides in turns, with one and two workers; `--rounds 0` leaves them out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

import boards
from flowc.machines.search_workers import processes
from flowc.search.budget import Budget
from flowc.search.deadline.anneal import anneal
from flowc.search.deadline.auto import search
from flowc.search.deadline.genetic import BestSoFar
from flowc.search.deadline.relaxed import relax
from paired import Others, alternate, machine, ratio, table, verdict

#: Frames per second that are hard to reach: evolution alone does not.
FPS = 27
#: Of ten tasks each, in a random system.
GRAPHS = 4


def looks(workers: int, seconds: float) -> Callable[[], float]:
    """Seconds per look of annealing, which is where searches for deadlines spend their time."""
    problem = boards.imgprocessing(FPS)
    relaxed = relax(problem)
    assert relaxed is not None

    seeds = count(100)

    def run() -> float:
        with processes(workers) as search_workers:
            # What starts the workers does not count; nor does what an earlier round has looked at.
            anneal(
                problem,
                relaxed,
                seed=0,
                budget=Budget(0.1),
                best=BestSoFar(),
                search_workers=search_workers,
            )
            best = BestSoFar()
            anneal(
                problem,
                relaxed,
                seed=workers * next(seeds),
                budget=Budget(seconds),
                best=best,
                search_workers=search_workers,
            )
        return seconds / best.looks

    return run


def answers(seeds: int, budget: Budget, full: bool) -> tuple[int, list[int]]:
    """With how many seeds everybody finds the same, and how many evaluations that took."""
    same, looked = 0, []
    with ExitStack() as stack:
        teams_of_workers = [stack.enter_context(processes(n)) for n in (1, 2, 4)]
        for seed in range(seeds):
            problem = boards.imgprocessing(FPS) if full else boards.random_system(GRAPHS, FPS, seed)
            outcomes = [
                search(
                    problem, name="auto", seed=seed, budget=budget, search_workers=search_workers
                )
                for search_workers in teams_of_workers
            ]
            found = {(o.assignment, o.bound, o.evaluations) for o in outcomes}
            same += len(found) == 1
            looked.append(outcomes[0].evaluations)
            if len(found) > 1:
                print(f"seed {seed}: {[(o.bound, o.evaluations) for o in outcomes]}")
    return same, looked


def main() -> None:
    """Answers, then looks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=15, metavar="N", help="default 15")
    parser.add_argument(
        "--evaluations", type=int, default=60, metavar="N", help="of each search (default 60)"
    )
    parser.add_argument("--full", action="store_true", help="answers for ImgProcessing")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="of each side (default 10)"
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="against one (default 2)"
    )
    given = parser.parse_args()
    others = Others()
    rows = [["what", "measured", "aim"]]
    if given.seeds:
        same, looked = answers(given.seeds, Budget(evaluations=given.evaluations), given.full)
        rows.append(
            ["seeds with one answer for 1, 2 and 4 workers", f"{same} of {given.seeds}", "all"]
        )
        rows.append(["evaluations of each of them", f"{min(looked)} to {max(looked)}", ""])
    if given.rounds:
        sides = {str(n): looks(n, given.seconds) for n in (1, given.workers)}
        samples = alternate(sides, given.rounds)
        gain = ratio(samples["1"], samples[str(given.workers)])
        text = verdict(gain.median, least=0.85 * given.workers)
        rows.append([f"looks per second, {given.workers} workers over 1", gain.text(), text])
    print(f"{machine()}; {others.text()}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
