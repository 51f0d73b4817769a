"""Which data a firing depends on, held against tokens that carry what they were made of."""

from __future__ import annotations

import random
from fractions import Fraction

from flowc.analysis.dataflow.dependence import DependencePath, arrivals, newest, paths
from flowc.analysis.dataflow.repetition import repetition
from flowc.model.application import Application
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs


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
