"""The evolution of configurations that are tried, one by one: that of Kim's thesis, ch. 3.6.4.4.

In: what genes mean, the values of configurations, and the numbers of the evolution. Out: all
configurations that lived, with their values.

The thesis does not specify the operators. Here the best of parents and children survive, parents
win tournaments of three, crossover is uniform, one gene mutates (a cut moves a little in half of
the cases), and plain configurations are in the first population. Generations are small with runs,
as each run takes a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..evolution import Evolution

#: With runs of about a second each, and with predictions.
MEASURED = Evolution(population=16, generations=100, patience=12, mutation=0.6, selection=3)
PREDICTED = Evolution(population=200, generations=200, patience=20, mutation=0.6, selection=3)

Genes = list[int]


class Genome(Protocol):
    """What genes mean: gene g is one of the numbers below `high[g]`, and some are `cuts`."""

    high: list[int]
    cuts: set[int]

    def plain(self) -> Iterator[tuple[str, Genes]]:
        """Genes to begin with, by name."""

    def decode(self, genes: Sequence[int]) -> Any:
        """What genes mean."""


@dataclass(frozen=True, slots=True)
class Evolved:
    """The number of generations, and the values of all configurations that lived."""

    generations: int
    values: dict[Any, float]


def evolve(
    space: Genome, value: Callable[[Any], float], rng: random.Random, numbers: Evolution
) -> Evolved:
    """Evolve a population until there is no progress; a lower `value` of a configuration is better.
    Raises what `value` raises.

    The operators are not those of DEAP, which draw from the global `random`; nor is its `creator`
    used, which makes global classes.
    """
    from deap import base, tools

    class LeastUse(base.Fitness):  # type: ignore[misc]
        weights = (-1.0,)

    known: dict[Any, float] = {}

    class Individual(list[int]):
        def __init__(self, genes: Genes) -> None:
            super().__init__(genes)
            self.configuration = space.decode(genes)
            if self.configuration not in known:
                known[self.configuration] = value(self.configuration)
            self.fitness = LeastUse((known[self.configuration],))

    def parent() -> Individual:
        rivals = [rng.choice(population) for _ in range(numbers.selection)]
        return max(rivals, key=lambda rival: rival.fitness)

    def child() -> Individual:
        genes = [rng.choice(pair) for pair in zip(parent(), parent(), strict=True)]
        if rng.random() < numbers.mutation:
            mutate(space, genes, rng)
        return Individual(genes)

    size = numbers.population
    first = [genes for _, genes in space.plain()][:size]
    first += [[rng.randrange(n) for n in space.high] for _ in range(size - len(first))]
    population = [Individual(genes) for genes in first]
    least, idle = min(known.values()), 0
    for generation in range(1, numbers.generations + 1):
        both = population + [child() for _ in range(size)]
        # One individual of each configuration: copies that differ in genes without effect would
        # fill the population.
        different = {individual.configuration: individual for individual in both}
        population = tools.selBest(list(different.values()), size)
        reached = min(known.values())
        idle += 1
        if reached < least:
            least, idle = reached, 0
        if idle >= numbers.patience:
            return Evolved(generation, known)
    return Evolved(numbers.generations, known)


def mutate(space: Genome, genes: Genes, rng: random.Random) -> None:
    """Change one gene that has a choice; a cut moves by up to three positions in half of the
    cases."""
    at = rng.choice([g for g, n in enumerate(space.high) if n > 1] or [0])
    if at in space.cuts and rng.random() < 0.5:
        genes[at] = min(max(0, genes[at] + rng.choice((-3, -2, -1, 1, 2, 3))), space.high[at] - 1)
    else:
        genes[at] = rng.randrange(space.high[at])
