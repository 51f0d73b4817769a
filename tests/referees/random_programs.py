"""Random timed systems of kinds that builds make: graphs, places, orders, stages and capacities.

In: a kind and a generator of random numbers. Out: a timed system with workers. The rules of builds
(docs/mapping.md, docs/language.md) are written down once more here: a sequence that one processor
could execute, projected on the processors; a task behind a border between processors one iteration
behind where an app is pipelined; the room that the sequence needs, and a firing more at each end of
a border; workers of their own for sources of pipelined apps, and for each stage of live ones. Of
flowc there are only the dataclasses of timed systems in it.

Best cases are 0. Apps are released from one clock at 0, unless a kind says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Literal

from flowc.analysis.timing.system import (
    RoundFiring,
    Scheduler,
    Slowdown,
    TimedBackground,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedWorker,
)
from flowc.model.server import Server
from flowc.model.workload import cyclic_workload

from event_simulator import sinks_of, sources_of


@dataclass(frozen=True, slots=True)
class Kind:
    """What systems of a kind have.

    `apps`, `tasks` (of an app) and `processors` are least and most. `staged` is the share of apps
    that are pipelined, `load` the utilization of a processor with tasks of all apps. A share `live`
    of the apps has live sources; so have some apps of `late` kinds, with jitter. With `phases`
    offsets are not 0, or not known. In kinds with `lists`, the worst cases of most tasks on CPUs
    differ by phase. In those with `background`, workers that never end are on some processors, in
    those with `servers` they have budgets on CPUs. With `wakeups` most processors wake their
    workers late.
    """

    apps: tuple[int, int] = (2, 3)
    tasks: tuple[int, int] = (2, 5)
    processors: tuple[int, int] = (1, 4)
    periods: tuple[int, ...] = (1200, 2400, 3600)
    rates: tuple[int, ...] = (1, 1, 1, 2, 3, 4, 5, 6, 12)
    most_firings: int = 20
    staged: float = 0.0
    load: tuple[float, float] = (0.3, 0.9)
    scheduler: Scheduler = "fixed_priority"
    priorities: Literal["distinct", "some equal", "equal"] = "distinct"
    fifo: bool = False
    late: bool = False
    live: float = 0.0
    phases: bool = False
    contention: bool = False
    background: bool = False
    servers: bool = False
    lists: bool = False
    wakeups: bool = False


KINDS: dict[str, Kind] = {
    "alone": Kind(apps=(1, 1), tasks=(2, 6), processors=(2, 4), staged=0.5),
    "shared": Kind(),
    "staged": Kind(tasks=(3, 6), processors=(2, 4), staged=0.75, most_firings=30),
    "equal": Kind(staged=0.4, priorities="equal"),
    "orders": Kind(staged=0.5, scheduler="static_order"),
    "fifo": Kind(staged=0.4, priorities="some equal", fifo=True),
    "orders-fifo": Kind(staged=0.4, scheduler="static_order", fifo=True),
    "late": Kind(apps=(1, 3), staged=0.4, load=(0.2, 0.6), priorities="some equal", late=True),
    "phases": Kind(staged=0.4, priorities="some equal", phases=True),
    "contention": Kind(
        processors=(2, 4), staged=0.4, load=(0.1, 0.5), priorities="some equal", contention=True
    ),
    "contention-orders": Kind(
        processors=(2, 4), load=(0.1, 0.5), scheduler="static_order", contention=True
    ),
    "mixed": Kind(
        apps=(1, 3),
        staged=0.4,
        load=(0.1, 0.5),
        priorities="some equal",
        fifo=True,
        late=True,
        contention=True,
    ),
    "background": Kind(apps=(1, 2), processors=(1, 2), load=(0.1, 0.4), fifo=True, background=True),
    "background-orders": Kind(
        staged=0.4, load=(0.1, 0.5), scheduler="static_order", fifo=True, background=True
    ),
    "background-contention": Kind(
        processors=(2, 4), staged=0.4, load=(0.1, 0.4), contention=True, background=True
    ),
    "servers": Kind(processors=(1, 2), staged=0.3, load=(0.1, 0.5), servers=True),
    "servers-orders": Kind(
        processors=(1, 2), load=(0.1, 0.5), scheduler="static_order", fifo=True, servers=True
    ),
    "lists-alone": Kind(apps=(1, 1), tasks=(2, 6), processors=(2, 4), staged=0.5, lists=True),
    "lists": Kind(staged=0.4, priorities="some equal", phases=True, lists=True),
    "lists-orders": Kind(staged=0.4, scheduler="static_order", fifo=True, lists=True),
    "lists-contention": Kind(
        processors=(2, 4), staged=0.4, load=(0.1, 0.5), contention=True, late=True, lists=True
    ),
    "wakeups-alone": Kind(
        apps=(1, 1), tasks=(2, 6), processors=(2, 4), staged=0.5, load=(0.1, 0.7), wakeups=True
    ),
    "wakeups": Kind(staged=0.4, load=(0.1, 0.7), priorities="some equal", late=True, wakeups=True),
    "wakeups-phases": Kind(load=(0.1, 0.7), priorities="some equal", phases=True, wakeups=True),
    "wakeups-orders": Kind(
        staged=0.4, load=(0.1, 0.7), scheduler="static_order", fifo=True, wakeups=True
    ),
    "wakeups-mixed": Kind(
        apps=(1, 2),
        processors=(1, 2),
        staged=0.4,
        load=(0.1, 0.3),
        priorities="some equal",
        fifo=True,
        contention=True,
        background=True,
        lists=True,
        wakeups=True,
    ),
}

#: Few firings, so that all combinations of times can be tried.
TINY: dict[str, Kind] = {
    name: replace(
        kind,
        apps=(min(kind.apps[0], 2), min(kind.apps[1], 2)),
        tasks=(1, 4),
        processors=(1, 2),
        periods=(12, 12, 24),
        rates=(1, 1, 1, 2, 3),
        most_firings=6,
    )
    for name, kind in KINDS.items()
}


@dataclass(frozen=True, slots=True)
class Step:
    """One firing in the order of an app; `of` is its app."""

    of: str
    task: str
    firing: int
    stage: int


def random_program(rng: random.Random, kind: Kind) -> TimedSystem:
    """A system of a kind."""
    return system_of(rng, kind, random_apps(rng, kind))


def random_apps(rng: random.Random, kind: Kind) -> list[_App]:
    """The apps of a system, on processors of their own making."""
    processors = _processors(rng, kind)
    count = rng.randint(*kind.apps)
    share = rng.uniform(*kind.load) / count
    ranks = _priorities(rng, kind, count)
    drawn: list[_App] = []
    for name, rank in zip("abcd", ranks, strict=False):
        drawn.append(_App(rng, kind, name, rank, processors, share))
    return drawn


def system_of(rng: random.Random, kind: Kind, drawn: Sequence[_App]) -> TimedSystem:
    """The system of these apps, with workers, contention and a background."""
    processors = drawn[0].processors
    workers: list[TimedWorker] = []
    for processor in processors:
        workers += _workers_on(processor, drawn)
    slowdowns: list[Slowdown] = []
    if kind.contention:
        for _ in range(rng.randint(1, 2)):
            words = rng.choice(("cpu", "gpu", "pool0", "pool1")), rng.choice(("cpu", "pool1"))
            slowdowns.append(Slowdown(*words, rng.choice((Fraction(3, 2), Fraction(2)))))
    background: list[TimedBackground] = []
    if kind.background:
        queues = [p for p in processors if p.scheduler == "fifo"]
        places = [*queues, *(rng.choice(processors) for _ in range(rng.randint(0, 2)))]
        for processor in places or processors[:1]:
            background.append(TimedBackground(processor.name, rng.randint(1, 40)))
    if kind.servers:
        cpus = [p for p in processors if p.scheduler != "fifo"]
        for number in range(rng.randint(1, 2)):
            background.append(_served(rng, kind, rng.choice(cpus), f"s{number}"))
    used = {w.processor for w in (*workers, *background)}
    return TimedSystem(
        tuple(app.group for app in drawn),
        tuple(p for p in processors if p.name in used),
        tuple(slowdowns),
        tuple(workers),
        tuple(background),
    )


def _served(rng: random.Random, kind: Kind, processor: TimedProcessor, app: str) -> TimedBackground:
    """A worker with a tenth to four tenths of a CPU, whose firings are short or long."""
    period = max(2, rng.choice(kind.periods) // rng.choice((1, 2, 3, 4)))
    budget = max(1, int(period * rng.uniform(0.1, 0.4)))
    longest = max(1, int(budget * rng.choice((0.1, 0.5, 1, 2))))
    return TimedBackground(processor.name, longest, Server(budget, Fraction(period)), app)


def _processors(rng: random.Random, kind: Kind) -> list[TimedProcessor]:
    count = rng.randint(*kind.processors)
    made = []
    for n in range(count):
        pool = f"pool{rng.randrange(2)}" if kind.contention else "core"
        made.append(TimedProcessor(f"p{n}", kind.scheduler, pool, "cpu"))
    if kind.fifo:
        made += [TimedProcessor(f"g{n}", "fifo", "gpu", "gpu") for n in range(rng.randint(1, 2))]
    if kind.wakeups:
        most = min(kind.periods) // 12
        made = [replace(p, wakeup=rng.choice((0, rng.randint(1, most), most))) for p in made]
    return made


def _priorities(rng: random.Random, kind: Kind, count: int) -> list[int]:
    if kind.priorities == "equal":
        return [0] * count
    if kind.priorities == "distinct":
        return rng.sample(range(count), count)
    return [rng.randrange(2) for _ in range(count)]


def _by_phase(rng: random.Random, task: TimedTask) -> TimedTask:
    """The task with a worst case for each phase, and the curve that they give or none."""
    count = rng.choice([n for n in range(1, task.firings + 1) if task.firings % n == 0])
    phases = [rng.randint(0, int(task.cost)) for _ in range(count)]
    phases[rng.randrange(count)] = int(task.cost)
    curve = cyclic_workload(phases) if rng.random() < 0.7 else None
    return replace(task, phases=tuple(phases), curve=curve)


class _App:
    """An app while it is drawn: its group, its order, and how far its tasks work behind, among all
    `processors`."""

    def __init__(
        self,
        rng: random.Random,
        kind: Kind,
        name: str,
        rank: int,
        processors: Sequence[TimedProcessor],
        share: float,
    ) -> None:
        self.rng, self.kind = rng, kind
        self.processors = processors
        period = rng.choice(kind.periods)
        tasks = self._tasks(name, processors, share, period)
        channels = self._channels(tasks)
        late = kind.late and rng.random() < 0.6
        jitter = rng.choice((0, rng.randint(1, period // 3), rng.randint(1, period))) if late else 0
        self.live = late or (kind.live > 0 and rng.random() < kind.live)
        group = TimedGroup(
            name, period, tuple(tasks), tuple(channels), None, rank, jitter, self._offset(period)
        )
        self.sources = sources_of(group)
        self.stages = dict.fromkeys((t.name for t in tasks), 0)
        self.pipelined = rng.random() < kind.staged
        if self.pipelined:
            self.stages = stages_of(group)
        sequence = sequence_of(group, rng.choice(("far", "near", "due")))
        steps = [Step(name, t, k, self.stages[t]) for t, k in sequence]
        self.steps = sorted(steps, key=lambda s: -s.stage)
        group = replace(group, channels=tuple(self._with_room(group, self.steps)))
        work = sum(t.work for t in tasks)
        if self.pipelined and work <= period:  # a short deadline pipelines as well
            group = replace(group, deadline=max(1, work - 1))
        self.group = replace(group, paths=tuple(self._paths(group)))

    def _offset(self, period: int) -> int | None:
        if not self.kind.phases:
            return 0
        return self.rng.choice((0, None, self.rng.randrange(period), self.rng.randrange(period)))

    def _tasks(
        self, app: str, processors: Sequence[TimedProcessor], share: float, period: int
    ) -> list[TimedTask]:
        rng, kind = self.rng, self.kind
        count = rng.randint(*kind.tasks)
        while True:
            firings = [rng.choice(kind.rates) for _ in range(count)]
            firings[rng.choice((0, 0, rng.randrange(count)))] = 1
            if sum(firings) <= kind.most_firings:
                break
        cpus = [p for p in processors if p.scheduler != "fifo"]
        places = [rng.choice(cpus if n == 0 else processors) for n in range(count)]
        if kind.fifo:  # sources are on CPUs
            places = [rng.choice(cpus) if rng.random() < 0.4 else p for p in places]
        weights = [rng.randint(1, 20) for _ in range(count)]
        load: dict[str, int] = {}
        for place, weight in zip(places, weights, strict=True):
            load[place.name] = load.get(place.name, 0) + weight
        tasks = []
        for n in range(count):
            most = share * period / load[places[n].name]
            cost = max(1, int(weights[n] * most / firings[n]))
            if rng.random() < 0.03:
                cost = 0
            parts: tuple[int, ...] = (cost,)
            if places[n].scheduler == "fifo":
                parts = _in_parts(rng, cost)
            task = TimedTask(f"{app}.t{n}", places[n].name, parts, (), firings[n])
            listed = kind.lists and places[n].scheduler != "fifo" and rng.random() < 0.8
            tasks.append(_by_phase(rng, task) if listed else task)
        return tasks

    def _channels(self, tasks: Sequence[TimedTask]) -> list[TimedChannel]:
        """Each task but the first reads an earlier one, few of them none; some feed data back."""
        rng = self.rng
        channels: list[TimedChannel] = []
        fed: set[int] = set()
        for b in range(1, len(tasks)):
            if rng.random() < 0.08 and tasks[b].processor.startswith("p"):
                continue  # one more source
            before = {b - 1 if rng.random() < 0.6 else rng.randrange(b)}
            if rng.random() < 0.25:
                before.add(rng.randrange(b))
            fed.add(b)
            for a in sorted(before):
                channels.append(self._channel(tasks[a], tasks[b], rng.random() < 0.2))
                if a in fed and rng.random() < 0.08:
                    channels.append(self._feedback(tasks[b], tasks[a]))
        return channels

    def _channel(self, a: TimedTask, b: TimedTask, delayed: bool) -> TimedChannel:
        rng = self.rng
        total = lcm(a.firings, b.firings) * rng.choice((1, 1, 1, 2))
        delay = rng.randint(1, 2 * total) if delayed else 0
        made, taken = self._rates(total, a.firings), self._rates(total, b.firings)
        return TimedChannel(a.name, b.name, made, taken, delay)

    def _feedback(self, a: TimedTask, b: TimedTask) -> TimedChannel:
        """With tokens for an iteration or two."""
        total = lcm(a.firings, b.firings)
        made, taken = (total // a.firings,), (total // b.firings,)
        return TimedChannel(a.name, b.name, made, taken, total * self.rng.randint(1, 2))

    def _rates(self, total: int, firings: int) -> tuple[int, ...]:
        """Those of an iteration, now and then other ones in each phase."""
        if firings == 1 or self.rng.random() < 0.8:
            return (total // firings,)
        cuts = sorted(self.rng.randint(0, total) for _ in range(firings - 1))
        ends = [*cuts, total]
        return tuple(end - begin for begin, end in zip([0, *cuts], ends, strict=True))

    def _with_room(self, group: TimedGroup, steps: Sequence[Step]) -> list[TimedChannel]:
        """The channels with the room that one round of the steps needs, and what builds add."""
        home = {t.name: t.processor for t in group.tasks}
        rates = {t.name: t.firings for t in group.tasks}
        made = []
        for c in group.channels:
            produced = [c.produced[k % len(c.produced)] for k in range(rates[c.source])]
            consumed = [c.consumed[k % len(c.consumed)] for k in range(rates[c.destination])]
            lag = self.stages[c.destination] - self.stages[c.source]
            tokens = most = c.delay + lag * sum(produced)
            for step in steps:
                if step.task == c.source:
                    tokens += produced[step.firing]
                    most = max(most, tokens)
                if step.task == c.destination:
                    tokens -= consumed[step.firing]
            if home[c.source] != home[c.destination]:
                most += max(produced) + max(consumed)
            if self.live and c.source in self.sources:
                most += max(produced)
            if self.rng.random() < 0.2:  # `buffers`
                most = max(most, self.rng.randint(1, 3) * sum(produced))
            made.append(replace(c, capacity=most))
        return made

    def _paths(self, group: TimedGroup) -> list[TimedPath]:
        """Some ways from a source to a sink."""
        found = []
        for source in sorted(sources_of(group)):
            behind = newest_behind(group, source)
            for sink in sorted(sinks_of(group)):
                if sink in behind and sink != source:
                    found.append(TimedPath(source, sink, behind[sink]))
        return self.rng.sample(found, min(2, len(found)))


def _in_parts(rng: random.Random, cost: int) -> tuple[int, ...]:
    """The kernels of a firing."""
    cuts = sorted(rng.randint(0, cost) for _ in range(rng.choice((0, 0, 1, 2, 4))))
    return tuple(end - begin for begin, end in zip([0, *cuts], [*cuts, cost], strict=True))


def stages_of(group: TimedGroup) -> dict[str, int]:
    """One more behind each border between processors; what feeds each other shares a stage."""
    home = {t.name: t.processor for t in group.tasks}
    reached = {name: {name} for name in home}
    for _ in home:
        for c in group.channels:
            reached[c.source] |= reached[c.destination]
    stage = dict.fromkeys(home, 0)
    for _ in home:  # longest paths are shorter than that
        for c in group.channels:
            together = c.source in reached[c.destination]
            border = not together and home[c.source] != home[c.destination]
            stage[c.destination] = max(stage[c.destination], stage[c.source] + border)
            if together:
                stage[c.source] = max(stage[c.source], stage[c.destination])
    return stage


def sequence_of(group: TimedGroup, policy: Literal["far", "near", "due"]) -> list[tuple[str, int]]:
    """One iteration in an order in which one processor could execute it.

    Of what can fire it takes the task that comes first (`far` from the end: long runs), the one
    that comes last, or the one whose data came first where sources are released several times.
    """
    position = {t.name: n for n, t in enumerate(group.tasks)}
    came: list[list[Fraction]] = [[Fraction(0)] * c.delay for c in group.channels]
    fired = dict.fromkeys(position, 0)
    released = sources_of(group)
    sequence: list[tuple[str, int]] = []
    while len(sequence) < sum(t.firings for t in group.tasks):
        ready: list[tuple[Fraction | int, int, TimedTask]] = []
        for task in group.tasks:
            k = fired[task.name]
            wanted = _wanted(group, task.name, k)
            if k == task.firings or any(len(came[c]) < n for c, n in wanted.items()):
                continue
            arrival = Fraction(k, task.firings) if task.name in released else Fraction(0)
            for c, n in wanted.items():
                arrival = max([arrival, *came[c][:n]])
            place = position[task.name]
            key: Fraction | int = arrival if policy == "due" else place
            if policy == "near":
                key = -place
            ready.append((key, -place, task))
        assert ready, f"{group} cannot complete an iteration"
        _, _, task = min(ready, key=lambda entry: entry[:2])
        k = fired[task.name]
        arrival = Fraction(k, task.firings) if task.name in released else Fraction(0)
        for c, n in _wanted(group, task.name, k).items():
            arrival = max([arrival, *came[c][:n]])
            del came[c][:n]
        for c, channel in enumerate(group.channels):
            if channel.source == task.name:
                came[c] += [arrival] * channel.produced[k % len(channel.produced)]
        fired[task.name] += 1
        sequence.append((task.name, k))
    return sequence


def _wanted(group: TimedGroup, task: str, firing: int) -> dict[int, int]:
    """What a firing takes from each channel, by number."""
    wanted = {}
    for number, c in enumerate(group.channels):
        if c.destination == task:
            wanted[number] = c.consumed[firing % len(c.consumed)]
    return wanted


def newest_behind(group: TimedGroup, source: str) -> dict[str, tuple[int, ...]]:
    """For each task that the data of a source reach in the end: the newest firing of the source
    behind each of its firings, counted from the first one in the same iteration.

    Tokens carry the number of that firing. A task keeps what it has read.
    """
    rounds = 3 + sum(c.delay for c in group.channels)
    sequence = sequence_of(group, "far")
    firings = {t.name: t.firings for t in group.tasks}
    marks: list[list[int | None]] = [[None] * c.delay for c in group.channels]
    read: dict[str, int | None] = dict.fromkeys(firings)
    last: dict[str, list[int | None]] = {}
    for iteration in range(rounds):
        last = {name: [] for name in firings}
        for name, k in sequence:
            known = [read[name]]
            if name == source:
                known.append(iteration * firings[source] + k)
            for c, n in _wanted(group, name, k).items():
                known += marks[c][:n]
                del marks[c][:n]
            read[name] = max((m for m in known if m is not None), default=None)
            for c, channel in enumerate(group.channels):
                if channel.source == name:
                    marks[c] += [read[name]] * channel.produced[k % len(channel.produced)]
            last[name].append(read[name])
    found = {}
    for name, own in last.items():
        numbers = [m - (rounds - 1) * firings[source] for m in own if m is not None]
        if len(numbers) == firings[name]:
            found[name] = tuple(numbers)
    return found


def _workers_on(processor: TimedProcessor, apps: Sequence[_App]) -> list[TimedWorker]:
    """The workers of a processor: one of all apps that share an order, else one of each; what waits
    is apart.
    """
    static = processor.scheduler == "static_order"
    together = [a for a in apps if static and not a.live]
    workers: list[TimedWorker] = []
    for own in [together, *([a] for a in apps if a not in together)]:
        order, rounds = _joint_order(processor.name, own)
        for part in _apart(order, own):
            used = {p.group for p in part}
            named = tuple((g, n) for g, n in rounds.items() if g in used)
            workers.append(TimedWorker(processor.name, tuple(part), named))
    return workers


def _joint_order(processor: str, apps: Sequence[_App]) -> tuple[list[RoundFiring], dict[str, int]]:
    """The iterations of a round by release, then by priority; and how many each app has."""
    here: dict[str, list[Step]] = {}
    for app in apps:
        home = {t.name: t.processor for t in app.group.tasks}
        steps = [s for s in app.steps if home[s.task] == processor]
        if steps:
            here[app.group.name] = steps
    groups = [a.group for a in apps if a.group.name in here]
    whole = lcm(*(int(g.period) for g in groups))
    rounds = {g.name: whole // int(g.period) for g in groups}
    jobs = []
    for number, g in enumerate(groups):
        for index in range(rounds[g.name]):
            jobs.append((index * g.period, -g.priority, number, index))
    order = []
    for _, _, number, index in sorted(jobs):
        for s in here[groups[number].name]:
            order.append(RoundFiring(s.of, s.task, s.firing, index, s.stage))
    return order, rounds


def _apart(order: Sequence[RoundFiring], apps: Sequence[_App]) -> list[list[RoundFiring]]:
    """What waits has workers of its own: live sources each, the other ones where an app of theirs
    is pipelined here; of live apps each stage.
    """
    by_name: Mapping[str, _App] = {a.group.name: a for a in apps}
    live: dict[str, list[RoundFiring]] = {}
    waiting: list[RoundFiring] = []
    stages: dict[int, list[RoundFiring]] = {}
    behind = {p.group for p in order if p.stage}
    paced = [p for p in order if p.task in by_name[p.group].sources and not by_name[p.group].live]
    apart = any(p.group in behind for p in paced)
    for p in order:
        app = by_name[p.group]
        if app.live and p.task in app.sources:
            live.setdefault(p.task, []).append(p)
        elif apart and p.task in app.sources:
            waiting.append(p)
        else:
            stages.setdefault(p.stage if app.live else 0, []).append(p)
    return [part for part in (*live.values(), waiting, *stages.values()) if part]
