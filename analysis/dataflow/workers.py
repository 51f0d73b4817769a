"""Workers of a program: the threads of each processor, what each of them fires in which order, and
channel capacities.

In: apps, a platform, the processors of every task, and worst-case times of firings. Out: workers
and capacities. Code generation writes them into a deployment, and searches for deadlines bound the
response times that they lead to, so that what a search judges is the program that a build writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...model.application import Application, Channel, Task
from ...model.deployment import DeployedWorker, Entry
from ...model.platform import Platform
from ...model.priorities import priorities
from ...model.server import Server
from .static_order import AppOrder, NoRound, OrderStep, Schedule, app_order, interleaved

#: A server without a period of its own has so many in the shortest period of all apps.
PER_PERIOD = 4


@dataclass(frozen=True, slots=True)
class Workers:
    """`workers` in the order of the platform's processors; `capacities` are tokens that the orders
    need by channel."""

    workers: tuple[DeployedWorker, ...]
    capacities: Mapping[str, int]


def workers_of(
    apps: Sequence[Application],
    platform: Platform,
    placement: Mapping[str, tuple[str, ...]],
    repetition: Mapping[str, Mapping[str, int]],
    wcet_ns: Mapping[str, int | float | Fraction],
    in_one_stage: Collection[str] = (),
) -> Workers:
    """One worker per processor under static order; one per app and processor under the other
    schedulers.

    Apps `in_background` have workers of their own below all others, whose orders are as without
    them; on CPUs those with a share are above all others, each with its server. `placement` names
    the lanes of each task: processors, or streams of one (`gpu#1`). `wcet_ns` is the worst-case
    time of one firing, which apps with a period ask for. Apps that cannot share a round, because
    their periods have no short common multiple, get workers of their own on static-order processors
    as well; so does one that waits for its data, where others would wait with it. Apps
    `in_one_stage` are not pipelined.
    """
    orders = {
        a.name: app_order(a, repetition[a.name], placement, wcet_ns, a.name in in_one_stage)
        for a in apps
    }
    alone = {name: interleaved([order]) for name, order in orders.items()}
    below, shares = in_background(apps), servers(apps)
    joint = _joint([a for a in apps if a.name not in below], orders)
    lanes: set[str] = set()
    for places in placement.values():
        lanes.update(lane for lane in places if "#" in lane)
    streams = sorted(lanes, key=_stream)
    ranks, cores = _ranks(apps), platform.cores
    differ = len(platform.types_of("cpu")) > 1
    workers = []
    for processor in platform.processors:
        pool = platform.pool_of(processor)
        on_cpu, ordinary = pool.kind == "cpu", pool.scheduler == "static_order"
        bound = cores[processor] if on_cpu and ordinary and differ else None
        for lane in (processor, *(x for x in streams if x.partition("#")[0] == processor)):
            for app, steps in _orders_on(lane, pool.scheduler, apps, alone, joint):
                server = shares.get(app) if on_cpu else None
                fixed = pool.scheduler == "fixed_priority"
                workers.append(
                    DeployedWorker(
                        processor,
                        pool.scheduler,
                        _entries(steps),
                        (cores[processor], ranks[app]) if fixed else None,
                        app in below and server is None,
                        server,
                        bound=None if app in below else bound,
                        urgency=ranks[app] if pool.scheduler == "priority" else None,
                    )
                )
    capacities: dict[str, int] = {}
    for own in orders.values():
        capacities.update(own.capacities)
    return Workers(tuple(workers), capacities)


def capacity(app: Application, channel: Channel, needed: int, asked_for: int = 0) -> int:
    """Tokens that a channel holds: what the orders need, or what the text asks for.

    A live source has room for one firing more, as between processors: it must be able to fire when
    its data comes. If a channel leads to another machine, the message that there is room travels
    while the next transfer could start: no transfer is shorter than that message takes, so room for
    one more transfer is enough to lose no time.
    """
    source = app.task(channel.source)
    more = max(source.port(channel.source_port).rates)
    if source.transfer is not None:
        needed += more
    if source.live:
        needed += more
    return max(needed, asked_for)


def tokens_asked_for(
    app: Application, channel: Channel, iterations: int, repetition: Mapping[str, int]
) -> int:
    """The capacity in tokens that `buffers` of so many iterations mean."""
    rates = app.task(channel.source).port(channel.source_port).rates
    return iterations * sum(rates) * repetition[channel.source] // len(rates)


def without_stages(apps: Sequence[Application], pinned: Collection[str]) -> frozenset[str]:
    """The apps without a period that drop old tokens to have new ones, and whose tasks are not all
    `pinned` by the text or a stored mapping: nothing asks for stages, where tokens become old."""
    return frozenset(
        app.name
        for app in apps
        if app.period_ns is None
        and any(t.keep is not None or (t.link and not t.link.writes) for t in app.tasks)
        and any(t.name not in pinned for t in app.tasks if t.inputs and not t.built_in)
    )


def in_background(apps: Sequence[Application]) -> frozenset[str]:
    """The apps without a period, where others have one: they take the time that these leave."""
    paced = {a.name for a in apps if a.period_ns is not None}
    return frozenset(a.name for a in apps if a.name not in paced) if paced else frozenset()


def servers(apps: Sequence[Application]) -> dict[str, Server]:
    """The server of each app with a share.

    Without a period of its own it has a part of the shortest one of all apps: the longer it is, the
    longer does its budget keep these waiting at a time.
    """
    periods = [a.period_ns for a in apps if a.period_ns is not None]
    made = {}
    for app in apps:
        if app.share is not None and app.name in in_background(apps):
            period = app.share.period_ns or min(periods) / PER_PERIOD
            made[app.name] = Server(max(1, int(app.share.part * period)), period)
    return made


def waits_outside(app: Application) -> bool:
    """Does the app wait for data from outside, for as long as that takes?"""
    return any(t.live or t.border is not None for t in app.tasks)


def _joint(apps: Sequence[Application], orders: Mapping[str, AppOrder]) -> Schedule | None:
    """The common round of all apps that do not wait for data from outside; None where there is
    none."""
    together = [a for a in apps if not waits_outside(a)]
    if not together:
        return None
    with contextlib.suppress(NoRound):
        return interleaved([orders[a.name] for a in together])
    return None


def _orders_on(
    lane: str,
    scheduler: str,
    apps: Sequence[Application],
    alone: Mapping[str, Schedule],
    joint: Schedule | None,
) -> Iterator[tuple[str, tuple[OrderStep, ...]]]:
    """The orders of the workers of a lane, each with the app of its first step."""
    rest = apps
    orders: list[tuple[OrderStep, ...]] = []
    if scheduler == "static_order" and joint is not None:
        below = in_background(apps)
        orders.append(joint.orders.get(lane, ()))
        rest = [a for a in apps if waits_outside(a) or a.name in below]
    orders += (alone[app.name].orders.get(lane, ()) for app in rest)
    for order in orders:
        for steps in _sources_apart(apps, order):
            yield steps[0].app, steps


def _ranks(apps: Sequence[Application]) -> dict[str, int]:
    """The rank of each app where priorities count: 0 below all others, and one more than all others
    for an app with a share."""
    below, urgency = in_background(apps), priorities(apps)
    levels = sorted({urgency[app.name] for app in apps if app.name not in below})
    ranks = {}
    for app in apps:
        if app.name not in below:
            ranks[app.name] = 1 + levels.index(urgency[app.name])
        else:
            ranks[app.name] = 0 if app.share is None else 1 + len(levels)
    return ranks


def _stream(lane: str) -> int:
    return int(lane.partition("#")[2])


def _sources_apart(
    apps: Sequence[Application], steps: tuple[OrderStep, ...]
) -> list[tuple[OrderStep, ...]]:
    """What waits does so in workers of its own: each live source, and the sources of a pipelined
    periodic app.

    In one worker, what belongs to older iterations would wait with them, and every stage would cost
    a period. For the same reason every stage of an app that waits for data from outside has a
    worker: it is not known when the next frame will come. Several workers follow a finer projection
    of the same sequence, so that they cannot deadlock either.
    """
    live, waiting = _kept_apart(apps, steps)
    moved = {a.name for a in apps if waits_outside(a)}
    stages: dict[int, list[OrderStep]] = {}
    for step in steps:
        if step.task not in live and step not in waiting:
            stages.setdefault(step.stage if step.app in moved else 0, []).append(step)
    parts = [tuple(s for s in steps if s.task == name) for name in live]
    parts += [waiting, *(tuple(stage) for stage in stages.values())]
    return [part for part in parts if part]


def _kept_apart(
    apps: Sequence[Application], steps: tuple[OrderStep, ...]
) -> tuple[Collection[str], tuple[OrderStep, ...]]:
    """The live sources by name, and the firings of the other sources of pipelined periodic apps."""
    sources: dict[str, Task] = {}
    for app in apps:
        sources.update((t.name, t) for t in app.tasks if not t.inputs)
    own = [s for s in steps if s.task in sources]
    live = dict.fromkeys(s.task for s in own if sources[s.task].live)
    paced = {a.name for a in apps if a.period_ns is not None}
    others = tuple(s for s in own if s.task not in live and s.app in paced)
    pipelined = {s.app for s in steps if s.stage}
    if not any(s.app in pipelined for s in others):
        return live, ()
    return live, others


def _entries(steps: tuple[OrderStep, ...]) -> tuple[Entry, ...]:
    return tuple(
        Entry(s.task, s.times, s.first, s.stage, (s.replica, s.replicas), (s.index, s.per_round))
        for s in steps
    )
