"""Worst-case response times of a mapped system: which bounds hold, and the least of them.

In: a timed system. Out: for each group and task a bound that no execution exceeds, taken apart into
terms; None where there is none, with the reason. The claim is for workers as system.py describes
them (what generated programs run), for any phases between clocks, any execution times up to the
worst case, any order among equal priorities. What tokens of other groups release is in release.py.

A worker fires its jobs one after the other. So a job ends in a window that began when its worker
last had to wait for something from outside: `end <= arrival at which the worker waited + window(own
work since)`. The arrival is the end of a job elsewhere, or the release; an AND-join is the latest
of them. Windows may reach over rounds, when responses are longer than periods. Two analyses say how
long windows are:

- job windows (by_windows.py), where the hyperperiods of clocks are short: each firing of a
  hyperperiod has an earliest and a latest time of its own;
- event streams (by_streams.py), always: what a worker wants from its processor is an event stream
  per block of jobs, one per round, with the jitter between the earliest and the latest arrival
  (Tindell and Clark, "Holistic schedulability analysis for distributed hard real-time systems",
  1994; Henia et al., "System level performance analysis: the SymTA/S approach", 2005).

Ends depend on the windows of others, and these on ends: they grow together from the best case until
nothing changes. A bound that grows beyond `LONGEST` rounds is given up as unbounded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from math import ceil

from .background import without_background
from .by_streams import StreamSolver
from .by_windows import WindowSolver
from .chains import PathBounds, bound_in_any_phases, over_ways
from .fixed_point import TooLate
from .joined import MOST_OVERLAP, joined
from .one_clock import bound_on_one_clock
from .release import TaskEnds, with_releases
from .shared_gpus import with_shared_gpus
from .story import Story
from .stream_story import StreamStory
from .system import TimedChain, TimedSystem, TimedTrigger
from .terms import Bounds, GroupResponse, PathResponse, TaskBound, WorstCases
from .unfolding import unfold, unfold_hyperperiod
from .wakeup import with_late_ends
from .window_story import WindowStory

#: A solved analysis.
Solution = StreamSolver | WindowSolver


@dataclass(frozen=True, slots=True)
class _Solved:
    """The bounds of a system with known releases, and the solvers that they are by."""

    system: TimedSystem
    worst: WorstCases
    solvers: tuple[Solution, ...]

    def task_ends(self, trigger: TimedTrigger) -> TaskEnds:
        """When the firings of a task end, by the tighter one of the solvers for each."""
        found: TaskEnds = None
        for solver in self.solvers:
            ends = solver.task_ends(trigger)
            if found is None or ends is None:
                found = found or ends
            else:
                both = zip(found, ends, strict=True)
                found = [(max(a, c), min(b, d)) for (a, b), (c, d) in both]
        return found

    def overlap(self, name: str) -> int:
        """How many of the next iterations of a group can be released before one has ended, at
        most. Ends count from the earliest release already, and so do the next releases."""
        group = next(g for g in self.system.groups if g.name == name)
        most = 0
        for task in group.tasks:
            ends = self.task_ends(TimedTrigger(name, task.name))
            if ends is None:
                return MOST_OVERLAP + 1
            last = max(latest for _, latest in ends)
            most = max(most, ceil(last / group.period) - 1)
        return most


def worst_cases(system: TimedSystem, *, patience: Fraction | None = None) -> WorstCases:
    """The bounds of all groups and paths, the numbers only: the least of both analyses.

    With `patience`, for searches, job windows are enough where all deadlines are kept by them, and
    a group of which a bound exceeds so many of its deadlines is not followed any further. Then the
    values are good for ranking only, unless all keep their deadlines. Raises Refused.
    """
    names = [group.name for group in system.groups]
    return _of(names, _with_releases(_alone(system), patience).worst)


def _alone(system: TimedSystem) -> TimedSystem:
    """The system with what its background costs, and what its workers know late."""
    return with_late_ends(without_background(with_shared_gpus(system)))


def _with_releases(system: TimedSystem, patience: Fraction | None) -> _Solved:
    """The bounds of a system whose releases are sought."""
    if patience is None:
        return _without_patience(system)
    _, solved = with_releases(system, lambda released: _solved(released, patience))
    return solved


@lru_cache(maxsize=4)
def _without_patience(system: TimedSystem) -> _Solved:
    """The final bounds. Kept, because verdicts, terms and reasons of one answer ask in turn."""
    _, solved = with_releases(system, lambda released: _solved(released, None))
    return solved


def _solved(system: TimedSystem, patience: Fraction | None) -> _Solved:
    """The bounds of a system with known releases: the least of those of its workers, and of these
    joined where they can be, which may cost more than it saves where iterations overlap.
    """
    overlaps: dict[str, int] = {}
    while True:
        joint, names = joined(system, overlaps)
        solved = _solved_as_it_is(joint, patience)
        more = {name: solved.overlap(name) for name in names}
        more = {name: n for name, n in more.items() if n > overlaps.get(name, 0)}
        late = patience is not None and late_groups(joint, solved.worst)
        if not more or late:
            break
        overlaps |= more
    if joint == system or (patience is not None and not late):
        return solved
    as_it_is = _solved_as_it_is(system, patience)
    # Overlaps that are not counted yet are of no bound.
    return as_it_is if more else _both(solved, as_it_is)


def _both(one: _Solved, other: _Solved) -> _Solved:
    """The least of two solutions of a system, by all of their solvers."""
    worst = _least(one.worst, other.worst)
    return _Solved(other.system, worst, (*one.solvers, *other.solvers))


def _solved_as_it_is(system: TimedSystem, patience: Fraction | None) -> _Solved:
    """The bounds of a system with known releases and these workers."""
    windows = _by_windows(system, patience)
    by_windows = None if windows is None else _numbers(windows)
    enough = patience is not None and by_windows is not None and not late_groups(system, by_windows)
    if enough and windows is not None and by_windows is not None:
        return _Solved(system, by_windows, (windows,))
    streams = StreamSolver(unfold(system), patience)
    streams.solve()
    solvers: tuple[Solution, ...] = (streams,) if windows is None else (windows, streams)
    return _Solved(system, _least(by_windows, _numbers(streams)), solvers)


def worst_cases_in_time(system: TimedSystem) -> WorstCases | None:
    """Bounds by which all deadlines are kept, None where one is not kept by either analysis.

    The same answer as by `worst_cases`, sooner: the first bound that is too long ends it. Raises
    Refused.
    """
    names = [group.name for group in system.groups]
    system = _alone(system)
    patience = Fraction(1)
    if any(group.trigger is not None or group.offset is None for group in system.groups):
        solved = _with_releases(system, patience)
        return None if late_groups(solved.system, solved.worst) else _of(names, solved.worst)
    windows = _by_windows(system, patience)
    by_windows = None if windows is None else _numbers(windows)
    late: Collection[int] = range(len(system.groups))
    if by_windows is not None:
        late = late_groups(system, by_windows)
        if not late:
            return _of(names, by_windows)
    streams = StreamSolver(unfold(system), patience, late)
    try:
        streams.solve()
    except TooLate:
        return None
    worst = _least(by_windows, _numbers(streams))
    return None if late_groups(system, worst) else _of(names, worst)


def _of(names: Collection[str], worst: WorstCases) -> WorstCases:
    """The bounds of these groups: servers have none of their own."""
    return WorstCases(
        {n: worst.groups[n] for n in names},
        {n: worst.paths[n] for n in names},
        {n: worst.chains[n] for n in names},
    )


def _by_windows(system: TimedSystem, patience: Fraction | None) -> WindowSolver | None:
    """The solution by job windows; None where there is none."""
    net = unfold_hyperperiod(system)
    if net is None:
        return None
    windows = WindowSolver(net, patience)
    windows.solve()
    return windows


def _numbers(solution: Solution) -> WorstCases:
    groups = solution.net.system.groups
    paths = {g.name: solution.latencies(i) for i, g in enumerate(groups)}
    chains = {}
    for group in groups:
        chains[group.name] = tuple(_chain(chain, paths, solution) for chain in group.chains)
    responses = {g.name: solution.response(i) for i, g in enumerate(groups)}
    return WorstCases(responses, paths, chains)


def _chain(chain: TimedChain, paths: PathBounds, solution: Solution) -> Fraction | None:
    """The bound of a chain: along each way the least of that in any phases, and of that on one
    clock. None where a group on its way is not followed to its end."""
    index = {group.name: i for i, group in enumerate(solution.net.system.groups)}
    if not all(name in index and solution.is_settled(index[name]) for name in chain.groups):
        return None
    ways = []
    for way in chain.ways:
        bound = bound_in_any_phases(chain, way, paths)
        if bound is not None and isinstance(solution, WindowSolver):
            bound = _less(bound, bound_on_one_clock(chain, way, solution))
        ways.append(bound)
    return over_ways(chain, ways)


def late_groups(system: TimedSystem, worst: WorstCases) -> list[int]:
    """The groups that have no bound, or a bound longer than its deadline."""
    late = []
    for number, group in enumerate(system.groups):
        held = [(worst.groups[group.name], group.due)]
        latencies = worst.paths[group.name]
        held += zip(latencies, (p.deadline for p in group.paths), strict=True)
        held += zip(worst.chains[group.name], (c.deadline for c in group.chains), strict=True)
        if any(bound is None or (due is not None and bound > due) for bound, due in held):
            late.append(number)
    return late


def _least(one: WorstCases | None, other: WorstCases) -> WorstCases:
    if one is None:
        return other
    groups = {}
    paths = {}
    chains = {}
    for name, response in other.groups.items():
        groups[name] = _less(one.groups[name], response)
        both = zip(one.paths[name], other.paths[name], strict=True)
        paths[name] = tuple(_less(a, b) for a, b in both)
        both = zip(one.chains[name], other.chains[name], strict=True)
        chains[name] = tuple(_less(a, b) for a, b in both)
    return WorstCases(groups, paths, chains)


def _less(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


# -- taken apart -----------------------------------------------------------------------------------
def bounds(system: TimedSystem) -> Bounds:
    """All bounds, taken apart: the least of all solutions. Raises Refused."""
    solvers = _with_releases(_alone(system), None).solvers
    told = [_told(solver) for solver in solvers]
    groups = {}
    for group in system.groups:
        groups[group.name] = reduce(_shorter_group, (each.groups[group.name] for each in told))
    tasks: dict[str, TaskBound] = {}
    for each in told:
        for name, bound in each.tasks.items():
            tasks[name] = _shorter_task(tasks[name], bound) if name in tasks else bound
    return Bounds(groups, tasks)


def _story(solution: Solution, number: int) -> Story:
    """Where the bounds of a cluster come from."""
    if isinstance(solution, WindowSolver):
        return WindowStory(solution, number)
    return StreamStory(solution, number)


def _told(solution: Solution) -> Bounds:
    """The bounds by one analysis."""
    groups: dict[int, GroupResponse] = {}
    tasks: dict[str, TaskBound] = {}
    for number, cluster in enumerate(solution.net.clusters):
        if number in solution.reasons:
            for g in cluster.groups:
                groups[g] = _unbounded(solution, g, solution.reasons[number])
        else:
            story = _story(solution, number)
            for g in cluster.groups:
                groups[g] = story.group(g)
                tasks.update((b.task, b) for b in story.tasks(g))
    return Bounds({groups[g].group: groups[g] for g in sorted(groups)}, tasks)


def _unbounded(solution: Solution, number: int, reason: str) -> GroupResponse:
    group = solution.net.system.groups[number]
    paths = tuple(PathResponse(path, None, ()) for path in group.paths)
    due = None if group.due is None else Fraction(group.due)
    return GroupResponse(group.name, None, due, reason, (), (), paths)


def _shorter_group(one: GroupResponse, other: GroupResponse) -> GroupResponse:
    """The bound of a group that is less, with the bounds of its paths that are less."""
    paths = []
    for a, b in zip(one.paths, other.paths, strict=True):
        paths.append(a if a.latency is not None and a.latency == _less(a.latency, b.latency) else b)
    less = other
    if one.response is not None and one.response == _less(one.response, other.response):
        less = one
    return replace(less, paths=tuple(paths))


def _shorter_task(one: TaskBound, other: TaskBound) -> TaskBound:
    """The bound of a task's end that is less, with the response that is less."""
    less = one if one.end < other.end else other
    return replace(less, response=min(one.response, other.response))
