"""A GPU that several apps share, kernel by kernel, against the bounds of `map`.

Each app has a task on a core of its own and a row of kernels on one GPU, under each of the three
schedulers. The simulation is written here, for kernels alone: what waits, who is next, when a turn
ends. Of flowc only the verb is used.

    python tests/referees/gpu_kernels.py --texts 300 --seed 1

prints by scheduler how many apps have a bound, how many exceed theirs, and how much longer bounds
are than the longest response that was seen. The exit status is 1 if a bound was exceeded.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from orders import called

SCHEDULERS = ("fifo", "priority", "time_slice")
#: Executions of each text, and iterations of the slowest app in each.
EXECUTIONS, ITERATIONS = 24, 6


@dataclass(frozen=True)
class App:
    """Times in us: the period, what the core takes before the kernels, and these."""

    name: str
    period: int
    before: int
    kernels: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Drawn:
    """Apps on one GPU: its scheduler, slice and switch."""

    scheduler: str
    apps: tuple[App, ...]
    slice: int
    switch: int

    @property
    def text(self) -> str:
        """As flowc reads it."""
        words = self.scheduler
        if words == "time_slice":
            words += f" {self.slice} us switch {self.switch} us"
        lines = [
            f"platform p {{ cpu c[{len(self.apps)}] scheduler fixed_priority",
            f"  gpu g scheduler {words} compute 8.7 }}",
        ]
        pins = []
        for number, app in enumerate(self.apps):
            lines.append(f"task {app.name}First {{ out y: int32 }}")
            pins.append(f"{app.name}.first -> c[{number}] wcet {app.before} us")
            row = ["first"]
            instances = [f"first: {app.name}First"]
            for k, time in enumerate(app.kernels):
                last = k == len(app.kernels) - 1
                ports = "in x: int32" + ("" if last else "  out y: int32")
                lines.append(f"task {app.name}K{k} {{ {ports} }}")
                instances.append(f"k{k}: {app.name}K{k}")
                row.append(f"k{k}")
                pins.append(f"{app.name}.k{k} -> g wcet {time} us")
            lines.append(
                f"app {app.name} {{ period {app.period} us  deadline {8 * app.period} us"
                f"  priority {app.rank}  {'  '.join(instances)}  {' -> '.join(row)} }}"
            )
        lines.append(f"mapping on p {{ {'  '.join(pins)} }}")
        return "\n".join(lines) + "\n"


def draw(seed: int, scheduler: str) -> Drawn:
    """Two to five apps of one to five kernels, which load the GPU up to 0.8."""
    rng = random.Random(seed)
    count, load = rng.randint(2, 5), rng.uniform(0.2, 0.8)
    apps = []
    ranks = rng.sample(range(count), count) if rng.random() < 0.7 else [0] * count
    for number in range(count):
        period = rng.choice((4000, 8000, 10000, 20000, 40000))
        work = max(10, int(load / count * period * rng.uniform(0.3, 1.7)))
        cuts = sorted(rng.sample(range(1, work), min(rng.randint(0, 4), work - 1)))
        kernels = tuple(b - a for a, b in zip([0, *cuts], [*cuts, work], strict=True))
        rank = ranks[number] if scheduler == "priority" else 0
        apps.append(App("ABCDE"[number], period, rng.randint(1, period // 4), kernels, rank))
    return Drawn(scheduler, tuple(apps), rng.choice((200, 500, 2000)), rng.choice((0, 10, 50)))


# -- one execution ---------------------------------------------------------------------------------
@dataclass
class Stage:
    """The kernels of one iteration that are left, and when the iteration was released."""

    released: int
    kernels: deque[int]


@dataclass
class Player:
    """An execution in which the kernels of an app begin as they wait, one iteration after the
    other."""

    drawn: Drawn
    rng: random.Random
    longest: dict[str, int] = field(default_factory=dict)
    #: By app: what has come to the GPU, and what comes, with its time.
    at_hand: dict[str, deque[Stage]] = field(default_factory=dict)
    coming: list[tuple[int, str, Stage]] = field(default_factory=list)
    #: The apps that wait, in the order in which they began to.
    waiting: list[str] = field(default_factory=list)

    def play(self) -> dict[str, int]:
        """The longest response of each app."""
        until = ITERATIONS * max(app.period for app in self.drawn.apps)
        for app in self.drawn.apps:
            self.longest[app.name], self.at_hand[app.name] = 0, deque()
            free = 0
            for released in range(0, until, app.period):
                # the core begins an iteration when the one before has left it
                free = max(free, released) + self._time(app.before)
                kernels = deque(self._time(time) for time in app.kernels)
                self.coming.append((free, app.name, Stage(released, kernels)))
        self.coming.sort(key=lambda each: each[0])
        now = 0
        while self.coming or self.waiting:
            if not self.waiting:
                now = max(now, self.coming[0][0])
            self._come(now)
            now = self._turn(now) if self.drawn.scheduler == "time_slice" else self._kernel(now)
        return self.longest

    def _time(self, worst: int) -> int:
        return worst if self.rng.random() < 0.7 else max(1, int(worst * self.rng.random()))

    def _come(self, now: int) -> None:
        """What has come by now. Of what comes at once any may be the first."""
        came = []
        while self.coming and self.coming[0][0] <= now:
            _, name, stage = self.coming.pop(0)
            if not self.at_hand[name]:
                came.append(name)
            self.at_hand[name].append(stage)
        self.rng.shuffle(came)
        self.waiting += came

    def _over(self, name: str, now: int) -> bool:
        """Take a stage away that has ended; is there more of the app?"""
        stage = self.at_hand[name][0]
        if stage.kernels:
            return True
        self.longest[name] = max(self.longest[name], now - stage.released)
        self.at_hand[name].popleft()
        return bool(self.at_hand[name])

    def _kernel(self, now: int) -> int:
        """One kernel to its end, and perhaps another one that slips in behind it: the next one of
        its app is a moment late."""
        name, now, more = self._run_next(now)
        slips = more and self.drawn.scheduler == "priority" and self.rng.random() < 0.7
        if slips and self.waiting:
            other, now, more_of_it = self._run_next(now)
            self.waiting += [other] if more_of_it else []
        self.waiting += [name] if more else []
        return now

    def _run_next(self, now: int) -> tuple[str, int, bool]:
        """The app whose kernel is next, when this ends, and whether there is more of it."""
        name = self.waiting[0]
        if self.drawn.scheduler == "priority":
            rank = {app.name: app.rank for app in self.drawn.apps}
            name = max(self.waiting, key=lambda each: (rank[each], self.rng.random()))
        self.waiting.remove(name)
        now += self.at_hand[name][0].kernels.popleft()
        self._come(now)
        return name, now, self._over(name, now)

    def _turn(self, now: int) -> int:
        """A switch, and a kernel of one process to its end or for a slice. At its end the process
        has nothing at hand for a moment."""
        name = self.waiting.pop(0)
        kernels = self.at_hand[name][0].kernels
        used = min(self.drawn.slice, kernels[0])
        now += self.drawn.switch + used
        kernels[0] -= used
        self._come(now)
        if not kernels[0]:
            kernels.popleft()
            if not self._over(name, now):
                return now
        self.waiting.append(name)
        return now


# -- many ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Seen:
    """Of one text: the bound of each app over what was seen, by a scheduler."""

    scheduler: str
    seed: int
    ratios: dict[str, float]
    unbounded: int


def tried(job: tuple[str, int]) -> Seen:
    """One text."""
    scheduler, seed = job
    drawn = draw(seed, scheduler)
    with tempfile.TemporaryDirectory() as folder:
        _, said = called(Path(folder, "a.flow"), drawn.text, 1, "--json")
    groups = json.loads(said)["groups"]
    rng = random.Random(seed)
    longest = dict.fromkeys((app.name for app in drawn.apps), 0)
    for _ in range(EXECUTIONS):
        for name, time in Player(drawn, rng).play().items():
            longest[name] = max(longest[name], time)
    ratios, unbounded = {}, 0
    for name, time in longest.items():
        bound = groups[name]["response_time_ns"]
        if bound is None:
            unbounded += 1
        else:
            ratios[name] = bound / 1000 / max(1, time)
    return Seen(scheduler, seed, ratios, unbounded)


def main() -> int:
    """Try many texts."""
    parser = argparse.ArgumentParser(description="bounds on one GPU against its kernels")
    parser.add_argument("--texts", type=int, default=300, help="of each scheduler")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    exceeded = 0
    for scheduler in SCHEDULERS:
        ratios, unbounded = [], 0
        jobs = [(scheduler, seed) for seed in range(asked.seed, asked.seed + asked.texts)]
        with ProcessPoolExecutor(asked.workers) as pool:
            for seen in pool.map(tried, jobs, chunksize=4):
                unbounded += seen.unbounded
                ratios += seen.ratios.values()
                for name, ratio in seen.ratios.items():
                    if ratio < 1:
                        exceeded += 1
                        print(f"exceeded: {scheduler} seed {seen.seed}: {name} {ratio:.4f}")
        ratios.sort()
        over = sum(ratio < 1 for ratio in ratios)
        print(
            f"{scheduler:10}  {len(ratios):5} bounded  {unbounded:4} not  {over} exceeded"
            f"  bound/seen {median(ratios):.3f}, 90 % {ratios[int(0.9 * len(ratios))]:.3f}",
            flush=True,
        )
    return int(exceeded > 0)


if __name__ == "__main__":
    sys.exit(main())
