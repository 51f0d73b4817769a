"""Work of all apps together: processors that the text gives more of it than they have time.

In: a staged system with verdicts of each app by itself, and worst-case times from the text. Out:
the same verdicts, with a no for apps that no mapping can execute together. What is counted is the
least that holds on every mapping: a task takes its time on the processors that it is pinned to, or
on the kind on which it is fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from ...model.application import Application, Task
from ...model.diagnostic import listed
from ...model.platform import Platform
from ...model.times import Times
from ...model.verdict import AppVerdicts, Verdict

#: Processors that some work cannot leave, and the share of one's time that it takes.
Work = tuple[frozenset[str], Fraction]


def together(
    apps: Sequence[Application],
    verdicts: Mapping[str, AppVerdicts],
    times: Times,
    platform: Platform,
    pins: Mapping[str, Sequence[str]],
) -> dict[str, AppVerdicts]:
    """The verdicts, given the processors that tasks are pinned to."""
    of_app = {
        app.name: list(_work(app, verdicts[app.name].repetition, times, platform, pins))
        for app in apps
        if app.period_ns is not None
    }
    judged = dict(verdicts)
    for processors in _candidates(platform, of_app):
        loads: dict[str, Fraction] = {}
        for name, work in of_app.items():
            loads[name] = sum((x for on, x in work if on <= processors), Fraction(0))
        wanted = sum(loads.values(), Fraction(0))
        if wanted <= len(processors):
            continue
        busy = [name for name, load in loads.items() if load]
        for name in busy:
            if judged[name].schedulable.holds is not False:
                others = [other for other in busy if other != name]
                why = _why(platform, processors, wanted, others)
                judged[name] = replace(judged[name], schedulable=Verdict(False, why))
    return judged


def _work(
    app: Application,
    firings: Mapping[str, int],
    times: Times,
    platform: Platform,
    pins: Mapping[str, Sequence[str]],
) -> Iterator[Work]:
    """The work of the tasks of an app whose times are known."""
    assert app.period_ns is not None
    for task in app.tasks:
        least = times.least(task.name)
        if least is None or task.name not in firings:
            continue
        on = frozenset(pins.get(task.name) or _open(task, times, platform))
        taken = sum(least.worst_ns, Fraction(0)) / len(least.worst_ns)
        if on:
            yield on, taken * firings[task.name] / app.period_ns


def _open(task: Task, times: Times, platform: Platform) -> Iterator[str]:
    """The processors of the types that a task has times for."""
    for pool in platform.pools:
        if pool.type in times.of[task.name]:
            yield from pool.processors


def _candidates(
    platform: Platform, of_app: Mapping[str, Sequence[Work]]
) -> dict[frozenset[str], None]:
    """Sets of processors that may have too much work, the smallest first."""
    sets = {on for work in of_app.values() for on, _ in work}
    kinds: dict[str, set[str]] = {}
    for pool in platform.pools:
        kinds.setdefault(pool.kind, set()).update(pool.processors)
    sets.update(frozenset(own) for own in kinds.values())
    sets.add(frozenset(platform.processors))
    return dict.fromkeys(sorted(sets, key=lambda s: (len(s), sorted(s))))


def _why(
    platform: Platform, processors: frozenset[str], wanted: Fraction, others: Sequence[str]
) -> str:
    kinds = {platform.pool_of(name).kind for name in processors}
    whole = [n for pool in platform.pools if pool.kind in kinds for n in pool.processors]
    beside = f"with {listed(others)} it needs" if others else "it needs"
    if processors != frozenset(whole) or len(platform.processors) > len(processors) == 1:
        where = listed(sorted(processors))
        return f"{beside} {float(100 * wanted):.4g} % of the time of {where} by declared times"
    what = kinds.pop().upper() if len(kinds) == 1 else "processor"
    there = "there is 1" if len(processors) == 1 else f"there are {len(processors)}"
    return f"{beside} {float(wanted):.2f} {what}s by declared times, and {there}"
