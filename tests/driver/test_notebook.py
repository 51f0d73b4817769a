"""Results in a notebook: every cell of the one in the gallery is executed, and what is shown is
well formed and escaped."""

from __future__ import annotations

import ast
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.driver.execute import run as running
from flowc.driver.show import notebook
from flowc.driver.show.notebook import MOST, table

from builds import ROOT, Write, pretend_runs

EXAMPLE = ROOT / "examples" / "hello"


class Reader(HTMLParser):
    """Reads what is shown: its elements, its text, and whether all that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.words: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.open.append(tag)
        self.elements.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def execute(source: str, names: dict[str, Any]) -> object:
    """Run a cell; the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    )


def test_the_notebook_of_the_gallery_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(
        EXAMPLE, tmp_path / "hello", ignore=shutil.ignore_patterns("*.json", "build")
    )
    monkeypatch.chdir(folder)
    pretend_runs(monkeypatch)
    cells = json.loads((folder / "hello.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "notebooks are kept without outputs"
            value = execute("".join(cell["source"]), names)
            html = getattr(value, "_repr_html_", None)
            shown.append(" ".join(Reader(html()).words) if html else value)
    checked, errors, analyzed, front, profiled, mapped, run, frames = shown
    assert "Hello" in str(checked) and "yes" in str(checked)
    assert [code for code, _ in errors] == ["F002"]  # type: ignore[union-attr]
    assert "memory against period" in str(analyzed) and len(front) > 1  # type: ignore[arg-type]
    assert "Hello.smooth" in str(profiled) and "cpu[0]" in str(mapped)
    assert "exit status 0" in str(run) and frames == 50


def test_names_of_strangers_stay_text() -> None:
    hostile = "</td><script>alert(1)</script>{{7*7}}\u202e"
    assert Reader(table([hostile], [[hostile]])).elements == {
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    built = type("Built", (), {})()
    outcome = running.Tested(
        built, "app", 1, (running.TestOutcome(hostile, None, "failed", 0.5, hostile),), 1.0
    )
    assert "script" not in Reader(notebook.tested(outcome)).elements


def test_faulty_texts_show_their_diagnostics(write: Write) -> None:
    flow = write("app A { t: Nothing }\ntask Something { }")
    shown = Reader(flowc.check(flow)._repr_html_())
    assert "F101" in shown.words and f"{flow}:1" in shown.words


def test_a_checked_text_is_a_line(write: Write) -> None:
    flow = write("app A { t: Nothing }\ntask Something { }")
    line = repr(flowc.check(flow))
    assert (
        line.startswith(f"<Checked {flow}: ")
        and "the first one: `Nothing` is not declared" in line
        and len(line) < 300
    )
    write('task Source { out n: int32   wcet 1 us   python "t.py:f" }', t_py="def f(): return 1")
    assert repr(flowc.check(flow)) == f"<Checked {flow}: no errors; 0 warnings>"


def test_long_tables_are_cut() -> None:
    shown = Reader(table(["n"], ([k] for k in range(MOST + 3))))
    assert shown.words[-1] == "and 3 more"


def test_a_run_without_a_report_says_how_it_ended(write: Write) -> None:
    built = type("Built", (), {"diagnostics": ()})()
    assert Reader(
        notebook.finishedrun(running.FinishedRun(built, 3, disagreed="<1 of 2>"))
    ).words == [
        "exit status 3",
        "<1 of 2>",
    ]
