"""The search of Kim's thesis, ch. 4, for comparison: one mapping of all networks for all states, by
evolution, with greedy clocks.

In: the problem of each state with its power model. Out: the places of the least mean power that was
found, without a bound.

A chromosome is a candidate for each network. Algorithm 4 evaluates it: stages are dealt out to the
processors of their type in turn (Algorithm 5), apps with the longest stage on a DLA first, and next
to an app those that share a state with it; then each state gets clocks by the greedy rule
(Algorithm 6, `frequency.greedy`). If some state is late, the chromosome is worth nothing. Each
survivor has two children by uniform crossover, one gene of a child mutates, and lexicase selection
by the powers of the states decides who survives (Spector, 2012).

The thesis has one chain of tasks in an app. Here, other tasks than networks are dealt out as well,
on the type of processors where they take least; what a text pins stays, and what changes at once is
in one place. States count by their weights. Deadlines are judged by the bounds of `flowc` instead
of formulas (4.1) and (4.2), of which the second is unsafe. Selection is not DEAP's, which draws
from the global `random`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from ..budget import Budget
from ..events import Progress
from ..evolution import Evolution
from ..frequency.greedy import greedy
from ..frequency.problem import ClockProblem
from .energy_model import StateProblem, power_scope
from .outcome import LeastPower, Outcome
from .problem import JointProblem
from .rates import Rates
from .scope import scope_of
from .states import CommonPlaces, StatesOutcome, joined
from .verdict import MappingVerdict
from .work import domains

NAME = "scenario-ga"
#: That of the thesis (4.5.1), which says nothing of a mutation's probability.
THESIS = Evolution(population=128, generations=10_000, patience=10_000, mutation=0.5)
#: Children of each survivor.
CHILDREN = 2

Genes = tuple[int, ...]
Watts = tuple[Fraction, ...]


def scenario_ga(
    states: Mapping[str, StateProblem],
    *,
    seed: int,
    budget: Budget,
    together: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
    numbers: Evolution = THESIS,
) -> StatesOutcome:
    """The best chromosome within `budget`; the first one, without its power, if all are late.
    Things that are `together` have one place."""
    generations = _Generations(states, seed, budget, together, progress)
    with suppress(KeyboardInterrupt):
        generations.run(numbers)
    return generations.outcome()


def scenario_ga_of_one(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    numbers: Evolution = THESIS,
) -> Outcome:
    """The same for a text without states."""
    state = {"": StateProblem(problem, Fraction(1))}
    found = scenario_ga(state, seed=seed, budget=budget, progress=progress, numbers=numbers)
    return replace(found.states[""], power=found.power, scope=found.scope)


@dataclass(frozen=True, slots=True)
class _Individual:
    """A chromosome, its places, and by state its verdict and its power; no powers if some state is
    late."""

    genes: Genes
    placed: CommonPlaces
    verdicts: Mapping[str, MappingVerdict]
    watts: Watts


class _Generations:
    """A population after the other, and the best chromosome of all."""

    def __init__(
        self,
        states: Mapping[str, StateProblem],
        seed: int,
        budget: Budget,
        together: Sequence[Sequence[str]],
        progress: Progress | None,
    ) -> None:
        self._states, self._together, self._progress = states, together, progress
        self._random = random.Random(seed)
        self._known: dict[Genes, _Individual] = {}
        self._best: tuple[Fraction, _Individual] | None = None
        self._spending = budget.begin(lambda: len(self._known))
        self._sizes: dict[str, int] = {}
        for state in states.values():
            for network in state.problem.networks:
                self._sizes[network.name] = len(network.candidates)

    def run(self, numbers: Evolution) -> None:
        """Evolve until the generations or the budget are over, or nothing gets better."""
        living = self._individuals(self._drawn() for _ in range(numbers.population))
        idle, best = 0, self._best
        for _ in range(numbers.generations if self._sizes else 0):
            known_all = len(self._known) == prod(self._sizes.values())
            if known_all or self._spending.over or idle >= numbers.patience:
                return
            parents = [parent for parent in living for _ in range(CHILDREN)]
            children = self._individuals(self._child(p, living, numbers) for p in parents)
            living = self._selected([*living, *children], numbers.population)
            idle = 0 if self._best is not best else idle + 1
            best = self._best

    def _drawn(self) -> Genes:
        return tuple(self._random.randrange(size) for size in self._sizes.values())

    def _child(self, parent: _Individual, living: list[_Individual], numbers: Evolution) -> Genes:
        """Each gene from one of two parents, and perhaps one other."""
        other = self._random.choice(living).genes
        child = [self._random.choice(pair) for pair in zip(parent.genes, other, strict=True)]
        if self._random.random() < numbers.mutation:
            n = self._random.randrange(len(child))
            child[n] = self._random.randrange([*self._sizes.values()][n])
        return tuple(child)

    def _selected(self, rivals: list[_Individual], count: int) -> list[_Individual]:
        """Lexicase selection: each survivor is one of those that are best in a state, of these in
        another one, and so on, with the states in random order."""
        alive = [rival for rival in rivals if rival.watts]
        if not alive:
            return rivals[-count:]
        chosen = []
        for _ in range(count):
            best, order = alive, list(range(len(self._states)))
            self._random.shuffle(order)
            for n in order:
                least = min(rival.watts[n] for rival in best)
                best = [rival for rival in best if rival.watts[n] == least]
            chosen.append(self._random.choice(best))
        return chosen

    def _individuals(self, every: Iterable[Genes]) -> list[_Individual]:
        """The individuals of chromosomes, as far as the budget goes."""
        found = []
        for genes in every:
            if genes not in self._known:
                if self._known and self._spending.over:
                    continue
                self._add(genes)
            found.append(self._known[genes])
        return found

    def _add(self, genes: Genes) -> None:
        """Evaluate a chromosome that is new."""
        self._known[genes] = found = self._evaluated(genes)
        if not found.watts:
            return
        weights = [state.weight for state in self._states.values()]
        total = sum((w * x for w, x in zip(weights, found.watts, strict=True)), Fraction(0))
        if self._best is None or total < self._best[0]:
            self._best = total, found
            if self._progress is not None:
                text = f"{NAME}: {float(total):.4f} W"
                self._progress(text, evaluations=len(self._known), value=float(total))

    def _evaluated(self, genes: Genes) -> _Individual:
        """Algorithm 4."""
        choice = dict(zip(self._sizes, genes, strict=True))
        problems = {name: state.problem for name, state in self._states.items()}
        placed = joined(problems, _dealt_out(problems, choice), self._together)
        watts, verdicts = list[Fraction](), dict[str, MappingVerdict]()
        for name, state in self._states.items():
            assignment = placed.of(state.problem)
            rates = Rates(state.problem, state.power, assignment)
            if rates.verdict is None:
                return _Individual(genes, placed, verdicts, ())
            verdicts[name] = rates.verdict
            if not rates.verdict.feasible or len(watts) + 1 < len(verdicts):
                continue  # some state is late: what others take does not matter
            clocks = domains(state.problem, assignment)
            plan = greedy(ClockProblem(clocks, state.power.base_w, rates.holds))
            if plan.watts is None or plan.levels is None:
                continue
            if state.most_w is not None and plan.watts > state.most_w:
                continue
            verdicts[name] = rates.in_order(plan.levels)
            watts.append(plan.watts)
        whole = len(watts) == len(self._states)
        return _Individual(genes, placed, verdicts, tuple(watts) if whole else ())

    def outcome(self) -> StatesOutcome:
        """The best one, with its power; if all are late, the first one without."""
        first = next(iter(self._known.values()))
        found = first if self._best is None else self._best[1]
        count, seconds = len(self._known), self._spending.seconds
        scope, power = scope_of([state.problem for state in self._states.values()]), None
        if self._best is not None:
            scope = power_scope(self._states)
            power = LeastPower(self._best[0], Fraction(0), None, count, scope)
        outcomes = {}
        for name, state in self._states.items():
            judged = found.verdicts.get(name)
            assignment = None if judged is None else found.placed.of(state.problem)
            outcomes[name] = Outcome(
                NAME,
                assignment,
                judged,
                None,
                False,
                None,
                count,
                seconds,
                counted=count,
                scope=scope,
            )
        return StatesOutcome(outcomes, None, False, seconds, None, None, count, count, scope, power)


def _dealt_out(problems: Mapping[str, JointProblem], choice: Mapping[str, int]) -> CommonPlaces:
    """Algorithm 5: the processors of a type in turn."""
    turns: dict[str, int] = {}

    def next_of(processors: Sequence[str], type_: str) -> str:
        turns[type_] = turns.get(type_, -1) + 1
        return processors[turns[type_] % len(processors)]

    tasks, networks = dict[str, str](), dict[str, tuple[int, tuple[str, ...]]]()
    for app in _in_order(problems, choice):
        for problem in problems.values():
            for task in problem.tasks:
                if task.group == app and task.name not in tasks:
                    able = problem.places(task)
                    least = min(able, key=lambda p: task.wcet_ns[problem.type[p]])
                    own = [p for p in able if problem.type[p] == problem.type[least]]
                    tasks[task.name] = next_of(own, problem.type[least])
            for network in problem.networks:
                if network.group == app and network.name not in networks:
                    c = choice[network.name]
                    types = [stage.type for stage in network.candidates[c].stages]
                    stages = tuple(next_of([*problem.of_type[type_]], type_) for type_ in types)
                    networks[network.name] = c, stages
    return CommonPlaces(tasks, networks)


def _in_order(problems: Mapping[str, JointProblem], choice: Mapping[str, int]) -> list[str]:
    """The apps with the longest stage on a DLA first, behind each those that share a state with
    it."""
    longest: dict[str, int] = {}
    near: dict[str, dict[str, None]] = {}
    for problem in problems.values():
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
