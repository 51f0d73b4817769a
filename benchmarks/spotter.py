"""Many small firings: examples/spotter at full speed, on one core and on two, against the plain
loop.

Sound is heard again and again; all sides fire the same functions and print the same events, which
is compared. A side runs in a process of its own, and its time is that of the sound: starting Python
and loading the network are not in it.

    plain loop    examples/spotter/plain.py: a loop around the functions, the C function called by
    ctypes, ONNX Runtime
                  with one thread
    one core      the generated program, everything on one processor
    two cores     the generated program as `two_cores.flow` says: network, smoothing and events on
    the second processor
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flowc.machines.whoami import cores
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "spotter"
LOOPS, ITERATIONS = 40, 54  # of the sound, and of the application in each
ONE_CORE = 'use "spotter.flow"\nplatform one { cpu core }\n'
AIMS = {"one core": 0.95, "two cores": 1.2}


def program(build: Path, heard: set[str]) -> Callable[[], float]:
    """Seconds of a generated program."""

    def run() -> float:
        report = build / "report.json"
        loops = f"Spotter.microphone.loops={LOOPS}"
        heard.add(
            execute(
                sys.executable,
                build / "main.py",
                "--full-speed",
                "--quiet",
                "--set",
                loops,
                "--report",
                report,
            )
        )
        seconds: float = json.loads(report.read_text())["apps"]["Spotter"]["seconds"]
        return seconds

    return run


def plain(heard: set[str]) -> Callable[[], float]:
    """Seconds of the loop."""

    def run() -> float:
        *events, seconds = execute(sys.executable, Path(__file__).resolve(), "--peer").splitlines(
            keepends=True
        )
        heard.add("".join(events))
        return float(seconds)

    return run


def peer() -> None:
    """The loop, and behind its events the seconds."""
    sys.path.insert(0, str(EXAMPLE))
    listen = importlib.import_module("plain").listener()
    begin = time.perf_counter()
    listen(LOOPS)
    print(time.perf_counter() - begin)


def main() -> None:
    """Build, alternate, compare, print."""
    count = rounds(__doc__, 11)
    others = Others()
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    heard: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(
            EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.json", "build")
        )
        (folder / "one_core.flow").write_text(ONE_CORE)
        for text, platform in (("one_core", "one"), ("two_cores", "two")):
            flowc(
                "build",
                folder / f"{text}.flow",
                "--platform",
                platform,
                "--no-measure",
                "-o",
                folder / platform,
            )
        sides = {"plain loop": plain(heard)}
        sides |= {
            f"{text} core{'s' * (text == 'two')}": program(folder / text, heard)
            for text in ("one", "two")
        }
        samples = alternate(sides, count)
    if len(heard) > 1:
        raise SystemExit(f"the sides do not hear the same: {sorted(heard)}")

    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds of {LOOPS * ITERATIONS:,} iterations; all sides print the same events\n")
    heading = [
        "side",
        "us per iteration: median [quartiles] least..most",
        "times as fast as the plain loop",
        "aim",
    ]
    rows = [heading]
    for side, seconds in samples.items():
        us = Spread.of([1e6 * s / (LOOPS * ITERATIONS) for s in seconds])
        gain = ratio(samples["plain loop"], seconds)
        aim = verdict(gain.median, least=AIMS[side]) if side in AIMS else ""
        rows.append([side, us.text(0), gain.text() if side in AIMS else "", aim])
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer()
    else:
        main()
