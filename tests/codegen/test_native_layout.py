"""Where tokens lie in native programs, by a slow and simple second answer.

The rounds of all workers of a random text are played with tokens that know who has made them, in
memory that is laid out as `layout` says. Every firing has to find the tokens that it takes by the
definition of dataflow: token r of a channel is what the writer makes as token r - delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flowc.codegen.native.layout import Array, Layout, Read, Ring, Tokens, layout
from flowc.driver.plan.program import deployment
from flowc.driver.text.check import prepare
from flowc.model.deployment import DeployedChannel, DeployedTask, DeployedWorker, Deployment

from native_texts import draw

FRAMES = 7


def before(tokens: Tokens, firing: int) -> int:
    """Tokens of all firings before one."""
    rates = tokens.port.rates
    cycles, phase = divmod(firing, len(rates))
    return cycles * sum(rates) + sum(rates[:phase])


@dataclass
class Memory:
    """The contents of arrays and rings: numbers of tokens of their writers, None for zero, and a
    value in a tuple for an initial token."""

    arrays: dict[int, list[Any]] = field(default_factory=dict)
    rings: dict[int, list[Any]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)


@dataclass
class Played:
    """A program that is played."""

    deployment: Deployment
    places: Layout
    memory: Memory = field(default_factory=Memory)
    checked: int = 0

    def __post_init__(self) -> None:
        self.tasks = {t.name: t for t in self.deployment.tasks}
        self.channels: dict[tuple[str, str], DeployedChannel] = {}
        for app in self.deployment.apps:
            for channel in app.channels:
                self.channels[channel.destination, channel.destination_port] = channel
        for array in self.places.arrays:
            self.memory.arrays[id(array)] = [None] * array.tokens
        for ring in self.places.rings:
            slots: list[Any] = [None] * ring.slots
            for n in range(-ring.channel.delay, 0):
                slots[n % ring.slots] = initial(ring.channel, n)
            self.memory.rings[id(ring)] = slots
            self.memory.written[id(ring)] = 0
            self.memory.taken[id(ring)] = -ring.channel.delay

    def play(self) -> None:
        left = [self.worker(worker) for worker in self.deployment.processors if worker.order]
        for _ in range(100_000):
            left = [each for each in left if next(each, "over") != "over"]
            if not left:
                return
        pytest.fail("it does not end")

    def worker(self, worker: DeployedWorker) -> Iterator[None]:
        arrays = [a for a in self.places.arrays if a.task in {e.task for e in worker.order}]
        deepest = max(e.stage for e in worker.order)
        for r in range(FRAMES + deepest + 1):
            for array in arrays:
                self.begin(array, r)
            for entry in worker.order:
                k = r * entry.round[1] + entry.round[0] - entry.stage
                if 0 <= k < FRAMES:
                    for i in range(entry.first, entry.first + entry.times):
                        yield from self.fire(self.tasks[entry.task], k, entry.round[0], i)
            for array in arrays:
                tokens = self.memory.arrays[id(array)]
                if array.turn:
                    continue
                tokens[: array.kept] = tokens[array.in_round :]

    def begin(self, array: Array, r: int) -> None:
        if r < array.rounds_with_initial_tokens:
            zeroth = array.zeroth - r * array.in_round
            for n in range(-array.delay, 0):
                place = zeroth + n
                if (array.kept if r else 0) <= place < array.kept + array.in_round:
                    values = (*array.values, *(0,) * array.delay)
                    self.memory.arrays[id(array)][place] = (values[n + array.delay],)

    def fire(self, task: DeployedTask, k: int, j: int, i: int) -> Iterator[None]:
        firing = k * task.firings + i
        taken = []
        for read in self.places.reads[task.name]:
            rate = read.tokens.port.rates[firing % len(read.tokens.port.rates)]
            if isinstance(read.of, Ring):
                while self.memory.written[id(read.of)] - self.memory.taken[id(read.of)] < rate:
                    yield
                taken.append((read.of, rate))
            self.check(task, read, firing, j, i, rate)
        for written in self.places.writes[task.name]:
            rate = written.tokens.port.rates[firing % len(written.tokens.port.rates)]
            first = before(written.tokens, firing)
            made = list(range(first, first + rate))
            for place in written.places:
                if isinstance(place, Array):
                    at = place.kept + j * written.tokens.in_iteration + before(written.tokens, i)
                    at = at % place.turn if place.turn else at
                    assert at + rate <= place.tokens
                    self.memory.arrays[id(place)][at : at + rate] = made
                    continue
                while (
                    self.memory.written[id(place)] + rate - self.memory.taken[id(place)]
                    > place.channel.capacity
                ):
                    yield
                for n in made:
                    self.memory.rings[id(place)][n % place.slots] = n
                self.memory.written[id(place)] += rate
        for ring, rate in taken:
            self.memory.taken[id(ring)] += rate

    def check(self, task: DeployedTask, read: Read, firing: int, j: int, i: int, rate: int) -> None:
        """What it sees is what the channel brings."""
        port = read.tokens.port
        see = port.window or rate
        channel = self.channels[task.name, port.name]
        last = before(read.tokens, firing) + rate
        wanted = [expected(channel, r) for r in range(last - see, last)]
        if isinstance(read.of, Ring):
            end = self.memory.taken[id(read.of)] + rate
            slots = self.memory.rings[id(read.of)]
            assert see <= read.of.seen and see <= read.of.slots
            seen = [slots[n % read.of.slots] for n in range(end - see, end)]
        else:
            at = read.offset + j * read.tokens.in_iteration + before(read.tokens, i) + rate - see
            at = at % read.of.turn if read.of.turn else at
            assert 0 <= at <= read.of.tokens - see
            seen = self.memory.arrays[id(read.of)][at : at + see]
        assert [none(s) for s in seen] == [none(w) for w in wanted], (task.name, port.name, firing)
        self.checked += 1


def initial(channel: DeployedChannel, n: int) -> Any:
    """An initial token, by its number below 0."""
    values = (*channel.values, *(0,) * channel.delay)
    return (values[n + channel.delay],)


def expected(channel: DeployedChannel, r: int) -> Any:
    """Token r of a channel."""
    if r < 0:
        return None
    return r - channel.delay if r >= channel.delay else initial(channel, r - channel.delay)


def none(token: Any) -> Any:
    """Zero is zero, wherever it comes from."""
    return None if token == (0,) else token


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_every_firing_finds_its_tokens(seed: int, tmp_path: Path) -> None:
    text, code = draw(seed)
    (tmp_path / "app.flow").write_text(text)
    (tmp_path / "app.c").write_text(code)
    valid = prepare(tmp_path / "app.flow", platform="board").require()
    _, deployed, _, _ = deployment(valid, None, measure=False)
    played = Played(deployed.deployment, layout(deployed.deployment))
    played.play()
    assert played.checked > FRAMES


FRAMES_OF_ONE = """
type Frame = uint8[480, 640]
task Cam {{ out frame: Frame   c "app.c:a" }}
task Det {{ in frame: Frame   out x: float32 rate 2   c "app.c:b" }}
task Sum {{ in x: float32 rate 3   out y: float32   c "app.c:c" }}
task Stat {{ in y: float32 rate {rate}   c "app.c:d" }}
app A {{ cam: Cam   det: Det   sum: Sum   stat: Stat   cam -> det -> sum -> stat }}
platform one {{ cpu core[{cores}] }}
mapping on one {{ A.cam -> core[0]   A.det -> core[{det}]   A.sum -> core[{det}]   A.stat -> core[0] }}
"""


@pytest.mark.parametrize("cores", [1, 2])
def test_memory_is_that_of_the_capacities(cores: int, tmp_path: Path) -> None:
    """However many tokens an iteration has: with room for what one firing of a reader sees, at the
    end of a ring, and in whole firings."""
    text = FRAMES_OF_ONE.format(rate=1000, cores=cores, det=cores - 1)
    (tmp_path / "app.flow").write_text(text)
    functions = [f"int {name}(void);" for name in "abcd"]
    (tmp_path / "app.c").write_text("\n".join(functions).replace(";", " { return 0; }"))
    valid = prepare(tmp_path / "app.flow", platform="one").require()
    _, deployed, _, _ = deployment(valid, None, measure=False)
    places = layout(deployed.deployment)
    capacity = {c.source: c.capacity for c in deployed.deployment.apps[0].channels}
    most = {"A.cam": 1, "A.det": 6, "A.sum": 1000}
    assert len(places.arrays) + len(places.rings) == 3
    for array in places.arrays:
        assert array.tokens <= -(-capacity[array.task] // most[array.task]) * most[array.task]
    for ring in places.rings:
        source = ring.channel.source
        assert ring.tokens <= capacity[source] + 2 * most[source]


CYCLE = """
task A {{ in x: float32 rate {rate}   out y: float32 rate {rate}   c "app.c:a" }}
task B {{ in x: float32   out y: float32   c "app.c:b" }}
app Turn {{
    a: A   b: B
    a -> b -> delay {delay} -> a
}}
platform two {{ cpu core[2] }}
mapping on two {{ Turn.a -> core[0]   Turn.b -> core[1] }}
"""


@pytest.mark.parametrize(
    ("rate", "delay", "slots"),
    [("1", 1, [1, 1]), ("1", 2, [2, 2]), ("2", 2, [2, 2]), ("2", 3, [4, 3]), ("[2, 0]", 2, None)],
)
def test_a_ring_in_a_cycle_has_room_for_the_tokens_of_its_cycle(
    rate: str, delay: int, slots: list[int] | None, tmp_path: Path
) -> None:
    """In whole firings of its writer; with rates by phase, for its capacity."""
    (tmp_path / "app.flow").write_text(CYCLE.format(rate=rate, delay=delay))
    functions = [f"int {name}(void *, const float *, float *, const void *);" for name in "ab"]
    (tmp_path / "app.c").write_text("\n".join(functions).replace(";", " { return 0; }"))
    valid = prepare(tmp_path / "app.flow", platform="two").require()
    _, deployed, _, _ = deployment(valid, None, measure=False)
    rings = layout(deployed.deployment).rings
    if slots is None:
        assert all(ring.slots >= ring.channel.capacity for ring in rings)
    else:
        assert [ring.slots for ring in rings] == slots
        assert all(ring.slots < ring.channel.capacity for ring in rings)
