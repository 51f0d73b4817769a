"""Which orders leave nothing to decide, so that their rounds can be written out.

In: an order. Out: its plan, and what depends on lists in it; None for an order that the general
rounds of the runtime (`worker.py`) go through.
"""

from __future__ import annotations

from dataclasses import dataclass

from .lists import Guards, stays_inside
from .order import Order
from .plan import Plan, plan_of

#: Firings of a round up to which it is written out.
MOST_FIRINGS = 1500


@dataclass(frozen=True, slots=True)
class Straight:
    """Rounds that can be written out; `guards` are there if the app has lists."""

    plan: Plan
    guards: Guards | None


def straight(order: Order) -> Straight | None:
    """The rounds of an order that leaves nothing to decide, else None."""
    tasks = order.app.tasks
    if any(task.on_error != "stop" for task in tasks):
        return None
    has_lists = any(task.lists for task in tasks)
    if has_lists and not stays_inside(order):
        return None
    if sum(entry.times for entry in order.entries) > MOST_FIRINGS:
        return None
    for task in order.tasks:
        if task.apart or task.firings % task.phases:
            return None
        if any(port.dtype == "object" for port in task.ports):
            return None
    plan = plan_of(order)
    if plan is None:
        return None
    if not has_lists:
        return Straight(plan, None)
    guards = Guards(plan)
    return Straight(plan, guards) if guards.fit else None
