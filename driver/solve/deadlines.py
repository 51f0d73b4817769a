"""The step that maps apps with periods jointly: from a checked text and its profile to places and
response times.

In: a text whose apps all have periods, and worst-case times per kind of processor. Out: the places,
the bound on every app's response time, and the gap to the optimum.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from ...analysis.timing.program import timed_program
from ...analysis.timing.response_time import Term, bounds, worst_cases
from ...analysis.timing.simulate import Choices, simulate
from ...analysis.timing.system import Refused, Time, TimedPath, TimedSystem, utilization
from ...codegen.deploy import missing
from ...model.deployment import Deployment
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Mapping
from ...model.times import MARGIN, Times, too_optimistic
from ...model.workload import workload
from ...profiling.measure import WARM_UP, MeasuredTimes, worst_case
from ...report.gantt import Bar, Chart
from ...search.deadline.answer import mapping_of
from ...search.deadline.limits import Deadlines, Held, held, in_ms
from ...search.deadline.outcome import Outcome
from ...search.deadline.problem import Assignment, JointProblem, TaskGroup, slowed
from ...search.deadline.program import firing_times, program_paths, timed
from ...search.deadline.verdict import MappingVerdict, verdict, with_bounds
from ...search.registry import search_named
from ..measure.measure import run_deployed
from ..plan.program import place, plan
from ..text.check import Valid
from .deadline_problem import joint_problem, require_possible
from .known_times import KnownTimes
from .request import MapRequest

#: Seconds for which a program runs at its own pace: so many frames of the slowest app, within
#: limits.
PACED, PACED_FRAMES, PACED_MOST = 3.0, 30, 20.0
#: If a program had to wait for a core for more than this share of its time, its run measures the
#: machine's other load more than the program. Most runs for one answer.
DISTURBED, RUNS = 0.05, 3


@dataclass(frozen=True, slots=True)
class Joint:
    """The problem, the answer, and the same as a mapping.

    `program` is the timing of the program that a build writes, if one can be built here, and
    `verdict` its result (else that of the search). `seen` is the measurement of its run here at its
    own pace. `doubt`: why the bounds are not those of the program. `diagnostics`: differences
    between its run and the text.
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


def wants_joint(valid: Valid) -> bool:
    """Deadlines to be met: every app has a period."""
    return bool(valid.system.apps) and all(a.period_ns is not None for a in valid.system.apps)


def map_jointly(valid: Valid, known: KnownTimes, request: MapRequest) -> Joint:
    """Search for the least maximum utilization with which every app meets its deadline.

    On this machine the program runs briefly, if the request permits it. Raises Errors.
    """
    problem = joint_problem(valid, known.times, request.search_workers)
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
    found = judged(valid, known, problem, outcome, request)
    if outcome.balanced is None or found.verdict is None or not found.verdict.late:
        return found
    request.say("late on few processors: trying more of them")
    other = judged(
        valid, known, problem, replace(outcome.balanced, history=outcome.history), request
    )
    return (
        other
        if other.verdict is not None and len(other.verdict.late) < len(found.verdict.late)
        else found
    )


def searched(problem: JointProblem, request: MapRequest) -> Outcome:
    """The search's answer to a request for a problem. Raises Errors, and Refused if there are no
    bounds."""
    found: Outcome = search_named(request.search, "deadlines").run(
        problem,
        seed=request.seed,
        budget=request.allowance,
        progress=request.progress,
        search_workers=request.search_workers,
        objectives=request.objectives("deadlines"),
    )
    return found


def judged(
    valid: Valid, known: KnownTimes, problem: JointProblem, outcome: Outcome, request: MapRequest
) -> Joint:
    """An answer with the results of the program, because searches assume orders of their own."""
    found = Joint(
        problem,
        outcome,
        mapping_of(problem, outcome, outcome.verdict, request.seed),
        outcome.verdict,
    )
    try:
        return _of_program(valid, known, found, request)
    except Refused as refused:
        return replace(found, doubt="; ".join(refused.faults))


def _require_bounds(problem: JointProblem) -> None:
    """Raises Refused if not even the simplest assignment has bounds, for example without a
    period."""
    chosen = [network.candidates[0].stages for network in problem.networks]
    stages = tuple(tuple(problem.of_kind[s.kind][0] for s in made) for made in chosen)
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
            mapping = mapping_of(joint.problem, joint.outcome, verdict, request.seed, seen)
            said = () if seen is None else _exceeding(valid, known.times, seen)
            best = replace(
                joint, mapping=mapping, verdict=verdict, program=system, seen=seen, diagnostics=said
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
    found = joint.outcome.assignment
    if found is None or missing(valid.system):
        return None
    try:
        mapped = valid.mapped(joint.mapping)
    except Errors as errors:
        raise Refused([d.message for d in errors.diagnostics if d.severity == "error"]) from errors
    supposed = {f.name for f in joint.problem.followers}
    kernels, curves = firing_times(joint.problem, found)
    times: dict[str, Time | tuple[Time, ...]] = {**kernels}
    carriers = (t for t in mapped.tasks.values() if t.transfer is not None)
    times |= {t.name: ceil(max(t.wcet_ns)) for t in carriers if t.name not in times}
    its_times = known.of(mapped).times
    deployed = plan(mapped, its_times, place(mapped, its_times))
    paths = program_paths(joint.problem, found)

    def planned() -> TimedSystem:
        system = timed_program(deployed.deployment, valid.platform, times, curves)
        return replace(system, groups=tuple(replace(g, paths=paths[g.name]) for g in system.groups))

    if not valid.at_hand or not request.runs_program:
        return planned(), None
    longest = max(float(a.period_ns or 0) / 1e9 for a in mapped.system.apps)
    seconds = min(max(PACED, PACED_FRAMES * longest), PACED_MOST)
    request.say(f"running it at its own pace for {seconds:.0f} s")
    seen = run_deployed(mapped, deployed, seconds, report=request.report)
    # The first firings count as well: they have deadlines too. A declared WCET of a firing stands:
    # `_exceeding`. That `repeat` and `last` take no time is only an assumption.
    for name, kept in seen.samples.items():
        if _vouched(its_times, name) and name not in supposed:
            continue
        if name in curves:
            curves[name] = workload(kept, worst_case(kept))
        elif name in times:
            given = times[name]
            whole = sum(given) if isinstance(given, tuple) else given
            times[name] = max(whole, worst_case(kept), *kept)
    return planned(), replace(seen, paths=_in_order(seen, deployed.deployment, paths))


def _in_order(
    seen: MeasuredTimes, deployment: Deployment, paths: dict[str, tuple[TimedPath, ...]]
) -> dict[str, tuple[tuple[int | None, int, int], ...]]:
    """The measured latencies of the paths of each app, in the order of the problem's; empty if
    there are none."""
    found = {}
    for app in deployment.apps:
        shown = {
            (p.source, p.sink): x
            for p, x in zip(app.paths, seen.paths.get(app.name, ()), strict=False)
        }
        found[app.name] = tuple(
            shown.get((p.source, p.sink), (None, 0, 0)) for p in paths[app.name]
        )
    return found


def _vouched(times: Times, task: str) -> bool:
    """Does the text declare the WCET of a task?"""
    found = times.here(task) if task in times.of else None
    return found is not None and found.from_text


def _exceeding(valid: Valid, times: Times, seen: MeasuredTimes) -> tuple[Diagnostic, ...]:
    """Warnings for tasks that took longer at their own pace than their declared WCET, without first
    firings."""
    found = []
    for name, samples in seen.samples.items():
        time = (
            times.here(name)
            if name in valid.tasks and valid.tasks[name].resampling is None
            else None
        )
        most = max(samples[int(len(samples) * WARM_UP) :], default=0)
        if time is not None and time.from_text and most > time.longest_ns:
            found.append(too_optimistic(valid.tasks[name], time, most))
    return tuple(found)


# -- what can be said of it ------------------------------------------------------------------------
def reasons(joint: Joint) -> list[str]:
    """The busiest processor, the tightest group, and what would help if a deadline is missed."""
    verdict, problem = joint.verdict, joint.problem
    if verdict is None:
        return [
            "no mapping was found: make periods longer, or search longer with --budget or"
            " --evaluations"
        ]
    busiest = max(verdict.utilization, key=lambda p: verdict.utilization[p])
    lines = [
        f"`{busiest}` is the busiest processor: {float(verdict.utilization[busiest]):.2%} of its"
        " time"
    ]
    for broken in verdict.broken:
        if not isinstance(broken.limit, Deadlines):  # deadlines follow below, with remedies
            lines.append(f"{broken.reason}: {broken.remedy}" if broken.remedy else broken.reason)
    tight: list[tuple[Fraction, TaskGroup, Held]] = []
    unbounded = False
    for group in problem.groups:
        if verdict.worst.groups[group.name] is None:
            lines.append(
                f"`{group.name}` has no bound: too many tasks can delay it on some processor"
            )
            unbounded = True
            continue
        tight += [
            (h.bound / h.due, group, h)
            for h in held(group, verdict.worst)
            if h.bound is not None and h.due
        ]
    if unbounded:
        lines += _with_less_to_do(joint, busiest)
    if tight:
        share, group, what = max(tight, key=lambda t: t[0])
        assert what.bound is not None
        lines.append(
            f"{what.name(group)} is the tightest: {in_ms(what.bound)} of {in_ms(what.due)}"
        )
        lines += _taken_apart(joint, group, what)
        if share > 1:
            hopeless = what.due is not None and _alone(joint, group, what) > what.due
            rival = "" if hopeless else f", or a higher priority than {group.priority}"
            lines.append(f"a deadline of {in_ms(what.bound)} would be met{rival}")
    lines += [
        f"`{name}` depends on estimated times, which count {float(MARGIN - 1):.0%} more"
        for name in verdict.conditional
    ]
    return lines


def missed(verdict: MappingVerdict) -> Iterator[str]:
    """What has more to do than it has time, what is late by how much, and limits of the board that
    are not kept."""
    for name, share in verdict.utilization.items():
        if share > 1:
            yield f"`{name}` needs {float(share):.0%} of its time"
    for broken in verdict.broken:
        yield broken.reason


def _with_less_to_do(joint: Joint, busiest: str) -> Iterator[str]:
    """What would help where there is no bound: the response times of the same mapping at a lower
    rate."""
    assert joint.outcome.assignment is not None
    for factor in (2, 4, 8):
        seldom = slowed(joint.problem, factor)
        worst = worst_cases(timed(seldom, joint.outcome.assignment))
        if None not in worst.groups.values():
            late = {h.name(t): h.bound for t in seldom.groups for h in held(t, worst) if not h.met}
            if late:
                said = " and ".join(f"{name} {in_ms(ns)}" for name, ns in late.items())
                yield (
                    f"with {factor} times the periods, {said} would be needed: such deadlines and"
                    " periods would help"
                )
            else:
                yield f"with periods x {factor}, every deadline would be met"
            yield f"or with a faster `{busiest}`, or less work on it"
            return
    yield f"longer periods would help, or a faster `{busiest}`"


def _alone(joint: Joint, group: TaskGroup, what: Held) -> Fraction:
    """The bound of a group, or of one of its paths, if it were alone."""
    assert joint.system is not None
    own = tuple(g for g in joint.system.groups if g.name == group.name)
    workers = tuple(
        w for w in joint.system.workers if {p.group for p in w.sequence} == {group.name}
    )
    if len(workers) < len(
        [w for w in joint.system.workers if any(p.group == group.name for p in w.sequence)]
    ):
        workers = ()  # it shares an order with other groups: the order that it would have
    worst = worst_cases(replace(joint.system, groups=own, workers=workers))
    return next(h.bound for h in held(group, worst) if h.path == what.path) or Fraction(0)


#: How the tasks behind each term of a bound delay the group.
_WORDS = {
    "earlier": "runs before it on the same processor",
    "own": "runs before it in the same order",
    "release": "runs before it in the same order",
    "higher": "preempts it",
    "equal": "may come first",
    "queue": "is ahead of it in queues",
    "contention": "slows it down",
}


def _taken_apart(joint: Joint, team: TaskGroup, what: Held) -> Iterator[str]:
    """The terms of a bound: the group's own path, and the delays by others."""
    system, group = joint.system, team.name
    assert system is not None
    bound = bounds(system).groups[group]
    terms = bound.terms if what.path is None else bound.paths[team.paths.index(what.path)].terms
    home = {t.name: g.name for g in system.groups for t in g.tasks}
    own: dict[str, Fraction] = {}
    others: dict[tuple[str, str], list[Term]] = {}
    for term in terms:
        if term.kind in ("own", "earlier", "release") and home.get(term.who) == group:
            own[term.who] = own.get(term.who, Fraction(0)) + term.total
        else:
            others.setdefault((home.get(term.who, term.who), _WORDS[term.kind]), []).append(term)
    said = ", ".join(
        f"{name.removeprefix(group + '.')} {float(ns) / 1e6:.2f}" for name, ns in own.items()
    )
    yield f"  its own path takes {float(sum(own.values())) / 1e6:.2f} ms: {said}"
    for (name, does), theirs in sorted(others.items(), key=lambda o: -sum(t.total for t in o[1])):
        parts = ", ".join(
            f"{t.times} x {t.who.removeprefix(name + '.')} {float(t.total) / 1e6:.2f}"
            for t in theirs
            if t.times > 0
        )
        yield f"  `{name}` {does}: {float(sum(t.total for t in theirs)) / 1e6:.2f} ms ({parts})"


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
