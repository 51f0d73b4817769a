"""The comprehensive genetic search: everything in one chromosome (Kim's thesis, ch. 3.6.4.4,
*comprehensive-GA*).

In: a problem, and a way to run mappings; without one, predictions are the fitness. Out: the best
mapping that evolution finds, for throughput, latency or energy. JEDI divides the same parameters
into steps; this is what it is compared with there, and what `auto` is compared with here.

A chromosome is a list of numbers: for every network the number of stages, three cut points, and for
four stages a place (a processor, or all of a pool in turn), streams and threads of the library;
buffers, threads before and behind; and for every other task that is not pinned a core. Genes of
stages that do not exist are silent. Cuts that fall together, and stages side by side on one place,
are one: so several chromosomes are one configuration, which is tried once. Ranges of streams,
buffers and threads around are those that JEDI's maximizer finds, as in the thesis.

The thesis says no more. Here: the best of parents and children survive, parents win tournaments of
three, uniform crossover, one gene mutates (a cut moves a little in half of the cases), plain
configurations are in the first population. With runs a generation is small, as each run takes a
second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from ..budget import DEFAULT, Budget
from . import auto
from .contest import FINALISTS
from .design import Design, complete
from .jedi import maximized
from .jedi_bench import BUFFERS, POST, PRE, STREAMS, Bench, Setting, neighbors, options, spread
from .partition import MOST_STAGES, Objective, Place
from .problem import Divisible, Measure, Problem, Progress
from .trials import Over, Trials, as_auto

#: Individuals, most generations, and generations without progress: for runs of about a second, and
#: for predictions.
MEASURED = (16, 100, 12)
PREDICTED = (200, 200, 20)
#: How many compete to become a parent, and how often a child's gene changes.
TOURNAMENT, MUTATION = 3, 0.6

#: Where the genes of a network are: stages, then cuts, places, streams and threads, and at last
#: what is around.
CUTS, PLACES, STREAM, THREADS = 1, MOST_STAGES, 2 * MOST_STAGES, 3 * MOST_STAGES
AROUND, LENGTH = 4 * MOST_STAGES, 4 * MOST_STAGES + 3
#: Option E with the least of everything: pre, post, buffers, streams.
FEWEST = (1, 1, 2, 1)

Genes = list[int]
Configuration = tuple[tuple[NetworkPlan, ...], tuple[Placement, ...]]


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
    objective: Objective = "throughput",
) -> Mapping:
    """The fittest configuration, never worse than the plain ones in the first population."""
    if not problem.networks:
        return as_auto("ga", problem, seed, budget, progress, measure, objective)
    trials = Trials(problem, measure, objective, budget, progress)
    space = Space(problem, objective)
    sizes = MEASURED if trials.measured else PREDICTED
    plain: list[Design] = []
    notes: list[str] = []
    try:
        for name, genes in space.plain():
            design = space.design(space.decode(genes), name)
            trials.run(design)
            plain.append(design)
        if objective == "throughput":
            space.widen(trials)
        generations = evolve(space, trials, random.Random(seed), *sizes)
        notes.append(f"evolution ended after {generations} generations of {sizes[0]}")
    except (Over, KeyboardInterrupt):
        if not plain:
            raise
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer("ga", [*plain, *trials.best(FINALISTS)], seed, notes)


# -- chromosomes -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Part:
    """The genes of one network begin at `at`; `before` and `behind` are the tasks that may have
    threads."""

    name: str
    network: Divisible
    places: tuple[Place, ...]
    before: tuple[str, ...]
    behind: tuple[str, ...]
    at: int


class Space:
    """What genes mean. Gene g is one of the numbers below `high[g]`."""

    def __init__(self, problem: Problem, objective: Objective) -> None:
        self._problem, self._objective = problem, objective
        self._counts = {
            p: pool.count
            for pool in problem.platform.pools
            for p in pool.processors
            if pool.kind == "cpu"
        }
        self.high: list[int] = []
        self.cuts: set[int] = set()
        self._parts: list[_Part] = []
        for name, network in problem.networks.items():
            places = tuple(auto.places(problem, network))
            at = len(self.high)
            self._parts.append(_Part(name, network, places, *neighbors(problem, name), at))
            cuts = len(network.costs.cuts)
            self.cuts |= {*range(at + CUTS, at + PLACES)}
            most = max(
                (self._counts.get(p, 1) for place in places for p in place.processors), default=1
            )
            self.high += [min(MOST_STAGES, cuts + 1), *[max(1, cuts)] * (MOST_STAGES - 1)]
            self.high += [
                *[len(places)] * MOST_STAGES,
                *[1] * MOST_STAGES,
                *[most] * MOST_STAGES,
                1,
                1,
                1,
            ]
        self._first_task = len(self.high)
        tasks = [t.name for a in problem.apps for t in a.tasks]
        self._tasks = [t for t in tasks if t not in problem.networks and t not in problem.pins]
        self.high += [len(problem.cpus)] * len(self._tasks)

    def widen(self, trials: Trials) -> None:
        """Allow streams, buffers and threads around up to what JEDI's maximizer finds on option E.
        Raises Over."""
        for part in self._parts:
            rest = [
                NetworkPlan(p.name, (StagePlan(self._problem.cpus[:1]),))
                for p in self._parts
                if p is not part
            ]
            option = options(self._problem, part.name)[0]
            most = maximized(
                Bench(self._problem, part.name, rest, trials), Setting(option, (), FEWEST)
            ).numbers
            for k in range(MOST_STAGES):
                self.high[part.at + STREAM + k] = most[STREAMS]
            for k, number in enumerate((BUFFERS, PRE, POST)):
                self.high[part.at + AROUND + k] = most[number] - FEWEST[number] + 1

    def plain(self) -> Iterator[tuple[str, Genes]]:
        """Networks whole on the first processor of each pool (with all threads too), and in turn on
        all of it; the other tasks on the first core, or where they are greedily placed."""
        for pool in self._problem.platform.pools:
            for processors in dict.fromkeys((pool.processors[:1], pool.processors)):
                place = Place(processors, pool.kind)
                if any(place not in part.places for part in self._parts):
                    continue
                genes = [0] * len(self.high)
                for part in self._parts:
                    genes[part.at + PLACES] = part.places.index(place)
                name = (
                    f"on {processors[0]}"
                    if len(processors) == 1
                    else f"frames in turn on all of {pool.name}"
                )
                yield f"{name}, others on one core", genes
                yield name, self._around(genes)
                if len(processors) == 1 and pool.kind == "cpu" and pool.count > 1:
                    threaded = [*genes]
                    for part in self._parts:
                        threaded[part.at + THREADS] = pool.count - 1
                    yield "threads of the library", threaded

    def _around(self, genes: Genes) -> Genes:
        """The same plans with the other tasks greedily placed, as far as one core each can say
        that."""
        mapping = complete(self._problem, self.decode(genes)[0], "").mapping
        cores = [self._problem.cpus.index(mapping.of(t)[0]) for t in self._tasks]
        return [*genes[: self._first_task], *cores]

    def decode(self, genes: Sequence[int]) -> Configuration:
        """The configuration that genes stand for; equal ones are equal."""
        cpus = self._problem.cpus
        others = {
            t: Placement(t, (cpus[g],))
            for t, g in zip(self._tasks, genes[self._first_task :], strict=True)
        }
        plans = []
        for part in self._parts:
            own = genes[part.at : part.at + LENGTH]
            stages = self._stages(part, own)
            pre = own[AROUND + 1] + FEWEST[PRE]
            post = own[AROUND + 2] + FEWEST[POST]
            lanes = [s.streams * len(s.processors) for s in stages]
            buffers = max(own[AROUND] + FEWEST[BUFFERS], pre, post, *lanes)
            plans.append(NetworkPlan(part.name, stages, buffers, pre, post))
            for tasks, threads in ((part.before, pre), (part.behind, post)):
                others |= spread(tasks, threads, cpus) if threads > 1 else {}
        return tuple(plans), tuple(others.values())

    def _stages(self, part: _Part, own: Sequence[int]) -> tuple[StagePlan, ...]:
        ends = sorted({part.network.costs.cuts[g][0] for g in own[CUTS : CUTS + own[0]]})
        stages: list[StagePlan] = []
        for k, end in enumerate([*ends, None]):
            until = None if end is None else part.network.layers[end - 1]
            processors = part.places[own[PLACES + k]].processors
            if stages and stages[-1].processors == processors:
                stages[-1] = replace(stages[-1], until=until)
                continue
            threads = 1
            if len(processors) == 1:
                # threads of several sessions on the same cores are in each other's way
                threads = min(own[THREADS + k] + 1, self._counts.get(processors[0], 1))
            stages.append(StagePlan(processors, until, own[STREAM + k] + 1, threads))
        return tuple(stages)

    def design(self, configuration: Configuration, name: str = "") -> Design:
        """A configuration with what is predicted for it."""
        plans, others = configuration
        stages = " + ".join(str(len(p.stages)) for p in plans)
        named = name or ("one stage" if stages == "1" else f"{stages} stages")
        return complete(self._problem, plans, named, self._objective, {p.task: p for p in others})


# -- evolution -------------------------------------------------------------------------------------
def evolve(
    space: Space, trials: Trials, rng: random.Random, size: int, generations: int, patience: int
) -> int:
    """Let a population evolve until nothing gets better for a while; returns the number of
    generations. Raises Over.

    Operators are written here: those of DEAP draw from the global `random`, and its `creator` makes
    global classes.
    """
    from deap import base, tools

    class Least(base.Fitness):  # type: ignore[misc]
        weights = (-1.0,)

    known: dict[Configuration, float] = {}

    class Individual(list[int]):
        def __init__(self, genes: Genes) -> None:
            super().__init__(genes)
            self.configuration = space.decode(genes)
            if self.configuration not in known:
                known[self.configuration] = trials.value(space.design(self.configuration))
            self.fitness = Least((known[self.configuration],))

    def parent() -> Individual:
        return max((rng.choice(population) for _ in range(TOURNAMENT)), key=lambda x: x.fitness)

    def child() -> Individual:
        genes = [rng.choice(pair) for pair in zip(parent(), parent(), strict=True)]
        if rng.random() < MUTATION:
            mutate(space, genes, rng)
        return Individual(genes)

    first = [genes for _, genes in space.plain()][:size]
    first += [[rng.randrange(n) for n in space.high] for _ in range(size - len(first))]
    population = [Individual(genes) for genes in first]
    least, idle = min(known.values()), 0
    for generation in range(1, generations + 1):
        everybody = population + [child() for _ in range(size)]
        # One of each: copies would fill the population, as silent genes make them look different.
        population = tools.selBest(list({x.configuration: x for x in everybody}.values()), size)
        reached = min(known.values())
        least, idle = (reached, 0) if reached < least else (least, idle + 1)
        if idle >= patience:
            return generation
    return generations


def mutate(space: Space, genes: Genes, rng: random.Random) -> None:
    """Another number for one gene that has a choice; a cut moves by up to three positions in half
    of the cases."""
    at = rng.choice([g for g, n in enumerate(space.high) if n > 1] or [0])
    if at in space.cuts and rng.random() < 0.5:
        genes[at] = min(max(0, genes[at] + rng.choice((-3, -2, -1, 1, 2, 3))), space.high[at] - 1)
    else:
        genes[at] = rng.randrange(space.high[at])
