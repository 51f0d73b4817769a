"""Stretches of memory with known lives in one arena: where each begins, so that the arena is as
small as can be found.

In: sizes with the first and the last moment of their lives. Out: offsets, their end, and a bound
below which no placement gets. Four quick rules come first (they reach the bound for most networks);
then, as far as it is asked for, hill climbing, and OR-Tools' CP-SAT, where it is installed, which
may prove that there is nothing better.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

#: Items up to which the exact search is worth starting.
MOST_EXACT = 400
#: Pairs of items that hill climbing looks at in a second.
STEPS = 3_000_000


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """So many bytes, in use from the moment `first` to the moment `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: MemoryBlock) -> bool:
        """Are both in use at some moment?"""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class PlacedBlocks:
    """`offsets` in the order of the items, all below `total`; no placement has less than `bound`.
    `by` says how."""

    offsets: tuple[int, ...]
    total: int
    bound: int
    by: str

    @property
    def proved(self) -> bool:
        """Is there nothing better?"""
        return self.total == self.bound


def live_set(items: Iterable[MemoryBlock]) -> int:
    """The most bytes that are in use at one moment: a bound on every placement."""
    changes: dict[int, int] = {}
    for item in items:
        changes[item.first] = changes.get(item.first, 0) + item.size
        changes[item.last + 1] = changes.get(item.last + 1, 0) - item.size
    most = now = 0
    for _, change in sorted(changes.items()):
        now += change
        most = max(most, now)
    return most


def place(items: Sequence[MemoryBlock], *, seconds: float = 0.0, seed: int = 0) -> PlacedBlocks:
    """The best placement found: quick rules, then for about `seconds` each hill climbing and the
    exact search.

    Both count steps, so that the same items have the same placement wherever that is done.
    """
    bound = live_set(items)
    best = PlacedBlocks((), 0, bound, "nothing to place")
    for name, order in _orders(items) if items else ():
        offsets, total = in_order(items, order)
        if not best.offsets or total < best.total:
            best = PlacedBlocks(offsets, total, bound, name)
        if best.proved:
            break
    if seconds > 0 and not best.proved:
        best = _climbed(items, best, int(seconds * STEPS / len(items) ** 2), random.Random(seed))
    if seconds > 0 and not best.proved and len(items) <= MOST_EXACT:
        best = _exact(items, best, seconds)
    return best


def in_order(items: Sequence[MemoryBlock], order: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Each item, in turn, into the smallest gap that takes it among those that are placed; offsets
    and their end."""
    offsets = [0] * len(items)
    # begin, end, and life, from the first byte to the last
    placed: list[tuple[int, int, int, int]] = []
    end = 0
    for k in order:
        item = items[k]
        size, first, last = item.size, item.first, item.last
        free, gap, at_gap = 0, None, -1
        for at, upto, begin, until in placed:
            if begin > last or until < first:
                continue
            if at - free >= size and (gap is None or at - free < gap):
                gap, at_gap = at - free, free
            if upto > free:
                free = upto
        at = free if gap is None else at_gap
        offsets[k] = at
        insort(placed, (at, at + size, first, last))
        end = max(end, at + size)
    return tuple(offsets), end


def _by_size(items: Sequence[MemoryBlock]) -> list[int]:
    return sorted(range(len(items)), key=lambda k: (-items[k].size, items[k].first))


def _orders(items: Sequence[MemoryBlock]) -> Iterator[tuple[str, Iterable[int]]]:
    """Quick rules by name, each worked out when it is asked for."""
    numbers = range(len(items))
    yield "greedy by size", _by_size(items)

    def breadth(moment: int) -> int:
        return sum(i.size for i in items if i.first <= moment <= i.last)

    moments = sorted({i.first for i in items}, key=breadth, reverse=True)
    largest = sorted(numbers, key=lambda k: -items[k].size)
    order: dict[int, None] = {}
    for m in moments:
        order.update(dict.fromkeys(k for k in largest if items[k].first <= m <= items[k].last))
    yield "greedy by breadth", order
    lengths = [i.last - i.first + 1 for i in items]
    yield "greedy by area", sorted(numbers, key=lambda k: -items[k].size * lengths[k])
    yield "greedy by length", sorted(numbers, key=lambda k: (-lengths[k], -items[k].size))


def _climbed(
    items: Sequence[MemoryBlock], best: PlacedBlocks, tries: int, rng: random.Random
) -> PlacedBlocks:
    """Bring forward an item at the top, again and again, and keep what is not worse."""
    order = _by_size(items)
    offsets, total = in_order(items, order)
    for _ in range(tries):
        if best.proved:
            break
        top = [k for k, at in enumerate(offsets) if at + items[k].size == total]
        changed = list(order)
        moved = rng.choice(top)
        changed.remove(moved)
        changed.insert(rng.randrange(len(order)), moved)
        tried, height = in_order(items, changed)
        if height <= total:
            order, offsets, total = changed, tried, height
        if total < best.total:
            best = PlacedBlocks(offsets, total, best.bound, "hill climbing")
    return best


def _exact(items: Sequence[MemoryBlock], best: PlacedBlocks, seconds: float) -> PlacedBlocks:
    """CP-SAT on rectangles of life and place; where it ends, what it has is the least there is."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return best
    unit = reduce(gcd, (i.size for i in items))
    most = best.total // unit
    model = cp_model.CpModel()
    top = model.new_int_var(best.bound // unit, most, "top")
    places, lives, stretches = [], [], []
    for item in items:
        size = item.size // unit
        at = model.new_int_var(0, most - size, "")
        model.add(at + size <= top)
        places.append(at)
        lives.append(model.new_fixed_size_interval_var(item.first, item.last - item.first + 1, ""))
        stretches.append(model.new_fixed_size_interval_var(at, size, ""))
    model.add_no_overlap_2d(lives, stretches)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    bound = max(best.bound, int(-(-solver.best_objective_bound // 1)) * unit)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        total = int(solver.objective_value) * unit
        if total < best.total:
            offsets = tuple(solver.value(p) * unit for p in places)
            return PlacedBlocks(offsets, total, bound, "CP-SAT")
    return PlacedBlocks(best.offsets, best.total, min(bound, best.total), best.by)
