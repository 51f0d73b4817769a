"""A HOPES graph as dataflow: which tasks are one app, its period, and the tokens of every port.

In: the graphs of a project. Out: a `Flow`: the groups of connected tasks with period, deadline and
priority; for every used port, the size of its tokens and its rate; the operators on arrows into
loops and out of them; and the initial tokens of channels. Firings are those that HOPES counts
(counts.py), and rates follow them. Control tasks are no dataflow: only their period is used. `text`
writes the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from math import gcd, lcm
from typing import Literal

from ...model.span import Span
from ..names import listed, shown
from .counts import Counts, Place, counts_of, loops_around, shares_tokens
from .design import HopesChannel, HopesGraph, HopesLoop, HopesPort, HopesTask, Way, every
from .files import HopesCollector


@dataclass(frozen=True, slots=True)
class HopesToken:
    """A firing transfers `rate` tokens of `bytes` bytes; `type` is set if all statements about it
    agree, else ""."""

    bytes: int
    rate: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class Turns:
    """The operator on the way into a loop (`repeat`) or out of it (`last`), with `tokens` of each
    of its turns."""

    word: Literal["repeat", "last"]
    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ConnectedTasks:
    """Connected tasks; `tasks` are names of the top level."""

    tasks: tuple[str, ...]
    period_ns: Fraction | None
    deadline_ns: Fraction | None
    priority: int


@dataclass(frozen=True, slots=True)
class Flow:
    """`tasks` are all of them, composites too. `tokens` has the used ports, those of composites as
    those inside.

    `turns` has the ports at borders of loops if all turns read the same tokens, or the last ones
    leave, `back` those of tasks at both ends of arrows from one turn to the next one. `channels`
    are those between tasks that are no control tasks, by their level, with their initial tokens,
    `newest` those between two apps of which the reader gets the newest token, `buffers` the ports
    at both their ends.
    """

    tasks: dict[Way, HopesTask]
    groups: tuple[ConnectedTasks, ...]
    tokens: dict[Place, HopesToken]
    turns: dict[Place, Turns]
    back: frozenset[Place]
    channels: dict[Way, tuple[tuple[HopesChannel, int], ...]]
    newest: tuple[HopesChannel, ...] = ()
    buffers: frozenset[Place] = frozenset()

    def leaves(self) -> Iterator[tuple[Way, HopesTask]]:
        """Tasks that are neither composites nor control tasks."""
        return ((way, t) for way, t in self.tasks.items() if t.kind in ("task", "network"))


@dataclass(slots=True)
class _Link:
    """A channel between the two tasks that fire.

    `up` and `down` are all ports that it passes, from outside to inside; `made` and `read` the
    tokens in an iteration of the innermost common graph, by the ports.
    """

    level: Way
    channel: HopesChannel
    up: list[Place]
    down: list[Place]
    made: int
    read: int


def flow_of(
    graph: HopesGraph, say: HopesCollector, held: Mapping[Place, int] | None = None
) -> Flow:
    """The dataflow of a graph without faults; new faults are reported to `say`.

    `held` are initial tokens that the code of a reader has, by its port: those of the channel to
    it.
    """
    counts = counts_of(graph, say)
    if say.faults:
        return Flow({}, (), {}, {}, frozenset(), {})
    flow = _Flattening(graph, say, every(graph), counts, held or {}).flow()
    if not flow.groups:
        say.fault("this project has nothing but control tasks", graph.span)
    return flow


@dataclass(slots=True)
class _Flattening:
    graph: HopesGraph
    say: HopesCollector
    tasks: dict[Way, HopesTask]
    counts: Counts
    held: Mapping[Place, int]
    links: list[_Link] = field(default_factory=list)
    #: By the released task: a control task, and its firings for one of that task.
    released: dict[Way, list[tuple[HopesTask, Fraction]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    tokens: dict[Place, HopesToken] = field(default_factory=dict)
    turns: dict[Place, Turns] = field(default_factory=dict)
    #: Channels that keep the newest token, with the levels they stand on and all ports that they
    #: pass.
    keeping: list[tuple[Way, HopesChannel, list[Place], list[Place]]] = field(default_factory=list)

    def flow(self) -> Flow:
        self._levels((), self.graph)
        self._tokens()
        self._rooms()
        parts = self._components()
        newest = tuple(self._newest(parts))
        buffers = frozenset(place for channel in newest for place in self._both(channel))
        self._unconnected()
        closing = self._closing()
        channels: dict[Way, list[tuple[HopesChannel, int]]] = defaultdict(list)
        back: set[Place] = set()
        for link in self.links:
            if id(link) in closing:
                delay = self._turn(link)
            else:
                delay = self._initial(link)
            channels[link.level].append((link.channel, delay))
            if id(link) in closing or (delay and loops_around((*link.level, ""), self.tasks)):
                back |= {link.up[-1], link.down[-1]}
        groups = tuple(self._group(names) for names in parts)
        found = {level: tuple(of_level) for level, of_level in channels.items()}
        return Flow(
            self.tasks, groups, self.tokens, self.turns, frozenset(back), found, newest, buffers
        )

    # -- channels ----------------------------------------------------------------------------------
    def _levels(self, level: Way, graph: HopesGraph) -> None:
        for channel in graph.channels:
            self._link(level, channel)
        for name, task in graph.tasks.items():
            if task.graph is not None:
                self._levels((*level, name), task.graph)

    def _link(self, level: Way, channel: HopesChannel) -> None:
        (source, out), (destination, into) = channel.source, channel.destination
        up, down = (
            self._chain(((*level, source), "out", out)),
            self._chain(((*level, destination), "in", into)),
        )
        first, last = self.tasks[up[-1][0]], self.tasks[down[-1][0]]
        if "control" in (first.kind, last.kind):
            if first.kind == "control" and last.kind != "control":
                ratio = Fraction(self._port(down[0]).rate, self._port(up[0]).rate)
                self.released[down[-1][0]].append((first, ratio))
            return
        if any(self._port(place).keeps_newest for place in (*up, *down)):
            self.keeping.append((level, channel, up, down))
            return
        self.links.append(
            _Link(
                level, channel, up, down, self._passing(up, "last"), self._passing(down, "repeat")
            )
        )

    def _chain(self, place: Place) -> list[Place]:
        """The port and those that it leads to inside, the last one of a task that fires."""
        found = [place]
        while (task := self.tasks[found[-1][0]]).graph is not None:
            way, direction, port = found[-1]
            inner, name = task.inside[direction, port]
            found.append(((*way, inner), direction, name))
        return found

    def _port(self, place: Place) -> HopesPort:
        way, direction, name = place
        return self.tasks[way].ports[direction, name]

    def _passing(self, chain: list[Place], word: Literal["repeat", "last"]) -> int:
        """The tokens of an iteration that pass the outermost of these ports; records loops whose
        turns share tokens."""
        way, direction, port = chain[-1]
        task, tokens = self.tasks[way], self._rate(chain[-1]) * self.counts.turn[way]
        if task.loop is not None and direction == "in" and shares_tokens(task, port):
            tokens //= task.loop.count
            self.turns[chain[-1]] = Turns("repeat", task.loop.count, self._rate(chain[-1]))
        for place in reversed(chain[:-1]):
            way, _, _ = place
            loop = self.tasks[way].loop
            if loop is None:
                continue
            if self._shared(place, loop, tokens):
                self.turns[place] = Turns(word, loop.count, tokens)
            else:
                tokens *= loop.count
            tokens *= self.counts.turn[way]
        return tokens

    def _shared(self, place: Place, loop: HopesLoop, tokens: int) -> bool:
        """Do all turns of a loop share the tokens that one turn moves through a port of it?"""
        way, direction, port = place
        stated, whole = self._port(place).rate, tokens * loop.count
        # In some projects the statements and the rates contradict: HOPES uses the rates.
        if stated in (tokens, whole) and tokens != whole:
            return stated == tokens
        return (
            loop.kind == "CONVERGENT"
            or self.tasks[way].maps.get((direction, port)) == "broadcasting"
        )

    def _rate(self, place: Place) -> int:
        """Tokens of one firing, by the port."""
        way, direction, port = place
        task = self.tasks[way]
        rate = task.ports[direction, port].rate
        if task.loop is None or (direction == "in" and shares_tokens(task, port)):
            return rate
        return rate // task.loop.count

    # -- tokens ------------------------------------------------------------------------------------
    def _tokens(self) -> None:
        """Size and rate for each output and all its readers. If both ends disagree, the firings
        stay."""
        by_source: dict[Place, list[_Link]] = defaultdict(list)
        fed: dict[Place, Span] = {}
        for link in self.links:
            by_source[link.up[-1]].append(link)
            if link.down[-1] in fed:
                way, _, port = link.down[-1]
                self.say.fault(
                    f"input {shown(f'{way[-1]}.{port}')} is fed twice", link.channel.span
                )
            fed[link.down[-1]] = link.channel.span
        for links in by_source.values():
            self._tokens_of(links)

    def _tokens_of(self, links: list[_Link]) -> None:
        """Those of one output."""
        size = self._size(links)
        readings = [link.read for link in links]
        most = lcm(*(link.made for link in links), *readings)
        ends = []
        for link in links:
            ends += [link.up[-1], link.down[-1]]
        kind = self._kind(ends, size)
        for link in links:
            if link.made != link.read:
                self._disagree(link)
            if {link.made, *readings} != {most}:
                self._scale(link.down, most // link.read)
            self._give(link.down, HopesToken(size, most // link.read, kind))
        self._scale(links[0].up, most // links[0].made)
        for link in links:
            self._give(link.up, HopesToken(size, most // link.made, kind))

    def _kind(self, ends: Iterable[Place], size: int) -> str:
        """The type of tokens of that size; "" if not all ports agree."""
        types = {(port.type, port.size) for port in map(self._port, ends)}
        if len(types) > 1:
            return ""
        ((kind, stated),) = types
        if stated == size:
            return kind
        return ""

    def _scale(self, chain: list[Place], factor: int) -> None:
        for place in chain:
            if place in self.turns:
                old = self.turns[place]
                self.turns[place] = Turns(old.word, old.count, old.tokens * factor)

    def _give(self, chain: list[Place], each: HopesToken) -> None:
        """The tokens of a channel; `each` has how many of them a token of the project is."""
        for place in chain:  # composites have the tokens of the tasks inside
            self.tokens[place] = replace(each, rate=self._rate(chain[-1]) * each.rate)

    def _disagree(self, link: _Link) -> None:
        ends = [(place[0][-1], place[2]) for place in (link.up[-1], link.down[-1])]
        names = [shown(f"{task}.{port}") for task, port in ends]
        message = (
            f"by its rates and loops {names[0]} makes {link.made} tokens where {names[1]} reads"
            f" {link.read}"
        )
        self.say.warn(
            message, link.channel.span, "the firings are those of HOPES; rates are made to fit them"
        )

    def _size(self, links: list[_Link]) -> int:
        """Bytes of a token: the largest statement, unless it is that of a whole firing."""
        giver, takers = self._port(links[0].up[-1]), [self._port(link.down[-1]) for link in links]
        sizes = {port.size for port in (giver, *takers)}
        channels = {link.channel.size for link in links if link.channel.size > 1}
        whole = _whole_firings(giver, takers, channels - sizes)
        stated = sizes | channels
        size = max(stated - whole or stated)
        if sizes != {size}:
            way, _, port = links[0].up[-1]
            what = (
                f"ports and channel have tokens of {', '.join(map(str, sorted(stated)))} bytes:"
                f" {size} are taken"
            )
            self.say.warn(f"{shown(f'{way[-1]}.{port}')}: {what}", links[0].channel.span)
        return size

    def _rooms(self) -> None:
        """Warnings about channels that are too small for any order, if their content is known.

        A channel between tasks that move p and c tokens, with d initial ones, needs p + c - g + d
        mod g tokens of room, where g is the greatest common divisor of p and c (Bhattacharyya,
        Murthy and Lee, Software Synthesis from Dataflow Graphs, 1996). Turns of loops have memory
        of their own in HOPES.
        """
        for link in self.links:
            channel, ends = link.channel, (link.up[-1], link.down[-1])
            sizes = {channel.size, *(self._port(place).size for place in ends)}
            if (
                not channel.room
                or len(sizes) > 1
                or any(self.tasks[w].loop or loops_around(w, self.tasks) for w, *_ in ends)
            ):
                continue
            made, read = (self._rate(place) for place in ends)
            common = gcd(made, read)
            least, room = (
                made + read - common + channel.initial % common,
                channel.room // channel.size,
            )
            if room < least:
                name = f"{channel.source[0]}.{channel.source[1]}"
                what = f"its channel has room for {room} tokens, and fewer than {least} deadlock"
                self.say.warn_together(
                    name, what, channel.span, "flowc computes the sizes of channels itself"
                )

    def _newest(self, parts: list[tuple[str, ...]]) -> Iterator[HopesChannel]:
        """The channels between two apps that keep the newest token; others of that kind are
        reported."""
        of = {}
        for n, names in enumerate(parts):
            for name in names:
                of[name] = n
        fed: set[Place] = set()
        for level, channel, up, down in self.keeping:
            first, last = up[-1], down[-1]
            if level or of[first[0][0]] == of[last[0][0]] or last in {*fed, *self.tokens}:
                help_text = "`latest` joins two apps, and a reader has one writer"
                what = "a channel that keeps the newest value is left out"
                self.say.warn_together(
                    f"{channel.source[0]}.{channel.source[1]}", what, channel.span, help_text
                )
                continue
            fed.add(last)
            known = self.tokens.get(first)
            sizes = [channel.size, *(self._port(place).size for place in (*up, *down))]
            if known is None:
                known = HopesToken(max(sizes), 1, self._kind((first, last), max(sizes)))
                self.tokens |= dict.fromkeys(up, known)
            self.tokens |= dict.fromkeys(down, replace(known, rate=1))
            yield channel

    def _both(self, channel: HopesChannel) -> tuple[Place, Place]:
        """The ports at the ends of a channel of the top level, of tasks that fire."""
        (source, out), (destination, into) = channel.source, channel.destination
        up = self._chain(((source,), "out", out))
        down = self._chain(((destination,), "in", into))
        return up[-1], down[-1]

    def _closing(self) -> set[int]:
        """Arrows that close a cycle without initial tokens: those that lead back in the order of
        the file."""
        between: dict[tuple[Way, Way], list[_Link]] = defaultdict(list)
        for link in self.links:
            if not link.channel.initial:
                between[link.up[-1][0], link.down[-1][0]].append(link)
        before: dict[Way, list[Way]] = defaultdict(list)
        for source, destination in between:
            before[destination].append(source)
        try:
            TopologicalSorter(before).prepare()
        except CycleError:
            return self._back(between)
        return set()

    def _back(self, between: Mapping[tuple[Way, Way], list[_Link]]) -> set[int]:
        """The arrows that lead back in cycles; `between` has those from one task to another."""
        import networkx as nx  # importing it is slow, and most projects have no such cycle

        found: set[int] = set()
        order = {way: n for n, way in enumerate(self.tasks)}
        graph = nx.DiGraph(between.keys())
        while True:
            try:
                cycle = nx.find_cycle(graph)
            except nx.NetworkXNoCycle:
                return found
            back = max(cycle, key=lambda edge: order[edge[0]] - order[edge[1]])
            for link in between[back]:
                name = f"{link.up[-1][0][-1]}.{link.up[-1][2]}"
                what = "it closes a cycle without initial tokens: it gets zeros for one turn"
                help_text = "in HOPES the reader starts without it; check whether zeros are correct"
                self.say.warn_together(name, what, link.channel.span, help_text)
                found.add(id(link))
            graph.remove_edge(*back)

    def _turn(self, link: _Link) -> int:
        """The tokens that pass a channel in one turn of its graph."""
        return link.made * self.tokens[link.up[-1]].rate // self._rate(link.up[-1])

    def _initial(self, link: _Link) -> int:
        """Tokens on a channel at the start."""
        channel, size = link.channel, self.tokens[link.up[-1]].bytes
        samples = Fraction(channel.initial * channel.size, size)
        held = self.held.get(link.down[-1], 0)
        return held + (int(samples) if samples.denominator == 1 else channel.initial)

    def _unconnected(self) -> None:
        for way, task in self.tasks.items():
            if task.kind == "control":
                help_text = (
                    "the period of an app releases it; states, if it has any, come in a text of"
                    " their own"
                )
                self.say.warn_together(
                    task.name, "control tasks are not imported", task.span, help_text
                )
            elif task.graph is None:
                for direction, name in task.ports:
                    if (way, direction, name) not in self.tokens and not (
                        direction == "in" and self.released.get(way)
                    ):
                        what = "nothing is connected to this port: it is left out"
                        self.say.warn_together(
                            f"{task.name}.{name}", what, task.ports[direction, name].span
                        )

    # -- apps --------------------------------------------------------------------------------------
    def _components(self) -> list[tuple[str, ...]]:
        """Connected tasks on the top level without control tasks, in the order of the file."""
        firing = {way[0] for way, t in self.tasks.items() if t.kind in ("task", "network")}
        names = [n for n in self.graph.tasks if n in firing]
        group = {n: n for n in names}
        for link in self.links:
            first, second = group[link.up[-1][0][0]], group[link.down[-1][0][0]]
            for name, of in group.items():
                if of == second:
                    group[name] = first
        parts: dict[str, list[str]] = defaultdict(list)
        for name in names:
            parts[group[name]].append(name)
        return [tuple(part) for part in parts.values()]

    def _group(self, names: tuple[str, ...]) -> ConnectedTasks:
        members = {}
        for w, t in self.tasks.items():
            if w[0] in names and t.kind != "control":
                members[w] = t
        firings = self._firings(members)
        period = self._period(members, firings)
        deadline = None
        if period:
            deadline = self._deadline(members, firings, period)
        priorities = []
        for t in members.values():
            if t.graph is None:
                priorities.append(t.priority)
        return ConnectedTasks(names, period, deadline, max(priorities))

    def _firings(self, members: Mapping[Way, HopesTask]) -> dict[Way, int]:
        """Firings in an iteration; of a composite, as often as everything inside of it repeats."""
        firings = {w: self.counts.total[w] for w in members if w in self.counts.total}
        for way, task in members.items():
            if task.graph is not None and task.loop is None:
                inside = [n for w, n in firings.items() if w[: len(way)] == way]
                firings[way] = gcd(*inside) or 1
        return firings

    def _deadline(
        self, members: Mapping[Way, HopesTask], firings: dict[Way, int], period: Fraction
    ) -> Fraction | None:
        """The earliest deadline in an iteration, if it is before the end of the period.

        Deadlines of HOPES are those of a firing: the last one of an iteration has to end then.
        """
        due = {}
        for way, task in members.items():
            if task.deadline_ns is not None:
                due[way] = period * (firings[way] - 1) / firings[way] + task.deadline_ns
        deadline = min(due.values(), default=None)
        if deadline is not None and deadline > period:
            late = next(members[way] for way, until in due.items() if until == deadline)
            self.say.warn_together(late.name, "a deadline beyond the period is left out", late.span)
        if deadline and deadline < period:
            return deadline
        return None

    def _period(self, members: dict[Way, HopesTask], firings: dict[Way, int]) -> Fraction | None:
        """The period of one iteration: that of time-driven tasks, else of control tasks that
        release others, else of any."""
        stated = _stated(members, firings)
        chosen = stated.driven or self._of_control(members, firings) or stated.hints
        if not chosen:
            return None
        if chosen is not stated.hints and not self.graph.process_network:
            self._check_same(chosen)
        period = max(p for _, p in chosen)
        self._tell_left_out(period, [*stated.hints, *stated.inner, *chosen])
        return period

    def _of_control(self, members: Iterable[Way], firings: dict[Way, int]) -> list[Period]:
        """Periods of the control tasks that release members."""
        return [
            (self.tasks[way], task.period_ns * ratio * firings[way])
            for way in members
            for task, ratio in self.released.get(way, [])
            if task.time_driven and task.period_ns is not None
        ]

    def _check_same(self, chosen: list[Period]) -> None:
        first, expected = chosen[0]
        for task, period in chosen:
            if period != expected:
                message = (
                    f"the periods of {shown(first.name)} and {shown(task.name)} do not fit: an"
                    f" iteration takes {_ms(expected)} by the one and {_ms(period)} by the other"
                )
                help_text = "connected tasks have one period; check the rates"
                self.say.fault(message, task.span, help_text)
                return

    def _tell_left_out(self, period: Fraction, periods: list[Period]) -> None:
        others = list(dict.fromkeys((t.name, p, t.span) for t, p in periods if p != period))
        if others:
            _, other, span = others[0]
            names = listed((name for name, *_ in others), 4)
            self.say.warn(
                f"{names}: a period of {_ms(other)} an iteration is left out",
                span,
                f"the app has {_ms(period)}; these tasks wait for data anyway",
            )


def _whole_firings(giver: HopesPort, takers: list[HopesPort], channels: set[int]) -> set[int]:
    """The statements about sizes that are those of a whole firing; `channels` are sizes that no
    port states."""
    whole = set()
    for taker in takers:
        if taker.rate > 1 and taker.size == taker.rate * giver.size:
            whole.add(taker.size)
        if giver.rate > 1 and giver.size == giver.rate * taker.size:
            whole.add(giver.size)
    ports = [giver, *takers]
    rates = {port.rate for port in ports if port.rate > 1}
    firings = {rate * port.size for rate in rates for port in ports}
    return whole | (channels & firings)


#: The period of an iteration, in ns, by what a task says.
Period = tuple[HopesTask, Fraction]


@dataclass(frozen=True, slots=True)
class _Stated:
    """Periods that tasks state: those of time-driven ones, of such inside of time-driven
    composites, which follow these, and of others."""

    driven: list[Period]
    inner: list[Period]
    hints: list[Period]


def _stated(members: Mapping[Way, HopesTask], firings: Mapping[Way, int]) -> _Stated:
    leading = {way for way, t in members.items() if t.time_driven and t.period_ns is not None}
    driven: list[Period] = []
    stated = _Stated([], [], [])
    for way, task in members.items():
        if task.period_ns is None:
            continue
        period = task, task.period_ns * firings[way]
        if not task.time_driven:
            stated.hints.append(period)
        elif any(way[:n] in leading for n in range(1, len(way))):
            stated.inner.append(period)
        else:
            driven.append(period)
    return replace(stated, driven=[each for each in driven if each not in stated.inner])


def _ms(ns: Fraction) -> str:
    return f"{float(ns / 1_000_000):g} ms"
