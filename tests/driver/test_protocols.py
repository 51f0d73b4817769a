"""How a mapped scenario changes states: with the next frame where the slower of both keeps all
deadlines."""

from __future__ import annotations

import random
from pathlib import Path

import flowc
import pytest
from flowc.analysis.timing.system import TimedTask
from flowc.driver.plan.protocols import _longer
from flowc.model.diagnostic import Errors
from flowc.model.workload import is_curve, workload
from hypothesis import given
from hypothesis import strategies as st

from builds import Write
from models import N, save, weights

TEXT = """
task Camera { out x: float32[1, 8]   wcet 1 ms   python "code.py:camera" }
task Show { in y: float32[1, 4]   wcet 1 ms   python "code.py:show" }
network See {
    out y
    variant slow from "net.onnx"
    variant quick from "net.onnx"
}
app A { period 20 ms   camera: Camera   see: See   show: Show   camera -> see -> show }
app B { period 40 ms   camera: Camera   work: Show2   camera -> work }
task Show2 { in y: float32[1, 8]   wcet 2 ms   python "code.py:show" }
scenario S {
    event go
    initial state one { run A, B }
    state two { run A, B   A.see = quick }
    state three { run A, B period 80 ms   A.see = quick }
    one -> two on go   two -> one on go at once   one -> three after 1 s   three -> one on go
}
platform duo { cpu core[2] }
mapping on duo {
    A.see.slow -> core[1] wcet SLOW ms   A.see.quick -> core[1] wcet 3 ms
    A.camera -> core[0]   A.show -> core[0]   B.camera -> core[0]   B.work -> core[0]
}
"""
#: The same functions in C.
IN_C = """
int camera(void *state, float *x, const void *p) { return 0; }
int show(void *state, const float *y, const void *p) { return 0; }
"""
CODE = "import numpy as np\ndef camera(): return np.ones((1, 8), np.float32)\ndef show(y): pass\n"


@pytest.fixture
def text(write: Write, tmp_path: Path) -> Path:
    save(
        tmp_path / "net.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, 8]},
        {"w": weights(8, 4)},
        "y",
    )
    return write(TEXT.replace("SLOW", "6"), code_py=CODE)


def changes(text: Path, native: bool) -> dict[tuple[str, str], tuple[str, float | None]]:
    found = flowc.map(text, platform="duo", budget=0.3, measure=False, native=native)
    return {
        (t.source, t.target): (t.protocol, None if t.delay_ns is None else t.delay_ns / 1e6)
        for t in found.mapping.transitions
    }


@pytest.mark.parametrize("native", [False, True])
def test_the_next_frame_is_the_next_state_where_deadlines_hold(text: Path, native: bool) -> None:
    if native:
        (text.parent / "code.c").write_text(IN_C)
        text.write_text(text.read_text().replace('python "code.py', 'c "code.c'))
    found = changes(text, native)
    assert {pair: protocol for pair, (protocol, _) in found.items()} == {
        ("one", "two"): "next", ("two", "one"): "at once", ("one", "three"): "idle", ("three", "one"): "idle",
    }  # fmt: skip
    follow, again = found["one", "two"][1], found["two", "one"][1]
    # A period of the slower app and its longest response; at once, both networks in one frame.
    assert follow is not None and again is not None and 40 <= follow < again < 40 + 40


def test_two_networks_in_one_frame_may_be_too_much(text: Path) -> None:
    text.write_text(TEXT.replace("SLOW", "14"))
    found = flowc.map(text, platform="duo", budget=0.3, measure=False)
    assert [d.code for d in found.diagnostics if d.code == "F811"] == ["F811"]
    told = next(d for d in found.diagnostics if d.code == "F811")
    assert told.severity == "warning" and "A" in told.message
    by_pair = {(t.source, t.target): t for t in found.mapping.transitions}
    assert by_pair["two", "one"].delay_ns is None and by_pair["two", "one"].protocol == "at once"
    assert by_pair["one", "two"].protocol == "next"


def test_different_places_forbid_at_once(text: Path) -> None:
    text.write_text(
        TEXT.replace("SLOW", "6").replace("A.see.quick -> core[1]", "A.see.quick -> core[0]")
    )
    with pytest.raises(Errors) as told:
        flowc.map(text, platform="duo", budget=0.3, measure=False)
    assert [d.code for d in told.value.diagnostics] == ["F811"]
    assert "different processors" in told.value.diagnostics[0].message


@given(
    st.lists(st.integers(1, 50), min_size=8, max_size=40),
    st.lists(st.integers(1, 50), min_size=8, max_size=40),
)
def test_firings_of_two_variants_take_no_more_than_said(a: list[int], b: list[int]) -> None:
    """However they lie between each other; at once, a frame may take both."""
    one, two = (
        TimedTask(name, "core", (max(times),), curve=workload(times))
        for name, times in (("n.a", a), ("n.b", b))
    )
    follow, again = _longer(one, two, "next").curve, _longer(one, two, "at once").curve
    assert follow is not None and again is not None
    rng, left = random.Random(len(a)), [list(a), list(b)]
    mixed = []
    while any(left):
        mixed.append(rng.choice([own for own in left if own]).pop(0))
    twice = [x + y for x, y in zip(a, b, strict=False)]
    for curve, times in ((follow, mixed), (again, twice)):
        assert is_curve(curve.totals)
        for count in range(1, len(times) + 1):
            assert max(
                sum(times[k : k + count]) for k in range(len(times) - count + 1)
            ) <= curve.total(count)
