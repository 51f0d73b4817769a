"""Programs in C++ beside the same programs in Python, with the same tasks in C, and beside loops that
are written by hand.

    python benchmarks/native.py                  all rows
    python benchmarks/native.py spotter start    these rows
    python benchmarks/native.py --rounds 3

    firing       50 empty tasks on one processor: us per firing
    alternating  the same chain, every channel between two processors
    hop          1 MB there and back between two processors, in a cycle with one token: us per hop.
                 Outputs are zeroed before each firing, in both programs. Beside POSIX semaphores
    spotter      examples/spotter/native.flow: us per iteration, on one core and on two. Beside its
                 functions in a loop by hand
    start        one frame of it, from the start to the exit: ms, and MB resident at most
    jitter       1 kHz under two busy loops: how late a firing begins, us. Beside a thread that sleeps
                 until the next ms, and beside cyclictest where it is installed
    beside       1 kHz with a step of some 80 us, in one program with MobileNetV2 on the other core and
                 with a task that is always busy on its own, under two busy loops: us from the
                 release to the end
    bound        spotter as `flowc map` has mapped it for this machine, in real time: the longest
                 latency of its path, as a share of its bound
    size         lines of the runtime, and the seconds of CPU in which spotter's main.cpp is compiled

A build with `--target native` has both programs, so that the sides of a row have the same orders.
All sides take turns, under SCHED_FIFO where that is permitted, so that what else runs takes little of
their cores. What native programs compute is held against the reference by tests/referees/native.py.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flowc.codegen.native.files import RUNTIME
from flowc.machines.whoami import cores
from native_peers import (
    BESIDE,
    COMMON,
    HOP,
    PLAIN,
    SEMAPHORES,
    SLEEPS,
    TASKS,
    TICK,
    TICKS,
    C,
    chain,
)
from paired import Others, Spread, alternate, execute, flowc, machine, table, verdict

from twins import copy_example as copy_networks

ROOT = Path(__file__).resolve().parent.parent
SPOTTER = ROOT / "examples" / "spotter"
#: Rounds of the sound of spotter, and the iterations of these.
SOUNDS, ITERATIONS = 10, 540
#: Iterations of spotter at its own pace.
PACED = 100
#: A priority of SCHED_FIFO, in words for a command.
FIFO = ["chrt", "-f", "20"]

#: Starts a command, waits for it, and prints the ms and the MB.
WAITS = """
import os, sys, time
nowhere = os.open("/dev/null", os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, nowhere, 1), (os.POSIX_SPAWN_DUP2, nowhere, 2)]
begin = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(child, 0)  # no limit: it runs one frame
print(1e3 * (time.perf_counter() - begin), used.ru_maxrss / 1024, file=sys.stderr)
sys.exit(status != 0)
"""

Figures = Mapping[str, float]
Side = Callable[[], Figures]
Command = list[str | Path]


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure of C++ beside that of another side, or (``): alone; what it may be at most."""

    figure: str
    other: str
    most: float | None = None
    side: str = "C++"
    by: Callable[[float, float], float] = operator.truediv

    def words(self) -> str:
        """What is compared."""
        if not self.other:
            return f"{self.side}: {self.figure}"
        sign = "-" if self.by is operator.sub else "/"
        return f"{self.side} {sign} {self.other}: {self.figure}"

    def values(self, samples: Mapping[str, list[Figures]]) -> list[float]:
        """Round by round."""
        own = [figures[self.figure] for figures in samples[self.side]]
        if not self.other:
            return own
        others = [figures[self.figure] for figures in samples[self.other]]
        return [self.by(a, b) for a, b in zip(own, others, strict=True)]


@dataclass(frozen=True, slots=True)
class Row:
    """Sides that take turns, made in a folder, and what is wanted of them; `loaded`: under two busy
    loops."""

    sides: Callable[[Path], dict[str, Side]]
    aims: tuple[Aim, ...]
    loaded: bool = False


# -- programs --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Build:
    """A directory with both programs."""

    folder: Path

    def python(self) -> Command:
        """How the program in Python is started."""
        return [sys.executable, self.folder / "main.py"]

    def native(self) -> Command:
        """How the one in C++ is started."""
        return [self.folder / "main"]


def build(folder: Path, name: str, text: str) -> Build:
    """Write a text and build it."""
    (folder / "tasks.c").write_text(C)
    file = folder / f"{name}.flow"
    file.write_text(text)
    where = ("-o", folder / name, "--platform", "two")
    flowc("build", file, *where, "--target", "native", "--no-measure")
    return Build(folder / name)


def spotter(folder: Path, cores_used: int) -> Build:
    """The example on one core or on two."""
    for file in ("spotter.c", "mel.c", "sound.wav", "spotter.onnx"):
        shutil.copy(SPOTTER / file, folder)
    text = (SPOTTER / "native.flow").read_text()
    if cores_used == 1:
        text = text.replace("core[1]\n", "core[0]\n")
    return build(folder, f"spotter{cores_used}", text)


def plain_spotter(one_core: Build) -> Path:
    """The example as a loop by hand, with the objects of its build."""
    folder = one_core.folder
    objects = sorted(folder.glob("c/*.o"))
    return compiled(folder, "plain", PLAIN, *objects, "native/program.o", "native/network.o")


def compiled(folder: Path, name: str, source: str, *more: str | Path) -> Path:
    """A program of one source."""
    (folder / f"{name}.cpp").write_text(source)
    command = ["g++", "-std=gnu++17", "-O2", "-o", name, f"{name}.cpp", *map(str, more)]
    execute(*command, "-ldl", "-lpthread", "-lm", cwd=folder)
    return folder / name


# -- sides -----------------------------------------------------------------------------------------
def reported(command: Command, *more: str) -> Mapping[str, object]:
    """The report of a run."""
    with tempfile.NamedTemporaryFile() as file:
        execute(*command, "--quiet", "--report", file.name, *more)
        apps: Mapping[str, object] = json.loads(Path(file.name).read_text())["apps"]
    return apps


def per_unit(command: Command, frames: int, units: int, *more: str) -> Side:
    """us per firing, hop or iteration."""

    def run() -> Figures:
        words = ["--frames", str(frames)] if frames else []
        (app,) = reported([*FIFO, *command], "--full-speed", *words, *more).values()
        assert isinstance(app, dict)
        return {"us": 1e6 * app["seconds"] / (app["frames"] * units)}

    return run


def printed(command: Command, *figures: str, error: bool = False) -> Side:
    """Numbers that a peer prints."""

    def run() -> Figures:
        done = subprocess.run([*FIFO, *command], capture_output=True, text=True, check=True)
        numbers = (done.stderr if error else done.stdout).split()
        return {name: float(number) for name, number in zip(figures, numbers, strict=True)}

    return run


def of_one_frame(command: Command) -> Side:
    """ms from the start to the exit, and MB resident at most. A small process starts it and waits:
    the system counts as a child's memory that of who has started it."""
    waits = [sys.executable, "-I", "-S", "-c", WAITS]
    return printed([*waits, *command], "ms", "MB", error=True)


def lateness(command: Command) -> Side:
    """How late firings of a source begin, from a trace: the median and the 99th percentile in us."""

    def run() -> Figures:
        with tempfile.NamedTemporaryFile() as file:
            more = ("--frames", str(TICKS), "--quiet", "--real-time", "--trace", file.name)
            execute(*command, *more)
            events = json.loads(Path(file.name).read_text())["traceEvents"]
        due = {e["args"]["firing"]: e["ts"] for e in events if e["name"] == "release"}
        late = sorted(
            e["ts"] - due[e["args"]["firing"]] for e in events if e["name"] == "Clock.tick"
        )
        return {"p50 us": late[len(late) // 2], "p99 us": late[len(late) * 99 // 100]}

    return run


def cyclictest() -> Figures:
    """The same of cyclictest, whose numbers are whole."""
    command = ["cyclictest", "-q", "-m", "-p", "50", "-a", "0", "-i", "1000", "-h", "20000"]
    said = execute(*command, "-l", str(TICKS))
    counts = [(int(us), int(n)) for us, n in re.findall(r"^(\d{6}) (\d{6,})", said, re.MULTILINE)]
    late = [us for us, n in counts for _ in range(n)]
    return {"p50 us": late[len(late) // 2], "p99 us": late[len(late) * 99 // 100]}


def of_control(command: Command, *more: str) -> Side:
    """From the release to the end of frames of the app of 1 kHz, us."""

    def run() -> Figures:
        app = reported(command, *more)["Control"]
        assert isinstance(app, dict)
        took = app["latency_ms"]
        return {"p50 us": 1e3 * took["p50"], "p99 us": 1e3 * took["p99"]}

    return run


def of_bound(program: Build, bound_ns: int) -> Side:
    """The longest latency of spotter's path at its own pace."""

    def run() -> Figures:
        more = ("--real-time", "--frames", str(PACED), "--set", "Spotter.microphone.loops=1000")
        (app,) = reported(program.native(), *more).values()
        assert isinstance(app, dict)
        (path,) = app["paths"]
        longest = 1e6 * path["latency_ms"]["max"]
        return {
            "longest ms": longest / 1e6,
            "bound ms": bound_ns / 1e6,
            "share": longest / bound_ns,
        }

    return run


def size_of(program: Build) -> Side:
    """Lines of the runtime, and CPU seconds for main.cpp."""
    sources = [file for file in RUNTIME.iterdir() if file.suffix in (".hpp", ".cpp")]

    def run() -> Figures:
        before = os.times()
        command = ["g++", "-std=gnu++17", "-O2", "-Wall", "-c", "-o", "again.o", "main.cpp"]
        execute(*command, cwd=program.folder)
        after = os.times()
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        lines = sum(len(file.read_text().splitlines()) for file in sources)
        return {"lines": lines, "compile s": spent}

    return run


@contextmanager
def busy_loops() -> Iterator[None]:
    """A loop on each of two cores, as ordinary processes."""
    command = ["chrt", "-o", "0", sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# -- rows ------------------------------------------------------------------------------------------
def _firing(folder: Path) -> dict[str, Side]:
    made = build(folder, "one", chain(1))
    return {
        "Python": per_unit(made.python(), 20_000, TASKS),
        "C++": per_unit(made.native(), 20_000, TASKS),
    }


def _alternating(folder: Path) -> dict[str, Side]:
    made = build(folder, "two", chain(2))
    return {
        "Python": per_unit(made.python(), 3_000, TASKS),
        "C++": per_unit(made.native(), 3_000, TASKS),
    }


def _hop(folder: Path) -> dict[str, Side]:
    made = build(folder, "hop", HOP)
    semaphores = compiled(folder, "semaphores", COMMON + SEMAPHORES)
    return {
        "Python": per_unit(made.python(), 3_000, 2),
        "C++": per_unit(made.native(), 3_000, 2, "--real-time"),
        "semaphores": printed([semaphores, "3000"], "us"),
    }


def _spotter(folder: Path) -> dict[str, Side]:
    one, two = spotter(folder, 1), spotter(folder, 2)
    loops = ("--set", f"Spotter.microphone.loops={SOUNDS}")
    by_hand: Command = [plain_spotter(one), str(ITERATIONS)]
    return {
        "Python": per_unit(one.python(), 0, 1, *loops),
        "C++": per_unit(one.native(), 0, 1, *loops),
        "by hand": printed(by_hand, "us", error=True),
        "Python, two cores": per_unit(two.python(), 0, 1, *loops),
        "C++, two cores": per_unit(two.native(), 0, 1, *loops),
    }


def _start(folder: Path) -> dict[str, Side]:
    made = spotter(folder, 1)
    frame = ["--frames", "1", "--full-speed", "--quiet"]
    return {
        "Python": of_one_frame([*made.python(), *frame]),
        "C++": of_one_frame([*made.native(), *frame]),
        "by hand": of_one_frame([plain_spotter(made), "1"]),
    }


def _jitter(folder: Path) -> dict[str, Side]:
    sleeps = compiled(folder, "sleeps", COMMON + SLEEPS)
    sides = {
        "C++": lateness(build(folder, "tick", TICK).native()),
        "sleeps": printed([sleeps, str(TICKS)], "p50 us", "p99 us"),
    }
    if shutil.which("cyclictest"):
        sides["cyclictest"] = cyclictest
    return sides


def _beside(folder: Path) -> dict[str, Side]:
    copy_networks(folder)
    made = build(folder, "beside", BESIDE)
    return {
        "Python": of_control(made.python()),
        "C++": of_control(made.native(), "--real-time"),
    }


def _bound(folder: Path) -> dict[str, Side]:
    spotter(folder, 2)
    text, where = folder / "spotter2.flow", folder / "mapped"
    said = json.loads(flowc("map", text, "--target", "native", "--json"))
    flowc("build", text, "-o", where, "--target", "native")
    (path,) = said["groups"]["Spotter"]["paths"]
    return {"C++": of_bound(Build(where), path["latency_ns"])}


def _size(folder: Path) -> dict[str, Side]:
    return {"C++": size_of(spotter(folder, 2))}


ROWS = {
    "firing": Row(_firing, (Aim("us", "", 0.04), Aim("us", "Python"))),
    "alternating": Row(_alternating, (Aim("us", "", 0.4), Aim("us", "Python"))),
    "hop": Row(_hop, (Aim("us", "semaphores", 1.1), Aim("us", "Python"))),
    "spotter": Row(
        _spotter,
        (
            Aim("us", "by hand", 1.05),
            Aim("us", "Python", 0.6),
            Aim("us", "C++", 0.8, "C++, two cores"),
            Aim("us", "Python, two cores", None, "C++, two cores"),
        ),
    ),
    "start": Row(
        _start,
        (
            Aim("ms", "by hand", 1.6),
            Aim("MB", "by hand", 3, by=operator.sub),
            Aim("ms", "Python"),
            Aim("MB", "Python"),
        ),
    ),
    "jitter": Row(_jitter, (Aim("p50 us", "sleeps", 1.2), Aim("p99 us", "sleeps", 1.2)), True),
    "beside": Row(_beside, (Aim("p99 us", "", 160), Aim("p99 us", "Python")), True),
    "bound": Row(_bound, (Aim("share", "", 1),)),
    "size": Row(_size, (Aim("lines", "", 1200), Aim("compile s", "", 3))),
}


def measured(row: Row, count: int) -> dict[str, list[Figures]]:
    """What the sides of a row return, round by round."""
    with tempfile.TemporaryDirectory() as name:
        sides = row.sides(Path(name))
        if not row.loaded:
            return alternate(sides, count)
        with busy_loops():
            return alternate(sides, count)


def told(row: Row, samples: Mapping[str, list[Figures]]) -> str:
    """Its figures, and what became of its aims."""
    lines = [["", "median [quartiles] least..most", "aim"]]
    for side, rounds in samples.items():
        for figure in rounds[0]:
            spread = Spread.of([figures[figure] for figures in rounds])
            lines.append([f"{side}: {figure}", spread.text(3), ""])
    for aim in row.aims:
        spread = Spread.of(aim.values(samples))
        kept = "" if aim.most is None else verdict(spread.median, most=aim.most)
        if aim.other:
            lines.append([aim.words(), spread.text(), kept])
        else:
            lines[[line[0] for line in lines].index(aim.words())][2] = kept
    return table(lines)


def may_be_first() -> bool:
    """Does the system let processes be under SCHED_FIFO?"""
    done = subprocess.run([*FIFO, "true"], capture_output=True, check=False)
    return done.returncode == 0


def main() -> None:
    """Build, alternate, print; row by row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="default: all of them")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="default 9")
    given = parser.parse_args()
    for name in given.rows:
        if name not in ROWS:
            parser.error(f"there is no row `{name}`: {', '.join(ROWS)}")
    if given.rounds < 1:
        parser.error("--rounds must be at least 1")
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    first = may_be_first()
    if not first:
        FIFO.clear()
    print(f"{machine()}; sides {'under' if first else 'without'} SCHED_FIFO; {given.rounds} rounds")
    for name in given.rows or ROWS:
        others = Others()
        samples = measured(ROWS[name], given.rounds)
        print(f"\n{name}: {others.text()}\n{told(ROWS[name], samples)}", flush=True)


if __name__ == "__main__":
    main()
