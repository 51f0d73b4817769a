"""Throughput of two networks at once: the program that flowc makes of examples/twins, against
hand-written scripts.

Every side runs both applications (camera, prepare, network, top) for the same number of frames
each, in a process of its own, with the same functions of examples/twins/twins.py; the checksums of
what was recognized must agree.

A side's time is that of its frames: from the start of the first one to the end of the last one of
both applications. Starting Python, importing and loading the networks are not in it. The scripts
take it around their loops; for the generated program it is what its `--report` says (the longer one
of the two applications, which begin together). No side warms up: the slower first frames count on
all of them.

    flowc         the generated program, as `flowc build` maps it on this machine
    (a) at once   two threads, one network each, sessions as they are by default
    (b) in turn   one application after the other, sessions with intra_op_num_threads=2
    (c) no spin   as (a), but session.intra_op.allow_spinning=0

The peers are in twins_peers.py.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "twins"
FRAMES = 120
PEERS = {
    "(a) at once": ("at_once", 1.6),
    "(b) in turn": ("in_turn", 1.1),
    "(c) no spin": ("no_spin", 1.0),
}


def copy_example(folder: Path) -> None:
    """The example with its networks, and without a stored profile: flowc measures this machine."""
    for name in ("twins.flow", "twins.py", "make_networks.py"):
        shutil.copy(EXAMPLE / name, folder)
    networks = [EXAMPLE / f"{name}.onnx" for name in ("mobilenet", "squeezenet")]
    if all(path.is_file() for path in networks):
        for path in networks:
            shutil.copy(path, folder)
    else:
        execute(sys.executable, folder / "make_networks.py", folder)


class Sides:
    """Runs each side once per call; what the applications print must never change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: set[tuple[str, ...]] = set()

    def generated(self) -> float:
        """Seconds of the generated program."""
        report = self.folder / "report.json"
        words: tuple[str | Path, ...] = ("--frames", str(FRAMES), "--quiet", "--report", report)
        self._check(execute(sys.executable, self.folder / "build" / "main.py", *words).splitlines())
        return max(float(app["seconds"]) for app in json.loads(report.read_text())["apps"].values())

    def peer(self, way: str) -> Callable[[], float]:
        """Seconds of one of the scripts."""

        def run() -> float:
            *printed, seconds = execute(
                sys.executable, HERE / "twins_peers.py", way, self.folder, str(FRAMES)
            ).splitlines()
            self._check(printed)
            return float(seconds)

        return run

    def _check(self, lines: list[str]) -> None:
        self.printed.add(tuple(sorted(lines)))
        if len(self.printed) > 1:
            raise SystemExit(
                f"the sides do not agree on what was recognized: {sorted(self.printed)}"
            )


def main() -> None:
    """Build, alternate, print."""
    count = rounds(__doc__, 15)
    others = Others()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_example(folder)
        mapping = flowc("build", folder / "twins.flow", "-o", folder / "build").splitlines()[1:]
        sides = Sides(folder)
        calls: dict[str, Callable[[], float]] = {"flowc": sides.generated}
        calls.update({peer: sides.peer(way) for peer, (way, _) in PEERS.items()})
        samples = alternate(calls, count)

    print(
        f"{machine()}; {others.text()}\n{FRAMES} frames of each application, {count} rounds;"
        " checksums agree"
    )
    print("\n".join(["mapping:", *mapping, ""]))
    rows = [["side", "seconds: median [quartiles] least..most", "frames/s"]]
    for side, seconds in samples.items():
        rows.append(
            [side, Spread.of(seconds).text(), f"{2 * FRAMES / Spread.of(seconds).median:.1f}"]
        )
    print(table(rows), end="\n\n")
    rows = [["flowc is faster than", "times: median [quartiles] least..most", "aim"]]
    for peer, (_, aim) in PEERS.items():
        gain = ratio(samples[peer], samples["flowc"])
        rows.append([peer, gain.text(), verdict(gain.median, least=aim)])
    print(table(rows))


if __name__ == "__main__":
    main()
