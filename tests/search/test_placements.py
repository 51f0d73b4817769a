"""What searches for deadlines call proved, a bound or impossible, against every placement
(tests/referees/placements)."""

from __future__ import annotations

from pathlib import Path

import pytest
from flowc.driver.solve.map import find_mapping
from flowc.search.budget import Budget

import placements
from builds import Write

#: Three tasks of which no two fit into a period on one core, and all fit with stages.
THREE = """
task A { out x: int32  python "t.py:one"  wcet 31 ms }
task B { in x: int32 out y: int32  python "t.py:same"  wcet 50 ms }
task C { in y: int32  python "t.py:take"  wcet 30 ms }
platform two { cpu core[2] scheduler fixed_priority }
app App { period 100 ms  deadline 1000 ms  a: A b: B c: C  a -> b -> c }
"""
CODE = "def one(): return 1\ndef same(x): return x\ndef take(y): pass\n"


@pytest.mark.parametrize("seed", [*range(40), 4263])
def test_no_claim_of_a_search_is_false(seed: int, tmp_path: Path) -> None:
    found = placements.tried(seed, ("auto", "exact")[seed % 2], tmp_path, Budget(60), most=50)
    assert not found.faults


@pytest.mark.parametrize("seed", range(30))
def test_no_claim_about_fewer_cores_is_false(seed: int, tmp_path: Path) -> None:
    order = (("cores",), ("utilization", "cores"))[seed % 2]
    assert not placements.tried_on_few_cores(seed, order, tmp_path, Budget(60), most=50).faults


@pytest.mark.parametrize("search", ["auto", "exact"])
def test_work_that_is_split_over_a_period_is_not_ruled_out(write: Write, search: str) -> None:
    found = find_mapping(
        write(THREE, t_py=CODE), platform="two", search=search, measure=False, budget=60
    ).joint
    assert found is not None and found.verdict is not None and found.outcome.proved
    assert found.verdict.feasible and float(found.verdict.maximum) == pytest.approx(0.61)


def test_apps_without_a_common_round_have_bounds(write: Write) -> None:
    """One order of both would have 19,980 iterations: each app has a worker of its own, and they
    share the core."""
    text = """
        task S { out x: int32  wcet 3 ms }
        app G { period 10007 us  s: S }
        app H { period 9973 us  s: S }
        platform board { cpu core scheduler static_order }
    """
    found = find_mapping(write(text), platform="board", measure=False, budget=30).joint
    assert found is not None and found.verdict is not None and found.verdict.feasible
    assert {name: float(ns or 0) for name, ns in found.verdict.worst.groups.items()} == {
        "G": 6e6,
        "H": 6e6,
    }
