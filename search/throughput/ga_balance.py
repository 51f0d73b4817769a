"""The genetic search that balances processors: Minakova's thesis, ch. 3.5.2, equations (3.1) to
(3.4).

In: a problem. Out: a mapping in which each layer of a network has a processor. The search uses
times only; with a function that runs mappings, the answer and the plain mappings that it has to
beat are run, and the best one wins. The search treats one network after the other, with the plans
so far of the others (at first they are not cut), and refuses other objectives than throughput.

A chromosome has one gene for each group of layers between adjacent cut points, as flowc cuts
nowhere else (layers of one kernel stay together). The gene is a processor. In the thesis it is a
CPU core, and the first cores hand their layers to the GPUs; here the GPU stands for the core that
drives it. The plan has a stage for every sequence of genes on one processor, without a maximum:
flowc runs the stages of a processor in one static order.

The equations are kept as printed, including their defects:

- (3.1), the sum of |tau_i - tau_j| over all pairs of processors, is 0 for the loads (10, 10) and
  for (1, 1): of equal sums, the one with the smaller maximum in whole ns is better. It also prefers
  (10, 10) to (1, 2).
- (3.4) charges a layer for reading and writing even if its neighbors are on the same processor, so
  that sequences on one processor have no advantage: for two equal layers before two other equal
  layers, 0 1 0 1 is as good as 0 0 1 1, and has three hand-overs instead of one. The costs of a
  hand-over and of a stage beyond the bytes are not in it.
- Tokens are bytes here. One price is known for a byte that changes processors: it counts as tau_r
  and as tau_w. A channel is everything that crosses the cut, including tensors for later layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from ...model.mapping import Mapping, NetworkPlan, StagePlan
from ..budget import Budget
from ..evolution import Evolution
from .design import Design, complete
from .plans import whole
from .problem import Divisible, Problem
from .request import SearchRequest
from .trials import Over, Trials, as_auto, only_throughput

if TYPE_CHECKING:
    import numpy as np

#: That of the thesis (ch. 3.6).
THESIS = Evolution(population=1000, generations=500, patience=50, mutation=0.05)
#: The size of a transfer that is compared with an empty one for the price of a byte.
MANY = 1 << 20


def search(request: SearchRequest) -> Mapping:
    """The balanced mapping, or a plain one where that is better. Raises Errors for other
    objectives."""
    import numpy

    problem = request.problem
    only_throughput("ga-balance", request.objective)
    if not problem.networks:
        return as_auto("ga-balance", request)
    trials = Trials(request)
    rng = numpy.random.default_rng(request.seed)
    numbers = THESIS.changed(request.evolution)
    tried: list[Design] = []
    notes: list[str] = []
    plans = {plan.task: plan for plan in whole(problem.networks, problem.cpus[:1])}
    try:
        for design in _plain(problem):
            trials.run(design)
            tried.append(design)
        for name, network in problem.networks.items():
            processors = able(problem, network)
            table = charges(problem, network, processors)
            best = evolve(table, rng, trials.spending.left.part(1 / 2), numbers)
            plans[name] = plan_of_genes(name, network, [processors[g] for g in best.genes])
            label = f"{name.partition('.')[2]} balanced"
            design = complete(problem, plans.values(), label)
            trials.run(design)
            tried.append(design)
            notes.append(
                f"`{name}`: the loads of {len(processors)} processors differ by"
                f" {best.fitness / 1e6:.3g} ms in sum (3.1) after {best.generations} generations,"
                f" with {len(plans[name].stages)} stages for {len(best.genes)} groups of layers"
            )
    except (Over, KeyboardInterrupt):
        if not tried:
            raise
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer("ga-balance", tried, notes)


def _plain(problem: Problem) -> list[Design]:
    """All networks uncut on one processor, for each type that can run them."""
    designs = []
    for type_ in problem.platform.kinds:
        if problem.runs_networks_on(type_):
            first = problem.of_type(type_)[0]
            designs.append(complete(problem, whole(problem.networks, (first,)), f"on {first}"))
    return designs


def able(problem: Problem, network: Divisible) -> tuple[str, ...]:
    """The processors that a network has times for."""
    pools = [pool for pool in problem.platform.pools if pool.type in network.costs.layers]
    return tuple(chain.from_iterable(pool.processors for pool in pools))


# -- equations -------------------------------------------------------------------------------------
def charges(problem: Problem, network: Divisible, processors: Sequence[str]) -> np.ndarray:
    """The share of each group in tau of each processor, in ns: its layers (3.3), and reading and
    writing (3.4).

    Both are sums over the groups of a processor, so that the search needs one table only.
    """
    import numpy

    costs = network.costs
    bounds = [0, *(after for after, _ in costs.cuts), costs.count]
    crossing = [0, *(b for _, b in costs.cuts), 0]
    table = numpy.zeros((len(bounds) - 1, len(processors)))
    for k, processor in enumerate(processors):
        type_ = problem.platform.pool_of(processor).type
        per_byte = (costs.transfer(type_, type_, MANY) - costs.transfer(type_, type_, 0)) / MANY
        for g, (first, end) in enumerate(pairwise(bounds)):
            read, written = crossing[g], crossing[g + 1]
            table[g, k] = sum(costs.layers[type_][first:end]) + per_byte * (read + written)
    return table


def loads(table: np.ndarray, genes: np.ndarray) -> np.ndarray:
    """Tau of every processor (3.2) for a whole population: a row for each chromosome, in whole
    ns."""
    import numpy

    groups, processors = table.shape
    chosen = table[numpy.arange(groups), genes]
    tau = [numpy.where(genes == p, chosen, 0.0).sum(axis=1) for p in range(processors)]
    return numpy.stack(tau, axis=1).round()


def fitness(tau: np.ndarray) -> np.ndarray:
    """Equation (3.1) for every row: |tau_i - tau_j| summed over all ordered pairs, so that each
    pair counts twice."""
    import numpy

    total: np.ndarray = numpy.abs(tau[:, :, None] - tau[:, None, :]).sum(axis=(1, 2))
    return total


# -- evolution -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Balanced:
    """The best chromosome: a processor number per group, its fitness (3.1), and the number of
    generations."""

    genes: tuple[int, ...]
    fitness: float
    generations: int


def evolve(
    table: np.ndarray, rng: np.random.Generator, budget: Budget, numbers: Evolution = THESIS
) -> Balanced:
    """A simple GA: the better half are parents, children are their one-point crossovers, some
    of them change one gene.

    The thesis does not specify the selection; it says that those "with the best score" are taken.
    The whole population is evaluated at once, which counts as no evaluation. Ends early with the
    best so far when the seconds are used up.
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

    size = numbers.population
    population = drawn(numpy.tile(numpy.arange(groups), (size, 1)))
    half = size // 2
    best, idle, generations = (numpy.inf, numpy.inf), 0, 0
    for _ in range(numbers.generations):
        generations += 1
        tau = loads(table, population)
        sums, most = fitness(tau), tau.max(axis=1)
        order = numpy.lexsort((most, sums))
        population = population[order]
        reached = float(sums[order[0]]), float(most[order[0]])
        idle += 1
        if reached < best:
            best, idle = reached, 0
        if idle >= numbers.patience or spending.over:
            break
        parents = rng.integers(half, size=(2, size - half))
        points = rng.integers(1, max(2, groups), size=size - half)
        children = numpy.where(
            numpy.arange(groups) < points[:, None], population[parents[0]], population[parents[1]]
        )
        changed = numpy.flatnonzero(rng.random(len(children)) < numbers.mutation)
        at = rng.integers(groups, size=len(changed))
        children[changed, at] = drawn(at)
        population = numpy.concatenate([population[:half], children])
    return Balanced(tuple(int(g) for g in population[0]), best[0], generations)


def plan_of_genes(task: str, network: Divisible, genes: Sequence[str]) -> NetworkPlan:
    """A stage for every sequence of groups on one processor."""
    stages = []
    ends = [after for after, _ in network.costs.cuts]
    for end, (processor, following) in zip(ends, pairwise(genes), strict=True):
        if processor != following:
            stages.append(StagePlan((processor,), network.layers[end - 1]))
    return NetworkPlan(task, (*stages, StagePlan((genes[-1],))))
