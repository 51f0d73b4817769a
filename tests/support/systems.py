"""Random mapped systems, and the hunt for the worst that a simulation of one can show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from flowc.analysis.timing.simulate import Choices, Observed, simulate
from flowc.analysis.timing.system import (
    Scheduler,
    Slowdown,
    Time,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    sources,
    utilization,
)
from flowc.model.workload import workload

PERIODS = (200, 300, 350, 400, 450, 500, 600, 900, 1000)
HARMONIC = (200, 300, 400, 600)


def random_system(rng: random.Random, *, most_groups: int = 4, most_tasks: int = 7) -> TimedSystem:
    """Fork-join graphs with several rates on a few processors, every one used for at most 95 % of
    its time.

    CPUs by priority or in static order, GPU and DLAs in order of arrival; equal priorities, jitter,
    initial tokens, cycles, bounded channels and contention happen.
    """
    cpu: Scheduler = "static_order" if rng.random() < 0.25 else "fixed_priority"
    processors = [TimedProcessor(f"cpu{i}", cpu, "arm", "cpu") for i in range(rng.randint(1, 3))]
    processors += [TimedProcessor("gpu", "fifo", "volta", "gpu")] * rng.randint(0, 1)
    processors += [
        TimedProcessor(f"dla{i}", "fifo", "nvdla", "dla") for i in range(rng.choice((0, 0, 1, 2)))
    ]
    periods = HARMONIC if cpu == "static_order" else PERIODS
    groups = []
    for i in range(rng.randint(1, most_groups)):
        period: Time = rng.choice(periods)
        if rng.random() < 0.05:
            period = Fraction(period, 3)
        jitter = rng.choice(
            (0, 0, 0, rng.randint(1, int(period)), rng.randint(1, int(period) // 4))
        )
        if rng.random() < 0.05:
            jitter = rng.randint(1, 2 * int(period))
        tasks, channels = _graph(
            rng, f"g{i}", [p.name for p in processors], rng.randint(1, most_tasks)
        )
        groups.append(
            TimedGroup(
                f"g{i}", period, tuple(tasks), tuple(channels), None, rng.randint(0, 3), jitter
            )
        )
    system = TimedSystem(tuple(groups), tuple(processors))
    system = _loaded(rng, system)
    if rng.random() < 0.25:
        words = sorted({w for p in processors for w in (p.pool, p.kind)})
        slow = [
            Slowdown(
                rng.choice(words),
                rng.choice(words),
                rng.choice((Fraction(3, 2), Fraction(11, 10), Fraction(2))),
            )
            for _ in range(rng.randint(1, 2))
        ]
        system = replace(system, slowdowns=tuple(slow))
    return with_paths(system if cpu == "static_order" else _clocked(system))


def with_paths(system: TimedSystem) -> TimedSystem:
    """The system with paths from sources to tasks that their data reach, some with deadlines."""
    rng = random.Random(repr(system))
    groups = []
    for g in system.groups:
        ways = [
            TimedPath(
                source, sink, behind, rng.choice((None, None, rng.randint(1, 2 * int(g.period))))
            )
            for source in sorted(sources(g))
            for sink, behind in data_behind(g, source).items()
        ]
        groups.append(replace(g, paths=tuple(rng.sample(ways, min(4, len(ways))))))
    return replace(system, groups=tuple(groups))


def data_behind(group: TimedGroup, source: str, iterations: int = 24) -> dict[str, tuple[int, ...]]:
    """The newest firing of the source behind each firing of the tasks: tokens carry what they were
    made of.

    After some iterations the numbers repeat; tasks that no data reach by then are left out.
    """
    firings = {t.name: t.firings for t in group.tasks}
    ins: dict[str, list[int]] = {name: [] for name in firings}
    outs: dict[str, list[int]] = {name: [] for name in firings}
    waiting: list[list[int | None]] = []
    for i, c in enumerate(group.channels):
        outs[c.source].append(i)
        ins[c.destination].append(i)
        waiting.append([None] * c.delay)
    marks: dict[str, list[int | None]] = {name: [] for name in firings}
    moved = True
    while moved:
        moved = False
        for name, n in firings.items():
            k = len(marks[name])
            wanted = {
                i: group.channels[i].consumed[k % n % len(group.channels[i].consumed)]
                for i in ins[name]
            }
            if k == iterations * n or any(len(waiting[i]) < count for i, count in wanted.items()):
                continue
            read: list[int | None] = marks[name][-1:]
            for i, count in wanted.items():
                read += waiting[i][:count]
                del waiting[i][:count]
            mark = k if name == source else max((x for x in read if x is not None), default=None)
            marks[name].append(mark)
            for i in outs[name]:
                produced = group.channels[i].produced
                waiting[i] += [mark] * produced[k % n % len(produced)]
            moved = True
    found = {}
    for name, n in firings.items():
        last = marks[name][(iterations - 1) * n :]
        if name != source and len(last) == n and None not in marks[name][-2 * n :]:
            found[name] = tuple((x or 0) - (iterations - 1) * firings[source] for x in last)
    return found


def _clocked(system: TimedSystem) -> TimedSystem:
    """The system with groups that share a clock, sometimes."""
    rng = random.Random(str(system))
    share = rng.choice((0, 0.6, 1))
    groups = []
    for g in system.groups:
        offset = rng.choice(
            (0, 0, rng.randrange(int(g.period)), Fraction(rng.randrange(int(g.period)), 2))
        )
        groups.append(replace(g, offset=offset) if rng.random() < share else g)
    return replace(system, groups=tuple(groups))


def _graph(
    rng: random.Random, name: str, processors: list[str], count: int
) -> tuple[list[TimedTask], list[TimedChannel]]:
    rates = (1,) if rng.random() < 0.5 else (1, 1, 2, 3, 4)
    tasks = [
        TimedTask(f"{name}.t{i}", rng.choice(processors), (1,), (), rng.choice(rates))
        for i in range(count)
    ]
    arrows = []
    for i in range(1, count):
        if rng.random() < 0.9:
            arrows += [(rng.randrange(i), i) for _ in range(rng.choice((1, 1, 1, 2)))]
    channels = []
    fed = {b for _, b in arrows}
    for a, b in arrows:
        total = lcm(tasks[a].firings, tasks[b].firings) * rng.choice((1, 1, 2))
        delay = rng.choice((0, 0, 0, 0, 0, 0, rng.randint(1, 2 * total)))
        capacity = delay + rng.randint(1, 2 * total) if rng.random() < 0.1 else None
        produced, consumed = (total // tasks[a].firings,), (total // tasks[b].firings,)
        if rng.random() < 0.05 and tasks[b].firings == 2:
            consumed = (total, 0)
        channels.append(
            TimedChannel(tasks[a].name, tasks[b].name, produced, consumed, delay, capacity)
        )
        if a in fed and rng.random() < 0.08:
            channels.append(
                TimedChannel(
                    tasks[b].name, tasks[a].name, consumed, produced, total * rng.randint(1, 2)
                )
            )
    return tasks, channels


def _loaded(rng: random.Random, system: TimedSystem) -> TimedSystem:
    """The system with execution times that use every processor for at most 95 %."""
    weight = {
        t.name: rng.choice((0, 1, 1, 2, 5, 10)) * rng.random()
        for g in system.groups
        for t in g.tasks
    }
    period = {t.name: g.period for g in system.groups for t in g.tasks}
    aim = rng.choice((0.3, 0.5, 0.7, 0.85, 0.95))
    load = {p.name: aim * rng.uniform(0.5, 1) for p in system.processors}
    total = dict.fromkeys(load, 0.0)
    for g in system.groups:
        for t in g.tasks:
            total[t.processor] += weight[t.name]
    fifo = {p.name for p in system.processors if p.scheduler == "fifo"}
    precise = rng.choice(("none", "some", "equal"))
    groups = []
    for g in system.groups:
        tasks = []
        for t in g.tasks:
            share = (
                load[t.processor] * weight[t.name] / total[t.processor] if total[t.processor] else 0
            )
            cost = int(share * float(period[t.name]) / t.firings)
            parts = [cost]
            for _ in range(rng.randint(0, 5) if t.processor in fifo else 0):
                cut = rng.randint(0, parts[-1])
                parts[-1:] = [cut, parts[-1] - cut]
            best = {
                "none": [0] * len(parts),
                "equal": parts,
                "some": [rng.randint(0, x) for x in parts],
            }[precise]
            tasks.append(replace(t, wcet=tuple(parts), bcet=tuple(best)))
        groups.append(replace(g, tasks=tuple(tasks)))
    made = replace(system, groups=tuple(groups))
    assert max(utilization(made).values()) <= Fraction(95, 100)
    return made


def distinct(system: TimedSystem) -> TimedSystem:
    """The system with a rank of its own for each group, releases at whole ns and in time, and no
    contention."""
    groups = (
        replace(
            g, period=int(g.period) // 12 * 12, jitter=0, priority=10 * g.priority + i, offset=None
        )
        for i, g in enumerate(system.groups)
    )
    return replace(system, groups=tuple(groups), slowdowns=())


def bursty(rng: random.Random, system: TimedSystem) -> tuple[TimedSystem, dict[str, list[int]]]:
    """The system with workload curves for some tasks, and execution times that keep to them, over
    and over.

    Most firings are short, some as long as never before: with worst cases alone, there would often
    be too much work.
    """
    times: dict[str, list[int]] = {}
    groups = []
    for g in system.groups:
        tasks = []
        for t in g.tasks:
            if len(t.wcet) == 1 and int(t.cost) == t.cost > 0 and rng.random() < 0.7:
                short, long = max(1, int(t.cost) // 2), int(t.cost) * rng.randint(1, 4)
                own = (
                    [short] * rng.randint(3, 12)
                    + [long] * rng.randint(1, 3)
                    + [rng.randint(short, long)]
                )
                own += [short] * rng.randint(0, 9)
                rng.shuffle(own)
                times[t.name] = own
                # The longest run that is looked at is shorter than three times all of them.
                t = replace(t, wcet=(max(own),), bcet=(0,), curve=workload(own * 12))
            tasks.append(t)
        groups.append(replace(g, tasks=tuple(tasks)))
    return replace(system, groups=tuple(groups)), times


@dataclass
class Seen:
    """The largest responses of several simulations."""

    groups: dict[str, Time]
    tasks: dict[str, Time]
    ends: dict[str, Time]
    paths: dict[tuple[str, str], Time]

    def add(self, observed: Observed) -> None:
        """Take the larger ones."""
        for mine, other in (
            (self.groups, observed.groups),
            (self.tasks, observed.tasks),
            (self.ends, observed.ends),
        ):
            for name, value in other.items():
                mine[name] = max(mine.get(name, value), value)
        for way, value in observed.paths.items():
            self.paths[way] = max(self.paths.get(way, value), value)


def hunt(
    system: TimedSystem,
    rng: random.Random,
    runs: int,
    times: Mapping[str, Sequence[int]] | None = None,
) -> Seen:
    """The largest responses found: releases together, at random, and so that one activation meets
    others.

    Random offsets seldom hit the worst case. So some runs shift every group that may disturb a task
    so that one of its activations on that processor coincides with one of the task's, with all
    lateness at once and all ties lost. Groups that share a clock keep their offsets. Execution
    times that are given begin anywhere.
    """
    seen = Seen({}, {}, {}, {})
    horizon = 8 * max(g.period + g.jitter for g in system.groups)
    home = _together(system)
    zero = {g.name: 0 for g in system.groups}
    given = times or {}
    first = simulate(system, horizon, Choices(zero, lateness="first", times=given), rng, keep=True)
    seen.add(first)
    for n in range(runs):
        victim = rng.choice(system.groups)
        offsets: dict[str, Time] = {}
        for g in system.groups:
            offsets[g.name] = rng.randrange(int(g.period))
        if n % 3:
            target = rng.choice(victim.tasks)
            active = first.activations.get(target.name) or [0]
            meet = offsets[victim.name] + rng.choice(active[: max(1, len(active) // 2)])
            for g in system.groups:
                rivals = [t for t in g.tasks if t.processor == target.processor] or list(g.tasks)
                came = first.activations.get(rng.choice(rivals).name) or [0]
                if g is not victim:
                    offsets[g.name] = (meet - rng.choice(came)) % g.period
        offsets = {name: offsets[home[name]] for name in offsets}
        choices = Choices(
            offsets,
            execution=rng.choice(("worst", "worst", "worst", "random", "extreme")),
            lateness=rng.choice(("first", "first", "random", "none")),
            shuffle=rng.random() < 0.2,
            against=victim.name,
            times={
                t: [*own[k:], *own[:k]]
                for t, own in given.items()
                for k in [rng.randrange(len(own))]
            },
        )
        seen.add(simulate(system, horizon, choices, rng))
    return seen


def _together(system: TimedSystem) -> dict[str, str]:
    """Groups on one static order share their offset: the first group of each such set."""
    home = {g.name: g.name for g in system.groups}
    for p in system.processors:
        if p.scheduler == "static_order":
            here = [g.name for g in system.groups if any(t.processor == p.name for t in g.tasks)]
            for other in here[1:]:
                old, new = home[other], home[here[0]]
                home = {g: new if h == old else h for g, h in home.items()}
    return home
