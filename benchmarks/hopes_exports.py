"""Random applications through HOPES' own translator and gcc; their output is compared with that of
flowc's programs.

    python benchmarks/hopes_exports.py [--graphs 200] [--seed 0] [--iterations 5]

The translator: tests/referees/hopes_translator.py; what it counts wrongly in apps of two tasks is
mended. Each graph is exported for both policies; all firings of all tasks print what they computed,
and every line has to be the same. One process of Java translates them all, gcc does not optimize,
and flowc's programs are forks of a Python that has numpy.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Seconds after which a program hangs, however busy the machine is.
HANGS = 600
#: What does not count as a graph.
NO_GRAPH = ("blocked as drawn", "refused: its cycles wait when phases are one firing")
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/referees")]

from flowc.interop.hopes.export.export_project import ExportedProject, export_project  # noqa: E402
from flowc.interop.hopes.words import POLICIES  # noqa: E402
from flowc.model.diagnostic import Errors  # noqa: E402

from builds import build, run  # noqa: E402
from hopes_graphs import firings, random_system  # noqa: E402
from hopes_translator import compiled, count_as, counts, output, translate  # noqa: E402


def main() -> int:
    """Print what becomes of each graph, and a sum."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=5)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    seed = given.seed
    while sum(found[k] for k in found if k not in NO_GRAPH) < given.graphs:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            word = tried(seed, Path(folder), given.iterations)
        found[word] += 1
        print(f"{seed} {word} ({time.monotonic() - begin:.1f} s)", flush=True)
        seed += 1
    print(dict(found))
    return int(any("differ" in word or "fails" in word for word in found))


def tried(seed: int, folder: Path, iterations: int) -> str:
    """What becomes of one graph."""
    flow = random_system(seed, folder)
    if flow is None:
        return NO_GRAPH[0]
    wanted: list[str] = []
    for policy in POLICIES:
        try:
            made = export_project(flow, folder / policy, platform="two", policy=policy)
        except Errors as why:
            assert {d.code for d in why.diagnostics} == {"F723"}, why
            return NO_GRAPH[1]
        wanted = wanted or expected(flow, iterations)
        try:
            program = translate(folder / policy, made.name, iterations)
            if not _counted(flow, made, program):
                return f"{policy} fails: HOPES counts other firings: {counts(program)}"
            printed = lines("\n".join(output(compiled(program, ("-O0", "-w")), HANGS)))
        except (AssertionError, subprocess.TimeoutExpired) as why:
            return f"{policy} fails: {why}"
        if printed != wanted:
            return f"{policy}: outputs differ ({len(printed)} and {len(wanted)} lines)"
    return "equal"


def _counted(flow: Path, made: ExportedProject, program: Path) -> bool:
    """Does HOPES count the firings of an iteration? Those of two tasks alone are mended, which it
    counts wrongly."""
    right, found = firings(flow, made, 1), counts(program)
    wrong = {t: n for t, n in right.items() if found[t] != n}
    count_as(program, wrong)
    return all(sum(t.startswith(f"{name[0]}_") for t in right) == 2 for name in wrong)


def expected(flow: Path, iterations: int) -> list[str]:
    """What flowc's own program prints."""
    done = run(
        build(flow, flow.parent / "built", platform="two"),
        "--frames",
        str(iterations),
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    return lines(done.stdout)


def lines(text: str) -> list[str]:
    """The lines of tasks, in an order that does not depend on who ran first."""
    return sorted(line for line in text.splitlines() if re.fullmatch(r"\d+ \d+ \S+", line))


if __name__ == "__main__":
    sys.exit(main())
