"""All projects of HOPES: imported, checked, counted, run, and the losses.

    python benchmarks/hopes_projects.py HOPES/HOPES_UI/schematics

HOPES is a clone of cap-lab/HOPES (tried with commit bd0c1ec), which is no part of flowc. Each
project below the folder is imported and checked; the firings of its tasks are held against those
that HOPES' own translator computes (hopes_counts.json: UEMTranslator of cap-lab/CodeGeneration,
commit 23d492b; a `-` where it gives none). Those whose tasks all have code run for FRAMES frames.
Each is imported once more in the form that the translator reads, which has to give the same text.
The result is a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import flowc
from flowc.interop.hopes.counts import Counts, counts_of
from flowc.interop.hopes.design import HopesTask, Way, every
from flowc.interop.hopes.files import HopesCollector, locate
from flowc.interop.hopes.tasks import graph_of
from flowc.model.diagnostic import Errors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "referees"))
from hopes_cic import translated

FRAMES, PATIENCE = 3, 60
COUNTS = Path(__file__).with_name("hopes_counts.json")
#: What a warning is about, in a word; the first one that is found in its message counts.
LOSSES = {
    "code is not imported": "code",
    "is not shared": "shared sources",
    "transitions have conditions": "conditions",
    "in which nothing runs": "empty states",
    "memories": "memories",
    "control tasks": "control tasks",
    "scenarios": "scenarios",
    "modes of a task": "modes",
    "rates of other modes": "rates of modes",
    "a control task says so": "control-driven",
    "parameters of a task": "parameters",
    "flags of compiler": "flags",
    "further files": "files",
    "libraries": "libraries",
    "the newest value": "newest values",
    "rates that vary": "varying rates",
    "process network": "process network",
    "may end before": "early ends",
    "closes a cycle": "cycles without tokens",
    "tokens where": "rates against loops",
    "say tokens of": "sizes",
    "has room for": "small channels",
    "nothing is connected": "open ports",
    "multicast": "lengths of messages",
    "Connection": "links",
    "several devices": "devices merged",
    "GPU tasks": "GPU setup",
    "encryption": "encryption",
    "hardware dependencies": "hardware",
    "a period of": "periods",
    "deadline beyond": "deadlines",
    "the mapping of the project is left out": "mapping",
    "the profile of the project is left out": "profile",
}


@dataclass(slots=True)
class Row:
    """One project; texts are those of the table."""

    name: str
    imported: str = "no"
    checked: str = "-"
    counts: str = "-"
    run: str = "-"
    alike: bool = False
    lost: list[str] = field(default_factory=list)


def main() -> None:
    """Print the table and its sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", type=Path, metavar="FOLDER")
    folder: Path = parser.parse_args().projects
    known = json.loads(COUNTS.read_text())
    rows = []
    for files in sorted(folder.rglob("*.files")):
        with tempfile.TemporaryDirectory() as work:
            rows.append(
                row(files, str(files.relative_to(folder)).removesuffix(".files"), known, Path(work))
            )
    print(
        "| project | import | check | firings, flowc and HOPES | run | left out, each with a"
        " warning |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for r in rows:
        print(
            f"| {r.name} | {r.imported} | {r.checked} | {r.counts} | {r.run} |"
            f" {', '.join(r.lost)} |"
        )
    sums = [sum(getattr(r, what) == "yes" for r in rows) for what in ("imported", "checked", "run")]
    equal = sum(" = " in r.counts for r in rows)
    print(f"\n{len(rows)} projects: {sums[0]} imported, {sums[1]} checked, {sums[2]} run")
    print(f"{equal} have the firings of HOPES, of those for which it has some")
    print(f"{sum(r.alike for r in rows)} are the same in the form of the translator")


def row(files: Path, name: str, known: Mapping[str, dict[str, int]], work: Path) -> Row:
    """What becomes of a project."""
    found = Row("/".join(name.split("/")[-2:]))
    text = work / "app.flow"
    try:
        told = flowc.import_(files, text).warnings
    except Errors as errors:
        found.imported = f"{errors.diagnostics[0].code}: {errors.diagnostics[0].message}"
        return found
    found.imported = "yes"
    found.alike = alike_translated(files, text, work)
    found.lost = list(dict.fromkeys(word for w in told for word in lost(w.message)))
    faults = [
        d for d in flowc.check(text).diagnostics if d.severity == "error" and d.code != "F601"
    ]
    found.checked = "yes" if not faults else faults[0].code
    found.counts = compared(files, known.get(name))
    found.run = ran(text) if not faults else "-"
    return found


def alike_translated(files: Path, text: Path, work: Path) -> bool:
    """Does the other form give the same text? Comments say which file something was in."""
    other = work / "translator/app.flow"
    flowc.import_(translated(files, work / "cic"), other)
    lines = [
        [line for line in t.read_text().splitlines() if not line.lstrip().startswith("//")]
        for t in (text, other)
    ]
    return lines[0] == lines[1]


def lost(message: str) -> Iterator[str]:
    """The word for a warning."""
    word = next((word for part, word in LOSSES.items() if part in message), None)
    if word is not None:
        yield word


def compared(files: Path, wanted: Mapping[str, object] | None) -> str:
    """The firings of all tasks in an iteration, and those of HOPES."""
    graph = graph_of(locate(files), HopesCollector())
    assert graph is not None
    tasks, counts = every(graph), counts_of(graph, HopesCollector())
    controls = sum(t.kind == "control" for t in tasks.values())
    total = sum(counts.total[way] for way in counts.total if tasks[way].graph is None)
    if wanted is None:
        return f"{total}, -"
    sign = (
        "="
        if total + controls == wanted["sum"] and alike(tasks, counts, wanted["counts"])
        else "against"
    )
    return f"{total + controls} {sign} {wanted['sum']}"


def alike(tasks: Mapping[Way, HopesTask], counts: Counts, wanted: object) -> bool:
    """Does every task fire as often in a turn as there?"""
    assert isinstance(wanted, dict)
    leaves = (way for way in counts.turn if tasks[way].graph is None)
    return all(counts.turn[way] == wanted.get("_".join(way), 1) for way in leaves)


def ran(text: Path) -> str:
    """Whether it runs for some frames, or why it does not."""
    command = [
        sys.executable,
        "-m",
        "flowc",
        "run",
        text.name,
        "--no-measure",
        "--frames",
        str(FRAMES),
    ]
    try:
        done = subprocess.run(
            command, cwd=text.parent, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not over in {PATIENCE} s"
    if done.returncode == 0:
        return "yes"
    code = re.search(r"error\[(F\d+)\]", done.stderr)
    lines = [line for line in done.stderr.splitlines() if " failed" in line] or [
        done.stderr.strip()
    ]
    why = re.sub(r"^.*? task \S+\.(\S+) failed", r"`\1` failed", lines[-1])
    return code[1] if code else textwrap.shorten(why, 90, placeholder=" ...")


if __name__ == "__main__":
    main()
