"""The pages of the tutorial, as a reader would follow them: files are written, commands run, and
outputs compared.

Nothing is measured: times of tasks are made up, and what a page shows of measured numbers may be
any numbers.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from flowc.cli import app

from builds import ROOT, pretend_runs
from native_compiler import quick

PAGES = ROOT / "docs" / "tutorial"
BLOCK = re.compile(r"(<!-- numbers differ -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(\w+\.(?:flow|py|c))`")
#: What a page takes from another one.
BEFORE = {"deadline": "camera", "jetson": "networks"}


def steps(page: str) -> list[tuple[str, str, str, bool]]:
    """Blocks of a page: kind, the file that is named last in front of it, text, and whether numbers
    are compared."""
    text = (PAGES / f"{page}.md").read_text()
    found = []
    for block in BLOCK.finditer(text):
        names = NAMED.findall(text[: block.start()])
        found.append((block[2], names[-1] if names else "", block[3], block[1] is None))
    return found


def write_files(page: str, folder: Path) -> None:
    if page in BEFORE:
        write_files(BEFORE[page], folder)
    for kind, name, text, _ in steps(page):
        if kind in ("flow", "python", "c"):
            (folder / name).write_text(text)


def run(line: str, capfd: pytest.CaptureFixture[str]) -> str:
    """A command of a page; what it printed on standard output."""
    words = shlex.split(line, comments=True)
    if words[0] == "cp":
        *files, target = words[1:]
        for file in files:
            shutil.copy(file, target)
        return ""
    assert words[0] == "flowc", line
    capfd.readouterr()
    status = app(words[1:], standalone_mode=False)
    out, err = capfd.readouterr()
    assert status == (1 if "# exit status 1" in line else 0), (line, out, err)
    return out


def matches(expected: str, said: str, exact: bool) -> bool:
    """Equal, where `...` stands for anything, and where numbers differ, any number, or `-` for
    none, for another."""
    if not exact:
        expected, said = (
            re.sub(r"[\d.]*\d|(?<!\S)-(?!\S)|-{2,}| +", "#", t.replace(" ", "  "))
            for t in (expected, said)
        )
        expected, said = (re.sub(r"#+", "#", t) for t in (expected, said))
    pattern = re.escape(expected.strip()).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, said.strip(), re.DOTALL) is not None


@pytest.mark.parametrize(
    "page", ["camera", "deadline", "networks", "memory", "jetson", "found", "native", "energy"]
)
def test_a_page_shows_what_happens(
    page: str,
    tmp_path: Path,
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pretend_runs(monkeypatch)
    if page == "native":
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            pytest.skip("there is no C++ compiler")
        for name, value in quick(shared).items():
            monkeypatch.setenv(name, value)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folder = tmp_path / "tutorial"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_files(page, folder)
    said: list[str] = []
    for kind, _, text, exact in steps(page):
        if kind == "sh":
            said = [run(line, capfd) for line in text.splitlines()]
        elif kind == "text" and said:
            assert matches(text, said[0], exact), f"{said[0]}\ninstead of\n{text}"
            said = []


def test_the_table_of_contents_has_every_page() -> None:
    linked = re.findall(r"\]\((\w+)\.md\)", (PAGES / "README.md").read_text())
    assert {p.stem for p in PAGES.glob("*.md")} == {*linked, "README"}
