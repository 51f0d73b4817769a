"""Writes docs/generated/diagnostics.md: every code with its meaning, a faulty text, and what flowc prints
about it.

The texts and the answers are those of `tests/faulty`, so that a test holds the page to what flowc
does.
"""

from __future__ import annotations

import re
from pathlib import Path

from flowc.model.catalogue import CODES

HERE = Path(__file__).resolve().parent
FAULTY = HERE.parent / "tests" / "faulty"
#: Where one example is not enough, or the first by name is not the one to show.
SHOWN = {
    "F001": ("F001_closing_brace", "F001_misspelt_period", "F001_no_unit", "F001_open_text"),
    "F002": ("F002_mistyped",),
    "F101": ("F101_task",),
    "F102": ("F102_two_tasks",),
    "F103": ("F103_type_for_task",),
    "F104": ("F104_not_a_unit",),
    "F105": ("F105_no_dimension", "F105_scheduler"),
    "F106": ("F106_two_lists",),
    "F107": ("F107_rate_zero",),
    "F109": ("F109_shape",),
    "F114": ("F114_language",),
    "F115": ("F115_period",),
    "F202": ("F202_input",),
    "F203": ("F203_rates",),
    "F204": ("F204_no_delay", "F204_too_few"),
    "F205": ("F205_shape",),
    "F206": ("F206_two_inputs",),
    "F210": ("F210_values",),
    "F212": ("F212_lengths",),
    "F302": ("F302_name",),
    "F303": ("F303_too_few",),
    "F402": ("F402_truncated",),
    "F406": ("F406_shape",),
    "F501": ("F501_name",),
    "F502": ("F502_task",),
    "F602": ("F602_types",),
}
PARTS = {
    "F0": "The text",
    "F1": "Names, values, types",
    "F2": "The graph",
    "F3": "Task code",
    "F4": "Networks",
    "F5": "Platforms and mappings",
    "F6": "Building",
    "F7": "Files of other tools",
    "F8": "Variants and scenarios",
}
INTRODUCTION = """\
# Diagnostics

<!-- Written by docs/make_diagnostics.py from tests/faulty. -->

Each fault has a code that stays the same in all versions; `flowc explain CODE` prints its meaning. An *error* stops a
build, a *warning* does not. A diagnostic shows the place (`^`), other places that belong to it (`-`), and what to do
(`help`). `flowc check --json` prints the same as data.

The texts below are those of `tests/faulty`; what some of them name stands in `tests/faulty/files`.
"""


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    heading = ""
    for code, (title, meaning) in sorted(CODES.items()):
        if code[:2] != heading:
            heading = code[:2]
            parts.append(f"## {PARTS[heading]}\n")
        parts.append(f"### {code}: {title}\n\n{meaning}\n")
        examples = sorted(path.stem for path in FAULTY.glob(f"{code}_*.flow"))
        shown = SHOWN.get(code, tuple(examples[:1]))
        parts += [_example(stem) for stem in shown]
        others = [
            f"[{e[5:].replace('_', ' ')}](../../tests/faulty/{e}.txt)"
            for e in examples
            if e not in shown
        ]
        if others:
            parts.append(f"More: {', '.join(others)}.\n")
    return "\n".join(parts)


def _example(stem: str) -> str:
    text = (FAULTY / f"{stem}.flow").read_bytes().decode("utf-8", "replace")
    text, _, command = text.rstrip().partition("\n// $ ")
    said = (FAULTY / f"{stem}.txt").read_text().rstrip()
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text + said)), default=0))
    return (
        f"{fence}flow\n{text}\n{fence}\n\n{fence}console\n$"
        f" {command or f'flowc check {stem}.flow'}\n{said}\n{fence}\n"
    )


if __name__ == "__main__":
    (HERE / "generated" / "diagnostics.md").write_text(page())
