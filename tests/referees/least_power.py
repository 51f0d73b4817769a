"""Every placement and every clock rate of small random scenarios, each with a power worked out
here, and flowc's verdict on it as pins.

What `map` calls the least power is held against it: the power that it prints has to be that of its
places and rates, all deadlines have to be kept there, and no cheaper answer may be accepted. Powers
come from the numbers that a text is drawn from. Whether deadlines are kept is asked of the verb,
with a text that pins every task and every clock.

As a program it tries many texts and prints a table: `python tests/referees/least_power.py 200
[first seed]`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import mean

import flowc
from flowc.model.diagnostic import Errors

CODE = "def source(): return 0\ndef sink(x): pass\ndef alone(): pass\n"
#: What "proved" means, relative to the answer.
NEAR = Fraction(1, 10**5)
#: Of a text, so many places at rates are asked about at most.
MOST_ASKED = 60

Where = tuple[str, ...]
Rates = tuple[int, ...]


@dataclass(frozen=True)
class Pool:
    """A pool of CPUs with one clock: its rates in MHz, and its powers in mW at each."""

    name: str
    count: int
    mhz: tuple[int, ...]
    idle: tuple[int, ...]
    busy: tuple[int, ...]

    @property
    def cpus(self) -> list[str]:
        """Its processors."""
        return [f"{self.name}[{k}]" for k in range(self.count)]

    def slow(self, rate: int) -> Fraction:
        """How much longer work takes at a rate."""
        return Fraction(self.mhz[-1], self.mhz[rate])


@dataclass(frozen=True)
class App:
    """Tasks in a row; `us` has their times by pool."""

    name: str
    period_us: int
    due_us: int
    us: tuple[dict[str, int], ...]


@dataclass(frozen=True)
class Drawn:
    """A scenario; `states` are the apps of each, with its share of time."""

    pools: tuple[Pool, ...]
    apps: tuple[App, ...]
    states: dict[str, tuple[tuple[str, ...], Fraction]]
    board: int

    @property
    def tasks(self) -> list[tuple[App, int]]:
        """All of them, in the order of a placement."""
        return [(app, k) for app in self.apps for k in range(len(app.us))]

    def text(self, where: Where | None = None, rates: dict[str, Rates] | None = None) -> str:
        """The text, with every task and every clock pinned if they are given."""
        lines = ["platform p {"]
        for pool in self.pools:
            lines.append(
                f"  cpu {pool.name}[{pool.count}] type {pool.name} scheduler fixed_priority"
                f" frequencies {[*pool.mhz]} MHz idle {_watts(pool.idle)} W busy {_watts(pool.busy)} W"
            )
        lines += [f"  power {self.board / 1000} W", "}"]
        for app in self.apps:
            for k, us in enumerate(app.us):
                port, code = ("in i: int64", "sink") if k else ("out o: int64", "source")
                if len(app.us) == 1:
                    port, code = "", "alone"
                wcet = ", ".join(f"{time} us on {pool}" for pool, time in us.items())
                lines.append(f'task {app.name}{k} {{ {port}  python "t.py:{code}"  wcet {wcet} }}')
        for app in self.apps:
            names = [f"t{k}: {app.name}{k}" for k in range(len(app.us))]
            row = " -> ".join(f"t{k}" for k in range(len(app.us))) if len(app.us) > 1 else ""
            lines.append(
                f"app {app.name} {{ period {app.period_us} us  deadline {app.due_us} us"
                f"  {'  '.join(names)}  {row} }}"
            )
        lines.append("scenario C {\n  event go\n  minimise energy")
        names = [*self.states]
        for n, (name, (apps, weight)) in enumerate(self.states.items()):
            runs = " ".join(f"run {app}" for app in apps)
            first = "initial " if n == 0 else ""
            lines.append(f"  {first}state {name} {{ {runs} weight {weight} }}")
        if len(names) > 1:
            lines.append(f"  {names[0]} -> {names[1]} on go   {names[1]} -> {names[0]} on go")
        lines.append("}")
        if where is not None:
            lines.append("mapping on p {")
            for (app, k), place in zip(self.tasks, where, strict=True):
                lines.append(f"  {app.name}.t{k} -> {place}")
            for state, levels in (rates or {}).items():
                for pool, rate in zip(self.pools, levels, strict=True):
                    lines.append(f"  frequency {pool.name} {pool.mhz[rate]} MHz for C.{state}")
            lines.append("}")
        return "\n".join(lines) + "\n"

    def placements(self) -> Iterator[Where]:
        """All of them."""
        cpus = [cpu for pool in self.pools for cpu in pool.cpus]
        return product(cpus, repeat=len(self.tasks))

    def rates(self) -> Iterator[Rates]:
        """All of a state."""
        return product(*(range(len(pool.mhz)) for pool in self.pools))

    def milliwatts(self, where: Where, rates: Rates, state: str) -> Fraction:
        """The mean power of a state."""
        total = Fraction(self.board)
        for pool, rate in zip(self.pools, rates, strict=True):
            work = Fraction(0)
            for (app, k), place in zip(self.tasks, where, strict=True):
                if app.name in self.states[state][0] and place in pool.cpus:
                    work += Fraction(app.us[k][pool.name], app.period_us)
            total += pool.idle[rate] * pool.count + pool.busy[rate] * work * pool.slow(rate)
        return total

    def may_be_kept(self, where: Where, rates: Rates, state: str) -> bool:
        """Is no processor overloaded, and no row of tasks longer than its deadline?"""
        slow = {}
        for pool, rate in zip(self.pools, rates, strict=True):
            slow.update({cpu: (pool.name, pool.slow(rate)) for cpu in pool.cpus})
        used, rows = dict.fromkeys(slow, Fraction(0)), Counter[str]()
        for (app, k), place in zip(self.tasks, where, strict=True):
            if app.name in self.states[state][0]:
                name, factor = slow[place]
                used[place] += app.us[k][name] * factor / app.period_us
                rows[app.name] += app.us[k][name] * factor  # type: ignore[assignment]
        dues = {app.name: app.due_us for app in self.apps}
        return max(used.values()) <= 1 and all(row <= dues[name] for name, row in rows.items())


def _watts(powers: tuple[int, ...]) -> list[float]:
    return [mw / 1000 for mw in powers]


def draw(seed: int) -> Drawn:
    """Two or three apps of one or two tasks, two or three pools with at most three CPUs, one or two
    states."""
    rng = random.Random(seed)
    pools, left = [], 3
    for d in range(rng.randint(2, 3)):
        count = rng.randint(1, min(2, left - (1 if d == 0 else 0)))
        left -= count
        steps = rng.randint(2, 3)
        mhz = tuple(sorted(rng.sample([400, 500, 800, 1000, 1250, 2000], steps)))
        base, quiet = rng.randint(500, 4000), rng.randint(100, 800)
        volts = [Fraction(65, 100) + Fraction(35 * rate, 100 * mhz[-1]) for rate in mhz]
        idle = tuple(int(quiet * v) for v in volts)
        busy = tuple(int(base * v * v * rate / mhz[-1]) for v, rate in zip(volts, mhz, strict=True))
        pools.append(Pool(f"d{d}", count, mhz, idle, busy))
        if not left:
            break
    speeds = {pool.name: rng.choice([1, 1, 2]) for pool in pools}
    apps, count = [], rng.randint(2, 3)
    load = rng.uniform(0.2, 0.6) * sum(p.count / speeds[p.name] for p in pools) / count
    for n in range(count):
        period = rng.choice([1000, 2000, 3000, 4000]) * 10
        size = rng.choice([1, 1, 2]) if count == 3 else rng.choice([1, 2, 2])
        times = [max(1, int(load * period / size * rng.uniform(0.5, 1.5))) for _ in range(size)]
        due = max(int(period * rng.uniform(0.6, 1.0)), int(sum(times) * 1.3))
        own = tuple({name: time * slow for name, slow in speeds.items()} for time in times)
        apps.append(App(f"A{n}", period, min(due, period), own))
    names = tuple(app.name for app in apps)
    states = {"all": (names, Fraction(1))}
    if rng.random() < 0.6:
        some = tuple(sorted(rng.sample(names, count - 1)))
        states = {"all": (names, Fraction(3, 10)), "some": (some, Fraction(7, 10))}
    return Drawn(tuple(pools), tuple(apps), states, rng.randint(0, 500))


class Asked:
    """The verb's word on places at rates; each question is asked once."""

    def __init__(self, drawn: Drawn, folder: Path) -> None:
        self._drawn, self._path = drawn, folder / "a.flow"
        (folder / "t.py").write_text(CODE)
        self._known: dict[tuple[Where, Rates, str], bool] = {}
        self.count = 0

    def map(self, text: str, seconds: float) -> flowc.Answer | None:
        """What `map` says; None where it refuses the text."""
        self._path.write_text(text)
        try:
            return flowc.map(self._path, platform="p", measure=False, budget=seconds)
        except Errors:
            return None

    def kept(self, where: Where, rates: Rates, state: str) -> bool:
        """Are all deadlines of a state proved to be kept?"""
        if not self._drawn.may_be_kept(where, rates, state):
            return False
        key = where, rates, state
        if key not in self._known:
            self.count += 1
            every = dict.fromkeys(self._drawn.states, rates)
            answer = self.map(self._drawn.text(where, every), 2)
            for name in self._drawn.states:
                found = answer is not None and answer.states is not None
                joint = answer.states.joints.get(name) if found else None  # type: ignore[union-attr]
                groups = () if joint is None else joint.mapping.groups
                self._known[where, rates, name] = bool(groups) and all(
                    group.schedulable for group in groups
                )
        return self._known[key]


@dataclass
class Tried:
    """What was seen of one text."""

    faults: list[str]
    found: bool = False
    proved: bool = False
    complete: bool = True
    saved: float | None = None
    asked: int = 0


def tried(seed: int, folder: Path, seconds: float = 20, most: int = MOST_ASKED) -> Tried:
    """The verb's answer held against all others."""
    drawn = draw(seed)
    asked = Asked(drawn, folder)
    answer = asked.map(drawn.text(), seconds)
    result = Tried([])
    states = None if answer is None else answer.states
    if answer is None or states is None or answer.late or states.least_power is None:
        best = None
    else:
        power = states.least_power
        result.found, result.proved = True, power.proved
        best, bound = 1000 * power.watts, 1000 * power.bound
        if power.first_w:
            result.saved = float(1 - power.watts / power.first_w)
        own = Fraction(0)
        for bound_of in answer.mapping.states:
            name, hz = bound_of.state, dict(bound_of.clocks_hz)
            places = {p.task: p.processors[0] for p in states.joints[name].mapping.placements}
            where = tuple(
                places.get(f"{a.name}.t{k}", drawn.pools[0].cpus[0]) for a, k in drawn.tasks
            )
            rates = tuple(pool.mhz.index(round(hz[pool.name] / 1e6)) for pool in drawn.pools)
            own += drawn.states[name][1] * drawn.milliwatts(where, rates, name)
        if abs(own - best) > best * NEAR:
            result.faults.append(f"prints {float(best)} mW, and its places take {float(own)}")
        if bound > best:
            result.faults.append("the bound is above the answer")
    for least, where in sorted(_cheapest(drawn)):
        claimed = least < (best * (1 - 2 * NEAR) if result.proved and best else 0)
        below = result.found and least < bound * (1 - 2 * NEAR)
        if best is not None and not (claimed or below):
            break
        total = _best_rates(drawn, asked, where)
        if asked.count > most:
            result.complete = False
            break
        if total is None:
            continue
        if best is None:
            result.faults.append(f"nothing was found, and {where} takes {float(total)} mW")
            break
        if total < bound * (1 - 2 * NEAR) or (result.proved and total < best * (1 - 2 * NEAR)):
            result.faults.append(
                f"best {float(best)} of at least {float(bound)} mW, and {where} takes {float(total)}"
            )
            break
    result.asked = asked.count
    return result


def _cheapest(drawn: Drawn) -> Iterator[tuple[Fraction, Where]]:
    """Each placement with the power that it takes at least."""
    for where in drawn.placements():
        total = Fraction(0)
        for state, (_, weight) in drawn.states.items():
            powers = [
                drawn.milliwatts(where, rates, state)
                for rates in drawn.rates()
                if drawn.may_be_kept(where, rates, state)
            ]
            if not powers:
                break
            total += weight * min(powers)
        else:
            yield total, where


def _best_rates(drawn: Drawn, asked: Asked, where: Where) -> Fraction | None:
    """The least power of a placement; None where something is late at any rates."""
    total = Fraction(0)
    for state, (_, weight) in drawn.states.items():
        by_power = sorted(drawn.rates(), key=lambda r: drawn.milliwatts(where, r, state))
        kept = next((rates for rates in by_power if asked.kept(where, rates, state)), None)
        if kept is None:
            return None
        total += weight * drawn.milliwatts(where, kept, state)
    return total


def main() -> None:
    """Try many texts."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    totals, saved = Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            one = tried(seed, Path(folder))
            for what in ("found", "proved", "complete"):
                totals[what] += bool(getattr(one, what))
            totals["faults"] += bool(one.faults)
            totals["asked"] += one.asked
            if one.saved is not None:
                saved.append(one.saved)
            for fault in one.faults:
                print(f"seed {seed}: {fault}", flush=True)
            if (seed - first + 1) % 20 == 0:
                print(seed - first + 1, dict(totals), flush=True)
    print(
        dict(totals),
        f"less than the places of the least utilization: {mean(saved):.1%} in the mean",
    )


if __name__ == "__main__":
    main()
