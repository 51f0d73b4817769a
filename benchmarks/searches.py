"""`auto` against `jedi` and `comprehensive-ga`: the speed of their mappings, and the runs of the
program that they need.

Each search gets the app of one_network.py around one network, and as much time as it needs up to a
limit. Their mappings are then built and run in turns.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import flowc
import steady
import structures
from flowc.driver.solve.map import find_mapping
from one_network import write_app
from paired import Others, alternate, machine, ratio, table, verdict

SEARCHES = ("auto", "jedi", "comprehensive-ga")
SECONDS = 3.0


def program(directory: Path) -> Callable[[], float]:
    """ns between frames."""
    return lambda: steady.program(directory, SECONDS)


def main() -> None:
    """Search, build, alternate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument(
        "--budget",
        type=float,
        default=400.0,
        metavar="S",
        help="seconds for a search (default 400)",
    )
    parser.add_argument("--network", default="squeezenet", choices=list(structures.NETWORKS))
    parser.add_argument(
        "--against",
        action="append",
        choices=SEARCHES[1:],
        metavar="S",
        help="default: jedi and comprehensive-ga",
    )
    given = parser.parse_args()
    others = Others()
    found = {}
    sides: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        network = structures.write(Path(scratch), [given.network])[given.network]
        for name in ("auto", *(given.against or SEARCHES[1:])):
            folder = Path(scratch) / name
            if sides:  # the same profile for all
                shutil.copytree(
                    Path(scratch) / SEARCHES[0],
                    folder,
                    ignore=shutil.ignore_patterns("build", "*.mapping.json"),
                )
            text = write_app(folder, network)
            found[name] = find_mapping(text, search=name, budget=given.budget).mapping
            sides[name] = program(flowc.build(text, folder / "build").directory)
        samples = alternate(sides, given.rounds)
    rows = [["search", "runs", "seconds", "auto is as fast", "with as many fewer runs", "found"]]
    runs = {name: mapping.effort.measured_runs for name, mapping in found.items()}
    for name, mapping in found.items():
        gain, fewer = ratio(samples[name], samples["auto"]), runs[name] / runs["auto"]
        said = (
            [gain.text(), f"{fewer:.1f} {verdict(fewer, least=5)}"] if name != "auto" else ["", ""]
        )
        rows.append(
            [
                name,
                str(runs[name]),
                f"{mapping.effort.seconds:.0f}",
                *said,
                mapping.contestants[0].configuration,
            ]
        )
    print(f"{machine()}; {others.text()}")
    print(
        f"{given.network}, {given.rounds} rounds; times as fast: median [quartiles] least..most\n"
    )
    print(table(rows))


if __name__ == "__main__":
    main()
