"""The best variants of states, against all choices there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection

import pytest
from flowc.search.variants import Choice, Judged, most_accurate
from hypothesis import given, settings
from hypothesis import strategies as st


class Mappings:
    """Which choices keep the deadlines of which states, and what was asked."""

    def __init__(self, late: dict[tuple[int, ...], set[str]]) -> None:
        self.late, self.asked = late, list[tuple[int, ...]]()

    def judge(self, choice: Choice, lower: Collection[str], left: int) -> Judged[tuple[int, ...]]:
        key = tuple(choice.values())
        self.asked.append(key)
        assert left >= 0 and set(lower) <= set(choice)
        return Judged(key, dict.fromkeys(self.late[key], f"late with {key}"))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_states_that_do_not_disturb_each_other_get_the_best_there_is(seed: int) -> None:
    rng = random.Random(seed)
    counts = {state: rng.randint(1, 4) for state in "abc"[: rng.randint(1, 3)]}
    good = {state: {k for k in range(n) if rng.random() < 0.5} for state, n in counts.items()}
    hopeless = {
        (s, k): "never"
        for s, n in counts.items()
        for k in range(n)
        if k not in good[s] and rng.random() < 0.4
    }
    every = itertools.product(*map(range, counts.values()))
    mappings = Mappings(
        {key: {s for s, k in zip(counts, key, strict=True) if k not in good[s]} for key in every}
    )
    found = most_accurate(counts, hopeless, mappings.judge)
    assert found.kept == all(good.values())
    for state, own in good.items():
        if own:
            assert found.choice[state] == min(own)
    told = [(r.state, r.option) for r in found.refused]
    assert told == [(s, k) for s in sorted(counts) for k in range(found.choice[s])]
    assert all(r.proved == ((r.state, r.option) in hopeless) for r in found.refused)
    assert len(set(mappings.asked)) == len(mappings.asked)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_no_state_alone_could_be_better_whatever_depends_on_what(seed: int) -> None:
    rng = random.Random(seed)
    counts = {state: rng.randint(1, 3) for state in "abc"}
    every = list(itertools.product(*map(range, counts.values())))
    late = {key: {s for s in counts if rng.random() < 0.3} for key in every}
    mappings = Mappings(late)
    found = most_accurate(counts, {}, mappings.judge)
    key = tuple(found.choice.values())
    assert found.found == key and found.kept == (not late[key])
    assert len(mappings.asked) <= 4 * len(every)
    for n, state in enumerate(counts):
        for option in range(key[n]) if found.kept else ():
            assert late[(*key[:n], option, *key[n + 1 :])], f"{state} could have {option}"


def test_what_was_late_beside_others_is_tried_again() -> None:
    """Both are late at first; as soon as one of them has less to do, the other need not."""
    late = {(0, 0): {"a", "b"}, (1, 1): set(), (0, 1): set(), (1, 0): {"b"}}
    found = most_accurate({"a": 2, "b": 2}, {}, Mappings(late).judge)  # type: ignore[arg-type]
    assert found.choice == {"a": 0, "b": 1} and found.kept
    assert [(r.state, r.option, r.proved) for r in found.refused] == [("b", 0, False)]


@pytest.mark.parametrize("hopeless", [{}, {("a", 0): "never", ("a", 1): "never"}])
def test_where_nothing_is_in_time_the_last_one_counts(hopeless: dict[tuple[str, int], str]) -> None:
    found = most_accurate({"a": 2}, hopeless, Mappings({(0,): {"a"}, (1,): {"a"}}).judge)
    assert found.choice == {"a": 1} and not found.kept and len(found.refused) == 1
