"""Bounds of apps that data from outside or the tokens of others release, against executions.

Random systems of two to four apps (random_programs.py), most of which read the tokens of one before
them, are executed by a simulator that shares no code with flowc (event_simulator.py). What it has
on top, from docs/language.md: a token comes when a firing of its writer ends, and a source takes
each once; a source that drops (`gated`) fires only while fewer iterations are under way than fit
into the deadline, and takes the oldest of the newest tokens, so that some are lost. Responses count from the token that was taken. Data
from outside come in any phase, late as well where no firing counts on their pace.

    python tests/referees/tokens.py [KIND ...] [--systems 100] [--seed 0] [--runs 12]

prints for each kind: systems, lost tokens, and by release (clock, data from outside, tokens) the
apps without a bound, those with one, and bound / largest response seen (median, 90 %). The exit
status is 1 if a bound was exceeded.
"""

from __future__ import annotations

import argparse
import random
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from statistics import median

from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.system import TimedGroup, TimedSystem, TimedTask, TimedTrigger

from bound_failures import python_text
from event_simulator import (
    Firing,
    Playing,
    Run,
    Seen,
    Stuck,
    Task,
    Time,
    Worker,
    keep_larger,
    sources_of,
)
from executions import random_run, worst_times
from random_programs import KINDS, Kind, random_apps, system_of

#: How many tokens wait at most at the source of an app that drops; the others drop none.
Keep = Mapping[str, int]


# -- systems ---------------------------------------------------------------------------------------
def small(kind: Kind) -> Kind:
    """The kind with few firings and little work, so that most apps have bounds."""
    return replace(
        kind,
        apps=(2, 4),
        tasks=(1, 3),
        periods=(1200, 2400),
        rates=(1, 1, 1, 1, 2, 3),
        most_firings=10,
        load=(0.1, 0.6),
        live=0.9,
    )


def random_readers(rng: random.Random, kind: Kind) -> TimedSystem:
    """A system whose apps read tokens of those before them, data from outside, or a clock."""
    drawn = random_apps(rng, small(kind))
    for number, app in enumerate(drawn):
        group = replace(app.group, priority=rng.randrange(3), jitter=0)
        gated = rng.random() < 0.4
        before = [other.group for other in drawn[:number]]
        (source, *others) = sources_of(group)
        if before and app.live and not others and rng.random() < 0.8:
            writer = before[-1] if rng.random() < 0.7 else rng.choice(before)
            made = rng.choice(writer.tasks)
            firings = next(t.firings for t in group.tasks if t.name == source)
            period = Fraction(writer.period) / made.firings * firings
            trigger = TimedTrigger(writer.name, made.name)
            group = _slowed(group, period / Fraction(group.period))
            group = replace(group, period=period, offset=0, trigger=trigger, gated=gated)
        elif app.live and not others:
            group = replace(group, offset=None, gated=gated)
        else:
            group = replace(group, offset=0)
        app.group = group
    return system_of(rng, kind, drawn)


def _slowed(group: TimedGroup, factor: Fraction) -> TimedGroup:
    """The group with as much work in its new period, and no deadline."""

    def slowed(task: TimedTask) -> TimedTask:
        phases = tuple(int(time * factor) for time in task.phases)
        wcet = tuple(max(1, int(time * factor)) for time in task.wcet)
        return replace(task, wcet=(max(phases),) if phases else wcet, phases=phases, curve=None)

    return replace(group, tasks=tuple(slowed(t) for t in group.tasks), deadline=None)


# -- executions ------------------------------------------------------------------------------------
class Reading(Playing):
    """One execution with tokens between apps."""

    def __init__(self, system: TimedSystem, run: Run, keep: Keep) -> None:
        self.keep = keep
        self.lost = 0
        #: By source that reads: when its data came, the number of the next one, and when those came
        #: that its firings took.
        self.data: dict[str, list[Time]] = {}
        self.next: dict[str, int] = {}
        self.came: dict[tuple[str, int], Time] = {}
        self.writes: dict[str, list[str]] = {}
        super().__init__(system, run)
        ends = [run.iterations[group.name] * group.period for group in system.groups]
        #: What has not ended by then waits for tokens that were lost.
        self.until = 2 * max(ends)
        #: Of apps whose sources drop: how many iterations may be under way.
        self.limits: dict[str, int] = {}
        self.done = {group.name: 0 for group in system.groups}
        for group in system.groups:
            if group.gated and group.due is not None:
                self.limits[group.name] = max(1, ceil(group.due / group.period))
            if group.trigger is not None or group.offset is None:
                self._add_reader(group)

    def _add_reader(self, group: TimedGroup) -> None:
        for name in sources_of(group):
            task = self.tasks[name]
            task.source = False  # no timer releases it
            self.next[name] = 0
            self.data[name] = []
            if group.trigger is not None:
                self.writes.setdefault(group.trigger.task, []).append(name)
            else:
                self.data[name] = [r + phase for r in task.app.releases for phase in task.phases]

    def played(self) -> Seen:
        try:
            return super().played()
        except Stuck:  # writers have ended, and tokens were lost
            return self.seen

    def _advance(self, time: Time, speeds: Sequence[Time]) -> None:
        super()._advance(time, speeds)
        if self.now > self.until:
            raise Stuck("tokens were lost")

    def _oldest(self, task: Task) -> int | None:
        """The number of the token that a firing takes now."""
        there = bisect_right(self.data[task.name], self.now)
        kept = self.keep.get(task.app.name, there)
        first = max(self.next[task.name], there - kept)
        return first if first < there else None

    def _at_hand(self, firing: Firing) -> bool:
        task = firing.task
        if task.name in self.data:
            limit = self.limits.get(task.app.name)
            if limit is not None and firing.iteration - self.done[task.app.name] >= limit:
                return False
            if self._oldest(task) is None:
                data = self.data[task.name]
                there = bisect_right(data, self.now)
                if there < len(data):
                    self._wake_at(data[there])
                return False
        return super()._at_hand(firing)

    def _start(self, w: Worker) -> bool:
        started = super()._start(w)
        if started and w.endless is None and w.todo[w.done].task.name in self.data:
            firing = w.todo[w.done]
            name = firing.task.name
            taken = self._oldest(firing.task)
            assert taken is not None
            self.lost += taken - self.next[name]
            self.next[name] = taken + 1
            number = firing.iteration * firing.task.firings + firing.number
            self.came[name, number] = self.data[name][taken]
        return started

    def _over(self, w: Worker) -> None:
        firing = None if w.endless is not None else w.todo[w.done]
        super()._over(w)
        if firing is not None:
            for reader in self.writes.get(firing.task.name, ()):
                self.data[reader].append(self.now)

    def _note(self, firing: Firing) -> None:
        task, app, n = firing.task, firing.task.app, firing.iteration
        reading = [t for t in self.tasks.values() if t.app is app and t.name in self.data]
        if not reading:
            super()._note(firing)
            return
        for number, source, newest in task.paths:
            came = self.came.get((source.name, n * source.firings + newest[firing.number]))
            if came is not None:
                keep_larger(self.seen.latencies, (app.name, number), (self.now - came, n))
        if task.sink:
            left = app.left[n] = app.left.get(n, app.sink_firings) - 1
            if not left:  # what needs no token may end before one has come
                self.done[app.name] += 1
                first = self.came.get((reading[0].name, n * reading[0].firings), self.now)
                keep_larger(self.seen.responses, app.name, (self.now - first, n))


def random_runs(
    system: TimedSystem, rng: random.Random, count: int
) -> Iterator[tuple[Run, list[Time]]]:
    """Executions, each with a list for the moments at which its firings began and ended: data of
    the next ones come then."""
    moments: list[Time] = []
    for number in range(count):
        iterations = _iterations(system, rng.choice((2, 3, 5, 8)))
        run = replace(random_run(system, iterations, rng), stop=None, exhausted=False)
        if number % 4 == 0:
            run = replace(
                run, times={t.name: worst_times(t) for g in system.groups for t in g.tasks}
            )
        late, offsets = dict(run.late), dict(run.offsets)
        for group in system.groups:
            if group.offset is not None:
                continue
            period = int(group.period)
            if moments and rng.random() < 0.6:
                offsets[group.name] = int(rng.choice(moments)) % period
            if rng.random() < 0.5 and not _counts_on_pace(group.name, system):
                late[group.name] = _pauses(iterations[group.name], period, rng)
        begun: list[Time] = []
        yield replace(run, late=late, offsets=offsets), begun
        moments = begun


def _pauses(count: int, period: int, rng: random.Random) -> list[Time]:
    """How late data are that come apart, and not at their pace."""
    late: list[Time] = [0]
    while len(late) < count:
        late.append(late[-1] + rng.choice((0, 0, 0, rng.randint(0, period))))
    return late


def _iterations(system: TimedSystem, rounds: int) -> dict[str, int]:
    """How many iterations each app has, those of readers by the tokens that there are."""
    longest = max(group.period for group in system.groups)
    found: dict[str, int] = {}
    for group in system.groups:  # writers come before their readers
        if group.trigger is None:
            found[group.name] = ceil(rounds * longest / group.period)
            continue
        writer = next(g for g in system.groups if g.name == group.trigger.group)
        made = next(t.firings for t in writer.tasks if t.name == group.trigger.task)
        (source,) = sources_of(group)
        taken = next(t.firings for t in group.tasks if t.name == source)
        found[group.name] = max(1, found[writer.name] * made // taken)
    return found


def _counts_on_pace(name: str, system: TimedSystem) -> bool:
    """Does a firing of an app, or of those that it releases, take an earlier token, or several of
    one iteration?"""
    group = next(g for g in system.groups if g.name == name)
    released = [g.name for g in system.groups if g.trigger and g.trigger.group == name]
    delayed = any(c.delay for c in group.channels if c.source != c.destination)
    often = any(t.firings > 1 for t in group.tasks if t.name in sources_of(group))
    return delayed or often or any(_counts_on_pace(n, system) for n in released)


# -- verdicts --------------------------------------------------------------------------------------
@dataclass(slots=True)
class Found:
    """What executions showed: by release the apps without a bound and bound / largest seen, and
    the bounds that were exceeded, in Python."""

    systems: int = 0
    lost: int = 0
    unbounded: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RELEASES, 0))
    ratios: dict[str, list[float]] = field(default_factory=lambda: {r: [] for r in RELEASES})
    failures: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of the table."""
        row = f"{name:22}{self.systems:5}{self.lost:6}"
        for release in RELEASES:
            ratios = sorted(self.ratios[release])
            row += f" | {release:7}{self.unbounded[release]:5}{len(ratios):5}"
            if ratios:
                row += f"{median(ratios):7.2f}{ratios[len(ratios) * 9 // 10]:7.2f}"
        return row


RELEASES = ("clock", "outside", "tokens")


def hunted(kind: Kind, seeds: Iterable[int], runs: int) -> Found:
    """Random systems of a kind against executions."""
    found = Found()
    for seed in seeds:
        rng = random.Random(seed)
        _hold(found, random_readers(rng, kind), rng, runs)
    return found


def _hold(found: Found, system: TimedSystem, rng: random.Random, runs: int) -> None:
    found.systems += 1
    bounds = worst_cases(system)
    most: dict[str, Time] = {}
    told: set[str] = set()
    for run, begun in random_runs(system, rng, runs):
        keep = {g.name: rng.choice((1, 1, 2, 3)) for g in system.groups if g.gated}
        playing = Reading(system, run, keep if rng.random() < 0.7 else {})
        seen = playing.played()
        begun += [time for moments in seen.firings.values() for time, _ in moments]
        found.lost += playing.lost
        times = [(name, name, time, bounds.groups[name]) for name, (time, _) in _items(seen)]
        for (name, number), (time, _) in seen.latencies.items():
            times.append((name, f"path {number} of {name}", time, bounds.paths[name][number]))
        for name, what, time, bound in times:
            if what == name:
                most[name] = max(most.get(name, 0), time)
            if bound is not None and time > bound and what not in told:
                told.add(what)
                head = f"{what} took {float(time):g}, and its bound is {float(bound):g}:"
                found.failures.append(f"{head}\n{python_text(system)}\n{python_text(run)} {keep}")
    for group in system.groups:
        release = "outside" if group.offset is None else "clock"
        if group.trigger is not None:
            release = "tokens"
        response = bounds.groups[group.name]
        if response is None:
            found.unbounded[release] += 1
        elif most.get(group.name):
            found.ratios[release].append(float(response / most[group.name]))


def _items(seen: Seen) -> Sequence[tuple[str, tuple[Time, int]]]:
    return list(seen.responses.items())


def main() -> None:
    """Try many systems of some kinds."""
    parser = argparse.ArgumentParser(description="bounds of readers of tokens against executions")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--systems", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first system")
    parser.add_argument("--runs", type=int, default=12, help="executions of each system")
    options = parser.parse_args()
    unknown = sorted(set(options.kinds) - set(KINDS))
    if unknown:
        parser.error(f"there is no kind {', '.join(unknown)}")
    exceeded = False
    for name in options.kinds or KINDS:
        seeds = range(options.seed, options.seed + options.systems)
        found = hunted(KINDS[name], seeds, options.runs)
        print(found.row(name), flush=True)
        if found.failures:
            exceeded = True
            print(min(found.failures, key=len), flush=True)
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
