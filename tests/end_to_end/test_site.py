"""The site of the documentation, as far as it is ours: pages, their order, and links that lead
somewhere."""

from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path

import pytest

from builds import ROOT

SITE = runpy.run_path(str(ROOT / "docs" / "make_site.py"))
STORED = ROOT / "tests" / "data" / "stored" / "1"
FILM = runpy.run_path(str(ROOT / "docs" / "make_film.py"))


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
    assert "](examples/tracker/README.md)" in (tmp_path / "README.md").read_text()
    assert "(#report_1)" in (tmp_path / "docs/json.md").read_text()


def test_the_page_of_files_is_up_to_date() -> None:
    """`FLOWC_REWRITE_GOLDEN=1` rewrites it."""
    page = runpy.run_path(str(ROOT / "docs" / "make_json.py"))["page"]()
    target = ROOT / "docs" / "generated" / "files.md"
    if os.environ.get("FLOWC_REWRITE_GOLDEN"):
        target.write_text(page)
    assert target.read_text() == page, "run `python docs/make_json.py`"


def test_the_page_of_files_has_every_field_of_a_file() -> None:
    """The samples of this version; names of apps and tasks are no fields."""
    page = (ROOT / "docs" / "generated" / "files.md").read_text()
    known = {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE), "version", "identity"}

    def unknown(value: object) -> set[str]:
        if isinstance(value, dict):
            named = {key for key in value if re.search(r"[A-Z .]", key)}
            return set(value) - known - named | {k for v in value.values() for k in unknown(v)}
        return {k for v in value for k in unknown(v)} if isinstance(value, list) else set()

    for name in ("profile", "mapping", "deployment"):
        assert not unknown(json.loads((STORED / f"{name}.json").read_text()))


def test_the_list_for_language_models_has_every_page_with_a_sentence() -> None:
    told = SITE["llms"]()
    lines = told.splitlines()
    assert lines[0] == "# flowc" and lines[2].startswith("> flowc turns a text that describes")
    entries = re.findall(r"^- \[(.+)\]\((\S+)\): (.+)$", told, re.MULTILINE)
    assert len(entries) == sum(line.startswith("- ") for line in lines)
    listed = [ROOT / page for _, page, _ in entries]
    assert len(set(listed)) == len(listed) and all(page.is_file() for page in listed)
    assert {*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")} <= set(listed)
    about = {page: sentence for _, page, sentence in entries}
    assert about["docs/report.md"] == (
        "`flowc report APP.flow` writes one page about an application, with predicted, proved and"
        " measured results side by side."
    )
    assert told.index("## Learn") < told.index("docs/language.md") < told.index("## Optional")


def test_the_film_is_of_the_example_as_it_is() -> None:
    recorded = json.loads((ROOT / "docs" / "film.json").read_text())
    assert recorded["text"] == FILM["digest"](), "run `python docs/make_film.py --record`"
    film = (ROOT / "docs" / "film.svg").read_text()
    assert film == FILM["draw"](recorded), "run `python docs/make_film.py`"
    assert recorded["path"]["max_ns"] < recorded["path"]["bound_ns"]


def test_every_anchor_is_a_heading() -> None:
    """As GitHub calls headings: the second of one name is `name-1`."""

    def anchors(page: Path) -> set[str]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        names = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names]
        return {*slugs, *(f"{slug}-{n}" for slug in slugs for n in range(1, slugs.count(slug)))}

    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
    headings = {page: anchors(page) for page in pages}
    lost = [
        f"{page.relative_to(ROOT)}: {link}#{anchor}"
        for page in pages
        for link, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text())
        if anchor not in headings[(page.parent / link).resolve() if link else page]
    ]
    assert not lost


def test_readme_is_one_screen() -> None:
    """Words as `wc -w` counts them."""
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_a_page_without_a_sentence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "empty.md"
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path: "# Empty\n\n## Part\n" if path == page else read(path)
    )
    with pytest.raises(ValueError, match=r"docs/empty\.md does not begin with"):
        SITE["first_lines"](page)


def test_decisions_are_dated_sections_of_few_pages() -> None:
    """As docs/decisions/README.md says: reasons that code cannot tell, and no more than these."""
    pages = [p for p in (ROOT / "docs" / "decisions").glob("*.md") if p.name != "README.md"]
    assert len(pages) <= 19
    words = 0
    for page in pages:
        title, *sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
        assert title.startswith("# ") and sections, page
        for section in sections:
            assert re.match(r".+\n\n20\d\d-\d\d-\d\d\. \S", section), (page, section[:60])
        words += len(page.read_text().split())
    assert words <= 12_000


def test_a_link_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "missing.md"
    texts = {page: "[a](language.md#x) [b](https://example.org) `[c](nowhere)` [d](no/where.md)"}
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: texts.get(path) or read(path))
    with pytest.raises(ValueError, match=r"docs/missing\.md: `no/where\.md` leads nowhere"):
        SITE["completed"](page, set())
