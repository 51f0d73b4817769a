"""What the threads of a program may reserve of a processor.

In: a worker, and the times of the text. Out: the longest that its firings take together in a
period. Only what the text states counts: a measured time is no bound, and a thread that has used up
its reservation waits for the next period.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from ..model.application import Application
from ..model.deployment import DeployedWorker, Entry
from ..model.reservation import Reservation
from ..model.times import FiringTime, Times


def reservation(
    worker: DeployedWorker, apps: Mapping[str, Application], times: Times, type_: str
) -> Reservation | None:
    """What the worker reserves on CPUs of a type; `apps` are those of each task. None where the
    text does not bound its work, that is too much, or a reservation would not suit it.

    It suits a worker without a priority that fires tasks of one app with a period, whose iterations
    are not joined to rounds, shared with replicas, or begun by data from outside.
    """
    if not worker.order or worker.fixed_priority is not None or not worker.paced:
        return None
    app = apps[worker.order[0].task]
    if app.period_ns is None:
        return None
    work = 0
    for entry in worker.order:
        time = times.of[entry.task].get(type_)
        if apps[entry.task] is not app or time is None or not _suits(entry, app, time):
            return None
        work += _work_ns(entry, time)
    limits = [app.period_ns, *_deadlines(app)]
    due = int(min(limits))
    return Reservation(work, due, app.period_ns) if work <= due else None


def _suits(entry: Entry, app: Application, time: FiringTime) -> bool:
    """Does the text bound these firings, which are all of the task's, and in its own time?"""
    task = app.task(entry.task)
    alone = entry.round == (0, 1) and entry.replica == (0, 1)
    return alone and time.from_text and not task.live and task.network is None


def _work_ns(entry: Entry, time: FiringTime) -> int:
    """The worst case of the firings of an entry together."""
    worst, firings = time.worst_ns, range(entry.first, entry.first + entry.times)
    return sum(ceil(worst[firing % len(worst)]) for firing in firings)


def _deadlines(app: Application) -> list[Fraction]:
    """Those of the app and of its paths."""
    found = [path.deadline_ns for path in app.paths]
    return [ns for ns in (app.due_ns, *found) if ns is not None]
