"""Candidates of a network by evolution, for networks with more cuts than can be enumerated.

In: worst-case times of kernels, cuts, the board. Out: what no other candidate seen beats in latency, the time on each
kind of processor, and engines. This is step 1 of Kim's thesis (5.4.1, 5.5.3): 65 individuals, uniform crossover,
one-point mutation, Lexicase selection, made with DEAP as there. The front that it finds is not the whole one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import inf, isfinite
from typing import Any

from ...model.platform import Platform
from .candidates import Front, Kernels, kinds_of, options_of, with_stages

#: Settings of the thesis: individuals and generations.
POPULATION, GENERATIONS = 65, 1000
#: Chances of a pair to be crossed, and of an individual to change in one point.
CROSSING, MUTATION = 0.9, 0.3

Stages = tuple[tuple[str, int, int], ...]


def evolved(network: Kernels, platform: Platform, *, seed: int = 0) -> Front:
    """The undominated ones among all candidates that came up."""
    found = _Evolution(network, platform, kinds_of(network, platform), random.Random(seed))
    found.run(GENERATIONS)
    candidates = (with_stages(network, stages) for stages in found.undominated())
    return Front(tuple(sorted(candidates, key=lambda c: (c.latency, c.option))), len(found.seen), exact=False)


class _Evolution:
    """An individual is an option and the positions of its cuts, in any order."""

    def __init__(self, network: Kernels, platform: Platform, kinds: list[str], rng: random.Random) -> None:
        self.network, self.kinds, self.rng = network, kinds, rng
        self.options = options_of(platform, kinds)
        self.at = (0, *network.cuts, len(network.layers))
        self.sums = {k: (0.0, *accumulate(t if isfinite(t) else 0.0 for t in network.wcet_ns[k])) for k in kinds}
        self.barred = {k: (0, *accumulate(int(not isfinite(t)) for t in network.wcet_ns[k])) for k in kinds}
        self.limited = {p.kind for p in platform.pools if p.engines is not None}
        self.most = max(len(o) for o in self.options) - 1
        self.seen: dict[Stages, tuple[float, ...]] = {}

    def stages(self, genes: list[int]) -> Stages:
        """What the genes say; as many cuts count as the option has borders."""
        option = self.options[genes[0]]
        cuts = sorted(set(genes[1 : len(option)]))
        ends = [0, *(self.at[c] for c in cuts), self.at[-1]]
        return tuple((kind, a, b) for kind, (a, b) in zip(option, pairwise(ends), strict=False))

    def values(self, genes: list[int]) -> tuple[float, ...]:
        """Latency, time by kind, engines; infinite for what cannot run or has too few cuts."""
        stages = self.stages(genes)
        whole = len(stages) == len(self.options[genes[0]]) and stages[-1][2] == self.at[-1]
        if not whole:
            return (inf,) * (len(self.kinds) + 2)
        if stages not in self.seen:
            times = [self._time(*s) for s in stages]
            kinds = (sum(t for t, (k, _, _) in zip(times, stages, strict=True) if k == kind) for kind in self.kinds)
            self.seen[stages] = (sum(times), *kinds, float(sum(k in self.limited for k, _, _ in stages)))
        return self.seen[stages]

    def _time(self, kind: str, first: int, last: int) -> float:
        if self.barred[kind][last] > self.barred[kind][first]:
            return inf
        return self.sums[kind][last] - self.sums[kind][first] + (self.network.border_ns if first else 0)

    def run(self, generations: int) -> None:
        """Evolve; `seen` keeps everything."""
        from deap import base, tools

        rng = self.rng
        count = len(self.network.cuts)

        class Fitness(base.Fitness):  # type: ignore[misc]
            weights = (-1.0,) * (len(self.kinds) + 2)

        class Individual(list[int]):
            def __init__(self, genes: list[int]) -> None:
                super().__init__(genes)
                self.fitness: Any = Fitness()

        def fresh() -> Individual:
            return Individual(
                [rng.randrange(len(self.options)), *(rng.randint(1, max(1, count)) for _ in range(self.most))]
            )

        def valued(individuals: list[Individual]) -> list[Individual]:
            for one in individuals:
                one.fitness.values = tuple(min(v, 1e30) for v in self.values(one))
            return individuals

        state = random.getstate()
        random.seed(rng.random())  # DEAP draws from the global generator
        try:
            population = valued([fresh() for _ in range(POPULATION)])
            for _ in range(generations):
                parents = tools.selLexicase(population, POPULATION)
                children = [Individual(list(p)) for p in parents]
                for a, b in zip(children[::2], children[1::2], strict=False):
                    if rng.random() < CROSSING:
                        tools.cxUniform(a, b, 0.5)
                for child in children:
                    if rng.random() < MUTATION:
                        self._mutate(child, count)
                population = valued(children)
        finally:
            random.setstate(state)

    def _mutate(self, genes: list[int], count: int) -> None:
        """One point: another option, or a cut a little or anywhere else."""
        rng = self.rng
        point = rng.randrange(len(genes))
        if point == 0:
            genes[0] = rng.randrange(len(self.options))
        elif rng.random() < 0.5:
            genes[point] = min(max(genes[point] + rng.choice((-3, -2, -1, 1, 2, 3)), 1), max(1, count))
        else:
            genes[point] = rng.randint(1, max(1, count))

    def undominated(self) -> Iterator[Stages]:
        """The front of all that was seen."""
        able = sorted((v, s) for s, v in self.seen.items() if isfinite(v[0]))
        kept: list[tuple[float, ...]] = []
        for values, stages in able:
            if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other in kept):
                kept.append(values)
                yield stages
