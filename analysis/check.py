"""The three verdicts of every app, and the diagnostics they lead to.

*Consistent*: rates balance. *Deadlock-free*: an iteration can complete. *Schedulable*: the period can be kept, as far
as it can be known without a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from ..model.application import Application, Channel, Task
from ..model.diagnostic import Diagnostic, Note
from ..model.verdict import AppVerdicts, Verdict
from .order import Order, TooLong, components, iteration_order
from .repetition import Conflict, Repetition, repetition


def check(app: Application) -> tuple[AppVerdicts, tuple[Diagnostic, ...]]:
    """Verdicts of one app, each with its witness."""
    undecided = Verdict(None, "not decided: rates do not balance")
    balance = repetition(app)
    if balance.conflict is not None:
        fault = _unbalanced(app, balance.conflict)
        return AppVerdicts(Verdict(False, fault.message), undecided, undecided, {}), (fault,)
    consistent = Verdict(True, "every channel balances with this repetition vector")
    live, faults = _deadlock(app, balance)
    if live.holds is not True:
        schedulable = Verdict(live.holds, live.witness)
    else:
        schedulable, late = _schedulable(app, balance)
        faults += late
    return AppVerdicts(consistent, live, schedulable, balance.vector), faults


def _short(task: str) -> str:
    return task.partition(".")[2]


def _unbalanced(app: Application, conflict: Conflict) -> Diagnostic:
    tasks = {t.name: t for t in app.tasks}
    c = conflict.channel
    of, reference = _short(conflict.of), _short(conflict.reference)
    notes = []
    other = next((t for t in reversed(conflict.tree) if conflict.of in (t.source, t.destination)), None)
    if other is not None:
        notes.append(Note(f"asks for {of} = {conflict.given} x {reference}", other.span))
    help_text = ""
    into_destination = conflict.of == c.destination
    port = tasks[conflict.of].port(c.destination_port if into_destination else c.source_port)
    if len(port.rates) == 1:
        # With q(of) = given x q(reference), this port's rate must scale by demanded / given.
        rate = port.rates[0] * conflict.demanded / conflict.given
        if rate.denominator == 1:
            help_text = f"give `{tasks[conflict.of].definition}.{port.name}` rate {rate}"
    label = f"asks for {of} = {conflict.demanded} x {reference}"
    return Diagnostic("F203", "these rates cannot balance", c.span, label, tuple(notes), help_text)


def _deadlock(app: Application, balance: Repetition) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    """Only cycles can block: each strongly connected component is executed on its own."""
    faults = []
    undecided: list[str] = []
    for part in _cyclic_parts(app):
        try:
            order = iteration_order(part, {t.name: balance.vector[t.name] for t in part.tasks})
        except TooLong as reason:
            undecided.append(str(reason))
            continue
        if order.blocked:
            faults.append(_blocked(app, order))
    if faults:
        return Verdict(False, faults[0].message), tuple(faults)
    if undecided:
        warning = Diagnostic("F213", f"deadlock is not decided: {undecided[0]}", app.span, severity="warning")
        return Verdict(None, undecided[0]), (warning,)
    return Verdict(True, "one iteration completes and returns every channel to its initial tokens"), ()


def _cyclic_parts(app: Application) -> list[Application]:
    """Each strongly connected component as an app of its own: one pass over the whole, however many there are."""
    parts = components(app)
    home = {name: i for i, part in enumerate(parts) for name in part}
    tasks: list[list[Task]] = [[] for _ in parts]
    channels: list[list[Channel]] = [[] for _ in parts]
    for t in app.tasks:
        if t.name in home:
            tasks[home[t.name]].append(t)
    for c in app.channels:
        if c.source in home and home[c.source] == home.get(c.destination):
            channels[home[c.source]].append(c)
    return [replace(app, tasks=tuple(ts), channels=tuple(cs)) for ts, cs in zip(tasks, channels, strict=True)]


def _blocked(app: Application, order: Order) -> Diagnostic:
    chain = [_short(b.task) for b in reversed(order.blocked)]
    cycle = " -> ".join([*chain, chain[0]])
    worst = max(order.blocked, key=lambda b: b.channel.delay)
    notes = []
    for b in order.blocked:
        have = f"has {b.channel.delay} initial" if b.channel.delay else "has no initial tokens"
        plural = "token" if b.missing == 1 else "tokens"
        notes.append(
            Note(f"`{_short(b.task)}` waits for {b.missing} more {plural} here; the arrow {have}", b.channel.span)
        )
    closing = order.blocked[0]
    if any(b.channel.delay for b in order.blocked):
        help_text = f"raise `delay {worst.channel.delay}` to `delay {worst.channel.delay + worst.missing}` or more"
        message = f"too few initial tokens on the cycle {cycle}"
    else:
        task = next(t for t in app.tasks if t.name == closing.task)
        need = max(task.port(closing.channel.destination_port).rates)
        c = closing.channel
        source = f"{_short(c.source)}.{c.source_port}"
        target = f"{_short(c.destination)}.{c.destination_port}"
        help_text = f"put initial tokens on it, for example `{source} -> delay {need} -> {target}`"
        message = f"a cycle without initial tokens: {cycle}"
    return Diagnostic("F204", message, notes[0].span, notes[0].message, tuple(notes[1:]), help_text)


def _schedulable(app: Application, balance: Repetition) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    if app.period_ns is None:
        return Verdict(True, "no period is asked for; buffers are bounded"), ()
    work: dict[str, Fraction] = {}
    for task in app.tasks:
        if task.wcet_ns:
            per_cycle = sum(task.wcet_ns, Fraction(0)) / len(task.wcet_ns)
            work[task.name] = per_cycle * balance.vector[task.name]
    for task in app.tasks:
        if task.name in work and work[task.name] > app.period_ns and not task.replicable:
            message = (
                f"`{_short(task.name)}` takes {_ms(work[task.name])} per iteration, "
                f"longer than the period of {_ms(app.period_ns)}"
            )
            help_text = "its firings follow each other: ask for a longer period, or split the task"
            return Verdict(False, message), (Diagnostic("F211", message, task.span, "", (), help_text),)
    if len(work) < len(app.tasks):
        return Verdict(None, "times are not known: give `wcet`, or map and measure"), ()
    total = sum(work.values(), Fraction(0))
    if total <= min(app.period_ns, app.deadline_ns or app.period_ns):
        return Verdict(True, f"one processor is enough: {_ms(total)} of work in {_ms(app.period_ns)}"), ()
    return Verdict(None, f"{_ms(total)} of work in {_ms(app.period_ns)}: it depends on the mapping"), ()


def _ms(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:.6g} ms"


def measured_too_slow(
    app: Application, vector: Mapping[str, int], firing_ns: Mapping[str, float], cores: int
) -> list[Diagnostic]:
    """Warnings where measured times cannot keep the period on any mapping to so many CPUs."""
    if app.period_ns is None:
        return []
    period = float(app.period_ns)
    asked = f"the period is {_ms(app.period_ns)}"
    work = {t.name: firing_ns.get(t.name, 0.0) * vector[t.name] for t in app.tasks}
    found = []
    for task in app.tasks:
        if work[task.name] > period and not task.replicable:
            message = f"`{_short(task.name)}` was measured at {work[task.name] / 1e6:.3g} ms per iteration; {asked}"
            found.append(Diagnostic("F211", message, task.span, "", (), "expect missed deadlines", "warning"))
    total = sum(work.values())
    if not found and total > cores * period:
        message = f"`{app.name}` was measured at {total / 1e6:.3g} ms of work per iteration; {asked}, on {cores} cores"
        found.append(Diagnostic("F211", message, app.span, "", (), "expect missed deadlines", "warning"))
    return found
