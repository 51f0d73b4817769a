"""The texts of the page on the language mean what it says: `check` has nothing against them."""

from __future__ import annotations

import re
from pathlib import Path

import flowc
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
#: Texts that need no other files.
TEXTS = dict(re.findall(r'```flow\n// (\w+)\.flow\n([^"]*?)```', PAGE))


@pytest.mark.parametrize("name", TEXTS)
def test_texts_have_no_errors(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.flow").write_text(TEXTS[name])
    assert flowc.check(tmp_path / f"{name}.flow").ok


def test_what_is_said_of_paths(tmp_path: Path) -> None:
    """The words out at 68 and 132 ms, 4 ms after what they hear."""
    (tmp_path / "listen.flow").write_text(TEXTS["listen"])
    verdicts = flowc.check(tmp_path / "listen.flow").verdicts["Listen"]
    assert verdicts.pace == {"Listen.mic": 32 * 10**6}
    (path,) = flowc.analyze(tmp_path / "listen.flow").apps["Listen"].paths
    assert (path.latency, path.deadline) == (4_400_000, 40 * 10**6)
