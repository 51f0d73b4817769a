"""JEDI's configurations of one network: which processors its stages may have, and what a setting
means here.

In: a problem and one of its networks. Out: the mapping options of the platform, settings as in
JEDI's configuration file (Kim's thesis, Fig. 3.5), and their values through `Trials`. Which
settings are tried is left to `jedi`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from ...analysis.dataflow.order import components
from ...model.mapping import NetworkPlan, Placement, StagePlan
from .design import Design, complete
from .partition import MOST_STAGES
from .problem import Problem
from .trials import Trials

#: Places in `Setting.numbers`; the streams of the stages follow.
PRE, POST, BUFFERS, STREAMS = 0, 1, 2, 3
#: Streams of a stage on one DLA (thesis, ch. 3.5.1).
DLA_STREAMS = 2


@dataclass(frozen=True, slots=True)
class Option:
    """A mapping option (Table 3.2): the processors of each stage; several of them share its frames
    (PND)."""

    name: str
    stages: tuple[tuple[str, ...], ...]

    @property
    def main(self) -> tuple[int, ...]:
        """The stages on the processor of the last one: the GPU of the thesis."""
        return tuple(k for k, place in enumerate(self.stages) if place == self.stages[-1])


@dataclass(frozen=True, slots=True)
class Setting:
    """An option with its cut-point tuple (layers in front of each cut) and its parameters.

    `numbers` are pre- and post-processing threads, buffers, and the streams of each stage on each
    of its processors.
    """

    option: Option
    cuts: tuple[int, ...]
    numbers: tuple[int, ...]

    def changed(self, which: int, by: int) -> Setting | None:
        """One parameter more or less. Buffers are at least as many as any other parameter: they
        rise with it.

        None where it would be less than one, or the buffers too few.
        """
        numbers = list(self.numbers)
        numbers[which] += by
        lanes = [
            n * len(place) for n, place in zip(numbers[STREAMS:], self.option.stages, strict=True)
        ]
        least = max(numbers[PRE], numbers[POST], *lanes)
        if min(numbers) < 1 or (which == BUFFERS and numbers[BUFFERS] < least):
            return None
        numbers[BUFFERS] = max(numbers[BUFFERS], least)
        return replace(self, numbers=tuple(numbers))


def options(problem: Problem, task: str) -> tuple[Option, ...]:
    """The mapping options for a network, without pipeline first.

    With a GPU those of Table 3.2, as far as the board has the processors: E; A and B with one
    helper; C, D, PND-A and PND-B with two. Helpers are DLAs, or cores where there is no DLA. For a
    platform of cores, which are all alike, the analogous set: E on one core, frames in turn on all,
    two stages in both orders, B, a stage for every core, and a first or a last stage that is
    duplicated on all cores.
    """
    known = problem.networks[task].costs.layers
    of: dict[str, list[str]] = {}
    for pool in problem.platform.pools:
        if pool.kind in known:
            of.setdefault(pool.kind, []).extend(pool.processors)
    cores = of.get("cpu", [])
    if "gpu" in of:
        return _table(of["gpu"][0], of.get("dla") or cores)
    if not cores:
        return (Option("E", ((next(iter(of.values()))[0],),)),)
    every, p0 = tuple(cores), (cores[0],)
    found = [Option("E", (p0,))]
    if len(cores) > 1:
        p1 = (cores[1],)
        found.append(Option("frames in turn", (every,)))
        found += [Option("A", (p1, p0)), Option("A reversed", (p0, p1)), Option("B", (p0, p1, p0))]
        if len(cores) > 2:
            found.append(Option("C", tuple((p,) for p in cores[:MOST_STAGES])))
        found += [Option("PND-A", (every, p0)), Option("PND-A reversed", (p0, every))]
    return tuple(found)


def _table(gpu: str, helpers: list[str]) -> tuple[Option, ...]:
    main = (gpu,)
    found = [Option("E", (main,))]
    if helpers:
        one = (helpers[0],)
        found += [Option("A", (one, main)), Option("B", (main, one, main))]
    if len(helpers) > 1:
        two, both = (helpers[1],), (helpers[0], helpers[1])
        found += [Option("C", (one, two, main)), Option("D", (main, one, two, main))]
        found += [Option("PND-A", (both, main)), Option("PND-B", (main, both, main))]
    return tuple(found)


class Bench:
    """Settings of one network as designs, each tried once; `rest` are the plans of the other
    networks."""

    def __init__(
        self, problem: Problem, task: str, rest: Iterable[NetworkPlan], trials: Trials
    ) -> None:
        self.network = problem.networks[task]
        self.before, self.behind = neighbors(problem, task)
        self._problem, self._task, self._rest, self._trials = problem, task, tuple(rest), trials

    @property
    def adjustable(self) -> tuple[int, ...]:
        """The parameters before those of the stages: threads only for tasks that can have them."""
        return (*((PRE,) if self.before else ()), *((POST,) if self.behind else ()), BUFFERS)

    def design(self, s: Setting) -> Design:
        """The whole mapping; tasks that have no threads of their own setting are placed
        greedily."""
        ends = [*(self.network.layers[c - 1] for c in s.cuts), None]
        stages = tuple(
            StagePlan(place, until, streams)
            for place, until, streams in zip(
                s.option.stages, ends, s.numbers[STREAMS:], strict=True
            )
        )
        pre, post, buffers = s.numbers[:STREAMS]
        others: dict[str, Placement] = {}
        for tasks, threads in ((self.before, pre), (self.behind, post)):
            others |= spread(tasks, threads, self._problem.cpus) if threads > 1 else {}
        plan = NetworkPlan(self._task, stages, buffers, pre, post)
        return complete(self._problem, [plan, *self._rest], s.option.name, "throughput", others)

    def run(self, s: Setting) -> float:
        """Time between frames in ns. Raises Over."""
        return self._trials.value(self.design(s))

    def utilization(self, s: Setting) -> float:
        """How busy the processors of the last stage are, on average. Raises Over.

        The thesis looks at the GPU; its author expects the heuristic to be adapted where other
        processors can be seen.
        """
        entry = self._trials.run(self.design(s))
        load = entry.design.load
        most = max(load.values()) or 1.0
        busy = entry.last.busy if entry.last is not None else {p: x / most for p, x in load.items()}
        last = s.option.stages[-1]
        return sum(busy.get(p, 0.0) for p in last) / len(last)

    def feasible(self, option: Option, cuts: tuple[int, ...]) -> bool:
        """May a network be cut there? JEDI's rule: no tensor crosses two cuts, as stages
        synchronize with neighbors.

        TensorRT moves a layer that a DLA cannot run to the GPU (GPU fallback); here such a tuple is
        infeasible.
        """
        if self.network.skipping(cuts):
            return False
        bounds = [0, *cuts, self.network.costs.count]
        return all(
            inf not in self.network.costs.layers[self.kind(p)][bounds[k] : bounds[k + 1]]
            for k, place in enumerate(option.stages)
            for p in place
        )

    def kind(self, processor: str) -> str:
        """The kind of a processor."""
        return self._problem.platform.pool_of(processor).kind

    def numbers(self, option: Option, most: tuple[int, ...]) -> tuple[int, ...]:
        """Parameters for an option, from those that the maximizer found for option E (thesis, ch.
        3.5.1).

        Stages on the main processor get its streams, half of them each where there are two; each
        DLA gets two. Cores that are all alike get what the maximizer found; a core that helps a GPU
        one.
        """
        main = option.stages[-1]
        own = most[STREAMS] if len(option.main) == 1 else max(1, most[STREAMS] // 2)
        streams = []
        for place in option.stages:
            if place == main:
                streams.append(own)
            elif self.kind(place[0]) == "dla":
                streams.append(DLA_STREAMS)
            else:
                streams.append(most[STREAMS] if self.kind(place[0]) == self.kind(main[0]) else 1)
        lanes = [n * len(place) for n, place in zip(streams, option.stages, strict=True)]
        return (most[PRE], most[POST], max(most[BUFFERS], *lanes), *streams)


def neighbors(problem: Problem, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks in front of a network and those behind it, where all of them may have more threads;
    else none.

    What keeps state, is pinned, is a network itself or stands in a cycle cannot have more.
    """
    app = next(a for a in problem.apps if any(t.name == task for t in a.tasks))
    barred = {name for component in components(app) for name in component} | {
        *problem.pins,
        *problem.networks,
    }

    def side(names: Iterable[str]) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(names))
        return found if all(app.task(n).replicable and n not in barred for n in found) else ()

    before = side(c.source for c in app.channels if c.destination == task)
    return before, side(c.destination for c in app.channels if c.source == task)


def spread(tasks: Iterable[str], threads: int, cpus: tuple[str, ...]) -> dict[str, Placement]:
    """So many threads for each of some tasks, over the CPUs: what `pre` and `post` of a plan
    mean."""
    processors = cpus[:threads]
    return {t: Placement(t, processors, -(-threads // len(processors))) for t in tasks}
