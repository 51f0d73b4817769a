"""What a HOPES graph means as dataflow: which tasks are one app, its period, and the tokens of every port.

In: the graphs of a project. Out: a `Flow`: the groups of connected tasks with period, deadline and priority; for every
port that is used, the size of its tokens and its rate; and the tokens that lie on a channel at the start. HOPES counts
bytes: two ends that are both called "rate 1" may move different numbers of them. Control tasks are no dataflow: they
leave their period behind, and nothing else. How it is written is left to `text`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm

from ...model.span import Span
from ..names import listed, shown
from .files import Collector
from .tasks import Channel, Direction, Graph, Port, Task, Way, every

#: A port of a task at its place.
Place = tuple[Way, Direction, str]


@dataclass(frozen=True, slots=True)
class Token:
    """A firing moves `rate` tokens of `bytes` bytes."""

    bytes: int
    rate: int


@dataclass(frozen=True, slots=True)
class Group:
    """What is connected; `tasks` are names of the top level."""

    tasks: tuple[str, ...]
    period_ns: Fraction | None
    deadline_ns: Fraction | None
    priority: int


@dataclass(frozen=True, slots=True)
class Flow:
    """`tasks` are all of them, composites too. `tokens` has the ports that are used, of composites as those inside.

    `channels` are those between tasks that are no control tasks, by the level they stand on, with their initial tokens.
    """

    tasks: dict[Way, Task]
    groups: tuple[Group, ...]
    tokens: dict[Place, Token]
    channels: dict[Way, tuple[tuple[Channel, int], ...]]

    def leaves(self) -> Iterator[tuple[Way, Task]]:
        """Tasks that are neither composites nor control tasks."""
        return ((way, t) for way, t in self.tasks.items() if t.kind in ("task", "network"))


@dataclass(slots=True)
class _Link:
    """A channel between the two tasks that really fire; `chain` are all ports that it passes."""

    level: Way
    channel: Channel
    source: Place
    destination: Place
    chain: tuple[Place, ...]
    out_bytes: Fraction
    in_bytes: Fraction
    out_rate: int
    in_rate: int
    initial: Fraction


def flow_of(graph: Graph, say: Collector) -> Flow:
    """The dataflow of a graph without faults; what goes wrong here is told to `say`."""
    flow = _Flattening(graph, say, every(graph)).flow()
    if not flow.groups:
        say.fault("this project has nothing but control tasks", graph.span)
    return flow


@dataclass(slots=True)
class _Flattening:
    graph: Graph
    say: Collector
    tasks: dict[Way, Task]
    links: list[_Link] = field(default_factory=list)
    #: By the task that it releases: a control task, and its firings for one of that task.
    released: dict[Way, list[tuple[Task, Fraction]]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[Place, Token] = field(default_factory=dict)

    def flow(self) -> Flow:
        self._levels((), self.graph)
        self._sizes()
        self._unconnected()
        channels: dict[Way, list[tuple[Channel, int]]] = defaultdict(list)
        for link in self.links:
            size = self.tokens[link.source].bytes if link.source in self.tokens else 1
            channels[link.level].append((link.channel, int(link.initial / size)))
        groups = tuple(self._group(names) for names in self._components())
        return Flow(self.tasks, groups, self.tokens, {k: tuple(v) for k, v in channels.items()})

    # -- channels ----------------------------------------------------------------------------------------------------
    def _levels(self, level: Way, graph: Graph) -> None:
        for channel in graph.channels:
            self._link(level, channel)
        for name, task in graph.tasks.items():
            if task.graph is not None:
                self._levels((*level, name), task.graph)

    def _link(self, level: Way, channel: Channel) -> None:
        (source, out), (destination, into) = channel.source, channel.destination
        up, down = self._chain(((*level, source), "out", out)), self._chain(((*level, destination), "in", into))
        giver, taker = self._port(up[-1]), self._port(down[-1])
        here, there = self._port(up[0]), self._port(down[0])
        first, last = self.tasks[up[-1][0]], self.tasks[down[-1][0]]
        if "control" in (first.kind, last.kind):
            if first.kind == "control" and last.kind != "control":
                self.released[down[-1][0]].append((first, Fraction(there.bytes, here.bytes)))
            return
        # A composite may show less than the task inside moves: its own number is a placeholder, and so is the other.
        more_up, more_down = Fraction(giver.bytes, here.bytes), Fraction(taker.bytes, there.bytes)
        out_bytes, in_bytes, scale = Fraction(giver.bytes), Fraction(taker.bytes), Fraction(1)
        if more_up > 1 and more_down <= 1:
            in_bytes, scale = in_bytes * more_up, more_up
        elif more_down > 1 and more_up <= 1:
            out_bytes, scale = out_bytes * more_down, more_down
        if scale > 1:
            smaller, real = (taker, giver) if more_up > 1 else (giver, taker)
            owner = (down if more_up > 1 else up)[-1][0][-1]
            message = f"port {shown(f'{owner}.{smaller.name}')} says {smaller.bytes} bytes, its data has {real.bytes}"
            self.say.warn(message, smaller.span, "the size of the data is taken, and one firing for one")
        elif out_bytes * taker.rate != in_bytes * giver.rate:
            message = (
                f"{shown(f'{source}.{out}')} moves {out_bytes} bytes and {shown(f'{destination}.{into}')} {in_bytes}, "
                f"though their rates are {giver.rate} and {taker.rate}"
            )
            self.say.warn(message, channel.span, "bytes count: the ratio of their firings follows from them")
        self.links.append(
            _Link(
                level, channel, up[-1], down[-1], (*up, *down),
                out_bytes, in_bytes, giver.rate, taker.rate, channel.initial * scale,
            )
        )  # fmt: skip

    def _chain(self, place: Place) -> list[Place]:
        """The port and those that it leads to inside, the last one of a task that fires."""
        found = [place]
        while (task := self.tasks[found[-1][0]]).graph is not None:
            way, direction, port = found[-1]
            inner, name = task.inside[direction, port]
            found.append(((*way, inner), direction, name))
        return found

    def _port(self, place: Place) -> Port:
        way, direction, name = place
        return self.tasks[way].ports[direction, name]

    # -- sizes -------------------------------------------------------------------------------------------------------
    def _sizes(self) -> None:
        """One size of token for each output and all that read it: the samples, where all ends agree on them."""
        by_source: dict[Place, list[_Link]] = defaultdict(list)
        fed: dict[Place, Span] = {}
        for link in self.links:
            by_source[link.source].append(link)
            if link.destination in fed:
                way, _, port = link.destination
                self.say.fault(f"input {shown(f'{way[-1]}.{port}')} is fed twice", link.channel.span)
            fed[link.destination] = link.channel.span
        for source, links in by_source.items():
            out_bytes = max(link.out_bytes for link in links)
            initial = [link.initial for link in links if link.initial]
            ends = [out_bytes, *(link.in_bytes for link in links)]
            if any(n.denominator > 1 for n in (*ends, *initial)):
                message = "the sizes of these ports do not go into each other"
                self.say.fault(message, links[0].channel.span, "give the ports of the composite their real sizes")
                continue
            samples = {out_bytes / links[0].out_rate, *(link.in_bytes / link.in_rate for link in links)}
            size = next(iter(samples))
            if len(samples) > 1 or size.denominator > 1 or any(n % size for n in initial):
                size = Fraction(gcd(*(int(n) for n in (*ends, *initial))))
            self.tokens[source] = Token(int(size), int(out_bytes / size))
            for link in links:
                self.tokens[link.destination] = Token(int(size), int(link.in_bytes / size))
                for place in link.chain:  # composites show what is inside
                    inner = link.source if place[1] == "out" else link.destination
                    self.tokens[place] = self.tokens[inner]

    def _unconnected(self) -> None:
        for way, task in self.tasks.items():
            if task.kind == "control":
                help_text = "the period of an app releases it; scenarios come later"
                self.say.warn_together(task.name, "control tasks are not imported", task.span, help_text)
            elif task.graph is None:
                for direction, name in task.ports:
                    if (way, direction, name) not in self.tokens and not (direction == "in" and self.released.get(way)):
                        what = "nothing is connected to this port: it is left out"
                        self.say.warn_together(f"{task.name}.{name}", what, task.ports[direction, name].span)

    # -- apps --------------------------------------------------------------------------------------------------------
    def _components(self) -> list[tuple[str, ...]]:
        """What is connected on the top level without control tasks, in the order of the file."""
        firing = {way[0] for way, t in self.tasks.items() if t.kind in ("task", "network")}
        names = [n for n in self.graph.tasks if n in firing]
        group = {n: n for n in names}
        for link in self.links:
            a, b = group[link.source[0][0]], group[link.destination[0][0]]
            group = {n: a if g == b else g for n, g in group.items()}
        parts: dict[str, list[str]] = defaultdict(list)
        for name in names:
            parts[group[name]].append(name)
        return [tuple(part) for part in parts.values()]

    def _group(self, names: tuple[str, ...]) -> Group:
        members = {w: t for w, t in self.tasks.items() if w[0] in names and t.kind != "control"}
        firings = self._firings([w for w, t in members.items() if t.graph is None])
        for way in [w for w, t in members.items() if t.graph is not None]:
            inside = [n for w, n in firings.items() if w[: len(way)] == way]
            firings[way] = gcd(*inside) if inside else 1
        period = self._period(members, firings)
        deadlines = [t.deadline_ns for t in members.values() if t.deadline_ns is not None]
        deadline = min(deadlines, default=None)
        if period is not None and deadline is not None and deadline > period:
            late = next(t for t in members.values() if t.deadline_ns == deadline)
            self.say.warn_together(late.name, "a deadline beyond the period is left out", late.span)
        priorities = [t.priority for t in members.values() if t.graph is None]
        return Group(names, period, deadline if period and deadline and deadline < period else None, max(priorities))

    def _firings(self, tasks: list[Way]) -> dict[Way, int]:
        """Firings in an iteration, where rates balance; `flowc check` speaks of those that do not."""
        edges: dict[Way, list[tuple[Way, Fraction]]] = defaultdict(list)
        for link in self.links:
            if link.source in self.tokens and link.destination in self.tokens:
                ratio = Fraction(self.tokens[link.source].rate, self.tokens[link.destination].rate)
                edges[link.source[0]].append((link.destination[0], ratio))
                edges[link.destination[0]].append((link.source[0], 1 / ratio))
        found: dict[Way, Fraction] = {}
        for start in tasks:
            todo = [] if start in found else [start]
            found.setdefault(start, Fraction(1))
            while todo:
                way = todo.pop()
                for other, ratio in edges[way]:
                    if other not in found:
                        found[other] = found[way] * ratio
                        todo.append(other)
        scale = lcm(*(n.denominator for n in found.values()))
        common = gcd(*(int(n * scale) for n in found.values()))
        return {way: int(n * scale) // common for way, n in found.items()}

    def _period(self, members: dict[Way, Task], firings: dict[Way, int]) -> Fraction | None:
        """Of one iteration: that of tasks driven by time, else of control tasks that release others, else of any."""
        said = [(t, t.period_ns * firings[w]) for w, t in members.items() if t.period_ns is not None]
        driven = [(t, period) for t, period in said if t.time_driven]
        control = [
            (self.tasks[way], task.period_ns * ratio * firings[way])
            for way in members
            for task, ratio in self.released.get(way, [])
            if task.time_driven and task.period_ns is not None
        ]
        hints = [(t, period) for t, period in said if not t.time_driven]
        chosen = driven or control or hints
        if not chosen:
            return None
        if chosen is not hints:
            different = next(((t, p) for t, p in chosen if p != chosen[0][1]), None)
            if different is not None:
                task, period = different
                message = (
                    f"the periods of {shown(chosen[0][0].name)} and {shown(task.name)} do not fit: "
                    f"an iteration takes {_ms(chosen[0][1])} by the one and {_ms(period)} by the other"
                )
                self.say.fault(message, task.span, "what is connected has one period; mind the rates")
        period = max(p for _, p in chosen)
        others = [(t, p) for t, p in hints if p != period]
        if others:
            message = (
                f"{listed((t.name for t, _ in others), 4)}: a period of {_ms(others[0][1])} an iteration is left out"
            )
            self.say.warn(message, others[0][0].span, f"the app has {_ms(period)}; these tasks wait for data anyway")
        return period


def _ms(ns: Fraction) -> str:
    return f"{float(ns / 1_000_000):g} ms"
