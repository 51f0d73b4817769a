"""Random apps with counts, and what they make by a few lines over lists: no channel, no worker.

In: a random generator. Out: a text, the tasks of its program as functions, and for each reader of
lists what it has to see in each frame.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

#: Values are whole numbers below this.
MODULUS = 1_000_003


@dataclass(frozen=True)
class Stream:
    """An output in a stretch: its port, the writer where its count begins, and its slots."""

    port: str
    origin: str
    slots: int


@dataclass
class Counted:
    """A random app. `lists` say how many tokens a writer has in a frame; `nodes` are tasks that
    fire for each token: what they read, and how many tokens they write; `readers` read lists."""

    writers: dict[str, int] = field(default_factory=dict)
    twins: dict[str, bool] = field(default_factory=dict)
    nodes: dict[str, tuple[tuple[Stream, ...], bool, int]] = field(default_factory=dict)
    readers: dict[str, tuple[Stream, ...]] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    seed: int = 0

    def length(self, writer: str, frame: int) -> int:
        """The tokens that a writer writes in a frame: often none, often all."""
        rng = random.Random(f"{self.seed} {writer} {frame}")
        most = self.writers[writer]
        return rng.choice([0, most, rng.randint(0, most), rng.randint(0, most)])

    def expected(self, frame: int) -> dict[str, list[list[int]]]:
        """What each reader of lists sees."""
        made: dict[str, list[int]] = {}
        for writer in self.writers:
            values = [token(frame, i, self.seed) for i in range(self.length(writer, frame))]
            made[f"{writer}.y"] = values
            made[f"{writer}.z"] = [other(v) for v in values]
        for name, (streams, with_frame, written) in self.nodes.items():
            out: list[int] = []
            for values in zip(*(made[s.port] for s in streams), strict=True):
                out += fired(values + (frame,) * with_frame, written)
            made[f"{name}.y"] = out
        return {name: [made[s.port] for s in streams] for name, streams in self.readers.items()}


def token(frame: int, number: int, seed: int) -> int:
    """What a writer writes."""
    return (frame * 7919 + number * 104_729 + seed) % MODULUS


def other(value: int) -> int:
    """What it writes at its second port."""
    return (value * 3 + 1) % MODULUS


def fired(values: tuple[int, ...], written: int) -> list[int]:
    """What a task makes of one token of each of its streams."""
    total = 0
    for value in values:
        total = (total * 31 + value) % MODULUS
    return [(total + i) % MODULUS for i in range(written)]


def random_counts(rng: random.Random) -> Counted:
    """One or two stretches with up to five tasks in them."""
    app = Counted(seed=rng.randrange(1000))
    for i in range(rng.randint(1, 2)):
        name, most = f"w{i}", rng.randint(1, 6)
        app.writers[name], app.twins[name] = most, rng.random() < 0.5
        app.streams.append(Stream(f"{name}.y", name, most))
        if app.twins[name]:
            app.streams.append(Stream(f"{name}.z", name, most))
    for i in range(rng.randint(0, 5)):
        first = rng.choice(app.streams)
        alike = [s for s in app.streams if (s.origin, s.slots) == (first.origin, first.slots)]
        taken = tuple(rng.sample(alike, min(len(alike), rng.randint(1, 2))))
        with_frame = first.slots == app.writers[first.origin] and rng.random() < 0.3
        written = rng.choice([1, 1, 1, 2, 3])
        app.nodes[f"n{i}"] = taken, with_frame, written
        app.streams.append(Stream(f"n{i}.y", first.origin, first.slots * written))
    left = list(app.streams)
    rng.shuffle(left)
    for i in range(rng.randint(1, 3)):
        taken = tuple(left[i::3]) or (rng.choice(app.streams),)
        app.readers[f"r{i}"] = taken
    return app


def text_of(app: Counted, rng: random.Random) -> str:
    """The .flow text, on up to three cores, with replicas of tasks in stretches."""
    lines = ['task Frame { out f: int64   python "t.py:f" }']
    names = ["frame: Frame"]
    arrows = []
    for name, most in app.writers.items():
        twin = f"out z: int64 rate up to {most} by n   " if app.twins[name] else ""
        lines.append(
            f"task W{name} {{ in f: int64   out y: int64 rate up to {most} by n   {twin}"
            'python "t.py:f" }'
        )
        names.append(f"{name}: W{name}")
        arrows.append(f"frame -> {name}.f")
    for name, (streams, with_frame, written) in app.nodes.items():
        ports = [f"in x{i}: int64" for i in range(len(streams) + with_frame)]
        rate = f" rate {written}" if written > 1 else ""
        lines.append(
            f"task N{name} {{ {'   '.join(ports)}   out y: int64{rate}   stateless"
            '   python "t.py:f" }'
        )
        names.append(f"{name}: N{name}")
        arrows += [f"{s.port} -> {name}.x{i}" for i, s in enumerate(streams)]
        if with_frame:
            arrows.append(f"frame -> repeat {streams[0].slots} -> {name}.x{len(streams)}")
    for name, streams in app.readers.items():
        ports = [f"in x{i}: int64 rate up to {s.slots}" for i, s in enumerate(streams)]
        lines.append(f'task R{name} {{ {"   ".join(ports)}   python "t.py:f" }}')
        names.append(f"{name}: R{name}")
        arrows += [f"{s.port} -> {name}.x{i}" for i, s in enumerate(streams)]
    cores = rng.randint(1, 3)
    pins = []
    for name in ("frame", *app.writers, *app.readers):
        pins.append(f"A.{name} -> core[{rng.randrange(cores)}]")
    for name in app.nodes:
        places = rng.sample(range(cores), rng.choice([1, 1, cores]))
        pins.append(f"A.{name} -> {', '.join(f'core[{k}]' for k in places)}")
    return "\n".join(
        [
            *lines,
            f"app A {{ {'   '.join(names)}",
            *(f"    {arrow}" for arrow in arrows),
            "}",
            f"platform some {{ cpu core[{cores}] }}",
            f"mapping on some {{ {'   '.join(pins)} }}",
        ]
    )


Fire = Callable[..., object]
