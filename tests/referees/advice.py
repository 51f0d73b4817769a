"""What `map --explain` says would help, carried out: the text is changed so, and `map` asked again.

Texts are those of orders.py, with numbers that put the apps in a random order or give all of them
one, and with random pins. Of flowc only the verb is used.

    python tests/referees/advice.py --texts 200 --seed 1

prints how many texts are late, and of each kind of change how many were told and how many keep all
deadlines when they are made. The exit status is 1 if one does not.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from orders import called, draw

#: Evaluations of a search.
EVALUATIONS = 60
#: Lines behind this one are changes, with an indent.
HEAD = "each of these alone keeps all deadlines"


def late_text(seed: int) -> str:
    """A text with numbers and pins."""
    rng = random.Random(seed)
    drawn = draw(seed)
    text = drawn.text()
    equal = rng.random() < 0.5
    for name in drawn.text_of:
        number = 1 if equal else rng.randint(1, 4)
        text = text.replace(f"app {name} {{", f"app {name} {{ priority {number}")
    pins = "  ".join(f"{task} -> {rng.choice(drawn.cpus)}" for task in drawn.shares)
    return text + f"mapping on p {{ {pins} }}\n"


def other_priorities(text: str, order: str) -> str:
    levels = [level.split(" = ") for level in order.split(" > ")]
    for number, names in enumerate(reversed(levels), start=1):
        for name in names:
            text = re.sub(rf"(app {name} {{) priority \d+", rf"\1 priority {number}", text)
    return text


def other_place(text: str, task: str, place: str) -> str:
    return re.sub(rf"{re.escape(task)} -> \S+", lambda _: f"{task} -> {place}", text)


def shorter(text: str, task: str, ms: str) -> str:
    app, name = task.split(".")
    found = re.search(rf"app {app} {{.*\b{name}: (\w+)", text)
    assert found is not None
    us = Fraction(ms) * 1000
    return re.sub(rf"(task {found[1]} {{.*wcet) \d+ us", rf"\1 {us} us", text)


def all_shorter(text: str, factor: str) -> str:
    def scaled(found: re.Match[str]) -> str:
        return f"wcet {int(int(found[1]) * 1000 * Fraction(factor))} ns"

    return re.sub(r"wcet (\d+) us", scaled, text)


def longer_periods(text: str, factor: str) -> str:
    return re.sub(
        r"period (\d+) us", lambda found: f"period {int(found[1]) * int(factor)} us", text
    )


def more_cores(text: str, count: str, pool: str) -> str:
    return re.sub(rf"cpu {pool}\[\d+\]", f"cpu {pool}[{count}]", text)


#: Kinds of changes: what they look like, and how they are made.
CHANGES: dict[str, tuple[str, Callable[..., str]]] = {
    "priorities": (r"  other priorities: (.+)", other_priorities),
    "pin": (r"  `(\S+)` on (\S+) instead of its pin", other_place),
    "time": (r"  `(\S+)` in at most (\S+) ms instead of \S+ ms", shorter),
    "all times": (r"  all times x (\S+), as by faster processors", all_shorter),
    "periods": (r"  all periods x (\d+), with the same deadlines", longer_periods),
    "cores": (r"  (\d+) cores in `(\w+)`", more_cores),
}


def told(out: str) -> list[str]:
    """The changes that are told."""
    lines = out.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith(HEAD)]
    if not heads:
        return []
    behind = lines[heads[0] + 1 :]
    end = next((k for k, line in enumerate(behind) if not line.startswith("  ")), len(behind))
    return behind[:end]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "late.flow"
        for seed in range(options.seed, options.seed + options.texts):
            text = late_text(seed)
            status, out = called(path, text, EVALUATIONS, "--explain")
            if status == 0 or "maximum utilization" not in out:
                counts["in time or refused"] += 1
                continue
            counts["late"] += 1
            lines = told(out)
            counts["late, nothing told"] += not lines
            for line in lines:
                kind, found = next(
                    (kind, found)
                    for kind, (pattern, _) in CHANGES.items()
                    if (found := re.fullmatch(pattern, line)) is not None
                )
                changed = CHANGES[kind][1](text, *found.groups())
                counts[f"told: {kind}"] += 1
                if called(path, changed, EVALUATIONS, "--explain")[0] == 0:
                    counts[f"kept: {kind}"] += 1
                else:
                    wrong.append(f"seed {seed}:{line}")
    for what, count in sorted(counts.items()):
        print(f"{what:24}{count:6}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
