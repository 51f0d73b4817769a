"""All projects of HOPES imported and exported again: which of their XML changes.

    python benchmarks/hopes_round_trip.py HOPES/HOPES_UI/schematics [--anew]

HOPES is a clone of cap-lab/HOPES (tried with commit bd0c1ec), which is no part of flowc. Each
project goes there and back in the form of the tool and in that of the translator, by the
application alone and by the text with its authors' mapping. All XML of a project is compared:
attributes, texts and elements, in any order. `--anew` leaves the XML out of the manifest, which
shows what the language and the names alone bring back.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

import flowc
from flowc.interop.hopes.export.export_project import export_project
from flowc.model.diagnostic import Errors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "referees"))
from hopes_cic import translated

#: Attributes that say which of its siblings an element is.
NAMES = (
    "name",
    "task",
    "port",
    "mode",
    "type",
    "pool",
    "localId",
    "macroNodePort",
    "src_task",
    "src_port",
    "dst_task",
    "dst_port",
)


def main() -> None:
    """Print what becomes of each project, and the classes of differences with their numbers of
    projects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--anew", action="store_true", help="without the XML that the manifest keeps"
    )
    given = parser.parse_args()
    classes: dict[str, Counter[str]] = defaultdict(Counter)
    equal: Counter[str] = Counter()
    projects = sorted(given.projects.rglob("*.files"))
    for files in projects:
        name = str(files.relative_to(given.projects)).removesuffix(".files")
        for form in ("tool", "translator"):
            with tempfile.TemporaryDirectory() as work:
                for text, found in there_and_back(files, form, Path(work), given.anew):
                    way = f"{form}, {text}"
                    equal[way] += not found
                    for word in {*found}:
                        classes[word][way] += 1
                    print(f"{name} ({way}): {'equal' if not found else words(found)}", flush=True)
    print(f"\n{len(projects)} projects")
    for way, count in sorted(equal.items()):
        print(f"{way}: {count} equal")
    for word, ways in sorted(classes.items(), key=lambda item: -sum(item[1].values())):
        print(f"{word}: " + ", ".join(f"{count} ({way})" for way, count in sorted(ways.items())))


def words(found: list[str]) -> str:
    """Differences with their numbers."""
    return ", ".join(
        f"{count} x {word}" if count > 1 else word for word, count in sorted(Counter(found).items())
    )


def there_and_back(
    files: Path, form: str, work: Path, anew: bool
) -> Iterator[tuple[str, list[str]]]:
    """What is other in a project that was imported and exported, for each text that has its
    apps."""
    project = files.parent if form == "tool" else translated(files, work / "cic").parent
    start = files if form == "tool" else next(project.glob("*_algorithm.xml"))
    text = work / "text/app.flow"
    try:
        flowc.import_(start, text)
    except Errors as errors:
        yield "import", [f"{d.code}" for d in errors.diagnostics]
        return
    manifest = text.with_name("app.hopes.json")
    said = json.loads(manifest.read_text())
    originals = (
        [files.with_suffix(""), *files.rglob("*.xml")]
        if form == "tool"
        else [*project.rglob("*.xml")]
    )
    originals = [path for path in originals if path.is_file()]
    if anew:
        manifest.write_text(json.dumps({**said, "xml": {}}))
    boards = [p for p in text.parent.glob("*.flow") if "\nplatform " in p.read_text()]
    platform = str(boards[0]) if boards else "host"
    authors = [text.with_name(f"app.{board.stem}.flow") for board in boards]
    for kind, own in [("alone", text), *(("authors", p) for p in authors if p.is_file())]:
        out = work / kind
        try:
            export_project(own, out, platform=platform, form="project" if form == "tool" else "cic")
        except Errors as errors:
            yield kind, sorted({d.code for d in errors.diagnostics if d.severity == "error"})
            continue
        yield (
            kind,
            [
                word
                for path in originals
                for word in differences(path, out / path.relative_to(project))
            ],
        )


def differences(was: Path, now: Path) -> Iterator[str]:
    """What is other in a file of XML, without its place in the file."""
    kind = was.stem.rpartition("_")[2] if "_" in was.stem else was.stem
    if not now.is_file():
        yield f"no {kind if was.suffix else 'file of the tool'}"
        return
    try:
        yield from (
            f"{kind}: {word}"
            for word in compared(Xml.parse(was).getroot(), Xml.parse(now).getroot())
        )
    except Xml.ParseError:
        if was.read_bytes() != now.read_bytes():
            yield f"{kind}: bytes"


def compared(was: Xml.Element, now: Xml.Element) -> Iterator[str]:
    """Attributes, texts and elements of one element that the other has not, or otherwise."""
    tag = was.tag.partition("}")[2] or was.tag
    for key in sorted({**was.attrib, **now.attrib}):
        if was.get(key) != now.get(key):
            yield f"{tag}@{key.partition('}')[2] or key}"
    if (was.text or "").strip() != (now.text or "").strip():
        yield f"{tag} text"
    ours, theirs = by_name(was), by_name(now)
    for name in {**ours, **theirs}:
        pairs = list(zip(ours.get(name, ()), theirs.get(name, ()), strict=False))
        for a, b in pairs:
            yield from compared(a, b)
        word = name[0].partition("}")[2] or name[0]
        yield from [f"{word} gone"] * (len(ours.get(name, ())) - len(pairs))
        yield from [f"{word} new"] * (len(theirs.get(name, ())) - len(pairs))


def by_name(node: Xml.Element) -> dict[tuple[str, ...], list[Xml.Element]]:
    """What is in an element by tag and name, in an order of its own."""
    found: dict[tuple[str, ...], list[Xml.Element]] = defaultdict(list)
    for child in sorted(node, key=lambda n: Xml.tostring(n, "unicode").strip()):
        ends = (
            e.get(key, "")
            for e in child
            for key in ("task", "port")
            if e.tag.endswith(("src", "dst"))
        )
        found[(child.tag, *(child.get(key, "") for key in NAMES), *ends)].append(child)
    return found


if __name__ == "__main__":
    main()
