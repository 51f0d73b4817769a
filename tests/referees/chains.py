"""Ages and reactions of random chains, seen in simulations, beside their bounds.

    python tests/referees/chains.py [--chains 300] [--phases 6] [--seed 0]
    python tests/referees/chains.py --programs 200

Chains lead over rows of groups with one task each, or over the apps of random programs (rates,
delays, stages, shared processors), in a random order. Each part reads the newest token when its
source first has its processor, and its token is there when its last task has ended; a token that
comes at the same time from another processor is found, or is not. Prints how far bounds are above
what was seen, and exits with 1 if any is below.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice

from flowc.analysis.timing.chains import largest_gap
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.system import (
    TimedChain,
    TimedGroup,
    TimedPart,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    with_its_workers,
)

from event_simulator import Moment, Run, Seen, Time, play
from executions import hunting_runs, hyperperiod
from random_programs import KINDS, Kind, random_program


@dataclass(slots=True)
class Tally:
    """Bounds over what was seen, and the seeds of those that were below."""

    ratios: list[float] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    unbounded: int = 0

    def add(self, name: str, bound: Fraction | None, seen: Time | None) -> None:
        """Hold a bound against what was seen."""
        if bound is None:
            self.unbounded += 1
        elif seen:
            self.ratios.append(float(bound / seen))
            if seen > bound:
                self.below.append(f"{name}: {float(seen)} seen, {float(bound)} proved")

    def __str__(self) -> str:
        if not self.ratios:
            return "nothing seen"
        ordered = sorted(self.ratios)
        quantiles = [ordered[int(q * (len(ordered) - 1))] for q in (0.5, 0.9, 1)]
        median, most, worst = quantiles
        return (
            f"{len(ordered)} bounds over seen: median {median:.2f}, p90 {most:.2f}, worst"
            f" {worst:.2f}; {self.unbounded} without a bound; {len(self.below)} below"
        )


def row(rng: random.Random) -> TimedSystem:
    """Two to four groups of one task on two processors, from one clock, in random phases."""
    groups = []
    count = rng.randint(2, 4)
    for name, priority in zip("abcd", rng.sample(range(count), count), strict=False):
        period = rng.choice((60, 80, 100, 120, 200, 240))
        task = TimedTask(f"{name}.t", rng.choice("pq"), (rng.randint(2, period // 5),))
        path = TimedPath(task.name, task.name, (0,))
        offset = rng.randrange(period)
        group = TimedGroup(name, period, (task,), (), None, priority, offset=offset, paths=(path,))
        groups.append(group)
    names = sorted({g.tasks[0].processor for g in groups})
    processors = tuple(TimedProcessor(name, "fixed_priority") for name in names)
    return with_its_workers(TimedSystem(tuple(groups), processors))


def with_chains(system: TimedSystem, way: Sequence[tuple[str, int]]) -> TimedSystem:
    """The system with an age and a reaction over these paths of groups."""
    groups = {group.name: group for group in system.groups}
    parts = []
    for name, number in way:
        group = groups[name]
        path = group.paths[number]
        firings = next(t.firings for t in group.tasks if t.name == path.source)
        gap = largest_gap(path.newest, firings, Fraction(group.period))
        parts.append(TimedPart(name, number, gap))
    chains = [
        TimedChain(kind, "source", "sink", (tuple(parts),), Fraction(10**9))
        for kind in ("age", "reaction")
    ]
    last = way[-1][0]
    groups[last] = replace(groups[last], chains=tuple(chains))
    return replace(system, groups=tuple(groups.values()))


def in_any_phases(system: TimedSystem) -> TimedSystem:
    """The system with phases that the analysis does not know."""
    return replace(system, groups=tuple(replace(g, offset=None) for g in system.groups))


@dataclass(frozen=True, slots=True)
class _Token:
    """A token in a mailbox: when and from which processor it came, and the source's newest firing
    behind it (None: it does not count)."""

    came: Moment
    processor: str
    newest: int | None

    def there(self, start: Moment, processor: str, ties: bool) -> bool:
        """Does a firing that starts then find it? With `ties`, also if it comes from elsewhere at
        the same time."""
        if self.came[0] != start[0] or self.processor == processor:
            return self.came < start
        return ties


def seen_along(
    system: TimedSystem, way: Sequence[tuple[str, int]], seen: Seen, ties: bool
) -> tuple[Time | None, Time | None]:
    """The largest age and the largest reaction of an execution. With `ties`, a token that comes
    from another processor when its reader starts is found."""
    groups = {group.name: group for group in system.groups}
    tokens: list[_Token] = []
    for position, (name, number) in enumerate(way):
        tokens = list(_tokens(groups[name], number, seen, tokens if position else None, ties))
    first = groups[way[0][0]]
    source = next(t for t in first.tasks if t.name == first.paths[way[0][1]].source)
    age: Time | None = None
    reaction: Time | None = None
    known: int | None = None
    for token in tokens:
        if token.newest is None:
            continue
        here = token.came[0] - _release(first, source, token.newest)
        age = here if age is None else max(age, here)
        if known is not None and token.newest > known:
            here = token.came[0] - _release(first, source, known)
            reaction = here if reaction is None else max(reaction, here)
        known = token.newest if known is None else max(known, token.newest)
    return age, reaction


def _release(group: TimedGroup, source: TimedTask, firing: int) -> Fraction:
    """The nominal release of a firing of a source."""
    assert group.offset is not None
    return Fraction(group.offset) + Fraction(group.period) * firing / source.firings


def _tokens(
    group: TimedGroup, number: int, seen: Seen, before: Sequence[_Token] | None, ties: bool
) -> Iterator[_Token]:
    """What a part writes, from what the part `before` it wrote; None: it begins the chain.

    What is made of initial tokens, or before the first token came, does not count; nor does the
    last token of a stream, which no other one overwrites.
    """
    path = group.paths[number]
    firings = {t.name: t.firings for t in group.tasks}
    home = {t.name: t.processor for t in group.tasks}
    output = 0
    while (path.sink, output) in seen.firings:
        iteration, firing = divmod(output, firings[path.sink])
        entered = iteration * firings[path.source] + path.newest[firing]
        end = seen.firings[path.sink, output][1]
        output += 1
        newest = entered if entered >= 0 else None
        if before is not None and entered >= 0:
            start = seen.firings[path.source, entered][0]
            found = [t for t in before if t.there(start, home[path.source], ties)]
            newest = found[-1].newest if found and found[-1] is not before[-1] else None
        yield _Token(end, home[path.sink], newest)


def random_way(system: TimedSystem, rng: random.Random) -> list[tuple[str, int]]:
    """A path of each of two groups or more, in a random order."""
    named = [group for group in system.groups if group.paths]
    chosen = rng.sample(named, rng.randint(min(2, len(named)), len(named)))
    return [(group.name, rng.randrange(len(group.paths))) for group in chosen]


def rows(chains: int, phases: int, seed: int) -> dict[str, Tally]:
    """Chains over rows of groups: bounds with known phases for each of some phases, and bounds for
    any phases over the worst of them."""
    tallies = {f"{kind}, {clock}": Tally() for clock in CLOCKS for kind in ("age", "reaction")}
    for number in range(chains):
        rng = random.Random(f"row {seed} {number}")
        plain = row(rng)
        way = [(group.name, 0) for group in plain.groups]
        worst: list[Time] = [0, 0]
        free: tuple[Fraction | None, ...] = ()
        for _ in range(phases):
            shifted = []
            for g in plain.groups:
                shifted.append(replace(g, offset=rng.randrange(int(g.period))))
            system = with_chains(replace(plain, groups=tuple(shifted)), way)
            found = _largest(system, way, _long_runs(system, rng))
            bounds = worst_cases(system).chains[way[-1][0]]
            free = worst_cases(in_any_phases(system)).chains[way[-1][0]]
            for kind, bound, time in zip(("age", "reaction"), bounds, found, strict=True):
                tallies[f"{kind}, {CLOCKS[0]}"].add(f"row {number}", bound, time)
            worst = [max(a, b) for a, b in zip(worst, found, strict=True)]
        for kind, bound, time in zip(("age", "reaction"), free, worst, strict=True):
            tallies[f"{kind}, {CLOCKS[1]}"].add(f"row {number}", bound, time)
    return tallies


CLOCKS = ("one clock", "any phases")


def _long_runs(system: TimedSystem, rng: random.Random) -> Iterator[Run]:
    """A dozen executions in which each group has two hyperperiods or more, the first one longer."""
    whole = hyperperiod(system)
    for number, run in enumerate(islice(hunting_runs(system, rng, 1), 13)):
        counts = ((run.iterations[g.name], 2 * whole // int(g.period)) for g in system.groups)
        if not number or all(count >= least for count, least in counts):
            yield run


def _largest(
    system: TimedSystem, way: Sequence[tuple[str, int]], runs: Iterable[Run]
) -> list[Time]:
    """The largest age and reaction over executions; 0 where there is none."""
    found: list[Time] = [0, 0]
    for run in runs:
        seen = play(system, run)
        for ties in (False, True):
            both = seen_along(system, way, seen, ties)
            found = [max(a, b or 0) for a, b in zip(found, both, strict=True)]
    return found


def programs(count: int, seed: int, kinds: dict[str, Kind]) -> dict[str, Tally]:
    """Chains over the apps of random programs."""
    tallies = {f"{name}, {kind}": Tally() for name in kinds for kind in ("age", "reaction")}
    for name, kind in kinds.items():
        for number in range(count):
            rng = random.Random(f"{name} {seed} {number}")
            system = random_program(rng, kind)
            if len(system.groups) < 2:
                continue
            way = random_way(system, rng)
            system = with_chains(system, way)
            bounds = worst_cases(system).chains[way[-1][0]]
            found = _largest(system, way, hunting_runs(system, rng, 1))
            for word, bound, time in zip(("age", "reaction"), bounds, found, strict=True):
                tallies[f"{name}, {word}"].add(f"{name} {number}", bound, time)
    return tallies


#: Kinds whose apps share a clock that the analysis knows, or not.
CHAINED = ("shared", "staged", "equal", "orders", "fifo", "contention")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--phases", type=int, default=6)
    parser.add_argument("--programs", type=int, default=0, help="so many of each kind instead")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.programs:
        tallies = programs(asked.programs, asked.seed, {k: KINDS[k] for k in CHAINED})
    else:
        tallies = rows(asked.chains, asked.phases, asked.seed)
    for name, tally in tallies.items():
        print(f"{name}: {tally}")
    below = [line for tally in tallies.values() for line in tally.below]
    print("\n".join(below))
    sys.exit(bool(below))


if __name__ == "__main__":
    main()
