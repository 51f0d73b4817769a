"""The three verdicts of every app, and the diagnostics they lead to.

*Consistent*: rates balance. *Deadlock-free*: an iteration can complete. *Schedulable*: the period can be kept, as far
as it can be known without a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ...model.application import Application, Channel
from ...model.diagnostic import Diagnostic, Note, Severity
from ...model.verdict import AppVerdicts, Verdict
from .graph import Graph, Part, cyclic_parts, graph_of, part
from .latency import latency, sources_and_sinks
from .liveness import Deadlock, TooManySteps, Wait, deadlock, fewest_tokens
from .repetition import Conflict, Repetition, repetition
from .throughput import Deadlocked, is_live, least_period, without_serial
from .unfinished import Unfinished

#: Seconds for a proof by schedule.
PROOF_SECONDS = 2.0
#: Where an iteration has more firings, a schedule is looked for before it is executed.
MANY_FIRINGS = 20_000
#: Blocked tasks shown beside those of the ring.
MOST_WITNESSES = 6


def check(
    app: Application, given: Mapping[str, tuple[Fraction, ...]] | None = None
) -> tuple[AppVerdicts, tuple[Diagnostic, ...]]:
    """Verdicts of one app, each with its witness.

    `given` are worst-case times in ns, per phase or one for all, that hold instead of the declared ones.
    """
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
        schedulable, late = _schedulable(app, balance, given or {})
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
    return Diagnostic("F203", "these rates cannot balance", c.span, label=label, notes=tuple(notes), help=help_text)


def _deadlock(app: Application, balance: Repetition) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    """Only cycles can block: each strongly connected component is executed on its own."""
    faults = []
    undecided: list[str] = []
    graph = graph_of(app, balance.vector, overlap=True)
    for component in cyclic_parts(graph):
        inner = component.graph
        count = sum(inner.firings)
        live = _by_schedule(app, balance, component) if count > MANY_FIRINGS else False
        if live is True:
            continue
        try:
            found = deadlock(inner)
        except TooManySteps:
            if isinstance(live, Deadlocked):
                faults.append(_blocked_later(app, live))
            else:
                undecided.append(f"one iteration of a cycle has {count} firings, too many to execute them all")
            continue
        if found is not None:
            faults.append(_blocked(app, inner, found))
    if faults:
        return Verdict(False, faults[0].message), tuple(faults)
    if undecided:
        warning = Diagnostic("F213", f"deadlock is not decided: {undecided[0]}", app.span, severity="warning")
        return Verdict(None, undecided[0]), (warning,)
    return Verdict(True, "one iteration completes and returns every channel to its initial tokens"), ()


def _by_schedule(app: Application, balance: Repetition, component: Part) -> bool | Deadlocked:
    """True when a periodic schedule of tasks that fire one at a time proves that they never block, or the opposite."""
    graph = graph_of(app, balance.vector)
    serial = [i for i, e in enumerate(graph.edges) if e.kind == "serial" and e.source in set(component.tasks)]
    inner = part(graph, component.tasks, [*component.edges, *serial]).graph
    try:
        return is_live(inner, seconds=PROOF_SECONDS)
    except Deadlocked as proof:
        return Deadlocked(component.tasks[t] for t in proof.tasks)


def _blocked_later(app: Application, proof: Deadlocked) -> Diagnostic:
    names = ", ".join(f"`{_short(app.tasks[t].name)}`" for t in proof.tasks)
    message = f"too few initial tokens: after many firings {names or 'tasks of a cycle'} block each other"
    span = app.tasks[proof.tasks[0]].span if proof.tasks else app.span
    return Diagnostic("F204", message, span, help="put more initial tokens on the cycle that they are on")


def _blocked(app: Application, graph: Graph, found: Deadlock) -> Diagnostic:
    """The ring of tasks that wait for each other, who else waits, and the fewest initial tokens that help."""

    def place(wait: Wait) -> tuple[str, Channel]:
        return _short(graph.names[wait.task]), app.channels[graph.edges[wait.edge].channel]

    chain = [_short(graph.names[w.task]) for w in reversed(found.cycle)]
    ring = {w.task for w in found.cycle}
    others = [w for w in found.blocked if w.task not in ring]
    notes = []
    for wait in (*found.cycle, *others[:MOST_WITNESSES]):
        name, channel = place(wait)
        have = f"has {channel.delay} initial" if channel.delay else "has no initial tokens"
        also = "" if wait.task in ring else " too"
        notes.append(
            Note(f"`{name}` waits for {_tokens(wait.missing, 'more ')} here{also}; the arrow {have}", channel.span)
        )
    if any(place(w)[1].delay for w in found.cycle):
        message = f"too few initial tokens on the cycle {' -> '.join([*chain, chain[0]])}"
    else:
        message = f"a cycle without initial tokens: {' -> '.join([*chain, chain[0]])}"
    return Diagnostic(
        "F204", message, notes[0].span, label=notes[0].message, notes=tuple(notes[1:]), help=_cure(app, graph)
    )


def _cure(app: Application, graph: Graph) -> str:
    try:
        cure = fewest_tokens(graph)
    except TooManySteps:
        return "put initial tokens on one of these arrows (how many is not computed: an iteration is too long)"
    arrows = []
    for edge, more in sorted(cure.tokens.items(), key=lambda item: graph.edges[item[0]].channel):
        c = app.channels[graph.edges[edge].channel]
        source, target = f"{_short(c.source)}.{c.source_port}", f"{_short(c.destination)}.{c.destination_port}"
        arrows.append(
            f"`{source} -> delay {c.delay + more} -> {target}`" + (f" (now `delay {c.delay}`)" if c.delay else "")
        )
    total = sum(cure.tokens.values())
    least = "the fewest that help" if cure.least else "these help, though fewer may do"
    return f"add {_tokens(total, 'initial ')}, {least}: {' and '.join(arrows)}"


def _tokens(count: int, kind: str) -> str:
    return f"{count} {kind}token{'' if count == 1 else 's'}"


def _schedulable(
    app: Application, balance: Repetition, given: Mapping[str, tuple[Fraction, ...]]
) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    if app.period_ns is None:
        return Verdict(True, "no period is asked for; buffers are bounded"), ()
    work: dict[str, Fraction] = {}
    times = {t.name: given.get(t.name, t.wcet_ns) for t in app.tasks}
    for name, ns in times.items():
        if ns:
            work[name] = sum(ns, Fraction(0)) / len(ns) * balance.vector[name]
    for task in app.tasks:
        if task.name in work and work[task.name] > app.period_ns and not task.replicable:
            message = (
                f"`{_short(task.name)}` takes {_ms(work[task.name])} per iteration, "
                f"longer than the period of {_ms(app.period_ns)}"
            )
            help_text = "its firings follow each other: ask for a longer period, or split the task"
            return Verdict(False, message), (Diagnostic("F211", message, task.span, help=help_text),)
    # What nobody knows takes no time here: what is impossible then is impossible.
    least = graph_of(app, balance.vector, {name: ns or (Fraction(0),) for name, ns in times.items()})
    free = without_serial(least, {i for i, t in enumerate(app.tasks) if t.replicable})
    last = max((_last_release(app, least.firings[t]) for t in sources_and_sinks(least)[0]), default=Fraction(0))
    total = sum(work.values(), Fraction(0))
    # As if all work of an iteration came with its last release: the iteration before is done by then.
    one_is_enough = total <= app.period_ns and last + total <= (app.deadline_ns or app.period_ns)
    if not one_is_enough:
        late = _cycle_too_slow(app, free) if work else None
        if late is None and (work or last):
            late = _deadline_too_short(app, free)
        if late is not None:
            return Verdict(False, late.message), (late,)
    if len(work) < len(app.tasks):
        return Verdict(None, "times are not known: give `wcet`, or map and measure"), ()
    if one_is_enough:
        return Verdict(True, f"one processor is enough: {_ms(total)} of work in {_ms(app.period_ns)}"), ()
    return Verdict(None, f"{_ms(total)} of work in {_ms(app.period_ns)}: it depends on the mapping"), ()


def _last_release(app: Application, firings: int) -> Fraction:
    """When the last firing of a source is released, from the start of an iteration."""
    assert app.period_ns is not None
    return app.period_ns * (firings - 1) / firings


def _deadline_too_short(app: Application, graph: Graph) -> Diagnostic | None:
    """The longest path from a release to the end of the last sink takes longer than the deadline on any mapping."""
    assert app.period_ns is not None
    due = app.deadline_ns or app.period_ns
    try:
        found = latency(graph, app.period_ns * graph.per_ns, spaced=True, seconds=PROOF_SECONDS)
    except Unfinished:
        return None
    if graph.ns(found.longest) <= due:
        return None
    message = (
        f"on any mapping `{_short(graph.names[found.sink])}` may end {_ms(graph.ns(found.longest))} after the release "
        f"of an iteration: the {'period' if app.deadline_ns is None else 'deadline'} is {_ms(due)}"
    )
    help_text = f"ask for a deadline of {_ms(graph.ns(found.longest))} or more"
    # Who says no deadline may mean a pipeline: it runs, though no iteration ends within its period.
    severity: Severity = "warning" if app.deadline_ns is None else "error"
    return Diagnostic("F216", message, app.span, help=help_text, severity=severity)


def _cycle_too_slow(app: Application, graph: Graph) -> Diagnostic | None:
    """A cycle of tasks that no mapping can run at the period: the least period of the graph is above it."""
    assert app.period_ns is not None
    found = least_period(graph, seconds=PROOF_SECONDS)
    if graph.ns(found.lower) <= app.period_ns:
        return None
    names = list(dict.fromkeys(_short(graph.names[s.task]) for s in found.cycle))
    message = (
        f"the cycle {' -> '.join([*names, names[0]])} takes {_ms(graph.ns(found.lower))} per iteration, "
        f"longer than the period of {_ms(app.period_ns)}"
    )
    channel = next(graph.edges[s.edge].channel for s in found.cycle if graph.edges[s.edge].channel >= 0)
    help_text = "ask for a longer period, or put more initial tokens on the cycle so that iterations overlap"
    return Diagnostic("F211", message, app.channels[channel].span, help=help_text)


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
            found.append(Diagnostic("F211", message, task.span, help="expect missed deadlines", severity="warning"))
    total = sum(work.values())
    if not found and total > cores * period:
        message = f"`{app.name}` was measured at {total / 1e6:.3g} ms of work per iteration; {asked}, on {cores} cores"
        found.append(Diagnostic("F211", message, app.span, help="expect missed deadlines", severity="warning"))
    return found
