"""The genetic search that balances processors: Minakova's thesis, ch. 3.5.2, equations (3.1) to
(3.4).

In: a problem. Out: a mapping where each layer of a network chose its processor. The search looks at
times only; where a way to run mappings is given, the answer runs beside the plain ways that it has
to beat, and the better one wins. It works on each network in turn with the others as they are then
(whole at first), and refuses other objectives than throughput.

A chromosome has one gene per group of layers between neighboring cut points, as flowc cuts nowhere
else (what is one kernel stays together), and the gene is a processor. In the thesis it is a CPU
core, and the first cores hand their layers to the GPUs; here the GPU stands for the core that
drives it. The plan has a stage for every run of genes on one processor, however many these are:
flowc runs the stages of a processor in one static order.

The equations are kept as they are printed, with what is wrong with them:

- (3.1), the sum of |tau_i - tau_j| over all pairs of processors, is 0 for the loads (10, 10) and
  for (1, 1): equal
  sums are told apart by the busiest processor, in whole ns. It also prefers (10, 10) to (1, 2).
- (3.4) charges what a layer reads and writes although it stays on its processor, so that nothing
  speaks for runs:
  for two equal layers in front of two equal layers, 0 1 0 1 is as good as 0 0 1 1, and has three
  hand-overs instead of
  one. What a hand-over and a stage cost beside the bytes is not in it at all.
- Tokens are bytes here. One price is known for a byte that changes processors: it counts as tau_r
  and as tau_w. A
  channel is all that crosses the cut, also what only passes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ...model.mapping import Mapping, NetworkPlan, StagePlan
from ..budget import DEFAULT, Budget
from .design import Design, complete
from .partition import Objective
from .problem import Divisible, Measure, Problem, Progress
from .trials import Over, Trials, as_auto, only_throughput

if TYPE_CHECKING:
    import numpy as np

#: Parameters of the thesis (ch. 3.6).
POPULATION, GENERATIONS, MUTATION, PATIENCE = 1000, 500, 0.05, 50
#: Bytes that tell a price per byte from what a transfer costs in any case.
MANY = 1 << 20


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
    objective: Objective = "throughput",
) -> Mapping:
    """The balanced mapping, or a plain one where that is better. Raises Errors for other
    objectives."""
    import numpy

    only_throughput("ga-balance", objective)
    if not problem.networks:
        return as_auto("ga-balance", problem, seed, budget, progress, measure, objective)
    trials = Trials(problem, measure, objective, budget, progress)
    rng = numpy.random.default_rng(seed)
    found: list[Design] = []
    notes: list[str] = []
    plans = {n: NetworkPlan(n, (StagePlan(problem.cpus[:1]),)) for n in problem.networks}
    try:
        for design in _plain(problem):
            trials.run(design)
            found.append(design)
        for name, network in problem.networks.items():
            processors = able(problem, network)
            table = charges(problem, network, processors)
            best = evolve(table, rng, trials.spending.left.part(1 / 2))
            plans[name] = plan_of_genes(name, network, [processors[g] for g in best.genes])
            design = complete(
                problem, plans.values(), f"{name.partition('.')[2]} balanced", objective
            )
            trials.run(design)
            found.append(design)
            notes.append(
                f"`{name}`: the loads of {len(processors)} processors differ by"
                f" {best.fitness / 1e6:.3g} ms in sum (3.1) after {best.generations} generations,"
                f" with {len(plans[name].stages)} stages for {len(best.genes)} groups of layers"
            )
    except (Over, KeyboardInterrupt):
        if not found:
            raise
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer("ga-balance", found, seed, notes)


def _plain(problem: Problem) -> list[Design]:
    """Everything whole on one processor: on each kind that can run all networks."""
    designs = []
    for kind in dict.fromkeys(pool.kind for pool in problem.platform.pools):
        first = next(pool.processors[0] for pool in problem.platform.pools if pool.kind == kind)
        if all(
            kind in n.costs.layers and max(n.costs.layers[kind]) < float("inf")
            for n in problem.networks.values()
        ):
            plans = [NetworkPlan(n, (StagePlan((first,)),)) for n in problem.networks]
            designs.append(complete(problem, plans, f"on {first}"))
    return designs


def able(problem: Problem, network: Divisible) -> tuple[str, ...]:
    """The processors that a network has times for."""
    return tuple(
        p
        for pool in problem.platform.pools
        if pool.kind in network.costs.layers
        for p in pool.processors
    )


# -- equations -------------------------------------------------------------------------------------
def charges(problem: Problem, network: Divisible, processors: Sequence[str]) -> np.ndarray:
    """What each group adds to tau of each processor, in ns: its layers (3.3), and reading and
    writing (3.4).

    Both are sums over the groups of a processor, so that one table is all that the search needs.
    """
    import numpy

    costs = network.costs
    bounds = [0, *(after for after, _ in costs.cuts), costs.count]
    crossing = [0, *(b for _, b in costs.cuts), 0]
    table = numpy.zeros((len(bounds) - 1, len(processors)))
    for k, processor in enumerate(processors):
        kind = problem.platform.pool_of(processor).kind
        per_byte = (costs.transfer(kind, kind, MANY) - costs.transfer(kind, kind, 0)) / MANY
        for g, (first, end) in enumerate(pairwise(bounds)):
            table[g, k] = sum(costs.layers[kind][first:end]) + per_byte * (
                crossing[g] + crossing[g + 1]
            )
    return table


def loads(table: np.ndarray, genes: np.ndarray) -> np.ndarray:
    """Tau of every processor (3.2) for a whole population: a row for each chromosome, in whole
    ns."""
    import numpy

    count = table.shape[1]
    chosen = table[numpy.arange(table.shape[0]), genes]
    return numpy.stack(
        [numpy.where(genes == p, chosen, 0.0).sum(axis=1) for p in range(count)], axis=1
    ).round()


def fitness(tau: np.ndarray) -> np.ndarray:
    """Equation (3.1) for every row: |tau_i - tau_j| summed over all ordered pairs, so that every
    two count twice."""
    import numpy

    total: np.ndarray = numpy.abs(tau[:, :, None] - tau[:, None, :]).sum(axis=(1, 2))
    return total


# -- evolution -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Balanced:
    """The best chromosome: a processor number per group, its fitness (3.1), and how many
    generations there were."""

    genes: tuple[int, ...]
    fitness: float
    generations: int


def evolve(table: np.ndarray, rng: np.random.Generator, budget: Budget) -> Balanced:
    """A simple GA: the better half are parents, children are their one-point crossovers, 5 % of
    them change one gene.

    The thesis names no selection; it says that those "with the best score" are taken. The whole
    population is evaluated at once, which counts as nothing. Ends early where seconds are used up,
    with the best so far.
    """
    import numpy

    groups, _ = table.shape
    spending = budget.begin(lambda: 0)
    finite = numpy.isfinite(table)
    finite |= ~finite.any(axis=1, keepdims=True)
    choices = [numpy.flatnonzero(row) for row in finite]
    counts = numpy.array([len(c) for c in choices])
    padded = numpy.array([numpy.resize(c, table.shape[1]) for c in choices])

    def drawn(at: np.ndarray) -> np.ndarray:
        """A processor that can run the group, for each of some groups."""
        taken: np.ndarray = padded[at, rng.integers(counts[at])]
        return taken

    population = drawn(numpy.tile(numpy.arange(groups), (POPULATION, 1)))
    half = POPULATION // 2
    best, idle, generations = (numpy.inf, numpy.inf), 0, 0
    for _ in range(GENERATIONS):
        generations += 1
        tau = loads(table, population)
        sums, most = fitness(tau), tau.max(axis=1)
        order = numpy.lexsort((most, sums))
        population = population[order]
        reached = float(sums[order[0]]), float(most[order[0]])
        best, idle = (reached, 0) if reached < best else (best, idle + 1)
        if idle >= PATIENCE or spending.over:
            break
        parents = rng.integers(half, size=(2, POPULATION - half))
        points = rng.integers(1, max(2, groups), size=POPULATION - half)
        children = numpy.where(
            numpy.arange(groups) < points[:, None], population[parents[0]], population[parents[1]]
        )
        changed = numpy.flatnonzero(rng.random(len(children)) < MUTATION)
        at = rng.integers(groups, size=len(changed))
        children[changed, at] = drawn(at)
        population = numpy.concatenate([population[:half], children])
    return Balanced(tuple(int(g) for g in population[0]), best[0], generations)


def plan_of_genes(task: str, network: Divisible, genes: Sequence[str]) -> NetworkPlan:
    """A stage for every run of groups on one processor."""
    ends = [after for after, _ in network.costs.cuts]
    stages = [
        StagePlan((here,), network.layers[end - 1])
        for end, (here, following) in zip(ends, pairwise(genes), strict=True)
        if here != following
    ]
    return NetworkPlan(task, (*stages, StagePlan((genes[-1],))))
