"""Clock rates of a state: the power at each, and a test of its deadlines.

In: the clock domains of a platform with the mean power of a state in each domain at each of its
rates, and a function that tests deadlines. Out, for the searches: the power of a combination of
rates, and the type of answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

#: The position of the rate of each domain, slowest first.
Levels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Processors with a common clock: the possible rates, slowest first, and the mean power in
    watts at each."""

    name: str
    kind: str
    hz: tuple[Fraction, ...]
    watts: tuple[Fraction, ...]


def _never(levels: Levels) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ClockProblem:
    """`holds` tests whether every deadline is met at some levels. `base_w` is the power of the
    board without its domains, in watts.

    `surely_late` is a quick test: where it is true, a deadline is missed at these levels.
    """

    domains: tuple[Domain, ...]
    base_w: Fraction
    holds: Callable[[Levels], bool]
    surely_late: Callable[[Levels], bool] = _never

    @property
    def highest(self) -> Levels:
        """The highest rate of every domain."""
        return tuple(len(d.hz) - 1 for d in self.domains)

    @property
    def combinations(self) -> int:
        """The number of combinations of rates."""
        return prod(len(domain.hz) for domain in self.domains)

    def watts(self, levels: Levels) -> Fraction:
        """The mean power at these levels."""
        return self.base_w + sum(d.watts[k] for d, k in zip(self.domains, levels, strict=True))

    def cheapest_first(self) -> Iterator[Levels]:
        """All combinations by increasing power, faster ones first among equals.

        Powers of domains add up: so the next combination is one step away from an earlier one, and
        few are compared.
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
class FrequencyPlan:
    """An answer: `levels` is None if the highest rates miss a deadline.

    `witnesses` are levels at which some deadline is missed; a `proved` answer has the least power
    of the combinations that are in some domain faster than each of them, or less. `whole`: all
    combinations with less power were tested. `tests` is the number of tests of deadlines.
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
