"""The page of published numbers: what can be computed in a moment says what the page says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
import typer
from flowc.cli import app

from limits import HANGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "generated" / "published.md"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The benchmark as a module, which writes its texts elsewhere."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("published")
    texts = importlib.import_module("published_systems.texts")
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    return module


def cells(page: str, title: str) -> list[list[str]]:
    """The rows of a table by the beginning of its title, without its head."""
    lines = page[page.index(f"**{title}") :].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


@pytest.mark.parametrize("letter", "DFH")
def test_quick_parts_are_up_to_date(letter: str, published: ModuleType) -> None:
    known = published.sections_of(PAGE.read_text())
    assert published.section(letter) == known[letter], "run `python benchmarks/published.py`"


def test_quick_tables_of_jedi_are_up_to_date(published: ModuleType) -> None:
    jedi = importlib.import_module("published_systems.jedi")
    found = "\n\n".join(table.markdown for table in jedi.quick_tables())
    assert found in PAGE.read_text(), "run `python benchmarks/published.py --only A`"


def test_a_network_of_jedi_on_twins(published: ModuleType) -> None:
    """Streams, copies and a cut give what the network in one piece gives, and parts its scales; what
    crosses in fp16 is rounded."""
    on_twins = importlib.import_module("published_systems.jedi_on_twins")
    runs, ((_, _, scales, in_parts, not_joined, *_),) = on_twins.rows_of("Yolov2")
    (*_, in_half, kept), (*_, in_8_bits, also_kept) = runs
    assert float(in_half.removesuffix(" dB")) > 50 and in_8_bits == "equal"
    assert kept == also_kept == "kept"
    assert in_parts == f"{scales} of {scales}" and not_joined == "equal"
    page = cells(PAGE.read_text(), "Table 3.5 on twins")
    assert len(page) == 18 and all(row[2] == "same" and row[-1] == "kept" for row in page)


def test_each_table_says_who_fills_it() -> None:
    """A command that the page names has the options that flowc has."""
    page = PAGE.read_text()
    heads = [part for part in page.split("\n\n**")[1:] if "** Not here: " not in part]
    assert len(heads) > 30
    assert all("\n\n*Filled by*: " in part.split("\n| ")[0] for part in heads)
    verbs = typer.main.get_group(app)
    context = typer.Context(verbs)
    named = re.findall(r"`flowc (\w+)([^`]*)`", page)
    assert {"map", "analyze", "import", "export", "build"} <= {verb for verb, _ in named}
    for verb, words in named:
        command = verbs.get_command(context, verb)
        assert command is not None, verb
        known = {option for own in command.params for option in own.opts}
        assert set(re.findall(r"--[\w-]+", words)) <= known, (verb, words)


def test_answers_that_the_papers_print() -> None:
    page = PAGE.read_text()
    shares = cells(page, "Table 3.4,")
    assert len(shares) == 9 and all(row[-1] == "same" for row in shares)
    configurations = cells(page, "Table 3.5,")
    assert len(configurations) == 18 and all(row[-1] == "same" for row in configurations)
    graph = {row[0]: row for row in cells(page, "Figures 3.2 to 3.4")}
    assert all(row[-1] == "same" for row in graph.values())
    assert graph["consumed from channel 1 -> 2"][1:4] == ["[187200, 0]"] * 3
    executions = cells(page, "Table 4.1,")
    assert [row[-1] for row in executions] == ["same", "differs", "same", "same"]
    structures = cells(page, "Table 4.3, real")
    assert [row[0] for row in structures if row[1] != row[2]] == ["densenet121"]
    shared = cells(page, "Tables 6.1 to 6.3")
    assert [(row[1], row[2]) for row in shared][1::2] == [("24586", "24586"), ("19712", "19712")]


def test_the_least_load_of_the_four_cameras_is_proved(published: ModuleType) -> None:
    """Their image tasks are alike: counted, they take the exact search a moment."""
    cameras = importlib.import_module("published_systems.cameras")
    texts = importlib.import_module("published_systems.texts")
    cameras.write("cameras", importlib.import_module("boards").imgprocessing(20))
    answer = texts.mapped("cameras", "xavier", fps=20, evaluations=300, objective="utilization")
    found = answer.joint.outcome
    assert found.proved and found.maximum == Fraction(30414, 100_000)
    (row,) = (row for row in cells(PAGE.read_text(), "Fig. 5.6") if row[0] == "20")
    assert row[5:8] == ["30.41%"] * 3


def test_a_part_is_written_and_the_others_are_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old\n\n## A. kept\n\ntext of A\n\n## F. old\n\nolder text\n")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/published.py", "--only", "f", "--write", page],
        capture_output=True, text=True, timeout=HANGS, check=True,
    )  # fmt: skip
    text = page.read_text()
    assert text.startswith("# Published numbers") and "## A. kept\n\ntext of A\n" in text
    assert "older text" not in text and "## F. Run-time adaptive inference" in text
    assert done.stdout.startswith("## F. ")
    wrong = subprocess.run(
        [sys.executable, ROOT / "benchmarks/published.py", "--only", "Z"],
        capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert wrong.returncode == 2 and "no system Z" in wrong.stderr
