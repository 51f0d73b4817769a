"""Write the documentation as a site: `python docs/make_site.py`, which makes
`build/site/html/index.html`, and for language models `llms.txt` beside it.

Pages are the Markdown files of the repository as they are, at the paths that they have there, so
that every link works in both places; only links to folders are completed by their README.md. The
site is made by zensical (the extra `docs`), and shows itself without a server: `build/site/html` is
all of it. A link that leads nowhere stops everything. `llms.txt` (https://llmstxt.org) lists the
same pages as Markdown, each with the first sentence that it says about itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]*)((?:#[^)\s]*)?)(?=\))")
LINKED = re.compile(r"\[([^]]*)\]\([^)]*\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
#: The pages by what a reader wants, in the order of the table of contents, of folders all; what is not among them comes
#: behind them.
PAGES: dict[str, list[str]] = {
    "Learn": [
        *(
            f"docs/tutorial/{p}.md"
            for p in (
                "README",
                "camera",
                "deadline",
                "networks",
                "memory",
                "jetson",
                "found",
                "native",
                "energy",
            )
        ),
        "docs/gallery.md",
    ],
    "Do": [
        f"docs/{p}.md"
        for p in (
            "tasks",
            "networks",
            "mapping",
            "memory",
            "scenarios",
            "report",
            "native",
            "gpu",
            "boards",
            "machines",
            "robots",
            "embedding",
            "external",
            "fmu",
            "editor",
            "assistants",
        )
    ],
    "Look up": [
        f"docs/{p}.md"
        for p in (
            "questions",
            "verbs",
            "language",
            "analysis",
            "program",
            "generated/matrix",
            "generated/diagnostics",
            "json",
            "generated/files",
            "glossary",
        )
    ],
    "Other tools": ["docs/hopes.md", "docs/jedi.md", "docs/preesm.md", "docs/darknet.md"],
    "Understand": [
        "docs/beside.md",
        "docs/performance.md",
        "docs/generated/published.md",
        "docs/generated/taken.md",
        "docs/stability.md",
        "CHANGELOG.md",
    ],
    "Examples": ["examples"],
    "Working on flowc": [
        "docs/first_read.md",
        "docs/one_firing.md",
        "docs/generated/README.md",
        "docs/architecture.md",
        "CONTRIBUTING.md",
    ],
    "Decisions": ["docs/decisions"],
}
#: Chapters about flowc itself, which a reader with little room may leave out.
OPTIONAL = ("Working on flowc", "Decisions")
#: What stands before the first sentence of a page: comments, code and pictures.
NO_SENTENCE = re.compile(r"<!--.*?-->|^```.*?^```$|^!\[.*?$", re.MULTILINE | re.DOTALL)
SETTINGS = """\
[project]
site_name = "flowc"
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false
nav = [
{nav}
]
[project.theme]
language = "en"
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
[project.markdown_extensions]
tables = {{}}
toc.permalink = true
toc.slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""


def pages() -> dict[str, list[Path]]:
    """The files of each chapter."""
    found = {}
    for chapter, names in PAGES.items():
        places = [ROOT / name for name in names]
        found[chapter] = [f for p in places for f in (sorted(_texts(p)) if p.is_dir() else [p])]
    listed = {page for group in found.values() for page in group}
    found["More"] = sorted({*_texts(ROOT / "docs")} - listed)
    return found


def _texts(folder: Path) -> Iterator[Path]:
    """Pages of a folder, or one of each folder in it."""
    yield from folder.glob("*.md")
    yield from folder.glob("*/README.md")


def completed(page: Path, wanted: set[Path]) -> str:
    """The text of a page with links to files; `wanted` gets what they lead to. Raises
    ValueError."""

    def one(link: re.Match[str]) -> str:
        place, target = Path(os.path.normpath(page.parent / link[1])) if link[1] else page, link[1]
        if place.is_dir():
            place, target = place / "README.md", f"{target.rstrip('/')}/README.md"
        if not place.is_file() or ROOT not in place.parents:
            raise ValueError(f"{page.relative_to(ROOT)}: `{link[1]}` leads nowhere")
        wanted.add(place)
        return target + _again(place, link[2])

    parts = CODE.split(page.read_text())
    return "".join(part if k % 2 else LINK.sub(one, part) for k, part in enumerate(parts))


def _again(page: Path, anchor: str) -> str:
    """The anchor of a heading that a page has twice, which is `#name-1` on GitHub and `#name_1` in
    a site."""
    name, _, number = anchor.rpartition("-")
    twice = (
        re.findall(rf"^#+ {re.escape(name[1:])}$", page.read_text(), re.MULTILINE | re.IGNORECASE)
        if name
        else []
    )
    return f"{name}_{number}" if len(twice) > 1 else anchor


def collect(source: Path) -> str:
    """Write what the site is made from into a folder; the settings for zensical."""
    chapters = pages()
    listed = {page for group in chapters.values() for page in group}
    todo, done = {ROOT / "README.md", *listed}, set()
    while todo - done:
        page = min(todo - done)
        done.add(page)
        target = source / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            target.write_text(completed(page, todo))
        else:
            shutil.copy(page, target)
    nav = ['  { "flowc" = "README.md" },']
    for chapter, group in ((c, g) for c, g in chapters.items() if g):
        entries = ", ".join(f'"{page.relative_to(ROOT)}"' for page in group)
        nav.append(f'  {{ "{chapter}" = [{entries}] }},')
    return "\n".join(nav)


def llms() -> str:
    """The table of contents for language models: title, link and first sentence of each page."""
    title, about = first_lines(ROOT / "README.md")
    lines = [f"# {title}", "", f"> {about}"]
    chapters = pages()
    sections = {c: group for c, group in chapters.items() if c not in OPTIONAL}
    sections["Optional"] = [page for c in OPTIONAL for page in chapters[c]]
    for section, group in ((c, g) for c, g in sections.items() if g):
        lines += ["", f"## {section}", ""]
        for page in group:
            title, about = first_lines(page)
            lines.append(f"- [{title}]({page.relative_to(ROOT)}): {about}")
    return "\n".join(lines) + "\n"


def first_lines(page: Path) -> tuple[str, str]:
    """The title of a page and its first sentence, as plain text. Raises ValueError."""
    heading, _, rest = page.read_text().partition("\n")
    paragraphs = NO_SENTENCE.sub("", rest).strip().split("\n\n")
    words = LINKED.sub(r"\1", " ".join(paragraphs[0].split()))
    if not heading.startswith("# ") or not words or words[0] in "#|":
        raise ValueError(f"{page.relative_to(ROOT)} does not begin with a title and a sentence")
    return heading[2:], re.split(r"(?<=[.:?])\s+(?=[A-Z`\[*]|flowc )", words)[0].rstrip(":")


def main() -> None:
    """Make the site; the exit status says whether zensical warned of something."""
    folder = ROOT / "build" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    nav = collect(folder / "pages")
    settings = folder / "zensical.toml"
    settings.write_text(SETTINGS.format(nav=nav))
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "-f",
        str(settings),
    ]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        for page in (folder / "pages").rglob("*.md"):
            shutil.copy(page, folder / "html" / page.relative_to(folder / "pages"))
        (folder / "html" / "llms.txt").write_text(llms())
    sys.exit(status)


if __name__ == "__main__":
    main()
