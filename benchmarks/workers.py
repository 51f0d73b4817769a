"""Searches with helpers: the same answer for any number of them, and so many more looks per second.

The example ImgProcessing of HOPES on a Jetson Xavier (boards.py), `auto`. Where evaluations are counted, every seed has
to give the same answer with one worker, two and four. Looks (bounds of response times) per second are those of seconds:
sides in turns, with one and two workers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count

import boards
from flowc.machines.crew import processes
from flowc.search.budget import Budget
from flowc.search.deadline.anneal import anneal
from flowc.search.deadline.auto import search
from flowc.search.deadline.genetic import Best
from flowc.search.deadline.relaxed import relax
from paired import Others, alternate, machine, ratio, table, verdict

#: Frames per second that are hard to reach: evolution alone does not.
FPS = 27


def looks(workers: int, seconds: float) -> Callable[[], float]:
    """Seconds per look of annealing, which is where searches for deadlines spend their time."""
    problem = boards.imgprocessing(FPS)
    relaxed = relax(problem)
    assert relaxed is not None

    seeds = count(100)

    def run() -> float:
        with processes(workers) as crew:
            # What starts the workers does not count; nor does what an earlier round has looked at.
            anneal(problem, relaxed, seed=0, budget=Budget(0.1), best=Best(), crew=crew)
            best = Best()
            anneal(problem, relaxed, seed=workers * next(seeds), budget=Budget(seconds), best=best, crew=crew)
        return seconds / best.looks

    return run


def main() -> None:
    """Answers, then looks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=15, metavar="N", help="default 15")
    parser.add_argument("--evaluations", type=int, default=400, metavar="N", help="of each search (default 400)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of each side (default 10)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="against one (default 2)")
    given = parser.parse_args()
    others = Others()
    problem, budget = boards.imgprocessing(FPS), Budget(evaluations=given.evaluations)
    same = 0
    for seed in range(given.seeds):
        found = set()
        for workers in (1, 2, 4):
            with processes(workers) as crew:
                outcome = search(problem, name="auto", seed=seed, budget=budget, crew=crew)
            found.add((outcome.assignment, outcome.bound, outcome.evaluations))
        same += len(found) == 1
    sides = {str(n): looks(n, given.seconds) for n in (1, given.workers)}
    samples = alternate(sides, given.rounds)
    gain = ratio(samples["1"], samples[str(given.workers)])
    aim = 0.85 * given.workers
    rows = [
        ["what", "measured", "aim"],
        ["seeds with one answer for 1, 2 and 4 workers", f"{same} of {given.seeds}", "all"],
        [f"looks per second, {given.workers} workers over 1", gain.text(), verdict(gain.median, least=aim)],
    ]
    print(f"{machine()}; {others.text()}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
