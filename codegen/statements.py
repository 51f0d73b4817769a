"""What programs with and without states have in common: parts of statements in main.py.

In: tasks, ports, channels and orders of a deployment. Out: Python text.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPath,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Entry,
    PathKind,
)
from .kinds import KINDS, code_of
from .kinds.kind import Identifiers
from .names import literal

#: Classes of the runtime: what is measured over several apps.
END_TO_END: dict[PathKind, str] = {"age": "Age", "reaction": "Reaction"}
#: Classes of the runtime: how threads are scheduled.
BACKGROUND, BOUND, FIXED_PRIORITY, SERVER = "Background", "Bound", "FixedPriority", "Server"
ON_STREAM = "OnStream"
#: Names that main.py uses itself.
RESERVED = frozenset(
    {
        "Control",
        BACKGROUND,
        BOUND,
        "Dropping",
        "Event",
        "Fire",
        FIXED_PRIORITY,
        "HOME",
        ON_STREAM,
        "Port",
        "Program",
        "Select",
        SERVER,
        "Sized",
        "SizedUpTo",
        "Stamps",
        "Transport",
        "UpTo",
        "control",
        "main",
        "os",
        "p",
        "program",
        "range",
        "signal",
        "stamps",
        "sys",
        "transport",
    }
).union(END_TO_END.values(), *(kind.words for kind in KINDS))


def end_to_end(path: DeployedPath, source: str, sink: str) -> str:
    """The call in main.py for an age or a reaction, between the identifiers of two tasks."""
    deadline = f", deadline={literal(path.deadline_ns)}" if path.deadline_ns else ""
    return f"{END_TO_END[path.kind]}({source}, {sink}{deadline})"


def code_text(task: DeployedTask, ids: Identifiers) -> str:
    """The expression for the code of a task; `ids` are the identifiers of tasks."""
    code = code_of(task).text(ids)
    if task.keep is None:
        return code
    return f"Dropping(p, {code}, keep={task.keep})"


def pace(app: DeployedApp) -> str:
    """How often an app fires, as a sentence."""
    if app.period_ns is None:
        return "As fast as data allows."
    text = f"One iteration every {_ms(app.period_ns)}"
    if app.deadline_ns is not None and app.deadline_ns != app.period_ns:
        text += f", to be done within {_ms(app.deadline_ns)}"
    return text + "."


def _ms(ns: str) -> str:
    return f"{float(Fraction(ns)) / 1e6:g} ms"


def initial_tokens(channel: DeployedChannel) -> str:
    """Further arguments of a channel with a delay."""
    text = f", delay={channel.delay}" if channel.delay else ""
    if channel.values:
        text += f", values={literal(list(channel.values))}"
    return text


def port_class(port: DeployedPort) -> str:
    """The class of a port in the runtime."""
    if port.bounded:
        return "SizedUpTo" if port.count else "Sized"
    return "UpTo" if port.count else "Port"


def port_text(port: DeployedPort) -> str:
    """A port with its type, and what one firing reads or writes."""
    called = port_class(port)
    given: tuple[object, ...] = (port.name, port.dtype, port.shape)
    given += (port.bounded,) if port.bounded else ()
    if port.count:
        return f"{called}({', '.join(map(literal, (*given, port.rates[0], port.count)))})"
    text = f"{called}({', '.join(map(literal, given[:2]))}"
    if port.shape or port.rates != (1,) or port.stacked:
        text += "".join(f", {literal(value)}" for value in given[2:])
    if port.rates != (1,) or port.stacked:
        text += f", rates={_rates(port.rates)}"
    if port.window:
        text += f", window={port.window}"
    elif port.stacked and port.rates == (1,):
        text += ", stacked=True"
    return text + ")"


def _rates(rates: tuple[int, ...]) -> str:
    """Long repetitive lists are written as sums of repeated parts."""
    parts: list[tuple[int, int]] = []
    for rate in rates:
        if parts and parts[-1][0] == rate:
            parts[-1] = (rate, parts[-1][1] + 1)
        else:
            parts.append((rate, 1))
    if len(rates) > 8 and len(parts) < len(rates) // 2:
        return " + ".join(f"({rate},) * {count}" for rate, count in parts)
    return literal(rates)


def offsets(numbers: tuple[int, ...]) -> str:
    """Long lists that go up in equal steps are written as ranges."""
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) <= 8 or len(steps) != 1 or 0 in steps:
        return literal(list(numbers))
    (step,) = steps
    bounds = f"{numbers[0]}, {numbers[-1] + step}"
    return f"range({bounds})" if step == 1 else f"range({bounds}, {step})"


def scheduling(worker: DeployedWorker) -> str:
    """A further argument of a processor whose thread has a fixed priority, a budget, or runs below
    others."""
    called = scheduling_class(worker)
    arguments = [str(number) for number in worker.fixed_priority or ()]
    if called == BOUND:
        arguments.append(str(worker.bound))
    if called == ON_STREAM:
        arguments.append(str(worker.urgency))
    if called == BACKGROUND:
        del arguments[1:]
    if worker.server is not None:
        arguments[:0] = [str(worker.server.budget_ns), f'"{worker.server.period_ns}"']
    return f", {called}({', '.join(arguments)})" if called else ""


def scheduling_class(worker: DeployedWorker) -> str:
    """What the runtime calls it; empty where the system schedules as it likes."""
    if worker.background:
        return BACKGROUND
    if worker.server is not None:
        return SERVER
    if worker.fixed_priority is not None:
        return FIXED_PRIORITY
    if worker.urgency is not None:
        return ON_STREAM
    return "" if worker.bound is None else BOUND


def entry_text(entry: Entry, task: str) -> str:
    """The arguments of an entry of a static order; `task` is the expression for its task."""
    parts = [task]
    if entry.times != 1:
        parts.append(f"times={entry.times}")
    if entry.first:
        parts.append(f"first={entry.first}")
    if entry.stage:
        parts.append(f"stage={entry.stage}")
    if entry.replica[1] > 1:
        parts.append(f"replica={entry.replica}")
    if entry.round[1] > 1:
        parts.append(f"round={entry.round}")
    return ", ".join(parts)
