"""What the language server answers, without an editor; also of texts that are half typed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path

import flowc
import pytest
from flowc.dsl.index import index
from flowc.dsl.load import load
from flowc.editor import navigate, outline
from flowc.editor.completion import complete
from flowc.editor.findings import actions, findings
from flowc.editor.hover import hover
from flowc.editor.places import Lines, plain
from flowc.editor.session import CheckedText, Session
from flowc.model.span import Span
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from builds import ROOT, store_profile

TEXT = """\
// Two tasks and a graph.
// Nothing else.
const N = 4
type Row = float32[N]
/// Makes rows.
task Make(seed: int = 1) { out row: Row rate 2   python "t.py:Make" }
task Show { in row: Row   python "t.py:show" }
task Add(gain: int) { in a: Row   out b: Row }
graph Twice(gain: int) {
    in a: Row
    out b: Row
    first: Add(gain = gain)   second: Add(gain = gain * N)
    a -> first -> second -> b
}
app A {
    make: Make(seed = N)
    twice: Twice(gain = 2)
    show[2]: Show
    make -> twice -> show[0]
    twice.b -> show[1].row
}
platform two { cpu core[2] }
mapping on two { A.make -> core[0]   A.show[1] -> core[1] }
"""
CODE = "import x\n\n\nclass Make:\n    def __call__(self): pass\n\n\ndef show(row): pass\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "app.flow").write_text(TEXT)
    (tmp_path / "t.py").write_text(CODE)
    return str(tmp_path / "app.flow")


def opened(path: str, text: str = TEXT) -> tuple[Session, CheckedText]:
    session = Session()
    session.change(path, text)
    return session, session.seen(path)


def at(word: str, text: str = TEXT, nth: int = 0) -> tuple[int, int]:
    """Line and column of the n-th place of a word."""
    where = -1
    for _ in range(nth + 1):
        where = text.index(word, where + 1)
    before = text[:where]
    return before.count("\n") + 1, where - before.rfind("\n")


def offered(path: str, text: str) -> set[str]:
    """What is offered at the mark `|`."""
    line, column = at("@", text)
    text = text.replace("@", "")
    session, seen = opened(path, text)
    return {item.label for item in complete(session, seen, path, line, column)}


# -- places ----------------------------------------------------------------------------------------
@given(
    text=st.text(st.sampled_from("aä𝄞\n\r\t "), max_size=40),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
)
def test_places_go_to_an_editor_and_back(text: str, encoding: str) -> None:
    lines = Lines.of(text, encoding)
    for number, line in enumerate(plain(text).split("\n"), 1):
        for column in range(1, len(line) + 2):
            assert lines.place(lines.position(number, column)) == (number, column)


def test_what_an_editor_counts_in_utf_16() -> None:
    lines = Lines.of('\ufefftask "𝄞" x\r\nnext')
    assert lines.position(1, 9) == lsp.Position(0, 10)  # one for the mark, two for the clef
    assert lines.place(lsp.Position(0, 10)) == (1, 9)
    assert lines.place(lsp.Position(99, 0)) == (2, 5)


# -- names -----------------------------------------------------------------------------------------
def test_all_names_are_found(path: str) -> None:
    found = index(load(path).specifications)
    names = {(s.kind, s.owner, s.name): len(found.places(s)) for s in found.symbols}
    assert names == {
        ("constant", "", "N"): 4, ("type", "", "Row"): 7, ("task", "", "Make"): 2, ("parameter", "Make", "seed"): 2,
        ("port", "Make", "row"): 1, ("task", "", "Show"): 2, ("port", "Show", "row"): 2, ("task", "", "Add"): 3,
        ("parameter", "Add", "gain"): 3, ("port", "Add", "a"): 1, ("port", "Add", "b"): 1, ("graph", "", "Twice"): 2,
        ("parameter", "Twice", "gain"): 4, ("port", "Twice", "a"): 2, ("port", "Twice", "b"): 3,
        ("instance", "Twice", "first"): 2, ("instance", "Twice", "second"): 2, ("app", "", "A"): 3,
        ("instance", "A", "make"): 3, ("instance", "A", "twice"): 3, ("instance", "A", "show"): 4,
        ("platform", "", "two"): 2, ("processor", "two", "core"): 3,
    }  # fmt: skip


def test_every_name_of_the_examples_stands_where_it_is_said_to() -> None:
    for flow in ROOT.glob("examples/*/*.flow"):
        loaded = load(flow)
        found = index(loaded.specifications)
        for span, symbol in found.uses:
            line = loaded.system.sources[span.file].split("\n")[span.line - 1]
            assert line[span.column - 1 : span.end_column - 1] == symbol.name


# -- questions -------------------------------------------------------------------------------------
def test_hover_tells_types_rates_firings_and_times(path: str) -> None:
    store_profile(Path(path), {"A.make": 12_300}) if flowc.check(path).ok else None
    session, seen = opened(path, TEXT.replace("rate 2   python", "rate 2   python"))
    said = hover(session, seen, path, *at("make:"))
    assert said is not None
    assert "make: Make(seed = N)" in said and "`out row`: float32[4], rate 2" in said
    assert "`A.make`: 1 firing in an iteration" in said
    port = hover(session, seen, path, *at("row: Row rate"))
    assert port is not None and "`out row`: float32[4], rate 2" in port
    code = hover(session, seen, path, *at("t.py:show"))
    assert code is not None and "def show(row): pass" in code and "line 8" in code
    assert hover(session, seen, path, 1, 4) is None


def test_hover_shows_measured_times(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("def make(): return 1\ndef show(x): pass\n")
    flow = tmp_path / "a.flow"
    text = 'task M { out x: int64 python "t.py:make" }\ntask S { in x: int64 rate 3 python "t.py:show" }\n'
    text += "app A { m: M   s: S   m -> s }\n"
    flow.write_text(text)
    store_profile(flow, {"A.m": 12_300})
    session, seen = opened(str(flow), text)
    said = hover(session, seen, str(flow), *at("m:", text))
    assert said is not None and "3 firings in an iteration; measured 12.3 us" in said
    hints = list(outline.hints(session, seen, str(flow), session.lines(str(flow)).whole))
    assert [h.label for h in hints] == ["× 3, 12.3 us", "1 us"]


def test_hover_over_a_network_shows_its_tensors_and_layers() -> None:
    path = str(ROOT / "examples/digits/digits.flow")
    text = Path(path).read_text()
    session, seen = opened(path, text)
    said = hover(session, seen, path, *at("digits.onnx", text))
    assert said is not None and "`in` input: float32" in said and "layers: " in said


def test_definitions_lead_into_texts_code_and_networks(path: str) -> None:
    session, seen = opened(path)

    def line(place: tuple[int, int]) -> tuple[str, int]:
        found = navigate.definition(session, seen, path, *place)
        assert found is not None
        return Path(found.uri).name, found.range.start.line + 1

    assert line(at("Make(seed = N)")) == ("app.flow", 6)
    assert line(at("row\n}")) == ("app.flow", 7)
    assert line(at("t.py:Make")) == ("t.py", 4)
    assert line(at("t.py:show")) == ("t.py", 8)
    assert line(at("core[0]")) == ("app.flow", 22)
    assert navigate.definition(session, seen, path, 1, 1) is None
    places = navigate.references(session, seen, path, *at("twice:"))
    assert [p.range.start.line for p in places] == [16, 18, 19]


def test_an_outline_has_what_is_inside(path: str) -> None:
    session, seen = opened(path)
    found = {
        s.name: [c.name for c in s.children or ()] for s in outline.outline(session, seen, path)
    }
    assert found["Twice"] == ["gain", "a", "b", "first", "second"]
    assert found["A"] == ["make", "twice", "show"] and found["N"] == []
    folds = [(f.start_line, f.end_line) for f in outline.folds(TEXT)]
    assert folds == [(0, 1), (8, 13), (14, 20)]


@pytest.mark.parametrize(
    ("old", "new", "expected", "not_expected"),
    [
        ("show[2]: Show", "show[2]: @", {"Make", "Show", "Add", "Twice"}, {"A", "Row", "task"}),
        ("show[2]: Show", "show[2]: Sh@", {"Make", "Show"}, {"A"}),
        ("in row: Row", "in row: @", {"Row", "float32"}, {"Make", "N"}),
        ("rate 2", "rate @", {"N", "seed"}, {"Row"}),
        ("twice.b -> show[1].row", "twice.@", {"a", "b"}, {"make", "row"}),
        ("twice.b -> show[1].row", "twice -> show[1].@", {"row"}, {"a"}),
        ("twice.b -> show[1].row", "twice -> @", {"show", "make", "twice"}, {"Row"}),
        ("Make(seed = N)", "Make(@", {"seed"}, {"gain"}),
        ("Make(seed = N)", "Make(seed = @", {"N"}, {"seed"}),
        ("mapping on two", "mapping on @", {"two", "orin"}, {"A"}),
        ("A.make -> core[0]", "A.make -> @", {"core[0]", "core[1]"}, {"A"}),
        ("A.make -> core[0]", "A.make -> core[0] engine @", {"openvino", "onnxruntime"}, {"A"}),
        ("A.make -> core[0]", "A.make -> core[0] precision @", {"fp32", "bf16"}, {"A", "any"}),
        ("A.make -> core[0]", "A.@", {"make", "twice", "show"}, {"row"}),
        ("const N = 4", "@ const N = 4", {"task", "app", "const"}, {"rate"}),
        (
            "out row: Row rate 2",
            "out row: Row @",
            {"rate", "window", "python", "wcet"},
            {"period", "task"},
        ),
        ("    make: Make", "    @\n    make: Make", {"period", "deadline", "in"}, {"rate", "task"}),
        ('"t.py:show"', '"@', {"t.py:"}, set()),
        ('"t.py:show"', '"t.py:@', {"t.py:show", "t.py:Make"}, set()),
        ("// Nothing else.", "// Nothing @", set(), {"task"}),
    ],
)
def test_completion(
    path: str, old: str, new: str, expected: set[str], not_expected: set[str]
) -> None:
    assert old in TEXT
    found = offered(path, TEXT.replace(old, new, 1))
    assert expected <= found and not not_expected & found, found


def test_completion_knows_layers_and_tensors() -> None:
    path = str(ROOT / "examples/detector/detector.flow")
    text = Path(path).read_text()
    word = text.index('until "') + len('until "')
    assert len(offered(path, text[:word] + "@" + text[word:])) > 5


# -- edits -----------------------------------------------------------------------------------------
def test_did_you_mean_becomes_an_edit(path: str) -> None:
    text = TEXT.replace("show[2]: Show", "show[2]: Shwo").replace('"t.py:show"', '"t.py:shwo"')
    session, seen = opened(path, text)
    found = list(actions(session, seen, path, session.lines(path).whole))
    for action in found:
        assert action.edit is not None and action.edit.changes is not None
        (edits,) = action.edit.changes.values()
        lines = text.split("\n")
        for e in edits:
            line = lines[e.range.start.line]
            mended = line[: e.range.start.character] + e.new_text + line[e.range.end.character :]
            text = text.replace(line, mended)
    assert len(found) == 2 and text == TEXT


def test_renaming_refuses_what_would_mean_something_else(path: str) -> None:
    session, seen = opened(path)
    for word, name, why in [
        ("make:", "twice", "two instances"),
        ("make:", "2x", "not a name"),
        ("Make(seed: int", "Show", "declared twice"),
        ("N = 4", "gain", "something else"),
        ("seed: int", "sed", "uses the name"),
        ("// Nothing", "x", "no name here"),
        ("make:", "latest", "no instance can be called"),
    ]:
        with pytest.raises(navigate.RenameRefused, match=why):
            navigate.renamed(session, seen, path, *at(word), name)


def test_a_stored_mapping_is_no_reason_against_another_name(tmp_path: Path) -> None:
    """It is stale then, which is a warning, and the next `map` makes another."""
    shutil.copytree(
        ROOT / "examples/hello", tmp_path / "hello", ignore=shutil.ignore_patterns("*.json")
    )
    flow = tmp_path / "hello" / "hello.flow"
    store_profile(flow)
    flowc.map(flow, measure=False)
    session, seen = opened(str(flow), flow.read_text())
    app = next(s for s in seen.index.symbols if s.kind == "app")
    texts = navigate.renamed(session, seen, str(flow), app.span.line, app.span.column, "Other")
    assert "app Other {" in texts[str(flow)]
    assert {d.code for d in session.with_texts(str(flow), texts).checked.diagnostics} == {"F609"}


@settings(max_examples=25)
@given(data=st.data())
def test_renaming_gives_the_same_system_with_other_names(data: st.DataObject) -> None:
    examples = ("spotter", "hello", "robot", "denoise")
    path = str(ROOT / "examples" / (name := data.draw(st.sampled_from(examples))) / f"{name}.flow")
    session, seen = opened(path, Path(path).read_text())
    symbol = data.draw(
        st.sampled_from(sorted(seen.index.symbols, key=lambda s: (s.span.line, s.span.column)))
    )
    try:
        texts = navigate.renamed(
            session, seen, path, symbol.span.line, symbol.span.column, "another_name"
        )
    except navigate.RenameRefused:
        assert symbol.kind == "parameter" or symbol.kind == "port"
        return
    after = session.with_texts(path, texts)
    assert after.checked.ok

    def shape(found: CheckedText) -> list[tuple[object, ...]]:
        return [
            (len(a.tasks), a.period_ns, sorted(found.checked.verdicts[a.name].repetition.values()),
             sorted((c.delay, str(c.source == c.destination)) for c in a.channels))
            for a in found.checked.system.apps
        ]  # fmt: skip

    assert shape(after) == shape(seen)


# -- what is not saved -----------------------------------------------------------------------------
def test_unsaved_texts_count(tmp_path: Path) -> None:
    top, lib = str(tmp_path / "top.flow"), str(tmp_path / "lib.flow")
    session = Session()
    session.change(top, 'use "lib.flow"\nconst B = A')
    assert [d.code for d in session.seen(top).checked.diagnostics] == ["F006", "F101"]
    session.change(lib, "const A = 1")
    assert session.seen(top).checked.ok
    session.change(lib, 'use "top.flow"\nconst A = 1')
    assert {d.code for d in session.seen(top).checked.diagnostics} == {"F005"}
    session.close(lib)
    assert not session.seen(top).checked.ok


def test_a_fault_in_a_file_that_is_used_stands_there(tmp_path: Path) -> None:
    top, lib = tmp_path / "top.flow", tmp_path / "a b%20.flow"
    lib.write_text("const A = Nothing")
    session = Session()
    session.change(str(top), f'use "{lib.name}"')
    found = findings(session, session.seen(str(top)))
    assert found[str(top)] == [] and [d.code for d in found[str(lib)]] == ["F101"]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_line_ends_and_marks_move_nothing(path: str, ends: str) -> None:
    text = "\ufeff" + TEXT.replace("// Two", '/* "𝄞" */').replace("\n", ends)
    _, seen = opened(path, text)
    Path(path).write_bytes(text.encode())
    places = [(d.code, d.span) for d in flowc.check(path).diagnostics]
    assert [(d.code, d.span) for d in seen.checked.diagnostics] == places and places


def test_random_edits_never_end_a_session(tmp_path: Path) -> None:
    """Texts between two keystrokes: whatever is asked of them is answered. `FLOWC_FUZZ=10000` tries
    more."""
    shutil.copytree(ROOT / "examples/hello", tmp_path, dirs_exist_ok=True)
    path, rng = str(tmp_path / "hello.flow"), random.Random(1)
    original = text = Path(path).read_text() + TEXT
    session = Session()
    pieces = [
        "{",
        "}",
        '"',
        ".",
        "->",
        "in x",
        "task ",
        "\n",
        "𝄞",
        "\r",
        ":",
        "(",
        'use "',
        "@",
        "\ufeff",
        "//",
        "rate 2",
    ]
    for step in range(int(os.environ.get("FLOWC_FUZZ", "40"))):
        where = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 0, 1, 5, 40))
        text = text[:where] + rng.choice(pieces) + text[where + cut :] if step % 40 else original
        session.change(path, text)
        seen, lines = session.seen(path), session.lines(path)
        line, column = lines.place(lsp.Position(rng.randrange(60), rng.randrange(60)))
        findings(session, seen)
        hover(session, seen, path, line, column)
        complete(session, seen, path, line, column)
        navigate.definition(session, seen, path, line, column)
        navigate.references(session, seen, path, line, column)
        list(actions(session, seen, path, lines.whole))
        list(outline.folds(text))
        list(outline.hints(session, seen, path, lines.whole))
        outline.outline(session, seen, path)
        if step % 20 == 0:
            with contextlib.suppress(navigate.RenameRefused):
                navigate.edits(session, seen, path, line, column, "other")


def test_spans_of_other_files_are_left_alone(path: str) -> None:
    session, seen = opened(path)
    assert seen.index.at("other.flow", 6, 6) is None
    assert session.lines("missing.flow").range(
        Span("missing.flow", 9, 9, 9, 9)
    ).start == lsp.Position(0, 0)


SCENARIO = """\
task T { out x: int64   event dark, bright }
network N from "n.onnx" { in x   out y   variant small from "s.onnx" { in x } }
task S { in x: int64 }
app A { t: T   s: S   t -> s   n: N }
app B { t: T   s: S   t -> s }
scenario Day {
    event stop
    initial state day { run A   A.n = small }
    state night { run A, B period 20 ms }
    day -> night on A.t.dark, stop
    night -> day on A.t.bright
}
"""


def test_names_of_scenarios(tmp_path: Path) -> None:
    path = str(tmp_path / "s.flow")
    _, seen = opened(path, SCENARIO)
    names = {(s.kind, s.owner, s.name): len(seen.index.places(s)) for s in seen.index.symbols}
    assert names["event", "T", "dark"] == names["event", "Day", "stop"] == 2
    assert names["mode", "Day", "day"] == names["mode", "Day", "night"] == 3
    assert names["variant", "N", "small"] == 2 and names["port", "N", "x"] == 2
    assert names["app", "", "A"] == 6 and names["app", "", "B"] == 2
    assert {"A", "B"} <= offered(path, SCENARIO.replace("run A,", "run @"))
    assert {"day", "night"} <= offered(path, SCENARIO.replace("    day ->", "    @"))
    assert "stop" in offered(path, SCENARIO.replace("on A.t.dark, stop", "on @"))
    assert {"small", "best"} <= offered(path, SCENARIO.replace("A.n = small", "A.n = @"))
    assert not {"small", "best"} & offered(path, SCENARIO.replace("A.n = small", "A.t = @"))
