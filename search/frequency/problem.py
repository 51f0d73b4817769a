"""Clock rates of a state: what each costs, and whether deadlines are kept.

In: the clock domains of a platform with the mean power that a state takes in each at each of its
rates, and a test. Out: for the searches, what a combination of rates takes, and an answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

#: The position of the rate of each domain, slowest first.
Levels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """What shares a clock: the rates that may be chosen, slowest first, and the mean power in watts
    at each."""

    name: str
    kind: str
    hz: tuple[Fraction, ...]
    watts: tuple[Fraction, ...]


def _never(levels: Levels) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ClockProblem:
    """`holds`: is every deadline kept at these levels? `base_w` watts takes the board beside its
    domains.

    `surely_late` tells some of the levels at which none is, in no time and without any doubt.
    """

    domains: tuple[Domain, ...]
    base_w: Fraction
    holds: Callable[[Levels], bool]
    surely_late: Callable[[Levels], bool] = _never

    @property
    def highest(self) -> Levels:
        """Everything as fast as it can."""
        return tuple(len(d.hz) - 1 for d in self.domains)

    @property
    def combinations(self) -> int:
        """How many there are."""
        count = 1
        for domain in self.domains:
            count *= len(domain.hz)
        return count

    def watts(self, levels: Levels) -> Fraction:
        """The mean power at these levels."""
        return self.base_w + sum(d.watts[k] for d, k in zip(self.domains, levels, strict=True))

    def cheapest_first(self) -> Iterator[Levels]:
        """All combinations by what they take, faster ones first among equals.

        Powers of domains add up: so the next one is one step away from one that was there, and few
        are looked at.
        """
        orders = [_cheapest_first(domain) for domain in self.domains]

        def entry(ranks: Levels) -> tuple[Fraction, tuple[int, ...], Levels]:
            levels = tuple(order[r] for order, r in zip(orders, ranks, strict=True))
            return self.watts(levels), tuple(-k for k in levels), ranks

        first = (0,) * len(orders)
        heap, seen = [entry(first)], {first}
        while heap:
            _, negated, ranks = heapq.heappop(heap)
            yield tuple(-k for k in negated)
            for n, rank in enumerate(ranks):
                following = (*ranks[:n], rank + 1, *ranks[n + 1 :])
                if rank + 1 < len(orders[n]) and following not in seen:
                    seen.add(following)
                    heapq.heappush(heap, entry(following))


@dataclass(frozen=True, slots=True)
class Clocks:
    """An answer: `levels` is None where not even the highest rates keep every deadline.

    `witnesses` are levels at which some deadline is not kept; a `proved` answer is the cheapest
    combination that is in some domain faster than each of them, or cheaper still. `whole`: every
    cheaper one was tested. `tests` says how often deadlines were looked at.
    """

    levels: Levels | None
    watts: Fraction | None
    tests: int
    proved: bool = False
    witnesses: tuple[Levels, ...] = ()
    whole: bool = False


def _cheapest_first(domain: Domain) -> list[int]:
    """Positions of the domain's rates by their power, faster ones first among equals."""
    return sorted(range(len(domain.hz)), key=lambda k: (domain.watts[k], -k))
