"""Bounds of chains whose apps share a clock: phases are known, and so is who finds which token.

In: bounds of all firings of a hyperperiod by job windows. Out: ages and reactions.

A firing that starts at its earliest time, or later, finds every token whose writer has ended before
at the latest. On one processor it finds more, whatever the times are: what comes before it in the
order of its own worker, and what a more urgent worker makes without waiting any more from then on.
So for each output of a hyperperiod the oldest data that it can be made of follow,
part by part from its end; and for each event the first output that surely knows it, part by part
from its source (job chains of Duerr et al., "End-to-end timing analysis of sporadic cause-effect
chains in distributed systems", 2019, and Guenzel et al., "Timing analysis of asynchronized
distributed cause-effect chains", 2021, with bounds in the place of fixed times).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from .by_windows import WindowSolver
from .system import TimedChain, TimedPart


def bound_on_one_clock(
    chain: TimedChain, way: Sequence[TimedPart], solution: WindowSolver
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
            found = writer.exit.last_found_by(reader.entry, oldest)
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
            entered = reader.entry.first_that_finds(writer.exit, output)
            output = reader.first_behind(entered)
        end = sections[-1].exit.latest_end(output)
        longest = max(longest, end - first.entry.release(missed))
    return longest


class _Section:
    """A part of a chain in its group: the firings of the task at which data enter it, those of the
    task with which they leave it, and which of the first are behind which of the second."""

    def __init__(self, solution: WindowSolver, group: int, path: int) -> None:
        timed = solution.net.system.groups[group].paths[path]
        self._newest = timed.newest
        self.entry = _Firings(solution, group, timed.source)
        self.exit = _Firings(solution, group, timed.sink, path)

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


@dataclass(frozen=True, slots=True)
class _Span:
    """When a firing runs: its job, the round that this is of, its earliest start and latest end,
    and from when on its worker surely waits for nothing more until its end."""

    job: int
    round: int
    earliest_start: int
    latest_end: int
    since: int


class _Firings:
    """The firings of a task, counted through all iterations from 0; times in units.

    Of those that a path ends with, only the ones whose data have a release count.
    """

    def __init__(
        self, solution: WindowSolver, group: int, task: str, path: int | None = None
    ) -> None:
        net = self._net = solution.net
        timed = net.system.groups[group]
        number = next(i for i, t in enumerate(timed.tasks) if t.name == task)
        cluster = next(i for i, c in enumerate(net.clusters) if group in c.groups)
        self._offset = int((timed.offset or 0) * net.unit)
        self._period = int(timed.period * net.unit)
        self._whole = net.clusters[cluster].round
        self._iterations = self._whole // self._period
        self.per_iteration = timed.tasks[number].firings
        self.per_hyperperiod = self._iterations * self.per_iteration
        ends = {} if path is None else {e.job: e for e in net.paths[group][path]}
        self._ahead = 0
        #: Those of a hyperperiod, with times from the start of the round of their bounds.
        self._spans: dict[tuple[int, int], _Span] = {}
        for j, job in enumerate(net.jobs):
            if (job.group, job.task) == (group, number):
                rounds, iteration = divmod(job.base // self._period, self._iterations)
                end = solution.ends[j]
                if j in ends:
                    end = solution.latest_end(ends[j], cluster)
                self._ahead = max(self._ahead, (job.base - end) // self._period + 1)
                since = solution.waits_until(j) if j in ends else end
                self._spans[iteration, job.firing] = _Span(j, -rounds, job.ready, end, since)

    def release(self, number: int) -> int:
        """The release of a firing of a source."""
        iteration, firing = divmod(number, self.per_iteration)
        within = firing * self._period // self.per_iteration
        return self._offset + iteration * self._period + within

    def latest_end(self, number: int) -> int:
        """The latest end of a firing."""
        return self._span(number).latest_end

    def last_found_by(self, reader: _Firings, reading: int) -> int:
        """The last firing that has surely ended when a firing of another task starts."""
        by = reader._span(reading)
        number = self._after(by.earliest_start)
        while not self._has_ended(self._span(number), by):
            number -= 1
        return number

    def first_that_finds(self, writer: _Firings, written: int) -> int:
        """The first firing that surely starts when a firing of another task has ended, as do all
        later ones."""
        written_by = writer._span(written)
        number = self._after(written_by.latest_end)
        while self._has_ended(written_by, self._span(number - 1)):
            number -= 1
        return number

    def _has_ended(self, writer: _Span, reader: _Span) -> bool:
        """Has the one surely ended before the other starts?"""
        if writer.latest_end < reader.earliest_start:
            return True
        jobs, lanes = self._net.jobs, self._net.lanes
        one, other = jobs[writer.job], jobs[reader.job]
        if one.worker == other.worker:
            return (writer.round, one.place) < (reader.round, other.place)
        mine, its = lanes[one.worker], lanes[other.worker]
        urgent = mine.processor == its.processor and mine.rank > its.rank
        if self._net.system.processors[mine.processor].kind not in ("", "cpu"):
            return False  # between kernels a less urgent one may slip in
        return urgent and writer.since <= reader.earliest_start

    def _after(self, time: int) -> int:
        """A firing of an iteration that is released after a time, and may not have ended then."""
        released = (time - self._offset) // self._period + 1
        return (released + self._ahead) * self.per_iteration

    def _span(self, number: int) -> _Span:
        """A firing, with times from the start of the program."""
        iteration, firing = divmod(number, self.per_iteration)
        hyperperiod, within = divmod(iteration, self._iterations)
        span = self._spans[within, firing]
        begin = self._offset + (hyperperiod + span.round) * self._whole
        return _Span(
            span.job,
            hyperperiod + span.round,
            begin + span.earliest_start,
            begin + span.latest_end,
            begin + span.since,
        )
