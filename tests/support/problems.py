"""Small problems for searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from flowc.analysis.dataflow.repetition import repetition
from flowc.model.application import Application, Implementation, Task
from flowc.model.platform import Kind, Platform, Pool
from flowc.search.throughput.partition import Costs
from flowc.search.throughput.problem import Divisible, Problem

import graphs

#: The network of `problem`.
NET = "A.t2"
CODE = {
    "python": Implementation("cpu", "python", "t.py", "t.py", "f", graphs.PLACE),
    "c": Implementation("cpu", "c", "t.c", "t.c", "f", graphs.PLACE),
}


def chain(
    name: str, languages: str, *, stateless: bool = False, period: int | None = None
) -> Application:
    """Tasks t0 -> t1 -> ...; one letter each: p = Python, c = C."""
    last = len(languages) - 1
    tasks: list[Task] = []
    for i, letter in enumerate(languages):
        made = graphs.task(
            f"{name}.t{i}",
            {"i": [1]} if i else {},
            {"o": [1]} if i < last else {},
            stateless=stateless,
        )
        tasks.append(replace(made, implementations=(CODE["python" if letter == "p" else "c"],)))
    arrows = [(f"{name}.t{i}", "o", f"{name}.t{i + 1}", "i", 0) for i in range(last)]
    app = replace(graphs.app(tasks, arrows), name=name)
    return replace(app, period_ns=Fraction(period), deadline_ns=Fraction(period)) if period else app


def problem(
    layers: dict[str, list[float]],
    pools: Mapping[Kind, int],
    *,
    others_ms: float = 0.05,
    crossing: tuple[tuple[str, ...], ...] = (),
    price: float = 0.0002,
) -> Problem:
    """camera -> prepare -> network -> top; times of layers in ms, a cut after each of them, 100 kB
    across."""
    app = chain("A", "cccc", stateless=True)
    count = len(next(iter(layers.values())))
    times = {k: [ms * 1e6 for ms in v] for k, v in layers.items()}

    def transfer(source: str, target: str, size: int) -> float:
        return 2e4 + (price * size if source != target else 0.0)

    cuts = tuple((i, 100_000) for i in range(1, count))
    energy = Costs(
        {k: [ns / (1 + (k != "cpu")) for ns in v] for k, v in times.items()},
        dict.fromkeys(times, 0.0),
        cuts,
        lambda a, b, n: 0.0,
    )
    network = Divisible(
        tuple(f"l{i}" for i in range(count)),
        Costs(times, dict.fromkeys(times, 2e4), cuts, transfer),
        energy,
        crossing,
    )
    kept = tuple(Pool(k, k, n, n > 1, "static_order") for k, n in pools.items())
    firing = {t.name: {"cpu": others_ms * 1e6} for t in app.tasks}
    firing[NET] = {k: sum(v) + 2e4 for k, v in times.items()}
    return Problem(
        (app,),
        Platform("p", kept, (), "", None),
        {"A": repetition(app).vector},
        firing,
        {},
        {NET: network},
    )
