"""Clock rates for the states of a scenario, and the power of each state by the model of its
platform.

In: a mapped state, with the bounds of its program at the highest rates. Out: the same at the rates
that keep every deadline with the least power, beside the power of the highest rates and of the
greedy rule of Kim's thesis.

The mean power of a state is the power of the board, plus `idle` of every processor of a pool, plus
`busy` of each for the share of its time in which it works, by mean times; or the energy of a firing
if the profile has it, because power times time scales with the clock. If a pool declares no power,
the result is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import ceil

from ...analysis.timing.least import Least
from ...analysis.timing.response_time import worst_cases, worst_cases_in_time
from ...analysis.timing.slower import slower
from ...analysis.timing.system import Refused, TimedSystem, utilization, with_its_workers
from ...model.diagnostic import Diagnostic, listed
from ...model.mapping import StateBound
from ...model.platform import Platform, Pool
from ...model.scenario import Scenario, State
from ...model.scope import Scope
from ...model.times import FiringTime, Times
from ...search.budget import Budget
from ...search.deadline.answer import mapping_of
from ...search.deadline.problem import JointProblem
from ...search.deadline.verdict import MappingVerdict, with_bounds
from ...search.frequency.greedy import greedy
from ...search.frequency.optimal import optimal
from ...search.frequency.problem import ClockProblem, Domain, Levels
from ..text.check import ValidScenario
from .deadlines import BoundedMapping, Joint, missed

#: The share of a search's budget for testing combinations that witnesses have ruled out.
DOUBTS = 0.25


#: What the rates of a state take the least power over: the search for places is over before.
RATES = Scope(("clock rates",), ("places", "priorities"))


@dataclass(frozen=True, slots=True)
class Clocked:
    """A state at the clock rates chosen for it, with its `verdict` there; `bound` holds its power.

    `tests` of `combinations` were tested: the `whole` of those that take less power, or some
    (`search.frequency.optimal`). `domains` are the clocks with the rates that may be chosen, and
    `levels` the chosen ones; `fastest` is the program at the highest rates. `parts` has the power
    of the board and of each pool, in watts.
    """

    joint: Joint
    verdict: MappingVerdict
    bound: StateBound
    weight: Fraction
    combinations: int
    tests: int
    whole: bool
    domains: tuple[Domain, ...]
    levels: Levels
    fastest: TimedSystem
    parts: tuple[tuple[str, Fraction], ...]


def at_best_clocks(
    valid: ValidScenario, joints: Mapping[str, Joint], times: Mapping[str, Times], budget: Budget
) -> dict[str, Clocked]:
    """The states at their rates, if the platform declares its power.

    A part of the `budget` is spent on testing combinations that witnesses ruled out.
    """
    scenario = valid.scenario
    asked = any(p.platform == valid.platform.name for p in valid.system.clocks)
    if valid.platform.without_power_model and not asked:
        return {}
    clocked = {}
    infeasible_levels: dict[str, tuple[Levels, ...]] = {}
    retest_budget = budget.part(DOUBTS / max(1, len(joints)))
    # the slowest level of a state first: deadlines missed there are also missed at the faster ones
    for name in reversed([*joints]):
        joint, state = joints[name], scenario.state(name)
        mapping = joint.bounded
        if mapping is not None:
            key_without_periods = _but_periods(state, mapping.system)
            clocked[name], infeasible_levels[key_without_periods] = _clocked(
                valid,
                state,
                joint,
                mapping,
                times[name],
                infeasible_levels.get(key_without_periods, ()),
                retest_budget,
            )
    return {name: clocked[name] for name in joints if name in clocked}


def _but_periods(state: State, system: TimedSystem) -> str:
    """All of the program of a state but its periods, by which the levels of a state differ."""
    tasks = []
    for group in system.groups:
        tasks += [(task.name, task.processor, task.wcet, task.phases) for task in group.tasks]
    return repr((state.of, tasks, system.workers))


def beyond_limits(valid: ValidScenario, clocked: Mapping[str, Clocked]) -> dict[str, Diagnostic]:
    """An error for each state whose limit no clock rates keep with this mapping."""
    beyond = {}
    for name, state_at_rates in clocked.items():
        error = _beyond(valid.scenario.state(name), state_at_rates)
        if error is not None:
            beyond[name] = error
    return beyond


def unknown_power(scenario: Scenario, platform: Platform) -> tuple[Diagnostic, ...]:
    """A warning if the objective is energy, and the platform does not declare its power."""
    if not scenario.asks_for_power or not platform.without_power_model:
        return ()
    silent = listed(platform.without_power_model)
    word = "declares" if len(platform.without_power_model) == 1 else "declare"
    message = (
        f"{silent} of `{platform.name}` {word} no power: clock rates stay, and the energy is"
        " unknown"
    )
    help_text = "add `idle` and `busy` to its processors, or map for a platform with them"
    return (Diagnostic("F809", message, scenario.span, help=help_text, severity="warning"),)


def unchecked_power(scenario: Scenario) -> tuple[Diagnostic, ...]:
    """A warning if states have a power limit, and apps without periods: their load is unknown."""
    limited = [state for state in scenario.states if state.power_w is not None]
    if not limited:
        return ()
    message = f"the power limit of `{limited[0].name}` is not checked: some app has no period"
    help_text = "give every app a `period`, or leave `power` out"
    return (Diagnostic("F809", message, scenario.span, help=help_text, severity="warning"),)


def _clocked(
    valid: ValidScenario,
    state: State,
    joint: Joint,
    mapping: BoundedMapping,
    times: Times,
    infeasible_levels: tuple[Levels, ...],
    retest_budget: Budget,
) -> tuple[Clocked, tuple[Levels, ...]]:
    """The state at its rates, and its faults."""
    platform = valid.platform
    busy = _busy(joint, mapping.system, platform, times)
    domains = _domains(valid, state, busy)
    program = _ProgramAtRates(joint.problem, mapping, platform, domains)
    problem = ClockProblem(domains, platform.power_w, cache(program.holds), program.surely_late)
    best = optimal(problem, infeasible_levels=infeasible_levels, retest_budget=retest_budget)
    by_greedy = greedy(problem)
    if by_greedy.watts is not None and (best.watts is None or by_greedy.watts < best.watts):
        # bounds are not strictly monotone
        best = replace(best, levels=by_greedy.levels, watts=by_greedy.watts, whole=False)
    levels = problem.highest if best.levels is None else best.levels
    chosen = program.at(levels)
    judged, verdict = joint, mapping.verdict
    if chosen is not program.fastest:
        verdict = _verdict_at(joint.problem, verdict, chosen)
        judged = _judged(joint, verdict, chosen)
    rates = tuple((d.name, round(d.hz[k])) for d, k in zip(domains, levels, strict=True) if d.hz[k])
    bound = StateBound(state.name, judged.mapping.groups, judged.mapping.utilization, rates)
    if not platform.without_power_model:
        bound = replace(
            bound,
            energy_mw=_mw(problem.watts(levels)),
            highest_mw=_mw(problem.watts(problem.highest)),
            greedy_mw=_mw(by_greedy.watts),
        )
    clocked = Clocked(
        judged,
        verdict,
        bound,
        state.weight,
        problem.combinations,
        best.tests,
        best.whole,
        domains,
        levels,
        program.fastest,
        (
            ("board", platform.power_w),
            *((d.name, d.watts[k]) for d, k in zip(domains, levels, strict=True)),
        ),
    )
    return clocked, best.witnesses


class _ProgramAtRates:
    """The program of a state at clock rates: its timing, and whether it keeps its deadlines."""

    def __init__(
        self,
        problem: JointProblem,
        mapping: BoundedMapping,
        platform: Platform,
        domains: tuple[Domain, ...],
    ) -> None:
        # A program has one order, whatever its clocks.
        self.fastest = with_its_workers(mapping.system)
        self._problem, self._verdict = problem, mapping.verdict
        self._platform, self._domains = platform, domains
        pool_of = {p: n for n, pool in enumerate(platform.pools) for p in pool.processors}
        self._least = Least(self.fastest, pool_of)

    def at(self, levels: Levels) -> TimedSystem:
        """Its timing at these levels."""
        return slower(self.fastest, dict(_factors(self._platform, self._domains, levels)))

    def surely_late(self, levels: Levels) -> bool:
        """A quick test: if true, a deadline is missed."""
        return self._least.missed(_slowness(self._platform, self._domains, levels))

    def holds(self, levels: Levels) -> bool:
        """Is every deadline proved to be met?"""
        if self.surely_late(levels):
            return False
        try:
            worst = worst_cases_in_time(self.at(levels))
        except Refused:
            return False
        return worst is not None and not with_bounds(self._problem, self._verdict, worst).late


def why_these_rates(clocked: Clocked, platform: Platform) -> Iterator[str]:
    """For each clock, the deadline missed at the next slower rate, or its power; and how the other
    combinations were ruled out."""
    for n, (domain, k) in enumerate(zip(clocked.domains, clocked.levels, strict=True)):
        here = f"`{domain.name}` has {_mhz(domain.hz[k])}"
        if len(domain.hz) < 2:
            if domain.hz[k]:
                yield f"{here}: no other rate may be chosen"
            continue
        if not k:
            yield f"{here}, its slowest rate"
            continue
        slow = (*clocked.levels[:n], k - 1, *clocked.levels[n + 1 :])
        late = _missed_at(clocked, platform, slow)
        power = sum(d.watts[x] for d, x in zip(clocked.domains, slow, strict=True))
        in_time = f"all is in time, and the state takes {_watts(power + platform.power_w)}"
        yield f"{here}: at {_mhz(domain.hz[k - 1])} {late or in_time}"
    if clocked.bound.energy_mw is not None:
        rest = "and those with less power are nowhere faster than one that misses a deadline"
        if clocked.whole:
            rest = "and all with less power miss a deadline"
        yield f"{clocked.tests} of {clocked.combinations} combinations were tested, {rest}"


def _missed_at(clocked: Clocked, platform: Platform, levels: Levels) -> str:
    """The deadlines missed at these rates, and by how much; empty if all are kept."""
    system = slower(clocked.fastest, dict(_factors(platform, clocked.domains, levels)))
    try:
        worst = worst_cases(system)
    except Refused as refused:
        return "; ".join(refused.faults)
    verdict = replace(
        with_bounds(clocked.joint.problem, clocked.verdict, worst),
        utilization=utilization(system),
    )
    return ", ".join(missed(verdict))


def _mhz(hz: Fraction) -> str:
    return f"{float(hz) / 1e6:g} MHz"


def _mw(watts: Fraction | None) -> float | None:
    return None if watts is None else round(float(watts) * 1000, 3)


def _verdict_at(
    problem: JointProblem, verdict: MappingVerdict, system: TimedSystem
) -> MappingVerdict:
    """The bounds that hold at the clock rates of a system."""
    used = {**dict.fromkeys(problem.processors, Fraction(0)), **utilization(system)}
    return replace(with_bounds(problem, verdict, worst_cases(system)), utilization=used)


def _judged(joint: Joint, verdict: MappingVerdict, system: TimedSystem) -> Joint:
    """The state with the bounds that hold at its clock rates."""
    seed = joint.mapping.effort.seed
    mapping = mapping_of(joint.problem, joint.outcome, verdict, seed, joint.seen, system)
    return replace(joint, mapping=mapping, verdict=verdict, program=system)


def _factors(
    platform: Platform, domains: tuple[Domain, ...], levels: Levels
) -> Iterator[tuple[str, Fraction]]:
    """The slowdown of each processor."""
    for pool, factor in zip(platform.pools, _slowness(platform, domains, levels), strict=True):
        yield from ((processor, factor) for processor in pool.processors)


def _slowness(platform: Platform, domains: tuple[Domain, ...], levels: Levels) -> list[Fraction]:
    """The slowdown of each pool; 1 if its rates are unknown."""
    pools = zip(platform.pools, domains, levels, strict=True)
    return [max(p.frequencies_hz) / d.hz[k] if d.hz[k] else Fraction(1) for p, d, k in pools]


# -- power -----------------------------------------------------------------------------------------
def _domains(
    valid: ValidScenario, state: State, busy: Mapping[str, list[_Busy]]
) -> tuple[Domain, ...]:
    """The clock of each pool, with the rates that a state may have, and its `busy` tasks."""
    platform = valid.platform
    free = not platform.without_power_model and (
        valid.scenario.least_energy or state.power_w is not None
    )
    wanted = {}
    for clock in valid.system.clocks:
        if clock.platform == platform.name and clock.state == state.of:
            wanted[clock.pool] = clock.hz
    return tuple(
        _domain(pool, busy[pool.name], wanted.get(pool.name), free) for pool in platform.pools
    )


def _domain(pool: Pool, busy: list[_Busy], wanted: Fraction | None, free: bool) -> Domain:
    """The rates that may be chosen: the one that the text asks for, all if energy counts, else the
    highest."""
    rates = pool.frequencies_hz or (Fraction(0),)  # unknown rates
    if wanted is not None:
        allowed = {wanted}
    elif free:
        allowed = set(rates)
    else:
        allowed = {max(rates)}
    kept = [k for k, hz in enumerate(rates) if hz in allowed]
    watts = [_watts_at(pool, busy, k) for k in kept]
    return Domain(pool.name, pool.kind, tuple(rates[k] for k in kept), tuple(watts))


def _watts_at(pool: Pool, busy: list[_Busy], k: int) -> Fraction:
    """The mean power of a pool at its rate number `k`; 0 if it does not declare its power."""
    if not pool.busy_w:
        return Fraction(0)
    longer = Fraction(1)
    if pool.frequencies_hz and pool.frequencies_hz[k]:
        longer = max(pool.frequencies_hz) / pool.frequencies_hz[k]
    working = sum((task.watts(pool.busy_w[k], pool.busy_w[-1]) for task in busy), Fraction(0))
    return pool.idle_w[k] * pool.count + working * longer


@dataclass(frozen=True, slots=True)
class _Busy:
    """A task on a pool at the highest rate: the share of its time in which it keeps a processor
    busy, or the watts."""

    share: Fraction
    known_w: Fraction | None

    def watts(self, busy_w: Fraction, highest_w: Fraction) -> Fraction:
        """The power beside `idle`, if a busy processor takes `busy_w` and the time is that at the
        highest rate."""
        if self.known_w is None or not highest_w:
            return busy_w * self.share
        return self.known_w * busy_w / highest_w


def _busy(
    joint: Joint, system: TimedSystem, platform: Platform, times: Times
) -> dict[str, list[_Busy]]:
    """The tasks of each pool. Stages of a network take shares of the time of the whole."""
    tasks: dict[str, list[_Busy]] = {pool.name: [] for pool in platform.pools}
    for group in system.groups:
        for task in group.tasks:
            pool = platform.pool_of(task.processor)
            mean, energy = _mean(joint, task.name, pool.type, times)
            rate = Fraction(task.firings) / Fraction(group.period)
            tasks[pool.name].append(_Busy(mean * rate, None if energy is None else energy * rate))
    return tasks


def _mean(joint: Joint, name: str, type_: str, times: Times) -> tuple[Fraction, Fraction | None]:
    """Mean time of a firing in ns, and its energy in nJ if the profile has it."""
    known = times.of.get(name, {}).get(type_)
    if known is not None:
        return known.mean_ns, _energy(known)
    assignment = joint.outcome.assignment
    choices = () if assignment is None else assignment.choice
    for network, choice in zip(joint.problem.networks, choices, strict=True):
        for k, stage in enumerate(network.candidates[choice].stages, 1):
            whole = times.of[network.name].get(stage.type)
            if whole is not None and name == f"{network.name}.stage{k}":
                share = Fraction(stage.firing) / whole.longest_ns
                energy = _energy(whole)
                return whole.mean_ns * share, None if energy is None else energy * share
    return Fraction(0), None  # code on arrows takes no time


def _energy(time: FiringTime) -> Fraction | None:
    known = None if time.entry is None or time.source == "pin" else time.entry.energy_nj
    return None if known is None else Fraction(known)


# -- limits ----------------------------------------------------------------------------------------
def _beyond(state: State, clocked: Clocked) -> Diagnostic | None:
    """The error that no clock rates keep the limit of a state with this mapping."""
    taken = sum((watts for _, watts in clocked.parts), Fraction(0))
    if state.power_w is None or clocked.bound.energy_mw is None or taken <= state.power_w:
        return None
    if clocked.verdict.late:
        return None
    message = (
        f"`{state.name}` takes at least {_watts(taken)} by the model, but its limit is"
        f" {_watts(state.power_w)}"
    )
    parts = ", ".join(f"{name} {_watts(watts)}" for name, watts in clocked.parts if watts)
    help_text = f"that is {parts}; longer periods, or smaller variants of networks take less"
    return Diagnostic("F810", message, state.span, help=help_text)


def _watts(watts: Fraction) -> str:
    return f"{ceil(watts * 100) / 100:g} W"
