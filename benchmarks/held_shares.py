"""The share of its time in which code holds the interpreter: the result of `flowc profile` for code
with a known share.

`tests/profiling/test_interpreter.py` tests the computation with clocks of its own; this measures on
this machine, also with other load.
"""

from __future__ import annotations

import time

import numpy as np
from flowc.profiling.there.interpreter import held_share
from paired import Others, Spread, alternate, machine, rounds, table

MATRIX = np.ones((600, 600), np.float32)
SMALL = np.ones((90, 90), np.float32)
#: Seconds for a share, as in a profile.
SECONDS = 0.5


def count_up() -> None:
    """Python code, about a millisecond."""
    total = 0
    for i in range(20_000):
        total += i


def half() -> None:
    """As long asleep as it computes."""
    start = time.thread_time()
    count_up()
    time.sleep(time.thread_time() - start)


CODES = {
    "pure Python": (count_up, 1.0),
    "a large product of numpy": (lambda: MATRIX @ MATRIX, 0.0),
    "a product of a tenth of a millisecond": (lambda: SMALL @ SMALL, 0.0),
    "asleep": (lambda: time.sleep(0.002), 0.0),
    "half Python, half asleep": (half, 0.5),
}


def main() -> None:
    """Each share several times, in turns."""
    count, others = rounds(__doc__, 9), Others()
    sides = {
        name: lambda fire=fire: held_share(fire, SECONDS) or 0.0
        for name, (fire, _) in CODES.items()
    }
    found = alternate(sides, count)
    rows = [["code", "holds", "found: median [quartiles] extremes"]]
    rows += [
        [name, f"{share:.1f}", Spread.of(found[name]).text()] for name, (_, share) in CODES.items()
    ]
    print(machine(), others.text(), "", table(rows), sep="\n")


if __name__ == "__main__":
    main()
