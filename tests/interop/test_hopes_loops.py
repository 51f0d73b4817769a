"""Loops of HOPES: firings as HOPES counts them, tokens for all turns or for each, and rates that
fit the firings."""

from __future__ import annotations

import random
import tempfile
from math import gcd
from pathlib import Path

import flowc
import pytest
from flowc.driver.text.check import Checked
from flowc.interop.hopes import importer as hopes
from flowc.interop.hopes.counts import counts_of
from flowc.interop.hopes.design import every
from flowc.interop.hopes.files import HopesCollector, locate
from flowc.interop.hopes.tasks import graph_of
from flowc.model.diagnostic import Errors
from hypothesis import given, settings
from hypothesis import strategies as st

from hopes_xml import composite, level, port_map, task


def maps(*found: str) -> str:
    return f"<portMap_list>{''.join(found)}</portMap_list>"


def alone(name: str, ins: str, outs: str, kind: str, count: int, how: str = "normal") -> str:
    """A loop that is one task."""
    ports = [port_map("In", p.split(":")[0], kind=how) for p in ins.split()]
    ports += [port_map("Out", p.split(":")[0]) for p in outs.split()]
    return task(name, ins, outs, maps(*ports), LoopType=kind, LoopCount=str(count))


def imported(folder: Path) -> tuple[hopes.ImportedProject, Checked]:
    found = hopes.read(folder, "deep")
    path = folder / "deep.flow"
    path.write_text(found.text)
    return found, flowc.check(path)


def firings(checked: Checked) -> dict[str, int]:
    (verdicts,) = checked.verdicts.values()
    arrows = {t.name for a in checked.system.apps for t in a.tasks if t.resampling is not None}
    return {
        name.partition(".")[2]: n for name, n in verdicts.repetition.items() if name not in arrows
    }


def arrows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "->" in line]


def test_turns_with_tokens_of_their_own(tmp_path: Path) -> None:
    """A DATA loop whose graph runs 25 times takes 2 of 50 tokens each time; nothing has to be
    said."""
    files = tmp_path / "Deep.files"
    loop = composite("IL", "IL/CICTask/task.xml", "in:4:50", "out:4:25", "in:X:in:distributing", "out:Z:out",
                     LoopType="DATA", LoopCount="25")  # fmt: skip
    level(
        files / "CICTask",
        [task("S", "", "out:4:50"), loop, task("D", "in:4:25")],
        "S.out>IL.in",
        "IL.out>D.in",
    )
    level(
        files / "IL/CICTask",
        [task("X", "in:4:2", "out:4:1"), task("Z", "in:4:1", "out:4:1")],
        "X.out>Z.in",
    )
    found, checked = imported(tmp_path)
    assert checked.diagnostics == () and firings(checked) == {
        "S": 1,
        "IL.X": 25,
        "IL.Z": 25,
        "D": 1,
    }
    assert arrows(found.text) == ["input -> X -> Z -> output", "S -> IL -> D"]
    assert not [w for w in found.warnings if "rates and loops" in w.message]


def test_rates_that_contradict_a_loop_give_way(tmp_path: Path) -> None:
    """The count of the loop stays, as in HOPES: 25 turns of two firings of X, though 50 tokens are
    for 12.5 turns."""
    files = tmp_path / "Deep.files"
    loop = composite("IL", "IL/CICTask/task.xml", "in:4:50", "out:4:25", "in:X:in:distributing", "out:Z:out",
                     LoopType="DATA", LoopCount="25")  # fmt: skip
    level(
        files / "CICTask",
        [task("S", "", "out:4:50"), loop, task("D", "in:4:25")],
        "S.out>IL.in",
        "IL.out>D.in",
    )
    level(
        files / "IL/CICTask",
        [task("X", "in:4:2", "out:4:1"), task("Z", "in:4:2", "out:4:1")],
        "X.out>Z.in",
    )
    found, checked = imported(tmp_path)
    assert checked.diagnostics == () and firings(checked) == {
        "S": 1,
        "IL.X": 50,
        "IL.Z": 25,
        "D": 1,
    }
    (told,) = (w.message for w in found.warnings if "rates and loops" in w.message)
    assert told == "by its rates and loops `S.out` makes 50 tokens where `X.in` reads 100"
    assert "task S { out output: uint8[4] rate 100 }" in found.text


def test_turns_that_read_the_same(tmp_path: Path) -> None:
    files = tmp_path / "Deep.files"
    tasks = [task("S", "", "a:8:3 b:4:4"), task("D", "in:4:4")]
    loop = task("L", "a:8:3 b:4:4", "out:4:4", maps(port_map("In", "a", kind="broadcasting"),
                port_map("In", "b", kind="distributing"), port_map("Out", "out")), LoopType="DATA", LoopCount="4")  # fmt: skip
    level(files / "CICTask", [*tasks, loop], "S.a>L.a", "S.b>L.b", "L.out>D.in")
    found, checked = imported(tmp_path)
    assert checked.diagnostics == () and firings(checked) == {"S": 1, "D": 1, "L": 4}
    assert arrows(found.text) == ["S.a -> repeat 4 of 3 -> L.a", "S.b -> L.b", "L -> D"]


def test_a_loop_that_converges(tmp_path: Path) -> None:
    """All turns read the same input, the last one's output goes on, and what leads back begins with
    zeros."""
    files = tmp_path / "Deep.files"
    loop = composite("Loop", "Loop/CICTask/task.xml", "in:40:1", "out:40:1", "in:First:in:broadcasting", "out:Last:out:broadcasting",
                     LoopType="CONVERGENT", LoopCount="99")  # fmt: skip
    level(
        files / "CICTask",
        [task("S", "", "out:40:1"), loop, task("D", "in:40:1")],
        "S.out>Loop.in",
        "Loop.out>D.in",
    )
    inside = [
        task("First", "in:40:1 back:40:1", "out:40:1"),
        alone("Part", "in:40:1", "out:10:4", "DATA", 4, "broadcasting"),
        task("Last", "in:10:4", "out:40:1 back:40:1"),
    ]
    level(
        files / "Loop/CICTask",
        inside,
        "First.out>Part.in",
        "Part.out>Last.in",
        "Last.back>First.back",
    )
    found, checked = imported(tmp_path)
    assert checked.diagnostics == ()
    assert firings(checked) == {"S": 1, "Loop.First": 99, "Loop.Part": 396, "Loop.Last": 99, "D": 1}
    assert arrows(found.text) == [
        "input -> repeat 99 -> First.input",
        "First -> repeat 4 -> Part -> port_last.input"
        if "port_last:" in found.text
        else "First -> repeat 4 -> Part -> Last",
        "Last.back -> delay 1 -> First.back",
        "Last.output -> last 99 -> output",
        "S -> Loop -> D",
    ]
    told = [w.message for w in found.warnings]
    assert "`Loop`: the loop may end before its 99 turns in HOPES; here it runs all of them" in told
    assert (
        "`Last.back`: it closes a cycle without initial tokens: it gets zeros for one turn" in told
    )


def test_initial_tokens_are_samples(tmp_path: Path) -> None:
    files = tmp_path / "Deep.files"
    tasks = [task("A", "back:12:2", "out:4:1"), task("B", "in:4:1", "back:12:1")]
    level(files / "CICTask", tasks, "A.out>B.in", "B.back>A.back+36")
    with pytest.raises(Errors, match="do not balance"):
        imported(tmp_path)
    tasks = [task("A", "back:12:2", "out:4:2"), task("B", "in:4:1", "back:12:1")]
    files = tmp_path / "more/Deep.files"
    level(files / "CICTask", tasks, "A.out>B.in", "B.back>A.back+36")
    found, checked = imported(tmp_path / "more")
    assert checked.diagnostics == () and firings(checked) == {"A": 1, "B": 2}
    assert arrows(found.text) == ["A -> B -> delay 3 -> A"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"LoopType": "DATA", "LoopCount": "0"},
            "the loop count of `L` is 0: it has to be at least 1",
        ),
        (
            {"LoopType": "DATA", "LoopCount": "1e3"},
            "the loop count of `L` is `1e3`, which is not a whole number",
        ),
        ({"LoopType": "DATA"}, "the loop count of `L` is ``, which is not a whole number"),
        ({"LoopType": "WHILE", "LoopCount": "2"}, "`L` is a loop of type `WHILE`"),
        (
            {"LoopType": "DATA", "LoopCount": "3"},
            "`L.in` moves 4 tokens in the 3 turns of its loop",
        ),
    ],
)
def test_faults_of_loops(tmp_path: Path, words: dict[str, str], message: str) -> None:
    files = tmp_path / "Deep.files"
    tasks = [task("S", "", "out:4:4"), task("L", "in:4:4", "", **words)]
    level(files / "CICTask", tasks, "S.out>L.in")
    with pytest.raises(Errors) as raised:
        imported(tmp_path)
    assert [d.message for d in raised.value.diagnostics][:1] == [message]
    assert all(
        d.code == "F721" and d.span is not None and d.help is not None
        for d in raised.value.diagnostics
    )


def test_a_direction_that_is_none(tmp_path: Path) -> None:
    loop = composite("C", "C/CICTask/task.xml", "in:4:1", "", "in:X:in")
    for said, right in (("OUT", False), ("IN", True), ("input", True), ("sideways", False)):
        folder = tmp_path / said / "Deep.files"
        changed = loop.replace('direction="In"', f'direction="{said}"')
        level(folder / "CICTask", [task("S", "", "out:4:1"), changed], "S.out>C.in")
        level(folder / "C/CICTask", [task("X", "in:4:1")])
        if right:
            assert imported(tmp_path / said)[1].diagnostics == ()
            continue
        with pytest.raises(Errors) as raised:
            imported(tmp_path / said)
        wanted = (
            "`C` has no output `in`" if said == "OUT" else "a port map has the direction `sideways`"
        )
        assert wanted in [d.message for d in raised.value.diagnostics]


def test_what_flowc_does_not_know_is_named(tmp_path: Path) -> None:
    files = tmp_path / "Deep.files"
    level(
        files / "CICTask", [task("S", "", "out:4:1", Gain="3"), task("D", "in:4:1")], "S.out>D.in"
    )
    path = files / "CICTask/task.xml"
    path.write_text(
        path.read_text().replace('<channel src_task="S"', '<channel colour="red" src_task="S"')
    )
    found, _ = imported(tmp_path)
    told = [w.message for w in found.warnings]
    assert "`channel colour`: flowc does not know this attribute: it is left out" in told
    assert "`S (`Gain`)`: parameters of a task are not imported" in told


@pytest.mark.parametrize(("size", "enough"), [(3, False), (4, True)])
def test_a_channel_that_is_too_small_for_any_order_is_named(
    tmp_path: Path, size: int, enough: bool
) -> None:
    files = tmp_path / "Deep.files"
    level(files / "CICTask", [task("S", "", "out:4:2"), task("D", "in:4:3")], "S.out>D.in")
    path = files / "CICTask/task.xml"
    path.write_text(
        path.read_text().replace('dst_port="in"/>', f'dst_port="in" size="{size}" sampleSize="4"/>')
    )
    found, checked = imported(tmp_path)
    told = [w.message for w in found.warnings if "has room for" in w.message]
    room = "`S.out`: its channel has room for 3 tokens, and fewer than 4 deadlock"
    assert checked.ok and told == ([] if enough else [room])


# -- any nest of loops -----------------------------------------------------------------------------
def times(port: str, turns: int) -> str:
    """The port of a loop that is one task: tokens for all of its turns."""
    name, _, rate = port.rpartition(":")
    return f"{name}:{int(rate) * turns}" if port else ""


def nest(rng: random.Random, files: Path, folder: str, depth: int, ends: bool) -> None:
    """A chain of tasks and loops with any rates; `ends`: it has an input and an output of its
    own."""
    tasks, channels, count = [], [], rng.randint(2, 3)
    for k in range(count):
        first, last = k == 0 and not ends, k == count - 1 and not ends
        ins = "" if first else f"in:4:{rng.randint(1, 4)}"
        outs = "" if last else f"out:4:{rng.randint(1, 4)}"
        name, turns = f"T{k}", rng.randint(1, 4)
        kind, how = (
            rng.choice(("DATA", "CONVERGENT")),
            rng.choice(("broadcasting", "distributing", "normal")),
        )
        shape = rng.random()
        if shape < 0.4 and ins and outs and depth:
            inner = f"{folder}/{name}" if folder else name
            tasks.append(composite(name, f"{inner}/CICTask/task.xml", ins, outs, f"in:T0:in:{how}", "out:T9:out",
                                   LoopType=kind, LoopCount=str(turns)))  # fmt: skip
            nest(rng, files, inner, depth - 1, True)
        elif shape < 0.7:
            tasks.append(alone(name, times(ins, turns), times(outs, turns), kind, turns, how))
        else:
            tasks.append(task(name, ins, outs))
        channels += [f"T{k - 1}.out>{name}.in"] if k else []
    if ends:
        tasks = [t.replace(f'name="T{count - 1}"', 'name="T9"', 1) for t in tasks]
        channels = [c.replace(f">T{count - 1}.", ">T9.") for c in channels]
    level(files / folder / "CICTask", tasks, *channels)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_texts_have_the_firings_of_any_nest_of_loops(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nest(random.Random(seed), folder / "Deep.files", "", 2, False)
        graph = graph_of(locate(folder), HopesCollector())
        assert graph is not None
        counts = counts_of(graph, HopesCollector())
        leaves = {".".join(w): counts.total[w] for w, t in every(graph).items() if t.graph is None}
        _, checked = imported(folder)
        assert not [d for d in checked.diagnostics if d.severity == "error"]
        found = firings(checked)
        # An iteration of flowc may be a part of that of HOPES: the ratios are the same.
        parts, wanted = gcd(*found.values()), gcd(*leaves.values())
        assert {n: k // parts for n, k in found.items()} == {
            n: k // wanted for n, k in leaves.items()
        }
