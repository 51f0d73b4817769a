"""Bounds of chains whose apps share a clock: phases are known, and so is who finds which token.

In: bounds of all firings of a hyperperiod by job windows. Out: ages and reactions.

A firing that starts at its earliest time, or later, finds every token whose writer has ended before
at the latest. So for each output of a hyperperiod the oldest data that it can be made of follow,
part by part from its end; and for each event the first output that surely knows it, part by part
from its source (job chains of Duerr et al., "End-to-end timing analysis of sporadic cause-effect
chains in distributed systems", 2019, and Guenzel et al., "Timing analysis of asynchronized
distributed cause-effect chains", 2021, with bounds in the place of fixed times).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from .fixed_point import FixedPoint
from .system import TimedChain, TimedPart


def bound_on_one_clock(
    chain: TimedChain, way: Sequence[TimedPart], solution: FixedPoint
) -> Fraction | None:
    """The age or the reaction in ns along one way; None where no bound is known.

    `solution` is solved over the hyperperiod.
    """
    system = solution.net.system
    groups = [g for g in system.groups if g.name in chain.groups]
    if not chain.clocked or any(g.jitter != 0 for g in groups):
        return None
    if len({g.on_clock for g in groups}) > 1:
        return None
    if any(part.gap is None for part in way):
        return None
    index = {group.name: number for number, group in enumerate(system.groups)}
    sections = [_Section(solution, index[part.group], part.path) for part in way]
    longest = _largest_age(sections) if chain.kind == "age" else _largest_reaction(sections)
    return Fraction(longest, solution.net.unit)


def _largest_age(sections: Sequence[_Section]) -> int:
    """The largest age over the outputs of a hyperperiod."""
    last = sections[-1]
    longest = 0
    for output in range(last.exit.per_hyperperiod):
        oldest = last.newest_behind(output)
        for writer, reader in zip(sections[-2::-1], sections[:0:-1], strict=True):
            found = writer.exit.last_over_before(reader.entry.earliest_start(oldest))
            oldest = writer.newest_behind(found)
        longest = max(longest, last.exit.latest_end(output) - sections[0].entry.release(oldest))
    return longest


def _largest_reaction(sections: Sequence[_Section]) -> int:
    """The largest reaction over the events just after the releases of a hyperperiod."""
    first = sections[0]
    passed_on = first.passed_on
    longest = 0
    for number, missed in enumerate(passed_on):
        knows = passed_on[(number + 1) % len(passed_on)]
        if knows <= missed:
            knows += first.entry.per_hyperperiod
        output = first.first_behind(knows)
        for writer, reader in pairwise(sections):
            entered = reader.entry.first_begun_after(writer.exit.latest_end(output))
            output = reader.first_behind(entered)
        end = sections[-1].exit.latest_end(output)
        longest = max(longest, end - first.entry.release(missed))
    return longest


class _Section:
    """A part of a chain in its group: the firings of the task at which data enter it, those of the
    task with which they leave it, and which of the first are behind which of the second."""

    def __init__(self, solution: FixedPoint, group: int, path: int) -> None:
        timed = solution.net.system.groups[group].paths[path]
        self._newest = timed.newest
        self.entry = _Firings(solution, group, timed.source)
        self.exit = _Firings(solution, group, timed.sink)

    def newest_behind(self, output: int) -> int:
        """The newest firing of the entry that a firing of the exit depends on."""
        iteration, firing = divmod(output, self.exit.per_iteration)
        return iteration * self.entry.per_iteration + self._newest[firing]

    def first_behind(self, entered: int) -> int:
        """The first firing of the exit that depends on a firing of the entry, or on a later one."""
        output = entered // self.entry.per_iteration * self.exit.per_iteration
        while self.newest_behind(output) < entered:
            output += 1
        return output

    @property
    def passed_on(self) -> list[int]:
        """The firings of the entry in a hyperperiod that some output is made of."""
        every = self.entry.per_hyperperiod
        return sorted({self.newest_behind(n) % every for n in range(self.exit.per_hyperperiod)})


class _Firings:
    """The firings of a task, counted through all iterations from 0; times in units."""

    def __init__(self, solution: FixedPoint, group: int, task: str) -> None:
        net = solution.net
        timed = net.system.groups[group]
        number = next(i for i, t in enumerate(timed.tasks) if t.name == task)
        self._offset = int((timed.offset or 0) * net.unit)
        self._period = int(timed.period * net.unit)
        self._whole = next(c.round for c in net.clusters if group in c.groups)
        self._iterations = self._whole // self._period
        self.per_iteration = timed.tasks[number].firings
        self.per_hyperperiod = self._iterations * self.per_iteration
        #: Of each firing of a hyperperiod: the round that its bounds are of, and the bounds.
        self._times: dict[tuple[int, int], tuple[int, int, int]] = {}
        for j, job in enumerate(net.jobs):
            if (job.group, job.task) == (group, number):
                rounds, iteration = divmod(job.base // self._period, self._iterations)
                self._times[iteration, job.firing] = rounds, job.ready, solution.ends[j]

    def release(self, number: int) -> int:
        """The release of a firing of a source."""
        iteration, firing = divmod(number, self.per_iteration)
        within = firing * self._period // self.per_iteration
        return self._offset + iteration * self._period + within

    def earliest_start(self, number: int) -> int:
        """The earliest start of a firing."""
        shift, ready, _ = self._bounds(number)
        return shift + ready

    def latest_end(self, number: int) -> int:
        """The latest end of a firing."""
        shift, _, end = self._bounds(number)
        return shift + end

    def last_over_before(self, time: int) -> int:
        """The last firing that has surely ended before a time."""
        number = self._after(time)
        while self.latest_end(number) >= time:
            number -= 1
        return number

    def first_begun_after(self, time: int) -> int:
        """The first firing that surely begins after a time, as do all later ones."""
        number = self._after(time)
        while self.earliest_start(number - 1) > time:
            number -= 1
        return number

    def _after(self, time: int) -> int:
        """A firing of an iteration that is released after a time."""
        return ((time - self._offset) // self._period + 1) * self.per_iteration

    def _bounds(self, number: int) -> tuple[int, int, int]:
        """When the round of a firing begins, and its earliest start and latest end from there."""
        iteration, firing = divmod(number, self.per_iteration)
        hyperperiod, within = divmod(iteration, self._iterations)
        rounds, ready, end = self._times[within, firing]
        return self._offset + (hyperperiod - rounds) * self._whole, ready, end
