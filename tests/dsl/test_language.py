"""What a text means: from .flow to the flat model, and formatting."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.dsl.advice import ITEMS
from flowc.dsl.format import format_text
from flowc.dsl.parse import keywords, tokens_and_comments
from flowc.model.application import Application
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Bands, bands_in_words
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.lexer import BasicLexer

ROOT = Path(__file__).resolve().parents[2]
TASKS = """
task Source { out o }
task Pipe   { in i  out o }
task Two    { in a  in b  out o }
task Sink   { in i }
"""


def load(tmp_path: Path, text: str) -> Application:
    (tmp_path / "t.flow").write_text(TASKS + text)
    checked = flowc.check(tmp_path / "t.flow")
    assert checked.ok, [d.message for d in checked.diagnostics]
    return checked.system.apps[0]


def channels(app: Application) -> list[str]:
    return sorted(c.name.replace(f"{app.name}.", "") for c in app.channels)


def test_a_chain_takes_the_free_ports(tmp_path: Path) -> None:
    app = load(tmp_path, "app A { s: Source  r: Source  t: Two  k: Sink   s -> t.b  r -> t -> k }")
    assert channels(app) == ["r.o->t.a", "s.o->t.b", "t.o->k.i"]


def test_of_several_free_ports_the_one_whose_type_fits_is_meant(tmp_path: Path) -> None:
    tasks = "task A { out x: int32  out y: float32 }  task B { in p: float32  in q: int32 }"
    app = load(tmp_path, f"{tasks} app X {{ a: A  b: B  a.x -> b  a.y -> b }}")
    assert channels(app) == ["a.x->b.q", "a.y->b.p"]


@pytest.mark.parametrize(
    ("ports", "help"),
    [
        ("in p: int32  in q: float32  in r: float32", "name it: `b.q`"),
        ("in p: int32  in q: int64", "none of them is float32, as the other end of the arrow is"),
    ],
)
def test_help_names_a_port_whose_type_fits(tmp_path: Path, ports: str, help: str) -> None:
    text = f"task A {{ out y: float32 }} task B {{ {ports} }} app X {{ a: A  b: B  a -> b }}"
    (tmp_path / "t.flow").write_text(text)
    (fault,) = (d for d in flowc.check(tmp_path / "t.flow").diagnostics if d.code == "F206")
    assert fault.help == help


def test_a_comma_fans_out(tmp_path: Path) -> None:
    app = load(
        tmp_path, "app A { s: Source  t: Two  k: Sink   s -> k, t.a, t.b   t -> l  l: Sink }"
    )
    assert channels(app) == ["s.o->k.i", "s.o->t.a", "s.o->t.b", "t.o->l.i"]


def test_open_ends_are_tasks_of_one_token_each(tmp_path: Path) -> None:
    app = load(
        tmp_path,
        "app A { in x: float32[2]  in latest: int8   out o: float32  p: Pipe   x -> p -> delay 1 -> o }",
    )
    assert channels(app) == ["p.o->o.o", "x.x->p.i"]
    ends = {
        t.name: (
            t.border,
            t.live,
            [(p.name, str(p.type), p.rates) for p in (*t.inputs, *t.outputs)],
        )
        for t in app.tasks
    }
    assert ends["A.x"] == ("in", True, [("x", "float32[2]", (1,))])
    assert ends["A.latest"][0] == "in" and ends["A.p"][0] is None
    assert ends["A.o"] == ("out", False, [("o", "float32", (1,))])


def test_composites_nest_and_get_readable_names(tmp_path: Path) -> None:
    text = """
    graph Inner { in x  out y   p: Pipe   x -> p -> y }
    graph Outer { in x  out y   first: Inner  second: Inner   x -> first -> delay 2 = 7 -> second -> y }
    app A { s: Source  o: Outer  k: Sink   s -> delay 1 = 3 -> o -> k }
    """
    app = load(tmp_path, text)
    assert channels(app) == ["o.first.p.o->o.second.p.i", "o.second.p.o->k.i", "s.o->o.first.p.i"]
    delays = {c.destination: (c.delay, c.values) for c in app.channels}
    assert delays["A.o.second.p"] == (2, (7, 7))
    assert delays["A.o.first.p"] == (1, (3,))


def test_delays_add_up_along_the_way_and_the_nearest_tokens_are_read_first(tmp_path: Path) -> None:
    text = """
    graph Late { in x  out y   p: Pipe   x -> delay 1 = 5 -> p -> y }
    app A { s: Source  l: Late  k: Sink   s -> delay 2 = [8, 9] -> l -> k }
    """
    channel = next(c for c in load(tmp_path, text).channels if c.source == "A.s")
    assert (channel.delay, channel.values) == (3, (5, 8, 9))


def test_a_graph_may_hand_an_input_straight_to_an_output(tmp_path: Path) -> None:
    text = """
    graph Tap { in x  out y  out z   p: Pipe   x -> p, y   p -> z }
    app A { s: Source  t: Tap  k: Sink  l: Sink   s -> t   t.y -> k   t.z -> l }
    """
    assert channels(load(tmp_path, text)) == ["s.o->k.i", "s.o->t.p.i", "t.p.o->l.i"]


def test_a_graph_that_is_not_used_is_checked_too(tmp_path: Path) -> None:
    text = "graph G { in x  out y   p: Pipe  q: Nothing   x -> p -> y }\napp A { s: Source  k: Sink  s -> k }"
    (tmp_path / "t.flow").write_text(TASKS + text)
    assert [d.code for d in flowc.check(tmp_path / "t.flow").diagnostics] == ["F101"]


def test_arrays_connect_element_by_element(tmp_path: Path) -> None:
    text = """
    task Numbered(n: int) { out o rate n }
    task Taker { in i rate 6 }
    app A { s[3]: Numbered(n = index + 1)   p[3]: Pipe   k[3]: Taker   s -> p -> k }
    """
    app = load(tmp_path, text)
    assert "s[2].o->p[2].i" in channels(app)
    assert [app.task(f"A.s[{i}]").outputs[0].rates for i in range(3)] == [(1,), (2,), (3,)]


def test_one_output_feeds_a_whole_array_and_elements_can_be_picked(tmp_path: Path) -> None:
    app = load(
        tmp_path,
        "app A { s: Source  p[2]: Pipe  k: Sink  l: Sink   s -> p   p[0] -> k   p[1] -> l }",
    )
    assert channels(app) == ["p[0].o->k.i", "p[1].o->l.i", "s.o->p[0].i", "s.o->p[1].i"]


def test_types_rates_and_arithmetic(tmp_path: Path) -> None:
    text = """
    const W = 640
    const H = W * 3 / 4
    type Image = uint8[H, W, 3]
    task Camera(n: int = 2) { out image: Image rate n * 2   out small: Image[4]   out none: float32 rate [2, 0 for 3] }
    app B { c: Camera(n = 3) }
    """
    task = load(tmp_path, text).task("B.c")
    image, small, none = task.outputs
    assert (str(image.type), image.rates, image.stacked) == ("uint8[480, 640, 3]", (6,), True)
    assert str(small.type) == "uint8[4, 480, 640, 3]"
    assert (none.rates, none.stacked, task.phases) == ((2, 0, 0, 0), True, 4)


def test_windows(tmp_path: Path) -> None:
    text = """
    task Look(hop: int, window: int = 4) { in x: int8 rate hop window window + hop   in y window 1   in z rate [0, 2] window 3
        in plain rate 2 window 2 }
    app A { a: Source  b: Source  c: Source  d: Source  l: Look(hop = 1)   a -> l.x  b -> l.y  c -> l.z  d -> l.plain }
    """
    ports = load(tmp_path, text.replace("x: int8", "x")).task("A.l").inputs
    assert [(p.window, p.kept, p.stacked, p.rates) for p in ports] == [
        (5, 4, True, (1,)), (0, 0, True, (1,)), (3, 3, True, (0, 2)), (0, 0, True, (2,))
    ]  # fmt: skip


def test_a_window_changes_no_rate(tmp_path: Path) -> None:
    """Everything that is proved of a graph is what it is without."""
    text = "task Look { in x rate 3 @ }\napp A { a: Source  l: Look   a -> delay 2 -> l }"
    (tmp_path / "t.flow").write_text(TASKS + text.replace("@", "window 8"))
    with_window = flowc.analyze(tmp_path / "t.flow").apps["A"]
    (tmp_path / "t.flow").write_text(TASKS + text.replace("@", ""))
    assert replace(flowc.analyze(tmp_path / "t.flow").apps["A"], seconds=0) == replace(
        with_window, seconds=0
    )


def test_times_are_exact(tmp_path: Path) -> None:
    app = load(
        tmp_path,
        "app A { period 1/30 s  deadline 0.1 us  priority -3   s: Source  k: Sink  s -> k }",
    )
    assert app.period_ns == Fraction(10**9, 30)
    assert (app.deadline_ns, app.priority) == (100, -3)


def test_keywords_may_be_names_where_they_mean_nothing(tmp_path: Path) -> None:
    text = """
    task class { in in  out out  out rate }
    task Any { out task  out x }
    app A { graph: Any  network: class  platform: Sink  a: Sink  b: Sink
        graph.task -> network.in   network.out -> platform   network.rate -> a   graph.x -> b }
    """
    assert "graph.task->network.in" in channels(load(tmp_path, text))


def test_documentation_reaches_the_model(tmp_path: Path) -> None:
    text = "/// Does much.\n/// And more.\napp A {\n    /// The eye.\n    s: Source\n    k: Sink\n    s -> k }"
    app = load(tmp_path, text)
    assert (app.doc, app.task("A.s").doc) == ("Does much.\nAnd more.", "The eye.")


def test_includes_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "base.flow").write_text(TASKS + "const N = 3")
    (tmp_path / "more.flow").write_text('use "base.flow"\ntask Many { out o rate N }')
    (tmp_path / "t.flow").write_text(
        'use "more.flow"\nuse "base.flow"\napp A { m: Many  k: Sink  m -> k }\nplatform two { cpu core[2] }'
    )
    checked = flowc.check(tmp_path / "t.flow")
    assert checked.ok
    assert checked.verdicts["A"].repetition == {"A.m": 1, "A.k": 3}


def test_platforms(tmp_path: Path) -> None:
    (tmp_path / "board.flow").write_text("""
    platform xavier {
        cpu carmel[8]  scheduler fixed_priority  frequencies [1190.4, 1728] MHz
        gpu volta      scheduler fifo   memory 32 GB
        dla nvdla[2]   engines 4 total
        contention gpu by dla 1.13
    }""")
    checked = flowc.check(tmp_path / "board.flow", platform=str(tmp_path / "board.flow"))
    assert checked.ok and checked.platform is not None
    carmel, volta, nvdla = checked.platform.pools
    assert (carmel.processors[7], carmel.scheduler, carmel.frequencies_hz[0]) == (
        "carmel[7]",
        "fixed_priority",
        1190400000,
    )
    assert (volta.processors, volta.memory_bytes) == (("volta",), 32 * 10**9)
    assert (nvdla.engines, nvdla.engines_total) == (4, True)
    assert checked.platform.contention[0].factor == Fraction(113, 100)


# -- formatting ------------------------------------------------------------------------------------
EXAMPLES = sorted(ROOT.glob("examples/*/*.flow"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_formatted(file: Path) -> None:
    assert format_text(str(file), file.read_text()) == file.read_text()


def test_format_normalizes_spaces_and_keeps_comments() -> None:
    text = """task   A{in x:float32[ 2,3 ]rate 2   // first
  out  y:float32   }// second


/// kept
app B{a:A(n=-1)
a->delay 1=0.5->a}
"""
    assert (
        format_text("t", text)
        == """task A { in x: float32[2, 3] rate 2  // first
    out y: float32 }                 // second

/// kept
app B { a: A(n = -1)
    a -> delay 1 = 0.5 -> a }
"""
    )


def test_format_leaves_a_faulty_text_alone() -> None:
    with pytest.raises(Errors):
        format_text("t", "task { }")


def _tokens(text: str) -> list[str]:
    return [str(t) for t in tokens_and_comments(text)]


def test_the_grammar_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither it nor a lexer is made anew for a second text: that takes far longer than reading
    one."""
    format_text("t", "task T { out x }")

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Lark, "__init__", never)
    monkeypatch.setattr(BasicLexer, "__init__", never)
    assert (
        format_text("t", "task  U {\n/// what\nout y\n}")
        == "task U {\n    /// what\n    out y\n}\n"
    )
    with pytest.raises(Errors):
        format_text("t", "task # {}")


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from(EXAMPLES))
def test_format_is_idempotent_and_keeps_every_token(rng: random.Random, file: Path) -> None:
    """Whatever the spacing was: same tokens, and formatting again changes nothing."""
    lines = []
    for line in file.read_text().splitlines():
        code, slashes, comment = line.partition("//")
        spaced = "".join(
            c + " " * rng.choice((0, 0, 0, 1, 4)) if c in " {}()," else c for c in code
        )
        lines.append(" " * rng.choice((0, 3)) + spaced + slashes + comment)
        lines.extend([""] * rng.choice((0, 0, 0, 2)) if not comment else [])
    text = "\n".join(lines)
    once = format_text("t", text)
    assert _tokens(once) == [t.rstrip() for t in _tokens(text)]
    assert format_text("t", once) == once


def test_words_of_advice_are_words_of_the_grammar() -> None:
    """The grammar is the only list of keywords; what starts an item is a selection of them, or a
    language."""
    advised = {word for words in ITEMS.values() for word in words}
    assert advised - {"python", "cuda"} <= keywords()
    # These open declarations.
    barred = {"use", "const", "type", "task", "network", "app", "platform", "mapping", "scenario"}
    assert keywords() - barred - advised == {"for", "by", "of", "keep"}


def test_a_link_from_a_graph_whose_output_no_task_feeds(tmp_path: Path) -> None:
    """What a fuzzer found: no task stands behind it."""
    path = tmp_path / "l.flow"
    path.write_text(
        "task Source { out x: float32 }\ntask Sink { in x: float32 }\n"
        "graph Camera { out x: float32   source: Source }\n"
        "app A { camera: Camera   sink: Sink   camera -> sink }\n"
        "app B { sink: Sink   A.camera -> latest -> sink }\n"
    )
    assert [d.code for d in flowc.check(path).diagnostics] == ["F202", "F208", "F219"]


def test_bands_of_a_stage(tmp_path: Path) -> None:
    """Rows may be computed, everything else may be left out, and the words are names where they
    mean nothing."""
    text = """task Left { out keep: int32 }
task Right { in keep: int32 }
app App { bands: Left   keep: Right   bands.keep -> keep.keep }
mapping on host {
    App.bands -> cpu[0] bands 2 * 2 until "a" keep "b", "c" bands 3 threads 2
    App.keep -> cpu[0] until "d" bands 5 keep "e" | cpu[0] bands 1 until "f"
}
"""
    (tmp_path / "t.flow").write_text(text)
    pins = {p.task: p.stages for p in flowc.check(tmp_path / "t.flow").loaded.system.pins}
    (one,) = pins["App.bands"]
    assert (
        one.bands == (Bands(4, "a", ("b", "c")), Bands(3))
        and one.threads == 2
        and one.until is None
    )
    first, second = pins["App.keep"]
    assert (first.until, first.bands, second.until, second.bands) == (
        "d",
        (Bands(5, None, ("e",)),),
        None,
        (Bands(1, "f"),),
    )
    assert bands_in_words(one.bands[0]) == 'bands 4 until "a" keep "b", "c"'
    assert format_text("t", text) == text
