"""The comprehensive genetic search: everything in one chromosome (Kim's thesis, ch. 3.6.4.4,
*comprehensive-GA*).

In: a problem, and a function that runs mappings; without one, predictions are the fitness. Out: the
best mapping that evolution finds, for throughput, latency or energy. JEDI searches the same
parameters in several steps: the thesis compares it with this search, and flowc compares `auto`.

A chromosome is a list of numbers. For every network: the number of stages, three cut points, for
each of four stages a place (a processor, or all of a pool in turn), streams and threads of the
library; then buffers, and threads of the tasks before and behind. For every other task without a
pin: a core. Genes of stages that do not exist have no effect. Cuts at the same position count as
one, and so do adjacent stages on one place: several chromosomes can mean one configuration, which
is tried once. The ranges of streams, buffers, and threads before and behind are those that JEDI's
maximizer finds, as in the thesis.

The thesis does not specify the operators: see `evolve`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ...model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from . import auto
from .contest import FINALISTS
from .design import Design, complete
from .evolve import MEASURED, PREDICTED, Genes, evolve
from .jedi import FEWEST, maximized
from .jedi_bench import BUFFERS, POST, PRE, STREAMS, Bench, BenchSetting, neighbors, options, spread
from .partition import MOST_STAGES, Objective, StagePlace
from .plans import whole
from .problem import Divisible, Problem
from .request import SearchRequest
from .trials import Over, Trials, as_auto

#: Positions of the genes of a network: the number of stages, then cuts, places, streams and
#: threads; at the end buffers, and threads before and behind.
CUTS, PLACES, STREAM, THREADS = 1, MOST_STAGES, 2 * MOST_STAGES, 3 * MOST_STAGES
AROUND, LENGTH = 4 * MOST_STAGES, 4 * MOST_STAGES + 3

Configuration = tuple[tuple[NetworkPlan, ...], tuple[Placement, ...]]


def search(request: SearchRequest) -> Mapping:
    """The fittest configuration, never worse than the plain ones in the first population."""
    if not request.problem.networks:
        return as_auto("comprehensive-ga", request)
    trials = Trials(request)
    space = Space(request.problem, request.objective)
    numbers = (MEASURED if trials.measured else PREDICTED).changed(request.evolution)
    plain: list[Design] = []
    notes: list[str] = []
    try:
        for name, genes in space.plain():
            design = space.design(space.decode(genes), name)
            trials.run(design)
            plain.append(design)
        if request.objective == "throughput":
            space.widen(trials)

        def value(configuration: Configuration) -> float:
            return trials.value(space.design(configuration))

        evolved = evolve(space, value, random.Random(request.seed), numbers)
        notes.append(
            f"evolution ended after {evolved.generations} generations of {numbers.population}"
        )
    except (Over, KeyboardInterrupt):
        if not plain:
            raise
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer("comprehensive-ga", [*plain, *trials.best(FINALISTS)], notes)


# -- chromosomes -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Part:
    """The genes of one network begin at `at`; `before` and `behind` are the tasks that may have
    threads."""

    name: str
    network: Divisible
    places: tuple[StagePlace, ...]
    before: tuple[str, ...]
    behind: tuple[str, ...]
    at: int


class Space:
    """What genes mean. Gene g is one of the numbers below `high[g]`."""

    def __init__(self, problem: Problem, objective: Objective) -> None:
        self._problem, self._objective = problem, objective
        self._threads_on: dict[str, int] = {}
        for pool in problem.platform.pools:
            if pool.kind == "cpu":
                self._threads_on.update(dict.fromkeys(pool.processors, pool.count))
        self.high: list[int] = []
        self.cuts: set[int] = set()
        self._parts: list[_Part] = []
        for name, network in problem.networks.items():
            self._add_network(name, network)
        self._first_task = len(self.high)
        fixed = {*problem.networks, *problem.pins}
        self._tasks = [task.name for _, task in problem.tasks if task.name not in fixed]
        self.high += [len(problem.cpus)] * len(self._tasks)

    def _add_network(self, name: str, network: Divisible) -> None:
        """The genes of a network; streams, buffers and threads around have no choice yet."""
        places = tuple(auto.places(self._problem, network))
        at = len(self.high)
        self._parts.append(_Part(name, network, places, *neighbors(self._problem, name), at))
        self.cuts |= {*range(at + CUTS, at + PLACES)}
        cuts = len(network.costs.cuts)
        processors = chain.from_iterable(place.processors for place in places)
        threads = max((self._threads_on.get(p, 1) for p in processors), default=1)
        stages = [min(MOST_STAGES, cuts + 1)]
        positions = [max(1, cuts)] * (MOST_STAGES - 1)
        of_stages = [len(places)] * MOST_STAGES + [1] * MOST_STAGES + [threads] * MOST_STAGES
        around = [1, 1, 1]
        self.high += [*stages, *positions, *of_stages, *around]

    def widen(self, trials: Trials) -> None:
        """Allow streams, buffers, and threads before and behind up to the numbers that JEDI's
        maximizer finds on option E. Raises Over."""
        for part in self._parts:
            others = [other.name for other in self._parts if other is not part]
            bench = Bench(self._problem, part.name, whole(others, self._problem.cpus[:1]), trials)
            option = options(self._problem, part.name)[0]
            most = maximized(bench, BenchSetting(option, (), FEWEST)).numbers
            for k in range(MOST_STAGES):
                self.high[part.at + STREAM + k] = most[STREAMS]
            for k, number in enumerate((BUFFERS, PRE, POST)):
                self.high[part.at + AROUND + k] = most[number] - FEWEST[number] + 1

    def plain(self) -> Iterator[tuple[str, Genes]]:
        """Uncut networks on the first processor of each pool (also with all threads), and in turn
        on all of it; the other tasks on the first core, or placed by the greedy search."""
        for pool in self._problem.platform.pools:
            on_first = self._on(StagePlace(pool.processors[:1], pool.type))
            if on_first is not None:
                name = f"on {pool.processors[0]}"
                yield f"{name}, others on one core", on_first
                yield name, self._around(on_first)
            if on_first is not None and pool.kind == "cpu" and pool.count > 1:
                threaded = [*on_first]
                for part in self._parts:
                    threaded[part.at + THREADS] = pool.count - 1
                yield "threads of the library", threaded
            on_all = self._on(StagePlace(pool.processors, pool.type))
            if on_all is not None and pool.count > 1:
                name = f"frames in turn on all of {pool.name}"
                yield f"{name}, others on one core", on_all
                yield name, self._around(on_all)

    def _on(self, place: StagePlace) -> Genes | None:
        """All networks uncut on one place, None if one of them cannot run there."""
        if any(place not in part.places for part in self._parts):
            return None
        genes = [0] * len(self.high)
        for part in self._parts:
            genes[part.at + PLACES] = part.places.index(place)
        return genes

    def _around(self, genes: Genes) -> Genes:
        """The same plans with the other tasks placed by the greedy search, on one core each."""
        mapping = complete(self._problem, self.decode(genes)[0], "").mapping
        cores = [self._problem.cpus.index(mapping.of(t)[0]) for t in self._tasks]
        return [*genes[: self._first_task], *cores]

    def decode(self, genes: Sequence[int]) -> Configuration:
        """The configuration that genes mean."""
        cpus = self._problem.cpus
        others: dict[str, Placement] = {}
        for task, core in zip(self._tasks, genes[self._first_task :], strict=True):
            others[task] = Placement(task, (cpus[core],))
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
                if threads > 1:
                    others |= spread(tasks, threads, cpus)
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
                # Threads of several sessions on the same cores delay each other.
                threads = min(own[THREADS + k] + 1, self._threads_on.get(processors[0], 1))
            stages.append(StagePlan(processors, until, own[STREAM + k] + 1, threads))
        return tuple(stages)

    def design(self, configuration: Configuration, name: str = "") -> Design:
        """A configuration with its prediction."""
        plans, placements = configuration
        if not name:
            stages = " + ".join(str(len(p.stages)) for p in plans)
            name = "one stage" if stages == "1" else f"{stages} stages"
        others = {p.task: p for p in placements}
        return complete(self._problem, plans, name, self._objective, others)
