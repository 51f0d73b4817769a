"""The step that maps texts in which some apps have a period and some have none.

In: such a text, and its times. Out: what `map_jointly` says of the apps with periods, with the
others beside them: placed in the time that is left, and counted in every bound as work in the
background that never ends.

The apps with periods and the servers of apps with a share, which are above all others, are searched
for together, as if each CPU had a background. At last the others go where the time until their next
result is predicted to be the shortest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil, inf

from ...analysis.dataflow.workers import in_background, servers, waits_outside
from ...analysis.timing.system import TimedBackground
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors
from ...model.link_ends import ends_beside
from ...model.mapping import Pin, Placement, as_placement, placed_on_engine
from ...model.server import Server
from ...search.deadline.orders import MANY_ORDERS
from ...search.deadline.outcome import Outcome
from ...search.deadline.problem import BackgroundApp, DeadlineTask, JointProblem, Served
from ...search.deadline.verdict import verdict
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.greedy import CLEARLY, shapes
from ...search.throughput.problem import Problem, holds_interpreter, interpreter_load, loads
from ..text.check import Valid
from .deadline_problem import joint_problem
from .deadlines import Joint, best_judged, outcome_of
from .known_times import KnownTimes
from .request import MapRequest
from .throughput_problem import problem_of

#: Apps with periods on few CPUs, as objectives.
FEW = "cores,utilization"

Whole = Mapping[str, Placement]
OutcomeFor = Callable[[JointProblem], Outcome]


def is_mixed(valid: Valid) -> bool:
    """Do some apps have a period, and some none?"""
    return bool(in_background(valid.system.apps))


def map_mixed(valid: Valid, known: KnownTimes, request: MapRequest) -> Joint:
    """The joint mapping of the apps with periods, and places for the others. Raises Errors.

    If a deadline is missed while an app in the background works on a GPU or DLA that it does not
    need, all is tried again without.
    """
    paced, rest = _apart(valid)
    alone = joint_problem(paced, known.times, request.search_workers)
    beside = problem_of(rest, known.times, known.profile)
    _require_queues(beside, rest)
    problems = _with_devices(beside)
    part = request.part(1 / len(problems))
    best = _mapped(valid, known, _Both.of(alone, problems[0], known, valid), part)
    for problem in problems[1:]:
        if not _late(best):
            break
        joint = _mapped(valid, known, _Both.of(alone, problem, known, valid), part)
        if len(_late(joint)) < len(_late(best)):
            best = joint
    return best


def judged_mixed(
    valid: Valid, known: KnownTimes, pins: Collection[Pin], outcome_for: OutcomeFor
) -> tuple[JointProblem, Outcome]:
    """The problem with all tasks where pins have them, and the outcome of the assignment that they
    mean for apps with periods.

    `outcome_for` makes an outcome of a problem; what it raises is handed on.
    """
    paced, rest = _apart(valid)
    alone = joint_problem(paced, known.times)
    beside = problem_of(rest, known.times, known.profile)
    places = {p.task: as_placement(p) for p in pins if p.task in rest.tasks}
    both = _Both.of(alone, replace(beside, pins=places), known, valid)
    return both.posed(outcome_for(both.supposed))


def _late(joint: Joint) -> Collection[str]:
    if joint.verdict is None:
        return tuple(group.name for group in joint.problem.groups)
    return joint.verdict.late


def _mapped(valid: Valid, known: KnownTimes, both: _Both, request: MapRequest) -> Joint:
    """The answer with the apps in the background on these kinds of processors.

    Apps with periods are spread over all CPUs, or on few of them, unless the request says which:
    where apps in the background get clearly more beside few, these are it.
    """
    orders: tuple[str, ...] = (request.objective,)
    if not request.objective and both.below.apps:
        orders = ("", FEW)
    best, *others = [
        both.rated(
            outcome_of(both.supposed, replace(request.part(1 / len(orders)), objective=order))
        )
        for order in orders
    ]
    for other in others:
        late, longest = both.cost(best)
        other_late, other_longest = both.cost(other)
        sooner = other_late == late and other_longest < longest * CLEARLY
        if other_late < late or sooner:
            best = other
    return best_judged(valid, known, best, request, both.posed)


@dataclass(frozen=True)
class _Both:
    """The apps with periods `alone`, those `above` them by a share, and those `below`."""

    alone: JointProblem
    above: Problem
    below: Problem
    shares: Mapping[str, Server]
    known: KnownTimes
    pinned: frozenset[str]

    @staticmethod
    def of(alone: JointProblem, beside: Problem, known: KnownTimes, valid: Valid) -> _Both:
        """All apps, of which those `beside` have no period. Raises Errors."""
        shares = servers(valid.system.apps)
        served = [app for app in beside.apps if app.name in shares]
        rest = [app for app in beside.apps if app.name not in shares]
        above, below = _of_apps(beside, served), _of_apps(beside, rest)
        pinned = frozenset(pin.task for pin in valid.system.pins)
        both = _Both(alone, above, below, shares, known, pinned)
        _require_room(both.supposed, above)
        return both

    @cached_property
    def supposed(self) -> JointProblem:
        """The problem of a search, in which what is below is on every CPU."""
        nothing = dict.fromkeys(self.alone.processors, Fraction(0))
        cpus = tuple(TimedBackground(p) for p in self.alone.cpus)
        below = _background(self.below, nothing, self.known)
        everywhere = [replace(app, workers=(*app.workers, *cpus)) for app in below]
        return self._beside(everywhere, nothing)

    def rated(self, found: Outcome) -> Outcome:
        """An answer, whose scope says what of apps without a period the search took as given."""
        on_devices = []
        for app in self.supposed.beside(None):
            for place in app.placements:
                kinds = {self.supposed.kind[p] for p in place.processors}
                if kinds != {"cpu"} and place.task not in self.pinned:
                    on_devices.append(f"`{place.task}` on {place.processors[0]}")
        balanced = None if found.balanced is None else self.rated(found.balanced)
        return replace(found, scope=found.scope.holding(*on_devices), balanced=balanced)

    def posed(self, found: Outcome) -> tuple[JointProblem, Outcome]:
        """The problem with places for what is below in what an answer leaves, and the answer by
        it."""
        if found.assignment is None or found.verdict is None:
            return self.supposed, found
        used = found.verdict.utilization
        problem = self._beside(_background(self.below, used, self.known), used)
        return problem, replace(
            found, verdict=verdict(problem, found.assignment, orders=MANY_ORDERS)
        )

    def cost(self, found: Outcome) -> tuple[float, float]:
        """Of an answer: how many apps are late, and the longest time between results of those
        below."""
        problem, outcome = self.posed(found)
        names = {app.name for app in self.below.apps}
        periods = [a.predicted_period_ns for a in problem.background if a.name in names]
        late = inf if outcome.verdict is None else len(outcome.verdict.late)
        return late, max(periods, default=0.0)

    def _beside(self, below: Sequence[BackgroundApp], used: Mapping[str, Fraction]) -> JointProblem:
        """The problem with these apps below, and those with a share wherever they may be."""
        fixed, free = [], []
        for app in self.above.apps:
            homes = self._homes(app, used)
            first = next(iter(homes.values()))
            if all(home.placements == first.placements for home in homes.values()):
                fixed.append(first)
            else:
                budget = dict.fromkeys(self.alone.cpu_types, self.shares[app.name].budget_ns)
                free.append(DeadlineTask(app.name, app.name, budget, homes=homes))
        return replace(self.alone, tasks=(*self.alone.tasks, *free), background=(*fixed, *below))

    def _homes(self, app: Application, used: Mapping[str, Fraction]) -> dict[str, BackgroundApp]:
        """An app with a share by the CPU that has those of its tasks that no pin places.

        One CPU is enough: on several there would be several servers, each with all of the budget.
        """
        problem, shares = self.above, self.shares
        alone = _of_apps(problem, [app])
        left = {p: 1 - float(used[p]) for p in problem.platform.processors}
        left |= {p: float(shares[app.name].part) for p in problem.cpus}
        homes = {}
        for cpu in self.alone.cpus:
            placement = {task.name: Placement(task.name, (cpu,)) for task in app.tasks}
            placement |= problem.pins
            waits = _waits(alone, placement, left)
            made = _placed(problem, app, placement, waits, self.known, shares[app.name])
            most = _most(problem, app, made)
            homes[cpu] = replace(made, share=Served(shares[app.name], most))
        return homes


# -- the parts of a text ---------------------------------------------------------------------------
def _apart(valid: Valid) -> tuple[Valid, Valid]:
    """The text with the apps that have a period alone, and with the others."""
    below = in_background(valid.system.apps)
    paced = [app for app in valid.system.apps if app.name not in below]
    rest = [app for app in valid.system.apps if app.name in below]
    return _part(valid, paced), _part(valid, rest)


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
    return any(pool.kind != "cpu" and pool.scheduler == "static_order" for pool in pools)


# -- places above the others -----------------------------------------------------------------------
def _require_room(problem: JointProblem, above: Problem) -> None:
    """Raises Errors for a CPU whose pins and shares take more than all of its time, and for a share
    that no CPU has time for beside its pins."""
    full = [p for p, share in problem.settled.items() if share > 1 and problem.served[p]]
    crowded: dict[str, str] = {}
    for beside in problem.background:
        for processor in full:
            if processor in beside.served:
                crowded[beside.name] = processor
    for task in problem.servers:
        room = {p: 1 - problem.settled[p] - problem.load(task, p) for p in problem.places(task)}
        widest = max(room, key=lambda p: room[p])
        if room[widest] < 0:
            crowded[task.name] = widest
    faults = []
    for app in above.apps:
        if app.name in crowded:
            message = (
                f"shares of `{crowded[app.name]}`, and what is pinned to it, are more than all of"
                " its time"
            )
            help_text = "make shares smaller, or pin one of the apps elsewhere"
            faults.append(Diagnostic("F223", message, app.span, help=help_text))
    if faults:
        raise Errors(faults[-1:])


def _most(problem: Problem, app: Application, made: BackgroundApp) -> Fraction | None:
    """How long an iteration of an app takes at most on its CPU, by what its server supplies: what
    is too much of one budget is missing in others."""
    longest = dict(made.longest)
    (worker, *others) = made.workers
    if others or worker.server is None or len(longest) < len(app.tasks):
        return None
    work = sum(ns * problem.repetition[app.name][name] for name, ns in longest.items())
    return worker.server.time_for(work + ceil(worker.longest))


# -- places in the background ----------------------------------------------------------------------
def _of_apps(problem: Problem, apps: Collection[Application]) -> Problem:
    """The problem of these apps alone."""
    names = {task.name for app in apps for task in app.tasks}
    pins = {name: place for name, place in problem.pins.items() if name in names}
    return replace(problem, apps=tuple(apps), pins=pins)


def _background(
    problem: Problem, used: Mapping[str, Fraction], known: KnownTimes
) -> list[BackgroundApp]:
    """The apps in their best places, where others use a share of the processors."""
    if not problem.apps:
        return []
    left = {p: 1 - float(share) for p, share in used.items()}
    best: Whole = {}
    least = inf
    for placement in _candidates(problem, used):
        cost = _cost(problem, placement, left)
        if not best or cost < least * CLEARLY:
            best, least = placement, cost
    moved = _moved(problem, best, left)
    if _cost(problem, moved, left) < least * CLEARLY:
        best = moved
    waits = _waits(problem, best, left)
    return [_placed(problem, app, best, waits, known) for app in problem.apps]


def _cost(problem: Problem, placement: Whole, left: Mapping[str, float]) -> float:
    """The longest time until the next result: of a processor, or of the interpreter."""
    return max(interpreter_load(problem, placement), *_waits(problem, placement, left).values())


def _moved(problem: Problem, placement: Whole, left: Mapping[str, float]) -> Whole:
    """A placement after moves of single tasks to other CPUs, and exchanges of two, each of which
    makes results come sooner."""
    free = [task.name for _, task in problem.tasks if task.name not in problem.pins]
    best, least = placement, _cost(problem, placement, left)
    for _ in free:  # so many rounds at most
        before = least
        for places in _neighbors(problem, best, free):
            there = {**best, **places}
            cost = _cost(problem, there, left)
            if cost < least:
                best, least = there, cost
        if least == before:
            break
    return best


def _neighbors(problem: Problem, best: Whole, free: Sequence[str]) -> Iterator[Whole]:
    """Other places of one task or of two."""
    for name in free:
        for cpu in problem.cpus:
            yield {name: replace(best[name], processors=(cpu,))}
    for one, other in combinations(free, 2):
        yield {
            one: replace(best[one], processors=best[other].processors),
            other: replace(best[other], processors=best[one].processors),
        }


def _waits(problem: Problem, placement: Whole, left: Mapping[str, float]) -> dict[str, float]:
    """For how long each processor takes for an iteration of all, in what is left of its time."""
    waits = {}
    for processor, load in loads(problem, placement).items():
        if not load:
            waits[processor] = 0.0
        elif left[processor] > 0:
            waits[processor] = load / left[processor]
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
    server: Server | None = None,
) -> BackgroundApp:
    """An app without a period where it is placed. Raises Errors where apps with periods wait for a
    task without a time."""
    cpus = frozenset(problem.cpus)
    own = {task.name: placement[task.name] for task in app.tasks}
    places = ends_beside((app,), own, problem.pins, cpus)
    longest: dict[str, int] = {}
    workers: list[TimedBackground] = []
    processors = dict.fromkeys(p for place in places.values() for p in place.processors)
    for processor in processors:
        pool = problem.platform.pool_of(processor)
        its_server = server if pool.kind == "cpu" else None
        if its_server is None and pool.scheduler not in ("fifo", "priority", "time_slice"):
            # whatever it does is preempted
            workers.append(TimedBackground(processor))
            continue
        here = [task for task, place in places.items() if processor in place.processors]
        times = {task: _longest(app, task, pool.type, known) for task in here}
        longest |= times
        sub_task = max(times.values())
        if its_server is not None:
            workers.append(TimedBackground(processor, sub_task, its_server, app.name))
        else:
            threads = _threads(app, [places[task] for task in here])
            workers += [TimedBackground(processor, sub_task)] * threads
    holding = (t for t in app.tasks if holds_interpreter(t, places[t.name], problem.platform))
    return BackgroundApp(
        app.name,
        tuple(placed_on_engine(p, problem.engines.get(t), cpus) for t, p in places.items()),
        tuple(longest.items()),
        tuple(workers),
        _of_networks(app, places),
        max(waits[p] for p in processors),
        holding=tuple(task.name for task in holding),
    )


def _of_networks(app: Application, places: Whole) -> tuple[str, ...]:
    """The processors of the networks of an app, one after the other."""
    networks = [task.name for task in app.tasks if task.network is not None]
    return tuple(p for network in networks for p in places[network].processors)


def _threads(app: Application, here: Sequence[Placement]) -> int:
    """How many threads of an app queue for a processor: one worker, but where parts of it wait for
    themselves."""
    each = len(here) if waits_outside(app) else 1
    return each * max(place.streams for place in here)


def _longest(app: Application, task: str, kind: str, known: KnownTimes) -> int:
    """A worst case of the sub-tasks of a firing: that of the whole. Raises Errors."""
    network = app.task(task).network
    batch = 1 if network is None else network.batch
    time = known.times.of[task].get(kind)
    if time is None:
        message = (
            f"`{task}` has no worst-case time on the {kind}, where apps with periods wait for it"
        )
        help_text = "pin it with a `wcet`, pin it to a CPU, or measure it with `flowc profile`"
        raise Errors([Diagnostic("F509", message, app.task(task).span, help=help_text)])
    return batch * ceil(time.longest_ns)
