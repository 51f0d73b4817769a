"""One placement for all states of a scenario: the searches for one problem after another, then
moves judged by all.

In: a problem for each state, whose tasks and networks have the same names where they are the same.
Out: an assignment for each, in which what occurs in several is in one place, and a bound that no
such placement goes below in the state that needs most. Each state alone bounds all of them
together; the heaviest state is searched first, and what it places is pinned in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ...analysis.timing.system import Refused
from ...model.scope import NOTHING_MOVED, Scope
from ..budget import Budget
from .exact import Impossible
from .orders import MANY_ORDERS
from .outcome import NOTHING, FewestCores, LeastPower, Outcome
from .problem import (
    Assignment,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from .program import CutNet, between_stages, names_of
from .relaxed import as_fraction, relax
from .scope import scope_of
from .verdict import MappingVerdict, verdict

#: Of the budget, what moving single tasks gets.
MOVES = 0.25
#: Bounds are computed in floating point: what is that near to one reaches it.
CLOSE = Fraction(1, 10**6)

Run = Callable[[JointProblem, Budget], Outcome]


@dataclass(frozen=True, slots=True)
class CommonPlaces:
    """The processors of tasks; of each network the number of its candidate, and the processors of
    its stages."""

    tasks: Mapping[str, str] = field(default_factory=dict)
    networks: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)

    def covers(self, problem: JointProblem) -> bool:
        """Is everything of a problem placed?"""
        return all(i.name in self.tasks for i in problem.tasks) and all(
            n.name in self.networks for n in problem.networks
        )

    def of(self, problem: JointProblem) -> Assignment:
        """The same for one problem."""
        networks = [self.networks[n.name] for n in problem.networks]
        tasks = tuple(self.tasks[i.name] for i in problem.tasks)
        return Assignment(tuple(c for c, _ in networks), tuple(s for _, s in networks), tasks)

    def with_answer(self, problem: JointProblem, found: Assignment) -> CommonPlaces:
        """With what a search has found for a problem; stages of networks that were placed before
        are no tasks."""
        tasks = {i.name: p for i, p in zip(problem.tasks, found.tasks, strict=True)}
        networks = {
            n.name: (c, s)
            for n, c, s in zip(problem.networks, found.choice, found.stages, strict=True)
        }
        return CommonPlaces({**self.tasks, **tasks}, {**self.networks, **networks})


@dataclass(frozen=True, slots=True)
class StatesOutcome:
    """An outcome for each state; those of a search that found nothing have no assignment. `bound`
    is for the whole.

    `impossible`: why some state has no mapping that keeps all deadlines and limits, if that is
    proved. `evaluations`, `counted`, `cores` and `power` as in `Outcome`.
    """

    states: Mapping[str, Outcome]
    bound: Fraction | None
    proved: bool
    seconds: float
    impossible: Impossible | None = None
    cores: FewestCores | None = None
    evaluations: int = 0
    counted: int = 0
    scope: Scope = NOTHING_MOVED
    power: LeastPower | None = None

    def placed(self, problems: Mapping[str, JointProblem]) -> CommonPlaces | None:
        """The common places of an answer to these that keeps all deadlines and limits; None without
        one."""
        if self.kept_maximum is None:
            return None
        placed = CommonPlaces()
        for name, outcome in self.states.items():
            assert outcome.assignment is not None
            placed = placed.with_answer(problems[name], outcome.assignment)
        return placed

    @property
    def objective(self) -> str:
        """The objectives of the search, as in `--objective`."""
        if self.power is not None:
            return "energy"
        return "utilization" if self.cores is None else self.cores.objective

    @property
    def maximum(self) -> Fraction:
        """The maximum utilization over all states; above any possible one if nothing was found."""
        return max((outcome.maximum for outcome in self.states.values()), default=NOTHING)

    @property
    def kept_maximum(self) -> Fraction | None:
        """The maximum utilization over all states, if each of them keeps all deadlines and limits.

        A search ends with the first state that has no mapping.
        """
        if any(outcome.kept_maximum is None for outcome in self.states.values()):
            return None
        return self.maximum

    @property
    def without_proof(self) -> StatesOutcome:
        """The same for problems of which only a part was searched."""
        cores = None if self.cores is None else replace(self.cores, proved=False)
        states = {name: outcome.without_proof for name, outcome in self.states.items()}
        return replace(self, states=states, bound=None, proved=False, impossible=None, cores=cores)


def search_states(
    problems: Mapping[str, JointProblem],
    run: Run,
    *,
    budget: Budget,
    alternatives: Sequence[Sequence[str]] = (),
    together: Sequence[Sequence[str]] = (),
) -> StatesOutcome:
    """Search within `budget`; `run` does it for one problem. Raises Refused for what has no bound.

    `alternatives` are tasks and networks that take each other's place in other states: they are in
    one place where that makes nothing worse, so that states can follow each other without a pause.
    Those that are `together`, tasks and networks of one stage, are in one place if they can be.
    """
    granted = 0
    spending = budget.begin(lambda: granted)
    searching = budget.part(1 - MOVES).begin(lambda: granted)
    bounds = {name: _least(problem) for name, problem in problems.items()}
    order = sorted(problems, key=lambda name: -(bounds[name] or 0))
    placed, found = CommonPlaces(), dict[str, Outcome]()
    impossible: Impossible | None = None
    for position, name in enumerate(order):
        problem = problems[name]
        if placed.covers(problem):
            found[name] = outcome_of(problem, placed, bounds[name], None)
            continue
        fixed = pinned_in(problem, placed)
        part = searching.left.part(1 / (len(order) - position))
        granted += part.evaluations or 0
        outcome = run(fixed, replace(part, seconds=max(1.0, part.seconds)))
        # nothing was fixed: what is proved holds for the state
        free = not placed.tasks and not placed.networks
        if free and outcome.impossible is not None:
            impossible = outcome.impossible
        if outcome.assignment is None:
            found[name] = outcome
            return _summed(StatesOutcome(found, None, False, spending.seconds, impossible))
        if free:
            bounds[name] = max(filter(None, (bounds[name], outcome.bound)), default=None)
        placed = CommonPlaces(
            *_without_stages(placed.with_answer(fixed, outcome.assignment), problems)
        )
        placed = joined(problems, placed, together)
        found[name] = outcome_of(problem, placed, bounds[name], outcome)
    placed = _moved(problems, placed, spending.left, together)
    placed = _side_by_side(problems, placed, alternatives)
    found = {
        name: outcome_of(problems[name], placed, bounds[name], found[name]) for name in problems
    }
    known = [b for b in bounds.values() if b is not None]
    bound = max(known) if len(known) == len(bounds) else None
    whole = _summed(StatesOutcome(found, bound, False, spending.seconds, impossible))
    return replace(whole, proved=is_least(whole))


def _summed(outcome: StatesOutcome) -> StatesOutcome:
    """The same with the effort for all states."""
    return replace(
        outcome,
        evaluations=sum(each.evaluations for each in outcome.states.values()),
        counted=sum(each.counted for each in outcome.states.values()),
    )


def is_least(outcome: StatesOutcome) -> bool:
    """Does the answer keep everything, with no more utilization than the bound?"""
    return outcome.kept_maximum is not None and reaches(outcome.kept_maximum, outcome.bound)


def reaches(maximum: Fraction, bound: Fraction | None) -> bool:
    """Is a utilization as small as a bound says that it can be?"""
    return bound is not None and maximum <= bound * (1 + CLOSE)


def _least(problem: JointProblem) -> Fraction | None:
    relaxed = relax(problem)
    return None if relaxed is None else as_fraction(relaxed.bound)


def outcome_of(
    problem: JointProblem, placed: CommonPlaces, bound: Fraction | None, like: Outcome | None
) -> Outcome:
    """What a placement means for a state, after a search that was `like` this one. Raises
    Refused."""
    assignment = placed.of(problem)
    judged = verdict(problem, assignment, orders=MANY_ORDERS)
    proved = judged.feasible and reaches(judged.maximum, bound)
    scope = scope_of([problem])
    if like is None:
        alone = Outcome("states", assignment, judged, bound, proved, None, 1, 0.0, counted=1)
        return replace(alone, scope=scope)
    return Outcome(
        like.search,
        assignment,
        judged,
        bound,
        proved,
        None,
        like.evaluations,
        like.seconds,
        counted=like.counted,
        limit=like.limit,
        scope=scope,
    )


def _without_stages(
    placed: CommonPlaces, problems: Mapping[str, JointProblem]
) -> tuple[dict[str, str], dict[str, tuple[int, tuple[str, ...]]]]:
    """Only names that some problem knows."""
    tasks = {i.name for p in problems.values() for i in p.tasks}
    return {n: p for n, p in placed.tasks.items() if n in tasks}, dict(placed.networks)


# -- a problem of which a part is placed -----------------------------------------------------------
def pinned_in(problem: JointProblem, placed: CommonPlaces) -> JointProblem:
    """The problem with what is placed pinned; stages of networks are tasks that follow each
    other."""
    pins = dict(problem.pins)
    for task in problem.tasks:
        if task.name in placed.tasks:
            pins[task.name] = placed.tasks[task.name]
    tasks, cut = list(problem.tasks), dict[str, CutNet]()
    for network in problem.networks:
        if network.name not in placed.networks:
            continue
        choice, places = placed.networks[network.name]
        stages = network.candidates[choice].stages
        cut[network.name] = CutNet(network, stages)
        for name, stage, place in zip(cut[network.name].names, stages, places, strict=True):
            tasks.append(_stage(network, name, stage))
            pins[name] = place
    groups = tuple(_with_stages(problem, group, cut) for group in problem.groups)
    followers = tuple(
        replace(f, source=_last(f.source, cut), destination=_first(f.destination, cut))
        for f in problem.followers
    )
    networks = tuple(n for n in problem.networks if n.name not in placed.networks)
    return replace(
        problem,
        groups=groups,
        tasks=tuple(tasks),
        networks=networks,
        pins=pins,
        followers=followers,
    )


def _stage(network: DeadlineNetwork, name: str, stage: CandidateStage) -> DeadlineTask:
    """A stage as a task; its kernels are not told apart, which makes no bound shorter."""
    curves = {} if stage.curve is None else {stage.type: stage.curve}
    return DeadlineTask(
        name,
        network.group,
        {stage.type: stage.firing},
        stage.firings,
        frozenset({stage.type}) if stage.estimated else frozenset(),
        curves,
        batch=network.batch,
        engine=True,
        of_kind=frozenset({stage.type}) if stage.of_kind else frozenset(),
    )


def _with_stages(problem: JointProblem, group: TaskGroup, cut: Mapping[str, CutNet]) -> TaskGroup:
    """A group whose networks in `cut` are tasks, one for each stage."""
    order: list[str] = []
    channels: list[JointChannel] = []
    for name in names_of(problem, group):
        order += cut[name].names if name in cut else (name,)
        channels += cut[name].inner if name in cut else ()
    for c in group.channels:
        channels += between_stages(c, cut)
    paths = tuple(replace(p, sink=_last(p.sink, cut)) for p in group.paths)
    return replace(group, channels=tuple(channels), paths=paths, order=tuple(order))


def _first(name: str, cut: Mapping[str, CutNet]) -> str:
    return cut[name].names[0] if name in cut else name


def _last(name: str, cut: Mapping[str, CutNet]) -> str:
    return cut[name].names[-1] if name in cut else name


# -- moves -----------------------------------------------------------------------------------------
def _moved(
    problems: Mapping[str, JointProblem],
    placed: CommonPlaces,
    budget: Budget,
    together: Sequence[Sequence[str]],
) -> CommonPlaces:
    """Move single tasks, and stages of networks, while that makes the worst state better and some
    budget is left."""
    looked = 0
    spending = budget.begin(lambda: looked)
    best = _worst(problems, placed)
    better = True
    while better and not spending.over:
        better = False
        for neighbor in _neighbors(problems, placed, together):
            if spending.over:
                break
            looked += 1
            other = joined(problems, neighbor, together)
            score = _worst(problems, other)
            if score < best:
                placed, best, better = other, score, True
                break
    return placed


def joined(
    problems: Mapping[str, JointProblem],
    placed: CommonPlaces,
    together: Sequence[Sequence[str]],
) -> CommonPlaces:
    """What is placed, with the others of each group that is `together` where the first one of it
    is."""
    for names in together:
        at = next((place for name in names if (place := _at(placed, name)) is not None), None)
        if at is not None:
            for name in names:
                placed = _placed_at(problems, placed, name, at) or placed
    return placed


def _placed_at(
    problems: Mapping[str, JointProblem], placed: CommonPlaces, name: str, place: str
) -> CommonPlaces | None:
    """With something at a processor that may not be placed yet; None where it cannot be there."""
    for problem in problems.values():
        for network in problem.networks:
            alone = [candidate.option for candidate in network.candidates]
            if network.name == name and alone != [problem.type[place]]:
                return None
            if network.name == name:
                return replace(placed, networks={**placed.networks, name: (0, (place,))})
    return _moved_to(problems, placed, name, place)


def _side_by_side(
    problems: Mapping[str, JointProblem],
    placed: CommonPlaces,
    alternatives: Sequence[Sequence[str]],
) -> CommonPlaces:
    """Alternatives where the first of them that is on one processor is, as long as the worst state
    stays as it is."""
    score = _worst(problems, placed)
    for names in alternatives:
        at = {name: place for name in names if (place := _at(placed, name)) is not None}
        for name in list(at)[1:]:
            first = next(iter(at.values()))
            other = _moved_to(problems, placed, name, first)
            if at[name] != first and other is not None and _worst(problems, other) <= score:
                placed = other
    return placed


def _at(placed: CommonPlaces, name: str) -> str | None:
    """Where something is that is in one place."""
    if name in placed.networks:
        stages = placed.networks[name][1]
        return stages[0] if len(stages) == 1 else None
    return placed.tasks.get(name)


def _moved_to(
    problems: Mapping[str, JointProblem], placed: CommonPlaces, name: str, place: str
) -> CommonPlaces | None:
    """With something at another processor; None where it cannot be there."""
    if name in placed.networks:
        choice, stages = placed.networks[name]
        types = next(iter(problems.values())).type
        if types[stages[0]] != types[place]:
            return None
        return replace(placed, networks={**placed.networks, name: (choice, (place,))})
    for problem in problems.values():
        for task in problem.tasks:
            if task.name == name and place not in problem.places(task):
                return None
    return replace(placed, tasks={**placed.tasks, name: place})


def _worst(problems: Mapping[str, JointProblem], placed: CommonPlaces) -> tuple[int, Fraction]:
    """How many deadlines and limits are missed over all states, then the utilization of the busiest
    processor."""
    missed, most = 0, Fraction(0)
    for problem in problems.values():
        try:
            judged: MappingVerdict = verdict(problem, placed.of(problem), patience=Fraction(1))
        except Refused:
            return 10**6, Fraction(10**6)
        missed += len(judged.late) + len(judged.beyond_board)
        most = max(most, judged.maximum)
    return missed, most


def _neighbors(
    problems: Mapping[str, JointProblem],
    placed: CommonPlaces,
    together: Sequence[Sequence[str]],
) -> Iterator[CommonPlaces]:
    """One task or stage elsewhere; of those that are together the first, which others follow."""
    follow = {name for names in together for name in names[1:]}
    free: dict[str, set[str]] = {}
    for problem in problems.values():
        for task in problem.tasks:
            own = set(problem.places(task))
            if task.name not in follow:
                free[task.name] = free.get(task.name, own) & own
    for name, places in free.items():
        for place in sorted(places - {placed.tasks[name]}):
            yield replace(placed, tasks={**placed.tasks, name: place})
    one = next(iter(problems.values()))
    for name, (choice, stages) in placed.networks.items():
        for k, at in enumerate(stages if name not in follow else ()):
            for place in one.of_type[one.type[at]]:
                if place != at:
                    moved = (*stages[:k], place, *stages[k + 1 :])
                    yield replace(placed, networks={**placed.networks, name: (choice, moved)})
