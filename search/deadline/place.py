"""Places for a whole population of candidate choices at once: stages first, then the other tasks,
greedily.

In: for each individual a candidate per network. Out: processors and utilizations. This is Algorithm
7 of Kim's thesis, in arrays over all individuals: 2048 of them take milliseconds. Read literally,
its line 13 stores the utilization of a kind's busiest core as that of the chosen one; here the
chosen core gets its own. Stages go longest first to the least busy processor of their kind; the
paper deals them out in turn, which two long and two short ones can make worse.

`plain` does the same one by one, with the same answers: it is what the arrays are checked against.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .problem import Assignment, JointProblem

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class PlacedPopulation:
    """Per individual: `used[i, p]` utilization of processor p, `steps[i, n, s]` and `items[i, t]`
    processor numbers (-1 for none), `engines[i]` by how many engines limits are exceeded."""

    used: np.ndarray
    steps: np.ndarray
    items: np.ndarray
    engines: np.ndarray

    def assignment(self, problem: JointProblem, index: int, choice: np.ndarray) -> Assignment:
        """One individual as data."""
        names = problem.processors
        stages = tuple(
            tuple(
                names[int(p)]
                for p in self.steps[index, n][: len(network.candidates[int(c)].stages)]
            )
            for n, (network, c) in enumerate(zip(problem.networks, choice, strict=True))
        )
        return Assignment(
            tuple(int(c) for c in choice), stages, tuple(names[int(p)] for p in self.items[index])
        )


class Placer:
    """Arrays of a problem that do not change."""

    def __init__(self, problem: JointProblem) -> None:
        import numpy as np

        self._np = np
        self.problem = problem
        names = problem.processors
        self._number = {p: i for i, p in enumerate(names)}
        self._pools = [
            np.array([self._number[p] for p in pool.processors]) for pool in problem.platform.pools
        ]
        types = list(problem.of_type)
        self._type_processors = [
            np.array([self._number[p] for p in problem.of_type[t]]) for t in types
        ]
        most = max((len(c.stages) for n in problem.networks for c in n.candidates), default=0)
        self._load, self._type = [], []
        for network in problem.networks:
            load = np.zeros((len(network.candidates), most))
            type_ = np.full((len(network.candidates), most), -1)
            for c, candidate in enumerate(network.candidates):
                for s, stage in enumerate(candidate.stages):
                    load[c, s] = stage.work / problem.period[network.group]
                    type_[c, s] = types.index(stage.type)
            self._load.append(load)
            self._type.append(type_)
        self._most = most
        self._served = np.array([float(problem.served[p]) for p in problem.processors])
        self._order = sorted(
            range(len(problem.tasks)), key=lambda t: (-max(self._works(t, False).values()), t)
        )

    def _works(self, task: int, at_home: bool) -> dict[int, float]:
        """Utilization of an item on each processor that it may go to."""
        it = self.problem.tasks[task]
        places = self.problem.at_home(it) if at_home else self.problem.places(it)
        return {self._number[p]: float(self.problem.load(it, p)) for p in places}

    @cached_property
    def _item_works(self) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """For free tasks and for those at home, per item: the processors that it may go to, its
        utilization there."""
        found = []
        for at_home in (False, True):
            works = [self._works(task, at_home) for task in range(len(self.problem.tasks))]
            found.append(
                [(self._np.array(list(w)), self._np.array(list(w.values()))) for w in works]
            )
        return found

    def allowed(self, task: int) -> np.ndarray:
        """Numbers of the processors that an item may go to."""
        return self._item_works[0][task][0]

    def stages(self, choices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Utilizations, processors of stages, and engines over their limits."""
        numpy = self._np
        count, networks = choices.shape
        used = numpy.tile(self._served, (count, 1))
        places = numpy.full((count, networks, self._most), -1)
        if networks and self._most:
            loads = numpy.stack(
                [self._load[n][choices[:, n]] for n in range(networks)], axis=1
            ).reshape(count, -1)
            types = numpy.stack(
                [self._type[n][choices[:, n]] for n in range(networks)], axis=1
            ).reshape(count, -1)
            flat = places.reshape(count, -1)
            order = numpy.argsort(-loads, axis=1, kind="stable")
            everybody = numpy.arange(count)
            for turn in range(order.shape[1]):
                slot = order[:, turn]
                load, type_ = loads[everybody, slot], types[everybody, slot]
                for k, processors in enumerate(self._type_processors):
                    who = numpy.flatnonzero(type_ == k)
                    if len(who):
                        best = processors[numpy.argmin(used[numpy.ix_(who, processors)], axis=1)]
                        used[who, best] += load[who]
                        flat[who, slot[who]] = best
            places = flat.reshape(count, networks, self._most)
        return used, places, self._excess(places)

    def _excess(self, places: np.ndarray) -> np.ndarray:
        numpy = self._np
        excess: np.ndarray = numpy.zeros(len(places))
        for pool, processors in zip(self.problem.platform.pools, self._pools, strict=True):
            if pool.engines is None:
                continue
            counts = numpy.stack([(places == p).sum(axis=(1, 2)) for p in processors], axis=1)
            most = counts.sum(axis=1) if pool.engines_total else counts.max(axis=1)
            excess += numpy.maximum(0, most - pool.engines)
        return excess

    def place(
        self,
        choices: np.ndarray,
        tasks: np.ndarray | None = None,
        at_home: np.ndarray | None = None,
    ) -> PlacedPopulation:
        """Place everything; `items[i, t]` gives the processors of tasks where a search decides on
        them itself.

        Individuals that are `at_home` use one CPU per group (`JointProblem.home`).
        """
        numpy = self._np
        used, stages, excess = self.stages(choices)
        count = len(choices)
        if tasks is None:
            tasks = numpy.full((count, len(self.problem.tasks)), -1)
            home = numpy.zeros(count, dtype=bool) if at_home is None else at_home
            for mode, rows in enumerate((numpy.flatnonzero(~home), numpy.flatnonzero(home))):
                for t in self._order if len(rows) else ():
                    processors, works = self._item_works[mode][t]
                    best = numpy.argmin(used[numpy.ix_(rows, processors)] + works, axis=1)
                    tasks[rows, t] = processors[best]
                    used[rows, tasks[rows, t]] += works[best]
        else:
            for t in range(tasks.shape[1]):
                processors, works = self._item_works[0][t]
                by_number = numpy.full(used.shape[1], numpy.inf)
                by_number[processors] = works
                used[numpy.arange(count), tasks[:, t]] += by_number[tasks[:, t]]
        return PlacedPopulation(used, stages, tasks, excess)


def plain(
    problem: JointProblem, choice: tuple[int, ...], at_home: bool = False
) -> tuple[dict[str, float], Assignment]:
    """The same for one individual, step by step."""
    used = {p: float(part) for p, part in problem.served.items()}
    slots = []
    most = max((len(c.stages) for n in problem.networks for c in n.candidates), default=0)
    for n, (network, c) in enumerate(zip(problem.networks, choice, strict=True)):
        for s, stage in enumerate(network.candidates[c].stages):
            slots.append(
                (-float(stage.work / problem.period[network.group]), n * most + s, stage.type)
            )
    places: dict[int, str] = {}
    for load, slot, type_ in sorted(slots):
        place = min(problem.of_type[type_], key=lambda p: used[p])
        used[place] -= load
        places[slot] = place
    order = sorted(
        range(len(problem.tasks)),
        key=lambda t: (-max(_on(problem, t, p) for p in problem.places(problem.tasks[t])), t),
    )
    tasks: dict[int, str] = {}
    for t in order:
        allowed = problem.at_home(problem.tasks[t]) if at_home else problem.places(problem.tasks[t])
        place = min(allowed, key=lambda p: used[p] + _on(problem, t, p))
        used[place] += _on(problem, t, place)
        tasks[t] = place
    stages = tuple(
        tuple(places[n * most + s] for s in range(len(network.candidates[c].stages)))
        for n, (network, c) in enumerate(zip(problem.networks, choice, strict=True))
    )
    return used, Assignment(choice, stages, tuple(tasks[t] for t in range(len(problem.tasks))))


def _on(problem: JointProblem, task: int, processor: str) -> float:
    return float(problem.load(problem.tasks[task], processor))
