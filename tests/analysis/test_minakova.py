"""Algorithms 8 to 10 of Minakova's thesis, with the answers of its tables, and where they are
wrong."""

from __future__ import annotations

import random

import pytest
from flowc.analysis.minakova import Buffer, BufferedEdge, Reduced, algorithm8, algorithm9, selected
from flowc.analysis.placement import MemoryBlock, live_set, place
from flowc.networks.dataflow.reduced import derived, reduction

from minakova_examples import CNN1, EDGES_BY_PARTS, PIPELINE, PIPELINED_EDGES, WHOLE_EDGES


def total(buffers: tuple[Buffer, ...]) -> int:
    """Elements of all."""
    return sum(b.size for b in buffers)


def test_the_tables_of_the_thesis() -> None:
    """6.2 and 6.3, buffer by buffer; 6.1 adds up to more than it says (51446)."""
    assert sum(e.size for e in WHOLE_EDGES) == 51466
    assert [b.size for b in algorithm8(WHOLE_EDGES, PIPELINE)] == [8192, 8192, 8192, 10]
    assert sorted(b.size for b in algorithm8(EDGES_BY_PARTS, PIPELINE)) == [256, 3072, 8192, 8192]
    assert (
        total(algorithm8(WHOLE_EDGES, PIPELINE)),
        total(algorithm8(EDGES_BY_PARTS, PIPELINE)),
    ) == (
        24586,
        19712,
    )


def test_the_answer_depends_on_the_order_of_the_edges() -> None:
    """By a third."""
    rng = random.Random(0)
    for edges, least, most in ((WHOLE_EDGES, 24586, 32768), (EDGES_BY_PARTS, 19712, 28928)):
        found = {total(algorithm8(rng.sample(edges, len(edges)), PIPELINE)) for _ in range(2000)}
        assert (min(found), max(found)) == (least, most)


@pytest.mark.parametrize(("edges", "least"), [(WHOLE_EDGES, 24576), (EDGES_BY_PARTS, 15626)])
def test_offsets_in_one_arena_need_less(edges: tuple[BufferedEdge, ...], least: int) -> None:
    """Where the tensor of e23 and e24 is there once, and what alternates between parts is alive all
    the time."""
    one = [e for e in edges if e.part == 1 and e.name != "e23^1"]
    items = [MemoryBlock(e.size, e.first, e.last) for e in one]
    # The pipeline runs when the first CNN does not, and its two parts together.
    end = max(e.last for e in one)
    items += [MemoryBlock(e.size, end + 1, end + 2) for e in PIPELINED_EDGES]
    placed = place(items, seconds=0.5)
    assert placed.proved and placed.total == live_set(items)
    assert placed.total == least < total(algorithm8(edges, PIPELINE))


def test_alternating_copies_are_overwritten() -> None:
    """Part 2 hands over to part 3: with copies in turn, the last layer finds the next frame;
    copied, all is well."""
    edges = [BufferedEdge("e12", 2, 100, 1, 2), BufferedEdge("e23(1)", 2, 100, 2, 2), BufferedEdge("e23(2)", 3, 100, 1, 1),
             BufferedEdge("e34", 3, 50, 1, 2), BufferedEdge("e45", 3, 100, 2, 3)]  # fmt: skip
    buffers = algorithm8(edges, PIPELINE)
    where = {e.name: k for k, b in enumerate(buffers) for e in b.edges}
    assert where["e23(2)"] == where["e45"]

    def wrong(alternating: bool) -> list[int]:
        """Frames of which a layer reads something else."""
        there: dict[int, tuple[str, int]] = {}
        found = []

        def write(name: str, frame: int) -> None:
            there[where[name]] = name, frame

        def read(name: str, frame: int) -> None:
            if there.get(where[name]) != (name, frame):
                found.append(frame)

        for k in range(6):  # part 2 works on frame k, part 3 on the one before
            written = f"e23({1 + k % 2})" if alternating else "e23(1)"
            taken = f"e23({1 + (k - 1) % 2})" if alternating else "e23(2)"
            if not alternating and k:
                read("e23(1)", k - 1)
                write("e23(2)", k - 1)
            for step in (1, 2, 3):
                if k and step < 3:
                    read(taken if step == 1 else "e34", k - 1)
                    write("e34" if step == 1 else "e45", k - 1)
                if step == 1:
                    write("e12", k)
                elif step == 2:
                    read("e12", k)
                    write(written, k)
                elif k:
                    read("e45", k - 1)
        return found

    assert not wrong(alternating=False)
    assert wrong(alternating=True) == [0, 2, 4]


@pytest.mark.parametrize(("chosen", "sizes", "shared"), [
    ((), [3072, 8192, 8192, 8192, 8192], 24586),
    (("l3", "l4", "l5"), [3072, 8192, 8192, 256, 256], 19712),
])  # fmt: skip
def test_algorithm_10_derives_the_buffers_of_the_tables(
    chosen: tuple[str, ...], sizes: list[int], shared: int
) -> None:
    """With least capacities and the schedule that keeps them."""
    edges, steps = derived(CNN1, chosen, 1)
    assert [e.size for e in edges] == sizes
    assert steps == (5 if not chosen else 2 + 3 * 32)
    assert total(algorithm8([*edges, *PIPELINED_EDGES], PIPELINE)) == shared


def test_algorithm_9_takes_the_least_memory_though_the_tables_do_not() -> None:
    """Under 20000 elements Table 6.3 has 19712; all of CNN1 by parts takes less, in more steps."""

    def evaluate(chosen: tuple[bool, ...]) -> Reduced:
        names = [x.name for x, bit in zip(CNN1.layers, chosen, strict=True) if bit]
        edges, steps = derived(CNN1, names, 1)
        return Reduced(
            chosen, total(algorithm8([*edges, *PIPELINED_EDGES], PIPELINE)), (float(steps),)
        )

    def found(limit: int, printed: bool) -> Reduced:
        rng = random.Random(0)
        return algorithm9(
            5, evaluate, limit, (1e9,), rng, population=12, generations=6, printed=printed
        )

    assert found(25000, True).chosen == (False,) * 5, "nothing by parts is enough"
    least, meant = found(20000, True), found(20000, False)
    assert least.memory < 19712 and meant.memory <= 20000
    assert meant.times < least.times
    assert found(10, True) == least, "not within the limit, and nothing is reported"


def test_algorithm_9_begins_with_all_by_parts() -> None:
    """After two looks it knows the answer that needs least, which random ones seldom are."""
    looked = []

    def evaluate(chosen: tuple[bool, ...]) -> Reduced:
        looked.append(chosen)
        return Reduced(chosen, 100 - sum(chosen), (1.0 + sum(chosen),))

    rng = random.Random(0)
    found = algorithm9(60, evaluate, 10, (1e9,), rng, enough=lambda: len(looked) > 1)
    assert found.memory == 40 and looked[:2] == [(False,) * 60, (True,) * 60]


def test_selection_by_table_6_6() -> None:
    """Under 15 MB the table has 14.98 MB at 41 fps; line 14 would take 14.90 MB at 40.5."""
    front = [
        Reduced((), int(1e6 * mb), (1 / fps,))
        for mb, fps in ((20.32, 46), (14.98, 41), (14.90, 40.5))
    ]
    limit = 15_000_000
    assert selected(front, limit, (1.0,)).memory == 14_900_000
    assert selected(front, limit, (1.0,), printed=False).memory == 14_980_000
    assert selected(front, limit, (1 / 43,)).memory == 14_900_000, "line 16"


def test_all_of_it_for_a_network() -> None:
    """Sums of edges, shared buffers, and the least that the genetic search has found until it was
    enough."""
    quick = reduction(CNN1)
    assert (quick.edges, quick.whole, quick.least) == (3 * 32 + 4 * 256, 24586 - 10, None)
    assert quick.parts <= quick.edges and quick.steps == 5 * 32
    asked = []

    def enough(looks: int) -> bool:
        asked.append(looks)
        return len(asked) > 40

    found = reduction(CNN1, enough)
    assert found.least is not None and found.least.memory <= found.parts < found.whole
    assert 1 < found.looks <= 41 and found.chosen == sum(found.least.chosen)
