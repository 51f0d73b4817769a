"""SDF3 files in and out: the numbers arrive exactly, texts are stable, and files of strangers do no
harm."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import flowc
import pytest
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.repetition import repetition
from flowc.dsl import format as layout
from flowc.dsl import load as loading
from flowc.dsl.parse import Parser
from flowc.interop.names import identifiers, reserved_words
from flowc.interop.sdf3 import importer as sdf3
from flowc.interop.sdf3.sequences import parse, written
from flowc.model.application import Application, Task
from flowc.model.catalogue import CODES
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.types import TensorType
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from builds import in_a_moment

HERE = Path(__file__).resolve().parents[1]
#: Public benchmark graphs as bare numbers: times and rates per phase, initial tokens, self-edges as
#: in their files.
KNOWN: dict[str, dict[str, Any]] = {
    g["name"]: g for g in json.loads((HERE / "data/known_graphs.json").read_text())
}
FEW = settings(max_examples=60)
NUMBER = count()


# -- helpers ---------------------------------------------------------------------------------------
def element(name: str, attributes: Mapping[str, str], *inside: str) -> str:
    words = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{name}{words}>\n{''.join(inside)}</{name}>\n" if inside else f"<{name}{words}/>\n"


def actor(name: str, *ports: tuple[str, str, str]) -> str:
    """Ports are (name, direction, rate)."""
    lines = [element("port", {"name": n, "type": way, "rate": rate}) for n, way, rate in ports]
    return element("actor", {"name": name, "type": "T"}, *lines)


def channel(
    name: str, source: tuple[str, str], destination: tuple[str, str], tokens: str = ""
) -> str:
    ends = {
        "srcActor": source[0],
        "srcPort": source[1],
        "dstActor": destination[0],
        "dstPort": destination[1],
    }
    return element(
        "channel", {"name": name, **ends, **({"initialTokens": tokens} if tokens else {})}
    )


def timed(name: str, *processors: tuple[str, str, bool]) -> str:
    """Processors are (type, time, default)."""
    lines = [
        element("processor", {"type": kind, **({"default": "true"} if default else {})}, element("executionTime", {"time": t}))
        for kind, t, default in processors
    ]  # fmt: skip
    return element("actorProperties", {"actor": name}, *lines)


def sdf(*parts: str, name: str = "g", kind: str = "sdf", properties: Sequence[str] = ()) -> bytes:
    graph = element(kind, {"name": name, "type": "G"}, *parts) if parts else f"<{kind}></{kind}>"
    more = [element(f"{kind}Properties", {}, *properties)] if properties else []
    application = element("applicationGraph", {"name": name}, graph, *more)
    root = element("sdf3", {"type": kind, "version": "1.0"}, application)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + root.encode()


def known(name: str) -> bytes:
    """The file of a known graph, written as SDF3's own files are."""
    graph = KNOWN[name]
    ports: dict[str, list[tuple[str, str, str]]] = {a: [] for a in graph["exec"]}
    channels = []
    for i, (a, b, out, into, tokens) in enumerate(graph["channels"]):
        ports[a].append((f"o{i}", "out", ",".join(map(str, out))))
        ports[b].append((f"i{i}", "in", ",".join(map(str, into))))
        channels.append(channel(f"c{i}", (a, f"o{i}"), (b, f"i{i}"), str(tokens) if tokens else ""))
    properties = [
        timed(a, ("p1", ",".join(map(str, times)), True)) for a, times in graph["exec"].items()
    ]
    actors = [actor(a, *ports[a]) for a in graph["exec"]]
    return sdf(*actors, *channels, name=name, kind=graph["kind"], properties=properties)


def loaded(text: str, folder: Path) -> Application:
    """The only app of a text that has no faults and is laid out as the formatter does."""
    path = folder / f"g{next(NUMBER)}.flow"
    path.write_text(text)
    result = loading.load(path)
    assert result.diagnostics == ()
    assert layout.format_text(str(path), text) == text
    (app,) = result.system.apps
    return app


def loading_faults(text: str) -> Sequence[Diagnostic]:
    """Syntax faults of a text."""
    return Parser().parse("g.flow", text)[1]


def times_of(app: Application) -> dict[str, tuple[Fraction, ...]]:
    return {t.name: t.wcet_ns for t in app.tasks if t.wcet_ns}


def code(text: str) -> list[str]:
    """A text without its comments."""
    return [line for line in text.splitlines() if not line.startswith("//")]


def again(imported: sdf3.ImportedGraph, folder: Path) -> sdf3.ImportedGraph:
    app = loaded(imported.text, folder)
    return sdf3.read("again.xml", sdf3.write(app, times_of(app)).encode())


def faults(data: bytes, **options: str) -> list[tuple[str, str, int]]:
    """Code, message and line of every fault."""
    with pytest.raises(Errors) as raised:
        sdf3.read("bad.xml", data, **options)
    lines = data.decode("utf-8", "replace").split("\n")
    for d in raised.value.diagnostics:
        assert (
            d.code in CODES
            and d.severity == "error"
            and d.span is not None
            and d.span.file == "bad.xml"
        )
        assert (
            1 <= d.span.line <= len(lines) and 1 <= d.span.column <= len(lines[d.span.line - 1]) + 1
        )
    return [(d.code, d.message, d.span.line if d.span else 0) for d in raised.value.diagnostics]


def said(warnings: Sequence[Diagnostic]) -> str:
    assert all((w.code, w.severity) == ("F703", "warning") for w in warnings)
    return "\n".join(w.message for w in warnings)


# -- known graphs ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", KNOWN)
def test_known_graphs_arrive_with_their_numbers(name: str, tmp_path: Path) -> None:
    imported = sdf3.read(f"{name}.xml", known(name))
    app = loaded(imported.text, tmp_path)
    graph = KNOWN[name]
    assert {t.name.partition(".")[2]: list(t.wcet_ns) for t in app.tasks} == graph["exec"]
    serial = {
        a
        for a, b, out, into, tokens in graph["channels"]
        if a == b and {*out, *into, tokens} == {1}
    }
    all_serial = serial == graph["exec"].keys()
    expected = [c for c in graph["channels"] if not (all_serial and c[0] == c[1])]
    arrived = []
    for c in app.channels:
        source, destination = app.task(c.source), app.task(c.destination)
        rates = [
            list(source.port(c.source_port).rates),
            list(destination.port(c.destination_port).rates),
        ]
        arrived.append(
            [c.source.partition(".")[2], c.destination.partition(".")[2], *rates, c.delay]
        )
    assert sorted(arrived) == sorted(
        [
            a,
            b,
            out * (len(graph["exec"][a]) // len(out)),
            into * (len(graph["exec"][b]) // len(into)),
            tokens,
        ]
        for a, b, out, into, tokens in expected
    )
    assert said(imported.warnings) == (
        "" if all_serial else "in SDF3 1 of 4 actors may overlap with itself"
    )
    verdicts, found = check(app)
    assert found == () and verdicts.consistent.holds and verdicts.deadlock_free.holds
    assert again(imported, tmp_path).text.splitlines()[:3] == imported.text.splitlines()[:3]


def test_the_sample_rate_converter_repeats_as_published(tmp_path: Path) -> None:
    app = loaded(sdf3.read("samplerate.xml", known("samplerate")).text, tmp_path)
    assert list(repetition(app).vector.values()) == [147, 147, 98, 28, 32, 160]


def test_a_text_as_it_is_written() -> None:
    data = sdf(
        actor("up", ("in", "in", "2"), ("x y", "out", "3")),
        actor("down", ("i", "in", "1,0,0,0,2"), ("o", "out", "1")),
        actor("task"),
        channel("c", ("up", "x y"), ("down", "i")),
        channel("d", ("down", "o"), ("up", "in"), "4"),
        name="my graph",
        kind="csdf",
        properties=[
            timed("up", ("arm", "0.5", True), ("dsp", "1/3", False)),
            timed("down", ("arm", "2*1,3*2", True)),
        ],
    )
    imported = sdf3.read("folder/my.xml", data)
    assert imported.text == (
        "/// SDF3's port `x y` as `x_y`.\n"
        "task Up { in in rate 2   out x_y rate 3   wcet 0.5 ns }\n"
        "task Down { in i rate [1, 0 for 3, 2]   out o rate [1 for 5]   wcet [1, 1, 2 for 3] ns }\n"
        "/// SDF3's actor `task`.\n"
        "task ActorTask { }\n"
        "\n"
        "/// Imported from `my.xml`, graph `my graph` (SDF3 csdf). Times are ns.\n"
        "/// Execution times are those of processor `arm`; the file also has `dsp`.\n"
        "app MyGraph {\n"
        "    up: Up\n"
        "    down: Down\n"
        "    actor_task: ActorTask\n"
        "\n"
        "    up -> down\n"
        "    down -> delay 4 -> up\n"
        "}\n"
    )
    assert said(imported.warnings) == (
        "`task` has no execution time\nin SDF3 3 of 3 actors may overlap with themselves"
    )
    assert "wcet 1 / 3 ns" in sdf3.read("my.xml", data, "dsp").text


# -- round trips -----------------------------------------------------------------------------------
def numbers(app: Application) -> tuple[Any, ...]:
    """Everything of an app that SDF3 can say; names of tasks and ports included."""
    short = {t.name: t.name.removeprefix(f"{app.name}.") for t in app.tasks}

    def ports(t: Task) -> list[tuple[str, str, tuple[int, ...]]]:
        return [
            (p.name, p.direction, p.rates * (t.phases // len(p.rates)))
            for p in (*t.inputs, *t.outputs)
        ]

    tasks = [
        (short[t.name], ports(t), t.wcet_ns * (t.phases // max(len(t.wcet_ns), 1)))
        for t in app.tasks
    ]
    channels = [
        (short[c.source], c.source_port, short[c.destination], c.destination_port, c.delay)
        for c in app.channels
    ]
    return tasks, sorted(channels)


@FEW
@given(seed=st.integers(0, 2**32), overlap=st.booleans())
def test_random_graphs_survive_the_way_out_and_in(seed: int, overlap: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    graph, _ = graphs.consistent(rng)
    tasks = tuple(
        replace(
            t,
            wcet_ns=tuple(
                Fraction(rng.randint(0, 10**6)) for _ in range(rng.choice((1, t.phases)))
            ),
        )
        for t in graph.tasks
    )
    graph = replace(graph, tasks=tasks)
    first = sdf3.read("g.xml", sdf3.write(graph, times_of(graph), overlap).encode())
    app = loaded(first.text, tmp_path)
    if not overlap or "Self-edges" not in first.text:
        # edges of the graph itself that say nothing more
        assert numbers(app) == numbers(graph)
    assert bool(first.warnings) <= overlap
    assert repetition(app).vector == repetition(graph).vector
    second = again(first, tmp_path)
    assert second.warnings == ()
    assert code(second.text) == code(first.text)
    assert again(second, tmp_path).text == second.text


ODD = st.one_of(
    st.sampled_from(
        [
            *sorted(reserved_words()),
            'a"b',
            "a'b",
            "a<b>&c",
            "ä",
            "日本",
            "",
            " ",
            "a\nb",
            "1",
            "A",
            "a",
            "a_2",
            "-->",
            "{{x}}",
        ]
    ),
    st.text(
        st.characters(min_codepoint=32, codec="utf-8", exclude_characters="\ufffe\uffff"),
        max_size=12,
    ),
)


@FEW
@given(
    name=ODD,
    actors=st.lists(st.tuples(ODD, ODD, ODD), min_size=1, max_size=6, unique_by=lambda a: a[0]),
)
def test_any_name_becomes_a_name(
    name: str, actors: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    parts = [actor(a, (i, "in", "2"), (o, "out", "3")) for a, i, o in actors]
    ring = zip(actors, [*actors[1:], actors[0]], strict=True)
    parts += [channel(f"c{i}", (a[0], a[2]), (b[0], b[1]), str(i)) for i, (a, b) in enumerate(ring)]
    imported = sdf3.read("odd.xml", sdf(*parts, name=name))
    app = loaded(imported.text, tmp_path)
    assert [(t.inputs[0].rates, t.outputs[0].rates) for t in app.tasks] == [((2,), (3,))] * len(
        actors
    )
    tasks = [t.name for t in app.tasks]
    assert [(c.source, c.destination, c.delay) for c in app.channels] == [
        (tasks[i], tasks[(i + 1) % len(tasks)], i) for i in range(len(tasks))
    ]
    short = [t.partition(".")[2] for t in tasks]
    assert len({n.lower() for n in short}) == len(short) and not reserved_words() & set(short)
    assert code(again(imported, tmp_path).text) == code(imported.text)


def test_names_that_can_stay_stay() -> None:
    assert identifiers(["a b", "a_b", "A_B", "a-b", "", "7", "out"], "port", ["out"]) == [
        "a_b_2", "a_b", "A_B_3", "a_b_4", "port", "port_7", "port_out",
    ]  # fmt: skip
    assert identifiers(["p", "p", "p_2"], "port") == ["p", "p_3", "p_2"]


# -- what a file may say ---------------------------------------------------------------------------
A, B = actor("a", ("o", "out", "1")), actor("b", ("i", "in", "1"))
AB = channel("ab", ("a", "o"), ("b", "i"))


@pytest.mark.parametrize(
    ("text", "whole", "expected"),
    [
        ("3", True, "3"),
        (" 1 , 3 ", True, "[1, 3]"),
        ("2*1,3,3*0,0", True, "[1, 1, 3, 0 for 4]"),
        ("1,2,", True, "[1, 2]"),
        ("2.0", True, "2"),
        ("1e3", True, "1000"),
        ("123456789012345678901234567890", True, "123456789012345678901234567890"),
        ("0.25", False, "0.25"),
        (".5,1/3,5.", False, "[0.5, 1 / 3, 5]"),
        ("10/4", False, "2.5"),
    ],
)
def test_lists_of_numbers(text: str, whole: bool, expected: str) -> None:
    assert written(parse(text, whole=whole)) == expected


def test_rates_with_thirty_digits_are_exact(tmp_path: Path) -> None:
    large = 123456789012345678901234567890
    parts = [actor("a", ("o", "out", str(large))), actor("b", ("i", "in", str(large + 1)))]
    app = loaded(
        sdf3.read("g.xml", sdf(*parts, channel("c", ("a", "o"), ("b", "i"), f"{large + 2}"))).text,
        tmp_path,
    )
    assert [p.rates for t in app.tasks for p in (*t.inputs, *t.outputs)] == [(large,), (large + 1,)]
    assert app.channels[0].delay == large + 2
    assert list(repetition(app).vector.values()) == [large + 1, large]


def test_ports_of_several_channels_are_split(tmp_path: Path) -> None:
    parts = [actor("a", ("o", "out", "2")), actor("b", ("i", "in", "1"))]
    parts += [channel("x", ("a", "o"), ("b", "i"), "1"), channel("x", ("a", "o"), ("b", "i"), "3")]
    imported = sdf3.read("g.xml", sdf(*parts))
    app = loaded(imported.text, tmp_path)
    assert [p.rates for t in app.tasks for p in (*t.inputs, *t.outputs)] == [(2,), (2,), (1,), (1,)]
    assert [c.delay for c in app.channels] == [1, 3]
    assert (
        "/// SDF3's port `o` as `o_2`.\ntask A { out o rate 2   out o_2 rate 2 }" in imported.text
    )
    assert code(again(imported, tmp_path).text) == code(imported.text)


def test_an_input_and_an_output_may_share_a_name(tmp_path: Path) -> None:
    data = sdf(
        actor("a", ("p", "in", "1"), ("p", "out", "1")), channel("c", ("a", "p"), ("a", "p"), "2")
    )
    app = loaded(sdf3.read("g.xml", data).text, tmp_path)
    assert [(c.source_port, c.destination_port, c.delay) for c in app.channels] == [("p_2", "p", 2)]


def test_ports_without_channel_are_left_out(tmp_path: Path) -> None:
    data = sdf(
        actor("a", ("o", "out", "1"), ("unused", "in", "3*1")),
        B,
        AB,
        properties=[timed("a", ("p", "5", True)), timed("b", ("p", "1", True))],
    )
    imported = sdf3.read("g.xml", data)
    assert "no channel joins port `a.unused`" in said(imported.warnings)
    first, _ = loaded(imported.text, tmp_path).tasks
    assert first.wcet_ns == (5, 5, 5) and first.outputs[0].rates == (1, 1, 1), (
        "three phases make one cycle"
    )


def serial(name: str, ones: str = "1") -> tuple[tuple[str, str, str], tuple[str, str, str], str]:
    return (
        ("si", "in", ones),
        ("so", "out", ones),
        channel(f"s_{name}", (name, "so"), (name, "si"), "1"),
    )


def test_self_edges_on_all_actors_are_what_flowc_means(tmp_path: Path) -> None:
    si, so, sa = serial("a")
    _, _, sb = serial("b")
    second = channel("twice", ("a", "so"), ("a", "si"), "1")
    both = sdf(
        actor("a", ("o", "out", "1"), si, so),
        actor("b", ("i", "in", "1"), si, so),
        AB,
        sa,
        second,
        sb,
    )
    imported = sdf3.read("g.xml", both)
    app = loaded(imported.text, tmp_path)
    assert [(c.source, c.destination) for c in app.channels] == [("G.a", "G.b"), ("G.a", "G.a")], (
        "one for each actor"
    )
    assert "overlap" not in said(imported.warnings)
    assert "Self-edges" in imported.text
    one = sdf3.read("g.xml", sdf(actor("a", ("o", "out", "1"), si, so), B, AB, sa))
    assert len(loaded(one.text, tmp_path).channels) == 2
    assert "1 of 2 actors may overlap with itself" in said(one.warnings)
    assert "--auto-concurrency" in one.warnings[-1].help


def test_phases_survive_without_the_self_edge(tmp_path: Path) -> None:
    si, so, sa = serial("a", "1,1")
    alone = loaded(sdf3.read("g.xml", sdf(actor("a", si, so), sa, kind="csdf")).text, tmp_path)
    assert alone.tasks[0].phases == 2 and len(alone.channels) == 1
    times = [timed("a", ("p", "7", True))]
    with_time = loaded(
        sdf3.read("g.xml", sdf(actor("a", si, so), sa, kind="csdf", properties=times)).text,
        tmp_path,
    )
    assert with_time.tasks[0].wcet_ns == (7, 7) and with_time.channels == ()


def test_times_of_a_processor() -> None:
    properties = [
        timed("a", ("arm", "1", False), ("dsp", "2", True), ("gpu", "3", True)),
        timed("b", ("arm", "4", False)),
    ]
    data = sdf(A, B, AB, properties=properties)
    imported = sdf3.read("g.xml", data)
    assert "several processors are the default of `a`; the first one counts" in said(
        imported.warnings
    )
    assert re.findall(r"wcet (\d+)", imported.text) == ["2", "4"], (
        "a single processor needs no mark"
    )
    assert "processor `dsp` and `arm`; the file also has `gpu`." in imported.text
    assert re.findall(r"wcet (\d+)", sdf3.read("g.xml", data, "arm").text) == ["1", "4"]
    chosen = sdf3.read("g.xml", data, "dsp")
    assert "`b` has no execution time on processor `dsp`" in said(chosen.warnings)
    assert faults(data, processor="arn") == [("F702", "no actor has a time on processor `arn`", 4)]
    unmarked = sdf(A, B, AB, properties=[timed("a", ("x", "1", False), ("y", "1", False))])
    found = sdf3.read("g.xml", unmarked)
    assert "wcet" not in found.text and "no actor has an execution time" in said(found.warnings)
    assert 'mark one processor `default="true"`' in found.warnings[0].help


def test_what_is_not_imported_is_said() -> None:
    sizes = '<channelProperties channel="ab"><tokenSize sz="8"/><bufferSize sz="4"/></channelProperties>'
    limit = "<graphProperties><timeConstraints><throughput>0.1</throughput></timeConstraints></graphProperties>"
    imported = sdf3.read("g.xml", sdf(A, B, AB, properties=[sizes, limit]))
    assert "buffer sizes and time constraints of the file are not imported" in said(
        imported.warnings
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings_and_prefixes(encoding: str, tmp_path: Path) -> None:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?>'
        + sdf(actor("ü"), name="g").decode().partition("?>")[2]
    )
    text = re.sub("<(/?)(?=[a-z])", r"<\1s:", text).replace("<s:sdf3", '<s:sdf3 xmlns:s="urn:x"')
    app = loaded(sdf3.read("g.xml", text.encode(encoding)).text, tmp_path)
    assert [t.name for t in app.tasks] == ["G.u"]


# -- faults ----------------------------------------------------------------------------------------
FAULTY: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["F701 this is no XML: no element found"]),
    "text": (b"app A { }", ["F701 this is no XML: syntax error"]),
    "open": (b"<sdf3>\n<applicationGraph>", ["F701 this is no XML: no element found"]),
    "entity": (b"<sdf3>&x;</sdf3>", ["F701 this is no XML: undefined entity"]),
    "zeros": (bytes(100), ["F701 this is no XML: not well-formed (invalid token)"]),
    "encoding": (b'<?xml version="1.0" encoding="shift_jis"?><sdf3/>', ["F701 the encoding of this XML is not known"]),
    "unknown encoding": (b'<?xml version="1.0" encoding="what"?><sdf3/>', ["F701 the encoding of this XML is not known"]),
    "deep": (b"<a>" * 10_000, ["F701 more than 64 elements inside each other"]),
    "html": (b"<html><body/></html>", ["F701 the root of this XML is `html`, not `sdf3`"]),
    "settings": (b"<sdf3><settings/></sdf3>", ["F701 this SDF3 file has no `applicationGraph`, but `settings`"]),
    "nothing": (b"<sdf3/>", ["F701 this SDF3 file has no `applicationGraph`, but nothing"]),
    "no graph": (b"<sdf3><applicationGraph/></sdf3>", ["F701 there is no `sdf` or `csdf` graph here, but nothing"]),
    "scenarios": (b'<sdf3 type="fsmsadf"><applicationGraph/></sdf3>', ["F701 scenario-aware graphs are not supported"]),
    "sadf": (b"<sdf3><sadf/></sdf3>", ["F701 scenario-aware graphs are not supported"]),
    "two": (sdf(A).replace(b"</sdf3>", sdf(B).partition(b"1.0\">\n")[2]), ["F702 this file has several graphs"]),
    "no actors": (sdf("\n"), ["F702 this graph has no actors"]),
    "nameless": (b"<sdf3><applicationGraph><sdf><actor/></sdf></applicationGraph></sdf3>", ["F702 this `actor` has no `name`"]),
    "actor twice": (sdf(A, A), ["F702 two actors are called `a`"]),
    "port twice": (sdf(actor("a", ("o", "out", "1"), ("o", "out", "2"))), ["F702 two ports of `a` are called `o`"]),
    "direction": (sdf(actor("a", ("o", "up", "1"))), ["F702 a port is `in` or `out`, not `up`"]),
    "no rate": (sdf(actor("a", ("o", "out", "1"))).replace(b' rate="1"', b""), ["F702 this `port` has no `rate`"]),
    "rate": (sdf(actor("a", ("o", "out", "two"))), ["F702 the rate of port `a.o` holds `two`, which is not a number"]),
    "no number": (sdf(actor("a", ("o", "out", ""))), ["F702 the rate of port `a.o` has an entry without a number"]),
    "phase missing": (sdf(actor("a", ("o", "out", "1,,2"))), ["F702 the rate of port `a.o` has an entry without a number"]),
    "start-up": (sdf(actor("a", ("o", "out", "1;2"))), ["F702 the rate of port `a.o` holds `1;2`, which is not a number"]),
    "negative": (sdf(actor("a", ("o", "out", "1,-2"))), ["F702 the rate of port `a.o` is negative: `-2`"]),
    "half": (sdf(actor("a", ("o", "out", "1.5"))), ["F702 the rate of port `a.o` is not a whole number: `1.5`"]),
    "zero": (sdf(actor("a", ("o", "out", "0,0"))), ["F702 the rate of port `a.o` is 0: it moves nothing"]),
    "repeated": (sdf(actor("a", ("o", "out", "0*1"))), ["F702 the rate of port `a.o` repeats an entry 0 times: `0*1`"]),
    "many phases": (sdf(actor("a", ("o", "out", "999999999*1"))), ["F702 the rate of port `a.o` has more than 100000 phases"]),
    "long": (sdf(actor("a", ("o", "out", "9" * 5000))), ["F702 the rate of port `a.o` holds a number of more than 40 digits"]),
    "large": (sdf(actor("a", ("o", "out", "1e99"))), ["F702 the rate of port `a.o` holds a number of more than 40 digits"]),
    "fraction": (sdf(actor("a", ("o", "out", "1/0"))), ["F702 the rate of port `a.o` divides by 0"]),
    "phases": (
        sdf(actor("a", ("o", "out", "1,2"), ("i", "in", "1"), ("p", "out", "1,2,3")), kind="csdf"),
        ["F702 port `p` of `a` has 3 phases, port `o` has 2"],
    ),
    "time": (sdf(A, properties=[timed("a", ("p", "soon", True))]), ["F702 the execution time of `a` holds `soon`, which is not a number"]),
    "negative time": (sdf(A, properties=[timed("a", ("p", "-1", True))]), ["F702 the execution time of `a` is negative: `-1`"]),
    "time phases": (
        sdf(actor("a", ("o", "out", "1,2")), properties=[timed("a", ("p", "1,2,3", True))]),
        ["F702 the execution time of `a` has 3 phases, port `o` has 2"],
    ),
    "properties": (sdf(A, properties=[timed("aa", ("p", "1", True))]), ["F702 there is no actor `aa`"]),
    "processor": (sdf(A, properties=[timed("a", ("p", "1", True), ("p", "2", False))]), ["F702 actor `a` has processor `p` twice"]),
    "channel": (sdf(A, B, "<channel/>"), [f"F702 this `channel` has no `{n}`" for n in ("srcActor", "srcPort", "dstActor", "dstPort")]),
    "both ends": (sdf(A, B, channel("c", ("x", "o"), ("b", "y"))), ["F702 there is no actor `x`", "F702 there is no input `b.y`"]),
    "backwards": (
        sdf(A, B, channel("c", ("b", "i"), ("a", "o"))),
        ["F702 `b.i` is an input; a channel leads from an output to an input", "F702 `a.o` is an output; a channel leads from an output to an input"],
    ),
    "tokens": (sdf(A, B, channel("c", ("a", "o"), ("b", "i"), "-1")), ["F702 the number of initial tokens of `c` is negative: `-1`"]),
    "token list": (sdf(A, B, channel("c", ("a", "o"), ("b", "i"), "1,2")), ["F702 `c` has a list of initial tokens"]),
    "no second fault": (sdf(actor("a", ("o", "out", "x")), B, AB), ["F702 the rate of port `a.o` holds `x`, which is not a number"]),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTY)
def test_faulty_files_are_explained(what: str) -> None:
    data, expected = FAULTY[what]
    assert [f"{code} {message}" for code, message, _ in faults(data)] == expected


def test_all_faults_are_reported_with_their_lines() -> None:
    data = sdf(
        actor("a", ("o", "out", "-1")),
        actor("b", ("i", "in", "x")),
        channel("c", ("a", "o"), ("z", "i")),
    )
    found = faults(data)
    assert [line for _, _, line in found] == [6, 9, 11]
    assert b'rate="-1"' in data.split(b"\n")[5]


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))
DOCTYPES = {
    "billion laughs": f'<!DOCTYPE sdf3 [<!ENTITY l0 "ha">{LAUGHS}]><sdf3>&l29;</sdf3>',
    "external entity": '<!DOCTYPE sdf3 [<!ENTITY x SYSTEM "file:///etc/passwd">]><sdf3 type="&x;">&x;</sdf3>',
    "external subset": '<!DOCTYPE sdf3 SYSTEM "http://127.0.0.1:9/evil.dtd"><sdf3/>',
    "parameter entity": '<!DOCTYPE sdf3 [<!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;]><sdf3/>',
}


@pytest.mark.parametrize("what", DOCTYPES)
def test_document_types_are_refused_at_once(what: str) -> None:
    with in_a_moment():
        assert faults(b'<?xml version="1.0"?>\n' + DOCTYPES[what].encode()) == [
            ("F701", "this XML has a document type, which is not read", 2)
        ]


def test_a_large_graph_takes_a_moment() -> None:
    n = 5_000
    actors = [actor(f"a{i}", ("i", "in", "1"), ("o", "out", "1")) for i in range(n)]
    ring = [channel(f"c{i}", (f"a{i}", "o"), (f"a{(i + 1) % n}", "i")) for i in range(n)]
    ring += [channel(f"s{i}", (f"a{i}", "o"), (f"a{i}", "i"), "1") for i in range(n)]
    with in_a_moment():
        assert sdf3.read("g.xml", sdf(*actors, *ring)).text.count("->") == n


def test_many_ports_take_a_moment() -> None:
    ports = [
        actor("a", *((f"p{i}", "in", "1") for i in range(10_000))),
        actor("b", *((f"p{i}", "out", "1") for i in range(10_000))),
    ]
    joined = [channel(f"c{i}", ("b", f"p{i}"), ("a", f"p{i}")) for i in range(10_000)]
    with in_a_moment():
        assert sdf3.read("g.xml", sdf(*ports, *joined)).text.count("->") == 10_000


PIECES = re.findall(rb"<[^ >]+|[a-zA-Z]+=|\"[^\"]*\"|[^<]", known("sample"))


@FEW
@given(data=st.data())
def test_a_mutated_file_never_crashes(data: st.DataObject) -> None:
    pieces = list(PIECES)
    for _ in range(data.draw(st.integers(1, 4))):
        at, other = (
            data.draw(st.integers(0, len(pieces) - 1)),
            data.draw(st.integers(0, len(pieces) - 1)),
        )
        match data.draw(st.sampled_from(["delete", "double", "swap", "replace"])):
            case "delete":
                pieces[at] = b""
            case "double":
                pieces[at] += b" " + pieces[at]
            case "swap":
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces[at] = data.draw(
                    st.sampled_from(
                        [b'""', b'"-1"', b'"a0"', b'"0"', b'"1,2,3"', b"rate=", b"&lt;", b"<!--"]
                    )
                )
    try:
        imported = sdf3.read("g.xml", b"".join(pieces))
    except Errors as found:
        assert found.diagnostics and all(d.code in CODES and d.message for d in found.diagnostics)
        return
    assert not any(d.severity == "error" for d in loading_faults(imported.text))


# -- out -------------------------------------------------------------------------------------------
def test_what_an_app_says_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "a.flow"
    path.write_text(
        "task Source { out x: float32[2, 3]   out unread: int8 }\n"
        "/// Waits -- and sees. --\n"
        "task Sink { in x: float32[2, 3] rate [1, 2] }\n"
        "graph Inner { in x: float32[2, 3]   sink[2]: Sink   x -> sink }\n"
        "/// Reads <this> & that.\n"
        "app View {\n period 1 / 3 us   source: Source   inner: Inner   source.x -> delay 2 = 0.5 -> inner }\n"
    )
    (app,) = loading.load(path).system.apps
    times = {"View.source": (Fraction(1, 2),), "View.inner.sink[0]": (Fraction(1, 3), Fraction(4))}
    text = sdf3.write(app, times)
    root = ElementTree.fromstring(text)
    assert root.get("type") == "csdf"
    assert [a.get("name") for a in root.iter("actor")] == [
        "source",
        "inner.sink[0]",
        "inner.sink[1]",
    ]
    assert [(p.get("name"), p.get("rate")) for p in next(root.iter("actor"))] == [
        ("x", "1"), ("x_2", "1"), ("self_in", "1"), ("self_out", "1"),
    ]  # fmt: skip
    assert [c.get("initialTokens") for c in root.iter("channel")] == ["2", "2", "1", "1", "1"]
    assert [c.get("name") for c in root.iter("channel")][2:] == [
        "self_source",
        "self_inner.sink[0]",
        "self_inner.sink[1]",
    ]
    assert {s.get("sz") for s in root.iter("tokenSize")} == {str(6 * 32)}
    assert [t.get("time") for t in root.iter("executionTime")] == ["3", "2,24"]
    comments = re.findall("<!-- (.*) -->", text)
    assert comments == [
        "Reads <this> & that.",
        "Written by flowc. Execution times are in 1/6 ns, since SDF3 has whole numbers only.",
        "The period of an iteration is 1000/3 ns.",
        "Left out, since it has no reader: unread",
        "Waits - - and sees. - -",
        "Waits - - and sees. - -",
    ]
    assert "self_" not in sdf3.write(app, times, overlap=True)
    assert sdf3.write(app, times) == text
    assert len(loaded(sdf3.read("v.xml", text.encode()).text, tmp_path).channels) == 2


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    graph = replace(
        graphs.app([replace(graphs.task("A.t", {}, {}), doc="a\x1bb\ud800")], []), doc='--->"'
    )
    text = sdf3.write(graph, {})
    ElementTree.fromstring(text)
    assert "<!-- a?b? -->" in text and '<!-- - - ->" -->' in text


def test_windows_cannot_be_exported() -> None:
    graph = graphs.app(
        [graphs.task("A.a", {}, {"o": [1]}), graphs.task("A.b", {"i": [1, 1]}, {})],
        [("A.a", "o", "A.b", "i", 0)],
    )
    graph = replace(graph, channels=(replace(graph.channels[0], frees=(0, 2)),))
    with pytest.raises(Errors) as raised:
        sdf3.write(graph, {})
    (fault,) = raised.value.diagnostics
    assert (fault.code, fault.span) == ("F704", graph.channels[0].span) and fault.help


def test_what_a_window_keeps_is_a_comment(tmp_path: Path) -> None:
    app = loaded(
        "task A { out o rate 3 }\ntask B { in i rate 2 window 7 }\napp T { a: A   b: B   a -> b }\n",
        tmp_path,
    )
    text = sdf3.write(app, {})
    assert "<!-- Sees 5 tokens again, which no buffer size here counts: i -->" in text
    assert [
        p.get("rate") for p in ElementTree.fromstring(text).iter("port") if p.get("name") in "oi"
    ] == ["3", "2"]


def test_the_size_of_a_token_is_in_bits() -> None:
    graph = graphs.app(
        [graphs.task("A.a", {}, {"o": [1]}), graphs.task("A.b", {"i": [1]}, {})],
        [("A.a", "o", "A.b", "i", 0)],
    )
    source = graph.tasks[0]
    typed = replace(source, outputs=(replace(source.outputs[0], type=TensorType("int16", (5,))),))
    assert '<tokenSize sz="80"/>' in sdf3.write(replace(graph, tasks=(typed, graph.tasks[1])), {})
    assert "tokenSize" not in sdf3.write(graph, {})


# -- files of other tools --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("m.amxmi", '<?xml version="1.0"?>\n<am:Amalthea xmlns:am="http://app4mc"/>', "AMALTHEA"),
        ("m.xml", "<am:Amalthea/>", "AMALTHEA"),
        ("a.yaml", "path_name_aliases: []\nnamed_paths:\n- path_name: p\n", "CARET"),
        ("dataflow.yml", "nodes:\n  - id: camera\n    path: camera.py\n", "dora"),
        ("g.pbtxt", 'node {\n  calculator: "PassThroughCalculator"\n}\n', "MediaPipe"),
        ("g.txt", 'input_stream: "in"\n', "MediaPipe"),
        ("g", "// drawn\ndigraph G { a -> b }", "DOT"),
        ("t.tgff", "@HYPERPERIOD 300\n@TASK_GRAPH 0 {\n}\n", "TGFF"),
        ("run.sh", "gst-launch-1.0 -v videotestsrc ! autovideosink", "GStreamer"),
        ("n.onnx", "\x08", "ONNX"),
    ],
)
def test_files_of_other_tools_are_named(tmp_path: Path, name: str, content: str, what: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(Errors) as raised:
        flowc.import_(tmp_path / name, tmp_path / "out.flow")
    (fault,) = raised.value.diagnostics
    assert fault.code == "F701" and what in fault.message
    assert "PREESM, SDF3" in fault.help
    assert not (tmp_path / "out.flow").exists()
