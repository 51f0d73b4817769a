"""Writes docs/generated/matrix.md: every kind of arrow, port and feature in every kind of program, and what
comes of it.

The tables are those of tests/support/matrix.py, so that a test holds the page to what programs do.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from flowc.model.catalogue import CODES

HERE = Path(__file__).resolve().parent
INTRODUCTION = """\
# What goes with what

<!-- Written by docs/make_matrix.py from tests/support/matrix.py. -->

Each feature of [the language](../language.md) in each kind of program. `runs` means that a small program does what a
calculation beside it says, number for number, every time the tests run. A code means that flowc refuses the pair, or
warns of it, and says what to do instead. There is nothing third.

- [Features in programs](#features-in-programs)
- [Several apps and states in other programs](#several-apps-and-states-in-other-programs)
- [How each is tried](#how-each-is-tried), [the codes](#the-codes)
"""
NOTES = """\
`pauses`: frames that have begun end first, though the states differ in variants alone
([why](../scenarios.md#changes-without-a-pause)). `-`: there is no such pair, or it is what stands in another row.
"""


def page() -> str:
    """The text of the page."""
    table = runpy.run_path(str(HERE.parent / "tests" / "support" / "matrix.py"))
    kinds, features, together = table["KINDS"], table["FEATURES"], table["TOGETHER"]
    places = [k for k in kinds if k.name in table["PLACES"]]
    first = [[f.title, *(_cell(f.outcome(k.name)) for k in kinds)] for f in features]
    second = [[b.title, *(_cell(b.comes.get(k.name, "")) for k in places)] for b in together]
    outcomes = {f.outcome(k.name) for f in features for k in kinds} | {
        c for b in together for c in b.comes.values()
    }
    parts = [
        INTRODUCTION,
        "## Features in programs\n",
        _table(["", *(k.title for k in kinds)], first),
        NOTES,
        "## Several apps and states in other programs\n",
        _table(["", *(k.title for k in places)], second),
        "## How each is tried\n",
        _table(["program", "how"], [[k.title, k.tried] for k in kinds]),
        "## The codes\n",
        _table(
            ["code", "what it means"],
            [[_cell(c), CODES[c][0]] for c in sorted(outcomes & CODES.keys())],
        ),
    ]
    return "\n".join(parts)


def _cell(outcome: str) -> str:
    return f"[{outcome}]({_place(outcome)})" if outcome in CODES else outcome or "runs"


def _place(code: str) -> str:
    """Where the page of diagnostics has it."""
    heading = f"{code}: {CODES[code][0]}".lower()
    return "diagnostics.md#" + re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    (HERE / "generated" / "matrix.md").write_text(page())
