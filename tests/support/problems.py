"""Small problems for searches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from flowc.model.application import Application, Implementation, Task

import graphs

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
