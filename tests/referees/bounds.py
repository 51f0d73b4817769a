"""Bounds on response times and latencies, held against the worst that executions show.

Random systems of kinds that builds make (random_programs.py) are executed by a simulator that
shares no code with flowc (event_simulator.py): at their worst-case times, at random ones, at
extremes; with programs that end after any number of iterations (executions.py). Of small systems
(`--tiny`) every combination of times 0 and worst case is tried. Nothing may exceed its bound; what
does is made as small as it gets, and printed (bound_failures.py).

    python tests/referees/bounds.py [KIND ...] [--systems 500] [--seed 0] [--tiny]

The table has for each kind: systems, those that were refused, executions, apps, those without a
bound, bound / largest response seen (median, 90 %, worst), the apps that were never seen late
(`held`), those of them for which the bound proves it (`proved`), and paths with the same ratios of
their latencies. Exit status 1 if a bound was exceeded. Of flowc only `worst_cases` is asked, so
that `PYTHONPATH=FOLDER python ...` judges the flowc of that folder.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median

from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.system import Refused, TimedSystem

from bound_failures import Failure, compared, smallest, told
from event_simulator import Run, Time, play
from executions import every_run, hunting_runs
from random_programs import KINDS, TINY, Kind, random_program

#: Executions for each app and number of iterations after which it ends.
PER_END = 3
#: So many firings of a small system take 0 or their worst case independently of each other: up to
#: 4096 executions.
INDEPENDENT = 12


@dataclass(slots=True)
class Ratios:
    """Bound / largest seen, of what has a bound, and how many have none."""

    unbounded: int = 0
    ratios: list[float] = field(default_factory=list)

    def add(self, bound: Fraction | None, seen: Time) -> None:
        """One more."""
        if bound is None:
            self.unbounded += 1
        elif seen:
            self.ratios.append(float(bound / seen))

    def row(self) -> str:
        """Without a bound, then median, 90 % and worst."""
        if not self.ratios:
            return f"{self.unbounded:8} {'-':>6} {'-':>6} {'-':>6}"
        ordered = sorted(self.ratios)
        most = ordered[len(ordered) * 9 // 10]
        return f"{self.unbounded:8} {median(ordered):6.3f} {most:6.3f} {ordered[-1]:6.3f}"


@dataclass(slots=True)
class Found:
    """What executions of some systems showed. `held` apps were never seen late, and `proved` are
    those of them whose bound says so. Of each app and path the first failure is kept.
    """

    systems: int = 0
    refused: list[str] = field(default_factory=list)
    executions: int = 0
    apps: int = 0
    held: int = 0
    proved: int = 0
    paths: int = 0
    responses: Ratios = field(default_factory=Ratios)
    latencies: Ratios = field(default_factory=Ratios)
    failures: list[Failure] = field(default_factory=list)

    def row(self, kind: str) -> str:
        """A line of the table."""
        return (
            f"{kind:17} {self.systems:7} {len(self.refused):7} {self.executions:10}"
            f" {self.apps:5} {self.responses.row()} {self.held:5} {self.proved:6}"
            f" {self.paths:5} {self.latencies.row()} {len(self.failures):8}"
        )


HEADING = (
    "kind              systems refused executions  apps no bound median   90 %  worst  held proved"
    " paths no bound median   90 %  worst exceeded"
)


def hunted(kind: Kind, seeds: Iterable[int], per_end: int = PER_END) -> Found:
    """Random systems of a kind against executions that look for the worst."""
    return _held(kind, seeds, lambda system, rng: hunting_runs(system, rng, per_end))


def enumerated(kind: Kind, seeds: Iterable[int], independent: int = INDEPENDENT) -> Found:
    """Small random systems against executions with all combinations of times 0 and worst case."""
    return _held(kind, seeds, lambda system, rng: every_run(system, rng, independent))


def _held(
    kind: Kind,
    seeds: Iterable[int],
    runs: Callable[[TimedSystem, random.Random], Iterator[Run]],
) -> Found:
    """Random systems of a kind against executions."""
    found = Found()
    for seed in seeds:
        rng = random.Random(seed)
        system = random_program(rng, kind)
        hold(found, system, runs(system, rng))
    return found


def hold(found: Found, system: TimedSystem, runs: Iterator[Run]) -> None:
    """Execute a system in many ways, and hold what happens against its bounds."""
    found.systems += 1
    try:
        bounds = worst_cases(system)
    except Refused as refused:
        found.refused.append(str(refused))
        return
    most: dict[tuple[str, int | None], Time] = {}
    failed: set[tuple[str, int | None]] = set()
    for run in runs:
        found.executions += 1
        for app, path, time, bound in compared(play(system, run), bounds):
            most[app, path] = max(most.get((app, path), 0), time)
            if bound is not None and time > bound and (app, path) not in failed:
                failed.add((app, path))
                found.failures.append(Failure(system, run, app, path, time, bound))
    for group in system.groups:
        response, longest = bounds.groups[group.name], most.get((group.name, None), 0)
        found.apps += 1
        found.responses.add(response, longest)
        if longest <= group.period:
            found.held += 1
            found.proved += response is not None and response <= group.period
        for number, latency in enumerate(bounds.paths[group.name]):
            found.paths += 1
            found.latencies.add(latency, most.get((group.name, number), 0))


def main() -> None:
    """Try many systems of some kinds."""
    parser = argparse.ArgumentParser(description="bounds against executions of random systems")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--systems", type=int, default=500, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first system")
    parser.add_argument("--tiny", action="store_true", help="try all combinations of times")
    options = parser.parse_args()
    kinds, check = (TINY, enumerated) if options.tiny else (KINDS, hunted)
    unknown = sorted(set(options.kinds) - set(kinds))
    if unknown:
        parser.error(f"there is no kind {', '.join(unknown)}")
    exceeded = False
    print(HEADING, flush=True)
    for name in options.kinds or kinds:
        found = check(kinds[name], range(options.seed, options.seed + options.systems))
        print(found.row(name), flush=True)
        for reason in sorted(set(found.refused)):
            print(f"  refused: {reason}")
        if found.failures:
            exceeded = True
            print(told(smallest(found.failures[0])), flush=True)
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
