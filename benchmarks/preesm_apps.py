"""All graphs of a collection of PREESM projects: imported, checked, run, and why not.

    python benchmarks/preesm_apps.py PROJECTS [--run] [--no-display] [--only TEXT]

PROJECTS is a clone of a repository such as https://github.com/preesm/preesm-apps, below which
scenarios (.scenario)
name graphs; each graph is read through the first of them. Firings are counted twice, by flowc and
by a sum over the
files of PREESM that shares no code with the import (tests/referees/pisdf.py). With --run each
program that has all of
its code runs two frames within a minute, unmeasured, in an empty folder: many want videos that no
repository has. With
--no-display they need no SDL and no such files: `benchmarks/no_display` draws nothing, and has
noise in their place.

    imported  the files became a text; else the first diagnostic
    checked   `flowc check` has no errors
    firings   of one iteration, and whether the referee has the same for each task
    code      C code of all actors is there
    run       two frames came to their end; else the last line of the program
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import flowc
from flowc.driver.exchange.import_ import import_
from flowc.model.diagnostic import Errors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "referees"))
import pisdf

SECONDS = 60
#: MiB of noise, which has to last for some frames of any video.
NOISE = 64
NO_DISPLAY = Path(__file__).resolve().parent / "no_display"


@dataclass
class Row:
    """What became of a graph; `why` is empty where all went well."""

    graph: str
    imported: bool = False
    checked: bool = False
    firings: int = 0
    agreed: bool = False
    code: bool = False
    ran: bool = False
    why: str = ""


def graphs(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each graph that a scenario names and that exists, with the first such scenario."""
    seen: set[Path] = set()
    for scenario in sorted(root.rglob("*.scenario")):
        for algorithm in ElementTree.parse(scenario).getroot().iter("algorithm"):
            graph = pisdf.located(scenario, algorithm.get("url", ""))
            if graph is not None and graph not in seen:
                seen.add(graph)
                yield graph, scenario


def tried(root: Path, graph: Path, scenario: Path, folder: Path, run: bool, flags: str) -> Row:
    """One line of the table."""
    row = Row(str(graph.relative_to(root)))
    text = folder / "app.flow"
    try:
        import_(scenario, text)
    except Errors as errors:
        row.why = "; ".join(f"{d.code} {d.message}" for d in errors.diagnostics[:2])
        return row
    row.imported = True
    found = flowc.check(text)
    row.checked = found.ok
    if not found.ok:
        row.why = next(f"{d.code} {d.message}" for d in found.diagnostics if d.severity == "error")
        return row
    valid = found.require()
    counts = {t.partition(".")[2]: n for q in valid.repetition.values() for t, n in q.items()}
    row.firings = sum(counts.values())
    expected = pisdf.Flat(graph, pisdf.given(scenario)).firings()
    row.agreed = pisdf.agree(counts, expected)
    # What repeats tokens on an arrow is called like the arrow, and needs no code.
    row.code = all(
        t.implementations for app in valid.system.apps for t in app.tasks if "->" not in t.name
    )
    if run and row.code:
        row.ran, row.why = executed(text, folder, flags)
    elif not row.code:
        row.why = "C code of some actors is not there"
    return row


def executed(text: Path, folder: Path, flags: str) -> tuple[bool, str]:
    """Did two frames come to their end, with these flags of the compiler? Else the line that says
    why not."""
    command = [sys.executable, "-m", "flowc", "run", str(text), "--frames", "2", "--no-measure"]
    try:
        environment = {**os.environ, "CFLAGS": f"{os.environ.get('CFLAGS', '')} {flags}".strip()}
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return False, f"longer than {SECONDS} s"
    lines = [
        line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()
    ]
    said = [line for line in lines if "error: " in line or "failed" in line] or lines
    return done.returncode == 0, "" if done.returncode == 0 else (said or ["no word"])[0][:160]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", type=Path)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--no-display", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    root = options.projects.resolve()
    noise = Path(tempfile.mkstemp(prefix="noise-", suffix=".yuv")[1])
    flags = ""
    if options.no_display:
        noise.write_bytes(os.urandom(1 << 20) * NOISE)
        flags = f'-I{NO_DISPLAY} -include {NO_DISPLAY / "noise.h"} -DNO_DISPLAY_FILE="{noise}"'
    rows = []
    print(f"{'graph':74} imported checked   firings  code   run")
    for graph, scenario in graphs(root):
        if options.only not in str(graph):
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = tried(root, graph, scenario, Path(folder), options.run, flags)
        rows.append(row)
        marks = [row.imported, row.checked, row.code, row.ran]
        imported, checked, code, ran = ("yes" if mark else "-" for mark in marks)
        same = "=" if row.agreed else "!" if row.checked else " "
        print(
            f"{row.graph[-74:]:74} {imported:>8} {checked:>7} {row.firings:>8}{same} {code:>5}"
            f" {ran:>5}  {row.why}",
            flush=True,
        )
    noise.unlink()
    sums = [
        sum(getattr(r, a) for r in rows) for a in ("imported", "checked", "agreed", "code", "ran")
    ]
    words = ("imported", "checked", "counted alike", "with all code", "ran")
    print(
        f"{len(rows)} graphs:"
        f" {', '.join(f'{n} {word}' for n, word in zip(sums, words, strict=True))}"
    )


if __name__ == "__main__":
    main()
