"""Random applications through HOPES' own translator and gcc, and what they print against `flowc run`.

    python benchmarks/hopes_exports.py [--graphs 200] [--seed 0] [--iterations 5]

The translator: tests/referees/hopes_translator.py. Each graph is exported for both policies; all firings of all tasks
print what they computed, and every line has to be the same.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/referees")]

from flowc.driver.hopes import export_project  # noqa: E402
from flowc.model.diagnostic import Errors  # noqa: E402
from flowc.model.hopes import POLICIES  # noqa: E402

from hopes_graphs import random_system  # noqa: E402
from hopes_translator import compiled, counts, output, translate  # noqa: E402


def main() -> int:
    """Print what becomes of each graph, and a sum."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=5)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    seed = given.seed
    while sum(found[k] for k in found if k != "blocked as drawn") < given.graphs:
        with tempfile.TemporaryDirectory() as folder:
            for word in tried(seed, Path(folder), given.iterations):
                found[word] += word != "equal" or 1
                print(seed, word, flush=True)
        seed += 1
    print(dict(found))
    return int(any("differ" in word or "fails" in word for word in found))


def tried(seed: int, folder: Path, iterations: int) -> list[str]:
    """What becomes of one graph."""
    flow = random_system(seed, folder)
    if flow is None:
        return ["blocked as drawn"]
    wanted: list[str] = []
    word = "equal"
    for policy in POLICIES:
        try:
            made = export_project(flow, folder / policy, platform="two", policy=policy)
        except Errors as why:
            assert {d.code for d in why.diagnostics} == {"F723"}, why
            return ["refused: its cycles wait when phases are one firing"]
        wanted = wanted or expected(flow, iterations)
        try:
            program = translate(folder / policy, made.project.name, iterations)
            counted = counts(program)
            printed = lines("\n".join(output(compiled(program))))
        except (AssertionError, subprocess.TimeoutExpired) as why:
            return [f"{policy} fails: {why}"]
        if printed == wanted:
            continue
        if not _begins(printed, wanted, {t.name for t in made.project.tasks}):
            return [f"{policy}: outputs differ ({len(printed)} and {len(wanted)} lines), counts {counted}"]
        word = "equal as far as HOPES counts"
    return [word]


def _begins(printed: list[str], wanted: list[str], names: set[str]) -> bool:
    """Is it the same up to some firing of each task, and all of it in apps of more than two tasks?

    The translator forgets loops around loops in schedules of two tasks (`handleScheduleElement`), so that it counts
    fewer firings in an iteration; what they compute is right.
    """
    found, there = Counter(p.split()[0] for p in printed), Counter(w.split()[0] for w in wanted)
    cut = [w for w in wanted if int(w.split()[1]) < found[w.split()[0]]]
    apps = [sum(n.startswith(f"{a}_") for n in names) for a in "ABC"]
    short = sum(found[t] != n for t, n in there.items())
    return sorted(cut) == printed and found.keys() == there.keys() and short <= 2 * apps.count(2)


def expected(flow: Path, iterations: int) -> list[str]:
    """What `flowc run` prints."""
    command = [sys.executable, "-m", "flowc", "run", str(flow), "--platform", "two", "--no-measure"]
    done = subprocess.run(
        [*command, "--frames", str(iterations)], capture_output=True, text=True, check=True, cwd=flow.parent
    )
    return lines(done.stdout)


def lines(text: str) -> list[str]:
    """The lines of tasks, in an order that does not depend on who ran first."""
    return sorted(line for line in text.splitlines() if re.fullmatch(r"\d+ \d+ \S+", line))


if __name__ == "__main__":
    sys.exit(main())
