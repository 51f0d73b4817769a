"""Workers of a timed system from static orders."""

from __future__ import annotations

from flowc.analysis.dataflow.static_order import Schedule
from flowc.analysis.timing.system import Refused, RoundFiring, TimedWorker


def workers_from(schedule: Schedule) -> tuple[TimedWorker, ...]:
    """One worker per processor from static orders (one app's orders give its workers under fixed
    priorities).

    Raises Refused where iterations of a task alternate between processors.
    """
    workers = []
    for processor, steps in schedule.orders.items():
        shared = sorted({s.task for s in steps if s.replicas > 1})
        if shared:
            raise Refused(
                [
                    f"iterations of `{t}` alternate between processors: no bound is known"
                    for t in shared
                ]
            )
        places = tuple(
            RoundFiring(s.app, s.task, k, s.index, s.stage)
            for s in steps
            for k in range(s.first, s.first + s.times)
        )
        if places:
            workers.append(
                TimedWorker(processor, places, tuple({s.app: s.per_round for s in steps}.items()))
            )
    return tuple(workers)
