"""Sizes: where tokens may have sizes of their own, because their type has a dimension `up to`.

In: an application. Out: faults, where a token of varying size has no meaning or no code.

For all analyses a token has its largest size: it takes the memory, and its reader the time, of the
largest one. Smaller tokens take less of both, so that all bounds hold for any sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.application import Application, Channel, Port, Task
from ...model.diagnostic import Diagnostic, Note


def sized_faults(app: Application) -> Iterator[Diagnostic]:
    """What is wrong with tokens of varying size in an app."""
    for task in app.tasks:
        for port in task.sized_ports:
            yield from _at_port(task, port)
        if task.sized_ports:
            yield from _code(task)
    tasks = {task.name: task for task in app.tasks}
    for channel in app.channels:
        port = tasks[channel.source].port(channel.source_port)
        if channel.delay and port.varies:
            yield _delay(channel, port)


def _at_port(task: Task, port: Port) -> Iterator[Diagnostic]:
    if port.window:
        message = f"`{port.name}` has a window over tokens that are {port.type}"
        help_text = "leave the window out: before there are tokens, none has a size to be zero in"
        yield Diagnostic("F224", message, port.span, help=help_text)
    looked_at = task.link is not None and task.link.latest and port.direction == "out"
    if looked_at and not port.count:
        message = f"`latest` shows zeros before the first token, and {port.type} has no one size"
        help_text = "use `drop oldest 1`, which waits for the first"
        yield Diagnostic("F224", message, task.span, help=help_text)


def _code(task: Task) -> Iterator[Diagnostic]:
    """Sizes are seen by Python."""
    port = task.sized_ports[0]
    for code in task.implementations:
        if code.language != "python":
            message = f"`{port.name}` is {port.type}, which only Python code can read or write"
            help_text = "write it in Python, or give the port a fixed size"
            notes = (Note("the port", port.span),)
            yield Diagnostic("F224", message, code.span, notes=notes, help=help_text)
            return


def _delay(channel: Channel, port: Port) -> Diagnostic:
    message = f"tokens of {port.type} cannot be delayed: those at the start have no size"
    help_text = "keep the token before in a Python class, or give the type a fixed size"
    return Diagnostic("F224", message, channel.span, help=help_text)
