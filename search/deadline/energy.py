"""The least mean power that keeps all deadlines: places, cuts and clock rates of all states.

In: the problem of each state with its power model and weight, places to begin with, and a search
for places. Out: one placement for all states, the power at the best rates of each state, and a
bound that no placement at any rates goes below.

The integer program chooses (`energy_model`), and the bounds of response times judge. The best rates
for its places are found in any case (`frequency.optimal`), so that each of its answers is one for
the user, too. What is late at some rates is ruled out together with all that is late for the same
reason, at rates that are nowhere faster, and the program chooses again (Hooker and Ottosson, 2003).
That a slower clock never makes a deadline easier to keep is supposed there, as in
`frequency.optimal`.

Many places with the same candidates and pools differ little, and too much to be ruled out one by
one. So there is a second program, which has one processor for each pool: its bound is one for all,
since power does not depend on which processor of a pool has what, and it is found soon. Where the
first program does not end, or has too many candidates, a search for the least utilization looks for
places near the answers of the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TypeVar

from ..budget import Budget, Spending
from ..events import Progress
from ..frequency.optimal import optimal
from ..frequency.problem import ClockProblem, Levels
from .energy_model import EnergyAnswer, EnergyModel, StateProblem, power_scope
from .energy_relaxed import RelaxedPower, relaxed_power
from .limits import tightest
from .outcome import NEAR, LeastPower, Outcome, PowerPoint
from .problem import Assignment, JointProblem
from .rates import Rates
from .states import CommonPlaces, Run, StatesOutcome, search_states
from .verdict import MappingVerdict, judged
from .work import domains

#: Of the budget, what places of the least utilization get, with which the search begins.
PLACES = 0.4
#: Up to so many candidates of a network are all looked at one processor after the other; so many
#: are kept of more.
FEW = 40
Found = TypeVar("Found", Outcome, StatesOutcome)
#: Of the budget, what the program by processors gets where it may end with a proof; of what is left
#: then, what that by pools gets.
EXACT, POOLS = 0.6, 0.5
#: Of what such a step has left, what one answer by pools gets, and a search for places near it.
ONE_ANSWER, HELP = 0.3, 0.2
#: Of what is left at the end, what the front gets, and in how many steps of utilization.
TRADE, STEPS = 0.5, 5
#: Rates near an answer by pools: such a part of the way from these up to the highest ones.
NEARER = (Fraction(1), Fraction(1, 2), Fraction(1, 4))
#: An answer that is less than this part of another one is clearly less.
CLEARLY = 1 - NEAR / 2
#: Rates with less power that a witness rules out are not tested here: the final answer does it.
NO_DOUBTS = Budget(evaluations=0)


def places_to_begin_with(find: Callable[[Budget], Found], budget: Budget) -> tuple[Found, Budget]:
    """Places of the least utilization, and what is left of the budget: nothing, if all of it was
    needed to find some that keep all deadlines."""
    found, left = find(budget.part(PLACES)), budget.part(1 - PLACES)
    if found.kept_maximum is not None or found.impossible is not None:
        return found, left
    spent = replace(left, seconds=0.0, evaluations=0 if left.counted else None)
    return find(left), spent


def with_least_power(
    found: StatesOutcome,
    states: Mapping[str, StateProblem],
    run: Run,
    *,
    seed: int,
    budget: Budget,
    together: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
) -> StatesOutcome:
    """The answer of least power within `budget`, beginning with that of a search for the least
    utilization, which is also the answer if nothing keeps all deadlines; `run` is such a search.
    Things that are `together` have one place."""

    def places(problems: Mapping[str, JointProblem], part: Budget) -> CommonPlaces | None:
        near = search_states(problems, run, budget=part, together=together)
        return near.placed(problems)

    start = found.placed({name: state.problem for name, state in states.items()})
    search = _Search(states, places, seed, budget, together, progress)
    least = search.run(start)
    if least is None:
        return found
    placed, verdicts, power = least
    outcomes = {}
    for name, outcome in found.states.items():
        assignment = placed.of(states[name].problem)
        outcomes[name] = replace(
            outcome, assignment=assignment, verdict=verdicts[name], bound=None, proved=False
        )
    return replace(
        found,
        states=outcomes,
        bound=None,
        proved=power.proved,
        scope=power.scope,
        power=power,
        counted=found.counted + power.tests,
    )


def of_least_power(
    found: Outcome,
    problem: JointProblem,
    run: Run,
    *,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
) -> Outcome:
    """The same for a text without states."""
    alone = StatesOutcome(
        {"": found}, found.bound, found.proved, found.seconds, counted=found.counted
    )
    state = {"": StateProblem(problem, Fraction(1))}
    least = with_least_power(alone, state, run, seed=seed, budget=budget, progress=progress)
    if least.power is None:
        return replace(found, counted=least.counted)
    return replace(
        least.states[""],
        proved=least.proved,
        scope=least.scope,
        power=least.power,
        counted=least.counted,
    )


@dataclass(frozen=True, slots=True)
class _Late:
    """Places of a state that are late at rates that are nowhere faster than these. `late` is a
    group that is late by every order of priorities; none: not all orders were looked at, or
    something else than a group does not fit."""

    state: str
    placed: CommonPlaces
    late: set[str]
    slowness: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class _Best:
    """Places, their rates in each state, and their power."""

    watts: Fraction
    placed: CommonPlaces
    levels: Mapping[str, Levels]
    verdicts: dict[str, MappingVerdict]


class _Search:
    """The best answer so far, a bound for all, and what is late."""

    def __init__(
        self,
        states: Mapping[str, StateProblem],
        find: Callable[[Mapping[str, JointProblem], Budget], CommonPlaces | None],
        seed: int,
        budget: Budget,
        together: Sequence[Sequence[str]],
        progress: Progress | None,
    ) -> None:
        self._states, self._find, self._seed = states, find, seed
        self._together, self._progress = together, progress
        self._looks, self._solved = 0, 0
        self._spending: Spending = budget.begin(lambda: self._looks + self._solved)
        self._late: list[_Late] = []
        self._plans: dict[object, Fraction | None] = {}
        self._best: _Best | None = None
        self._front: list[PowerPoint] = []
        self._bound, self._sure = Fraction(0), True
        self._every = _every_candidate(states)

    @property
    def _is_small(self) -> bool:
        """Are all candidates of each network looked at?"""
        return max(map(len, self._every.values()), default=0) <= FEW

    def run(
        self,
        start: CommonPlaces | None,
    ) -> tuple[CommonPlaces, dict[str, MappingVerdict], LeastPower] | None:
        """Search until nothing is left, or the budget is over; Ctrl-C ends it as well. None if no
        places keep all deadlines in all states."""
        first = None if start is None else self._take(start)
        with suppress(KeyboardInterrupt):
            self._run()
            self._trade(self._spending.left.part(TRADE))
        if self._best is None:
            return None
        best = self._best
        scope = power_scope(self._states)
        front = tuple(sorted(self._front, key=lambda point: point.watts))
        power = LeastPower(best.watts, self._bound, first, self._looks, scope, front)
        power = power.of_program(best.watts)
        if any(state.problem.bands for state in self._states.values()):
            power = power.without_bound  # other bands were not searched
        return best.placed, best.verdicts, power

    def _run(self) -> None:
        relaxed = self._relaxed()
        if relaxed is not None:
            self._bound = max(self._bound, relaxed.bound)
        if self._is_small:
            self._by_processors(self._every, self._spending.left.part(EXACT), None)
            self._by_pools(self._every, self._spending.left.part(POOLS), None)
            self._descend(self._spending.left)
            return
        few = self._few(relaxed)
        left_out = Fraction(0) if relaxed is None else relaxed.left_out(few)
        self._by_pools(few, self._spending.left.part(POOLS), left_out)
        self._descend(self._spending.left)
        self._by_processors(few, self._spending.left, left_out)

    def _trade(self, budget: Budget) -> None:
        """More of the front: the least power with less and less utilization."""
        shares = [point.maximum for point in self._front]
        if not self._is_small or len(set(shares)) < 2:
            return
        least, most = min(shares), max(shares)
        model = EnergyModel(self._states, self._every, self._together)
        spending, told = budget.begin(self._spent), 0
        for step in range(1, STEPS):
            model.limit(most - (most - least) * step / STEPS)
            kept = None
            while kept is None and not spending.over:
                told = self._tell(model, self._every, told)
                answer = model.solve(self._seed, spending.left)
                if answer.placed is None:
                    return
                kept = self._take(answer.placed)
                self._require_rates(answer.placed, answer.levels)

    def _tell(
        self,
        model: EnergyModel,
        allowed: Mapping[str, tuple[int, ...]],
        told: int,
    ) -> int:
        """Rule out what was found to be late since; how much that is."""
        for late in self._late[told:]:
            if all(c in allowed[n] for n, (c, _) in late.placed.networks.items()):
                model.rule_out(late.state, late.placed, late.late, late.slowness)
        return len(self._late)

    # -- two programs ------------------------------------------------------------------------------
    def _by_processors(
        self,
        allowed: Mapping[str, tuple[int, ...]],
        budget: Budget,
        left_out: Fraction | None,
    ) -> None:
        """Rule out what is late, until nothing better is left. `left_out` bounds what uses another
        candidate than those."""
        model = EnergyModel(self._states, allowed, self._together)
        spending, told, best = budget.begin(self._spent), 0, Fraction(0)
        while self._is_left and not spending.over:
            told = self._tell(model, allowed, told)
            if self._best is not None and self._best.watts != best:
                best = self._best.watts
                model.at_most(best * CLEARLY)
            answer = self._solved_by(model, spending.left, left_out, self._sure)
            if answer.placed is None:
                break
            self._take(answer.placed)
            self._require_rates(answer.placed, answer.levels)
            if told == len(self._late) and (self._best is None or self._best.watts == best):
                break  # nothing is new: the same answer would come again

    def _by_pools(
        self,
        allowed: Mapping[str, tuple[int, ...]],
        budget: Budget,
        left_out: Fraction | None,
    ) -> None:
        """The same by pools instead of processors; then places with the candidates, pools and rates
        of that answer, and of the next ones."""
        if not self._is_left or any(state.problem.servers for state in self._states.values()):
            return
        model, sure = self._pools(allowed), True
        spending = budget.begin(self._spent)
        while self._is_left and not spending.over:
            if self._best is not None:
                model.at_most(self._best.watts * CLEARLY)
            answer = self._solved_by(model, spending.left.part(ONE_ANSWER), left_out, sure)
            if answer.placed is None:
                break
            self._near(answer.placed, answer.levels, spending)
            model.avoid(answer.placed)
            sure = False

    def _pools(self, allowed: Mapping[str, tuple[int, ...]]) -> EnergyModel:
        merged = {name: state.by_pools for name, state in self._states.items()}
        return EnergyModel(merged, allowed, self._together)

    def _relaxed(self) -> RelaxedPower | None:
        """The program by pools in fractions."""
        if any(state.problem.servers for state in self._states.values()):
            return None
        return relaxed_power(self._pools(self._every))

    def _spent(self) -> int:
        return self._looks + self._solved

    def _solved_by(
        self,
        model: EnergyModel,
        left: Budget,
        left_out: Fraction | None,
        sure: bool,
    ) -> EnergyAnswer:
        """The next answer of a program; its bound is one for all if it is `sure`."""
        before = model.solved
        answer = model.solve(self._seed, left)
        self._solved += model.solved - before
        if sure:
            bound = answer.bound
            if answer.status == "infeasible":  # nothing that is left is clearly less than the best
                bound = Fraction(0) if self._best is None else self._best.watts * CLEARLY
            self._bound = max(self._bound, bound if left_out is None else min(bound, left_out))
        return answer

    @property
    def _is_left(self) -> bool:
        """May there be something better than the best answer?"""
        return self._best is None or self._best.watts > self._bound * (1 + NEAR)

    def _few(self, relaxed: RelaxedPower | None) -> dict[str, tuple[int, ...]]:
        """The candidates of each network with which the bound rises least, and that of the best
        answer."""
        if relaxed is None:
            few = {name: own[:FEW] for name, own in self._every.items()}
        else:
            few = relaxed.few(FEW)
        if self._best is None:
            return few
        networks = self._best.placed.networks
        return {name: tuple(sorted({*own, networks[name][0]})) for name, own in few.items()}

    # -- places ------------------------------------------------------------------------------------
    def _take(self, placed: CommonPlaces) -> Fraction | None:
        """The mean power of places at their best rates; None where something is late at any.

        They are kept if that is the least.
        """
        key = _key(placed)
        if key in self._plans:
            return self._plans[key]
        self._plans[key] = None
        total, levels, verdicts = Fraction(0), dict[str, Levels](), dict[str, MappingVerdict]()
        for name, state in self._states.items():
            found = self._at_best_rates(name, state, placed)
            if found is None:
                return None
            watts, levels[name], verdicts[name] = found
            total += state.weight * watts
        self._plans[key] = total
        self._compare(total, placed, verdicts)
        if self._best is None or total < self._best.watts:
            self._best = _Best(total, placed, levels, verdicts)
            self._report(total)
        return total

    def _compare(
        self, watts: Fraction, placed: CommonPlaces, verdicts: Mapping[str, MappingVerdict]
    ) -> None:
        """Add places to the front, unless others are as good in everything."""
        shares, used, assignments = [Fraction(0)], set[str](), dict[str, Assignment]()
        for name, found in verdicts.items():
            problem, own = self._states[name].problem, found.assignment
            assignments[name] = own
            shares.append(tightest(problem, found.worst))
            places = (*own.tasks, *(p for stages in own.stages for p in stages))
            used.update(p for p in places if problem.kind[p] == "cpu")
        most = max(found.maximum for found in verdicts.values())
        point = PowerPoint(watts, most, max(shares), len(used), assignments)
        if not any(point.is_no_better(other) for other in self._front):
            self._front = [other for other in self._front if not other.is_no_better(point)]
            self._front.append(point)

    def _at_best_rates(
        self,
        name: str,
        state: StateProblem,
        placed: CommonPlaces,
    ) -> tuple[Fraction, Levels, MappingVerdict] | None:
        """The least power of a state at these places, its rates, and the verdict on the places at
        the highest rates; None if something is late there."""
        assignment = placed.of(state.problem)
        rates = Rates(state.problem, state.power, assignment)
        self._looks += 1
        if rates.verdict is None or not rates.verdict.feasible:
            self._note(name, placed, state.power.highest)
            return None
        problem = ClockProblem(domains(state.problem, assignment), state.power.base_w, rates.holds)
        plan = optimal(problem, retest_budget=NO_DOUBTS)
        self._looks += plan.tests
        for witness in plan.witnesses:
            self._note(name, placed, witness)
        if plan.watts is None or plan.levels is None:
            return None
        if state.most_w is not None and plan.watts > state.most_w:
            return None
        return plan.watts, plan.levels, rates.in_order(plan.levels)

    def _require_rates(self, placed: CommonPlaces, levels_of: Mapping[str, Levels]) -> None:
        """Note the states that are late at these rates."""
        for name, levels in levels_of.items():
            state = self._states[name]
            if not Rates(state.problem, state.power, placed.of(state.problem)).holds(levels):
                self._note(name, placed, levels)

    def _note(self, name: str, placed: CommonPlaces, levels: Levels) -> None:
        """Note what is late in a state at rates that are nowhere faster than these."""
        state = self._states[name]
        slowness = state.power.slowness(levels)
        found = judged(replace(state.problem, slowness=slowness), placed.of(state.problem))
        late = set[str]() if found is None else set(found.involved) & found.hopeless
        if found is not None and found.late and not late:
            self._sure = False  # not all orders of priorities were looked at
        self._late.append(_Late(name, placed, set(sorted(late)[:1]), slowness))

    def _near(
        self,
        placed: CommonPlaces,
        levels_of: Mapping[str, Levels],
        spending: Spending,
    ) -> None:
        """Look for places with the candidates of others: at the highest rates each task on its
        type of processors, then at rates nearer and nearer to these, as long as there are some."""
        for share in NEARER:
            levels = {}
            for name, low in levels_of.items():
                high = self._states[name].power.highest
                pairs = zip(low, high, strict=True)
                levels[name] = tuple(ceil(k + (top - k) * share) for k, top in pairs)
            if spending.over or not self._is_left:
                return
            if self._found_at(placed, levels, share == 1, spending.left.part(HELP)) is None:
                return

    def _descend(self, budget: Budget) -> None:
        """One clock of the best answer after the other slower by a step, as long as a search finds
        places for that."""
        spending, best = budget.begin(self._spent), None
        while self._best is not None and self._best is not best:
            best = self._best
            for levels_of in _one_slower(best.levels):
                if spending.over or not self._is_left:
                    return
                self._found_at(best.placed, levels_of, False, spending.left.part(HELP))
                if self._best is not best:
                    break

    def _found_at(
        self,
        placed: CommonPlaces,
        levels_of: Mapping[str, Levels],
        same_types: bool,
        budget: Budget,
    ) -> Fraction | None:
        """The power of what a search for the least utilization finds at these rates with these
        candidates, and each task on the type of processors that it has if these are the same."""
        at_rates = {}
        for name, state in self._states.items():
            near = _only_near(state.problem, placed, same_types)
            at_rates[name] = replace(near, slowness=state.power.slowness(levels_of[name]))
        found = self._find(at_rates, budget)
        self._looks += 1
        if found is None:
            return None
        networks = {n: (placed.networks[n][0], p) for n, (_, p) in found.networks.items()}
        return self._take(replace(found, networks=networks))

    def _report(self, watts: Fraction) -> None:
        if self._progress is not None:
            value, bound = float(watts), float(self._bound)
            text = f"energy: {value:.4f} W, at least {bound:.4f} W"
            self._progress(text, evaluations=self._looks, value=value, bound=bound)


def _one_slower(levels_of: Mapping[str, Levels]) -> Iterator[dict[str, Levels]]:
    """The rates of all states with one clock of one of them slower by a step."""
    for name, own in levels_of.items():
        for n, level in enumerate(own):
            if level:
                yield {**levels_of, name: (*own[:n], level - 1, *own[n + 1 :])}


def _every_candidate(states: Mapping[str, StateProblem]) -> dict[str, tuple[int, ...]]:
    found = {}
    for state in states.values():
        for network in state.problem.networks:
            found[network.name] = tuple(range(len(network.candidates)))
    return found


def _key(placed: CommonPlaces) -> object:
    return tuple(sorted(placed.tasks.items())), tuple(sorted(placed.networks.items()))


def _only_near(problem: JointProblem, placed: CommonPlaces, same_types: bool) -> JointProblem:
    """The problem with these candidates; if types are the same, with each task on processors of the
    type that it has."""
    networks = []
    for network in problem.networks:
        choice = network.candidates[placed.networks[network.name][0]]
        networks.append(replace(network, candidates=(choice,)))
    tasks = []
    for task in problem.tasks:
        type_ = problem.type[placed.tasks[task.name]]
        tasks.append(task.only_on({type_}) if same_types else task)
    return replace(problem, networks=tuple(networks), tasks=tuple(tasks))
