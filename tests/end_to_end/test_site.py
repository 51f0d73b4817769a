"""The site of the documentation, as far as it is ours: pages, their order, and links that lead
somewhere."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from builds import ROOT

SITE = runpy.run_path(str(ROOT / "docs" / "make_site.py"))


def test_every_page_is_listed_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    listed = SITE["collect"](tmp_path)
    for page in [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*/README.md"),
        ROOT / "CHANGELOG.md",
    ]:
        name = str(page.relative_to(ROOT))
        assert listed.count(f'"{name}"') == 1
        assert (tmp_path / name).is_file()
    assert "](examples/hello/README.md)" in (tmp_path / "README.md").read_text()
    assert "(#report_1)" in (tmp_path / "docs/json.md").read_text()


def test_a_link_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "missing.md"
    texts = {page: "[a](language.md#x) [b](https://example.org) `[c](nowhere)` [d](no/where.md)"}
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: texts.get(path) or read(path))
    with pytest.raises(ValueError, match=r"docs/missing\.md: `no/where\.md` leads nowhere"):
        SITE["completed"](page, set())
