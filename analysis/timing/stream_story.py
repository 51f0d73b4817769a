"""Where bounds by event streams come from, in terms.

In: a solved fixed point. Out: the bounds of groups, paths and tasks, each taken apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from .busy_window import ALWAYS, EventStream, Rivals, Tally, queued
from .by_streams import JobEnd, StreamSolver
from .terms import GroupResponse, Kind, PathResponse, TaskBound, Term, filled
from .unfolding import Job, Unfolded
from .whole_paths import PathShare, path_shares


class StreamStory:
    """Where the bounds of a cluster come from."""

    def __init__(self, solution: StreamSolver, number: int) -> None:
        self.solution, self.net = solution, solution.net
        self.cluster = solution.net.clusters[number]
        self.rivals, self.notes = solution.explained(number)
        self.worst = {j: max(notes, key=lambda n: n.end) for j, notes in self.notes.items()}

    def _ns(self, time: int) -> Fraction:
        return Fraction(time, self.net.unit)

    def _jobs(self, group: int) -> list[int]:
        return [j for j in self.cluster.order if self.net.jobs[j].group == group]

    def group(self, number: int) -> GroupResponse:
        """The bounds of a group, with what they are made of."""
        group = self.net.system.groups[number]
        jobs, ends = self.net.jobs, self.solution.ends
        response = self.solution.response(number)
        assert response is not None, "stories are of clusters with bounds"
        names: tuple[str, ...] = ()
        terms: tuple[Term, ...] = ()
        sinks = [j for j in self._jobs(number) if jobs[j].sink]
        if sinks:
            last = max(sinks, key=lambda j: ends[j] - jobs[j].base)
            names, terms = self._way(last, response)
        paths = []
        for n, latency in enumerate(self.solution.latencies(number)):
            assert latency is not None, "stories are of clusters with bounds"
            last, _ = max(self.net.paths[number][n], key=lambda x: ends[x[0]] - x[1])
            paths.append(PathResponse(group.paths[n], latency, self._way(last, latency)[1]))
        due = None if group.due is None else Fraction(group.due)
        return GroupResponse(group.name, response, due, "", names, terms, tuple(paths))

    def _way(self, here: int, length: Fraction) -> tuple[tuple[str, ...], tuple[Term, ...]]:
        """From the end of a job backwards to a release, `length` ns in all: the tasks that windows
        begin with, and what they are made of."""
        ends = self.solution.ends
        names: list[str] = []
        terms: list[Term] = []
        whole = False
        seen: set[int] = set()
        before: int | None = here
        while before is not None and before not in seen:
            here = before
            seen.add(here)
            names.append(_name(self.net, here))
            note = self.worst[here]
            if not whole:
                whole = note.end > ends[here]
                terms[:0] = self._shares(here) if whole else self._terms(here, note)
            before = self._before(note)
        return tuple(reversed(names)), filled(terms, length, names[-1])

    def _shares(self, j: int) -> Iterator[Term]:
        """The terms of a bound over the whole path."""
        solution = self.solution
        stretches = solution.stretches(self.cluster, self.rivals)
        for x in path_shares(self.net, self.cluster, self.rivals, stretches, j):
            if x.total:
                yield self._term(x.kind, self._who(x), x.times, x.total)

    def _who(self, share: PathShare) -> str:
        """What takes a share: a task, the groups of a worker, or pools."""
        if share.job >= 0:
            return _name(self.net, share.job)
        if share.lane >= 0:
            return self._groups(share.lane)
        return self._pools()

    def _before(self, note: JobEnd) -> int | None:
        """The job whose end the window of a note began with; None for a release."""
        job, ends = self.net.jobs[note.first], self.solution.ends
        whole, jitter = self.cluster.round, self.cluster.jitter
        if note.start == job.released:
            return None
        for w in job.waits:
            if note.start == w.latest(ends[w.job], whole, jitter, job.begin):
                return w.job
        return None

    def tasks(self, group: int) -> Iterator[TaskBound]:
        """The bounds of each task, by the firing that ends last."""
        jobs, ends = self.net.jobs, self.solution.ends
        by_task: dict[int, list[int]] = {}
        for j in self._jobs(group):
            by_task.setdefault(jobs[j].task, []).append(j)
        system = self.net.system
        for task, mine in by_task.items():
            last = max(mine, key=lambda j: ends[j] - jobs[j].base)
            note = self.worst[last]
            before = self._before(note)
            terms = tuple(self._terms(last, note))
            yield TaskBound(
                system.groups[group].tasks[task].name,
                system.groups[group].name,
                system.processors[self.net.lanes[jobs[last].worker].processor].name,
                self._ns(max(self._response(j) for j in mine)),
                self._ns(ends[last] - jobs[last].base),
                self._ns(max(self._spread(j) for j in mine) + self.cluster.jitter),
                "release" if before is None else _name(self.net, before),
                self._ns(note.start - note.shift - jobs[last].base),
                self._ns(note.window),
                terms,
                note.end > ends[last],
            )

    def _spread(self, j: int) -> int:
        job = self.net.jobs[j]
        if job.arrives is None:
            return self.solution.arrivals[j] - job.ready
        return self.solution.arrival(j, self.cluster) - job.arrives

    def _response(self, j: int) -> int:
        """From when a job has all it waits for to its end.

        The end less the earliest arrival is always right. It is less where the worker surely waits
        for what the job waits for, and where that is the end of an earlier job in the same worker,
        with no other waiting in between.
        """
        net, job = self.net, self.net.jobs[j]
        lane = net.lanes[job.worker]
        earliest = self._earliest(job)
        if earliest is None:
            return 0  # a firing of some phase that needs nothing
        inside = [net.jobs[w.job].place for w in job.same if w.lag == 0]
        rest = lane.jobs[max(inside, default=job.place - 1) + 1 : job.place + 1]
        direct = bool(inside) and all(net.jobs[o].arrives is None for o in rest[:-1])
        alone = all(o == j or net.jobs[o].arrives is None for o in lane.jobs)
        longest = 0
        for note in self.notes[j]:
            if direct and (note.rounds or net.jobs[note.first].place <= max(inside)):
                time = self.solution.stretch(rest, self.rivals[job.worker]).window
            elif note.first == j and job.arrives is not None and (alone or not note.rounds):
                time = note.window - self._apart(job, note)
            else:
                time = note.end - earliest
            longest = max(longest, time)
        return longest

    def _earliest(self, job: Job) -> int | None:
        """The earliest arrival of all that a job waits for, if it waits for anything."""
        whole, jitter = self.cluster.round, self.cluster.jitter
        arrivals = [] if job.arrives is None else [job.arrives]
        for w in job.same:
            other = self.net.jobs[w.job]
            arrivals.append(w.earliest(other.ready + other.best, whole, jitter, job.start))
        return max(arrivals, default=None)

    def _apart(self, job: Job, note: JobEnd) -> int:
        """Least time between the arrival of a job and that of the one so many rounds before."""
        if not note.rounds or job.arrives is None:
            return 0
        whole, net = self.cluster.round, self.net
        sources = {net.jobs[w.job].worker for w in job.waits}
        distance = 0
        if len(sources) == 1 and job.released is None and not any(w.lag for w in job.waits):
            # The worker that it waits for fires a whole round of its own in between.
            distance = sum(net.jobs[o].best for o in net.lanes[sources.pop()].jobs)
        jitter = note.start - job.arrives + self.cluster.jitter
        stream = EventStream(Fraction(whole), Fraction(jitter), Fraction(distance))
        return int(stream.apart(note.rounds + 1))

    def _terms(self, j: int, note: JobEnd) -> Iterator[Term]:
        """What the window of a note is made of."""
        net, job = self.net, self.net.jobs[j]
        lane = net.lanes[job.worker]
        rivals = self.rivals[job.worker]
        first = net.jobs[note.first].place
        if note.rounds:
            between = lane.jobs * (note.rounds - 1)
            chain = [*lane.jobs[first:], *between, *lane.jobs[: job.place + 1]]
        else:
            chain = [*lane.jobs[first : job.place + 1]]
        counts = Counter(chain)
        counts[j] -= 1
        tally = Tally()
        # as if it came first, so that it has the longest time of its task
        tally.add(job.plain, job.curved, 1)
        earlier: dict[int, int] = {}
        for number, times in counts.items():
            other = net.jobs[number]
            if times and other.cost:
                earlier[number] = tally.add(other.plain, other.curved, times)
        # One by one, as the window counts them, firings may be some units more: each is one at
        # least.
        tally = Tally()
        total = sum(tally.add(net.jobs[n].plain, net.jobs[n].curved, 1) for n in chain)
        yield self._term("own", _name(net, j), 1, total - sum(earlier.values()))
        for number, time in earlier.items():
            yield self._term("earlier", _name(net, number), counts[number], time)
        for term, time in self._others(note, rivals, lane.processor):
            total += time
            yield term
        if rivals.losses and note.window > total:
            processor = net.system.processors[lane.processor]
            pools = {s.aggressor for s in net.system.slowdowns if processor.is_of(s.victim)}
            yield self._term("contention", ", ".join(sorted(pools)), 1, note.window - total)

    def _groups(self, lane: int) -> str:
        """The groups of a worker."""
        groups = {self.net.jobs[o].group for o in self.net.lanes[lane].jobs}
        return ", ".join(sorted(self.net.system.groups[g].name for g in groups))

    def _pools(self) -> str:
        """Who may slow the cluster down."""
        system = self.net.system
        processors = [system.processors[self.net.lanes[i].processor] for i in self.cluster.lanes]
        pools = set()
        for slow in system.slowdowns:
            if any(p.is_of(slow.victim) for p in processors):
                pools.add(slow.aggressor)
        return ", ".join(sorted(pools))

    def _term(self, kind: Kind, who: str, times: int, total: int) -> Term:
        return Term(kind, who, times, self._ns(total) / max(1, times), self._ns(total))

    def _others(self, note: JobEnd, rivals: Rivals, processor: int) -> Iterator[tuple[Term, int]]:
        tally = Tally()
        for d in rivals.higher:
            times = (note.window + d.came) // d.spacing
            time = tally.add(d.plain, d.curved, times)
            yield self._term("higher", _name(self.net, d.first), times, time), time
        for q in rivals.queues:
            time = queued(q, note.parts, note.level, note.window)
            kind: Kind = "queue" if q.sums else "equal"
            all_of_it, tally = 0, Tally()
            terms = []
            for d in q.demands:
                if d is ALWAYS:
                    continue
                times = min((note.level + d.came) // d.spacing, (note.window + d.ran) // d.spacing)
                each = tally.add(d.plain, d.curved, times)
                all_of_it += each
                terms.append((self._term(kind, _name(self.net, d.first), times, each), each))
            if time == all_of_it:
                yield from terms
            elif time:
                yield self._term("queue", self._groups(q.lane), note.parts, time), time


def _name(net: Unfolded, j: int) -> str:
    job = net.jobs[j]
    return net.system.groups[job.group].tasks[job.task].name
