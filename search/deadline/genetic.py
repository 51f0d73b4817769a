"""The genetic searches of Kim's thesis (chapter 5): `heuristic-ga`, `entire-ga`, and the baseline
beside them.

In: a problem. Out: the best assignment found that meets all deadlines (or violates them least),
with its verdict. `heuristic-ga` chooses candidates of networks, and Algorithm 7 places the tasks;
`entire-ga` decides on places too and begins with what the former found. Populations are arrays. The
bound on response times is computed for the leaders of a generation only: an individual that is late
is ranked by how late it is, behind all that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from ...analysis.timing.system import Refused
from ...machines.search_workers import ALONE, SearchWorkers
from ..budget import Budget
from ..events import Progress
from ..evolution import Evolution
from .least_late import least_late, violation
from .limits import tightest
from .place import PlacedPopulation, Placer
from .problem import Assignment, JointProblem
from .verdict import MappingVerdict, verdict

if TYPE_CHECKING:
    import numpy as np

#: That of the thesis (5.5.3); a mutation changes one gene.
THESIS = Evolution(population=2048, generations=100, patience=10, mutation=0.3, selection=2)
#: Of each generation, the leaders whose response times are bounded.
LEADERS = 4


@dataclass
class BestSoFar:
    """The best so far: feasible ones by maximum utilization, others by how much they violate.

    `evaluations` counts assignments whose utilization was computed, `looks` those whose response
    times were bounded.
    """

    assignment: Assignment | None = None
    verdict: MappingVerdict | None = None
    evaluations: int = 0
    looks: int = 0
    generations: int = 0
    seconds: float = 0.0
    value: float = float("inf")
    interrupted: bool = False
    seen: dict[Assignment, float] = field(default_factory=dict)
    #: Maximum utilization, the share of its deadline that the tightest needs, and the assignment:
    #: none is dominated.
    front: list[tuple[float, float, Assignment]] = field(default_factory=list)

    @property
    def feasible(self) -> bool:
        """True if an assignment that keeps all deadlines and limits was found."""
        return self.verdict is not None and self.verdict.feasible

    @property
    def text(self) -> str:
        """Its quality in words."""
        if self.feasible:
            return f"maximum utilization {self.value:.4f}"
        return f"late by {self.value - 2:.3f} at half the rate"

    def tell(self, progress: Progress, text: str) -> None:
        """Report it; an assignment that misses deadlines has no value."""
        count = self.evaluations + self.looks
        progress(text, evaluations=count, value=self.value if self.feasible else None)

    def join(self, other: BestSoFar) -> None:
        """Merge the results of another worker; its looks are counted here."""
        self.looks, other.looks = self.looks + other.looks, 0
        self.seen.update(other.seen)
        if other.value < self.value:
            self.assignment, self.verdict, self.value = other.assignment, other.verdict, other.value
        for point in other.front:
            self._add(point)

    def keep(self, problem: JointProblem, assignment: Assignment, found: MappingVerdict) -> None:
        """Add an assignment that meets all deadlines to the front, unless it is dominated."""
        point = float(found.maximum), float(tightest(problem, found.worst)), assignment
        self._add(point)

    def settle(self, problem: JointProblem, budget: Budget) -> None:
        """Where everything is late, take the least late of all that was seen, unless Ctrl-C asks
        for an end."""
        if self.feasible or self.interrupted:
            return
        violations = {assignment: value - 2 for assignment, value in self.seen.items()}
        answer = least_late(problem, violations, budget)
        if answer is not None:
            self.assignment, self.verdict = answer

    def _add(self, point: tuple[float, float, Assignment]) -> None:
        if not any(a <= point[0] and b <= point[1] for a, b, _ in self.front):
            self.front = [f for f in self.front if f[0] < point[0] or f[1] < point[1]]
            self.front.append(point)


#: The value of an assignment, and its verdict where it has one.
Judged = tuple[float, MappingVerdict | None]


def judged(problem: JointProblem, assignment: Assignment) -> Judged:
    """Bound the response times of an assignment; its value: maximum utilization, or 2 and its
    violation.
    """
    try:
        found = verdict(problem, assignment, patience=Fraction(1))
        wrong = violation(problem, assignment, found)
    except Refused:
        return float("inf"), None
    return (float(found.maximum) if not wrong else 2.0 + wrong), found


def look(
    problem: JointProblem, assignment: Assignment, best: BestSoFar, ahead: Judged | None = None
) -> float:
    """The value of an assignment, judged once, or `ahead` by a worker; the best one is kept."""
    known = best.seen.get(assignment)
    if known is not None:
        return known
    value, found = ahead or judged(problem, assignment)
    best.looks += 1
    if found is not None:
        if found.feasible:
            best.keep(problem, assignment, found)
        if value < best.value:
            best.assignment, best.verdict, best.value = assignment, found, value
    best.seen[assignment] = value
    return value


def heuristic_ga(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    search_workers: SearchWorkers = ALONE,
    numbers: Evolution = THESIS,
) -> BestSoFar:
    """Candidates by evolution, tasks by Algorithm 7. Ctrl-C returns the best so far."""
    import numpy as np

    rng = np.random.default_rng(seed)
    population = numbers.population
    placer = Placer(problem)
    sizes = np.array([len(n.candidates) for n in problem.networks], dtype=int)
    # The last gene: tasks anywhere (0), or those of a group on one core (1).
    sizes = np.append(sizes, 2)
    choices = rng.integers(0, sizes, size=(population, len(sizes)))
    # Two that meet deadlines if any do: networks in as little time or as few stages as can be,
    # groups at home.
    latency = [[c.latency for c in n.candidates] for n in problem.networks]
    stages = [[(len(c.stages), c.latency) for c in n.candidates] for n in problem.networks]
    choices[0] = [*(own.index(min(own)) for own in latency), 1]
    choices[-1] = [*(own.index(min(own)) for own in stages), 1]
    evolution = _Generations("heuristic-ga", placer, rng, budget, progress, search_workers, numbers)
    return evolution.best_of(_Population(choices, None, sizes))


def entire_ga(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    search_workers: SearchWorkers = ALONE,
    numbers: Evolution = THESIS,
) -> BestSoFar:
    """Candidates and places of tasks by evolution, seeded with what `heuristic-ga` finds.

    Where that finds nothing feasible, it is asked again with deadlines loosened, as the thesis
    does.
    """
    import numpy as np

    looked: list[BestSoFar] = []
    spending = budget.begin(lambda: sum(b.looks for b in looked))
    rng = np.random.default_rng(seed)
    placer = Placer(problem)
    population = numbers.population
    fewer = replace(numbers, population=max(2, population // 4))
    start = heuristic_ga(
        problem,
        seed=seed,
        budget=budget.part(1 / 4),
        progress=progress,
        search_workers=search_workers,
        numbers=fewer,
    )
    looked.append(start)
    if not start.feasible:
        loose = heuristic_ga(
            _loosened(problem),
            seed=seed,
            budget=budget.part(1 / 8),
            search_workers=search_workers,
            numbers=fewer,
        )
        looked.append(loose)
        start = start if loose.assignment is None else loose
    sizes = np.array([len(n.candidates) for n in problem.networks], dtype=int)
    if len(sizes):
        choices = rng.integers(0, sizes, size=(population, len(sizes)))
    else:
        choices = np.zeros((population, 0), int)
    placed = placer.place(choices, at_home=rng.random(population) < 0.5)
    tasks = placed.items.copy()
    index = {p: i for i, p in enumerate(problem.processors)}
    if start.assignment is not None:
        part = max(1, population // 8)
        choices[:part] = start.assignment.choice
        tasks[:part] = [index[p] for p in start.assignment.tasks]
    evolution = _Generations(
        "entire-ga", placer, rng, spending.left, progress, search_workers, numbers
    )
    best = evolution.best_of(_Population(choices, tasks, sizes), start.assignment)
    best.seconds = spending.seconds
    best.evaluations += start.evaluations
    best.looks += sum(b.looks for b in looked)
    return best


def _loosened(problem: JointProblem) -> JointProblem:
    loose = [
        replace(group, deadline_ns=4 * group.period_ns, paths=(), chains=())
        for group in problem.groups
    ]
    return replace(problem, groups=tuple(loose))


def baseline(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    search_workers: SearchWorkers = ALONE,
    numbers: Evolution = THESIS,
) -> BestSoFar:
    """One after the other: networks as if there were no tasks, then tasks around them.

    What the thesis compares with: both searches minimize the utilization of what they see.
    """
    import numpy as np

    first = BestSoFar()
    spending = budget.begin(lambda: first.looks)
    alone = _networks_alone(problem)
    rng = np.random.default_rng(seed)
    placer = Placer(problem)
    choice: tuple[int, ...] = (0,) * len(problem.networks)
    if alone.groups:
        first = heuristic_ga(
            alone,
            seed=seed,
            budget=budget.part(1 / 2),
            search_workers=search_workers,
            numbers=numbers,
        )
        if first.assignment is not None:
            choice = first.assignment.choice
    population = numbers.population
    choices = np.tile(np.array(choice, dtype=int), (population, 1))
    tasks = placer.place(choices).items.copy()
    for t, task in enumerate(problem.tasks):
        places = [problem.processors.index(p) for p in problem.places(task)]
        tasks[1:, t] = rng.choice(places, size=population - 1)
    evolution = _Generations(
        "baseline", placer, rng, spending.left, progress, search_workers, numbers
    )
    best = evolution.best_of(_Population(choices, tasks, None))
    best.seconds = spending.seconds
    best.evaluations += first.evaluations
    best.looks += first.looks
    return best


def _networks_alone(problem: JointProblem) -> JointProblem:
    """The problem without tasks: apps with networks, and the channels between these."""
    names = {network.name for network in problem.networks}
    with_networks = {network.group for network in problem.networks}
    groups = []
    for group in problem.groups:
        if group.name in with_networks:
            channels = tuple(
                channel
                for channel in group.channels
                if channel.source in names and channel.destination in names
            )
            order = tuple(name for name in group.order if name in names)
            groups.append(replace(group, channels=channels, paths=(), order=order, chains=()))
    return replace(problem, tasks=(), followers=(), groups=tuple(groups))


@dataclass(frozen=True, slots=True)
class _Population:
    """Genes by individual: `choices` of candidates, and the places of `tasks`.

    `sizes` are the numbers of candidates to choose from; without them the choices are fixed.
    Without `tasks` Algorithm 7 places them, and the last gene of a choice is where it may: anywhere
    (0), or those of a group on one core (1).
    """

    choices: np.ndarray
    tasks: np.ndarray | None
    sizes: np.ndarray | None

    @property
    def candidates(self) -> np.ndarray:
        """The candidates of networks, by individual."""
        return self.choices[:, :-1] if self.tasks is None else self.choices

    def placed(self, placer: Placer, rows: slice = slice(None)) -> PlacedPopulation:
        """Individuals with all places."""
        if self.tasks is None:
            return placer.place(self.candidates[rows], at_home=self.choices[rows, -1] == 1)
        return placer.place(self.choices[rows], self.tasks[rows])


class _Generations:
    """Uniform crossover of tournament winners, mutation of one gene, the best tenth stays."""

    def __init__(
        self,
        name: str,
        placer: Placer,
        rng: np.random.Generator,
        budget: Budget,
        progress: Progress | None,
        search_workers: SearchWorkers,
        numbers: Evolution,
    ) -> None:
        self._name, self._placer, self._rng, self._numbers = name, placer, rng, numbers
        self._problem = placer.problem
        self._progress, self._search_workers = progress, search_workers
        self._best = BestSoFar()
        self._spending = budget.begin(lambda: self._best.looks)

    def best_of(self, population: _Population, start: Assignment | None = None) -> BestSoFar:
        """The best assignment of all generations, and of `start`."""
        best = self._best
        if start is not None:
            look(self._problem, start, best)
        values = self._values(population)
        idle = 0
        try:
            if population.tasks is None:
                self._look_at_seeds(population, values)
            if best.assignment is not None:
                self._tell(f"begins with {best.text}")
            while self._goes_on(idle):
                best.generations += 1
                before = best.value
                population = self._next_generation(population, values)
                values = self._values(population)
                idle = 0 if best.value < before - 1e-12 else idle + 1
                if best.value < before:
                    self._tell(f"generation {best.generations}, {best.text}")
        except KeyboardInterrupt:
            best.interrupted = True
        best.seconds = self._spending.seconds
        return best

    def _goes_on(self, idle: int) -> bool:
        """Is there another generation, after `idle` ones without progress?"""
        numbers = self._numbers
        within = self._best.generations < numbers.generations and idle < numbers.patience
        return within and not self._spending.over

    def _tell(self, text: str) -> None:
        if self._progress is not None:
            self._best.tell(self._progress, f"{self._name}: {text}")

    def _look_at_seeds(self, population: _Population, values: np.ndarray) -> None:
        """Bound the response times of the first and the last individual, which `heuristic_ga`
        chose."""
        for i, row in ((0, slice(0, 1)), (-1, slice(-1, None))):
            placed = population.placed(self._placer, row)
            assignment = placed.assignment(self._problem, 0, population.candidates[i])
            values[i] = look(self._problem, assignment, self._best)

    def _next_generation(self, population: _Population, values: np.ndarray) -> _Population:
        import numpy as np

        rng, choices, tasks = self._rng, population.choices, population.tasks
        order = np.argsort(values, kind="stable")
        keep = order[: max(1, len(order) // 10)]
        children = len(choices) - len(keep)
        rivals = self._numbers.selection
        parents = tuple(_tournament(values, children, rivals, rng) for _ in range(2))
        choices = np.concatenate([choices[keep], _crossed(choices, parents, rng)])
        if population.sizes is not None:
            _mutate(choices, len(keep), population.sizes, rng, self._numbers.mutation)
        if tasks is not None:
            tasks = np.concatenate([tasks[keep], _crossed(tasks, parents, rng)])
            _mutate_places(tasks, len(keep), self._placer, rng, self._numbers.mutation)
        return _Population(choices, tasks, population.sizes)

    def _values(self, population: _Population) -> np.ndarray:
        """Maximum utilization; 2 and more for what breaks a limit or, as far as is known, a
        deadline.
        """
        import numpy as np

        problem, best = self._problem, self._best
        choices = population.candidates
        placed = population.placed(self._placer)
        worst = placed.used.max(axis=1)
        values: np.ndarray = np.where(worst > 1, 2 + 10 * (worst - 1), worst) + 10 * placed.engines
        best.evaluations += len(values)
        looked = 0
        order = np.argsort(values, kind="stable")
        hopeful = (i for i in order if not best.feasible or values[i] < best.value)
        leaders = (placed.assignment(problem, int(i), choices[i]) for i in hopeful)
        ahead = _ahead(problem, leaders, best, self._search_workers)
        for i in order:
            if looked >= LEADERS or (best.feasible and values[i] >= best.value):
                break
            if best.assignment is not None and self._spending.over:
                break
            assignment = placed.assignment(problem, int(i), choices[i])
            fresh = assignment not in best.seen
            values[i] = look(problem, assignment, best, ahead.get(assignment))
            looked += fresh
            if fresh and values[i] < 2:
                break
        return values


def _ahead(
    problem: JointProblem,
    leaders: Iterator[Assignment],
    best: BestSoFar,
    search_workers: SearchWorkers,
) -> dict[Assignment, Judged]:
    """The next leaders, judged by the workers. Those that are not used do not count."""
    if search_workers.size < 2:
        return {}
    fresh = list(
        islice(
            dict.fromkeys(a for a in islice(leaders, 4 * LEADERS) if a not in best.seen), LEADERS
        )
    )
    return dict(zip(fresh, search_workers.run(judged, problem, fresh), strict=True))


def _tournament(
    values: np.ndarray, count: int, rivals: int, rng: np.random.Generator
) -> np.ndarray:
    """The winners of so many tournaments, each among some `rivals`."""
    drawn = rng.integers(0, len(values), size=(rivals, count))
    winners: np.ndarray = drawn[values[drawn].argmin(axis=0), range(count)]
    return winners


def _crossed(
    genes: np.ndarray, parents: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    import numpy as np

    first, second = (genes[p] for p in parents)
    found: np.ndarray = np.where(rng.random(first.shape) < 0.5, first, second)
    return found


def _mutate(
    choices: np.ndarray, kept: int, sizes: np.ndarray, rng: np.random.Generator, chance: float
) -> None:
    """Another candidate for one network: any, or a neighbor on the front."""
    import numpy as np

    if not choices.shape[1]:
        return
    rows = np.arange(kept, len(choices))
    rows = rows[rng.random(len(rows)) < chance]
    column = rng.integers(0, choices.shape[1], size=len(rows))
    near = choices[rows, column] + rng.integers(-3, 4, size=len(rows))
    anywhere = rng.integers(0, sizes[column])
    choices[rows, column] = np.where(
        rng.random(len(rows)) < 0.5, np.clip(near, 0, sizes[column] - 1), anywhere
    )


def _mutate_places(
    tasks: np.ndarray, kept: int, placer: Placer, rng: np.random.Generator, chance: float
) -> None:
    import numpy as np

    if not tasks.shape[1]:
        return
    rows = np.arange(kept, len(tasks))
    rows = rows[rng.random(len(rows)) < chance]
    column = rng.integers(0, tasks.shape[1], size=len(rows))
    for t in range(tasks.shape[1]):
        own = rows[column == t]
        tasks[own, t] = rng.choice(placer.allowed(t), size=len(own))


def gap(found: float, bound: Fraction) -> float:
    """How far a value is above a bound, relative to the bound."""
    return found / float(bound) - 1 if bound else float("inf")
