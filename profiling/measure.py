"""Times of tasks from a run of the application itself: every task on one core, one after the other.

In: the directory of a sequential build (the CLI makes it). Out: profile entries. Tasks are measured
on real data, with caches as in the program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Annotated

from ..machines.answers import Ns
from ..machines.host import HERE, Host, Identity, last_words
from ..model.application import Task
from ..model.full_counts import worst_shares_ns
from ..model.json_reader import Between, parse_object, read
from ..model.profile import ListLength, PortCount, Profile, ProfileEntry, RunTime
from ..model.workload import workload
from ..runtime.command import HUGE_PAGES
from .engines import build_engines
from .identity import implementation_name
from .there.samples import warm

#: A time in whole ns, and a count.
_Whole = Annotated[int, Between(0, 1 << 62)]
_Firings = Annotated[tuple[_Whole, ...], Between(1, 1 << 40)]


class MeasurementFailed(Exception):
    """The program did not run; the message is its output."""


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """The results of a run, in ns: mean times of firings by task; by app the mean time between
    frames, the median and the longest time from start to end of a frame, the number of frames that
    were due (complete ones, and those that could not begin in time) and of missed deadlines, and
    for each of its `paths` the longest latency, the number of latencies and of missed deadlines;
    the busy share by processor; `delayed`, the share of its time in which the program was ready but
    had no core, because other programs had it. `waits` are sources that
    mostly wait but are not declared `live`. `fired` has, of tasks whose tokens may be missing, the
    share of firings that had some; `lists` are those that a task has written: port, mean and most
    tokens.

    A strict or paced run has all firings by task in `samples`, in order. A strict run also has the
    share of its time in which a task held the interpreter; times of whole `runs` of networks with a
    batch, by how many firings they compute, and times of `full` firings: with full lists of the
    largest tokens, on data of the application that are repeated. `counts` are the most tokens of a
    firing and places of a token that the application had: port, tokens, places.
    """

    samples: dict[str, _Firings]
    period_ns: dict[str, Ns]
    latency_ns: dict[str, Ns]
    busy: dict[str, float]
    held: dict[str, float]
    mean_ns: dict[str, Ns] = field(default_factory=dict)
    longest_ns: dict[str, _Whole] = field(default_factory=dict)
    frames: dict[str, _Whole] = field(default_factory=dict)
    misses: dict[str, _Whole] = field(default_factory=dict)
    paths: dict[str, tuple[tuple[_Whole | None, _Whole, _Whole], ...]] = field(default_factory=dict)
    delayed: float = 0.0
    waits: tuple[str, ...] = ()
    fired: dict[str, Annotated[float, Between(0, 1)]] = field(default_factory=dict)
    lists: dict[str, tuple[tuple[str, Ns, _Whole], ...]] = field(default_factory=dict)
    runs: dict[str, tuple[tuple[_Whole, _Firings], ...]] = field(default_factory=dict)
    full: dict[str, _Firings] = field(default_factory=dict)
    counts: dict[str, tuple[tuple[str, _Whole, _Whole], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Failed:
    """The output of a failed run."""

    failure: str


def run_build(
    directory: Path,
    seconds: float,
    *,
    strict: bool,
    paced: bool = False,
    native: bool = False,
    host: Host = HERE,
    about: str = "measured",
    report: Callable[[str], None] | None = None,
) -> MeasuredTimes:
    """Run the build in `directory` for about `seconds` at full speed; `strict` checks the results
    of tasks.

    A `native` program measures itself, and checks nothing. If `paced`, apps keep their periods, and
    the times of firings count from when they were ready: they include the overheads of runtime and
    kernel. A build `about` the same thing is replaced on `host`. Missing TensorRT engines are built
    first; `report` is called then. Raises MeasurementFailed.
    """
    mode = "paced" if paced else ""
    if strict:
        mode = "strict"
    # as in generated programs
    environment = {name: value for name, value in HUGE_PAGES.items() if name not in os.environ}

    def run() -> MeasuredTimes:
        with host.folder() as folder:
            output, tree = f"{folder}/times.json", host.put(directory, about)
            why_not = build_engines(directory, tree, host, report)
            if why_not:
                raise MeasurementFailed(why_not)
            module = "profiling.there.native" if native else "profiling.there.child"
            done = host.module(module, [tree, str(seconds), output, mode], environment)
            if done.status:
                raise MeasurementFailed(_death(done.status, done.stderr))
            content = host.read(output) or b""
        try:
            document = parse_object(content)
            if "failure" not in document:
                return read(MeasuredTimes, document)
            failed = read(_Failed, document)
        except ValueError as error:
            raise MeasurementFailed(f"the measurements cannot be read: {error}") from error
        raise MeasurementFailed(failed.failure)

    return host.steadily(run)


def signal_name(number: int) -> str:
    """The name of a signal; some have none."""
    return next((s.name for s in signal.Signals if s == number), f"signal {number}")


def _death(status: int, stderr: str) -> str:
    """The last output of a process that did not end by itself."""
    last = last_words(stderr)
    if status < 0:
        return f"{last}\nkilled by {signal_name(-status)}, most likely in C code".strip()
    return last or f"exit status {status}"


def wcet(longest: int, mean: float, sigma: float) -> int:
    """The one rule for measured worst cases: the largest sample, or the mean plus six
    deviations."""
    return max(longest, round(mean + 6 * sigma))


def worst_case(samples: Sequence[int]) -> int:
    """The WCET of a task over the samples after warm-up."""
    kept, mean, sigma = _kept(samples)
    return wcet(max(kept), mean, sigma)


def _kept(samples: Sequence[int]) -> tuple[Sequence[int], float, float]:
    kept = warm(samples)
    return kept, *_spread(kept)


def _spread(samples: Sequence[int]) -> tuple[float, float]:
    """The mean of samples, and their standard deviation."""
    mean = sum(samples) / len(samples)
    return mean, (sum((s - mean) ** 2 for s in samples) / len(samples)) ** 0.5


def entry(
    task: Task,
    digest: str,
    samples: Sequence[int],
    host_hash: str,
    kind: str = "cpu",
    held: float | None = None,
    fired: float | None = None,
) -> ProfileEntry:
    """Mean, deviation, WCET and workload curve over the samples after warm-up."""
    kept, mean, sigma = _kept(samples)
    worst = worst_case(samples)
    return ProfileEntry(
        kind,
        task.name,
        implementation_name(task, kind),
        digest,
        host_hash,
        len(kept),
        round(mean),
        round(sigma),
        max(kept),
        worst,
        task.network.batch if task.network else 1,
        task.network.precision if task.network else "fp32",
        held=held,
        totals_ns=workload(kept, worst).totals,
        fired=None if fired is None else round(fired, 4),
    )


def _run_times(measured: Iterable[tuple[int, Sequence[int]]]) -> tuple[RunTime, ...]:
    """The times of runs by how many firings they compute, fewest first."""
    by_size: dict[int, list[int]] = {}
    for size, samples in measured:
        by_size.setdefault(size, []).extend(warm(samples))
    times = []
    for size, samples in sorted(by_size.items()):
        mean, sigma = _spread(samples)
        worst = wcet(max(samples), mean, sigma)
        times.append(RunTime(size, len(samples), round(mean), max(samples), worst))
    return tuple(times)


def _with_as_much(made: ProfileEntry, seen: MeasuredTimes, sizes: tuple[int, ...]) -> ProfileEntry:
    """The entry with times of firings with as much as bounds count; `sizes` are the runs of a
    network in an iteration. Bounds count a run as a full one, so that the longest one is divided by
    all of its firings. A sequence of smaller firings says nothing of one of larger ones."""
    name = made.subject
    runs = _run_times(seen.runs.get(name, ()))
    counts = tuple(PortCount(*count) for count in seen.counts.get(name, ()))
    if runs:
        made = replace(made, runs=runs, totals_ns=())
        longest = max(run.max_ns for run in runs if run.firings <= max(sizes))
        return replace(
            made,
            max_ns=ceil(longest / max(sizes)),
            wcet_ns=ceil(max(worst_shares_ns(made, sizes))),
        )
    if counts:
        made = replace(made, counts=counts, totals_ns=())
    full = seen.full.get(name)
    if full:
        worst = max(made.wcet_ns, wcet(max(full), *_spread(full)))
        made = replace(made, wcet_ns=worst)
    return made


def profile(
    platform: str,
    tasks: list[Task],
    digests: Mapping[str, str],
    seen: MeasuredTimes,
    machine: Identity,
    sizes: Mapping[str, tuple[int, ...]],
) -> Profile:
    """The profile of all tasks that fired, on that machine. `sizes` are the runs of networks with a
    batch in an iteration."""
    entries = []
    for task in tasks:
        samples = seen.samples.get(task.name)
        if samples:
            held = None if task.network else seen.held.get(task.name)
            digest = digests[task.name]
            fired = seen.fired.get(task.name)
            made = entry(task, digest, samples, machine.host_hash, "cpu", held, fired)
            lists = tuple(ListLength(*length) for length in seen.lists.get(task.name, ()))
            made = _with_as_much(made, seen, sizes.get(task.name, (1,)))
            entries.append(replace(made, lists=lists))
    return Profile(platform, machine.description, tuple(entries))
