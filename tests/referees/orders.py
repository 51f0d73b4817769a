"""Every order of priorities at every place of small random texts, against what `map` finds.

Each text leaves priorities and places open. The truth is asked of `flowc map` as well, with texts in
which each app has a number and each task a pin, so that nothing is left to a search: for all orders
and all placements, until one keeps all deadlines. Of flowc only the verb is used.

    python tests/referees/orders.py --texts 200 --seed 1

prints how many texts have an order by which all deadlines are kept, where `map` had its order from,
how many it missed, and how often it said that every mapping was ruled out although there is one.
The exit status is 1 if that happened.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path

from flowc.cli import app as cli
from typer.testing import CliRunner

#: Evaluations that `map` has for the text with everything open.
EVALUATIONS = 400


@dataclass(frozen=True)
class Drawn:
    """A text without numbers and pins: its CPUs, and by task the share of a CPU that it needs."""

    declarations: str
    cpus: tuple[str, ...]
    text_of: dict[str, str]
    shares: dict[str, float]

    def text(self, order: tuple[str, ...] = (), places: dict[str, str] | None = None) -> str:
        """The text, with an order of its apps, the most urgent first, and with pins."""
        lines = [self.declarations]
        for name, text in self.text_of.items():
            number = f"priority {len(order) - order.index(name)} " if order else ""
            lines.append(f"app {name} {{ {number}{text} }}")
        if places is not None:
            pins = "  ".join(f"{task} -> {cpu}" for task, cpu in places.items())
            lines.append(f"mapping on p {{ {pins} }}")
        return "\n".join(lines) + "\n"

    def places(self) -> Iterator[dict[str, str]]:
        """All placements with work that fits. CPUs are alike: the first task is on the first."""
        for cpus in product(self.cpus, repeat=len(self.shares) - 1):
            places = dict(zip(self.shares, (self.cpus[0], *cpus), strict=True))
            used = dict.fromkeys(self.cpus, 0.0)
            for task, cpu in places.items():
                used[cpu] += self.shares[task]
            if max(used.values()) <= 1:
                yield places


def draw(seed: int) -> Drawn:
    """Two to four apps of one to three tasks in a row on one or two CPUs, with deadlines shorter
    and longer than periods, some on paths."""
    rng = random.Random(seed)
    count, cores = rng.randint(2, 4), rng.randint(1, 2)
    wakeup = rng.choice(["", "", " wakeup 100 us"])
    lines = [f"platform p {{ cpu c[{cores}] scheduler fixed_priority{wakeup} }}"]
    load = cores * rng.uniform(0.55, 0.95) / count
    cpus = tuple(f"c[{k}]" for k in range(cores))
    left = 5
    shares: dict[str, float] = {}
    text_of = {}
    for number in range(count):
        name = f"A{number}"
        period = rng.choice([5, 10, 20, 20, 30, 40, 60]) * 1000
        size = min(rng.choice([1, 1, 2, 3]), left - (count - number - 1))
        left -= size
        work = max(size, int(period * load * rng.uniform(0.5, 1.5)))
        parts = [max(1, int(work / size * rng.uniform(0.6, 1.4))) for _ in range(size)]
        tasks = tuple(f"t{k}" for k in range(size))
        for k, us in enumerate(parts):
            ports = " in x: int32" * (k > 0) + " out y: int32" * (k < size - 1)
            lines.append(f"task T{number}{k} {{{ports} wcet {us} us }}")
            shares[f"{name}.t{k}"] = us / period
        due = max(int(period * rng.uniform(0.4, 1.3)), int(sum(parts) * rng.uniform(1.05, 1.6)))
        deadline = f"deadline {due} us"
        if size > 1 and rng.random() < 0.3:
            deadline = f"deadline t0 -> t{size - 1} {due} us"
        body = "  ".join(f"t{k}: T{number}{k}" for k in range(size))
        arrows = "  " + " -> ".join(tasks) if size > 1 else ""
        text_of[name] = f"period {period} us {deadline} {body}{arrows}"
    return Drawn("\n".join(lines), cpus, text_of, shares)


@dataclass(frozen=True)
class Answer:
    """What `map` says: are all deadlines kept, where its order comes from, and does it say that
    every mapping was ruled out?"""

    kept: bool
    by: str
    ruled_out: bool


def called(path: Path, text: str, evaluations: int, word: str) -> tuple[int, str]:
    """The exit status and the output of `flowc map` of a text, with a further option."""
    path.write_text(text)
    command = ["map", str(path), "--platform", "p", "--no-measure"]
    done = CliRunner().invoke(cli, [*command, "--evaluations", str(evaluations), word])
    return done.exit_code, done.stdout


def asked(folder: Path, text: str, evaluations: int) -> Answer | None:
    """The answer of `flowc map`; None if it refuses the text."""
    path = folder / "drawn.flow"
    status, said = called(path, text, evaluations, "--json")
    if not said.startswith("{"):
        return None
    stored = folder / "drawn.p.mapping.json"
    order = json.loads(stored.read_text()).get("priorities") if stored.exists() else None
    if status == 0:
        return Answer(True, "one app" if order is None else order["by"], False)
    _, said = called(path, text, evaluations, "--explain")
    return Answer(False, "", "ruled out" in said or "no mapping fits" in said)


def is_solvable(folder: Path, drawn: Drawn) -> bool:
    """Does some order keep all deadlines at some places?"""
    for places in drawn.places():
        for order in permutations(drawn.text_of):
            answer = asked(folder, drawn.text(order, places), 1)
            if answer is not None and answer.kept:
                return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no text after them")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = []
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(options.seed, options.seed + options.texts):
            if time.monotonic() > end:
                break
            drawn = draw(seed)
            answer = asked(folder, drawn.text(), EVALUATIONS)
            if answer is None:
                counts["refused"] += 1
                continue
            solvable = answer.kept or is_solvable(folder, drawn)
            counts["solvable" if solvable else "not solvable"] += 1
            if answer.kept:
                counts[f"found, {answer.by}"] += 1
            elif solvable:
                counts["missed"] += 1
                wrong.append(f"missed: seed {seed}")
            if answer.ruled_out:
                counts["ruled out"] += 1
                if solvable:
                    wrong.append(f"ruled out though solvable: seed {seed}")
    for what, count in sorted(counts.items()):
        print(f"{what:24}{count:6}")
    print("\n".join(wrong))
    return 1 if any("though" in each for each in wrong) else 0


if __name__ == "__main__":
    raise SystemExit(main())
