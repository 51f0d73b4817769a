"""Which data a firing depends on, held against tokens that carry what they were made of."""

from __future__ import annotations

import random
from fractions import Fraction

import flowc
import pytest
from flowc.analysis.dataflow.dependence import DependencePath, arrivals, bursts, newest, paths
from flowc.analysis.dataflow.repetition import repetition
from flowc.model.application import Application
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from builds import Write


def carried(
    app: Application, vector: dict[str, int], source: str, iterations: int
) -> dict[str, list[int | None]]:
    """For every firing of every task the newest firing of the source that something it has read was
    made of."""
    waiting: dict[str, list[int | None]] = {c.name: [None] * c.delay for c in app.channels}
    found: dict[str, list[int | None]] = {t.name: [] for t in app.tasks}
    moved = True
    while moved:
        moved = False
        for t in app.tasks:
            k = len(found[t.name])
            ins = [c for c in app.channels if c.destination == t.name]
            needs = {c.name: t.port(c.destination_port).rate(k) for c in ins}
            if k == iterations * vector[t.name] or any(
                len(waiting[c.name]) < needs[c.name] for c in ins
            ):
                continue
            read: list[int | None] = [found[t.name][-1]] if k and t.name != source else []
            for c in ins:
                read += waiting[c.name][: needs[c.name]]
                del waiting[c.name][: needs[c.name]]
            mark = k if t.name == source else max((x for x in read if x is not None), default=None)
            found[t.name].append(mark)
            for c in app.channels:
                if c.source == t.name:
                    waiting[c.name] += [mark] * t.port(c.source_port).rate(k)
            moved = True
    return found


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_the_newest_data_behind_each_firing(seed: int) -> None:
    app, _ = graphs.consistent(random.Random(seed))
    vector = repetition(app).vector
    sources = [t.name for t in app.tasks if not t.inputs]
    if not sources or not graphs.iterates(app, vector):
        return
    source = sources[0]
    iterations = 12
    wanted = carried(app, vector, source, iterations)
    found = newest(app, vector, source)
    assert source not in found
    for name, offsets in found.items():
        # Initial tokens are gone after some iterations: from then on the numbers repeat.
        last = wanted[name][(iterations - 1) * vector[name] :]
        assert last == [(iterations - 1) * vector[source] + n for n in offsets] or None in last
    reached = {n for n, marks in wanted.items() if marks[-1] is not None and n != source}
    assert reached <= found.keys()


def test_sound_in_chunks() -> None:
    """512 samples at once, windows of 160: what the second decision depends on is not what the
    first one waits for."""
    tasks = [
        graphs.task("A.mic", {}, {"x": [512]}),
        graphs.task("A.frame", {"x": [160]}, {"y": [1]}),
        graphs.task("A.net", {"y": [8]}, {"p": [1]}),
        graphs.task("A.log", {"p": [1]}, {}),
    ]
    arrows = [
        ("A.mic", "x", "A.frame", "x", 0),
        ("A.frame", "y", "A.net", "y", 0),
        ("A.net", "p", "A.log", "p", 0),
    ]
    app = graphs.app(tasks, arrows)
    vector = repetition(app).vector
    assert vector == {"A.mic": 5, "A.frame": 16, "A.net": 2, "A.log": 2}
    found = newest(app, vector, "A.mic")
    assert found["A.log"] == (2, 4)
    assert found["A.frame"][:4] == (0, 0, 0, 1)
    assert arrivals(app, vector)["A.net"] == (Fraction(2, 5), Fraction(4, 5))
    assert paths(app, vector) == (DependencePath("A.mic", "A.log", (2, 4), None),)
    late = graphs.app(tasks, [*arrows[:1], ("A.frame", "y", "A.net", "y", 24), arrows[2]])
    assert newest(late, vector, "A.mic")["A.log"] == (-6, -3)


def fired_with(app: Application, vector: dict[str, int], source: str, task: str) -> list[int]:
    """How often a task fires with each further firing of the source, when all else fires as soon as
    it can."""
    waiting = {c.name: c.delay for c in app.channels}
    fired = dict.fromkeys(vector, 0)
    found = []
    for allowed in range(1, 4 * vector[source] + 1):
        before, moved = fired[task], True
        while moved:
            moved = False
            for t in app.tasks:
                k = fired[t.name]
                ins = [c for c in app.channels if c.destination == t.name]
                needs = {c.name: t.port(c.destination_port).rate(k) for c in ins}
                most = allowed if t.name == source else 4 * vector[t.name]
                if k == most or any(waiting[n] < need for n, need in needs.items()):
                    continue
                for name, need in needs.items():
                    waiting[name] -= need
                for c in app.channels:
                    if c.source == t.name:
                        waiting[c.name] += t.port(c.source_port).rate(k)
                fired[t.name], moved = k + 1, True
        found.append(fired[task] - before)
    return found


def test_a_burst_is_one_however_soon_everything_fires() -> None:
    seen = 0
    for seed in range(150):
        app, _ = graphs.consistent(random.Random(seed))
        vector = repetition(app).vector
        sources = [t.name for t in app.tasks if not t.inputs]
        if not sources or not graphs.iterates(app, vector):
            continue
        for burst in bursts(app, vector, sources[0]):
            assert max(fired_with(app, vector, sources[0], burst.task)) >= burst.times > 1
            seen += 1
    assert seen > 5


CASCADE = """
task Sense { out v: float64 }   task Outer { in y: float64   out w: float64 }   task Act { in u: float64 }
task Inner { in r: float64   in y: float64   out u: float64 }
app A {
    deadline 1 ms from sense to act   sense: Sense every 1 ms   outer: Outer   inner: Inner   act: Act
    sense -> last 10 -> outer -> repeat 10 -> inner.r   sense -> inner.y   inner -> act
}
"""


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        ("", "", "up to 9 ms"),
        ("deadline 1 ms", "deadline 8999 us", "up to 9 ms"),
        ("deadline 1 ms", "deadline 9 ms", ""),  # the oldest data keep it, too
        ("-> last", "-> delay 9 -> last", ""),
        ("-> last", "-> delay 4 -> last", "up to 5 ms"),
        ("-> inner.y", "-> delay 10 -> inner.y", "up to 9 ms"),
        ("from sense to act", "from sense to outer", ""),  # before the burst
        ("repeat 10 -> inner.r   sense -> inner.y", "repeat 10 -> inner.r, inner.y", ""),
    ],
)
def test_a_cascade_that_fires_in_bursts_is_told(
    write: Write, old: str, new: str, waits: str
) -> None:
    checked = flowc.check(write(CASCADE.replace(old, new, 1) if old else CASCADE))
    told = [d.message for d in checked.diagnostics if d.code == "F230"]
    assert checked.ok and [waits in message for message in told] == [True] * bool(waits)
