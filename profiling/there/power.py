"""Measures what a machine takes while some of its CPUs work, at one clock rate after the other.
Runs on that machine.

In: a request in JSON (`Request`). Out: JSON, with a row for each step: the rates of all pools, how
many CPUs of each are busy, the watts, and when. Every block has every step once, in an order of its
own, so that a slow drift, as of the temperature, meets all of them alike.

A busy CPU computes in a process that is bound to it. Clocks are given back at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple, TypeVar

from ...runtime.clocks import Clocks, RatesRefused, Wanted
from ...runtime.power import TICK, meters

T = TypeVar("T")
#: Seconds in which a machine gets used to a step.
SETTLES = 0.2
#: How long a command may take that says the watts.
ANSWERS = 10.0
#: What keeps a CPU busy as long as the process `parent` lives; its name tells it from others.
BUSY = """
import os, sys
parent = int(sys.argv[2])
os.sched_setaffinity(0, {int(sys.argv[1])})
x = 0.5
while os.getppid() == parent:
    for _ in range(20000):
        x = x * 1.0000001 + 1e-9
"""


class Pool(NamedTuple):
    """A pool of CPUs: their numbers, and the rates of its clock in Hz, slowest first (none: it
    stays as it is)."""

    name: str
    cores: List[int]
    rates: List[int]


class Step(NamedTuple):
    """A state of the machine: the position of each pool's rate, and its number of busy CPUs."""

    rates: Tuple[int, ...]
    busy: Tuple[int, ...]


class NoMeter(Exception):
    """Nothing says what the machine takes; the message says why."""


def steps_of(pools: Sequence[Pool]) -> List[Step]:
    """All at rest at the slowest rates; then each pool at each of its rates with none, one and all
    of its CPUs busy."""
    found = [Step((0,) * len(pools), (0,) * len(pools))]
    for n, pool in enumerate(pools):
        for rate in range(max(1, len(pool.rates))):
            for count in sorted({0, 1, len(pool.cores)}):
                rates, busy = [0] * len(pools), [0] * len(pools)
                rates[n], busy[n] = rate, count
                found.append(Step(tuple(rates), tuple(busy)))
    return list(dict.fromkeys(found))


def measured(
    pools: Sequence[Pool],
    joules: Callable[[float], float],
    clocks: Any,
    seconds: float,
    blocks: int,
    seed: int,
) -> Iterator[Dict[str, Any]]:
    """A row for each step of each block."""
    begin = time.monotonic()
    for step in in_blocks(steps_of(pools), blocks, seed):
        if clocks is not None:
            clocks.lower(_wanted(pools, step))
        with _busy(pools, step):
            watts, middle = mean_watts(joules, seconds)
        yield {
            "rates": step.rates,
            "busy": step.busy,
            "watts": watts,
            "at": middle - begin,
        }


def in_blocks(steps: Sequence[T], blocks: int, seed: int) -> Iterator[T]:
    """All steps, so many times, each time in another order."""
    order = random.Random(seed)
    for _ in range(blocks):
        yield from order.sample(steps, len(steps))


def mean_watts(joules: Callable[[float], float], seconds: float) -> Tuple[float, float]:
    """What the machine takes from now on for so long, and the middle of that time, when it has got
    used to what it does."""
    time.sleep(SETTLES)
    joules(SETTLES)
    since = time.monotonic()
    spent, last = 0.0, since
    while last - since < seconds:
        time.sleep(min(TICK, seconds))
        now = time.monotonic()
        spent, last = spent + joules(now - last), now
    return spent / (last - since), (since + last) / 2


def _wanted(pools: Sequence[Pool], step: Step) -> Wanted:
    wanted = {}
    for pool, rate in zip(pools, step.rates):
        if pool.rates:
            wanted[pool.name] = ("cpu", pool.rates[rate], pool.rates[-1])
    return wanted


@contextlib.contextmanager
def _busy(pools: Sequence[Pool], step: Step) -> Iterator[None]:
    """So many CPUs of each pool compute."""
    running = []
    try:
        for pool, count in zip(pools, step.busy):
            for core in pool.cores[:count]:
                words = [sys.executable, "-S", "-E", "-c", BUSY, str(core), str(os.getpid())]
                running.append(subprocess.Popen([*words, "flowc-busy"]))
        yield
    finally:
        for child in running:
            child.kill()
        for child in running:
            child.wait()  # no limit: it was killed


def joules_of(command: str, root: str) -> Callable[[float], float]:
    """What says the joules of the last so many seconds: a command that prints watts, or the meters
    of the machine. Raises NoMeter."""
    if command:
        return _by_command(shlex.split(command))
    found = meters(root, False)
    if not found:
        raise NoMeter("no meter can be read here: RAPL, which only root reads, or an INA3221")
    return lambda seconds: sum(meter.joules(seconds) for meter in found)


def _by_command(words: List[str]) -> Callable[[float], float]:
    def joules(seconds: float) -> float:
        try:
            said = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=ANSWERS,
                check=True,
                universal_newlines=True,
            )
            watts = float(said.stdout)
        except subprocess.CalledProcessError as error:
            why = "`%s` says no watts: it ends with status %d" % (" ".join(words), error.returncode)
            raise NoMeter(why) from None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise NoMeter("`%s` says no watts: %s" % (" ".join(words), error)) from None
        if not 0 <= watts < 1e6:
            raise NoMeter("`%s` says %r watts" % (" ".join(words), watts))
        return watts * seconds

    joules(0.0)
    return joules


def answer(request: Dict[str, Any]) -> Dict[str, Any]:
    """The rows, or an `error`; `refused` says why clocks stay as they are."""
    pools = [Pool(**pool) for pool in request["pools"]]
    root, refused, clocks = request["root"], "", None
    try:
        joules = joules_of(request["meter"], root)
        slowest = Step((0,) * len(pools), (0,) * len(pools))
        wanted = _wanted(pools, slowest)
        absent = {core for pool in pools for core in pool.cores} - os.sched_getaffinity(0)
        if absent:
            numbers = ", ".join(map(str, sorted(absent)))
            raise NoMeter("the platform has CPUs that are not to be had here: %s" % numbers)
        if wanted:
            fastest = Step(tuple(max(0, len(p.rates) - 1) for p in pools), slowest.busy)
            try:
                clocks = Clocks([wanted, _wanted(pools, fastest)], root)
                clocks.lower(wanted)
            except RatesRefused as error:
                refused = str(error)
                if clocks is not None:
                    clocks.restore()
                clocks, pools = None, [pool._replace(rates=[]) for pool in pools]
        try:
            how = request["seconds"], request["blocks"], request["seed"]
            rows = list(measured(pools, joules, clocks, *how))
        finally:
            if clocks is not None:
                clocks.restore()
    except (NoMeter, RatesRefused) as error:
        return {"error": str(error)}
    return {"rows": rows, "refused": refused}


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
