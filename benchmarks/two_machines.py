"""Two networks on two machines with a core each, over one machine with one core: what a second
machine gains.

    python benchmarks/two_machines.py [--rounds N] [--frames N]

The machines are network namespaces with a pair of virtual cards between them (root, and `ip` of
iproute2), each kept to a core of its own (`taskset`). examples/twins runs on one core; as two
parts, an application on each machine, with the camera of one at the other: 150 kB of each frame
cross, encrypted as ever. Sides take turns; a side's time is that of its frames, as its report says.
What is recognized has to be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paired import Others, Spread, alternate, machine, ratio, table, verdict

from twins import copy_example

AIM = 1.6
TEXT = """
use "twins.flow"
platform one { cpu core }
platform two {
    machine a { cpu core }
    machine b { cpu core }
    link a b 1 GB/s 50 us
}
mapping on two {
    Left.camera -> b.core   Left.prepare -> a.core    Left.recognize -> a.core    Left.top -> a.core
    Right.camera -> b.core   Right.prepare -> b.core   Right.recognize -> b.core   Right.top -> b.core
}
"""
#: Each machine: its address, and the core that it has.
MACHINES = {"a": ("10.78.0.1", 0), "b": ("10.78.0.2", 1)}


@contextmanager
def namespaces() -> Iterator[dict[str, str]]:
    """Two of them, with a cable between them: their names."""
    names = {m: f"flowc-{m}{os.getpid()}" for m in MACHINES}

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for name in names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        a, b = names.values()
        ip("-n", a, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", b)
        for m, (address, _) in MACHINES.items():
            ip("-n", names[m], "addr", "add", f"{address}/24", "dev", "veth0")
            ip("-n", names[m], "link", "set", "veth0", "up")
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


class Sides:
    """Seconds of each side; what the applications print must never change."""

    def __init__(self, folder: Path, frames: int) -> None:
        self.folder, self.frames = folder, frames
        self.printed: set[tuple[str, ...]] = set()

    def run(self, *words: str) -> Callable[[], float]:
        """`flowc run` with these words; the longest time of an app."""
        report = self.folder / "report.json"

        def seconds() -> float:
            command = [
                *words,
                "--frames",
                str(self.frames),
                "--no-measure",
                "--quiet",
                "--report",
                str(report),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            self.printed.add(tuple(sorted(done.stdout.splitlines())))
            if len(self.printed) > 1:
                raise SystemExit(
                    f"the sides do not agree on what was recognized: {sorted(self.printed)}"
                )
            return float(
                max(app["seconds"] for app in json.loads(report.read_text())["apps"].values())
            )

        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument(
        "--frames", type=int, default=80, metavar="N", help="of each application (default 80)"
    )
    given = parser.parse_args()
    others = Others()
    with tempfile.TemporaryDirectory() as name, namespaces() as inside:
        folder = Path(name)
        copy_example(folder)
        flow = folder / "two.flow"
        flow.write_text(TEXT)
        where = ""
        for m, (address, core) in MACHINES.items():
            words = ["ip", "netns", "exec", inside[m], "taskset", "-c", str(core), sys.executable]
            where += f'[{m}]\nhere = true\naddress = "{address}"\npython = {json.dumps(words)}\n'
        (folder / "two.toml").write_text(where)
        sides, run = Sides(folder, given.frames), [sys.executable, "-m", "flowc", "run", str(flow)]
        one = sides.run("taskset", "-c", "0", *run, "--platform", "one", "-o", str(folder / "one"))
        two = sides.run(
            *run,
            "--platform",
            "two",
            "-o",
            str(folder / "two"),
            "--machines",
            str(folder / "two.toml"),
        )
        samples = alternate({"one core": one, "two machines": two}, given.rounds)
    print(
        f"{machine()}; {others.text()}\n{given.frames} frames of each application; checksums"
        " agree\n"
    )
    rows = [["side", "seconds: median [quartiles] least..most", "frames/s"]]
    for side, seconds in samples.items():
        rows.append(
            [side, Spread.of(seconds).text(), f"{2 * given.frames / Spread.of(seconds).median:.1f}"]
        )
    print(table(rows), end="\n\n")
    gain = ratio(samples["one core"], samples["two machines"])
    print(
        table(
            [
                ["two machines over one core", "times", "aim"],
                ["frames per second", gain.text(), verdict(gain.median, least=AIM)],
            ]
        )
    )


if __name__ == "__main__":
    main()
