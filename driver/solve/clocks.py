"""Clock rates for the states of a scenario, and the power of each state by the model of its
platform.

In: a mapped state, with the bounds of its program at the highest rates. Out: the same at the rates
that keep every deadline with the least power, beside the power of the highest rates and of the
greedy rule of Kim's thesis.

`search.deadline.power` has the model. If a pool declares no power, the result is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import ceil

from ...analysis.timing.response_time import worst_cases
from ...analysis.timing.system import Refused, TimedSystem, utilization, with_its_workers
from ...model.diagnostic import Diagnostic, Errors, listed
from ...model.mapping import StateBound
from ...model.platform import Platform
from ...model.scenario import Scenario, State
from ...model.scope import Scope
from ...model.times import Times
from ...search.budget import Budget
from ...search.deadline.answer import mapping_of
from ...search.deadline.power import PowerModel, power_model
from ...search.deadline.problem import JointProblem
from ...search.deadline.program import stage_names
from ...search.deadline.rates import SystemAtRates
from ...search.deadline.verdict import MappingVerdict, with_bounds
from ...search.deadline.work import model_of
from ...search.frequency.greedy import greedy
from ...search.frequency.optimal import optimal
from ...search.frequency.problem import ClockProblem, Domain, Levels
from ..text.check import Valid, ValidScenario
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
    `levels` the chosen ones; `program` is what they are judged by. `parts` has the power of the
    board and of each pool, in watts.
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
    program: SystemAtRates
    parts: tuple[tuple[str, Fraction], ...]


def at_best_clocks(
    valid: ValidScenario, joints: Mapping[str, Joint], budget: Budget
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
                infeasible_levels.get(key_without_periods, ()),
                retest_budget,
            )
    return {name: clocked[name] for name in joints if name in clocked}


def _but_periods(state: State, system: TimedSystem) -> str:
    """All of the program of a state but its periods, by which the levels of a state differ."""
    tasks: list[tuple[object, ...]] = []
    for group in system.groups:
        tasks += [(task.name, task.processor, task.wcet, task.phases) for task in group.tasks]
        tasks.append((group.name, group.priority))
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


def require_power(valid: Valid) -> None:
    """Raise Errors where the power of a placement is not known."""
    platform = valid.platform
    faults = []
    if platform.without_power_model:
        silent = listed(platform.without_power_model)
        word = "declares" if len(platform.without_power_model) == 1 else "declare"
        message = f"energy cannot be compared: {silent} of `{platform.name}` {word} no power"
        help_text = "add `idle` and `busy` to its processors, or map for a platform with them"
        faults.append(Diagnostic("F607", message, platform.span, help=help_text))
    apps = [app for part in valid.parts for app in part.system.apps if app.period_ns is None]
    if apps:
        message = (
            f"energy cannot be compared: `{apps[0].name}` has no period, so its load is unknown"
        )
        help_text = "give every app a period, or none"
        faults.append(Diagnostic("F607", message, apps[0].span, help=help_text))
    if faults:
        raise Errors(faults)


def means_from_elsewhere(valid: ValidScenario, times: Times) -> tuple[Diagnostic, ...]:
    """A warning if powers rest on mean times that another machine has measured, though the text
    states longer ones."""
    guessed = [
        name
        for name, of_types in times.of.items()
        if any(
            time.source == "declared" and time.entry is not None and time.entry.estimated
            for time in of_types.values()
        )
    ]
    if not guessed or not valid.scenario.asks_for_power:
        return ()
    message = (
        f"powers rest on mean times of {listed(guessed, 4)} that were not measured on"
        f" `{valid.platform.name}`"
    )
    help_text = (
        "measure them there (`flowc profile --board`), or remove the profile beside the text"
    )
    return (Diagnostic("F614", message, None, help=help_text, severity="warning"),)


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
    infeasible_levels: tuple[Levels, ...],
    retest_budget: Budget,
) -> tuple[Clocked, tuple[Levels, ...]]:
    """The state at its rates, and its faults."""
    platform = valid.platform
    domains = _domains(joint, mapping.system, platform)
    # A program has one order, whatever its clocks.
    program = SystemAtRates(with_its_workers(mapping.system), model_of(joint.problem))

    @cache
    def holds(levels: Levels) -> bool:
        worst = program.bounds_in_time(levels)
        return worst is not None and not with_bounds(joint.problem, mapping.verdict, worst).late

    problem = ClockProblem(domains, platform.power_w, holds, program.surely_late)
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
        program,
        (
            ("board", platform.power_w),
            *((d.name, d.watts[k]) for d, k in zip(domains, levels, strict=True)),
        ),
    )
    return clocked, best.witnesses


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
        late = _missed_at(clocked, slow)
        power = sum(d.watts[x] for d, x in zip(clocked.domains, slow, strict=True))
        in_time = f"all is in time, and the state takes {_watts(power + platform.power_w)}"
        yield f"{here}: at {_mhz(domain.hz[k - 1])} {late or in_time}"
    if clocked.bound.energy_mw is not None:
        rest = "and those with less power are nowhere faster than one that misses a deadline"
        if clocked.whole:
            rest = "and all with less power miss a deadline"
        yield f"{clocked.tests} of {clocked.combinations} combinations were tested, {rest}"


def _missed_at(clocked: Clocked, levels: Levels) -> str:
    """The deadlines missed at these rates, and by how much; empty if all are kept."""
    system = clocked.program.at(levels)
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


# -- power -----------------------------------------------------------------------------------------
def power_of(valid: ValidScenario, state: State, times: Times) -> PowerModel:
    """The power model of a state, with the rates that it may have: all if energy counts."""
    platform = valid.platform
    free = not platform.without_power_model and (
        valid.scenario.least_energy or state.power_w is not None
    )
    wanted = {}
    for clock in valid.system.clocks:
        if clock.platform == platform.name and clock.state == state.of:
            wanted[clock.pool] = clock.hz
    return power_model(platform, times, wanted, free)


def _domains(joint: Joint, system: TimedSystem, platform: Platform) -> tuple[Domain, ...]:
    """The power of each pool at its rates, with the tasks of a program."""
    model, parts = model_of(joint.problem), _stages(joint)
    work = {pool.name: Fraction(0) for pool in platform.pools}
    for group in system.groups:
        for task in group.tasks:
            pool = platform.pool_of(task.processor)
            name, part = parts.get(task.name, (task.name, None))
            mean = model.work(name, pool.type)
            mean = mean if part is None else mean.part(part)
            work[pool.name] += mean.share(pool, Fraction(task.firings) / Fraction(group.period))
    return model.domains(work)


def _stages(joint: Joint) -> dict[str, tuple[str, Fraction]]:
    """The network of each stage, and the worst case of a firing of the stage."""
    assignment, found = joint.outcome.assignment, {}
    choices = () if assignment is None else assignment.choice
    for network, choice in zip(joint.problem.networks, choices, strict=True):
        stages = network.candidates[choice].stages
        for name, stage in zip(stage_names(network, stages), stages, strict=True):
            if name != network.name:
                found[name] = network.name, Fraction(stage.firing)
    return found


# -- limits ----------------------------------------------------------------------------------------
def _beyond(state: State, clocked: Clocked) -> Diagnostic | None:
    """The error that no clock rates keep the limit of a state with this mapping."""
    taken = sum((watts for _, watts in clocked.parts), Fraction(0))
    if state.power_w is None or clocked.bound.energy_mw is None or taken <= state.power_w:
        return None
    if clocked.verdict.late:
        return None
    message = (
        f"the places and clock rates that were found take {_watts(taken)} in `{state.name}` by the"
        f" model, above its limit of {_watts(state.power_w)}; others may take less"
    )
    parts = ", ".join(f"{name} {_watts(watts)}" for name, watts in clocked.parts if watts)
    help_text = f"that is {parts}; longer periods, or smaller variants of networks take less"
    return Diagnostic("F810", message, state.span, help=help_text)


def _watts(watts: Fraction) -> str:
    return f"{ceil(watts * 100) / 100:g} W"
