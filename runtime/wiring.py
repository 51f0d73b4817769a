"""From what main.py has said of a program to channels between its tasks, once all of it is known.

In: tasks, orders, and the arrows between ports. Out: channels at both ends of which tasks know
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Sequence

import numpy as np

from .channel import Channel, LocalChannel, SharedChannel, Turnstile
from .graph import Task
from .tokens import initial_tokens
from .window import Window

if TYPE_CHECKING:
    from .program import Program


def wired(program: "Program") -> None:
    """Make all channels, and tell tasks how often they fire, who reads them and where."""
    _told(program)
    where = _places(program)
    _counted(program)
    _joined(program, where)
    for crossing in program.crossings:
        _cross(program, *crossing)


def _told(program: "Program") -> None:
    """What code has to know of its task."""
    for task in program.tasks:
        task.sign_calls()
        task.code.meet(task, program)


def _places(program: "Program") -> Dict[int, List[int]]:
    """The workers of each task; one that several of them fire has a turnstile."""
    where: Dict[int, List[int]] = {}
    for number, (_, order) in enumerate(program.orders):
        for entry in order:
            places = where.setdefault(id(entry.task), [])
            if number not in places:
                places.append(number)
            if entry.replicas > 1 and entry.task.turnstile is None:
                entry.task.turnstile = Turnstile(entry.task.name)
            entry.task.code.fired_by(len(places))
    return where


def _counted(program: "Program") -> None:
    """Firings of an iteration."""
    for _, order in program.orders:
        counts: Dict[int, int] = {}
        for entry in order:
            if entry.index == 0:
                counts[id(entry.task)] = counts.get(id(entry.task), 0) + entry.times
        for entry in order:
            entry.task.per_iteration = counts[id(entry.task)]
            entry.task.code.fired_per_iteration(entry.task.per_iteration)
    if program.control is not None:
        program.control.let_break_off()


def _joined(program: "Program", where: Dict[int, List[int]]) -> None:
    """The channels of one program, or of one part of it."""
    for source, output, destination, input, capacity, delay, values, key in program.wiring:
        out = [p.name for p in source.outputs].index(output)
        inn = [p.name for p in destination.inputs].index(input)
        name = "%s.%s->%s.%s" % (source.name, output, destination.name, input)
        places = where[id(source)] + where[id(destination)]
        kind = LocalChannel if len(set(places)) == 1 else Channel
        if source.turnstile is not None or destination.turnstile is not None:
            kind = SharedChannel
        port = source.outputs[out]
        made = kind(name, capacity, initial_tokens(port, delay, values))
        made.source, made.destination = source.name, destination.name
        made.empty = np.zeros([0] + [max(0, n) for n in port.shape], port.dtype)
        if destination.inputs[inn].window:
            made.window = Window(destination.inputs[inn])
        source.readers[out].append(made)
        destination.feeders[inn] = made
        program.channels.append(made)
        source.app.channels.append(made)
        if key is not None:
            source.app.kept[key] = made
        if source.code.device is not None:
            destination.from_device = True
            source.code.mirrored[out] |= destination.code.device is None


def _cross(
    program: "Program",
    out: bool,
    number: int,
    task: Task,
    port: str,
    peer: str,
    other: str,
    name: str,
    capacity: int,
    delay: int,
    values: Sequence[float],
) -> None:
    """One end of a channel between two parts."""
    assert program.mesh is not None
    ports = task.outputs if out else task.inputs
    at = [p.name for p in ports].index(port)
    there = "%s of part %s" % (other, peer)
    made: Channel
    if out:
        made = program.mesh.out(number, task.name, peer, name, capacity, delay)
        made.source, made.destination = task.name, there
        task.readers[at].append(made)
    else:
        made = program.mesh.into(number, task, at, peer, other, name, capacity, delay, values)
        made.source, made.destination = there, task.name
        task.feeders[at] = made
    made.empty = np.zeros([0] + [max(0, n) for n in ports[at].shape], ports[at].dtype)
    if not out and task.inputs[at].window:
        made.window = Window(task.inputs[at])
    program.channels.append(made)
    task.app.channels.append(made)
