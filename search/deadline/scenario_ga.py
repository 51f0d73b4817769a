"""The search of Kim's thesis, ch. 4, for comparison: one mapping of all networks for all states, by
evolution, with greedy clocks.

In: the problem of each state with its power model. Out: the places of the least mean power found,
without a bound.

A chromosome is a candidate for each network. Algorithm 4 evaluates it: stages are dealt out to the
processors of their type in turn (Algorithm 5), apps with the longest stage on a DLA first, and next
to an app those that share a state with it; then each state gets clocks by the greedy rule
(Algorithm 6, `frequency.greedy`). If some state is late, the chromosome is worth nothing. Two
children of each survivor by uniform crossover, one gene that mutates, and lexicase selection by the
powers of the states (DEAP).

The thesis has one chain of tasks in an app. Here, other tasks than networks are dealt out as well,
on the type of processors where they take least; what a text pins stays. States count by their
weights. Deadlines are judged by the bounds of `flowc` instead of formulas (4.1) and (4.2), of which
the second is unsafe.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..budget import Budget
from ..events import Progress
from ..frequency.greedy import greedy
from ..frequency.problem import ClockProblem
from .energy_model import StateProblem, power_scope
from .outcome import LeastPower, Outcome
from .problem import JointProblem
from .rates import Rates
from .scope import scope_of
from .states import CommonPlaces, StatesOutcome
from .verdict import MappingVerdict
from .work import domains

#: Of the thesis: chromosomes in a population, and generations at most.
POPULATION, GENERATIONS = 128, 10_000
#: Children of each survivor, and the probability that one gene of a child changes.
CHILDREN, MUTATION = 2, 0.5

Genes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A chromosome's places, and by state its power and verdict; no powers if some state is
    late."""

    placed: CommonPlaces
    watts: tuple[Fraction, ...]
    verdicts: Mapping[str, MappingVerdict]


def scenario_ga(
    states: Mapping[str, StateProblem],
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    population: int = POPULATION,
    generations: int = GENERATIONS,
) -> StatesOutcome:
    """The best chromosome within `budget`; the first one if all are late."""
    evolution = _Evolution(states, seed, budget, progress)
    with suppress(KeyboardInterrupt):
        evolution.run(population, generations)
    return evolution.outcome()


def scenario_ga_of_one(
    problem: JointProblem, *, seed: int, budget: Budget, progress: Progress | None = None
) -> Outcome:
    """The same for a text without states."""
    state = {"": StateProblem(problem, Fraction(1))}
    found = scenario_ga(state, seed=seed, budget=budget, progress=progress)
    return replace(found.states[""], power=found.power, scope=found.scope)


class _Evolution:
    """A population, and what its chromosomes are worth."""

    def __init__(
        self,
        states: Mapping[str, StateProblem],
        seed: int,
        budget: Budget,
        progress: Progress | None,
    ) -> None:
        self._states, self._progress = states, progress
        self._random = random.Random(seed)
        self._known: dict[Genes, _Evaluated] = {}
        self._first: _Evaluated | None = None
        self._best: tuple[Fraction, _Evaluated] | None = None
        self._spending = budget.begin(lambda: len(self._known))
        self._sizes: dict[str, int] = {}
        for state in states.values():
            for network in state.problem.networks:
                self._sizes[network.name] = len(network.candidates)

    def run(self, population: int, generations: int) -> None:
        """Evolve for so many generations, or until the budget is over."""
        from deap import tools

        living = [self._individual(self._random_genes()) for _ in range(population)]
        if not self._sizes:
            return
        for _ in range(generations):
            if self._spending.over:
                return
            children = []
            for parent in living:
                for _ in range(CHILDREN):
                    children.append(self._individual(self._child(parent.genes, living)))
            living = tools.selLexicase([*living, *children], population)

    def _random_genes(self) -> Genes:
        return tuple(self._random.randrange(size) for size in self._sizes.values())

    def _child(self, genes: Genes, living: list[_Individual]) -> Genes:
        """Each gene from one of two parents, and perhaps one other."""
        other = self._random.choice(living).genes
        pairs = zip(genes, other, strict=True)
        child = [own if self._random.random() < 0.5 else its for own, its in pairs]
        if self._random.random() < MUTATION:
            n = self._random.randrange(len(child))
            child[n] = self._random.randrange([*self._sizes.values()][n])
        return tuple(child)

    def _individual(self, genes: Genes) -> _Individual:
        if genes not in self._known and not self._spending.over:
            self._known[genes] = found = self._evaluated(genes)
            self._first = self._first or found
            total = Fraction(0)
            for state, watts in zip(self._states.values(), found.watts, strict=False):
                total += state.weight * watts
            if found.watts and (self._best is None or total < self._best[0]):
                self._best = total, found
                self._report(total)
        known = self._known.get(genes)
        return _Individual(genes, known.watts if known else (), len(self._states))

    def _evaluated(self, genes: Genes) -> _Evaluated:
        """Algorithm 4."""
        choice = dict(zip(self._sizes, genes, strict=True))
        placed = _dealt_out(self._states, choice)
        powers, verdicts = list[Fraction](), dict[str, MappingVerdict]()
        for name, state in self._states.items():
            assignment = placed.of(state.problem)
            rates = Rates(state.problem, state.power, assignment)
            if rates.verdict is None:
                return _Evaluated(placed, (), verdicts)
            verdicts[name] = rates.verdict
            base_w = state.power.base_w
            clocks = ClockProblem(domains(state.problem, assignment), base_w, rates.holds)
            plan = greedy(clocks) if rates.verdict.feasible else None
            if plan is None or plan.watts is None or plan.levels is None:
                powers = []
                continue
            verdicts[name] = rates.in_order(plan.levels)
            powers.append(plan.watts)
        whole = len(powers) == len(self._states)
        return _Evaluated(placed, tuple(powers) if whole else (), verdicts)

    def outcome(self) -> StatesOutcome:
        """The best one, with its power; if all are late, the first one without."""
        found = self._best[1] if self._best is not None else self._first
        problems = [state.problem for state in self._states.values()]
        count, scope = len(self._known), scope_of(problems)
        outcomes = {}
        for name, state in self._states.items():
            verdict = None if found is None else found.verdicts.get(name)
            assignment = None
            if found is not None and verdict is not None:
                assignment = found.placed.of(state.problem)
            outcomes[name] = Outcome(
                "scenario-ga",
                assignment,
                verdict,
                None,
                False,
                None,
                count,
                self._spending.seconds,
                counted=count,
                scope=scope,
            )
        power = None
        if self._best is not None:
            rates, scope = power_scope(self._states)
            power = LeastPower(self._best[0], Fraction(0), None, count, scope, rates)
        return StatesOutcome(
            outcomes,
            None,
            False,
            self._spending.seconds,
            evaluations=count,
            counted=count,
            scope=scope,
            power=power,
        )

    def _report(self, watts: Fraction) -> None:
        if self._progress is not None:
            text = f"scenario-ga: {float(watts):.4f} W"
            self._progress(text, evaluations=len(self._known), value=float(watts))


class _Individual:
    """A chromosome as DEAP selects it: less power in a state is better."""

    def __init__(self, genes: Genes, watts: tuple[Fraction, ...], states: int) -> None:
        self.genes = genes
        self.fitness = _Fitness(tuple(map(float, watts)) or (float("inf"),) * states)


class _Fitness:
    """Its power by state; infinite if some state is late."""

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values
        self.weights = (-1.0,) * len(values)


def _dealt_out(states: Mapping[str, StateProblem], choice: Mapping[str, int]) -> CommonPlaces:
    """Algorithm 5: the processors of a type in turn."""
    turns: dict[str, int] = {}
    placed = CommonPlaces()
    for app in _in_order(states, choice):
        for state in states.values():
            problem = state.problem
            tasks, networks = dict(placed.tasks), dict(placed.networks)
            for task in problem.tasks:
                if task.group == app and task.name not in tasks:
                    able = problem.places(task)
                    type_ = min((problem.type[p] for p in able), key=lambda k: task.wcet_ns[k])
                    own = [p for p in able if problem.type[p] == type_]
                    tasks[task.name] = own[_turn(turns, type_) % len(own)]
            for network in problem.networks:
                if network.group == app and network.name not in networks:
                    stages = []
                    for stage in network.candidates[choice[network.name]].stages:
                        own = [*problem.of_type[stage.type]]
                        stages.append(own[_turn(turns, stage.type) % len(own)])
                    networks[network.name] = choice[network.name], tuple(stages)
            placed = CommonPlaces(tasks, networks)
    return placed


def _turn(turns: dict[str, int], type_: str) -> int:
    turns[type_] = turns.get(type_, -1) + 1
    return turns[type_]


def _in_order(states: Mapping[str, StateProblem], choice: Mapping[str, Any]) -> list[str]:
    """The apps with the longest stage on a DLA first, behind each those that share a state with
    it."""
    longest: dict[str, int] = {}
    near: dict[str, dict[str, None]] = {}
    for state in states.values():
        problem = state.problem
        for app in problem.period:
            longest.setdefault(app, 0)
            near.setdefault(app, {}).update(dict.fromkeys(problem.period))
        for network in problem.networks:
            for stage in network.candidates[choice[network.name]].stages:
                if problem.platform.kinds[stage.type] == "dla":
                    longest[network.group] = max(longest[network.group], stage.firing)
    order: dict[str, None] = {}
    for app in sorted(longest, key=lambda name: -longest[name]):
        order[app] = None
        order.update(near[app])
    return [*order]
