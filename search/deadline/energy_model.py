"""The integer program of the least mean power: places, cuts and clock rates of all states together.

In: the problem of each state with its power model and its weight, and the candidates that may be
used. Out: one placement for all states and a rate of every clock in each, and a bound that no such
answer goes below. OR-Tools' CP-SAT chooses.

Power is the sum over clocks of `idle` and of mean work times `busy`, both by the rate. So work is
split by rates: `_by_rate` has a variable for each, which is the work where the clock has that rate,
else 0. Nothing is multiplied, and the program without integers is as tight as it can be for one
clock. Deadlines are known as rows of tasks that take too long by themselves, and as processors that
have more to do than they have time; what else is late is ruled out afterwards (`energy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

from ...model.platform import Pool
from ...model.scope import Scope
from ..budget import Budget
from ..frequency.problem import Levels
from .lengths import precedence, rows
from .loads import THREADS, Placing, Solver, Status, told_apart
from .otherwise import all_groups, otherwise, reaching, used_by
from .power import Clock, PowerModel
from .problem import JointProblem, TaskGroup
from .scope import scope_of
from .states import CommonPlaces
from .work import stage_work, task_work

#: Work and times are counted in this part of a period, rounded down: bounds stay bounds.
UNIT = 10**8
#: Times are counted in this part of a deadline, and how much slower a clock is in this part of 1.
TIME, FINE = 10**6, 1000
#: No row of tasks is counted as longer than that part of a deadline.
LATE = 10**8
#: The sum of all powers in units of the program stays below this number.
LARGEST = 10**15


@dataclass(frozen=True, slots=True)
class StateProblem:
    """A state's problem, the share of time that the state has, and what it may take at most.

    `standing_for` has processors that stand for all of their pool, which have the time of as many.
    """

    problem: JointProblem
    weight: Fraction
    most_w: Fraction | None = None
    standing_for: Mapping[str, int] = field(default_factory=dict)

    @property
    def power(self) -> PowerModel:
        """Its power model. Raises AssertionError if there is none."""
        assert self.problem.power is not None
        return self.problem.power

    @property
    def by_pools(self) -> StateProblem:
        """The state with one processor for each pool: no answer takes less power than the best one
        to this, since power does not depend on which processor of a pool has what."""
        problem, first = self.problem, dict[str, str]()
        for pool in problem.platform.pools:
            usable = [p for p in pool.processors if p not in problem.left_out]
            first.update(dict.fromkeys(pool.processors, usable[0] if usable else ""))
        counts = {p: list(first.values()).count(p) for p in first.values()}
        pins = {name: first[place] for name, place in problem.pins.items()}
        pools = []
        for pool in problem.platform.pools:
            if pool.engines is not None and not pool.engines_total:
                pool = replace(pool, engines=pool.engines * pool.count, engines_total=True)
            pools.append(pool)
        left_out = problem.left_out | (set(first) - set(first.values()))
        platform = replace(problem.platform, pools=tuple(pools))
        merged = replace(problem, platform=platform, left_out=left_out, pins=pins)
        return StateProblem(merged, self.weight, self.most_w, counts)


@dataclass(frozen=True, slots=True)
class EnergyAnswer:
    """Places and rates by state, if some were found; no answer that is left takes less than
    `bound` watts."""

    status: Status
    placed: CommonPlaces | None
    levels: Mapping[str, Levels]
    bound: Fraction


class EnergyModel:
    """The integer program over `allowed` candidates of each network, by its name.

    Things that are `together` have one place.
    """

    def __init__(
        self,
        states: Mapping[str, StateProblem],
        allowed: Mapping[str, tuple[int, ...]],
        together: Sequence[Sequence[str]] = (),
    ) -> None:
        from ortools.sat.python import cp_model

        self._states, self._model, self._solver = states, cp_model.CpModel(), Solver()
        self._base = sum((s.weight * s.power.base_w for s in states.values()), Fraction(0))
        self._scale = floor(Fraction(LARGEST, UNIT) / (_most_watts(states) or 1))
        self._placing: dict[str, Placing] = {}
        self._levels: dict[str, list[list[Any]]] = {}
        self._costs: list[Any] = []
        for name, state in states.items():
            self._add_state(name, state, allowed)
        self._join_states()
        self._join(together)
        self._cost = sum(self._costs)
        self._model.minimize(self._cost)

    # -- a state -----------------------------------------------------------------------------------
    def _add_state(
        self,
        name: str,
        state: StateProblem,
        allowed: Mapping[str, tuple[int, ...]],
    ) -> None:
        problem = state.problem
        own = tuple(allowed[network.name] for network in problem.networks)
        placing = Placing(problem, own, told_apart(problem), self._model)
        self._placing[name] = placing
        self._levels[name] = [self._rates(clock) for clock in state.power.clocks]
        clocks = list(zip(state.power.clocks, self._levels[name], strict=True))
        works, costs = _works(problem, placing), list[Any]()
        for clock, rates in clocks:
            self._limit_loads(state, placing, clock, rates)
            costs += self._cost_of(state, works[clock.pool.name], clock, rates)
        self._costs += costs
        if state.most_w is not None and state.weight:
            room = state.weight * (state.most_w - state.power.base_w)
            self._model.add(sum(costs) <= ceil(room * self._scale * UNIT))
        for group in problem.groups:
            self._limit_length(placing, group, clocks)

    def _rates(self, clock: Clock) -> list[Any]:
        """A variable for each rate of a clock, of which one is true."""
        chosen = [self._model.new_bool_var("") for _ in clock.levels]
        self._model.add_exactly_one(chosen)
        return chosen

    def _cost_of(
        self,
        state: StateProblem,
        works: Mapping[str, Sequence[_Share]],
        clock: Clock,
        rates: Sequence[Any],
    ) -> Iterator[Any]:
        """The power of a pool; less than the truth by what is rounded down."""
        terms, most = [], 0
        for own in works.values():
            counted = [(way, var, floor(share * UNIT)) for way, var, share in own]
            terms += [(var, share) for _, var, share in counted]
            most += _most(counted)
        parts = self._by_rate(terms, rates, most)
        for level, rate, part in zip(clock.levels, rates, parts, strict=True):
            idle = floor(state.weight * clock.idle(level) * self._scale * UNIT)
            busy = floor(state.weight * clock.busy(level) * self._scale)
            yield idle * rate + busy * part

    def _limit_loads(
        self,
        state: StateProblem,
        placing: Placing,
        clock: Clock,
        rates: Sequence[Any],
    ) -> None:
        """No processor has more to do than it has time."""
        for p in clock.pool.processors:
            terms = [(v, floor(share * UNIT)) for v, share in placing.terms[p]]
            served = floor(placing.problem.served[p] * UNIT)
            room = state.standing_for.get(p, 1) * UNIT - (0 if state.standing_for else served)
            parts = self._by_rate(terms, rates, room)
            for level, rate, part in zip(clock.levels, rates, parts, strict=True):
                self._model.add(part <= ceil(room / clock.slowness(level)) * rate)

    def _limit_length(
        self,
        placing: Placing,
        group: TaskGroup,
        clocks: Sequence[tuple[Clock, list[Any]]],
    ) -> None:
        """No row of tasks of a group takes longer by itself than the group has time."""
        if group.due_ns is None:
            return
        ready: dict[str, Any] = {}
        order = precedence(placing.problem, group)
        awaited = order.through(dict.fromkeys(order.before, 0))
        times = _times(placing, group)
        for name, before in order.before.items():
            # an iteration does not wait for what leads to none of its ends
            due = TIME if name in awaited else LATE
            latest = ready[name] = self._model.new_int_var(0, due * FINE, "")
            length = sum(self._lengths(times.get(name, {}), clocks, group.due_ns / TIME, due))
            self._model.add(latest >= length)
            for other in before:
                self._model.add(latest >= ready[other] + length)

    def _lengths(
        self,
        times: Mapping[str, Sequence[_Share]],
        clocks: Sequence[tuple[Clock, list[Any]]],
        unit: Fraction,
        due: int,
    ) -> Iterator[Any]:
        """What a task or network takes at least, at the rates of its clocks; `due` at most."""
        for clock, rates in clocks:
            if clock.pool.name not in times:
                continue
            counted = []
            for way, var, ns in times[clock.pool.name]:
                counted.append((way, var, min(LATE, floor(ns / unit))))
            terms = [(var, time) for _, var, time in counted]
            parts = self._by_rate(terms, rates, min(due, _most(counted)))
            for level, part in zip(clock.levels, parts, strict=True):
                yield floor(clock.slowness(level) * FINE) * part

    def _by_rate(
        self,
        terms: Sequence[tuple[Any, int]],
        rates: Sequence[Any],
        most: int,
    ) -> list[Any]:
        """The sum of terms, at most so much, at the chosen rate, and 0 at the others."""
        total = sum(v * w for v, w in terms)
        if len(rates) == 1:
            return [total]
        parts = [self._model.new_int_var(0, most, "") for _ in rates]
        for part, rate in zip(parts, rates, strict=True):
            self._model.add(part <= most * rate)
        self._model.add(sum(parts) == total)
        return parts

    # -- all states --------------------------------------------------------------------------------
    def _join_states(self) -> None:
        """What is in several states has one place. Processors of a pool are alike: their loads in
        the first state are in descending order."""
        first, *others = self._placing.values()
        alike = {tuple(free) for free in first.alike()}
        known: dict[object, Any] = {}
        for placing in (first, *others):
            alike &= {tuple(free) for free in placing.alike()}
            for key, var in _named(placing):
                if key in known:
                    self._model.add(var == known[key])
                known.setdefault(key, var)
        for free in alike:
            for a, b in pairwise(free):
                self._model.add(_load(first, a) >= _load(first, b))

    def _join(self, together: Sequence[Sequence[str]]) -> None:
        """One place for tasks and whole networks that change at once, where they can have it."""
        places: dict[str, dict[str, Any]] = {}
        for placing in self._placing.values():
            problem = placing.problem
            for t, task in enumerate(problem.tasks):
                places[task.name] = {p: placing.item[t, p] for p in placing.places[t]}
            for n, network in enumerate(problem.networks):
                if all(len(network.candidates[c].stages) == 1 for c in placing.choose[n]):
                    own = places[network.name] = {}
                    for (m, _, _, p), var in placing.step.items():
                        if m == n:
                            own[p] = own.get(p, 0) + var
        for names in together:
            known = [places[name] for name in names if name in places]
            for first, other in pairwise(known):
                for p in first.keys() | other.keys():
                    self._model.add(first.get(p, 0) == other.get(p, 0))

    def at_most(self, watts: Fraction) -> None:
        """Only answers that take no more are of interest."""
        self._model.add(self._cost <= ceil((watts - self._base) * self._scale * UNIT))

    def limit(self, utilization: Fraction) -> None:
        """No processor may have more to do than that at the highest rates."""
        for placing in self._placing.values():
            for p in placing.terms:
                self._model.add(_load(placing, p) <= ceil(utilization * UNIT))

    def rule_out(
        self,
        name: str,
        placed: CommonPlaces,
        late: set[str],
        slowness: Mapping[str, Fraction],
    ) -> None:
        """Rule out what is late in a state, and all that is late for the same reason: `late` groups
        and all that reach them are placed as now, no other group comes to their processors, and no
        clock of these is faster."""
        problem = self._states[name].problem
        assignment = placed.of(problem)
        groups = reaching(problem, assignment, late or all_groups(problem))
        used = used_by(problem, assignment)
        processors = {p for group in groups for p in used[group]}
        for other, placing in self._placing.items():
            if other == name or _part(problem, groups) == _part(placing.problem, groups):
                clause = otherwise(placing, placed.of(placing.problem), groups, exactly=True)
                self._model.add_bool_or([*clause, *self._faster(other, processors, slowness)])

    def avoid(self, placed: CommonPlaces) -> None:
        """Leave out all placements with these candidates and these pools of tasks: a guess."""
        same = []
        for name, placing in self._placing.items():
            problem, assignment = placing.problem, placed.of(self._states[name].problem)
            same += [placing.choose[n][c] for n, c in enumerate(assignment.choice)]
            for t, place in enumerate(assignment.tasks):
                pool = problem.platform.pool_of(place).processors
                here = [placing.item[t, p] for p in placing.places[t] if p in pool]
                there = self._model.new_bool_var("")
                self._model.add(sum(here) == there)
                same.append(there)
        self._model.add_bool_or([var.negated() for var in same])

    def _faster(
        self,
        name: str,
        processors: set[str],
        slowness: Mapping[str, Fraction],
    ) -> Iterator[Any]:
        """That the clock of some of these processors is faster than so."""
        clocks = self._states[name].power.clocks
        for clock, rates in zip(clocks, self._levels[name], strict=True):
            own = [p for p in clock.pool.processors if p in processors]
            for level, rate in zip(clock.levels, rates, strict=True) if own else ():
                if clock.slowness(level) < slowness.get(own[0], Fraction(1)):
                    yield rate

    # -- what the program in fractions needs -------------------------------------------------------
    @property
    def proto(self) -> Any:
        """The variables, rows and objective of the program."""
        return self._model.proto

    @property
    def base_w(self) -> Fraction:
        """What boards take whatever they do, in the mean."""
        return self._base

    @property
    def watts_of_unit(self) -> Fraction:
        """The unit of the objective."""
        return Fraction(1, self._scale * UNIT)

    @property
    def candidates(self) -> dict[str, dict[int, Any]]:
        """The variables of the candidates of each network."""
        found: dict[str, dict[int, Any]] = {}
        for placing in self._placing.values():
            for network, chosen in zip(placing.problem.networks, placing.choose, strict=True):
                found.setdefault(network.name, chosen)
        return found

    # -- answers -----------------------------------------------------------------------------------
    @property
    def solved(self) -> int:
        """What the solver did so far, in looks that would have taken as long."""
        return self._solver.solved

    def solve(self, seed: int, left: Budget) -> EnergyAnswer:
        """The least power that is not ruled out, as far as it is known."""
        gap = self._scale * UNIT * 1e-6
        threads = 1 if left.counted else THREADS  # taking turns costs these programs most of it
        status, solver = self._solver.run(self._model, seed, left, gap, threads)
        if status == "infeasible":
            return EnergyAnswer(status, None, {}, Fraction(0))
        units = Fraction(max(0, floor(solver.best_objective_bound)))
        bound = self._base + units / (self._scale * UNIT)
        if status == "unknown":
            return EnergyAnswer(status, None, {}, bound)
        placed, levels = CommonPlaces(), {}
        for name, placing in self._placing.items():
            placed = placed.with_answer(placing.problem, placing.read(solver))
            chosen = (map(solver.boolean_value, rates) for rates in self._levels[name])
            levels[name] = tuple([*own].index(True) for own in chosen)
        return EnergyAnswer(status, placed, levels, bound)


def power_scope(states: Mapping[str, StateProblem]) -> Scope:
    """What differs between answers: clock rates, too, if some clock has a choice."""
    scope = scope_of([state.problem for state in states.values()])
    free, fixed = False, list[str]()
    for name, state in states.items():
        clocks = [c for c in state.power.clocks if len(c.pool.frequencies_hz) > 1]
        free = free or any(len(clock.rates) > 1 for clock in clocks)
        if name and any(len(clock.rates) == 1 for clock in clocks):
            fixed.append(f"clock rates of {name}")
    if len(states) > 1:
        scope = scope.holding("one placement for all states")
    return scope.moving("clock rates").holding(*fixed) if free else scope


def _most_watts(states: Mapping[str, StateProblem]) -> Fraction:
    """What all clocks of all states take together at most."""
    most = Fraction(0)
    for state in states.values():
        for clock in state.power.clocks:
            busy = max(map(clock.busy, clock.levels)) * clock.pool.count
            most += max(map(clock.idle, clock.levels)) + busy
    return most


def _load(placing: Placing, processor: str) -> Any:
    return sum(v * floor(share * UNIT) for v, share in placing.terms[processor])


def _named(placing: Placing) -> Iterator[tuple[object, Any]]:
    """The variables by what they say of what is in several states."""
    problem = placing.problem
    for (t, p), var in placing.item.items():
        yield (problem.tasks[t].name, p), var
    for n, network in enumerate(problem.networks):
        for c, var in placing.choose[n].items():
            yield (network.name, c), var
    for (n, c, s, p), var in placing.step.items():
        yield (problem.networks[n].name, c, s, p), var


def _part(problem: JointProblem, groups: set[str]) -> object:
    """All of a problem that the bounds of these groups depend on if they are alone on their
    processors."""
    return (
        [group for group in problem.groups if group.name in groups],
        [task for task in problem.tasks if task.group in groups],
        [network for network in problem.networks if network.group in groups],
        problem.background,
        problem.servers,
    )


#: The number of a way, of which one is taken, the variable of a part of it, and what that adds.
_Share = tuple[int, Any, Fraction]


def _most(counted: Sequence[tuple[int, Any, int]]) -> int:
    """The most that any way adds."""
    ways: dict[int, int] = {}
    for way, _, share in counted:
        ways[way] = ways.get(way, 0) + share
    return max(ways.values(), default=0)


def _times(placing: Placing, group: TaskGroup) -> dict[str, dict[str, list[_Share]]]:
    """What each task, or a row of stages of each network takes in ns on each pool, at the highest
    rate. A network has its candidates as ways."""
    problem, pool_of = placing.problem, _pools(placing.problem)
    found: dict[str, dict[str, list[_Share]]] = {}
    for (t, p), var in placing.item.items():
        task = problem.tasks[t]
        if task.group == group.name:
            own = found.setdefault(task.name, {}).setdefault(pool_of[p].name, [])
            own.append((len(own), var, Fraction(task.last_ns(problem.type[p]))))
    of_group = {n: net for n, net in enumerate(problem.networks) if net.group == group.name}
    rows_of = {n: rows(group, network) for n, network in of_group.items()}
    for (n, c, s, p), var in placing.step.items():
        if n in of_group and s in (rows_of[n][c] or ()):
            network = of_group[n]
            own = found.setdefault(network.name, {}).setdefault(pool_of[p].name, [])
            own.append((c, var, Fraction(network.candidates[c].stages[s].firing)))
    return found


def _works(problem: JointProblem, placing: Placing) -> dict[str, dict[str, list[_Share]]]:
    """The mean work on each pool of each task and network, which has its candidates as ways."""
    pool_of = _pools(problem)
    found: dict[str, dict[str, list[_Share]]] = {pool.name: {} for pool in problem.platform.pools}
    for (t, p), var in placing.item.items():
        task, pool = problem.tasks[t], pool_of[p]
        own = found[pool.name].setdefault(task.name, [])
        own.append((len(own), var, own[0][2] if own else task_work(problem, task, pool)))
    for (n, c, s, p), var in placing.step.items():
        network, pool = problem.networks[n], pool_of[p]
        work = stage_work(problem, network, network.candidates[c], s, pool)
        found[pool.name].setdefault(network.name, []).append((c, var, work))
    return found


def _pools(problem: JointProblem) -> dict[str, Pool]:
    """The pool of each processor."""
    return {p: pool for pool in problem.platform.pools for p in pool.processors}
