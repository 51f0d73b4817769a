"""Whether a time was measured with as much as bounds count, and the times of whole runs.

In: a task and its entry of a profile. Out: the worst case of a run of so many firings, and in words
what the entry was measured with, where that is less than the worst case of the text: a list with
fewer tokens, a smaller token, a run with fewer firings.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, prod

from .application import Port, Task
from .profile import ProfileEntry, RunTime


def run_sizes(firings: int, batch: int) -> tuple[int, ...]:
    """The firings of each run of a network in an iteration: as many as its batch, then the rest."""
    whole, rest = divmod(firings, batch)
    return (batch,) * whole + ((rest,) if rest else ())


def worst_run_ns(runs: tuple[RunTime, ...], firings: int) -> int:
    """The worst case of a run of so many firings, or of fewer. Where only shorter runs were
    measured, a longer one counts as several of the longest of them."""
    least = min((run.firings for run in runs if run.firings >= firings), default=0)
    if least:
        return max(run.wcet_ns for run in runs if run.firings <= least)
    most = max(run.firings for run in runs)
    return ceil(Fraction(max(run.wcet_ns for run in runs) * firings, most))


def worst_shares_ns(entry: ProfileEntry, sizes: tuple[int, ...] = ()) -> tuple[Fraction, ...]:
    """The worst case of each firing of an iteration in runs of these `sizes`: an equal share of its
    run; one if all are equal."""
    if not entry.runs or not sizes:
        return (Fraction(entry.wcet_ns * entry.divided_by),)
    shares: list[Fraction] = []
    for size in sizes:
        shares += [Fraction(worst_run_ns(entry.runs, size), size)] * size
    return tuple(shares) if len(set(shares)) > 1 else tuple(shares[:1])


def measured_with_less(
    task: Task, entry: ProfileEntry, sizes: tuple[int, ...], lists: bool
) -> Iterator[str]:
    """What a task was measured with, where bounds count more: `sizes` are the runs of a network in
    an iteration, which may have fewer firings in an app with `lists`."""
    longest = max(sizes, default=1)
    known = max((run.firings for run in entry.runs), default=0)
    if longest > 1 and known < longest and (known or lists):
        yield f"runs of at most {known} of {longest} firings" if known else "runs of any length"
    counts = {count.port: count for count in entry.counts}
    for port in (*task.inputs, *task.outputs):
        if not (port.count or port.varies):
            continue
        count = counts.get(port.name)
        if count is None:
            yield f"an unknown part of `{port.name}`"
            continue
        if port.count and count.tokens < port.rates[0]:
            yield f"at most {count.tokens} of {port.rates[0]} tokens of `{port.name}`"
        if port.varies and count.places < places_of(port):
            yield f"tokens of at most {count.places} of {places_of(port)} places of `{port.name}`"
    if entry.depends:
        yield f"the data of one run only, on which the work of its {entry.depends} depends"


def places_of(port: Port) -> int:
    """The most places of one token along the dimensions in which it varies."""
    assert port.type is not None
    return prod(n for axis, n in enumerate(port.type.shape) if axis in port.type.bounded)
