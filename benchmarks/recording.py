"""What recording costs: the time and the CPU time of a program that records all it carries, over
those of the same program that does not.

A source works for 10 ms in Python (fixed work, which holds the interpreter), and makes a picture of
10 kB or 1 MB from it; so the program writes 1 MB/s or 100 MB/s on its channel as fast as it can.
Both are on one processor. Sides run in processes of their own, in turns: `wall` is the time from
the first start to the last end, by the program's report, `CPU` what the program's own process takes
from its first firing to its last one, and `with the writer` that of all its processes, the one that
writes the file and the start of each among them. The file lies in memory (/dev/shm) where there is such a
folder: disks are not what is measured.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from paired import (
    Others,
    Samples,
    alternate,
    execute,
    flowc,
    machine,
    ratio,
    rounds,
    table,
    verdict,
)

FRAMES = 150
#: Bytes of a picture, and how much more time recording may take.
SIDES = {"1 MB/s": (10_000, 0.01), "100 MB/s": (1_000_000, 0.05)}
CODE = """
import numpy as np, time

class Source:
    '''Work that takes 10 ms on an idle core.'''
    def __init__(self, size):
        self.size, self.number = size, 0
        begin = time.thread_time()
        self.work(20_000)
        self.count = int(20_000 * 0.010 / (time.thread_time() - begin)) if COUNT is None else COUNT
    def work(self, count):
        x = 0
        for k in range(count):
            x = (x * 5 + k) & 0xFFFF
        return x
    def __call__(self):
        self.number += 1
        made = np.empty((self.size,), np.uint8)
        made[:] = (self.work(self.count) + self.number) & 255
        return made

class Sink:
    '''Says in the end what the process has taken since the first frame.'''
    def __init__(self):
        self.begin = None
    def __call__(self, x):
        if self.begin is None:
            self.begin = time.process_time()
        self.end = time.process_time()
    def close(self):
        print(self.end - self.begin)
"""


def count_for_10_ms() -> int:
    """How often the loop of the source runs in 10 ms of this machine."""
    code = CODE.replace("COUNT", "None") + "\nprint(max(Source(1).count for _ in range(20)))"
    return int(execute(sys.executable, "-c", code))


def built(folder: Path, size: int, count: int) -> Path:
    """The main.py of the program whose pictures have so many bytes."""
    own = folder / str(size)
    own.mkdir()
    (own / "work.py").write_text(CODE.replace("COUNT", str(count)))
    (own / "app.flow").write_text(f"""
task Source(size: int) {{ out x: uint8[{size}]   python "work.py:Source" }}
task Sink {{ in x: uint8[{size}]   python "work.py:Sink" }}
app A {{ source: Source(size = {size})   sink: Sink   source -> sink }}
platform one {{ cpu core }}
""")
    flowc("build", own / "app.flow", "--platform", "one", "--no-measure", "-o", own / "b")
    return own / "b" / "main.py"


def measured(main: Path, record: Path | None, cpu: Samples) -> Callable[[], float]:
    """Seconds of a run; its CPU seconds are added to two lists."""

    def run() -> float:
        report = main.parent.parent / "report.json"
        words: list[str | Path] = [] if record is None else ["--record", record]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = execute(
            sys.executable, main, "--frames", str(FRAMES), "--quiet", "--report", report, *words
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu["own"].append(float(own))
        cpu["all"].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return float(json.loads(report.read_text())["apps"]["A"]["seconds"])

    return run


def main() -> None:
    """Measure, and print a table."""
    count = rounds(__doc__, 15)
    others = Others()
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=place) as files:
        loops = count_for_10_ms()
        sides: dict[str, Callable[[], float]] = {}
        cpu: dict[str, Samples] = {}
        for rate, (size, _) in SIDES.items():
            program = built(Path(name), size, loops)
            for side, file in ((rate, None), (f"{rate} recorded", Path(files) / "r")):
                cpu[side] = {"own": [], "all": []}
                sides[side] = measured(program, file, cpu[side])
        seconds = alternate(sides, count)
    rows = [["recorded / not", "wall", "CPU", "aim", "with the writer"]]
    for rate, (_, most) in SIDES.items():
        recorded = f"{rate} recorded"
        wall = ratio(seconds[recorded], seconds[rate])
        own = ratio(cpu[recorded]["own"], cpu[rate]["own"])
        whole = ratio(cpu[recorded]["all"], cpu[rate]["all"])
        aim = verdict(own.median, most=1 + most)
        rows.append([rate, wall.text(3), own.text(3), aim, whole.text(3)])
    print(f"{machine()}; {count} rounds of {FRAMES} frames; {others.text()}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
