"""The step that maps a scenario: one placement for all states, each judged like a plain system. A
state that is late with it gets places of its own if that helps.

In: a valid text with states, and its times. Out: the mapping of all of them together, with the
results of each state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import ceil

from ...analysis.timing.switching import Halves, halves
from ...analysis.timing.system import Refused
from ...codegen.deploy import missing
from ...codegen.states import deployed_states
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import ChangeBound, Effort, FrontPoint, Mapping, StateBound
from ...model.profile import Profile
from ...model.times import times_of
from ...search.budget import Budget
from ...search.deadline.answer import mapping_of, power_front
from ...search.deadline.cores import by_objectives
from ...search.deadline.energy import places_to_begin_with, with_least_power
from ...search.deadline.energy_model import StateProblem
from ...search.deadline.memory import banded
from ...search.deadline.outcome import LeastPower, Outcome
from ...search.deadline.per_state_placement import own_places, with_own
from ...search.deadline.power import PowerModel
from ...search.deadline.problem import JointProblem
from ...search.deadline.scenario_ga import THESIS, scenario_ga
from ...search.deadline.scope import scope_of
from ...search.deadline.states import StatesOutcome, search_states
from ...search.events import Teller
from ...search.memory import Chosen
from ...search.registry import search_named
from ...search.variants import RefusedOption
from ..plan.per_state_placement import PerStatePlacement, bound_together, different
from ..plan.program import place, plan, union
from ..plan.protocols import StateTiming, with_protocols
from ..plan.states import places_of_variants
from ..text.check import Valid, ValidScenario
from .clocks import Clocked, at_best_clocks, beyond_limits, power_of
from .deadline_problem import joint_problem, require_possible
from .deadlines import Joint, judged, missed, searched
from .known_times import KnownTimes
from .request import MapRequest

#: The share of the budget for the search for places of its own, for each state that is late with
#: the common ones.
OWN = 0.25


@dataclass(frozen=True, slots=True)
class States:
    """The results of each state, and the same as one mapping; `outcome` rates it over all states.

    `valid` has the best variants of networks that were found, for states that ask for these, and
    `refused` tells why it has no more accurate ones. `clocked` are the states with clock rates, if
    the platform declares these, `excessive` those that exceed their power limit; `diagnostics`
    report the costs of changes at once. `own` are the states with places of their own.
    """

    valid: ValidScenario
    joints: dict[str, Joint]
    mapping: Mapping
    outcome: StatesOutcome
    clocked: dict[str, Clocked] = field(default_factory=dict)
    excessive: dict[str, Diagnostic] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    refused: tuple[RefusedOption, ...] = ()
    own: dict[str, PerStatePlacement] = field(default_factory=dict)

    @property
    def late(self) -> bool:
        """Is some app late in some state, or was no mapping found?"""
        if not self.mapping.placements:
            return True
        groups = chain.from_iterable(joint.mapping.groups for joint in self.joints.values())
        return not all(group.schedulable for group in groups)

    @property
    def least_power(self) -> LeastPower | None:
        """The power of the answer: that of its program, where its rates are known."""
        power = self.outcome.power
        if power is None or not self.clocked:
            return power
        mean = Fraction(0)
        for clocked in self.clocked.values():
            mean += clocked.weight * sum(watts for _, watts in clocked.parts)
        power = power.of_program(mean)
        return power.without_bound if self.own else power

    def finished(self, profile: Profile | None, seed: int) -> States:
        """The same with one mapping, and bounds on changes. Raises Errors for changes at once that
        are not possible."""
        control_ns = None if profile is None else profile.change_ns
        mapping = _together(self.valid, self, seed, control_ns)
        if not mapping.placements:
            return replace(self, mapping=mapping)
        changes, diagnostics = _with_protocols(self.valid, profile, self.joints, mapping)
        return replace(self, mapping=replace(mapping, transitions=changes), diagnostics=diagnostics)

    @property
    def fits(self) -> bool:
        """Are the limits of the board kept in all states?"""
        return all(
            joint.verdict is not None and not joint.verdict.beyond_board
            for joint in self.joints.values()
        )


@dataclass(frozen=True, slots=True)
class Searched:
    """A text whose states were searched: the problem and the answer of each; `own` are the answers
    for states that miss something with the common placement, and nothing with places of their own.
    """

    valid: ValidScenario
    budget: Budget
    times: dict[str, KnownTimes]
    problems: dict[str, JointProblem]
    outcome: StatesOutcome
    own: dict[str, Outcome]


@dataclass(frozen=True, slots=True)
class StateSearch:
    """A search for states, independent of their variants; `chosen` are bands of networks."""

    known: KnownTimes
    request: MapRequest
    chosen: Chosen = field(default_factory=dict)

    def problem(self, state: Valid, power: PowerModel | None = None) -> JointProblem:
        """The problem of a state, with the power model that it has. Raises Errors."""
        problem = joint_problem(state, self.known.of(state).times, self.request.search_workers)
        return banded(replace(problem, power=power or problem.power), self.chosen)

    def searched(self, valid: ValidScenario, budget: Budget) -> Searched:
        """One placement for all states. Raises Errors."""
        problems = {name: self._state_problem(valid, name) for name in valid.states}
        at_once = {name for names in _changed_at_once(valid) for name in names}
        problems = {name: _uncut(problem, at_once) for name, problem in problems.items()}
        for problem in problems.values():
            require_possible(problem)
        try:
            outcome = self._best_places(valid, problems, budget)
        except Refused as refused:
            raise Errors(
                [Diagnostic("F509", f"no bound is known: {why}", None) for why in refused.faults]
            ) from refused
        times = {name: self.known.of(state) for name, state in valid.states.items()}
        if outcome.cores is not None:
            problems = _without(problems, outcome.cores.left_out)
        found = Searched(valid, budget, times, problems, outcome, {})
        own = {name: self._with_own_places(found, name) for name in _late_in_search(found)}
        return replace(found, own={name: o for name, o in own.items() if o is not None})

    def _state_problem(self, valid: ValidScenario, name: str) -> JointProblem:
        """The problem of a state, with the power model that it has. Raises Errors."""
        state = valid.states[name]
        power = power_of(valid, valid.scenario.state(name), self.known.of(state).times)
        return self.problem(state, power)

    def _best_places(
        self, valid: ValidScenario, problems: dict[str, JointProblem], budget: Budget
    ) -> StatesOutcome:
        """One placement for all problems, of the least power if energy counts. Raises Refused."""
        if not self._counts_energy(valid):
            return self._common(valid, problems, budget)
        if self._is_for_power:
            return self._by_scenario_ga(valid, problems, budget)
        found, left = places_to_begin_with(
            lambda part: self._common(valid, problems, part),
            budget,
        )
        return self._with_less_power(valid, problems, found, left)

    def _counts_energy(self, valid: ValidScenario) -> bool:
        """Is the least power asked for, and known?"""
        asked = valid.scenario.least_energy or self.request.objective == "energy"
        return asked and not valid.platform.without_power_model

    @property
    def _is_for_power(self) -> bool:
        """Does the search of the request look for the least power alone?"""
        return search_named(self.request.search, "deadlines").only_for == "energy"

    def _by_scenario_ga(
        self, valid: ValidScenario, problems: dict[str, JointProblem], budget: Budget
    ) -> StatesOutcome:
        """The placement that the thesis' search finds."""
        request = self.request
        return scenario_ga(
            _weighted(valid, problems, {}),
            seed=request.seed,
            budget=budget,
            together=_changed_at_once(valid),
            progress=Teller(request.progress),
            numbers=THESIS.changed(request.evolution_changes),
        )

    def _with_less_power(
        self,
        valid: ValidScenario,
        problems: dict[str, JointProblem],
        found: StatesOutcome,
        budget: Budget,
    ) -> StatesOutcome:
        """The placement of the least power that keeps the limits of states, if there is one; the
        one that was found without."""
        found = with_least_power(
            found,
            _weighted(valid, problems, found.states),
            self._run,
            seed=self.request.seed,
            budget=budget,
            together=_changed_at_once(valid),
            progress=Teller(self.request.progress),
        )
        if found.power is None or not valid.options:
            return found
        power = found.power
        return replace(found, power=replace(power, scope=power.scope.holding("variants")))

    def _common(
        self, valid: ValidScenario, problems: dict[str, JointProblem], budget: Budget
    ) -> StatesOutcome:
        """One placement for all problems, by the objectives of the request. Raises Refused."""
        alternatives = _alternatives(valid)

        def attempt(left_out: frozenset[str], part: Budget) -> StatesOutcome:
            without = _without(problems, left_out)
            return search_states(
                without,
                self._run,
                budget=part,
                alternatives=alternatives,
                together=_changed_at_once(valid),
            )

        objectives = self.request.objectives("deadlines")
        outcome = by_objectives(problems.values(), attempt, budget, objectives)
        outcome = replace(outcome, scope=scope_of(problems.values(), outcome.cores))
        if any(problem.bands for problem in problems.values()):  # other bands were not searched
            return outcome.without_proof
        return outcome

    def _run(self, problem: JointProblem, part: Budget) -> Outcome:
        request = replace(self.request, objective="utilization" if self.request.objective else "")
        if self._is_for_power:
            request = replace(request, search="auto", evolution="")
        return searched(problem, request.within(part))

    def _with_own_places(self, searched: Searched, name: str) -> Outcome | None:
        """Another answer for a state, with which it is not late; None if there is none."""
        if self._is_for_power or name in bound_together(searched.valid.scenario):
            return None
        self.request.say(f"late with the common places: others for `{name}`")
        common, budget = searched.outcome.states[name], searched.budget.part(OWN)
        try:
            return own_places(searched.problems[name], common, self._run, budget)
        except Refused:  # the common places are the only known ones
            return None

    def mapped(self, searched: Searched) -> States:
        """The results of the program of each state, at its clock rates; with other places, if these
        take more power than a state may. Raises Errors."""
        found = self._at_its_rates(searched)
        if not found.excessive or self._counts_energy(searched.valid):
            return found
        self.request.say("beyond a limit on power: looking for places that take less")
        problems, budget = searched.problems, searched.budget
        less = self._with_less_power(searched.valid, problems, searched.outcome, budget)
        if less.power is None:
            return found
        other = self._at_its_rates(replace(searched, outcome=less, own={}))
        late = any(joint.verdict is None or joint.verdict.late for joint in other.joints.values())
        return found if other.excessive or late else other

    def _at_its_rates(self, searched: Searched) -> States:
        valid, joints, own = searched.valid, dict[str, Joint](), dict[str, PerStatePlacement]()
        for name in valid.states:
            if name not in searched.outcome.states:
                continue
            self.request.say(f"state {name}")
            joints[name] = self._judged(searched, name, searched.outcome.states[name])
            other = self._elsewhere(searched, name, joints[name])
            if other is not None:
                own[name] = PerStatePlacement(
                    joints[name].outcome, ", ".join(_missed(joints[name]))
                )
                joints[name] = other
        outcome = with_own(searched.outcome, {name: joints[name].outcome for name in own})
        clocked = at_best_clocks(valid, joints, searched.budget)
        joints |= {name: c.joint for name, c in clocked.items()}
        empty = Mapping(valid.platform.name, (), (), self.request.search)
        return States(
            valid, joints, empty, outcome, clocked, beyond_limits(valid, clocked), own=own
        )

    def _judged(self, searched: Searched, name: str, outcome: Outcome) -> Joint:
        state, known, problem = (
            searched.valid.states[name],
            searched.times[name],
            searched.problems[name],
        )
        return judged(state, known, problem, outcome, self.request)

    def _elsewhere(self, searched: Searched, name: str, joint: Joint) -> Joint | None:
        """The program of a state with places of its own, if it needs these to keep all deadlines
        and limits."""
        if joint.verdict is None or joint.verdict.feasible:
            return None
        own = searched.own.get(name)
        if own is None and name not in _late_in_search(searched):
            # only the program is late: no others were searched
            own = self._with_own_places(searched, name)
        other = None if own is None else self._judged(searched, name, own)
        if other is None or other.verdict is None or not other.verdict.feasible:
            return None
        return other


def _without(problems: dict[str, JointProblem], cpus: frozenset[str]) -> dict[str, JointProblem]:
    """The problems with some CPUs left out."""
    return {
        name: replace(problem, left_out=problem.left_out | cpus)
        for name, problem in problems.items()
    }


def _late_in_search(searched: Searched) -> list[str]:
    outcomes = searched.outcome.states
    return [
        name for name, o in outcomes.items() if o.verdict is not None and not o.verdict.feasible
    ]


def _missed(joint: Joint) -> list[str]:
    return [] if joint.verdict is None else [*missed(joint.verdict)]


def _alternatives(valid: ValidScenario) -> list[list[str]]:
    """Tasks and networks of different variants that replace each other."""
    return _replacing_each_other(valid.states.values())


def _changed_at_once(valid: ValidScenario) -> list[list[str]]:
    """Those of states that change at once: the program breaks off one and begins another in the
    same worker, so they run whole, in one place."""
    bound = bound_together(valid.scenario)
    return _replacing_each_other(valid.states[name] for name in valid.states if name in bound)


def _replacing_each_other(states: Iterable[Valid]) -> list[list[str]]:
    tasks_at: dict[str, dict[str, None]] = {}
    for state in states:
        for task, place_in_text in places_of_variants(state):
            tasks_at.setdefault(place_in_text, {})[task] = None
    return [list(tasks) for tasks in tasks_at.values() if len(tasks) > 1]


def _weighted(
    valid: ValidScenario,
    problems: dict[str, JointProblem],
    found: MappingABC[str, Outcome],
) -> dict[str, StateProblem]:
    """The problems with the weights and the power limits of their states. Those that change at once
    keep their order of priorities: that of what was found, else the default."""
    weighted = {}
    at_once = bound_together(valid.scenario)
    for name, problem in problems.items():
        state = valid.scenario.state(name)
        if name in at_once:
            judged_so_far = found[name].verdict if name in found else None
            if judged_so_far is not None:
                problem = problem.in_order(judged_so_far.order)
            problem = problem.in_its_order
        weighted[name] = StateProblem(problem, state.weight, state.power_w)
    return weighted


def _uncut(problem: JointProblem, names: Collection[str]) -> JointProblem:
    """The problem with some networks whole on a CPU, where they can be."""
    networks = []
    for network in problem.networks:
        whole = tuple(c for c in network.candidates if c.whole_on in problem.cpu_types)
        if network.name in names and whole:
            network = replace(network, candidates=whole)
        networks.append(network)
    return replace(problem, networks=tuple(networks))


def _together(valid: ValidScenario, found: States, seed: int, control_ns: int | None) -> Mapping:
    joints, outcome, empty = found.joints, found.outcome, found.mapping
    power = found.least_power
    if len(joints) < len(valid.states) or any(j.verdict is None for j in joints.values()):
        return empty
    common = {name: _with_common_places(found, name, seed) for name in joints}
    whole = union(common.values())
    bounds = {n: StateBound(n, j.mapping.groups, j.mapping.utilization) for n, j in joints.items()}
    bounds |= {n: c.bound for n, c in found.clocked.items()}
    bounds |= {n: replace(bounds[n], priorities=j.mapping.priorities) for n, j in joints.items()}
    bounds |= {
        n: replace(bounds[n], placements=different(joints[n].mapping, common[n])) for n in found.own
    }
    for name in valid.options:
        bounds[name] = replace(bounds[name], choices=valid.scenario.state(name).choices)
    return replace(
        whole,
        search=empty.search,
        priorities=None,
        groups=(),
        utilization=(),
        predicted_period_ns=(),
        bound=None if outcome.bound is None else float(outcome.bound),
        effort=Effort(
            outcome.objective,
            seed,
            outcome.evaluations,
            0,
            outcome.seconds,
            None,
            outcome.proved if power is None else power.proved,
            front=_front(found),
            scope=outcome.scope,
        ),
        states=tuple(bounds[name] for name in joints),
        transitions=tuple(_changes(valid, joints, control_ns)),
    )


def _front(found: States) -> tuple[FrontPoint, ...]:
    """The answers of a search for the least power that no other one beats in everything."""
    if found.outcome.power is None:
        return ()
    problems = {name: joint.problem for name, joint in found.joints.items()}
    return power_front(problems, found.outcome.power)


def _with_common_places(found: States, name: str, seed: int) -> Mapping:
    joint = found.joints[name]
    if name not in found.own:
        return joint.mapping
    common = found.own[name].common
    return mapping_of(joint.problem, common, common.verdict, seed)


def _changes(
    valid: ValidScenario, joints: dict[str, Joint], control_ns: int | None
) -> Iterator[ChangeBound]:
    """The longest time of the frames of both states, plus the controller in between."""
    known = {name: _halves(valid.states[name], joint) for name, joint in joints.items()}
    for source, target in dict.fromkeys((t.source, t.target) for t in valid.scenario.transitions):
        before, after = known[source], known[target]
        if before is None or after is None:
            yield ChangeBound(source, target, None, control_ns)
        else:
            frames = before.leaving + after.entering
            yield ChangeBound(source, target, ceil(frames) + (control_ns or 0), control_ns)


def _with_protocols(
    valid: ValidScenario, profile: Profile | None, joints: dict[str, Joint], mapping: Mapping
) -> tuple[tuple[ChangeBound, ...], tuple[Diagnostic, ...]]:
    """The protocol of each change, with its bound. Raises Errors for changes at once that are not
    possible."""
    scenario, deployments, timings = valid.scenario, {}, {}
    for name, state in valid.states.items():
        if missing(state.system):
            return mapping.transitions, ()
        mapped = state.mapped(joints[name].mapping)
        known = times_of(mapped.system, mapped.platform, profile)
        deployments[name] = plan(mapped, known, place(mapped, known))
        verdict = joints[name].verdict
        timings[name] = StateTiming(joints[name].program, verdict is not None and verdict.feasible)
    return with_protocols(
        scenario, deployed_states(scenario, deployments), timings, mapping.transitions
    )


def _halves(state: Valid, joint: Joint) -> Halves | None:
    """The longest times to leave a state, and to enter it."""
    live = {a.name for a in state.system.apps if any(t.live for t in a.tasks)}
    try:
        return None if joint.system is None else halves(joint.system, live)
    except Refused:
        return None


def map_states_apart(valid: ValidScenario, find: Callable[[Valid], Mapping]) -> Mapping:
    """If some app has no period: a search for each state, with the placements of earlier ones
    pinned."""
    found: list[Mapping] = []
    for state in sorted(valid.states.values(), key=lambda s: -len(s.tasks)):
        found.append(find(state.mapped(union(found)) if found else state))
    whole = union(found)
    return replace(whole, predicted_period_ns=(), contestants=(), why=())
