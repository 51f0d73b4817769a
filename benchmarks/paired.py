"""Several ways to do one thing, measured in turns.

On a busy machine a time alone means little; the ratio of two that were measured one right after the
other means more.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

T = TypeVar("T")
Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, quartiles and extremes of some values."""

    median: float
    low: float
    high: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        quarters = (
            quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
        )
        return Spread(median(values), quarters[0], quarters[2], min(values), max(values))

    def text(self, digits: int = 2) -> str:
        """`median [quartiles] least..most`."""
        m, q1, q3, a, b = (
            f"{v:.{digits}f}" for v in (self.median, self.low, self.high, self.least, self.most)
        )
        return f"{m} [{q1} {q3}] {a}..{b}"


def rounds(description: str | None, default: int) -> int:
    """The command line of a benchmark: `--rounds N`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=default, metavar="N", help=f"default {default}"
    )
    wanted: int = parser.parse_args().rounds
    if wanted < 1:
        parser.error("--rounds must be at least 1")
    return wanted


def alternate(sides: Mapping[str, Callable[[], T]], count: int) -> dict[str, list[T]]:
    """Call every side once per round, in an order that rotates and turns around; what they
    returned, round by round."""
    names = list(sides)
    samples: dict[str, list[T]] = {name: [] for name in names}
    for number in range(count):
        first = number // 2 % len(names)
        order = names[first:] + names[:first]
        for name in order[:: -1 if number % 2 else 1]:
            samples[name].append(sides[name]())
        _progress(f"round {number + 1} of {count}")
    _progress("")
    return samples


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The spread of over/under, paired round by round."""
    return Spread.of([a / b for a, b in zip(over, under, strict=True)])


def verdict(
    value: float, *, least: float | None = None, most: float | None = None, digits: int = 2
) -> str:
    """An aim beside what was reached."""
    kept = (least is None or value >= least) and (most is None or value <= most)
    aim = f">= {least:.{digits}f}" if least is not None else f"<= {most:.{digits}f}"
    return f"{aim} {'met' if kept else 'MISSED'}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as text; the first row is the heading, the first column is aligned to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if i else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def machine() -> str:
    """This machine in general words."""
    from flowc.machines.whoami import cores, processor_name, version_of

    onnx = f", ONNX Runtime {version_of('onnxruntime')}, numpy {version_of('numpy')}"
    return (
        f"{cores()} x {processor_name()} ({platform.machine()}), Python"
        f" {platform.python_version()}{onnx}"
    )


class Others:
    """How busy other processes kept the machine since this was made: what a reader has to know of
    the figures."""

    def __init__(self) -> None:
        self._begin = time.monotonic(), self._busy()

    def text(self) -> str:
        """In words."""
        seconds, busy = time.monotonic() - self._begin[0], self._busy() - self._begin[1]
        share = max(busy, 0.0) / (seconds * (os.cpu_count() or 1))
        return f"other processes took {100 * share:.0f} % of the machine"

    @staticmethod
    def _busy() -> float:
        user, nice, system, _idle, _waiting, irq, soft, stolen, *_ = (
            int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        )
        ticks = user + nice + system + irq + soft + stolen
        own = os.times()
        return ticks / os.sysconf("SC_CLK_TCK") - (
            own.user + own.system + own.children_user + own.children_system
        )


def execute(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command to its end; its standard output. A failure ends the benchmark with what the
    command said."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        shown = " ".join(Path(str(c)).name for c in command)
        raise SystemExit(f"{shown} failed with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def flowc(*arguments: str | Path, cwd: Path | None = None) -> str:
    """Run flowc with the interpreter of this benchmark."""
    return execute(sys.executable, "-m", "flowc", *arguments, cwd=cwd)
