"""JEDI's configurations of one network: the possible processors of its stages, and the mapping of a
setting.

In: a problem and one of its networks. Out: the mapping options of the platform, settings as in
JEDI's configuration file (Kim's thesis, Fig. 3.5), and their values through `Trials`. `jedi`
decides which settings are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
class MappingOption:
    """A mapping option (Table 3.2): the processors of each stage; several of them share its frames
    (PND)."""

    name: str
    stages: tuple[tuple[str, ...], ...]

    @property
    def main(self) -> tuple[int, ...]:
        """The stages on the processor of the last one: the GPU of the thesis."""
        return tuple(k for k, place in enumerate(self.stages) if place == self.stages[-1])


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """An option with its cut-point tuple (layers before each cut) and its parameters.

    `numbers` are pre- and post-processing threads, buffers, and the streams of each stage on each
    of its processors.
    """

    option: MappingOption
    cuts: tuple[int, ...]
    numbers: tuple[int, ...]

    def changed(self, parameter: int, by: int) -> BenchSetting | None:
        """The setting with one parameter increased or decreased. There are at least as many buffers
        as of any other parameter: they increase with it.

        None if the parameter would be less than one, or the buffers too few.
        """
        numbers = list(self.numbers)
        numbers[parameter] += by
        found = self.with_numbers(numbers)
        if min(numbers) < 1 or (parameter == BUFFERS and found.numbers[BUFFERS] > numbers[BUFFERS]):
            return None
        return found

    def with_numbers(self, numbers: Sequence[int]) -> BenchSetting:
        """The setting with other numbers, and as many buffers as they need at least."""
        lanes = _lanes(self.option, numbers[STREAMS:])
        buffers = max(numbers[BUFFERS], numbers[PRE], numbers[POST], *lanes)
        return replace(self, numbers=(*numbers[:BUFFERS], buffers, *numbers[STREAMS:]))


def _lanes(option: MappingOption, streams: Sequence[int]) -> list[int]:
    """The firings at once of each stage, with its streams on each of its processors."""
    return [n * len(place) for n, place in zip(streams, option.stages, strict=True)]


def options(problem: Problem, task: str) -> tuple[MappingOption, ...]:
    """The mapping options for a network; the first one has no pipeline.

    With a GPU those of Table 3.2, as far as the board has the processors: E; A and B with one
    helper; C, D, PND-A and PND-B with two. Helpers are DLAs, or cores if there is no DLA. Without a
    GPU the analogous options for equal cores.
    """
    able: dict[str, list[str]] = {}
    for pool in problem.platform.pools:
        if pool.type in problem.networks[task].costs.layers:
            able.setdefault(pool.kind, []).extend(pool.processors)
    cores = able.get("cpu", [])
    if "gpu" in able:
        return _with_gpu(able["gpu"][0], able.get("dla") or cores)
    if cores:
        return _on_cores(cores)
    first = next(iter(able.values()))[0]
    return (MappingOption("E", ((first,),)),)


def _with_gpu(gpu: str, helpers: list[str]) -> tuple[MappingOption, ...]:
    """Table 3.2."""
    main = (gpu,)
    table = [MappingOption("E", (main,))]
    if helpers:
        one = (helpers[0],)
        table += [MappingOption("A", (one, main)), MappingOption("B", (main, one, main))]
    if len(helpers) > 1:
        two, both = (helpers[1],), (helpers[0], helpers[1])
        table += [MappingOption("C", (one, two, main)), MappingOption("D", (main, one, two, main))]
        table += [MappingOption("PND-A", (both, main)), MappingOption("PND-B", (main, both, main))]
    return tuple(table)


def _on_cores(cores: list[str]) -> tuple[MappingOption, ...]:
    """E on one core, frames in turn on all, two stages in both orders, B, a stage for every core,
    and a first or a last stage that is duplicated on all cores."""
    every, one = tuple(cores), (cores[0],)
    table = [MappingOption("E", (one,))]
    if len(cores) > 1:
        two = (cores[1],)
        table.append(MappingOption("frames in turn", (every,)))
        table += [MappingOption("A", (two, one)), MappingOption("A reversed", (one, two))]
        table.append(MappingOption("B", (one, two, one)))
        if len(cores) > 2:
            table.append(MappingOption("C", tuple((core,) for core in cores[:MOST_STAGES])))
        table += [
            MappingOption("PND-A", (every, one)),
            MappingOption("PND-A reversed", (one, every)),
        ]
    return tuple(table)


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
        parameters = []
        if self.before:
            parameters.append(PRE)
        if self.behind:
            parameters.append(POST)
        return (*parameters, BUFFERS)

    def design(self, s: BenchSetting) -> Design:
        """The mapping of all tasks; the greedy search places those for which the setting has no
        threads."""
        ends = [*(self.network.layers[c - 1] for c in s.cuts), None]
        streams = s.numbers[STREAMS:]
        parts = zip(s.option.stages, ends, streams, strict=True)
        stages = tuple(StagePlan(place, until, count) for place, until, count in parts)
        pre, post, buffers = s.numbers[:STREAMS]
        others: dict[str, Placement] = {}
        for tasks, threads in ((self.before, pre), (self.behind, post)):
            if threads > 1:
                others |= spread(tasks, threads, self._problem.cpus)
        plan = NetworkPlan(self._task, stages, buffers, pre, post)
        return complete(self._problem, [plan, *self._rest], s.option.name, "throughput", others)

    def run(self, s: BenchSetting) -> float:
        """Time between frames in ns. Raises Over."""
        return self._trials.value(self.design(s))

    def utilization(self, s: BenchSetting) -> float:
        """The mean utilization of the processors of the last stage. Raises Over.

        The thesis uses that of the GPU; its author expects that the heuristic is adapted where
        other processors can be observed.
        """
        entry = self._trials.run(self.design(s))
        if entry.last is not None:
            busy = entry.last.busy
        else:
            load = entry.design.load
            most = max(load.values()) or 1.0
            busy = {p: x / most for p, x in load.items()}
        last = s.option.stages[-1]
        return sum(busy.get(p, 0.0) for p in last) / len(last)

    def feasible(self, option: MappingOption, cuts: tuple[int, ...]) -> bool:
        """True if a network may be cut there. JEDI's rule: no tensor crosses two cuts, as stages
        synchronize with adjacent ones.

        TensorRT moves a layer that a DLA cannot run to the GPU (GPU fallback); here such a tuple is
        infeasible.
        """
        if self.network.skipping(cuts):
            return False
        layers = self.network.costs.layers
        stretches = pairwise([0, *cuts, self.network.costs.count])
        for place, (first, end) in zip(option.stages, stretches, strict=True):
            if any(inf in layers[self.type(p)][first:end] for p in place):
                return False
        return True

    def kind(self, processor: str) -> str:
        """The kind of a processor."""
        return self._problem.platform.pool_of(processor).kind

    def type(self, processor: str) -> str:
        """The type of a processor, which its times are known by."""
        return self._problem.platform.pool_of(processor).type

    def numbers(self, option: MappingOption, most: tuple[int, ...]) -> tuple[int, ...]:
        """Parameters for an option, from those that the maximizer found for option E (thesis, ch.
        3.5.1).

        A stage on the main processor gets the streams of E, or half of them if there are two such
        stages; a DLA gets two. Equal cores get the streams of E; a core that helps a GPU gets one.
        """
        main = option.stages[-1]
        own = most[STREAMS] if len(option.main) == 1 else max(1, most[STREAMS] // 2)
        streams = []
        for place in option.stages:
            kind = self.kind(place[0])
            if place == main:
                streams.append(own)
            elif kind == "dla":
                streams.append(DLA_STREAMS)
            elif kind == self.kind(main[0]):
                streams.append(most[STREAMS])
            else:
                streams.append(1)
        lanes = _lanes(option, streams)
        return (most[PRE], most[POST], max(most[BUFFERS], *lanes), *streams)


def neighbors(problem: Problem, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks before a network and those behind it, if all of them may have several threads; else
    none.

    Tasks with state, with a pin or in a cycle, and networks cannot have several.
    """
    app = next(app for app, other in problem.tasks if other.name == task)
    barred = {*problem.pins, *problem.networks}.union(*components(app))

    def adjustable(names: Iterable[str]) -> tuple[str, ...]:
        tasks = tuple(dict.fromkeys(names))
        if all(app.task(name).replicable and name not in barred for name in tasks):
            return tasks
        return ()

    before = adjustable(c.source for c in app.channels if c.destination == task)
    return before, adjustable(c.destination for c in app.channels if c.source == task)


def spread(tasks: Iterable[str], threads: int, cpus: tuple[str, ...]) -> dict[str, Placement]:
    """`threads` threads for each task, over the CPUs: the meaning of `pre` and `post` of a plan."""
    processors = cpus[:threads]
    return {t: Placement(t, processors, -(-threads // len(processors))) for t in tasks}
