"""The numbers of the eight published systems that flowc unites, beside its own.

Usage: python benchmarks/published.py [--only A,D] [--write docs/generated/published.md]

Each table and figure that can be worked out without the papers' boards is worked out again by the
verbs of flowc, where a text can say it, and else by its functions; the others are named with what
they need. With `--write`, the page gets the
parts that were asked for and keeps the others.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1] / "tests" / room) for room in ("support", "referees")
]

#: The module of each system.
SYSTEMS = {
    "A": "jedi",
    "B": "scenarios",
    "C": "joint",
    "D": "balanced",
    "E": "phases",
    "F": "switching",
    "G": "sharing",
    "H": "partition",
}

HEAD = """\
# Published numbers

flowc unites eight published systems, A to H. This page has every table and figure of their papers
that can be worked out on any machine: the paper's number beside flowc's. It is the output of

```sh
python benchmarks/published.py --write docs/generated/published.md   # all, some twenty minutes of CPU
python benchmarks/published.py --only A,D                  # parts of it
```

How to read it: *paper* is what the paper prints. *Computed* is the same by the paper's own rule,
with flowc's implementation of it. *flowc* is what flowc does by default or finds at best. Where
they differ, the text above the table says why: an error of the paper, a bound that is to hold where
the paper's does not, another network, or other hardware.

*Filled by* names the command that gives these numbers; the texts of `flowc map` are written to
`build/published`, to be tried there. Columns that no command fills say so, and why: the benchmark
asks flowc's functions about a problem that it builds itself, or only reckons with numbers that the
paper prints. *Not here* names each table and figure that the page leaves out: measured on a board,
in a picture only, not published, or without results.

Searches get a number of evaluations, so that all of
it is the same on every machine with the same versions of OR-Tools, ONNX Runtime and numpy, except
for dB of twins in 8 bits: CPUs round differently.
"""


def section(letter: str) -> str:
    """The part of the page about one system."""
    module = importlib.import_module(f"published_systems.{SYSTEMS[letter]}")
    parts = [f"## {module.TITLE}", f"{module.SOURCE}."]
    parts += [table.markdown for table in module.tables()]
    return "\n\n".join(parts) + "\n"


def page(sections: dict[str, str]) -> str:
    """The page with these parts, in the order of their letters."""
    return "\n".join([HEAD, *(sections[letter] for letter in sorted(sections))])


def sections_of(text: str) -> dict[str, str]:
    """The parts of a page."""
    found = re.split(r"^(?=## [A-Z]\. )", text, flags=re.MULTILINE)[1:]
    return {part[3]: part.rstrip("\n") + "\n" for part in found}


def main() -> None:
    """Print the parts that are asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="letters of systems, such as A,D")
    parser.add_argument("--write", type=Path, help="the page that gets the tables")
    asked = parser.parse_args()
    letters = asked.only.upper().split(",") if asked.only else list(SYSTEMS)
    if unknown := [letter for letter in letters if letter not in SYSTEMS]:
        parser.error(f"no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    made = {}
    for letter in letters:
        begin = time.monotonic()
        made[letter] = section(letter)
        print(made[letter], flush=True)
        print(f"{letter}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    if asked.write is not None:
        kept = sections_of(asked.write.read_text()) if asked.write.exists() else {}
        asked.write.write_text(page(kept | made))


if __name__ == "__main__":
    main()
