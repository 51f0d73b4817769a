"""The step that maps texts in which some apps have a period and some have none.

In: such a text, and its times. Out: what `map_jointly` says of the apps with periods, with the
others beside them: placed in the time that is left, and counted in every bound as work in the
background that never ends.

Deadlines come first. The apps with periods are searched for as if each CPU had a background; then
the others go where the time until their next result is predicted to be the shortest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf

from ...analysis.dataflow.workers import in_background, waits_outside
from ...analysis.timing.system import TimedBackground
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Placement
from ...search.deadline.outcome import Outcome
from ...search.deadline.problem import BackgroundApp, JointProblem
from ...search.deadline.verdict import verdict
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.greedy import CLEARLY, interpreter_load, shapes
from ...search.throughput.problem import Problem, loads
from ..text.check import Valid
from .deadline_problem import joint_problem
from .deadlines import Joint, best_judged, outcome_of
from .known_times import KnownTimes
from .request import MapRequest
from .throughput_problem import problem_of

Whole = Mapping[str, Placement]


def is_mixed(valid: Valid) -> bool:
    """Do some apps have a period, and some none?"""
    return bool(in_background(valid.system.apps))


def map_mixed(valid: Valid, known: KnownTimes, request: MapRequest) -> Joint:
    """The joint mapping of the apps with periods, and places for the others. Raises Errors.

    If a deadline is missed while an app in the background works on a GPU or DLA that it does not
    need, all is tried again without.
    """
    below = in_background(valid.system.apps)
    paced = _part(valid, [a for a in valid.system.apps if a.name not in below])
    rest = _part(valid, [a for a in valid.system.apps if a.name in below])
    alone = joint_problem(paced, known.times, request.search_workers)
    beside = problem_of(rest, known.times, known.profile)
    _require_queues(beside, rest)
    problems = _with_devices(beside)
    part = request.part(1 / len(problems))
    best: Joint | None = None
    for problem in problems:
        joint = _mapped(valid, known, alone, problem, part)
        if best is None or len(_late(joint)) < len(_late(best)):
            best = joint
        if not _late(best):
            break
    assert best is not None
    return best


def _late(joint: Joint) -> Collection[str]:
    if joint.verdict is None:
        return tuple(group.name for group in joint.problem.groups)
    return joint.verdict.late


def _mapped(
    valid: Valid, known: KnownTimes, alone: JointProblem, beside: Problem, request: MapRequest
) -> Joint:
    """The answer with the apps in the background on these kinds of processors."""
    nothing = dict.fromkeys(alone.processors, Fraction(0))
    guess = _background(beside, nothing, known)
    cpus = tuple(TimedBackground(p) for p in alone.of_kind.get("cpu", ()))
    supposed = tuple(replace(app, workers=(*app.workers, *cpus)) for app in guess)
    outcome = outcome_of(replace(alone, background=supposed), request)

    def posed(found: Outcome) -> tuple[JointProblem, Outcome]:
        if found.assignment is None or found.verdict is None:
            return replace(alone, background=supposed), found
        placed = _background(beside, found.verdict.utilization, known)
        problem = replace(alone, background=placed)
        return problem, replace(found, verdict=verdict(problem, found.assignment))

    return best_judged(valid, known, outcome, request, posed)


# -- the parts of a text ---------------------------------------------------------------------------
def _part(valid: Valid, apps: Collection[Application]) -> Valid:
    """The text with these apps alone."""
    names = {task.name for app in apps for task in app.tasks}
    pins = tuple(pin for pin in valid.system.pins if pin.task in names)
    return valid.rewritten(replace(valid.system, apps=tuple(apps), pins=pins))


def _with_devices(problem: Problem) -> list[Problem]:
    """The problem with networks on the GPU where they are quicker there, and without."""
    places = {}
    for task, place in on_gpu(problem).items():
        if not _has_order(problem, place):
            places[task] = place
    on_device = replace(problem, pins={**places, **problem.pins})
    return [on_device, problem] if places else [problem]


def _require_queues(problem: Problem, valid: Valid) -> None:
    """On a GPU or DLA that has no queue, nothing can be below anything. Raises Errors."""
    spans = {pin.task: pin.span for pin in valid.system.pins}
    faults = []
    for task, place in problem.pins.items():
        if _has_order(problem, place):
            message = (
                f"`{task}` has no period, and `{place.processors[0]}` has no queue: in its order it"
                " would wait for apps with periods, or they for it"
            )
            help_text = (
                "give its app a period, pin it elsewhere, or declare the pool with `scheduler fifo`"
            )
            span = spans.get(task, valid.tasks[task].span)
            faults.append(Diagnostic("F659", message, span, help=help_text))
    if faults:
        raise Errors(faults)


def _has_order(problem: Problem, place: Placement) -> bool:
    """Is it on a GPU or DLA without a queue?"""
    pools = (problem.platform.pool_of(processor) for processor in place.processors)
    return any(pool.kind != "cpu" and pool.scheduler != "fifo" for pool in pools)


# -- places in the background ----------------------------------------------------------------------
def _background(
    problem: Problem, used: Mapping[str, Fraction], known: KnownTimes
) -> tuple[BackgroundApp, ...]:
    """The apps in their best places, where others use a share of the processors."""
    best: Whole | None = None
    least = inf
    for placement in _candidates(problem, used):
        cost = max(interpreter_load(problem, placement), *_waits(problem, placement, used).values())
        if best is None or cost < least * CLEARLY:
            best, least = placement, cost
    assert best is not None
    waits = _waits(problem, best, used)
    return tuple(_placed(problem, app, best, waits, known) for app in problem.apps)


def _waits(problem: Problem, placement: Whole, used: Mapping[str, Fraction]) -> dict[str, float]:
    """For how long each processor takes for an iteration of all, in what is left of its time."""
    waits = {}
    for processor, load in loads(problem, placement).items():
        left = 1 - float(used[processor])
        if not load:
            waits[processor] = 0.0
        elif left > 0:
            waits[processor] = load / left
        else:
            waits[processor] = inf
    return waits


def _candidates(problem: Problem, used: Mapping[str, Fraction]) -> Iterator[Whole]:
    """Plain shapes, with the CPUs of each exchanged: where most is to be done, most is left."""
    free = sorted(problem.cpus, key=lambda p: used[p])
    for _, placement, _ in shapes(problem):
        work = loads(problem, placement)
        busiest = sorted(problem.cpus, key=lambda p: -work[p])
        instead = dict(zip(busiest, free, strict=True))
        moved = {}
        for task, place in placement.items():
            processors = tuple(instead.get(p, p) for p in place.processors)
            moved[task] = replace(place, processors=processors)
        yield {**moved, **problem.pins}


def _placed(
    problem: Problem,
    app: Application,
    placement: Whole,
    waits: Mapping[str, float],
    known: KnownTimes,
) -> BackgroundApp:
    places = {task.name: placement[task.name] for task in app.tasks}
    platform = problem.platform
    longest: dict[str, int] = {}
    workers: list[TimedBackground] = []
    processors = dict.fromkeys(p for place in places.values() for p in place.processors)
    for processor in processors:
        pool = platform.pool_of(processor)
        here = [task for task, place in places.items() if processor in place.processors]
        if pool.scheduler != "fifo":
            workers.append(TimedBackground(processor))
            continue
        for task in here:
            longest[task] = _longest(app, task, pool.kind, known)
        sub_task = max(longest[task] for task in here)
        # one worker, but where parts of it wait for themselves
        threads = max(places[task].streams for task in here)
        threads *= len(here) if waits_outside(app) else 1
        workers += [TimedBackground(processor, sub_task)] * threads
    networks = [task.name for task in app.tasks if task.network is not None]
    return BackgroundApp(
        app.name,
        tuple(places.values()),
        tuple(longest.items()),
        tuple(workers),
        tuple(p for network in networks for p in places[network].processors),
        max(waits[p] for p in processors),
    )


def _longest(app: Application, task: str, kind: str, known: KnownTimes) -> int:
    """A worst case of the sub-tasks of a firing: that of the whole. Raises Errors."""
    time = known.times.of[task].get(kind)
    if time is None:
        message = (
            f"`{task}` has no worst-case time on the {kind}, where apps with periods queue behind"
            " it"
        )
        help_text = "pin it with a `wcet`, pin it to a CPU, or measure it with `flowc profile`"
        raise Errors([Diagnostic("F509", message, app.task(task).span, help=help_text)])
    return ceil(time.longest_ns)
