"""Counts: which tokens of an app may be missing, because a firing writes `up to` so many.

In: an application. Out: for each of its channels the count on which the tokens depend, and faults.

A port with a rate `up to N` moves N tokens at each firing in all analyses. Those that a firing does
not write are null tokens: they are there, and take no time. A task that reads such tokens one by
one does not fire for a null token, and hands on null tokens. So the graph has the rates of N, and
execution times between zero and their worst cases. Static orders and self-timed executions are
monotone in these times, and response times hold for all times up to the worst ones: bounds,
periods and buffers of the graph with N hold for any counts.

Requests that an app takes in batches are a count as well, and the only one inside of which others
may lie: a task that fires for each request may write a list, and one that reads such a list fires
for each request again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...model.application import REQUESTS, Application, Channel, Port, Task
from ...model.diagnostic import Diagnostic, Note

#: What to do where requests would see each other.
BY_THEMSELVES = "each request is by itself: what lasts from one to the next is the state of a task"


@dataclass(frozen=True, slots=True)
class Count:
    """How many tokens a firing of `task` has written: `name` is that of the count, and `slots` are
    the most tokens that came of them. `port` is where it begins; `outer` are the requests of a
    batch, where each of them has a count like this one."""

    task: str
    name: str
    slots: int
    port: Port
    outer: Count | None = None

    @property
    def origin(self) -> tuple[str, str]:
        """What tells counts apart, however many tokens came of each. All ends by which an app takes
        requests in batches have one."""
        return ("" if self.of_requests else self.task), self.name

    @property
    def of_requests(self) -> bool:
        """Are these the requests of a batch?"""
        return self.name == REQUESTS

    @property
    def each(self) -> int:
        """The most tokens that came of one request."""
        return self.slots // self.port.rates[0]


@dataclass(frozen=True, slots=True)
class Counts:
    """`channels` are those whose tokens may be missing; `tasks` are those that do not fire for
    missing ones."""

    channels: dict[str, Count]
    tasks: dict[str, Count]
    faults: tuple[Diagnostic, ...]


def counts_of(app: Application) -> Counts:
    """The counts of an app that balances."""
    if not any(task.list_ports for task in app.tasks):
        return Counts({}, {}, ())
    return _Spread(app).found()


class _Spread:
    """Follows counts along the channels of an app."""

    def __init__(self, app: Application) -> None:
        self._tasks = {task.name: task for task in app.tasks}
        self._into: dict[str, list[Channel]] = {task.name: [] for task in app.tasks}
        self._from: dict[str, list[Channel]] = {task.name: [] for task in app.tasks}
        for channel in app.channels:
            self._into[channel.destination].append(channel)
            self._from[channel.source].append(channel)
        self._channels: dict[str, Count] = {}
        self._inside: dict[str, Count] = {}
        self._faults: dict[tuple[str, str], Diagnostic] = {}

    def found(self) -> Counts:
        """Every task hands on its counts, again when those before it have become known."""
        waiting = deque(self._tasks)
        while waiting:
            name = waiting.popleft()
            for channel in self._hand_on(self._tasks[name]):
                if channel.destination not in waiting:
                    waiting.append(channel.destination)
        for name in self._tasks:
            for fault in self._wrong(self._tasks[name]):
                self._faults.setdefault((fault.code, fault.message), fault)
        return Counts(self._channels, self._inside, tuple(self._faults.values()))

    def _hand_on(self, task: Task) -> Iterator[Channel]:
        """Note the counts of what a task writes; the channels for which that is new."""
        by_name = self._collected(task)
        inside = next(self._one_by_one(task), None)
        if inside is None:  # it fires for each request of which it reads a list
            inside = next((c.outer for c in by_name.values() if c.outer is not None), None)
        if inside is not None:
            self._inside[task.name] = inside
        for channel in self._from[task.name]:
            port = task.port(channel.source_port)
            count: Count | None = None
            if port.count:
                origin = by_name.get(port.count)
                outer = inside and replace(inside, slots=self._firings(task, inside))
                count = Count(task.name, port.count, port.rates[0], port, outer)
                if origin is not None and origin.slots == port.rates[0]:
                    count = origin
            elif inside is not None:
                count = replace(inside, slots=self._firings(task, inside) * port.rates[0])
            if count is not None and self._channels.get(channel.name) != count:
                self._channels[channel.name] = count
                yield channel

    def _firings(self, task: Task, inside: Count) -> int:
        """The most firings of a task that depend on a count."""
        for channel in self._into[task.name]:
            port = task.port(channel.destination_port)
            count = self._channels.get(channel.name)
            if count is not None and not port.count:
                return count.slots // port.rates[0]
        return inside.slots

    def _collected(self, task: Task) -> dict[str, Count]:
        """The counts that a task reads whole, by the names that it gives them."""
        found = {}
        for channel in self._into[task.name]:
            port = task.port(channel.destination_port)
            if port.count and channel.name in self._channels:
                found[port.count] = self._channels[channel.name]
        return found

    def _one_by_one(self, task: Task) -> Iterator[Count]:
        """The counts of which a task reads one token at each firing."""
        for channel in self._into[task.name]:
            if not task.port(channel.destination_port).count and channel.name in self._channels:
                yield self._channels[channel.name]

    # -- what has no meaning -----------------------------------------------------------------------
    def _wrong(self, task: Task) -> Iterator[Diagnostic]:
        yield from self._unequal_ports(task)
        yield from self._code(task)
        for channel in self._into[task.name]:
            count = self._channels.get(channel.name)
            if count is not None:
                port = task.port(channel.destination_port)
                yield from self._channel(channel, count)
                yield from self._whole(channel, port, count) if port.count else ()
        if task.name in self._inside:
            yield from self._between(task)

    def _unequal_ports(self, task: Task) -> Iterator[Diagnostic]:
        """Ports that share a count need the same limit."""
        first: dict[str, Port] = {}
        for port in (*task.inputs, *task.outputs):
            other = first.setdefault(port.count, port)
            if port.count and other.rates != port.rates:
                message = (
                    f"`{port.name}` has up to {port.rates[0]} tokens, and `{other.name}`, which has"
                    f" the same count, up to {other.rates[0]}"
                )
                help_text = "write the same number at both, or another name behind `by`"
                notes = (Note("the other port", other.span),)
                yield Diagnostic("F221", message, port.span, notes=notes, help=help_text)

    def _code(self, task: Task) -> Iterator[Diagnostic]:
        """Lists of tokens are read and written by Python."""
        counted = next(iter(task.list_ports), None)
        other = next((i for i in task.implementations if i.language != "python"), None)
        if counted is not None and other is not None:
            message = f"`{counted.name}` has a rate `up to`, which only Python code can have"
            help_text = (
                "let a task in Python write or read them; what fires for each of them may be in C"
            )
            yield Diagnostic("F222", message, other.span, help=help_text)

    def _channel(self, channel: Channel, count: Count) -> Iterator[Diagnostic]:
        if channel.delay:
            message = f"tokens of `{_short(count.task)}` that may be missing cannot be delayed"
            help_text = "put the `delay` where all of them are read by a port with `up to`"
            if count.of_requests:
                help_text = BY_THEMSELVES
            yield Diagnostic("F220", message, channel.span, help=help_text)

    def _whole(self, channel: Channel, port: Port, count: Count) -> Iterator[Diagnostic]:
        """A port that reads all tokens of a count has room for all of them."""
        if port.rates[0] != count.slots:
            message = (
                f"`{_short(channel.destination)}.{port.name}` reads up to {port.rates[0]} tokens,"
                f" and `{_short(count.task)}` leads to up to {count.slots}"
            )
            notes = (Note("the count begins here", count.port.span),)
            help_text = f"write `rate up to {count.slots}`"
            yield Diagnostic("F221", message, port.span, notes=notes, help=help_text)

    def _between(self, task: Task) -> Iterator[Diagnostic]:
        """A task that fires for the tokens that are there."""
        counts = list(self._one_by_one(task)) or [self._inside[task.name]]
        begin = (Note("the count begins here", counts[0].port.span),)
        name = _short(task.name)
        others = {c.origin: c for c in counts if c.origin != counts[0].origin}
        for other in others.values():
            message = (
                f"`{name}` reads tokens of `{_short(counts[0].task)}` and of"
                f" `{_short(other.task)}`, whose counts may differ"
            )
            help_text = (
                "if one task writes both, give its ports one count: `rate up to N by n`; else read"
                " each of them whole, with `up to`"
            )
            notes = (*begin, Note("and the other one here", other.port.span))
            yield Diagnostic("F221", message, task.span, notes=notes, help=help_text)
        reason = self._not_one_by_one(task)
        if reason:
            message = f"`{name}` reads tokens that may be missing, and {reason}"
            help_text = (
                "between a port that writes `up to` and one that reads `up to`, a task fires for"
                " each token that is there"
            )
            if counts[0].of_requests:
                help_text = BY_THEMSELVES
            yield Diagnostic("F220", message, task.span, notes=begin, help=help_text)

    def _not_one_by_one(self, task: Task) -> str:
        """Why a task cannot fire for each token that is there; empty if it can."""
        of_requests = self._inside[task.name].of_requests
        if task.resampling is not None and not of_requests:
            return f"`{task.resampling.word}` needs all of them"
        if task.border is not None and not of_requests:
            return "an open end takes one in each frame: write `rate up to` there as well"
        for channel in self._into[task.name]:
            port = task.port(channel.destination_port)
            if port.count or channel.name not in self._channels:
                continue
            if port.window:
                return f"`{port.name}` has a window"
            if port.rates != (1,) and not (of_requests and self._of_one_request(port, channel)):
                return f"`{port.name}` takes {_taken(port)} at a time"
        for port in (*task.inputs, *task.outputs):
            if port.count and not of_requests:
                return f"`{port.name}` has a count of its own"
            if len(port.rates) > 1:
                return f"`{port.name}` has phases"
        return ""

    def _of_one_request(self, port: Port, channel: Channel) -> bool:
        """Does a firing take tokens of one request only?"""
        return len(port.rates) == 1 and self._channels[channel.name].each % port.rates[0] == 0


def _taken(port: Port) -> str:
    return "a list of rates" if len(port.rates) > 1 else f"{port.rates[0]} tokens"


def _short(task: str) -> str:
    return task.partition(".")[2]
