"""Kim's equations for response times on the smallest systems that exceed them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    Time,
    TimedGroup,
    TimedProcessor,
    TimedSystem,
    TimedTask,
)
from published_systems.rows import Table, by_benchmark, table

from paper_bounds import paper_4_2, paper_5_3, paper_5_4

CPU, GPU = TimedProcessor("c", "fixed_priority", "cpu"), TimedProcessor("g", "fifo", "gpu")
HEAD = "system | equation | longest in executions | flowc's bound"


def _group(name: str, period: Time, on: TimedProcessor, *parts: Time, **more: Time) -> TimedGroup:
    """One task of these parts."""
    made = TimedGroup(name, period, (TimedTask(name.lower(), on.name, parts),))
    return replace(made, **more)  # type: ignore[arg-type]


def _bound(groups: Sequence[TimedGroup], name: str) -> str:
    found = worst_cases(TimedSystem(tuple(groups), (CPU, GPU))).groups[name]
    return "none" if found is None else f"{float(found):g}"


def _seen(groups: Sequence[TimedGroup], name: str, runs: int = 1, **choices: object) -> str:
    """The longest response in some simulations; of several, offsets are random."""
    rng = random.Random(0)
    longest: Time = 0
    for n in range(runs):
        moved = list(groups)
        if runs > 1:
            moved = [replace(g, offset=rng.randrange(int(g.period))) for g in groups]
        how = Choices(shuffle=n % 2 == 1, **choices)  # type: ignore[arg-type]
        system = TimedSystem(tuple(moved), (CPU, GPU))
        longest = max(longest, simulate(system, 2000, how, rng).groups[name])
    return f"{float(longest):g}"


def equation_4_2() -> Table:
    """Chapter 4: stages on a GPU."""
    e, f, j = (43, [10, 1, 1, 1, 10]), (1000, [3] * 50), (30, [1] * 3)
    groups = [_group(n, p, GPU, *parts) for n, (p, parts) in (("E", e), ("F", f), ("J", j))]
    seen, bound = _seen(groups, "J", 20, execution="worst"), _bound(groups, "J")
    words = "kernels of 10, 1, 1, 1, 10 every 43, 50 x 3 every 1000, and 3 x 1 every 30"
    rows = [
        (f"{words}: successive inside of a frame", f"{paper_4_2(*j, [e, f], wrap=False)}", seen, bound),
        ("the same, successive over two frames", f"{paper_4_2(*j, [e, f], wrap=True)}", seen, bound),
    ]  # fmt: skip
    return table(
        "Equation 4.2, response times on a GPU.",
        "The last kernels of one frame and the first ones of the next are successive, too: read"
        " inside of a frame, the equation is exceeded.",
        HEAD,
        rows,
        filled_by=by_benchmark(
            "kernels alone, whose frames come in any phase. The bound is by the function that `flowc map`"
            " takes for apps with `live` sources; no verb simulates random phases"
        ),
    )


def equations_5_3_and_5_4() -> Table:
    """Chapter 5: tasks on CPUs, stages on GPUs and DLAs."""
    two = [_group("A", 70, CPU, 26, priority=2), _group("B", 100, CPU, 62, priority=1)]
    late = [_group("A", 3, CPU, 2, jitter=3)]
    stage = [_group("A", 10, GPU, *[1] * 5), _group("B", 10, GPU, 2, jitter=20)]
    rows = [
        ("5.3: 26 every 70 before 62 every 100", f"{paper_5_3(62, [(26, 70, 0)], 1000)}",
         _seen(two, "B"), _bound(two, "B")),
        ("5.3: 2 every 3, up to 3 late", f"{paper_5_3(2, [], 1000)}",
         _seen(late, "A", lateness="first"), _bound(late, "A")),
        ("5.4: five kernels of 1, and 2 every 10, up to 20 late",
         f"{paper_5_4(10, [1] * 5, [(10, [2])])}", _seen(stage, "A", lateness="first", offsets={"A": 20}, against="A"), _bound(stage, "A")),
    ]  # fmt: skip
    return table(
        "Equations 5.3 and 5.4, response times.",
        "They look at one activation, forget a task's own jitter, and count others by their periods"
        " only; [all three](../mapping.md#where-the-bounds-of-the-thesis-are-exceeded).",
        HEAD,
        rows,
        filled_by=by_benchmark(
            "as equation 4.2; and a text does not say how late a release may be"
        ),
    )
