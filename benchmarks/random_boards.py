"""The random systems of Kim's thesis (5.5.4), and large ones: the gap of `auto` and the thesis'
searches to the optimum.

Four YOLOs beside 4, 8 or 16 random graphs of ten tasks, half of which run on the GPU only, at three
rates; `auto` gives a lower bound of all mappings. Then one large system: 64 groups with 640 tasks
on 32 cores, 4 GPUs, 8 DLAs, and how the time until a mapping is found grows towards it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from statistics import median

import boards
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search
from flowc.search.deadline.outcome import Outcome
from paired import Others, machine, table
from paired import verdict as aim

GRAPHS, RATES = (4, 8, 16), (10, 15, 20)
SEEDS = 4
BUDGETS = {"heuristic-ga": 10.0, "baseline": 10.0, "auto": 10.0}
#: Groups, cores, GPUs, DLAs.
SIZES = ((8, 4, 1, 2), (16, 8, 1, 2), (32, 16, 2, 4), (64, 32, 4, 8))
LARGE, MOST_GAP = 60.0, 0.01


@dataclass(frozen=True)
class System:
    """What the searches found for one system."""

    graphs: int
    fps: int
    outcomes: dict[str, Outcome]

    def maximum(self, name: str) -> float | None:
        """Utilization of the busiest processor, None where deadlines are missed."""
        verdict = self.outcomes[name].verdict
        return float(verdict.maximum) if verdict is not None and verdict.feasible else None


def in_words(values: list[float]) -> str:
    """Median and worst."""
    return f"{median(values):+.2%}, at most {max(values):+.2%}" if values else "-"


def row(graphs: int, fps: int, systems: list[System]) -> list[str]:
    """One size at one rate."""
    own = [s for s in systems if (s.graphs, s.fps) == (graphs, fps)]
    found = {name: sum(s.maximum(name) is not None for s in own) for name in BUDGETS}
    gaps = [s.outcomes["auto"].gap or 0.0 for s in own if s.maximum("auto") is not None]
    cells = [str(graphs), str(fps), f"{found['auto']}/{len(own)}", in_words(gaps)]
    for name in ("heuristic-ga", "baseline"):
        pairs = [(s.maximum(name), s.maximum("auto")) for s in own]
        cells += [f"{found[name]}/{len(own)}", in_words([a / b - 1 for a, b in pairs if a and b])]
    return [*cells, f"{median(s.outcomes['auto'].seconds for s in own):.1f}"]


def main() -> None:
    """Sizes and rates; then growth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        metavar="N",
        help=f"systems of each kind (default {SEEDS})",
    )
    given = parser.parse_args()
    others = Others()
    systems = []
    for graphs in GRAPHS:
        for fps in RATES:
            for seed in range(given.seeds):
                problem = boards.random_system(graphs, fps, seed)
                outcomes = {
                    name: search(problem, name=name, seed=0, budget=Budget(budget))
                    for name, budget in BUDGETS.items()
                }
                systems.append(System(graphs, fps, outcomes))
                said = {
                    name: o.verdict and f"{float(o.verdict.maximum):.4f}"
                    for name, o in outcomes.items()
                }
                print(graphs, fps, seed, said, outcomes["auto"].gap, file=sys.stderr, flush=True)
    rows = [row(graphs, fps, systems) for graphs in GRAPHS for fps in RATES]
    head = ["graphs", "fps", "auto", "gap", "heuristic-ga", "worse", "baseline", "worse", "seconds"]
    print(f"{machine()}; {others.text()}\n{len(systems)} systems; `worse` is against auto\n")
    print(table([head, *rows]), end="\n\n")
    gaps = sorted(s.outcomes["auto"].gap or 0.0 for s in systems if s.maximum("auto") is not None)
    if gaps:
        print(f"gap of auto: median {median(gaps):.3%}, at most {gaps[-1]:.2%}", end=" ")
        print(
            f"({aim(gaps[-1], most=MOST_GAP)}); proved:"
            f" {sum(s.outcomes['auto'].proved for s in systems)}\n"
        )

    rows = [["groups", "tasks", "processors", "seconds", "aim", "maximum", "gap", "deadlines"]]
    for groups, cores, gpus, dlas in SIZES:
        problem = boards.large_system(groups, cores, gpus, dlas)
        found = search(problem, name="auto", seed=0, budget=Budget(0.9 * LARGE))
        told = found.verdict
        tasks = len(problem.tasks) + len(problem.networks)
        most = aim(found.seconds, most=LARGE) if groups == SIZES[-1][0] else ""
        worst = "-" if told is None else f"{float(told.maximum):.2%}"
        gap = "-" if found.gap is None else f"{found.gap:.2%}"
        late = "-" if told is None else f"{len(told.late)} late" if told.late else "all met"
        sizes = f"{cores} + {gpus} + {dlas}"
        rows.append(
            [str(groups), str(tasks), sizes, f"{found.seconds:.1f}", most, worst, gap, late]
        )
    print(table(rows))


if __name__ == "__main__":
    main()
