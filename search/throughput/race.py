"""The race at the end of a search: which of a few designs is the answer, and how sure that is.

In: the runs of the designs that are left, one number for each run, round by round. Out: which of
them leave the race after this round. It runs nothing itself (`contest` does).

A program is fast or slow for a whole run, as threads and memory happen to be placed, so a run is
one sample, however many frames it had. The speed of a machine drifts, so runs of the same round are
compared: an exact test of signed ranks (Wilcoxon).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Literal

#: Rounds after which clear cases are decided: a design takes `FAR` times as long in all of them, or
#: a challenger has won none of them.
LEAST, FAR = 3, 1.4
#: The chance of such a lead between equal designs, up to which they are separated; rivals share it.
#: It is computed after every round, so the simplest of equal designs loses more races than that: 2
#: to 6 in 100.
LEVEL = 0.016
#: The chance above which there is no lead, and the rounds before this counts.
NO_LEAD, SOME = 0.4, 5
#: Rounds after which a lead that is not certain is none.
MOST = 24
#: Medians that differ by less than this share are equal.
EQUAL = 0.005
#: By how much the smallest gain that runs could have shown is wrong at most.
FINE = 0.0005
#: A larger share of a run without a core is not believed.
MOST_DELAYED = 0.95

Verdict = Literal["separated", "tie", "go on"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run in a process of its own: a time, and the share of the run in which its threads were
    ready but other programs had the cores."""

    time: float
    delayed: float = 0.0

    @property
    def alone(self) -> float:
        """The time that it would have taken on an idle machine.

        A program with more threads gets more of a machine that other programs use too, which says
        nothing of the program.
        """
        return self.time * (1 - min(self.delayed, MOST_DELAYED))


@dataclass(frozen=True, slots=True)
class Ruling:
    """The designs that leave the race after the rounds so far, by their positions: they are beaten,
    or a simpler one has a tie with them."""

    beaten: tuple[int, ...]
    tied: tuple[int, ...]


def rule(designs: Sequence[Sequence[Run]], among: int) -> Ruling:
    """The ruling over designs sorted from simple to complex, with a run of each in each round;
    `among` is the number of designs at the start.

    The leader has the least median. A more complex design leaves if it is not about to be better
    than the leader; the leader leaves if it is not better than a simpler one.
    """
    medians = [median(run.time for run in runs) for runs in designs]
    leader = medians.index(min(medians))
    level = LEVEL / max(1, among - 1)
    beaten = []
    tied = []
    for position, runs in enumerate(designs):
        if position == leader:
            continue
        if verdict(designs[leader], runs, level) == "separated":
            beaten.append(position)
        elif position > leader and verdict(runs, designs[leader], level) == "tie":
            tied.append(position)
        elif position < leader and verdict(designs[leader], runs, level) == "tie":
            tied.append(leader)
    return Ruling(tuple(beaten), tuple(dict.fromkeys(tied)))


def verdict(challenger: Sequence[Run], rival: Sequence[Run], level: float = LEVEL) -> Verdict:
    """Is the challenger faster than its rival, by the times of the runs and by those without the
    delays of other programs?"""
    rounds = min(len(challenger), len(rival))
    pairs = list(zip(challenger, rival, strict=False))
    by_time = [mine.time / theirs.time for mine, theirs in pairs]
    by_work = [mine.alone / theirs.alone for mine, theirs in pairs]
    if rounds < LEAST:
        return "go on"
    if all(max(ratios) <= 1 / FAR for ratios in (by_time, by_work)):
        return "separated"
    chance = max(chance_of(by_time), chance_of(by_work))
    gain = 1 - max(median(by_time), median(by_work))
    if chance <= level and gain > EQUAL:
        return "separated"
    won_none = min(by_time) >= 1
    no_lead = rounds >= SOME and (chance > NO_LEAD or gain <= EQUAL)
    if won_none or no_lead or rounds >= MOST:
        return "tie"
    return "go on"


def chance_of(ratios: Sequence[float]) -> float:
    """The chance that equal designs have ratios at least as far below 1 as these: the exact
    one-sided test of signed ranks.

    Of equal designs each ratio is as often above 1 as below it, at the same distance.
    """
    distances = [max(ratio, 1 / ratio) - 1 for ratio in ratios]
    ranks = _twice_the_ranks(distances)
    against = sum(rank for rank, ratio in zip(ranks, ratios, strict=True) if ratio >= 1)
    ways = Counter({0: 1})
    for rank in ranks:
        ways += Counter({total + rank: count for total, count in ways.items()})
    as_far = sum(count for total, count in ways.items() if total <= against)
    return float(Fraction(as_far, 2 ** len(ranks)))


def least_gain(challenger: Sequence[Run], rival: Sequence[Run], level: float = LEVEL) -> float:
    """The smallest gain of a challenger that runs which scatter like these would have shown."""
    ratios = [mine.time / theirs.time for mine, theirs in zip(challenger, rival, strict=False)]
    middle = median(ratios)
    least, most = EQUAL, 1 - 1 / FAR
    while most - least > FINE:
        gain = (least + most) / 2
        if chance_of([ratio / middle * (1 - gain) for ratio in ratios]) <= level:
            most = gain
        else:
            least = gain
    return most


def _twice_the_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, so that the mean rank of equal ones is whole."""
    below = [sum(other < value for other in values) for value in values]
    equal = [sum(other == value for other in values) for value in values]
    return [2 * b + e + 1 for b, e in zip(below, equal, strict=True)]
