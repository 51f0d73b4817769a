"""Worst cases that verdicts without a mapping count too often.

In: a valid system and its times. Out: a warning for each task whose measured worst case, counted at
every firing of an iteration, is what makes its app late, although successive firings took far less.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.application import Application, Task
from ...model.diagnostic import Diagnostic
from ...model.times import Times
from .check import Valid

#: A worst case is named that is more than so many times the mean.
FAR = 10


def repeated_worst_cases(valid: Valid, times: Times) -> Iterator[Diagnostic]:
    """The warnings, for all tasks of apps with a period."""
    for app in valid.system.apps:
        vector = valid.repetition[app.name]  # empty if rates do not balance
        for task in app.tasks:
            if task.name in vector:
                yield from _of_task(valid, app, task, vector[task.name], times)


def _of_task(
    valid: Valid, app: Application, task: Task, firings: int, times: Times
) -> Iterator[Diagnostic]:
    time = times.here(task.name)
    if time is None or time.from_text or time.curve is None or app.period_ns is None:
        return
    in_a_row = time.curve.total(firings)
    counted = time.longest_ns * firings
    if not in_a_row <= app.period_ns < counted or time.longest_ns <= FAR * time.mean_ns:
        return
    mean = float(time.mean_ns)
    message = (
        f"one iteration of `{app.name}` counts the worst case of `{task.name}`,"
        f" {float(time.longest_ns) / 1e6:.2f} ms, {firings} times, though it is"
        f" {float(time.longest_ns) / mean:.0f} times the mean and {firings} firings in a row took"
        f" {in_a_row / 1e6:.2f} ms at most"
    )
    help_text = (
        f"`flowc map{valid.about}` counts firings in a row; `flowc profile{valid.about}`"
        " measures again: on a busy machine one firing may be long"
    )
    yield Diagnostic("F625", message, task.span, help=help_text, severity="warning")
