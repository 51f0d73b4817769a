"""The overhead of a contestant of `flowc map` beside the seconds that its program runs: here, and
on a board.

    python benchmarks/contestants.py [--board user@host:port/folder] [--board-python COMMAND]
    [--rounds N]

The plain ways of examples/detect (one core, threads of the library, frames in turn, ...) run one
after the other, so that each has to take the place of the one before, a second each. Planning,
writing, sending, starting Python and libraries, ending and reading the answer are what is printed;
the connection is made once, and shown beside it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from flowc.driver.measure.measure import measure
from flowc.driver.solve import contest
from flowc.driver.solve.throughput_problem import problem_of
from flowc.driver.text.check import prepare
from flowc.machines.board import Board
from flowc.machines.host import HERE, Host
from flowc.model.times import times_of
from flowc.search.throughput.auto import plain_ways
from paired import Others, Spread, execute, machine, table, verdict

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "detect"
SECONDS, AIM = 1.0, 1.5


def costs(text: Path, host: Host, rounds: int) -> list[float]:
    """Seconds beside the run, of each contestant in each round but the first."""
    contest.SHORTEST = contest.LONGEST = SECONDS
    valid = prepare(text, host=host).require()
    profile, _ = measure(valid, seconds=SECONDS)
    problem = problem_of(valid, times_of(valid.system, valid.platform, profile), profile)
    runs, found = contest.Runs(valid, profile, None), []
    for number in range(rounds + 1):
        for design in plain_ways(problem, "throughput"):
            begin = time.monotonic()
            runs(design.mapping)
            if number:
                found.append(time.monotonic() - begin - SECONDS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--board", metavar="ADDRESS", help="as for flowc; without it, this machine alone"
    )
    parser.add_argument("--board-python", default="python3", metavar="COMMAND")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="default 3, and one to begin with"
    )
    given = parser.parse_args()
    others = Others()
    rows = [["contestants", "runs", "s beside the run: median [quartiles] least..most", "aim"]]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for file in EXAMPLE.glob("*.py"):
            shutil.copy(file, folder)
        shutil.copy(EXAMPLE / "detect.flow", folder)
        execute(sys.executable, folder / "make_network.py", cwd=folder)
        found = costs(folder / "detect.flow", HERE, given.rounds)
        rows.append(["here", str(len(found)), Spread.of(found).text(), ""])
        if given.board is not None:
            begin = time.monotonic()
            board = stack.enter_context(Board(given.board, python=given.board_python))
            connected = time.monotonic() - begin
            found = costs(folder / "detect.flow", board, given.rounds)
            spread = Spread.of(found)
            rows.append(
                ["on the board", str(len(found)), spread.text(), verdict(spread.median, most=AIM)]
            )
            rows.append(["connecting, once", "1", f"{connected:.2f}", ""])
    print(f"{machine()}; {others.text()}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
