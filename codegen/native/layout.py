"""Where tokens lie in a native program: arrays inside of a worker, rings between two.

In: a deployment. Out: for every port of every task the place where a firing reads or writes. All of
it is arithmetic on the static orders, done when the program is built.

A worker's round has m iterations of an app, and a task with stage s fires in round r for the
iterations r * m + j - s, j < m. An array has the tokens that its writer makes in a round, behind
those that stay from the rounds before: what firing i of iteration j of a round makes is at
`kept + j * T + before[i]`, with T tokens in an iteration. A reader with stage t finds what it takes
at `kept + (j + s - t) * T + before[i] - delay`, in every round alike. At the end of a round the
last `kept` tokens are moved to the front. Where none stays, and a firing sees what a firing has
made, tokens lie in as many slots, in turn, as are full at once.

Where apps begin anew with states, the last `held` tokens have to be there when an app has stopped,
which is so after its last round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import lcm, prod

from ...model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Deployment,
)
from ..kinds.cuda import CudaCode
from ..kinds.onnx_cuda import OnnxCudaCode
from .cycles import held_by_cycles

Values = tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a task in the order of the worker with this number: its `stage`, and how many
    iterations of its app a round has. A task with several `replicas` has neither, as its workers
    may differ in them."""

    worker: int | None
    stage: int
    iterations: int
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a port: those of an iteration, and in its cycle those before each phase."""

    port: DeployedPort
    in_iteration: int
    before: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of one token."""
        return prod(self.port.shape)

    @property
    def most(self) -> int:
        """Tokens that a firing sees at most."""
        return max(*self.port.rates, self.port.window)


@dataclass(frozen=True, slots=True)
class Array:
    """Tokens of an output inside of its worker; `in_round` are those of a round.

    `delay` initial tokens have these `values`, the first of them first; `zeroth` is where token 0
    lies in round 0, from which it moves by a round's tokens each time. The last `held` ones go on
    where the app begins anew. With `turn`, tokens lie in so many slots in turn.
    """

    writer: Tokens
    task: str
    kept: int
    in_round: int
    zeroth: int
    delay: int = 0
    values: Values = ()
    held: int = 0
    turn: int = 0

    @property
    def tokens(self) -> int:
        """Those for which it has memory."""
        return self.turn or self.kept + self.in_round

    @property
    def rounds_with_initial_tokens(self) -> int:
        """Rounds at the start in which initial tokens have to be put into it."""
        if not any(self.values) and not self.held:
            return 0
        return 1 + max(0, self.zeroth - self.kept - 1) // self.in_round


@dataclass(frozen=True, slots=True)
class Ring:
    """A channel between two workers, or between replicas of its `writers` and `readers`. A reader
    sees `seen` tokens at most, of which it has seen `kept` before."""

    writer: Tokens
    channel: DeployedChannel
    slots: int
    seen: int
    kept: int
    writers: int = 1
    readers: int = 1

    @property
    def shared(self) -> bool:
        """Are there replicas at one of its ends?"""
        return self.writers > 1 or self.readers > 1

    @property
    def tokens(self) -> int:
        """Those for which it has memory."""
        return self.readers * self.seen + self.slots


@dataclass(frozen=True, slots=True)
class Read:
    """An input that finds its tokens in an array: those of iteration j of a round begin at `offset`
    + j * tokens of an iteration; or in a ring."""

    tokens: Tokens
    of: Array | Ring
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """An output: a firing writes into the first of `places`, and copies go to the others. Without
    any, its tokens are thrown away."""

    tokens: Tokens
    places: tuple[Array | Ring, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Of each task its place and ports, by name; and how full channels inside of workers become."""

    places: Mapping[str, Place]
    reads: Mapping[str, tuple[Read, ...]]
    writes: Mapping[str, tuple[Written, ...]]
    most: Mapping[str, int]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays."""
        return tuple(place for place in self._all() if isinstance(place, Array))

    @property
    def rings(self) -> tuple[Ring, ...]:
        """All rings."""
        return tuple(place for place in self._all() if isinstance(place, Ring))

    def _all(self) -> Iterator[Array | Ring]:
        for outputs in self.writes.values():
            for written in outputs:
                yield from written.places


def layout(deployment: Deployment, *, in_states: bool = False) -> Layout:
    """The layout of a program without states and parts, or of one state: then apps begin anew."""
    places = _places(deployment.processors)
    behind = _behind_at_most(deployment) if in_states else {}
    reads: dict[str, tuple[Read, ...]] = {}
    writes: dict[str, tuple[Written, ...]] = {}
    most: dict[str, int] = {}
    for number, worker in enumerate(deployment.processors):
        most |= _filled(deployment, number, worker, places)
    for app in deployment.apps:
        found: dict[tuple[str, str], Read] = {}
        in_cycles = held_by_cycles(app)
        for task in app.tasks:
            writes[task.name] = tuple(
                _written(app, task, port, places, in_cycles, found, behind, most)
                for port in task.outputs
            )
        for task in app.tasks:
            reads[task.name] = tuple(found[task.name, port.name] for port in task.inputs)
    return Layout(places, reads, writes, most)


def _places(workers: Iterable[DeployedWorker]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for number, worker in enumerate(workers):
        for entry in worker.order:
            place = Place(number, entry.stage, entry.round[1])
            if entry.replica[1] > 1:
                place = Place(None, 0, 1, entry.replica[1])
            if places.setdefault(entry.task, place) != place:
                raise RuntimeError(f"`{entry.task}` has several places")
    return places


def _behind_at_most(deployment: Deployment) -> dict[str, int]:
    """By how many iterations the order of a task's worker is behind at most in the task's app."""
    app_of = {task.name: app.name for app in deployment.apps for task in app.tasks}
    found = {}
    for worker in deployment.processors:
        behind: dict[str, int] = {}
        for entry in worker.order:
            app, own = app_of[entry.task], entry.stage - entry.round[0]
            behind[app] = max(behind.get(app, own), own)
        found.update({entry.task: behind[app_of[entry.task]] for entry in worker.order})
    return found


def tokens_of(task: DeployedTask, port: DeployedPort) -> Tokens:
    """The tokens of a port of a task."""
    cycle = sum(port.rates)
    before = (0, *accumulate(port.rates[:-1]))
    return Tokens(port, cycle * task.firings // len(port.rates), before)


def _written(
    app: DeployedApp,
    task: DeployedTask,
    port: DeployedPort,
    places: Mapping[str, Place],
    in_cycles: Mapping[str, int],
    found: dict[tuple[str, str], Read],
    behind: Mapping[str, int],
    filled: Mapping[str, int],
) -> Written:
    """Where an output goes; adds what its readers find to `found`. `in_cycles`: the tokens at most
    of channels in cycles; `behind`: see `_array`; `filled`: the tokens at most of channels inside
    of workers."""
    tokens, here = tokens_of(task, port), places[task.name]
    ends = {t.name: t for t in app.tasks}
    near: list[tuple[DeployedChannel, Tokens]] = []
    made: list[Array | Ring] = []
    for channel in app.channels:
        if (channel.source, channel.source_port) != (task.name, port.name):
            continue
        reader = ends[channel.destination]
        of = next(p for p in reader.inputs if p.name == channel.destination_port)
        taken = tokens_of(reader, of)
        there = places[reader.name]
        if there.worker == here.worker is not None:
            near.append((channel, taken))
        else:
            replicas = here.replicas, there.replicas
            most = channel.capacity
            if replicas == (1, 1):
                most = min(most, in_cycles.get(channel.name, most))
            # what firings make at once is in one piece
            piece = sum(port.rates)
            if replicas != (1, 1) or task.code.batch > 1:
                piece = tokens.in_iteration
            ring = _ring(channel, most, tokens, taken, reader.code.batch, replicas, piece)
            found[reader.name, of.name] = Read(taken, ring)
            made.append(ring)
    arrays = []
    for group in _alike(near):
        array = _array(task, tokens, group, places, behind.get(task.name))
        if task.name not in behind:
            readers = [ends[channel.destination] for channel, _ in group]
            array = replace(array, turn=_turn(array, group, [task, *readers], filled))
        arrays.append(array)
        for channel, taken in group:
            there = places[channel.destination]
            offset = array.kept + _behind(here, there, tokens) - channel.delay
            key = channel.destination, channel.destination_port
            found[key] = Read(taken, array, offset)
    return Written(tokens, (*arrays, *made))


def _behind(writer: Place, reader: Place, tokens: Tokens) -> int:
    """The tokens by which a reader is ahead of the writer in a round, mostly negative."""
    return (writer.stage - reader.stage) * tokens.in_iteration


def _ring(
    channel: DeployedChannel,
    most: int,
    made: Tokens,
    taken: Tokens,
    group: int,
    replicas: tuple[int, int],
    piece: int,
) -> Ring:
    """Slots for the tokens of a channel, `most` of them, and those that a window keeps, in whole
    pieces of the writer. The reader takes the tokens of a `group` of firings at once. Of
    several readers, others may have taken theirs before one has taken its own."""
    kept, seen = _kept_by(taken.port), taken.most * group
    needed = most + kept + (replicas[1] - 1) * made.in_iteration
    slots = -(-max(needed, seen) // piece) * piece
    return Ring(made, channel, slots, seen, kept, *replicas)


def _kept_by(port: DeployedPort) -> int:
    """Tokens that a reader sees again; see `Port.kept` of the application."""
    return max(0, port.window - min(port.rates))


def held_by(channel: DeployedChannel, port: DeployedPort) -> int:
    """Tokens on a channel to that port between two frames, with those that it has seen and sees
    again."""
    return channel.delay + _kept_by(port)


def _alike(
    channels: Iterable[tuple[DeployedChannel, Tokens]],
) -> list[list[tuple[DeployedChannel, Tokens]]]:
    """The channels of an output that can share an array: those for which the same lies before the
    first token. Where all of that is zero, and where none of it is seen, any will do."""
    groups: dict[tuple[int, Values], list[tuple[DeployedChannel, Tokens]]] = {}
    unseen = []
    for channel, taken in channels:
        if not channel.delay and not _kept_by(taken.port):
            unseen.append((channel, taken))
            continue
        zero = not any(channel.values)
        key: tuple[int, Values] = (0, ()) if zero else (channel.delay, channel.values)
        groups.setdefault(key, []).append((channel, taken))
    found = list(groups.values())
    if unseen:
        found[:1] = [[*unseen, *(found[0] if found else [])]]
    return found


def _array(
    task: DeployedTask,
    tokens: Tokens,
    group: list[tuple[DeployedChannel, Tokens]],
    places: Mapping[str, Place],
    iterations_behind: int | None,
) -> Array:
    """The array of some channels. Where apps begin anew, their last tokens are still in it when the
    worker is so many iterations behind."""
    here = places[task.name]
    kept = held = 0
    for channel, taken in group:
        behind = _behind(here, places[channel.destination], tokens) - channel.delay
        kept = max(kept, _kept_by(taken.port) - behind)
        held = max(held, held_by(channel, taken.port))
    if iterations_behind is None:
        held = 0
    elif held:
        rounds_more = iterations_behind + here.iterations - 1 - here.stage
        kept = max(kept, held + max(0, rounds_more) * tokens.in_iteration)
    delayed = next((c for c, _ in group if any(c.values)), None)
    return Array(
        tokens,
        task.name,
        kept,
        here.iterations * tokens.in_iteration,
        kept + here.stage * tokens.in_iteration,
        0 if delayed is None else delayed.delay,
        () if delayed is None else delayed.values,
        held,
    )


def _turn(
    array: Array,
    group: list[tuple[DeployedChannel, Tokens]],
    tasks: list[DeployedTask],
    filled: Mapping[str, int],
) -> int:
    """In how many slots the tokens of an array may lie in turn; 0 if all lie side by side.

    Each round begins at the first slot, so nothing may stay from the round before. Firings in
    batches and on GPUs, which go on while the next ones are written, have tokens of their own.
    """
    ports = [array.writer.port, *(taken.port for _, taken in group)]
    alike = all(len(port.rates) == 1 for port in ports)
    if array.kept or array.held or any(channel.delay for channel, _ in group) or not alike:
        return 0
    if any(task.code.batch > 1 or isinstance(task.code, CudaCode | OnnxCudaCode) for task in tasks):
        return 0
    piece = lcm(*(port.rates[0] for port in ports))
    slots = -(-max(filled[channel.name] for channel, _ in group) // piece) * piece
    return slots if slots < array.in_round else 0


def _filled(
    deployment: Deployment, number: int, worker: DeployedWorker, places: Mapping[str, Place]
) -> dict[str, int]:
    """How full the channels inside of a worker become: its first rounds are gone through until all
    stages are at work, and once more."""
    tasks = {t.name: t for t in deployment.tasks}
    inside = []
    for app in deployment.apps:
        for channel in app.channels:
            if {places[channel.source].worker, places[channel.destination].worker} == {number}:
                inside.append(channel)
    filled = {c.name: c.delay for c in inside}
    most = dict(filled)
    reads: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    writes: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for c in inside:
        of = _rates(tasks[c.source].outputs, c.source_port)
        writes.setdefault(c.source, []).append((c.name, of))
        of = _rates(tasks[c.destination].inputs, c.destination_port)
        reads.setdefault(c.destination, []).append((c.name, of))
    deepest = max((e.stage for e in worker.order), default=0)
    for r in range(deepest + 2):
        for entry in worker.order:
            if r * entry.round[1] + entry.round[0] < entry.stage:
                continue
            group = tasks[entry.task].code.batch
            for i in range(entry.first, entry.first + entry.times, group):
                for name, rates in writes.get(entry.task, ()):
                    filled[name] += rates[i % len(rates)] * group
                    most[name] = max(most[name], filled[name])
                for name, rates in reads.get(entry.task, ()):
                    filled[name] -= rates[i % len(rates)] * group
    return most


def _rates(ports: tuple[DeployedPort, ...], name: str) -> tuple[int, ...]:
    return next(p.rates for p in ports if p.name == name)
