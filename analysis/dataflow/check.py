"""The three verdicts of every app, and the diagnostics they lead to.

*Consistent*: rates balance. *Deadlock-free*: an iteration can complete. *Schedulable*: the period
can be kept, as far as it can be known without a mapping. With measured times that is no proof.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from ...model.application import Application, Channel, PathDeadline, Task, reached
from ...model.diagnostic import Diagnostic, Note, Severity, listed
from ...model.span import Span
from ...model.stateless import could_overlap, overlap_advice
from ...model.times import AppTimes
from ...model.verdict import AppVerdicts, Verdict
from .counts import counts_of
from .dependence import MOST_FIRINGS, Burst, DependencePath, arrivals, bursts, paths, spans
from .graph import Graph, GraphPart, cyclic_parts, graph_of, part
from .latency import latency, sources_and_sinks
from .liveness import Deadlock, MissingTokens, TooManySteps, deadlock, fewest_tokens
from .repetition import Conflict, Repetition, repetition
from .sizes import sized_faults
from .throughput import Deadlocked, is_live, least_period, without_serial
from .unfinished import Unfinished

#: Seconds for a proof by schedule.
PROOF_SECONDS = 2.0
#: Where an iteration has more firings, a schedule is looked for before it is executed.
MANY_FIRINGS = 20_000
#: Blocked tasks shown beside those of the ring.
MOST_WITNESSES = 6


def check(
    app: Application, times: AppTimes | None = None
) -> tuple[AppVerdicts, tuple[Diagnostic, ...]]:
    """Verdicts of one app, each with its witness; without `times`, by those that it declares."""
    undecided = Verdict(None, "not decided: rates do not balance")
    balance = repetition(app)
    if balance.conflict is not None:
        fault = _unbalanced(app, balance.conflict)
        return AppVerdicts(Verdict(False, fault.message), undecided, undecided, {}), (fault,)
    consistent = Verdict(True, "every channel balances with this repetition vector")
    live, faults = _deadlock(app, balance)
    faults += (*counts_of(app).faults, *sized_faults(app), *_lone_batches(app, balance))
    if live.holds is not True:
        schedulable = Verdict(live.holds, live.witness)
    else:
        schedulable, late = _schedulable(app, balance, times)
        faults += (*late, *_bursts(app, balance))
    return AppVerdicts(consistent, live, schedulable, balance.vector, _pace(app, balance)), faults


def with_measured_times(
    app: Application, verdicts: AppVerdicts, worst: AppTimes, mean: AppTimes
) -> AppVerdicts:
    """The same with what times of a profile say of the period and the deadlines, where those of the
    text do not decide about them.

    What worst cases forbid may well go right: only mean times that forbid it are a no.
    """
    runs = verdicts.consistent.holds and verdicts.deadlock_free.holds
    if not runs or verdicts.schedulable.holds is not None or worst.source != "profile":
        return verdicts
    balance = repetition(app)
    rests_on = "by worst cases of the stored profile, no proof"
    verdict, _ = _schedulable(app, balance, worst)
    if verdict == verdicts.schedulable:
        return verdicts
    if verdict.holds is False:
        at_mean, _ = _schedulable(app, balance, mean)
        if at_mean.holds is False:
            rests_on, verdict = "at mean times of the stored profile, no proof", at_mean
        else:
            rests_on = "worst cases of the stored profile do not guarantee it"
            verdict = replace(verdict, holds=None)
    measured = replace(verdict, witness=f"{rests_on}: {verdict.witness}", measured=True)
    return replace(verdicts, schedulable=measured)


def _lone_batches(app: Application, balance: Repetition) -> tuple[Diagnostic, ...]:
    """Warnings for networks that group firings, but fire once in an iteration; one for all stages
    of a network."""
    found: dict[Span, Diagnostic] = {}
    for task in app.tasks:
        network = task.network
        if network is None or network.batch == 1 or balance.vector[task.name] > 1:
            continue
        message = (
            f"`batch {network.batch}` has no effect: `{network.definition}` fires once in an"
            f" iteration of `{app.name}`"
        )
        help_text = (
            f"let a task hand over several at once (`rate {network.batch}`, and again behind the"
            " network), or leave `batch` out"
        )
        found[task.span] = Diagnostic(
            "F415", message, task.span, help=help_text, severity="warning"
        )
    return tuple(found.values())


def _pace(app: Application, balance: Repetition) -> dict[str, Fraction]:
    period = app.period_ns
    if period is None:
        return {}
    return {t.name: period / balance.vector[t.name] for t in app.tasks if not t.inputs}


def _short(task: str) -> str:
    return task.partition(".")[2]


def _unbalanced(app: Application, conflict: Conflict) -> Diagnostic:
    tasks = {t.name: t for t in app.tasks}
    task, channel = tasks[conflict.of], conflict.channel

    def called(name: str) -> str:
        return f"`{_short(name)}`" if tasks[name].resampling is not None else _short(name)

    of, reference = called(conflict.of), called(conflict.reference)
    notes = []
    other = next(
        (c for c in reversed(conflict.tree) if task.name in (c.source, c.destination)), None
    )
    if other is not None:
        notes.append(Note(f"asks for {of} = {conflict.given} x {reference}", other.span))
    help_text = ""
    into_destination = task.name == channel.destination
    port = task.port(channel.destination_port if into_destination else channel.source_port)
    if len(port.rates) == 1 and task.resampling is None:
        # With q(of) = given x q(reference), this port's rate must scale by demanded / given.
        rate = port.rates[0] * conflict.demanded / conflict.given
        if rate.denominator == 1:
            help_text = f"give `{task.definition}.{port.name}` rate {rate}"
    for each in (channel, *conflict.tree):
        reader = tasks[each.destination]
        seen = reader.port(each.destination_port)
        if seen.window and seen.rates == (1,):
            help_text = (
                f"`{reader.definition}.{seen.name}` takes 1 token in a firing: write"
                f" `rate HOP window {seen.window}` if it shall take HOP"
            )
    label = f"asks for {of} = {conflict.demanded} x {reference}"
    return Diagnostic(
        "F203",
        "these rates cannot balance",
        channel.span,
        label=label,
        notes=tuple(notes),
        help=help_text,
    )


def _deadlock(app: Application, balance: Repetition) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    """Only cycles can block: each strongly connected component is executed on its own."""
    faults = []
    undecided: list[str] = []
    graph = graph_of(app, balance.vector, overlap=True)
    for component in cyclic_parts(graph):
        inner = component.graph
        count = sum(inner.firings)
        live: bool | Deadlocked = False
        if count > MANY_FIRINGS:
            live = _by_schedule(app, balance, component)
        if live is True:
            continue
        try:
            blocked = deadlock(inner)
        except TooManySteps:
            if isinstance(live, Deadlocked):
                faults.append(_blocked_later(app, live))
            else:
                undecided.append(
                    f"one iteration of a cycle has {count} firings, too many to execute them all"
                )
            continue
        if blocked is not None:
            faults.append(_blocked(app, inner, blocked))
    if faults:
        return Verdict(False, faults[0].message), tuple(faults)
    if undecided:
        warning = Diagnostic(
            "F213", f"deadlock is not decided: {undecided[0]}", app.span, severity="warning"
        )
        return Verdict(None, undecided[0]), (warning,)
    return Verdict(
        True, "one iteration completes and returns every channel to its initial tokens"
    ), ()


def _by_schedule(app: Application, balance: Repetition, component: GraphPart) -> bool | Deadlocked:
    """True when a periodic schedule of tasks that fire one at a time proves that they never block,
    or the opposite.
    """
    graph = graph_of(app, balance.vector)
    own = set(component.tasks)
    serial = [i for i, e in enumerate(graph.edges) if e.kind == "serial" and e.source in own]
    inner = part(graph, component.tasks, [*component.edges, *serial]).graph
    try:
        return is_live(inner, seconds=PROOF_SECONDS)
    except Deadlocked as proof:
        return Deadlocked(component.tasks[t] for t in proof.tasks)


def _blocked_later(app: Application, proof: Deadlocked) -> Diagnostic:
    names = ", ".join(f"`{_short(app.tasks[t].name)}`" for t in proof.tasks)
    message = (
        f"too few initial tokens: after many firings {names or 'tasks of a cycle'} block each other"
    )
    span = app.tasks[proof.tasks[0]].span if proof.tasks else app.span
    return Diagnostic(
        "F204", message, span, help="put more initial tokens on the cycle that they are on"
    )


def _blocked(app: Application, graph: Graph, witness: Deadlock) -> Diagnostic:
    """The ring of tasks that wait for each other, who else waits, and the fewest initial tokens
    that help.
    """
    ring = {w.task for w in witness.cycle}
    others = [w for w in witness.blocked if w.task not in ring]
    notes = [_waiting(app, graph, w, "here") for w in witness.cycle]
    notes += [_waiting(app, graph, w, "here too") for w in others[:MOST_WITNESSES]]
    chain = _ring(app, [graph.names[w.task] for w in reversed(witness.cycle)])
    if any(_channel(app, graph, w).delay for w in witness.cycle):
        message = f"too few initial tokens on the cycle {chain}"
    else:
        message = f"a cycle without initial tokens: {chain}"
    return Diagnostic(
        "F204",
        message,
        notes[0].span,
        label=notes[0].message,
        notes=tuple(notes[1:]),
        help=_cure(app, graph),
    )


def _channel(app: Application, graph: Graph, wait: MissingTokens) -> Channel:
    return app.channels[graph.edges[wait.edge].channel]


def _waiting(app: Application, graph: Graph, wait: MissingTokens, where: str) -> Note:
    """What a blocked task waits for."""
    channel = _channel(app, graph, wait)
    name = _short(graph.names[wait.task])
    have = f"has {channel.delay} initial" if channel.delay else "has no initial tokens"
    missing = _tokens(wait.missing, "more ")
    return Note(f"`{name}` waits for {missing} {where}; the arrow {have}", channel.span)


def _ring(app: Application, names: list[str]) -> str:
    """A cycle in words, with its first task at its end again."""
    resampling = {t.name: str(t.resampling) for t in app.tasks if t.resampling is not None}
    if names[0] in resampling:  # the ring begins with a task
        first = next((i for i, n in enumerate(names) if n not in resampling), 0)
        names = names[first:] + names[:first]
    chain = [resampling.get(n) or _short(n) for n in names]
    return " -> ".join([*chain, chain[0]])


def _cure(app: Application, graph: Graph) -> str:
    try:
        cure = fewest_tokens(graph)
    except TooManySteps:
        return (
            "put initial tokens on one of these arrows (how many is not computed: an iteration is"
            " too long)"
        )
    arrows = []
    for edge, added in sorted(cure.tokens.items(), key=lambda item: graph.edges[item[0]].channel):
        channel = app.channels[graph.edges[edge].channel]
        arrow = f"`{_arrow(app, channel, channel.delay + added)}`"
        if channel.delay:
            arrow += f" (now `delay {channel.delay}`)"
        arrows.append(arrow)
    total = sum(cure.tokens.values())
    least = "the fewest that help" if cure.least else "these help, though fewer may do"
    return f"add {_tokens(total, 'initial ')}, {least}: {' and '.join(arrows)}"


def _arrow(app: Application, channel: Channel, delay: int) -> str:
    """The arrow that a channel is on, with a delay there, as a text says it."""
    resampling = {t.name: str(t.resampling) for t in app.tasks if t.resampling is not None}
    hops, first, last = [f"delay {delay}"], channel, channel
    while first.source in resampling:
        hops.insert(0, resampling[first.source])
        first = next(c for c in app.channels if c.destination == first.source)
        if first.delay:
            hops.insert(0, f"delay {first.delay}")
    while last.destination in resampling:
        hops.append(resampling[last.destination])
        last = next(c for c in app.channels if c.source == last.destination)
        if last.delay:
            hops.append(f"delay {last.delay}")
    begin = f"{_short(first.source)}.{first.source_port}"
    end = f"{_short(last.destination)}.{last.destination_port}"
    return " -> ".join([begin, *hops, end])


def _tokens(count: int, kind: str) -> str:
    return f"1 {kind}token" if count == 1 else f"{count} {kind}tokens"


def _schedulable(
    app: Application, balance: Repetition, known: AppTimes | None
) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    """Can the period and the deadlines be kept, on one processor or on any?"""
    times, least_times = _worst_and_least(app, known)
    if app.period_ns is None:
        return _unpaced(app, balance, least_times)
    period = app.period_ns
    slow = _task_too_slow(app, _all_work(balance, least_times), period)
    if slow is not None:
        return Verdict(False, slow.message), (slow,)
    # Unknown times count as 0: what is impossible then is impossible with any times.
    least_times = {name: ns or (Fraction(0),) for name, ns in least_times.items()}
    least = graph_of(app, balance.vector, least_times)
    sources = [least.names[t] for t in sources_and_sinks(least)[0]]
    work = _all_work(balance, times)
    total = sum(work.values(), Fraction(0))
    least_late, late_by = (0, 0) if known is None else known.wakeup_ns
    one_is_enough = total <= period and _in_time(
        app, balance, period, _one_after_the_other(app, balance, period, times, sources, late_by)
    )
    if not one_is_enough:
        late = _impossible(app, balance, period, least, sources, least_late, timed=bool(work))
        if late:
            return Verdict(False, late[0].message), late
    untimed = [task for task in app.tasks if task.name not in work]
    if untimed:
        return Verdict(None, _not_known(untimed, some=bool(work))), ()
    return _at_best(total, period, one_is_enough), ()


def _worst_and_least(
    app: Application, known: AppTimes | None
) -> tuple[dict[str, tuple[Fraction, ...]], dict[str, tuple[Fraction, ...]]]:
    """The worst and the least times of each task in ns, a phase each; empty where not known."""
    if known is None:
        declared = {t.name: t.wcet_ns for t in app.tasks}
        return declared, declared
    unknown: dict[str, tuple[Fraction, ...]] = dict.fromkeys(known.guessed, ())
    return known.ns | unknown, known.ns | known.least_ns | unknown


def _not_known(untimed: Sequence[Task], some: bool) -> str:
    """What lacks a time, where some other tasks have one, and how to give it one."""
    types = sorted({type_ for task in untimed for type_, _ in task.wcet_on})
    if types:
        return f"times are stated on {listed(types)}: give `--platform` with these processors"
    if not some:
        return "times are not known: give `wcet`, or map and measure"
    names = listed([_short(task.name) for task in untimed], 4)
    give = "`wcet`"
    if all(task.link is not None for task in untimed):
        give = "their arrow one, `-> latest wcet 20 us ->`"
        give = give if len(untimed) > 1 else give.replace("their", "its")
    return f"no time of {names} is known: give {give}, or map and measure"


def _all_work(
    balance: Repetition, times: Mapping[str, tuple[Fraction, ...]]
) -> dict[str, Fraction]:
    """What the firings of each task with a known time take in an iteration."""
    return {name: _work(ns) * balance.vector[name] for name, ns in times.items() if ns}


def _bursts(app: Application, balance: Repetition) -> list[Diagnostic]:
    """Warnings where data wait longer for newer ones than a deadline of their path, which counts
    from the newest, allows."""
    warned: dict[str, Diagnostic] = {}
    pace = _pace(app, balance)
    begins = {path.source for path in app.paths if pace}
    found = {source: bursts(app, balance.vector, source) for source in begins}
    for path in app.paths:
        for burst in found.get(path.source, ()):
            waits = burst.firings * pace[path.source]
            leads = path.sink in {burst.task, *reached(burst.task, app.channels)}
            if leads and waits > path.deadline_ns and burst.task not in warned:
                warned[burst.task] = _burst(app, path, burst, waits)
    return list(warned.values())


def _burst(app: Application, path: PathDeadline, burst: Burst, waits: Fraction) -> Diagnostic:
    task, source = _short(burst.task), _short(path.source)
    message = (
        f"`{task}` fires {burst.times} times in a row: data of `{source}` wait up to {_ms(waits)}"
        f" at `{task}.{burst.held}` for newer ones at `{task}.{burst.awaited}`"
    )
    note = Note("this deadline counts from the newest data", path.span)
    help_text = (
        f"put a `delay` on the way to `{task}.{burst.awaited}`, or move the slow tasks into an app"
        " of their own and read `latest`"
    )
    span = next(t.span for t in app.tasks if t.name == burst.task)
    return Diagnostic("F230", message, span, notes=(note,), help=help_text, severity="warning")


def _task_too_slow(
    app: Application, work: Mapping[str, Fraction], period: Fraction
) -> Diagnostic | None:
    """A task whose firings, which follow each other, take longer than the period."""
    for task in app.tasks:
        if work.get(task.name, 0) > period and not task.replicable:
            message = (
                f"`{_short(task.name)}` takes {_ms(work[task.name])} per iteration, "
                f"longer than the period of {_ms(period)}"
            )
            help_text = "its firings follow each other: ask for a longer period, or split the task"
            if could_overlap(app, task):
                help_text += f"; {overlap_advice(task)}"
            return Diagnostic("F211", message, task.span, help=help_text)
    return None


def _work(phases: Collection[Fraction]) -> Fraction:
    """What a firing takes on average, from the times of its phases."""
    return sum(phases, Fraction(0)) / len(phases)


def _at_best(total: Fraction, period: Fraction, one_is_enough: bool) -> Verdict:
    """The verdict on an app that some mapping may execute in time."""
    share = f"{_ms(total)} of work in {_ms(period)}"
    if one_is_enough:
        return Verdict(True, f"one processor is enough: {share}")
    return Verdict(None, f"{share}: it depends on the mapping")


def _impossible(
    app: Application,
    balance: Repetition,
    period: Fraction,
    graph: Graph,
    sources: Collection[str],
    late_by: int,
    *,
    timed: bool,
) -> tuple[Diagnostic, ...]:
    """Why no mapping keeps the period or the deadlines, with the least times in `graph`, if threads
    wake up so late.

    It takes times, or releases of a source that lie apart, or the deadline of a path.
    """
    graph = without_serial(graph, {i for i, t in enumerate(app.tasks) if t.replicable})
    if timed:
        slow = _cycle_too_slow(app, period, graph)
        if slow is not None:
            return (slow,)
    apart = any(balance.vector[name] > 1 for name in sources)
    if timed or apart or app.paths:
        return _too_late(app, balance, period, graph, late_by)
    return ()


def _unpaced(
    app: Application, balance: Repetition, times: Mapping[str, tuple[Fraction, ...]]
) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    """Without a period only the times of the firings on a path can forbid its deadline."""
    late = []
    wanted = _with_deadlines(app, balance)
    sources = dict.fromkeys(path.source for path in wanted)
    behind = {name: spans(app, balance.vector, name, times) for name in sources}
    for path in wanted:
        late += _path_too_late(app, path, max(behind[path.source][path.sink]))
    if late:
        return Verdict(False, late[0].message), tuple(late)
    if app.paths:
        return Verdict(
            None, "no period is asked for: the latencies of paths depend on the mapping"
        ), ()
    return Verdict(True, "no period is asked for; buffers are bounded"), ()


def _with_deadlines(app: Application, balance: Repetition) -> list[DependencePath]:
    if not app.paths:
        return []
    return [p for p in paths(app, balance.vector) if p.deadline is not None]


def _one_after_the_other(
    app: Application,
    balance: Repetition,
    period: Fraction,
    times: Mapping[str, tuple[Fraction, ...]],
    sources: Collection[str],
    late_by: int,
) -> dict[str, list[Fraction]]:
    """When one processor that does all work ends each firing at the latest, from the release of the
    iteration. Its thread knows of a release so many ns late.

    It fires whatever has its data first, and its work fits into a period. Where firings are not
    looked at one by one, all work comes with the last release: the iteration before is done by
    then. So it is where that is all there is to know, where they wait for a batch, and where phases
    take different times: bounds of mappings do not know which phase comes when.
    """
    vector = balance.vector
    many = sum(vector.values()) > MOST_FIRINGS
    grouped = any(t.network is not None and t.network.batch > 1 for t in app.tasks)
    plain = not app.paths and all(vector[name] == 1 for name in sources)
    phased = any(len(set(ns)) > 1 for ns in times.values())
    if many or grouped or plain or phased:
        releases = [period * (vector[name] - 1) / vector[name] for name in sources]
        work = [_work(ns) * vector[name] for name, ns in times.items() if ns]
        end = max(releases, default=Fraction(0)) + late_by + sum(work, Fraction(0))
        return {t.name: [end] * (1 if many else vector[t.name]) for t in app.tasks}
    return _firing_by_firing(app, vector, period, times, sources, late_by)


def _firing_by_firing(
    app: Application,
    vector: Mapping[str, int],
    period: Fraction,
    times: Mapping[str, tuple[Fraction, ...]],
    sources: Collection[str],
    late_by: int,
) -> dict[str, list[Fraction]]:
    """When each firing ends at the latest, if all of a task take the same time."""
    from .order import iteration_order

    order = iteration_order(app, vector, due=arrivals(app, vector)).firings
    ends: dict[str, list[Fraction]] = {t.name: [Fraction(0)] * vector[t.name] for t in app.tasks}
    now = Fraction(late_by)
    for _ in range(2):
        # the second time it begins with what is left of the iteration before, and so on for ever
        fired = dict.fromkeys(vector, 0)
        for name, count in order:
            for k in range(fired[name], fired[name] + count):
                released = period * k / vector[name] + late_by if name in sources else now
                now = max(now, released) + (times[name][0] if times[name] else 0)
                ends[name][k] = max(now, ends[name][k])
            fired[name] += count
        now -= period
    return ends


def _in_time(
    app: Application, balance: Repetition, period: Fraction, ends: Mapping[str, list[Fraction]]
) -> bool:
    """Do iterations and paths keep their deadlines, if firings end at these times?"""
    if app.due_ns is not None and any(max(own) > app.due_ns for own in ends.values()):
        return False
    followed = _with_deadlines(app, balance)
    for path in followed:
        firings = balance.vector[path.source]
        releases = [period * k / firings for k in range(firings)]
        longest = max(path.latencies(ends[path.sink], period, releases))
        if path.deadline is not None and longest > path.deadline:
            return False
    return bool(followed) == bool(app.paths)  # of very long iterations they are not known


def _too_late(
    app: Application, balance: Repetition, period: Fraction, graph: Graph, late_by: int
) -> tuple[Diagnostic, ...]:
    """Deadlines that no mapping keeps: what leads from a release to the end of a sink or a path
    takes longer.
    """
    wanted = _with_deadlines(app, balance)
    try:
        worst = latency(
            graph, period * graph.per_ns, spaced=True, paths=wanted, seconds=PROOF_SECONDS
        )
    except Unfinished:
        return ()
    late = _iteration_too_late(app, graph.names[worst.sink], graph.ns(worst.longest) + late_by)
    for path, longest in zip(wanted, worst.paths, strict=True):
        if longest is not None:
            late += _path_too_late(app, path, graph.ns(longest) + late_by)
    return tuple(late)


def _iteration_too_late(app: Application, sink: str, longest: Fraction) -> list[Diagnostic]:
    if app.due_ns is None or longest <= app.due_ns:
        return []
    limit = "deadline"
    severity: Severity = "error"
    if app.deadline_ns is None:
        # A text without a deadline may mean a pipeline, which runs though iterations take longer.
        limit, severity = "period", "warning"
    message = (
        f"on any mapping `{_short(sink)}` may end {_ms(longest)} after the release of an iteration:"
        f" the {limit} is {_ms(app.due_ns)}"
    )
    help_text = f"ask for a deadline of {_ms(longest)} or more"
    return [Diagnostic("F216", message, app.span, help=help_text, severity=severity)]


def _path_too_late(app: Application, path: DependencePath, longest: Fraction) -> list[Diagnostic]:
    if path.deadline is None or longest <= path.deadline:
        return []
    source, sink = _short(path.source), _short(path.sink)
    message = (
        f"on any mapping `{sink}` may end {_ms(longest)} after its newest data from `{source}` were"
        f" released: the deadline is {_ms(path.deadline)}"
    )
    # Of several deadlines for one path the shortest one counts.
    asked = path.source, path.sink, path.deadline
    place = next(p.span for p in app.paths if (p.source, p.sink, p.deadline_ns) == asked)
    help_text = (
        f"ask for {_ms(longest)} or more from `{source}` to `{sink}`, or for less work on the way"
    )
    return [Diagnostic("F216", message, place, help=help_text)]


def _cycle_too_slow(app: Application, period: Fraction, graph: Graph) -> Diagnostic | None:
    """A cycle of tasks that no mapping can run at the period: the least period of the graph is
    above it.
    """
    slowest = least_period(graph, seconds=PROOF_SECONDS)
    if graph.ns(slowest.lower) <= period:
        return None
    names = list(dict.fromkeys(_short(graph.names[s.task]) for s in slowest.cycle))
    message = (
        f"the cycle {' -> '.join([*names, names[0]])} takes {_ms(graph.ns(slowest.lower))} per"
        f" iteration, longer than the period of {_ms(period)}"
    )
    channels = (graph.edges[s.edge].channel for s in slowest.cycle)
    channel = next(c for c in channels if c >= 0)
    help_text = (
        "ask for a longer period, or put more initial tokens on the cycle so that iterations"
        " overlap"
    )
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
    warnings = []
    for task in app.tasks:
        if work[task.name] > period and not task.replicable:
            message = (
                f"`{_short(task.name)}` was measured at {work[task.name] / 1e6:.3g} ms per"
                f" iteration; {asked}"
            )
            advice = overlap_advice(task) if could_overlap(app, task) else ""
            warnings.append(_may_miss(message, task.span, advice))
    total = sum(work.values())
    if not warnings and total > cores * period:
        message = (
            f"`{app.name}` was measured at {total / 1e6:.3g} ms of work per iteration; {asked}, on"
            f" {cores} cores"
        )
        warnings.append(_may_miss(message, app.span))
    return warnings


def _may_miss(message: str, span: Span | None, advice: str = "") -> Diagnostic:
    help_text = "expect missed deadlines"
    if advice:
        help_text += f"; {advice}"
    return Diagnostic("F211", message, span, help=help_text, severity="warning")
