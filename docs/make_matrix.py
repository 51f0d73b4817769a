"""Writes docs/generated/matrix.md: every kind of arrow, port and feature in every kind of program, and what
comes of it.

The tables are those of tests/support/matrix.py, so that a test holds the page to what programs do, and of
model/supports.py.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

from flowc.model.catalogue import CODES
from flowc.model.supports import SUPPORTS

HERE = Path(__file__).resolve().parent
INTRODUCTION = """\
# What goes with what

<!-- Written by docs/make_matrix.py from tests/support/matrix.py and model/supports.py. -->

Each feature of [the language](../language.md) in each kind of program. `runs` means that a small program does what a
calculation beside it says, number for number, every time the tests run. A code means that flowc refuses the pair, or
warns of it, and says what to do instead. There is nothing third.

- [Features in programs](#features-in-programs)
- [Several apps and states in other programs](#several-apps-and-states-in-other-programs)
- [What is refused](#what-is-refused), and what to do instead
- [How each is tried](#how-each-is-tried), [the codes](#the-codes)
"""
NOTES = """\
`pauses`: frames that have begun end first, though the states differ in variants alone
([why](../scenarios.md#changes-without-a-pause)). `-`: there is no such pair, or it is what stands in another row.
"""
REFUSED = """\
All that a kind of program refuses, or warns of: the table by which flowc itself decides (`model/supports.py`), each line
of which tests try. Words in capitals are names in the text.
"""
#: Kinds of programs as people call them.
PROGRAMS = {
    "program": "a program in Python",
    "states": "a text with states",
    "parts": "parts on machines",
    "native": "native",
    "unit": "FMU",
    "unit in C": "FMU with code in C",
    "networks in C": "networks in C",
    "robot": "dora, ROS 2",
}


def page() -> str:
    """The text of the page."""
    table = runpy.run_path(str(HERE.parent / "tests" / "support" / "matrix.py"))
    kinds, features, together = table["KINDS"], table["FEATURES"], table["TOGETHER"]
    places = [k for k in kinds if k.name in table["PLACES"]]
    first = [[f.title, *(_cell(f.outcome(k.name)) for k in kinds)] for f in features]
    second = [[b.title, *(_cell(b.outcome(k.name)) for k in places)] for b in together]
    outcomes = {f.outcome(k.name) for f in features for k in kinds} | {
        b.outcome(k.name) for b in together for k in places
    }
    outcomes |= {cell.code for cells in SUPPORTS.values() for cell in cells.values()}
    parts = [
        INTRODUCTION,
        "## Features in programs\n",
        _table(["", *(k.title for k in kinds)], first),
        NOTES,
        "## Several apps and states in other programs\n",
        _table(["", *(k.title for k in places)], second),
        "## What is refused\n",
        REFUSED,
        _table(["", "program", "code", "what to do instead"], list(_refused())),
        "## How each is tried\n",
        _table(["program", "how"], [[k.title, k.tried] for k in kinds]),
        "## The codes\n",
        _table(
            ["code", "what it means"],
            [[_cell(c), CODES[c][0]] for c in sorted(outcomes & CODES.keys())],
        ),
    ]
    return "\n".join(parts)


def _refused() -> Iterator[list[str]]:
    """The rows of flowc's table of refusals, with a line for each kind of program."""
    for feature, cells in SUPPORTS.items():
        for execution, refusal in cells.items():
            instead = re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), refusal.help)
            yield [feature, PROGRAMS[execution], _cell(refusal.code), instead]


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
