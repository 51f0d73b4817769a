"""From what main.py has said of a program to channels between its tasks, once all of it is known.

In: tasks, orders, and the arrows between ports. Out: channels at both ends of which tasks know
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Sequence

import numpy as np

from .channel import Channel, LocalChannel, SharedChannel, Turnstile
from .columns import find_columns
from .graph import Task
from .tokens import Port, initial_tokens
from .window import Window

if TYPE_CHECKING:
    from .program import Arrow, Program
    from .transport import RemoteEnd, Transport


#: The workers of each task, by its number.
Places = Dict[int, List[int]]


def wired(program: Program) -> None:
    """Make all channels, and tell tasks how often they fire, who reads them and where."""
    for task in program.tasks:
        task.sign_calls()
        task.code.meet(task, program.run)
    places = _places(program)
    _count_firings(program)
    for arrow in program.arrows:
        _add(program, _channel(arrow, places), arrow.source)
    transport = program.run.transport
    if transport is not None:
        for remote_end in transport.remote_ends:
            _add(program, _remote_channel(transport, remote_end), remote_end.task)
    find_columns(program)
    for task in program.tasks:
        task.code.wired(task, program)


def _add(program: Program, channel: Channel, task: Task) -> None:
    """The channel belongs to the app of that task."""
    program.channels.append(channel)
    task.app.channels.append(channel)
    program.run.wakers.append(channel.wake)


def _places(program: Program) -> Places:
    """The workers of each task; one that several of them fire has a turnstile."""
    places: Places = {}
    for number, processor in enumerate(program.processors):
        for entry in processor.order:
            task = entry.task
            workers = places.setdefault(task.number, [])
            if number not in workers:
                workers.append(number)
            if entry.replicas > 1 and task.turnstile is None:
                task.turnstile = Turnstile(task.name)
                program.run.wakers.append(task.turnstile.wake)
            task.code.fired_by(len(workers))
    return places


def _count_firings(program: Program) -> None:
    """Firings of each task in an iteration."""
    for processor in program.processors:
        counts: Dict[int, int] = {}
        for entry in processor.order:
            if entry.index == 0:
                number = entry.task.number
                counts[number] = counts.get(number, 0) + entry.times
        for entry in processor.order:
            entry.task.per_iteration = counts[entry.task.number]
            entry.task.code.fired_per_iteration(entry.task.per_iteration)
    if program.control is not None:
        program.control.let_break_off()


def _channel(arrow: Arrow, places: Places) -> Channel:
    """A channel between two tasks of one program, or of one part of it."""
    source, destination = arrow.source, arrow.destination
    output = _index(source.outputs, arrow.output)
    input = _index(destination.inputs, arrow.input)
    name = "%s.%s->%s.%s" % (source.name, arrow.output, destination.name, arrow.input)
    workers = places[source.number] + places[destination.number]
    kind = LocalChannel if len(set(workers)) == 1 else Channel
    if source.turnstile is not None or destination.turnstile is not None:
        kind = SharedChannel
    port = source.outputs[output]
    made = kind(name, arrow.capacity, initial_tokens(port, arrow.delay, arrow.values))
    made.source, made.destination = source.name, destination.name
    made.empty = _no_tokens(port)
    source.readers[output].append(made)
    _feed(destination, input, made)
    if arrow.key is not None:
        source.app.kept[arrow.key] = made
    if source.code.device is not None:
        destination.from_device = True
        if destination.code.device is None:
            source.code.read_on_host(output)
    return made


def _remote_channel(transport: Transport, remote_end: RemoteEnd) -> Channel:
    """This part's end of a channel between two parts."""
    task = remote_end.task
    there = "%s of part %s" % (remote_end.other, remote_end.peer)
    made: Channel
    if remote_end.leaves:
        output = _index(task.outputs, remote_end.port)
        made = transport.out(remote_end, task.outputs[output])
        made.source, made.destination = task.name, there
        made.empty = _no_tokens(task.outputs[output])
        task.readers[output].append(made)
        return made
    input = _index(task.inputs, remote_end.port)
    made = transport.into(remote_end, task.inputs[input])
    made.source, made.destination = there, task.name
    made.empty = _no_tokens(task.inputs[input])
    _feed(task, input, made)
    return made


def _feed(task: Task, input: int, channel: Channel) -> None:
    """The task reads the channel through that input."""
    port = task.inputs[input]
    channel.view = Window(port) if port.window else port.view()
    task.feeders[input] = channel


def _index(ports: Sequence[Port], name: str) -> int:
    return [port.name for port in ports].index(name)


def _no_tokens(port: Port) -> np.ndarray:
    """An array of no tokens."""
    return np.zeros([0] + [max(0, n) for n in port.shape], port.dtype)
