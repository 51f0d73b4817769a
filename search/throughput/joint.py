"""Tasks and cuts in one integer program: the least load of the busiest processor, with a bound.

In: a problem. Out: places of all tasks and cuts of all networks, and a bound that no such mapping
goes below in the model of times (`problem.loads`, `problem.interpreter_load`). OR-Tools' CP-SAT
chooses.

A network is a row of segments between the places where it may be cut, each on a processor. A stage
begins where that changes, at most MOST_STAGES of them. So no stage has a variable of its own, and
several networks, and processors with several stages, need nothing more. Loads are rounded down to
whole units, so that the bound holds. What feedback adds is not in the program: the evaluator adds
it to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from math import floor, inf
from typing import Any

from ...model.application import Application, Channel, Task
from ...model.link_ends import neighbors
from ...model.mapping import NetworkPlan, Placement, StagePlan
from ..budget import Budget
from .design import Design, complete
from .greedy import RELAXED
from .partition import MOST_STAGES
from .problem import (
    CONTENTION,
    LINK,
    Divisible,
    Problem,
    crossing,
    firing_loads,
    hand_overs,
    held_ns,
    overhead_ns,
    scale,
)

#: The solver's own measure of time that the program gets at most: about as many seconds.
STEPS = 3.0
#: Units of time in the work of all choices. With a thousand times as many, and no limit on the
#: variable for the least load, the solver (OR-Tools 9.15) called a worse answer optimal.
UNITS = 10**9

#: A processor, or those that a pin has.
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JointPlan:
    """`plans` of all networks that may be cut, `others` are the places of the other tasks. No
    mapping of the kind has a load below `bound_ns`; `rounded_ns` is what roundings may hide."""

    plans: tuple[NetworkPlan, ...]
    others: dict[str, Placement]
    bound_ns: float
    rounded_ns: float

    def is_least(self, predicted_ns: float) -> bool:
        """Is a prediction as small as the bound says that one can be, up to roundings?"""
        return predicted_ns <= self.bound_ns + self.rounded_ns


def joint_plan(
    problem: Problem, budget: Budget, designs: Iterable[Design] = ()
) -> JointPlan | None:
    """The least load within `budget`, beginning with the best of some designs; None where there is
    nothing to solve it with."""
    if find_spec("ortools") is None:
        return None
    program = _Program(problem)
    alike = [design for design in designs if is_single(design)]
    if alike:
        program.hint(min(alike, key=lambda design: design.predicted))
    return program.solved(budget)


def is_single(design: Design) -> bool:
    """Is each task, and each stage, on one processor, without further threads?"""
    found: list[StagePlan | Placement] = [*design.mapping.placements]
    for plan in design.mapping.networks:
        found += plan.stages
    return all(len(p.processors) * p.streams * p.threads == 1 for p in found)


@dataclass(frozen=True, slots=True)
class _Row:
    """A network between its cuts: `at` has the number of layers before each segment, `sizes` the
    bytes that cross there."""

    network: Divisible
    at: tuple[int, ...]
    sizes: dict[int, int]

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(self.at) - 1

    def layers_ns(self, type_: str, segment: int) -> float:
        """The time of the layers of a segment on a type of processors."""
        return sum(self.network.costs.layers[type_][self.at[segment] : self.at[segment + 1]])


@dataclass(frozen=True, slots=True)
class _Lock:
    """What holds the interpreter of a machine: `held` by tasks in Python, which are the `holders`
    on each processor, and by the `runtime`."""

    held: list[tuple[Any, float]] = field(default_factory=list)
    runtime: list[tuple[Any, float]] = field(default_factory=list)
    holders: dict[str, list[Any]] = field(default_factory=dict)


class _Program:
    """The variables, and the load of each processor."""

    def __init__(self, problem: Problem) -> None:
        from ortools.sat.python import cp_model

        self._cp, self._problem = cp_model, problem
        self._model = cp_model.CpModel()
        self._type = {p: problem.platform.pool_of(p).type for p in problem.platform.processors}
        self._machine = problem.platform.machine_of
        self._load: dict[str, list[tuple[Any, float]]] = {p: [] for p in self._type}
        self._rows: dict[str, _Row] = {}
        self._item: dict[tuple[str, Place], Any] = {}
        self._segment: dict[tuple[str, int, Place], Any] = {}
        self._locks = {machine: _Lock() for machine in self._machine.values()}
        for app, task in problem.tasks:
            if task.name in problem.networks and task.name not in problem.pins:
                self._add_network(app, task)
            else:
                self._add_task(app, task)
        for app in problem.apps:
            self._put_ends_beside(app)
            for channel in app.channels:
                if channel.source_port != LINK:
                    self._add_channel(app, channel)
        whole = CONTENTION * sum(ns for terms in self._load.values() for _, ns in terms)
        self._unit = UNITS / max(1.0, whole)
        self._least = self._model.new_int_var(0, 2 * UNITS, "least")
        for terms in self._load.values():
            self._model.add(self._sum(terms) <= self._least)
        self._add_interpreter()
        self._order_alike()
        self._model.minimize(self._least)

    def _bool(self) -> Any:
        return self._model.new_bool_var("")

    def _sum(self, terms: Iterable[tuple[Any, float]]) -> Any:
        return sum(var * floor(self._unit * ns) for var, ns in terms)

    def _both(self, one: Any, other: Any) -> Any:
        """True if both are; where it costs something it is not true without need."""
        both = self._bool()
        self._model.add_bool_or([one.negated(), other.negated(), both])
        return both

    # -- tasks -------------------------------------------------------------------------------------
    def _add_task(self, app: Application, task: Task) -> None:
        """A task on one processor, or where a pin has it."""
        pin = self._problem.pins.get(task.name)
        able = [p for p, type_ in self._type.items() if type_ in self._problem.firing_ns[task.name]]
        options = [Placement(task.name, (p,)) for p in able] if pin is None else [pin]
        own = []
        for option in options:
            var = self._item[task.name, option.processors] = self._bool()
            own.append(var)
            for p, ns in firing_loads(self._problem, app, task, option).items():
                self._load[p].append((var, ns))
            self._add_locks(app, task, option, var)
        self._model.add_exactly_one(own)

    def _put_ends_beside(self, app: Application) -> None:
        """Ends of arrows between apps go where the evaluator puts them (`ends_beside`). Where that
        depends on what is on a CPU, they are free here: no bound is too high by that."""
        for end, others in neighbors(app).items():
            if end in self._problem.pins or not others:
                continue
            is_source = any(c.source == others[0] and c.destination == end for c in app.channels)
            places = self._ends(others[0], -1 if is_source else 0)
            if all(place[0] in self._problem.cpus for place in places):
                for place, var in places.items():
                    self._model.add_implication(var, self._item[end, place[:1]])

    def _add_locks(self, app: Application, task: Task, option: Placement, var: Any) -> None:
        """What a task takes of the interpreters of its machines, where it is placed so."""
        share = scale(app) / len(option.processors)
        held = share * held_ns(self._problem, app, task, option)
        for p in option.processors:
            lock = self._locks[self._machine[p]]
            lock.runtime.append((var, share * overhead_ns(self._problem, app, task)))
            if held:
                lock.held.append((var, held))
                lock.holders.setdefault(p, []).append(var)

    # -- networks ----------------------------------------------------------------------------------
    def _add_network(self, app: Application, task: Task) -> None:
        costs = self._problem.networks[task.name].costs
        at = (0, *(after for after, _ in costs.cuts), costs.count)
        row = self._rows[task.name] = _Row(self._problem.networks[task.name], at, dict(costs.cuts))
        firings = scale(app) * self._problem.repetition[app.name][task.name]
        overhead = scale(app) * overhead_ns(self._problem, app, task)
        for i in range(row.segments):
            for place in self._places(row):
                ns = firings * row.layers_ns(self._type[place[0]], i)
                if ns < inf:
                    var = self._segment[task.name, i, place] = self._bool()
                    self._add_load(place, var, ns)
            self._model.add_exactly_one(self._at(task.name, i).values())
        begins = []
        for i in range(row.segments):
            for place, var in self._at(task.name, i).items():
                start = var if i == 0 else self._start(task.name, i, place)
                own = firings * costs.overhead[self._type[place[0]]] + overhead
                self._add_load(place, start, own)
                self._locks[self._machine[place[0]]].runtime.append((start, overhead))
                if i and start is not None:
                    begins.append(start)
                    self._add_transfers(task.name, row, i, place, start, firings)
        self._model.add(sum(begins) <= MOST_STAGES - 1)

    def _places(self, row: _Row) -> list[Place]:
        return [(p,) for p, type_ in self._type.items() if type_ in row.network.costs.layers]

    def _at(self, network: str, segment: int) -> dict[Place, Any]:
        found = {}
        for place in self._places(self._rows[network]):
            var = self._segment.get((network, segment, place))
            if var is not None:
                found[place] = var
        return found

    def _start(self, network: str, segment: int, place: Place) -> Any:
        """That a stage begins with a segment at a place."""
        start = self._bool()
        here = self._segment[network, segment, place]
        before = self._segment.get((network, segment - 1, place))
        clause = [here.negated(), start]
        self._model.add_bool_or(clause if before is None else [*clause, before])
        return start

    def _add_transfers(
        self, network: str, row: _Row, segment: int, place: Place, start: Any, firings: float
    ) -> None:
        """What a stage that begins here takes for the tensors from the one before, by its type; and
        a wire, from another machine."""
        type_, size = self._type[place[0]], row.sizes[row.at[segment]]
        sources: dict[str, list[Any]] = {}
        before = self._at(network, segment - 1)
        self._add_wires(before, place, start, firings, size)
        for other, var in before.items():
            if other != place:
                sources.setdefault(self._type[other[0]], []).append(var)
        for source, own in sources.items():
            ns = firings * row.network.costs.transfer(source, type_, size)
            # At most one of these is true.
            there = own[0]
            if len(own) > 1:
                there = self._bool()
                self._model.add(sum(own) <= there)
            self._add_load(place, self._both(start, there), ns)

    def _add_load(self, place: Place, var: Any, ns: float) -> None:
        for processor in place:
            self._load[processor].append((var, ns / len(place)))

    # -- what crosses between processors -----------------------------------------------------------
    def _ends(self, task: str, segment: int) -> dict[Place, Any]:
        """The places of a task, or of a segment of a network, the last one for -1."""
        if task in self._rows:
            return self._at(task, segment % self._rows[task].segments)
        return {place: var for (name, place), var in self._item.items() if name == task}

    def _add_channel(self, app: Application, channel: Channel) -> None:
        """What receivers take for tokens from other processors, and wires for those from other
        machines."""
        senders = self._ends(channel.source, -1)
        times, size = hand_overs(self._problem, app, channel)
        for place, here in self._ends(channel.destination, 0).items():
            sources: dict[str, list[Any]] = {}
            self._add_wires(senders, place, here, scale(app) * times, size)
            for other, there in senders.items():
                if other != place and self._is_beside(other, place):
                    sources.setdefault(self._type[other[0]], []).append(there)
            for source, own in sources.items():
                both = self._bool()
                self._model.add(sum(own) + here <= 1 + both)
                for receiver in place:
                    ns = crossing(self._problem, app, channel, source, self._type[receiver])
                    self._load[receiver].append((both, ns / len(place)))

    def _is_beside(self, one: Place, other: Place) -> bool:
        """Are two places on one machine?"""
        return self._machine[one[0]] == self._machine[other[0]]

    def _add_wires(
        self, senders: dict[Place, Any], place: Place, here: Any, times: float, size: int
    ) -> None:
        """What wires take for transfers to a place, if something is `here`; without a wire it
        cannot be."""
        machines: dict[str, list[Any]] = {}
        for other, there in senders.items():
            if not self._is_beside(other, place):
                machines.setdefault(self._machine[other[0]], []).append(there)
        for machine, own in machines.items():
            wire = self._problem.platform.wire(machine, self._machine[place[0]])
            if wire is None:
                self._model.add(sum(own) + here <= 1)
                continue
            both = self._bool()
            self._model.add(sum(own) + here <= 1 + both)
            self._load[wire.processor].append((both, times * float(wire.takes_ns(1, size))))

    # -- the interpreter ---------------------------------------------------------------------------
    def _add_interpreter(self) -> None:
        """Python tasks of a machine share a lock: those of several processors take longer, and the
        runtime between all firings holds it as well."""
        for lock in self._locks.values():
            rest = self._sum(lock.runtime)
            self._model.add(self._sum(lock.held) + rest <= self._least)
            used = []
            for own in lock.holders.values():
                some = self._bool()
                used.append(some)
                for var in own:
                    self._model.add_implication(var, some)
            if len(used) > 1:
                several = self._bool()
                self._model.add(sum(used) <= 1 + len(used) * several)
                longer = [(var, CONTENTION * ns) for var, ns in lock.held]
                self._model.add(self._sum(longer) + rest <= self._least).only_enforce_if(several)

    def _order_alike(self) -> None:
        """Processors of a pool that no pin names are alike: the first has most to do."""
        pinned: set[str] = set()
        for pin in self._problem.pins.values():
            pinned.update(pin.processors)
            if pin.threads > 1:
                pinned.update(self._problem.platform.pool_of(pin.processors[0]).processors)
        for pool in self._problem.platform.pools:
            free = [p for p in pool.processors if p not in pinned]
            for a, b in pairwise(free):
                self._model.add(self._sum(self._load[a]) >= self._sum(self._load[b]))

    def hint(self, design: Design) -> None:
        """A good mapping to begin with, processors that are alike renamed to the model's order."""
        names: dict[str, str] = {}
        for pool in self._problem.platform.pools:
            busiest = sorted(pool.processors, key=lambda p: -design.load[p])
            names.update(zip(busiest, pool.processors, strict=True))
        at = {place.task: place.processors for place in design.mapping.placements}
        for (task, place), var in self._item.items():
            if task in at:
                self._model.add_hint(var, place == tuple(names[p] for p in at[task]))
        for plan in design.mapping.networks:
            if plan.task in self._rows:
                self._hint_stages(plan, names)

    def _hint_stages(self, plan: NetworkPlan, names: dict[str, str]) -> None:
        row = self._rows[plan.task]
        for stage, (first, end) in zip(plan.stages, row.network.stretches(plan), strict=True):
            own = (names[stage.processors[0]],)
            for i in range(row.segments):
                if first <= row.at[i] < end:
                    for place, var in self._at(plan.task, i).items():
                        self._model.add_hint(var, place == own)

    # -- the answer --------------------------------------------------------------------------------
    def solved(self, budget: Budget) -> JointPlan | None:
        """The best mapping that was found; None if none was."""
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = STEPS
        if not budget.counted:
            solver.parameters.max_time_in_seconds = budget.seconds
        if solver.solve(self._model) not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        chosen = {key for key, var in self._item.items() if solver.boolean_value(var)}
        ends = {task.name for _, task in self._problem.tasks if task.link is not None}
        free = [key for key in chosen if key[0] not in self._problem.pins.keys() | ends]
        others = {name: Placement(name, place) for name, place in sorted(free)}
        plans = tuple(self._plan(name, solver) for name in self._rows)
        bound = max(0, floor(solver.best_objective_bound)) / self._unit
        if all(app.period_ns is not None for app in self._problem.apps):
            bound = max(bound, RELAXED)
        locks = ((*lock.held, *lock.runtime) for lock in self._locks.values())
        terms = max(map(len, (*self._load.values(), *locks)))
        return JointPlan(plans, others, bound, terms / self._unit)

    def _plan(self, name: str, solver: Any) -> NetworkPlan:
        row = self._rows[name]
        stages: list[StagePlan] = []
        for i in range(row.segments):
            at = self._at(name, i)
            place = next(place for place, var in at.items() if solver.boolean_value(var))
            end = row.at[i + 1]
            last = row.network.layers[end - 1] if end < row.network.costs.count else None
            if stages and stages[-1].processors == place:
                stages.pop()
            stages.append(StagePlan(place, last))
        return NetworkPlan(name, tuple(stages))


def joint_design(problem: Problem, plan: JointPlan) -> Design:
    """The answer as a design, by the evaluator of all searches."""
    return complete(problem, plan.plans, "tasks and cuts together", "throughput", plan.others)


def together(problem: Problem, budget: Budget, designs: Iterable[Design]) -> list[Design]:
    """The answer as a design; none where there is none."""
    plan = joint_plan(problem, budget, designs)
    return [] if plan is None else [joint_design(problem, plan)]
