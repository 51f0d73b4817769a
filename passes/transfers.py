"""Arrows from machine to machine become transfers: tasks on the link between them.

In: apps, a platform of several machines, and pins. Out: the same apps where each port that is read
on another machine has a task `App.task.port->MACHINE` behind it, pinned to the link, with the
transfer time of its tokens. So checks, analyses, searches and programs see only tasks and
processors. Arrows of a task without a place are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ..analysis.dataflow.repetition import repetition
from ..model.application import Application, Channel, Port, Task, Transfer
from ..model.diagnostic import Diagnostic, Note, listed
from ..model.mapping import Pin, PinStage
from ..model.platform import Platform, Wire
from ..model.supports import refusal
from ..model.system import System
from ..model.transfers import machines_of
from .staged import Staged


@dataclass(frozen=True, slots=True)
class Transfers:
    """Put all known transfers between machines on their links."""

    def __call__(self, staged: Staged) -> Staged:
        system, faults = with_transfers(staged.system, staged.platform)
        return replace(staged, system=system, diagnostics=(*staged.diagnostics, *faults))


def with_transfers(system: System, platform: Platform) -> tuple[System, tuple[Diagnostic, ...]]:
    """The system with the transfers between machines of pinned tasks, and the faults."""
    if not platform.machines:
        return system, ()
    pins = {p.task: p for p in system.pins if p.platform == platform.name}
    placed = {name: p.stages[0].processors for name, p in pins.items()}
    machine_of = platform.machine_of
    faults = [*_unsupported(system, platform), *_shared(pins.values(), machine_of)]
    apps: list[Application] = []
    new: list[Pin] = []
    ends: dict[str, list[tuple[str, Task]]] = {}
    for app in system.apps:
        where = machines_of(app, machine_of, placed)
        for task in app.tasks:
            if task.link is not None and task.name in where:
                ends.setdefault(task.link.name, []).append((where[task.name], task))
        crossing = _Crossing(app, platform, where)
        apps.append(crossing.app())
        new += crossing.pins
        faults += crossing.faults
    faults += _links_across(ends)
    linked = replace(system, apps=tuple(apps), pins=(*system.pins, *new))
    faults += _overloaded(linked, platform)
    return linked, tuple(dict.fromkeys(faults))


def _links_across(ends: Mapping[str, list[tuple[str, Task]]]) -> Iterator[Diagnostic]:
    """Links between apps whose ends, by name with their machines, are not on one machine."""
    for name, tasks in ends.items():
        machines = {machine for machine, _ in tasks}
        if len(machines) > 1:
            words = {
                "link": name,
                "machines": listed(sorted(machines)),
            }
            yield refusal("`latest`, `drop oldest`", "parts").at(tasks[0][1].span, words)


def _unsupported(system: System, platform: Platform) -> Iterator[Diagnostic]:
    if system.scenario is not None:
        words = {"platform": platform.name}
        yield refusal("states", "parts").at(system.scenario.span, words)


def _shared(pins: Iterable[Pin], machine_of: Mapping[str, str]) -> Iterator[Diagnostic]:
    for pin in pins:
        for stage in pin.stages:
            machines = {machine_of[p] for p in stage.processors if p in machine_of}
            if len(machines) > 1:
                words = {
                    "task": pin.task,
                    "machines": listed(sorted(machines)),
                }
                yield refusal("a task on several machines", "parts").at(stage.span, words)


class _Crossing:
    """The transfers of one app."""

    def __init__(self, app: Application, platform: Platform, where: Mapping[str, str]) -> None:
        self._app, self._platform, self._where = app, platform, where
        self._by_name = {t.name: t for t in app.tasks}
        self._tasks: dict[str, Task] = {}
        self.pins: list[Pin] = []
        self.faults: list[Diagnostic] = []

    def app(self) -> Application:
        """The app with them."""
        carriers = {t.name for t in self._app.tasks if t.transfer is not None}
        channels: list[Channel] = []
        for c in self._app.channels:
            if c.source in carriers or c.destination in carriers:
                channels.append(c)
            else:
                channels += self._across(c)
        unique = tuple({c.name: c for c in channels}.values())
        if unique == self._app.channels:
            return self._app
        return replace(self._app, tasks=(*self._app.tasks, *self._tasks.values()), channels=unique)

    def _across(self, channel: Channel) -> tuple[Channel, ...]:
        here, there = self._where.get(channel.source), self._where.get(channel.destination)
        if here is None or there is None or here == there:
            return (channel,)
        source = self._by_name[channel.source]
        port = source.port(channel.source_port)
        wire = self._platform.wire(here, there)
        if wire is None:
            self.faults.append(self._no_link(channel, here, there))
            return (channel,)
        feature = _unsendable(source, port)
        if feature:
            words = {
                "task": channel.source,
                "port": port.name,
                "reader": channel.destination,
                "here": here,
                "there": there,
            }
            self.faults.append(refusal(feature, "parts").at(source.span, words))
            return (channel,)
        name = f"{channel.source}.{channel.source_port}->{there}"
        if name not in self._tasks and name not in self._by_name:
            self._tasks[name] = _carrier(name, source, port, wire)
            stage = PinStage((wire.processor,), None, 1, source.span)
            self.pins.append(Pin(self._platform.name, name, (stage,), None, None, source.span))
        front = Channel(
            f"{channel.source}.{channel.source_port}->{name}.in",
            channel.source,
            channel.source_port,
            name,
            "in",
            0,
            (),
            channel.span,
        )
        back = f"{name}.out->{channel.destination}.{channel.destination_port}"
        return front, replace(channel, name=back, source=name, source_port="out")

    def _no_link(self, channel: Channel, here: str, there: str) -> Diagnostic:
        message = (
            f"`{channel.source}` is on `{here}`, `{channel.destination}` on `{there}`, and no"
            " link joins them"
        )
        help_text = f"add `link {here} {there} 110 MB/s 0.3 ms` to platform `{self._platform.name}`"
        note = Note("this reads it", self._by_name[channel.destination].span)
        return Diagnostic("F530", message, channel.span, notes=(note,), help=help_text)


def _unsendable(source: Task, port: Port) -> str:
    """The feature by which the tokens of a port cannot go to another machine; empty if they can."""
    if source.network is not None and source.network.moving is not None:
        return "`adapt`"
    if port.type is not None and port.type.open:
        return "sizes that data decide on"
    return ""


def _carrier(name: str, source: Task, port: Port, wire: Wire) -> Task:
    size = 0 if port.type is None else port.type.bytes
    times = tuple(wire.takes_ns(rate, size) for rate in port.rates)
    span = source.span
    taken = Port("in", "in", port.type, port.rates, port.stacked, span, count=port.count)
    made = replace(taken, name="out", direction="out")
    what = Transfer(wire.processor, wire.source, wire.destination)
    return Task(
        name,
        "transfer",
        (taken,),
        (made,),
        (),
        (),
        (),
        True,
        times,
        None,
        "",
        source.span,
        transfer=what,
    )


def _overloaded(system: System, platform: Platform) -> Iterator[Diagnostic]:
    """Report links that are too slow for periodic apps."""
    load: dict[str, Fraction] = {}
    first: dict[str, Task] = {}
    for app in system.apps:
        carriers = [(t, t.transfer) for t in app.tasks if t.transfer is not None]
        if not carriers or app.period_ns is None:
            continue
        vector = repetition(app).vector
        if not vector:
            continue
        for task, transfer in carriers:
            work = sum(task.wcet_ns, Fraction(0)) / len(task.wcet_ns) * vector[task.name]
            link = transfer.processor
            load[link] = load.get(link, Fraction(0)) + work / app.period_ns
            first.setdefault(link, task)
    for link, share in load.items():
        if share > 1:
            message = (
                f"the link `{link}` of `{platform.name}` would be busy for {float(share):.0%} of"
                " its time"
            )
            help_text = (
                "increase periods, send less, or put tasks that exchange many tokens on one machine"
            )
            yield Diagnostic("F534", message, first[link].span, help=help_text)
