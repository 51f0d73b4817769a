"""The race at the end of a search: how often it is right over made-up runs, and how a contest holds
it within a budget.

No program runs, and no real time counts: runs take seconds of a clock that the test moves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from math import exp
from types import SimpleNamespace

import pytest
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.mapping import Mapping
from flowc.search import budget as budgets
from flowc.search.budget import Budget
from flowc.search.throughput import auto
from flowc.search.throughput import contest as contests
from flowc.search.throughput.contest import RACE, Contest, ContestEntry
from flowc.search.throughput.design import Design
from flowc.search.throughput.problem import Measurement
from flowc.search.throughput.race import (
    FAR,
    LEAST,
    MOST,
    Run,
    chance_of,
    least_gain,
    rule,
    verdict,
)
from hypothesis import given, settings
from hypothesis import strategies as st

RACES = 300
#: A decision takes at most this many rounds for each design that leaves.
ENDLESS = 5 * MOST


# -- the decision ----------------------------------------------------------------------------------
def raced(means: Sequence[float], scatter: float, rng: random.Random) -> int:
    """The winner of a race of designs with these mean times, each run fast or slow as a whole."""
    runs: list[list[Run]] = [[] for _ in means]
    racing = list(range(len(means)))
    for _ in range(ENDLESS):
        for design in racing:
            runs[design].append(Run(means[design] * exp(rng.gauss(0, scatter))))
        ruling = rule([runs[design] for design in racing], len(means))
        gone = {*ruling.beaten, *ruling.tied}
        racing = [design for k, design in enumerate(racing) if k not in gone]
        if len(racing) == 1:
            return racing[0]
    raise AssertionError("the race does not end")


def wins(design: int, means: Sequence[float], scatter: float = 0.1) -> float:
    """The share of races that a design wins."""
    rng = random.Random(24)
    return sum(raced(means, scatter, rng) == design for _ in range(RACES)) / RACES


@pytest.mark.parametrize("count", [2, 3, 4])
def test_of_equal_designs_the_simplest_wins(count: int) -> None:
    assert wins(0, [1.0] * count) >= 0.95


@pytest.mark.parametrize(
    ("means", "scatter", "share"),
    [([1, 0.9], 0.1, 0.6), ([1, 0.9], 0.03, 0.99), ([1, 0.8], 0.1, 0.95), ([1, 1, 0.55], 0.1, 1.0)],
)
def test_a_faster_one_is_found_in_most_races(
    means: list[float], scatter: float, share: float
) -> None:
    assert wins(len(means) - 1, means, scatter) >= share


def test_a_slower_one_never_wins() -> None:
    assert wins(1, [1.0, 1.1]) <= 0.01
    assert wins(2, [1.0, 0.55, 0.81]) == 0


@given(st.lists(st.sampled_from([0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0]), min_size=1, max_size=8))
def test_the_chance_is_that_of_all_signs(ratios: list[float]) -> None:
    """Every assignment of signs to the distances is one of 2^n equal cases."""
    distances = [max(ratio, 1 / ratio) - 1 for ratio in ratios]
    rank = [sum((other < d) + (other == d) / 2 for other in distances) + 0.5 for d in distances]
    seen = sum(r for r, ratio in zip(rank, ratios, strict=True) if ratio >= 1)
    sums = [
        sum(r for r, against in zip(rank, signs, strict=True) if against)
        for signs in product((False, True), repeat=len(ratios))
    ]
    assert chance_of(ratios) == sum(total <= seen for total in sums) / len(sums)


times = st.floats(min_value=1e3, max_value=1e9)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=MOST))
def test_only_one_of_two_is_faster_and_units_are_no_matter(
    pairs: list[tuple[float, float]],
) -> None:
    mine, theirs = ([Run(pair[k]) for pair in pairs] for k in (0, 1))
    assert not verdict(mine, theirs) == verdict(theirs, mine) == "separated"
    double = [[Run(2 * run.time) for run in runs] for runs in (mine, theirs)]
    assert verdict(*double) == verdict(mine, theirs)


def test_the_smallest_gain_that_runs_could_have_shown_is_shown_by_such_runs() -> None:
    rng = random.Random(5)
    noise = [exp(rng.gauss(0, 0.03)) for _ in range(12)]
    rival = [Run(1.0)] * 12
    gain = least_gain([Run(n) for n in noise], rival)
    assert 0.01 < gain < 0.04 and least_gain([Run(1.3 * n) for n in noise], rival) == gain
    middle = sorted(noise)[5:7]
    for other, separated in ((gain + 0.001, True), (gain - 0.002, False)):
        better = [Run(n / (sum(middle) / 2) * (1 - other)) for n in noise]
        assert (verdict(better, rival) == "separated") == separated
    assert least_gain([Run(1.0)] * 3, [Run(1.0)] * 3) == pytest.approx(1 - 1 / FAR)


def test_clear_cases_take_few_rounds() -> None:
    fast, slow = Run(1.0), Run(FAR)
    assert verdict([fast] * (LEAST - 1), [slow] * (LEAST - 1)) == "go on"
    assert verdict([fast] * LEAST, [slow] * LEAST) == "separated"
    assert verdict([slow] * LEAST, [fast] * LEAST) == "tie"


@settings(max_examples=50)
@given(st.floats(0.0, 0.6), st.floats(0.1, 0.9))
def test_more_of_a_busy_machine_is_no_lead(delayed: float, share: float) -> None:
    """A design that is faster only because other programs left it more of the cores."""
    plain = Run(1 / (1 - delayed), delayed)
    less = delayed * share
    threads = Run(1 / (1 - less), less)
    for rounds in range(1, MOST + 1):
        assert verdict([threads] * rounds, [plain] * rounds) != "separated"


def test_a_machine_that_says_it_gave_nothing_is_no_fault() -> None:
    """Shares come from boards, which may say anything."""
    for delayed in (1.0, 7.0):
        assert verdict([Run(1.0, delayed)] * MOST, [Run(1.0)] * MOST) == "tie"
        assert verdict([Run(1.0)] * MOST, [Run(1.0, delayed)] * MOST) == "tie"


# -- the contest -----------------------------------------------------------------------------------
class Machine:
    """Runs that take seconds of a clock of their own; times of designs by name, a function of the
    number of the run or one number."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, seconds: float = 1.0, **times: float
    ) -> None:
        self.now, self._seconds, self._times = 0.0, seconds, times
        self.order: list[str] = []
        self.latencies: dict[str, float] = {}
        self.interrupt_at = self.fail_at = 10**9
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (budgets, contests):
            monkeypatch.setattr(module, "time", clock)

    def __call__(self, mapping: Mapping) -> Measurement:
        if len(self.order) >= self.interrupt_at:
            raise KeyboardInterrupt
        self.order.append(mapping.search)
        self.now += self._seconds
        if len(self.order) >= self.fail_at and mapping.search != "one core":
            raise Errors([Diagnostic("F606", "it crashed", None)])
        latency = self.latencies.get(mapping.search)
        latencies = {} if latency is None else {"A": latency}
        return Measurement({"A": self._times[mapping.search]}, latencies)


def entered(machine: Callable[[Mapping], Measurement], budget: Budget, *plain: str) -> Contest:
    """A contest of three designs, from simple to complex; some of them plain."""
    contest = Contest(machine, "throughput", budget, None)
    names = ("one core", "in turn", "stages")
    designs = [Design(n, Mapping("p", (), (), n), 1.0, {}, n in plain) for n in names]
    contest.enter_all((design, True) for design in designs)
    return contest


def runs_of(contest: Contest) -> dict[str, int]:
    return {entry.design.name: len(entry.values) for entry in contest.entries}


def name_of(entry: ContestEntry) -> str:
    return entry.design.name


def test_the_leader_is_separated_from_each_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.6, "stages": 0.55})
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "stages" and contest.decision == "separated"
    runs = runs_of(contest)
    assert runs["one core"] == 1 + LEAST and runs["stages"] == runs["in turn"] > 1 + LEAST
    assert all(entry.contestant.runs == len(entry.values) for entry in contest.entries)
    # in turns, and the order turns around
    assert machine.order[3:9] == ["stages", "in turn", "one core", "one core", "in turn", "stages"]


def test_a_tie_goes_to_the_simpler_one(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.999, "stages": 0.998})
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "one core" and contest.decision == "tie"


@pytest.mark.parametrize(
    ("latencies", "winner", "decision"),
    [
        ((2.0, 6.0, 1.0), "stages", "lower latency"),
        ((2.0, 6.0, 1.9), "one core", "tie"),  # nearly equal
        ((2.0, 1.0, 0.95), "in turn", "lower latency"),  # and of equal ones the simpler
        ((2.0, 6.0), "one core", "tie"),  # one is unknown
    ],
)
def test_a_tie_goes_to_the_lower_latency(
    monkeypatch: pytest.MonkeyPatch, latencies: tuple[float, ...], winner: str, decision: str
) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.999, "stages": 1.001})
    machine.latencies = dict(zip(("one core", "in turn", "stages"), latencies, strict=False))
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert (name_of(contest.decide()), contest.decision) == (winner, decision)


def test_a_lower_latency_does_not_make_up_for_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.6, "stages": 0.55})
    machine.latencies = {"one core": 1.0, "in turn": 2.0, "stages": 3.0}
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "stages" and contest.decision == "separated"


@pytest.mark.parametrize("budget", [Budget(12), Budget(60, evaluations=12)])
def test_a_budget_that_ends_before_answers_with_the_best_plain_way(
    monkeypatch: pytest.MonkeyPatch, budget: Budget
) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.6, "stages": 0.55})
    contest = entered(machine, budget, "one core", "in turn")
    assert name_of(contest.decide()) == "in turn" and contest.decision == "out of budget"
    assert contest.runs <= 12
    told = auto.decided(contest.decision)
    assert told.startswith("undecided: ") and "best so far" not in told, "it may be behind others"


@pytest.mark.parametrize(("share", "winner"), [(0.97, "one core"), (0.9, "in turn")])
def test_at_the_end_of_the_budget_the_lower_latency_wins_among_nearly_equal_ones(
    monkeypatch: pytest.MonkeyPatch, share: float, winner: str
) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": share, "stages": 0.85})
    machine.latencies = {"one core": 1.0, "in turn": 2.0, "stages": 3.0}
    contest = entered(machine, Budget(60, evaluations=9), "one core", "in turn")
    assert name_of(contest.decide()) == winner and contest.decision == "out of budget"


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0])
def test_the_budget_is_kept_whatever_a_run_takes(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Half of it is for the race; a run that has begun before that is finished."""
    machine = Machine(monkeypatch, seconds, **{"one core": 1.0, "in turn": 0.9, "stages": 0.85})
    contest = entered(machine, Budget(25), "one core", "in turn")
    for k in range(20):
        contest.enter(Design("in turn", Mapping("p", (), (), "in turn"), 1.0 + k, {}))
    assert machine.now < 25 * (1 - RACE) + seconds
    contest.decide()
    assert machine.now <= 25


@pytest.mark.parametrize("after", [3, 4, 6])
def test_ctrl_c_in_the_race_answers_with_the_best_plain_way(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.6, "stages": 0.55})
    machine.interrupt_at = after
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "in turn" and contest.decision == "out of budget"


def test_a_design_that_fails_in_the_race_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, **{"one core": 1.0, "in turn": 0.6, "stages": 0.55})
    machine.fail_at = 4
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "one core" and contest.decision == ""


def test_a_plain_way_that_is_far_behind_does_not_race(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, **{"one core": 3.0, "in turn": 0.6, "stages": 0.55})
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "stages" and runs_of(contest)["one core"] == 1
    # but there is a race: one run is no proof
    machine = Machine(monkeypatch, **{"one core": 3.0, "in turn": 0.6, "stages": 3.0})
    contest = entered(machine, Budget(60), "one core", "in turn")
    assert name_of(contest.decide()) == "in turn" and contest.decision == "separated"
    assert runs_of(contest)["in turn"] == 1 + LEAST
