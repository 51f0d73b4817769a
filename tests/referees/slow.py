"""Slow, obviously right referees for the dataflow analyses: they fire tasks one by one and look
what happens."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import networkx as nx
from flowc.analysis.timing.response_time import bounds
from flowc.analysis.timing.system import Refused, TimedSystem, needs, sources, workers_of
from flowc.model.application import Application

import systems

Times = Mapping[str, tuple[Fraction, ...]]


def _time(times: Times, task: str, firing: int) -> Fraction:
    return times[task][firing % len(times[task])]


def runs_with(graph: Application, vector: Mapping[str, int], capacities: Mapping[str, int]) -> bool:
    """Can an iteration complete with these capacities? Tries whatever can move until nothing
    does."""
    tokens = {c.name: c.delay for c in graph.channels}
    fired = {t.name: 0 for t in graph.tasks}
    if any(capacities[c.name] < c.delay for c in graph.channels):
        return False
    held = dict(tokens)
    moved = True
    while moved:
        moved = False
        for t in graph.tasks:
            k = fired[t.name]
            if k == vector[t.name]:
                continue
            ins = [
                (c, t.port(c.destination_port).rate(k))
                for c in graph.channels
                if c.destination == t.name
            ]
            outs = [
                (c, t.port(c.source_port).rate(k)) for c in graph.channels if c.source == t.name
            ]
            if any(tokens[c.name] < n for c, n in ins):
                continue
            if any(held[c.name] + n > capacities[c.name] for c, n in outs):
                continue
            for c, n in ins:
                tokens[c.name] -= n
                held[c.name] -= c.frees[k % len(c.frees)] if c.frees else n
            for c, n in outs:
                tokens[c.name] += n
                held[c.name] += n
            fired[t.name] += 1
            moved = True
    return fired == dict(vector)


def period_of(
    graph: Application,
    vector: Mapping[str, int],
    times: Times,
    capacities: Mapping[str, int] | None = None,
) -> Fraction | None:
    """Period of an iteration in self-timed execution, None after a deadlock: run until the state
    repeats.

    One firing of a task at a time. Without capacities the strongly connected parts are run one by
    one (the others would pile up tokens), and the slowest counts.
    """
    if capacities is None:
        whole: nx.DiGraph[str] = nx.DiGraph()
        whole.add_nodes_from(t.name for t in graph.tasks)
        whole.add_edges_from((c.source, c.destination) for c in graph.channels)
        periods = []
        for names in nx.strongly_connected_components(whole):
            tasks = tuple(t for t in graph.tasks if t.name in names)
            channels = tuple(
                c for c in graph.channels if c.source in names and c.destination in names
            )
            periods.append(_simulate(tasks, channels, vector, times, None))
    else:
        parts = []
        undirected: nx.Graph[str] = nx.Graph()
        undirected.add_nodes_from(t.name for t in graph.tasks)
        undirected.add_edges_from((c.source, c.destination) for c in graph.channels)
        for names in nx.connected_components(undirected):
            tasks = tuple(t for t in graph.tasks if t.name in names)
            channels = tuple(c for c in graph.channels if c.source in names)
            parts.append(_simulate(tasks, channels, vector, times, capacities))
        periods = parts
    return None if None in periods else max(p for p in periods if p is not None)


def _simulate(tasks, channels, vector, times, capacities):
    now = Fraction(0)
    tokens = {c.name: c.delay for c in channels}
    room = {c.name: capacities[c.name] - c.delay for c in channels} if capacities else None
    if room and min(room.values()) < 0:
        return None
    fired = {t.name: 0 for t in tasks}
    running: dict[str, Fraction] = {}
    ins = {t.name: [c for c in channels if c.destination == t.name] for t in tasks}
    outs = {t.name: [c for c in channels if c.source == t.name] for t in tasks}
    if sum(sum(times[t.name]) for t in tasks) == 0:  # no time passes, but it may still be stuck
        ones = {t.name: (Fraction(1),) * len(times[t.name]) for t in tasks}
        return None if _simulate(tasks, channels, vector, ones, capacities) is None else Fraction(0)
    seen: dict[object, tuple[Fraction, int]] = {}
    reference = tasks[0]
    while True:
        progress = True
        while progress:
            progress = False
            for t in tasks:
                if t.name in running and running[t.name] <= now:
                    k = fired[t.name]
                    for c in outs[t.name]:
                        tokens[c.name] += t.port(c.source_port).rate(k)
                    if room is not None:
                        for c in ins[t.name]:
                            room[c.name] += (
                                c.frees[k % len(c.frees)]
                                if c.frees
                                else t.port(c.destination_port).rate(k)
                            )
                    fired[t.name] += 1
                    del running[t.name]
                    progress = True
            for t in tasks:
                k = fired[t.name]
                if t.name in running:
                    continue
                if any(tokens[c.name] < t.port(c.destination_port).rate(k) for c in ins[t.name]):
                    continue
                if room is not None and any(
                    room[c.name] < t.port(c.source_port).rate(k) for c in outs[t.name]
                ):
                    continue
                for c in ins[t.name]:
                    tokens[c.name] -= t.port(c.destination_port).rate(k)
                if room is not None:
                    for c in outs[t.name]:
                        room[c.name] -= t.port(c.source_port).rate(k)
                running[t.name] = now + _time(times, t.name, k)
                progress = True
                if sum(fired.values()) > 100_000:
                    raise AssertionError("the referee does not get to an end")
        if not running:
            return None
        state = (
            tuple(tokens.values()),
            tuple(room.values()) if room is not None else (),
            tuple((n, end - now) for n, end in sorted(running.items())),
            tuple(fired[t.name] % max(t.phases, len(times[t.name])) for t in tasks),
        )
        if state in seen:
            before, count = seen[state]
            iterations = Fraction(fired[reference.name] - count, vector[reference.name])
            if iterations:
                return (now - before) / iterations
        else:
            seen[state] = (now, fired[reference.name])
        now = min(running.values())


def starts(
    graph: Application,
    vector: Mapping[str, int],
    times: Times,
    iterations: int,
    *,
    overlap: bool,
    release: Mapping[str, tuple[Fraction, ...]] | None = None,
    every: Fraction = Fraction(0),
) -> dict[str, list[Fraction]]:
    """Start times of every firing, from the rule itself: wait for the firings that make the tokens
    it takes.

    `release` gives the earliest starts of some tasks inside an iteration, again `every` so often.
    """
    begun: dict[str, list[Fraction]] = {t.name: [] for t in graph.tasks}
    ended: dict[str, list[Fraction]] = {t.name: [] for t in graph.tasks}
    tasks = {t.name: t for t in graph.tasks}
    makers: dict[str, list[int]] = {}
    for c in graph.channels:
        port = tasks[c.source].port(c.source_port)
        makers[c.name] = list(
            itertools.chain.from_iterable(
                [k] * port.rate(k) for k in range(iterations * vector[c.source])
            )
        )
    taken = {c.name: 0 for c in graph.channels}
    moved = True
    while moved:
        moved = False
        for t in graph.tasks:
            k = len(begun[t.name])
            while k < iterations * vector[t.name]:
                ready = Fraction(0)
                if release is not None and t.name in release:
                    ready = release[t.name][k % vector[t.name]] + (k // vector[t.name]) * every
                if not overlap and k:
                    ready = max(ready, ended[t.name][k - 1])
                known = True
                for c in graph.channels:
                    if c.destination == t.name:
                        need = t.port(c.destination_port).rate(k)
                        last = taken[c.name] + need - c.delay  # tokens made that have to be there
                        for token in range(max(0, taken[c.name] - c.delay), last):
                            maker = makers[c.name][token]
                            if maker >= len(ended[c.source]):
                                known = False
                                break
                            ready = max(ready, ended[c.source][maker])
                if not known:
                    break
                for c in graph.channels:
                    if c.destination == t.name:
                        taken[c.name] += t.port(c.destination_port).rate(k)
                begun[t.name].append(ready)
                ended[t.name].append(ready + _time(times, t.name, k))
                k += 1
                moved = True
    return begun


def tick_by_tick(system: TimedSystem, horizon: int) -> dict[str, int]:
    """Latest end of each task after its iteration's release: everything at its worst, released
    together and in time.

    For whole ns, one worker per rank on a CPU and no contention. It looks at every ns, and at
    firings instead of tokens.
    """
    groups = {g.name: g for g in system.groups}
    tasks = {(g.name, t.name): t for g in system.groups for t in g.tasks}
    count = {n: -(-horizon // g.period) for n, g in groups.items()}
    before = {n: needs(g) for n, g in groups.items()}
    released = {n: sources(g) for n, g in groups.items()}
    rank = {p.name: p.scheduler == "fixed_priority" for p in system.processors}
    queues = []
    for w in workers_of(system):
        rounds = dict(w.rounds)
        firings = []
        for number in range(max(count.values())):
            firings += [
                (p.group, p.task, number * rounds.get(p.group, 1) + p.index, p.firing)
                for p in w.sequence
            ]
        queues.append([f for f in firings if f[2] < count[f[0]]])
    on = [w.processor for w in workers_of(system)]
    work: list[list[int]] = [[] for _ in queues]
    came = [0] * len(queues)
    turn: dict[str, int] = {}
    ended: set[tuple[str, str, int, int]] = set()
    latest: dict[str, int] = {}
    stamp = itertools.count()

    def can_start(firing: tuple[str, str, int, int], now: int) -> bool:
        g, t, n, k = firing
        if t in released[g] and now < (n + Fraction(k, tasks[g, t].firings)) * groups[g].period:
            return False
        return all(n < x.lag or (g, x.task, n - x.lag, x.firing) in ended for x in before[g][t, k])

    def finish(i: int, now: int) -> None:
        work[i].pop(0)
        turn.pop(on[i])
        came[i] = next(stamp)
        if not work[i]:
            g, t, n, k = queues[i].pop(0)
            ended.add((g, t, n, k))
            latest[t] = max(latest.get(t, 0), now - n * groups[g].period)

    now = 0
    while any(queues):
        moved = True
        while moved:
            moved = False
            for i, queue in enumerate(queues):
                if queue and not work[i] and can_start(queue[0], now):
                    work[i] = list(tasks[queue[0][:2]].wcet)
                    came[i] = next(stamp)
                    moved = True
            for p in rank:
                ready = [i for i in range(len(queues)) if on[i] == p and work[i]]
                if ready and rank[p]:
                    turn[p] = max(ready, key=lambda i: groups[queues[i][0][0]].priority)
                elif ready and p not in turn:
                    turn[p] = min(ready, key=lambda i: came[i])
            for i in [i for i in turn.values() if work[i][0] == 0]:
                finish(i, now)
                moved = True
        now += 1
        for i in list(turn.values()):
            work[i][0] -= 1
        for i in [i for i in turn.values() if work[i][0] == 0]:
            finish(i, now)
        if now > 1000 * horizon:
            raise AssertionError("the referee does not get to an end")
    return latest


@dataclass
class Soundness:
    """What simulations of random systems showed: bounds exceeded (in words), groups, and bound /
    largest seen of responses and of latencies of paths.
    """

    exceeded: list[str]
    systems: int
    unbounded: int
    ratios: list[float]
    latencies: list[float]


def soundness(*seeds: int, runs: int = 6, bursty: bool = False) -> Soundness:
    """Hold the bounds of random systems against the worst that some simulations of each show.

    `bursty` systems have workload curves.

    Thousands of them: `PYTHONPATH=tests/support python tests/referees/slow.py FIRST LAST [bursty]`.
    """
    found = Soundness([], 0, 0, [], [])
    for seed in seeds:
        rng = random.Random(seed)
        system = systems.random_system(rng)
        system, times = systems.bursty(rng, system) if bursty else (system, {})
        try:
            told = bounds(system)
        except Refused:
            continue
        found.systems += 1
        seen = systems.hunt(system, rng, runs, times)
        for name, group in told.groups.items():
            if group.response is None:
                found.unbounded += 1
            elif seen.groups[name]:
                found.ratios.append(float(group.response / seen.groups[name]))
                if seen.groups[name] > group.response:
                    found.exceeded.append(
                        f"seed {seed}: {name} took {seen.groups[name]}, not {group.response}"
                    )
        for path in (p for g in told.groups.values() for p in g.paths):
            latency = seen.paths.get((path.path.source, path.path.sink), 0)
            if path.latency is not None and latency > path.latency:
                found.exceeded.append(
                    f"seed {seed}: {path.path} took {latency}, not {path.latency}"
                )
            if path.latency and latency:
                found.latencies.append(float(path.latency / latency))
        for name, task in told.tasks.items():
            for what, bound, worst in (
                ("end", task.end, seen.ends),
                ("response", task.response, seen.tasks),
            ):
                if worst.get(name, 0) > bound:
                    found.exceeded.append(
                        f"seed {seed}: the {what} of {name} was {worst[name]}, not {bound}"
                    )
            if sum(t.total for t in task.terms) != task.window:
                found.exceeded.append(f"seed {seed}: the terms of {name} do not add up")
    return found


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    total = soundness(*range(first, last), bursty="bursty" in sys.argv)
    print(*total.exceeded, sep="\n")
    print(
        f"{total.systems} systems, {len(total.ratios)} groups with a bound, {total.unbounded} without"
    )
    for what, ratios in (("responses", sorted(total.ratios)), ("paths", sorted(total.latencies))):
        print(f"{what}: bound / seen: median {ratios[len(ratios) // 2]:.3f}, ", end="")
        print(f"90 % below {ratios[len(ratios) * 9 // 10]:.3f}")
