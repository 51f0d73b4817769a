"""How much longer tasks may take until a deadline is no longer kept, or how much shorter they have
to be: sensitivity by bisection (Racu, Jersak and Ernst, "Applying sensitivity analysis in real-time
distributed systems", 2005).

In: a timed system. Out: factors on the worst cases of tasks. A bound need not grow with a time:
what comes later may meet fewer rivals. So samples below the factor that bisection finds are tested
as well, and the answer is the largest one below which all samples keep the deadlines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from .response_time import late_groups, worst_cases, worst_cases_in_time
from .slower import longer
from .system import TimedSystem, TimedTask

#: Factors are found within this, up to the largest one, from the smallest one.
PRECISION, MOST, LEAST = Fraction(1, 1000), Fraction(64), Fraction(1, 1000)
#: Factors that are tested below an answer.
SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Slack:
    """What some tasks may take: `of` names the task, the app, or all.

    With worst cases `factor` times as long, and at each of the samples below, all deadlines are
    kept (None: with none that was tested, LEAST at least). At `fails_at` times the groups in `late`
    are (None: nothing is late up to MOST times). `now_ns` is the worst case of a firing of a task,
    else of all firings of an iteration.
    """

    of: str
    now_ns: Fraction
    factor: Fraction | None
    fails_at: Fraction | None
    late: tuple[str, ...]

    @property
    def most_ns(self) -> Fraction | None:
        """What they may take."""
        return None if self.factor is None else self.now_ns * self.factor


def slack_of_all(system: TimedSystem) -> Iterator[Slack]:
    """The slack of each task that takes time, of each app with several of them, and of all tasks
    at once. Raises Refused."""
    everything: list[str] = []
    for group in system.groups:
        tasks = [task for task in group.tasks if task.cost]
        for task in tasks:
            yield slack(system, task.name, {task.name}, Fraction(task.cost))
        names = [task.name for task in tasks]
        if len(names) > 1:
            yield slack(system, group.name, names, _work(tasks))
        everything += names
    if len(system.groups) > 1:
        work = sum((_work(group.tasks) for group in system.groups), start=Fraction(0))
        yield slack(system, "all", everything, work)


def _work(tasks: Iterable[TimedTask]) -> Fraction:
    """Worst case of the firings of an iteration."""
    return sum((Fraction(task.work) for task in tasks), start=Fraction(0))


def slack(system: TimedSystem, of: str, tasks: Collection[str], now_ns: Fraction) -> Slack:
    """How many times as long some tasks may take. Raises Refused."""
    fails, keeps = _bracket(system, tasks)
    if fails is None:
        return Slack(of, now_ns, keeps, None, ())
    while keeps is not None:
        keeps, fails = _bisected(system, tasks, keeps, fails)
        below = [keeps * k / SAMPLES for k in range(1, SAMPLES)]
        exception = next((f for f in below if not _keeps(system, tasks, f)), None)
        if exception is None:
            break
        fails, keeps = exception, LEAST if _keeps(system, tasks, LEAST) else None
    return Slack(of, now_ns, keeps, fails, _late(system, tasks, fails))


def _bracket(
    system: TimedSystem, tasks: Collection[str]
) -> tuple[Fraction | None, Fraction | None]:
    """A factor at which a deadline is not kept, and a smaller one at which all are; None where
    there is no such."""
    one = Fraction(1)
    if not _keeps(system, tasks, one):
        return one, LEAST if _keeps(system, tasks, LEAST) else None
    keeps, fails = one, 2 * one
    while _keeps(system, tasks, fails):
        if fails >= MOST:
            return None, fails
        keeps, fails = fails, 2 * fails
    return fails, keeps


def _bisected(
    system: TimedSystem, tasks: Collection[str], keeps: Fraction, fails: Fraction
) -> tuple[Fraction, Fraction]:
    while fails - keeps > PRECISION:
        middle = (keeps + fails) / 2
        if _keeps(system, tasks, middle):
            keeps = middle
        else:
            fails = middle
    return keeps, fails


def _keeps(system: TimedSystem, tasks: Collection[str], factor: Fraction) -> bool:
    return worst_cases_in_time(longer(system, tasks, factor)) is not None


def _late(system: TimedSystem, tasks: Collection[str], factor: Fraction) -> tuple[str, ...]:
    """The groups that miss a deadline with a factor."""
    system = longer(system, tasks, factor)
    late = late_groups(system, worst_cases(system, patience=Fraction(2)))
    return tuple(system.groups[number].name for number in late)
