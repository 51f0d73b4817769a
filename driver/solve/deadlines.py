"""The step that maps apps with periods jointly: from a checked text and its profile to places and
response times.

In: a text whose apps all have periods, and worst-case times per kind of processor. Out: the places,
the bound on every app's response time, and the gap to the optimum.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from ...analysis.timing.chains import chain_terms
from ...analysis.timing.program import timed_program
from ...analysis.timing.response_time import bounds, worst_cases
from ...analysis.timing.simulate import Choices, simulate
from ...analysis.timing.system import (
    Refused,
    Time,
    TimedChain,
    TimedSystem,
    utilization,
)
from ...analysis.timing.terms import Term, WorstCases
from ...codegen.deploy import missing
from ...model.deployment import Deployment
from ...model.diagnostic import Diagnostic, Errors, listed
from ...model.mapping import Mapping
from ...model.times import MARGIN, Times, too_optimistic
from ...model.workload import WorkloadCurve, workload
from ...profiling.measure import MeasuredTimes, worst_case
from ...profiling.there.samples import warm
from ...report.gantt import Bar, Chart
from ...search.deadline.answer import mapping_of
from ...search.deadline.interpreter import waited_for
from ...search.deadline.limits import Deadlines, Held, held, in_ms
from ...search.deadline.outcome import Outcome
from ...search.deadline.partly_measured import partly_measured
from ...search.deadline.problem import (
    Assignment,
    BackgroundApp,
    JointProblem,
    TaskGroup,
)
from ...search.deadline.program import firing_times, program_paths, timed
from ...search.deadline.verdict import MappingVerdict, verdict, with_bounds
from ...search.registry import search_named
from ..measure.measure import run_deployed
from ..plan.program import place, plan
from ..text.check import Valid
from .advice import tested_changes
from .deadline_problem import joint_problem, overloaded, require_possible
from .known_times import KnownTimes
from .request import MapRequest

#: Seconds for which a program runs at its own pace: so many frames of the slowest app, within
#: limits.
PACED, PACED_FRAMES, PACED_MOST = 3.0, 30, 20.0
#: If a program had to wait for a core for more than this share of its time, its run measures the
#: machine's other load more than the program. Most runs for one answer.
DISTURBED, RUNS = 0.05, 3

#: Worst-case times of firings in ns, by task: of the whole, or of each of its kernels.
_FiringTimes = dict[str, Time | tuple[Time, ...]]


@dataclass(frozen=True, slots=True)
class Joint:
    """The problem, the answer, and the same as a mapping.

    `program` is the timing of the program that a build writes, if one can be built here, and
    `verdict` its result (else that of the search). `seen` is the measurement of its run here at its
    own pace. `doubt`: why the bounds are not those of the program. `diagnostics`: what
    makes every mapping late, and differences between its run and the text.
    """

    problem: JointProblem
    outcome: Outcome
    mapping: Mapping
    verdict: MappingVerdict | None
    program: TimedSystem | None = None
    seen: MeasuredTimes | None = None
    doubt: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def disturbed(self) -> bool:
        """Did other programs of the machine use the cores while it ran?"""
        return self.seen is not None and self.seen.delayed > DISTURBED

    @property
    def system(self) -> TimedSystem | None:
        """What the bounds refer to: the program, or for boards that are not connected, the program
        as planned."""
        if self.program is not None or self.outcome.assignment is None:
            return self.program
        return timed(self.problem, self.outcome.assignment)

    @property
    def background(self) -> tuple[BackgroundApp, ...]:
        """The apps without a period, where the answer has them."""
        return self.problem.beside(self.outcome.assignment)

    @property
    def holding(self) -> tuple[str, ...]:
        """The tasks that may hold the interpreter while apps with periods want it."""
        if self.system is None:
            return ()
        waits = waited_for(self.problem, self.system, self.background).values()
        named = {task for tasks in waits for task in tasks}
        tasks = [task.name for task in self.problem.tasks]
        tasks += [name for app in self.background for name in app.holding]
        return tuple(name for name in tasks if name in named)

    @property
    def partly_measured(self) -> dict[str, str]:
        """The tasks whose times were measured with less than bounds count, and with what."""
        if self.system is None:
            return {}
        found: dict[str, str] = {}
        for tasks in partly_measured(self.problem, self.system).values():
            found |= tasks
        return found

    @property
    def bounded(self) -> BoundedMapping | None:
        """The mapping with what its bounds refer to; None if no mapping was found."""
        system, assignment = self.system, self.outcome.assignment
        if system is None or assignment is None or self.verdict is None:
            return None
        return BoundedMapping(assignment, self.verdict, system)


@dataclass(frozen=True, slots=True)
class BoundedMapping:
    """A mapping that was found, its bounds, and the program that they refer to."""

    assignment: Assignment
    verdict: MappingVerdict
    system: TimedSystem


def wants_joint(valid: Valid) -> bool:
    """Deadlines to be met: every app has a period."""
    return bool(valid.system.apps) and all(a.period_ns is not None for a in valid.system.apps)


def map_jointly(valid: Valid, known: KnownTimes, request: MapRequest) -> Joint:
    """Search for the least maximum utilization with which every app meets its deadline.

    On this machine the program runs briefly, if the request permits it. Raises Errors.
    """
    problem = joint_problem(valid, known.times, request.search_workers)
    outcome = outcome_of(problem, request)
    return best_judged(valid, known, outcome, request, lambda found: (problem, found))


def outcome_of(problem: JointProblem, request: MapRequest) -> Outcome:
    """The search's answer for a problem that is possible. Raises Errors."""
    require_possible(problem)
    counts = ", ".join(f"{n.name} {len(n.candidates)}" for n in problem.networks)
    request.say(f"candidates: {counts}" if counts else "no networks")
    try:
        outcome = searched(problem, request)
        if outcome.verdict is None:
            _require_bounds(problem)
    except Refused as refused:
        raise Errors(
            [Diagnostic("F509", f"no bound is known: {why}", None) for why in refused.faults]
        ) from refused
    return outcome


def best_judged(
    valid: Valid,
    known: KnownTimes,
    outcome: Outcome,
    request: MapRequest,
    posed: Callable[[Outcome], tuple[JointProblem, Outcome]],
) -> Joint:
    """An answer with the results of the program; one on more processors if it is late on few.

    `posed` gives the problem that an answer is judged by, and the answer with the verdict for it.
    """
    joint = judged(valid, known, *posed(outcome), request)
    if outcome.balanced is None or joint.verdict is None or not joint.verdict.late:
        return joint
    request.say("late on few processors: trying more of them")
    balanced = replace(outcome.balanced, history=outcome.history)
    other = judged(valid, known, *posed(balanced), request)
    if other.verdict is not None and len(other.verdict.late) < len(joint.verdict.late):
        return other
    return joint


def searched(problem: JointProblem, request: MapRequest) -> Outcome:
    """The search's answer to a request for a problem. Raises Errors, and Refused if there are no
    bounds."""
    found: Outcome = search_named(request.search, "deadlines").run(
        problem,
        seed=request.seed,
        budget=request.allowance,
        progress=request.progress,
        evolution=request.evolution_changes,
        search_workers=request.search_workers,
        objectives=request.objectives("deadlines"),
    )
    return found


def judged(
    valid: Valid, known: KnownTimes, problem: JointProblem, outcome: Outcome, request: MapRequest
) -> Joint:
    """An answer with the results of the program, because searches assume orders of their own."""
    if outcome.verdict is not None:
        problem = problem.in_order(outcome.verdict.order)
    joint = Joint(
        problem,
        outcome,
        mapping_of(problem, outcome, outcome.verdict, request.seed),
        outcome.verdict,
        diagnostics=tuple(overloaded(problem)),
    )
    try:
        return _of_program(valid, known, joint, request)
    except Refused as refused:
        return replace(joint, doubt="; ".join(refused.faults))


def _require_bounds(problem: JointProblem) -> None:
    """Raises Refused if not even the simplest assignment has bounds, for example without a
    period."""
    chosen = [network.candidates[0].stages for network in problem.networks]
    stages = tuple(tuple(problem.of_type[s.type][0] for s in made) for made in chosen)
    tasks = tuple(problem.places(task)[0] for task in problem.tasks)
    verdict(problem, Assignment((0,) * len(chosen), stages, tasks))


def _of_program(valid: Valid, known: KnownTimes, joint: Joint, request: MapRequest) -> Joint:
    """The answer with the bounds of the program, if one can be built here. Raises Refused.

    If other programs disturbed its run, and an app is late, it runs again: the least disturbed run
    counts.
    """
    if joint.outcome.verdict is None:
        return joint
    best = joint
    for _ in range(RUNS):
        planned = program(valid, known, joint, request)
        if planned is None:
            return joint
        system, seen = planned
        used = {**dict.fromkeys(joint.problem.processors, Fraction(0)), **utilization(system)}
        verdict = replace(
            with_bounds(joint.problem, joint.outcome.verdict, worst_cases(system)), utilization=used
        )
        if best.seen is None or (seen is not None and seen.delayed < best.seen.delayed):
            mapping = mapping_of(joint.problem, joint.outcome, verdict, request.seed, seen, system)
            said = () if seen is None else _exceeding(valid, known.times, seen)
            best = replace(
                joint,
                mapping=mapping,
                verdict=verdict,
                program=system,
                seen=seen,
                diagnostics=(*joint.diagnostics, *said),
            )
        if seen is None or seen.delayed <= DISTURBED or not verdict.late:
            break
        request.say(f"other programs had the cores for {seen.delayed:.0%} of its time")
    return best


def program(
    valid: Valid, known: KnownTimes, joint: Joint, request: MapRequest
) -> tuple[TimedSystem, MeasuredTimes | None] | None:
    """The timing of the program that a build would write with this mapping; None if none can be
    built here.

    On this machine it runs briefly, because a profile does not contain the overheads of release,
    runtime and kernel; the measurement is returned too. Raises Errors if it fails, and Refused if
    it has no known bounds.
    """
    assignment = joint.outcome.assignment
    if assignment is None or missing(valid.system):
        return None
    try:
        mapped = valid.mapped(joint.mapping)
    except Errors as errors:
        raise Refused([d.message for d in errors.diagnostics if d.severity == "error"]) from errors
    kernels, curves, phases = firing_times(joint.problem, assignment)
    times: _FiringTimes = {**kernels}
    for app in joint.background:
        times.update(app.longest)
    for name, ns in _times_of_transfers(mapped).items():
        times.setdefault(name, ns)
    its_times = known.of(mapped).times
    deployed = plan(mapped, its_times, place(mapped, its_times))
    paths = program_paths(joint.problem, assignment)
    chains = {group.name: group.chains for group in joint.problem.groups}
    releases = {g.name: g.release for g in joint.problem.groups if g.release is not None}

    def planned() -> TimedSystem:
        system = timed_program(deployed.deployment, valid.platform, times, curves, phases, releases)
        groups = [replace(g, paths=paths[g.name], chains=chains[g.name]) for g in system.groups]
        return replace(system, groups=tuple(groups))

    if not valid.at_hand or not request.runs_program:
        return planned(), None
    seconds = _seconds_to_run(mapped)
    request.say(f"running it at its own pace for {seconds:.0f} s")
    seen = run_deployed(mapped, deployed, seconds, report=request.report)
    followers = {follower.name for follower in joint.problem.roaming}
    for name, samples in seen.samples.items():
        # A declared WCET of a firing stands: `_exceeding`. That `repeat` and `last` take no time is
        # only an assumption.
        if name in followers or not _vouched(its_times, name):
            _raise_to_samples(name, samples, times, curves)
    system = planned()
    return system, replace(seen, paths=_in_order(seen, deployed.deployment, system))


def _times_of_transfers(mapped: Valid) -> dict[str, int]:
    """The WCETs of the tasks that carry tokens to other machines."""
    carriers = (task for task in mapped.tasks.values() if task.transfer is not None)
    return {task.name: ceil(max(task.wcet_ns)) for task in carriers}


def _seconds_to_run(mapped: Valid) -> float:
    """How long a program runs at its own pace."""
    longest = max(float(app.period_ns or 0) / 1e9 for app in mapped.system.apps)
    return min(max(PACED, PACED_FRAMES * longest), PACED_MOST)


def _raise_to_samples(
    name: str, samples: Sequence[int], times: _FiringTimes, curves: dict[str, WorkloadCurve]
) -> None:
    """Let the times of a task cover what was measured, first firings included: they have deadlines
    too."""
    if name in curves:
        curves[name] = workload(samples, worst_case(samples))
    elif name in times:
        kernels = times[name]
        whole = sum(kernels) if isinstance(kernels, tuple) else kernels
        times[name] = max(whole, worst_case(samples), *samples)


def _in_order(
    seen: MeasuredTimes, deployment: Deployment, system: TimedSystem
) -> dict[str, tuple[tuple[int | None, int, int], ...]]:
    """The measured latencies of the paths of each app and of the chains that end in it, in the
    order of the system's; empty if there are none."""
    groups = {group.name: group for group in system.groups}
    latencies = {}
    for app in deployment.apps:
        if app.name not in groups:  # it is in the background
            continue
        measured = seen.paths.get(app.name, ())
        told = [path for path in app.paths if path.kind != "part"]
        by_ends: dict[tuple[str, str, str], tuple[int | None, int, int]] = {}
        for path, latency in zip(told, measured, strict=False):
            by_ends[path.kind, path.source, path.sink] = latency
        group = groups[app.name]
        wanted: list[tuple[str, str, str]] = []
        wanted += [("path", path.source, path.sink) for path in group.paths]
        wanted += [(chain.kind, chain.source, chain.sink) for chain in group.chains]
        latencies[app.name] = tuple(by_ends.get(ends, (None, 0, 0)) for ends in wanted)
    return latencies


def _vouched(times: Times, task: str) -> bool:
    """Does the text declare the WCET of a task?"""
    time = times.here(task) if task in times.of else None
    return time is not None and time.from_text


def _exceeding(valid: Valid, times: Times, seen: MeasuredTimes) -> tuple[Diagnostic, ...]:
    """Warnings for tasks that took longer at their own pace than their declared WCET, without first
    firings."""
    warnings = []
    for name, samples in seen.samples.items():
        task = valid.tasks.get(name)
        if task is None or task.resampling is not None:
            continue
        time = times.here(name)
        longest = max(warm(samples))
        if time is not None and time.from_text and longest > time.longest_ns:
            warnings.append(too_optimistic(task, time, longest))
    return tuple(warnings)


# -- what can be said of it ------------------------------------------------------------------------
def reasons(joint: Joint) -> list[str]:
    """The busiest processor, the tightest group, and what would help if a deadline is missed."""
    mapping = joint.bounded
    if mapping is None:
        return [
            "no mapping was found: make periods longer, or search longer with --budget or"
            " --evaluations"
        ]
    verdict = mapping.verdict
    busiest = max(verdict.utilization, key=lambda p: verdict.utilization[p])
    lines = [
        f"`{busiest}` is the busiest processor: {float(verdict.utilization[busiest]):.2%} of its"
        " time"
    ]
    for broken in verdict.broken:
        if not isinstance(broken.limit, Deadlines):  # deadlines follow below, with remedies
            lines.append(f"{broken.reason}: {broken.remedy}" if broken.remedy else broken.reason)
    lines += _about_priorities(joint.problem, verdict)
    groups = joint.problem.groups
    unbounded = [group for group in groups if verdict.worst.groups[group.name] is None]
    overloaded = [*_overloaded(mapping)]
    responses = bounds(mapping.system).groups if unbounded else {}
    for group in unbounded:
        why = " and ".join(overloaded) or responses[group.name].reason
        lines.append(f"`{group.name}` has no bound: {why}")
    for group in groups:
        for each in held(group, verdict.worst):
            if each.chain is not None and each.bound is None:
                lines.append(f"{each.name(group)} has no bound: {each.unbounded}")
    lines += _about_tightest(
        joint.problem, mapping, [group for group in groups if group not in unbounded]
    )
    if verdict.late:
        lines += _what_would_help(joint.problem, mapping)
    lines += _about_shares(joint)
    lines += _about_interpreter(joint.holding)
    lines += [
        f"`{bound.app}` depends on estimated times, which count {float(MARGIN - 1):.0%} more"
        for bound in joint.mapping.groups
        if bound.rests_on("estimated")
    ]
    return lines


def _about_priorities(problem: JointProblem, verdict: MappingVerdict) -> Iterator[str]:
    """Whether another order of the apps may keep the deadlines that are missed."""
    if not problem.ranked or not verdict.late or not problem.is_open:
        return
    if set(verdict.late) <= verdict.hopeless:
        yield "with these places, no order of priorities that the text allows keeps all deadlines"
    else:
        yield (
            "with these places, another order of priorities may keep more deadlines: not all were"
            " tried"
        )


def _about_shares(joint: Joint) -> Iterator[str]:
    """What apps with a share get."""
    servers = Counter(place for app in joint.background for place in app.served)
    unassured = joint.problem.unassured(joint.outcome.assignment)
    for app in joint.background:
        if app.share is None:
            continue
        server, most = app.share.server, app.share.most_ns
        line = f"`{app.name}` has {in_ms(Fraction(server.budget_ns))} of every"
        line += f" {in_ms(server.period_ns)}"
        alone = all(servers[place] == 1 for place in app.served)
        if most is not None and alone and not unassured:
            line += f": an iteration takes at most {in_ms(most)} from its data on"
        yield line


def _about_interpreter(holding: Sequence[str]) -> Iterator[str]:
    """What may hold the interpreter, and what to do."""
    if holding:
        yield (
            f"the Python of {listed(holding)} may keep other threads waiting: pin it with"
            " `process`, have it in C, or build a program in C++ (`--target native`)"
        )


def _about_tightest(
    problem: JointProblem, mapping: BoundedMapping, groups: Sequence[TaskGroup]
) -> Iterator[str]:
    """The group or path that needs the largest share of its deadline, and what its bound is made
    of."""
    tight: list[tuple[Fraction, TaskGroup, Held, Fraction]] = []
    for group in groups:
        for each in held(group, mapping.verdict.worst):
            if each.bound is not None and each.due:
                tight.append((each.bound / each.due, group, each, each.bound))
    if not tight:
        return
    share, group, what, bound = max(tight, key=lambda t: t[0])
    yield f"{what.name(group)} is the tightest: {in_ms(bound)} of {in_ms(what.due)}"
    if what.chain is not None:
        yield from _parts_of(problem, mapping.verdict.worst, what.chain, bound)
        if share > 1:
            yield f"a deadline of {in_ms(bound)} would be proved, and shorter periods help"
        return
    yield from _taken_apart(mapping.system, group, what)
    if share > 1:
        yield f"a deadline of {in_ms(bound)} would be proved"


def _parts_of(
    problem: JointProblem, worst: WorstCases, chain: TimedChain, bound: Fraction
) -> Iterator[str]:
    """What the bound of a chain is made of, along the way on which data can be oldest, or on which
    news come first."""
    groups = {group.name: group for group in problem.groups}
    told = []
    for way in chain.ways:
        terms = chain_terms(chain, way, worst.paths)
        if terms is not None:
            total = sum((wait + latency for wait, latency in terms), start=Fraction(0))
            told.append((total, way, terms))
    pick = max if chain.kind == "age" else min
    total, way, terms = pick(told, key=lambda each: each[0])
    waits_for = "its release" if chain.kind == "reaction" else "a newer token"
    for part, (wait, latency) in zip(way, terms, strict=True):
        path = groups[part.group].paths[part.path]
        line = f"  `{path.source} -> {path.sink}` takes {in_ms(latency)}"
        if wait:
            line += f", after up to {in_ms(wait)} until {waits_for} is there"
        yield line
    if bound < total:
        yield f"  {in_ms(total)} in the worst phases: these are known, which saves the rest"


def missed(verdict: MappingVerdict) -> Iterator[str]:
    """What has more to do than it has time, what is late by how much, and limits of the board that
    are not kept."""
    for name, share in verdict.utilization.items():
        if share > 1:
            yield f"`{name}` needs {float(share):.0%} of its time"
    for broken in verdict.broken:
        yield broken.reason


def _overloaded(mapping: BoundedMapping) -> Iterator[str]:
    """Each processor that has more to do than it has time, and what takes most of it."""
    for processor, share in mapping.verdict.utilization.items():
        shares = {
            task.name: task.sustained * task.firings / Fraction(group.period)
            for group in mapping.system.groups
            for task in group.tasks
            if task.processor == processor
        }
        if share > 1 and shares:
            largest = max(shares, key=lambda name: shares[name])
            yield (
                f"`{processor}` would need {float(share):.0%} of its time,"
                f" {float(shares[largest]):.0%} for `{largest}`"
            )


def _what_would_help(problem: JointProblem, mapping: BoundedMapping) -> Iterator[str]:
    """Changes of the text with which all deadlines are kept."""
    changes = tested_changes(problem, mapping.assignment, mapping.system)
    if not changes:
        yield "no single change that was tried keeps all deadlines: combine several"
        return
    yield "each of these alone keeps all deadlines, by the same bounds:"
    yield from (f"  {change.words}" for change in changes)


#: How the tasks behind each term of a bound delay the group.
_WORDS = {
    "earlier": "runs before it on the same processor",
    "own": "runs before it in the same order",
    "release": "runs before it in the same order",
    "higher": "preempts it",
    "equal": "may come first",
    "queue": "is ahead of it in queues",
    "spared": "has less to slip in",
    "contention": "slows it down",
}
#: The same for firings of the group itself: of other tasks, or for other frames.
_OF_ITSELF = "its other firings on the same processor may come first"


def _taken_apart(system: TimedSystem, team: TaskGroup, what: Held) -> Iterator[str]:
    """The terms of a bound: the group's own path, and the delays by others."""
    group = team.name
    bound = bounds(system).groups[group]
    terms = bound.terms if what.path is None else bound.paths[team.paths.index(what.path)].terms
    home = {t.name: g.name for g in system.groups for t in g.tasks}
    own: dict[str, Fraction] = {}
    others: dict[tuple[str, str], list[Term]] = {}
    before = Fraction(0)
    asleep: list[Fraction] = []
    for term in terms:
        if term.total < 0:
            before -= term.total
        elif term.kind == "wakeup":
            asleep.append(term.total)
        elif term.kind in ("own", "earlier", "release") and home.get(term.who) == group:
            own[term.who] = own.get(term.who, Fraction(0)) + term.total
        else:
            name = home.get(term.who, term.who)
            does = _OF_ITSELF if name == group else f"`{name}` {_WORDS[term.kind]}"
            others.setdefault((name, does), []).append(term)
    said = ", ".join(
        f"{name.removeprefix(group + '.')} {float(ns) / 1e6:.2f}" for name, ns in own.items()
    )
    yield f"  its own path takes {float(sum(own.values())) / 1e6:.2f} ms: {said}"
    if before:
        yield f"  {float(before) / 1e6:.2f} ms of this are before the release that counts"
    if asleep:
        times = "once" if len(asleep) == 1 else f"{len(asleep)} times"
        yield f"  threads wake up late {times}: {float(sum(asleep)) / 1e6:.2f} ms"
    for (name, does), theirs in sorted(others.items(), key=lambda o: -sum(t.total for t in o[1])):
        parts = ", ".join(
            f"{t.times} x {t.who.removeprefix(name + '.')} {float(t.total) / 1e6:.2f}"
            for t in theirs
            if t.times > 0
        )
        yield f"  {does}: {float(sum(t.total for t in theirs)) / 1e6:.2f} ms ({parts})"


def simulated(joint: Joint) -> Chart | None:
    """Some periods of the mapped system with worst-case times, as a chart; None if no mapping was
    found."""
    system = joint.system
    if system is None:
        return None
    horizon = 3 * max(t.period_ns for t in joint.problem.groups)
    seen = simulate(system, horizon, Choices(), random.Random(0), keep=True)
    bars: list[Bar] = []
    for s in sorted(seen.slices, key=lambda s: (s.processor, s.start)):
        last = bars[-1] if bars else None
        if last and (last.lane, last.task, last.iteration, last.end) == (
            s.processor,
            s.group,
            s.iteration,
            float(s.start),
        ):
            bars[-1] = replace(last, end=float(s.end))  # until its next kernel, or the next task
        elif s.end > s.start:
            bars.append(Bar(s.processor, s.group, s.iteration, float(s.start), float(s.end)))
    releases = tuple(float(k * t.period_ns) for t in joint.problem.groups[:1] for k in range(3))
    return Chart(
        f"{joint.outcome.search}, worst-case times",
        joint.problem.processors,
        tuple(bars),
        releases,
        False,
    )
