"""Parts of a program that are killed at random moments: how the others end, and whether results
came once, in order.

    python benchmarks/kills.py [N] [--still SECONDS] [--jobs J] [--seed S] [--list]

Three parts on this machine, `a -> b -> c -> a` and `a -> c`, are started at the same moment, as
`flowc run --machines` does it: they report their ports, and get those of the others. One of them is
killed (SIGKILL: the process that was started, or its child, which computes): every third time while
they start, else within a second behind the first result. The others have to end within 5 s with
another status than 0; a part that has not noticed after 4 s is terminated. The output of the last
task has to be 0, 1, 2 and so on. Parts are forks of a Python that has imported numpy and zmq, so
that a thousand take minutes; J trials are under way at a time.

With `--still` a part that runs stands still for so long instead (SIGSTOP, all of its processes), as
a machine does that is suspended. Up to two seconds are waited for: then all go on, and end in order
by SIGINT half a second later. Longer is death for the others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flowc.driver.execute.rig import _PORT, AGAIN, GRACE
from flowc.runtime.report import columns
from paired import Others, machine

#: A part is killed so many seconds after the start at most, or behind the first result; the others
#: have so many to end.
STARTING, FLOWING, AIM = 1.5, 1.0, 5.0
#: No process is waited for any longer.
HANGS = 30.0
#: A part that stands still is waited for so long.
SURVIVED = 2.0
PARTS = ("a", "b", "c")
TEXT = """
task Source { in last: int64   out frame: uint8[65536]   out number: int64   python "t.py:Source" }
task Work { in frame: uint8[65536]   out half: uint8[32768]   python "t.py:work" }
task Sink { in half: uint8[32768]   in number: int64   out last: int64   python "t.py:sink" }
app A {
    source: Source   work: Work   sink: Sink
    source.frame -> work -> sink.half
    source.number -> sink.number
    sink.last -> delay 3 -> source.last
}
platform rig {
    machine a { cpu core }   machine b { cpu core }   machine c { cpu core }
    link a b 1 GB/s 20 us    link b c 1 GB/s 20 us    link a c 1 GB/s 20 us
}
mapping on rig { A.source -> a.core   A.work -> b.core   A.sink -> c.core }
"""
TASKS = """
import os
import numpy as np
class Source:
    def __init__(self): self.n = -1
    def __call__(self, last):
        self.n += 1
        return np.full(65536, self.n % 251, np.uint8), np.int64(self.n)
def work(frame): return frame[::2]
def sink(half, number):
    assert half[0] == half[-1] == number % 251, (half, number)
    os.write(1, b"%d\\n" % number)
    return number
"""


@dataclass(frozen=True)
class Trial:
    """What became of one: seconds are those after the death; `told` parts had not noticed by
    themselves."""

    killed: str
    child: bool
    after: float
    seconds: float
    told: int
    statuses: dict[str, int]
    results: int
    wrong: str
    said: dict[str, str]
    survived: bool = False

    @property
    def good(self) -> bool:
        """As it has to be."""
        if self.survived:
            return set(self.statuses.values()) <= {0, 130} and bool(self.results) and not self.wrong
        others = [status for part, status in self.statuses.items() if part != self.killed]
        return self.seconds <= AIM and 0 not in others and not self.wrong


def environments() -> dict[str, str]:
    """What each part gets to know of the others before any of them listens."""
    import zmq

    keys = {name: [k.decode() for k in zmq.curve_keypair()] for name in PARTS}
    return {
        name: json.dumps(
            {
                "listen": "tcp://*:*",
                "token": "t" * 64,
                "public": keys[name][0],
                "secret": keys[name][1],
                "peers": {n: {"public": keys[n][0]} for n in PARTS if n != name},
                "fed": True,
            }
        )
        for name in PARTS
    }


def start(main: Path, given: str, files: Mapping[int, int]) -> int:
    """A part in a fork of this process; returns its number."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        for number, file in files.items():
            os.dup2(file, number)
        os.closerange(len(files), max(64, *files.values()))  # what is for the others
        os.environ["FLOWC_MACHINES"] = given
        sys.argv, sys.path[0] = [str(main), "--quiet"], str(main.parent)
        sys.orig_argv = [sys.executable, *sys.argv]
        runpy.run_path(str(main), run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os._exit(status)


def children(process: int) -> list[int]:
    """Those of a process."""
    try:
        words = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [int(w) for w in words]


class Running:
    """Parts that are started, and when and how they ended; `out` and `err` are what they have
    said."""

    def __init__(self, built: Path) -> None:
        given = environments()
        self.out, self.err = ({part: os.memfd_create(part) for part in PARTS} for _ in range(2))
        self.processes, self._inputs = {}, {}
        for part in PARTS:
            reading, self._inputs[part] = os.pipe()
            files = {0: reading, 1: self.out[part], 2: self.err[part]}
            self.processes[part] = start(built / "parts" / part / "main.py", given[part], files)
            os.close(reading)
        self.ended: dict[str, tuple[int, float]] = {}

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the ends of all processes, so long, or `until` something holds; have all
        ended?"""
        end = time.monotonic() + seconds
        while len(self.ended) < len(self.processes) and time.monotonic() < end and not until():
            for part, process in self.processes.items():
                if part not in self.ended:
                    number, status = os.waitpid(process, os.WNOHANG)
                    if number:
                        self.ended[part] = os.waitstatus_to_exitcode(status), time.monotonic()
            if self._inputs:
                self._tell_where()
            time.sleep(0.005)
        return len(self.ended) == len(self.processes)

    def _tell_where(self) -> None:
        """As `driver.rig` does."""
        ports = {
            part: found[1]
            for part in PARTS
            if (found := _PORT.search(text_of(self.err[part]).encode()))
        }
        where = {
            part: {"address": f"tcp://127.0.0.1:{port.decode()}"} for part, port in ports.items()
        }
        if self.ended:
            document: Any = {"gone": f"part {next(iter(self.ended))} has ended before it began"}
        elif len(ports) == len(PARTS):
            document = {"peers": where}
        else:
            return
        for file in self._inputs.values():
            with suppress(BrokenPipeError):
                os.write(file, json.dumps(document).encode() + b"\n")
        self.close_inputs()

    def close_inputs(self) -> None:
        """There is no more to read."""
        for file in self._inputs.values():
            os.close(file)
        self._inputs = {}

    @property
    def flowing(self) -> bool:
        """Has the first result come?"""
        return os.fstat(self.out[PARTS[-1]]).st_size > 0

    def send(self, number: int) -> int:
        """A signal to all that are left; how many these are."""
        left = [process for part, process in self.processes.items() if part not in self.ended]
        for process in left:
            os.kill(process, number)
        return len(left)


def trial(built: Path, seed: int, still: float) -> Trial:
    """Start all, kill one or have it stand still, wait for the others."""
    rng, begin = random.Random(seed), time.monotonic()
    parts, survived = Running(built), 0 < still <= SURVIVED
    name, early = rng.choice(PARTS), not still and seed % 3 == 0
    if not early:
        parts.wait(HANGS, lambda: parts.flowing)
    parts.wait(rng.uniform(0, STARTING if early else FLOWING))
    own, after = [parts.processes[name], *children(parts.processes[name])], time.monotonic() - begin
    inside = len(own) > 1 and rng.random() < 0.5
    died, told, parts_before = time.monotonic(), 0, tuple(parts.ended)
    if still:
        for process in own:
            os.kill(process, signal.SIGSTOP)
        parts.wait(still)
        for process in reversed(own):
            os.kill(process, signal.SIGCONT)
        if survived and not parts.wait(0.5):
            parts.send(signal.SIGINT)
    else:
        for process in (own[inside], own[0]):  # a child may have been there for a moment only
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                break
    for seconds, way in (
        (GRACE, signal.SIGTERM),
        (AGAIN, signal.SIGTERM),
        (HANGS, signal.SIGKILL),
        (HANGS, signal.SIGKILL),
    ):
        if parts.wait(seconds):
            break
        left = parts.send(way)
        told = told or left
    out, said = (
        {part: text_of(file) for part, file in files.items()} for files in (parts.out, parts.err)
    )
    lines = out["c"].splitlines(keepends=True)
    lines = lines[:-1] if lines and not lines[-1].endswith("\n") else lines
    early_end = f"{', '.join(parts_before)} had ended before" if parts_before else ""
    wrong = early_end or next(
        (f"{line!r} as number {k}" for k, line in enumerate(lines) if line != f"{k}\n"), ""
    )
    parts.close_inputs()
    for file in (*parts.out.values(), *parts.err.values()):
        os.close(file)
    seconds = max(s for part, (_, s) in parts.ended.items() if part != name) - died
    statuses = {part: status for part, (status, _) in parts.ended.items()}
    return Trial(name, inside, after, seconds, told, statuses, len(lines), wrong, said, survived)


def text_of(file: int) -> str:
    """All that was written; where writers go on is left alone."""
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def trials(built: Path, seeds: range, still: float) -> None:
    """A line of JSON for each."""
    for module in ("numpy.random", "zmq", "unittest.main", "logging", "platform"):
        importlib.import_module(module)
    sys.path.insert(0, str(built / "parts" / PARTS[0]))  # all parts have the same one
    importlib.import_module("runtime.command")
    del sys.path[0]
    for seed in seeds:
        print(json.dumps({"seed": seed, **asdict(trial(built, seed, still))}), flush=True)


def build(folder: Path) -> Path:
    """The program with its parts."""
    (folder / "kills.flow").write_text(TEXT)
    (folder / "t.py").write_text(TASKS)
    words = [
        "build",
        str(folder / "kills.flow"),
        "--platform",
        "rig",
        "--no-measure",
        "-o",
        str(folder / "out"),
    ]
    subprocess.run([sys.executable, "-m", "flowc", *words], check=True, capture_output=True)
    return folder / "out"


def told(found: list[dict[str, Any]], listed: bool) -> None:
    """How they went."""
    made = {row.pop("seed"): Trial(**row) for row in found}
    bad = {seed: t for seed, t in made.items() if not t.good}
    rows: list[list[Any]] = [
        [
            "killed",
            "trials",
            "s: median",
            "99 %",
            "most",
            "told by the starter",
            "not as it has to be",
        ]
    ]
    for name in (*PARTS, "all"):
        own = {seed: t for seed, t in made.items() if name in (t.killed, "all")}
        seconds = sorted(t.seconds for t in own.values())
        if seconds:
            late = seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))]
            times = [f"{x:.2f}" for x in (statistics.median(seconds), late, seconds[-1])]
            rows.append(
                [
                    name,
                    len(own),
                    *times,
                    sum(bool(t.told) for t in own.values()),
                    sum(s in bad for s in own),
                ]
            )
    print(columns(rows))
    print(
        f"\n{sum(t.results for t in made.values())} results, each of them once and in order"
        if not any(t.wrong for t in made.values())
        else "\nresults came twice, or out of order"
    )
    others = Counter(s for t in made.values() for part, s in t.statuses.items() if part != t.killed)
    print(
        "others ended with "
        + ", ".join(f"{status} ({count})" for status, count in sorted(others.items()))
    )
    for seed, t in bad.items() if not listed else made.items():
        print(
            f"\nseed {seed}: {t.killed}{', its child' if t.child else ''} after {t.after:.3f} s: {t.seconds:.2f} s, "
            f"{t.statuses}, {t.results} results {t.wrong}"
        )
        for part, said in t.said.items():
            print(f"    {part}: {said.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "count", nargs="?", type=int, default=1000, metavar="N", help="default 1000"
    )
    parser.add_argument(
        "--still",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="do not kill, but have it stand still",
    )
    parser.add_argument("--jobs", type=int, default=4, metavar="J", help="default 4")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first one")
    parser.add_argument(
        "--list", action="store_true", help="show all of them, not only what went wrong"
    )
    given = parser.parse_args()
    others, begin = Others(), time.monotonic()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        built = build(Path(name))
        last = given.seed + given.count
        workers = [
            subprocess.Popen(
                [
                    sys.executable,
                    __file__,
                    "--trials",
                    str(built),
                    str(given.seed + k),
                    str(last),
                    str(given.jobs),
                    str(given.still),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for k in range(given.jobs)
        ]
        try:
            found = [
                json.loads(line)
                for worker in workers
                for line in worker.communicate()[0].splitlines()
            ]
        except KeyboardInterrupt:
            for worker in workers:
                worker.kill()
            raise
    print(
        f"{machine()}; {others.text()}; {time.monotonic() - begin:.0f} s, {given.jobs} at a time\n"
    )
    told(found, given.list)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trials"]:
        trials(Path(sys.argv[2]), range(*map(int, sys.argv[3:6])), float(sys.argv[6]))
    else:
        main()
