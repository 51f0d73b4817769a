"""Every placement of small random texts, each with a utilization worked out here, and flowc's
verdict on it as pins.

The searches for deadlines are held against it: what they call proved must be the least, what they
call a bound must not be above the least, and what they call impossible must not be possible.
Utilizations come from the numbers that a text is drawn from, without the code of the searches.
Whether a placement is accepted is asked of flowc with a text that pins every task: the search has
no choice there.

As a program it tries many texts and prints a table: `python tests/referees/placements.py 2000
[first seed]`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import lcm
from pathlib import Path

from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.deadlines import judged
from flowc.driver.solve.known_times import KnownTimes
from flowc.driver.solve.request import MapRequest
from flowc.driver.text.check import Valid, prepare
from flowc.machines.search_workers import ALONE
from flowc.model.diagnostic import Errors
from flowc.model.profile import Profile, ProfileEntry
from flowc.model.times import times_of
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.problem import Assignment
from flowc.search.deadline.verdict import verdict

#: A millionth of a processor's time: what "proved" means (`search.deadline.loads`).
RESOLUTION = Fraction(1, 10**6)
#: Of a text, so many placements are asked about at most, unless the caller says otherwise.
MOST_ASKED = 400
#: Codes of texts of which `check` says that no mapping keeps their deadlines.
HOPELESS = {"F211", "F216"}
#: Texts with seeds from this one on have two types of CPUs.
TYPED = 500_000
CODE = "def source(): return 0\ndef middle(x): return x\ndef sink(x): pass\n"


@dataclass
class Drawn:
    """A text with the numbers that it is made of.

    `times` are ns by task and type, `firings` those of an iteration, `periods` are ns by app,
    `processors` have their types: CPUs their pool if there are two, all others their kind.
    """

    text: str
    processors: dict[str, str]
    times: dict[str, dict[str, int]] = field(default_factory=dict)
    firings: dict[str, int] = field(default_factory=dict)
    periods: dict[str, Fraction] = field(default_factory=dict)

    def places(self, task: str) -> list[str]:
        """The processors that can run a task."""
        return [p for p, type_ in self.processors.items() if type_ in self.times[task]]

    def cpus(self, where: dict[str, str]) -> int:
        """How many CPUs have tasks; a program needs one in any case."""
        return max(1, len({p for p in where.values() if self.processors[p] not in ("gpu", "dla")}))

    def utilization(self, where: dict[str, str]) -> Fraction:
        """Of the busiest processor."""
        used = dict.fromkeys(self.processors, Fraction(0))
        for task, place in where.items():
            period = self.periods[task.partition(".")[0]]
            used[place] += self.times[task][self.processors[place]] * self.firings[task] / period
        return max(used.values())

    def placements(self) -> Iterator[dict[str, str]]:
        """All of them."""
        for places in product(*(self.places(t) for t in self.times)):
            yield dict(zip(self.times, places, strict=True))

    @property
    def profile(self) -> Profile:
        """The times as a profile: of tasks without code there is no other way to say those of
        several kinds."""
        entries = [
            ProfileEntry(type_, task, "", "", "", 10, ns, 0, ns, ns)
            for task, own in self.times.items()
            for type_, ns in own.items()
        ]
        return Profile("p", "made up", tuple(entries))

    def pinned(self, where: dict[str, str]) -> str:
        """The text with every task in its place."""
        pins = "\n".join(f"  {task} -> {place}" for task, place in where.items())
        return f"{self.text}\nmapping on p {{\n{pins}\n}}\n"


def draw(seed: int) -> Drawn:
    """One to three apps of rows, forks and joins with rates and delays, up to seven tasks, on up to
    four processors."""
    rng = random.Random(seed)
    hosted = rng.random() < 0.5  # Python code on CPUs; else boxes without code on up to three kinds
    scheduler = rng.choice(["fixed_priority", "static_order"])
    pools = [("core", "cpu", rng.randint(2, 4) if hosted else rng.randint(1, 2))]
    if not hosted:
        pools += [("g", "gpu", 1), ("d", "dla", 1)][: rng.randint(1, 2)]
    typed = seed >= TYPED
    if typed:
        pools[0] = ("core", "cpu", rng.randint(1, 2))
        pools.insert(1, ("slow", "cpu", rng.randint(1, 2)))
    types = {name: name if typed and kind == "cpu" else kind for name, kind, _ in pools}
    drawn = Drawn(
        "",
        {
            (n if count == 1 else f"{n}[{k}]"): types[n]
            for n, _, count in pools
            for k in range(count)
        },
    )
    lines = []
    for name, kind, count in pools:
        size = "" if count == 1 else f"[{count}]"
        policy = scheduler if kind == "cpu" else rng.choice(["fifo", "static_order"])
        lines.append(f"  {kind} {name}{size} scheduler {policy}")
    text = ["platform p {", *lines, "}"]
    left = rng.randint(2, 7)
    load = rng.uniform(0.2, 0.8) * len(drawn.processors)
    count = rng.randint(1, min(3, left))
    sizes = [1] * count
    for _ in range(left - count):
        sizes[rng.randrange(count)] += 1
    for number, size in enumerate(sizes):
        text += _app(rng, drawn, f"A{number}", size, load / count, hosted, list(types.values()))
    drawn.text = "\n".join(text) + "\n"
    return drawn


def _app(
    rng: random.Random,
    drawn: Drawn,
    name: str,
    size: int,
    load: float,
    hosted: bool,
    types: list[str],
) -> list[str]:
    period = rng.choice([50, 100, 100, 150, 200])
    drawn.periods[name] = Fraction(period * 10**6)
    firings = [rng.choice([1, 1, 1, 2, 3]) for _ in range(size)]
    firings[rng.randrange(size)] = 1  # the iteration is no multiple of a smaller one
    arrows: set[tuple[int, int]] = set()
    for b in range(1, size):
        arrows.add((b - 1 if rng.random() < 0.7 else rng.randrange(b), b))
    if hosted:  # code with one input and one output
        arrows = {(b - 1, b) for b in range(1, size)}
    tasks, instances = [], []
    for t in range(size):
        full = f"{name}.t{t}"
        share = rng.uniform(0.2, 1.8) * load / size
        first = types[0]
        own = {first: max(1, int(share * period * 10**6 / firings[t]))}
        for type_ in types[1:]:
            if rng.random() < (0.9 if type_ == "slow" else 0.6):
                factor = rng.choice([0.5, 1.5, 2.4, 4] if type_ == "slow" else [0.2, 0.5, 1.5])
                own[type_] = max(1, int(own[first] * factor))
        if not hosted and len(own) > 1 and rng.random() < 0.3:
            del own[first]
        drawn.times[full] = own
        drawn.firings[full] = firings[t]
        ports = []
        for number, (a, b) in enumerate(sorted(arrows)):
            tokens = lcm(firings[a], firings[b])
            if a == t:
                ports.append(f"out o{number}: int64 rate {tokens // firings[a]}")
            if b == t:
                ports.append(f"in i{number}: int64 rate {tokens // firings[b]}")
        code = ""
        if hosted:
            word = "source" if t == 0 else "sink" if t == size - 1 else "middle"
            wcet = f"{own['cpu']} ns" if "cpu" in own else _by_type(own)
            code = f'  python "t.py:{word}"  wcet {wcet}'
        tasks.append(f"task {name}T{t} {{ {'  '.join(ports)}{code} }}")
        instances.append(f"t{t}: {name}T{t}")
    channels = []
    for number, (a, b) in enumerate(sorted(arrows)):
        delay = lcm(firings[a], firings[b]) if rng.random() < 0.1 else 0
        arrow = f"-> delay {delay} ->" if delay else "->"
        channels.append(f"t{a}.o{number} {arrow} t{b}.i{number}")
    due = rng.choice(
        ["", f"deadline {rng.choice([1, 2, 5, 10]) * period} ms", f"deadline {0.7 * period} ms"]
    )
    priority = f"priority {rng.randrange(3)}"
    app = f"app {name} {{ period {period} ms  {due}  {priority}  {'  '.join(instances)}  {'  '.join(channels)} }}"
    return [*tasks, app]


def _by_type(times: dict[str, int]) -> str:
    return ", ".join(f"{ns} ns on {type_}" for type_, ns in times.items())


def valid_of(drawn: Drawn, text: str, folder: Path) -> Valid:
    """A text, read. Raises Errors."""
    (folder / "t.py").write_text(CODE)
    path = folder / "a.flow"
    path.write_text(text)
    return prepare(path, platform="p", mapped=False).require()


def accepted(drawn: Drawn, where: dict[str, str], folder: Path) -> bool:
    """Does flowc prove that all deadlines are kept with these pins?"""
    try:
        valid = valid_of(drawn, drawn.pinned(where), folder)
    except Errors:
        return False
    known = KnownTimes(drawn.profile, times_of(valid.system, valid.platform, drawn.profile))
    problem = joint_problem(valid, known.times)
    assert not problem.networks
    assignment = Assignment((), (), tuple(where[item.name] for item in problem.tasks))
    outcome = Outcome("pins", assignment, verdict(problem, assignment), None, False, None, 1, 0.0)
    joint = judged(valid, known, problem, outcome, MapRequest(measure=False))
    assert not joint.doubt, joint.doubt
    assert joint.verdict is not None
    return joint.verdict.feasible


@dataclass
class Tried:
    """What was seen of one text: `faults` in words, `proved` and `impossible` as the search said;
    `complete` where all placements that matter were asked about."""

    faults: list[str]
    proved: bool = False
    impossible: bool = False
    found: bool = False
    hopeless: bool = False
    complete: bool = True


def tried(seed: int, name: str, folder: Path, budget: Budget, most: int = MOST_ASKED) -> Tried:
    """A search held against all placements of a drawn text."""
    drawn = draw(seed)
    try:
        valid = valid_of(drawn, drawn.text, folder)
    except Errors as errors:
        assert {d.code for d in errors.diagnostics} <= HOPELESS, [
            d.message for d in errors.diagnostics
        ]
        return Tried([], hopeless=True)
    problem = joint_problem(valid, times_of(valid.system, valid.platform, drawn.profile))
    found = search(problem, name=name, seed=0, budget=budget, search_workers=ALONE)
    value = None
    result = Tried([], found.proved, found.impossible is not None)
    if found.assignment is not None and found.verdict is not None and found.verdict.feasible:
        result.found = True
        where = dict(zip((i.name for i in problem.tasks), found.assignment.tasks, strict=True))
        value = drawn.utilization(where)
        if value != found.verdict.maximum:
            result.faults.append(
                f"the answer has {found.verdict.maximum}, and its tasks take {value}"
            )
        if not accepted(drawn, where, folder):
            result.faults.append("the answer is not accepted as pins")
    if not (found.proved or found.impossible or found.bound):
        return result
    for asked, (least, where) in enumerate(_by_utilization(drawn)):
        better = value is None or least < value - RESOLUTION
        below = found.bound is not None and least < found.bound - RESOLUTION
        claimed = below or (better and (found.proved or found.impossible is not None))
        if least > 1 or not claimed:
            break
        if asked >= most:
            result.complete = False
            break
        if accepted(drawn, where, folder):
            claim = (
                f"impossible ({found.impossible})"
                if found.impossible
                else f"bound {float(found.bound or 0):.6f}"
            )
            if found.proved:
                claim = f"proved {float(value or 0):.6f}"
            result.faults.append(f"{claim}, and {where} has {float(least):.6f}")
            break
    return result


def tried_on_few_cores(
    seed: int, objectives: tuple[str, ...], folder: Path, budget: Budget, most: int = MOST_ASKED
) -> Tried:
    """The same with the objectives `cores` or `utilization`, `cores`.

    No accepted placement is better by the first, nor as good by the first and better by the other.
    """
    drawn = draw(seed)
    try:
        valid = valid_of(drawn, drawn.text, folder)
    except Errors:
        return Tried([], hopeless=True)
    problem = joint_problem(valid, times_of(valid.system, valid.platform, drawn.profile))
    found = search(
        problem, name="auto", seed=0, budget=budget, search_workers=ALONE, objectives=objectives
    )
    result = Tried([], found.proved, found.impossible is not None)
    if found.assignment is None or found.verdict is None or not found.verdict.feasible:
        return result
    result.found = True
    where = dict(zip((i.name for i in problem.tasks), found.assignment.tasks, strict=True))
    value = drawn.cpus(where), drawn.utilization(where)
    assert found.cores is not None
    if value[0] > found.cores.count:
        result.faults.append(
            f"the answer says {found.cores.count} CPUs, and its tasks are on {value[0]}"
        )
    if not accepted(drawn, where, folder):
        result.faults.append("the answer is not accepted as pins")
    every = sorted(
        ((drawn.cpus(w), drawn.utilization(w)), k, w) for k, w in enumerate(drawn.placements())
    )
    asked = 0
    for (count, least), _, other in every:
        fewer = found.cores.proved and count < found.cores.count
        better = found.proved and least < value[1] - RESOLUTION
        if objectives[0] == "cores":
            better = better and count == found.cores.count
        else:
            assert found.cores.most is not None
            fewer = fewer and least <= found.cores.most
        if least > 1 or not (fewer or better):
            continue
        if asked >= most:
            result.complete = False
            break
        asked += 1
        if accepted(drawn, other, folder):
            result.faults.append(
                f"proved {value}, and {other} has {count} CPUs and {float(least):.6f}"
            )
            break
    return result


def _by_utilization(drawn: Drawn) -> list[tuple[Fraction, dict[str, str]]]:
    every = [(drawn.utilization(where), where) for where in drawn.placements()]
    return sorted(every, key=lambda entry: entry[0])


def main() -> None:
    """Try many texts."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    totals = {"proved": 0, "impossible": 0, "found": 0, "hopeless": 0, "complete": 0, "faults": 0}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            name = ("auto", "exact", "cores", "utilization,cores")[seed % 4]
            try:
                if "cores" in name:
                    order = tuple(name.split(","))
                    one = tried_on_few_cores(seed, order, Path(folder), Budget(60))
                else:
                    one = tried(seed, name, Path(folder), Budget(60))
            except Exception as error:
                one = Tried([f"{type(error).__name__}: {error}"])
            for what in ("proved", "impossible", "found", "hopeless", "complete"):
                totals[what] += bool(getattr(one, what))
            totals["faults"] += bool(one.faults)
            for fault in one.faults:
                print(f"seed {seed} {name}: {fault}", flush=True)
            if (seed - first + 1) % 50 == 0:
                print(seed - first + 1, totals, flush=True)
    print(totals)


if __name__ == "__main__":
    main()
