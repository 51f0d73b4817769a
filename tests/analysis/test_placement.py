"""Placement in one arena: nothing overlaps, quick rules against the exact search, and both against
brute force."""

from __future__ import annotations

from itertools import permutations

import pytest
from flowc.analysis.placement import MemoryBlock, PlacedBlocks, in_order, live_set, place
from hypothesis import given, settings
from hypothesis import strategies as st


def sound(items: list[MemoryBlock], placed: PlacedBlocks) -> bool:
    """Does nothing overlap, and does everything end below the total, which is not below the
    bound?"""
    ends = [at + i.size for at, i in zip(placed.offsets, items, strict=True)]
    apart = all(
        not a.meets(b) or placed.offsets[k] >= ends[j] or placed.offsets[j] >= ends[k]
        for k, a in enumerate(items)
        for j, b in enumerate(items[:k])
    )
    return (
        apart
        and max(ends, default=0) == placed.total >= placed.bound
        and min(placed.offsets, default=0) >= 0
    )


def least(items: list[MemoryBlock]) -> int:
    """Every order, each item as low as it goes: one of them is the best placement there is."""
    best = sum(i.size for i in items)
    for order in permutations(range(len(items))):
        at: dict[int, int] = {}
        for k in order:
            places = [0, *(at[j] + items[j].size for j in at)]
            at[k] = min(
                p
                for p in places
                if all(
                    not items[k].meets(items[j])
                    or p + items[k].size <= at[j]
                    or at[j] + items[j].size <= p
                    for j in at
                )
            )
        best = min(best, max(at[k] + i.size for k, i in enumerate(items)))
    return best


LIVES = st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(0, 3)).map(
    lambda t: MemoryBlock(t[0], t[1], t[1] + t[2])
)


@given(st.lists(LIVES, max_size=25))
def test_quick_rules_are_sound(items: list[MemoryBlock]) -> None:
    """And not below the live set, which is counted moment by moment here."""
    placed = place(items)
    assert sound(items, placed)
    assert live_set(items) == max(
        (sum(i.size for i in items if i.first <= t <= i.last) for t in range(10)), default=0
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(LIVES, min_size=1, max_size=6))
def test_the_exact_search_finds_the_least(items: list[MemoryBlock]) -> None:
    """As brute force does."""
    placed = place(items, seconds=0.2)
    assert sound(items, placed) and placed.total == least(items)
    assert placed.proved


def test_where_no_quick_rule_reaches_the_bound() -> None:
    """The exact search proves what hill climbing may not find."""
    items = [
        MemoryBlock(*t)
        for t in (
            (6, 0, 1),
            (4, 1, 3),
            (3, 2, 4),
            (5, 3, 5),
            (2, 0, 2),
            (4, 4, 6),
            (3, 5, 7),
            (6, 6, 7),
        )
    ]
    quick, exact = place(items), place(items, seconds=0.5)
    assert sound(items, exact) and exact.total <= quick.total
    assert exact.proved


@pytest.mark.parametrize(("order", "total"), [((0, 1, 2), 12), ((2, 1, 0), 12), ((0, 2, 1), 12)])
def test_the_smallest_gap_is_taken(order: tuple[int, ...], total: int) -> None:
    """Three that meet lie side by side in any order."""
    assert (
        in_order([MemoryBlock(3, 0, 2), MemoryBlock(4, 0, 2), MemoryBlock(5, 0, 2)], order)[1]
        == total
    )


def test_the_parts_of_a_published_example() -> None:
    """Minakova's Table 6.1: edges of two CNNs that take turns.

    Her Algorithm 8 needs 24586 elements, since the tensor that two layers read is there twice;
    stored once, with offsets in one arena, the live set of the first CNN is enough: 24576.
    """
    one = [
        MemoryBlock(8192, 0, 1),
        MemoryBlock(8192, 1, 2),
        MemoryBlock(8192, 1, 3),
        MemoryBlock(256, 3, 4),
        MemoryBlock(10, 4, 4),
    ]
    two = [
        MemoryBlock(8192, 5, 6),
        MemoryBlock(8192, 6, 8),
        MemoryBlock(256, 7, 8),
        MemoryBlock(10, 8, 8),
    ]
    placed = place([*one, *two])
    assert placed.total == placed.bound == 24576
