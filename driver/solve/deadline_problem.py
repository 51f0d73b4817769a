"""The joint mapping problem: worst cases by type of processors, candidates of networks, periods.

In: a valid system whose apps have periods, and its times. Out: a joint problem; or all reasons why
it cannot be stated, or why it is infeasible without a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf
from pathlib import Path

from ...analysis.dataflow.chains import ChainPart, chain_ways
from ...analysis.dataflow.dependence import paths
from ...analysis.dataflow.static_order import grouped_runs
from ...analysis.dataflow.workers import tokens_asked_for
from ...analysis.timing.chains import largest_gap
from ...analysis.timing.system import TimedChain, TimedPart, TimedPath
from ...machines.search_workers import ALONE, SearchWorkers
from ...model.application import Application, Channel, Task
from ...model.diagnostic import Diagnostic, Errors, has_errors, listed, one_of
from ...model.full_counts import measured_with_less
from ...model.link_ends import linked, neighbors
from ...model.mapping import Pin, PinStage, Placement
from ...model.platform import UNDIVIDED, Platform
from ...model.profile import ProfileEntry
from ...model.release import Release, releases_of
from ...model.resampling import hosts, without_resampling
from ...model.times import MARGIN, FiringTime, Times
from ...model.transfers import without_transfers
from ...networks.onnx.cuts import LayerChain, read_chain, size
from ...networks.onnx.interface import NetworkError
from ...passes import with_transfers
from ...search.deadline.candidates import CandidateFront, KernelRow, front
from ...search.deadline.power import power_model
from ...search.deadline.problem import (
    DeadlineNetwork,
    DeadlineTask,
    Follower,
    InnerTensor,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from ...search.deadline.program import names_of
from ...search.throughput.machines import nearest
from ...targets.accelerators import barred_from
from ...targets.inference import chosen_engines
from ...targets.npu import keeps_whole
from ...targets.pins import pinned
from ..text.check import Valid


def joint_problem(
    valid: Valid, times: Times, search_workers: SearchWorkers = ALONE
) -> JointProblem:
    """Times, candidates and periods of everything. Raises Errors that list every task without
    times.

    The candidates of each network can be computed by other workers.
    """
    platform = valid.platform
    pins = pinned(valid.system.apps, platform, valid.system.pins)[0]
    releases = releases_of(valid.system.apps, valid.repetition)
    groups: list[TaskGroup] = []
    tasks: list[DeadlineTask] = []
    networks: list[_CutNetwork] = []
    followers: list[Follower] = []
    faults: list[Diagnostic] = []
    partly: dict[str, dict[str, str]] = {}
    for app in valid.system.apps:
        if app.period_ns is None:
            faults.append(_without_period(app))
            continue
        vector = valid.repetition[app.name]
        runs = grouped_runs(app, vector)
        insides: dict[str, LayerChain | None] = {}
        for task in without_resampling(app).tasks:
            sizes = runs.get(task.name, ())
            known = {type_: time.of_runs(sizes) for type_, time in times.of[task.name].items()}
            partly[task.name] = _partly(app, task, known, sizes)
            firings = vector[task.name]
            wanted = _pinned_type(platform, pins.get(task.name))
            if wanted is None and not platform.machines and _is_layered(known):
                insides[task.name] = inside = _inside(task)
                kernels = _kernels(task, known, platform, firings, inside)
                networks.append(_CutNetwork(task, app.name, kernels, inside))
            elif not known or wanted not in (None, *known):
                faults.append(_untimed(task, wanted, platform))
            else:
                pin = pins.get(task.name)
                tasks.append(_deadline_task(task, app.name, known, firings, pin, platform))
        group = _group(app, releases[app.name], vector, insides, valid.system.pins, platform)
        groups.append(group)
        followers += _followers(app, vector)
    if faults:
        raise Errors(faults)
    groups = _with_chains(valid, groups)
    tasks, ends = _with_ends_beside(valid, tasks, pins)
    fronts = search_workers.run(_front, platform, [network.kernels for network in networks])
    return JointProblem(
        platform,
        tuple(groups),
        tuple(tasks),
        tuple(network.within(front) for network, front in zip(networks, fronts, strict=True)),
        {name: placement.processors[0] for name, placement in pins.items()},
        (*followers, *ends),
        machines=machines_for(valid) if platform.machines else {},
        engines=chosen_engines(valid.system),
        linked=linked(valid.system.apps),
        partly={name: found for name, found in partly.items() if found},
        power=power_model(platform, times, {}, False),
    )


def _partly(
    app: Application, task: Task, known: Mapping[str, FiringTime], sizes: tuple[int, ...]
) -> dict[str, str]:
    """By type of processors, with what a task was measured where bounds count more."""
    lists = any(other.list_ports for other in app.tasks)
    found = {}
    for type_, time in known.items():
        entry = time.entry
        if entry is not None and not time.from_text and entry.host_hash:
            words = " and ".join(measured_with_less(task, entry, sizes, lists))
            if words:
                found[type_] = words
    return found


def _with_ends_beside(
    valid: Valid, tasks: Sequence[DeadlineTask], pins: Mapping[str, Placement]
) -> tuple[list[DeadlineTask], list[Follower]]:
    """The tasks without the ends of arrows between apps that follow one of them, which is on a CPU;
    and these."""
    items = {task.name: task for task in tasks}
    ends = []
    for app in valid.system.apps:
        for name, others in neighbors(app).items():
            end = items.get(name)
            host = next(
                (other for other in others if _on_cpus(valid, items.get(other), pins)), None
            )
            if end is None or host is None or name in pins:
                continue
            del items[name]
            item = items[host]
            items[host] = replace(
                item,
                beside=item.beside + max(end.work(type_) for type_ in end.wcet_ns),
                estimated=item.estimated | end.estimated,
                of_kind=item.of_kind | end.of_kind,
            )
            ends.append(Follower(name, app.name, host, host, True, end.firings, end))
    return list(items.values()), ends


def _on_cpus(valid: Valid, task: DeadlineTask | None, pins: Mapping[str, Placement]) -> bool:
    """Is a task that a search places on a CPU wherever it is?"""
    if task is None:
        return False
    cpus = valid.platform.types_of("cpu")
    pinned_type = _pinned_type(valid.platform, pins.get(task.name))
    return set(task.wcet_ns).issubset(cpus) or pinned_type in cpus


def _with_chains(valid: Valid, groups: list[TaskGroup]) -> list[TaskGroup]:
    """The groups with the chains that end in them."""
    by_name = {group.name: group for group in groups}
    live = {app.name for app in valid.system.apps if any(task.live for task in app.tasks)}
    skipping = {app.name for app in valid.system.apps if _skips(app)}
    made = []
    for app in valid.system.apps:
        chains = []
        for chain in app.chains:
            ways = chain_ways(valid.system.apps, chain.source, chain.sink)
            timed = tuple(tuple(_timed_parts(valid, by_name, way)) for way in ways)
            ends = chain.kind, chain.source, chain.sink
            found = TimedChain(*ends, timed, chain.deadline_ns)
            clocked = live.isdisjoint(found.groups)
            skips = tuple(name for name in found.groups if name in skipping)
            chains.append(replace(found, clocked=clocked, skipping=skips))
        made.append(replace(by_name[app.name], chains=tuple(chains)))
    return made


def _skips(app: Application) -> bool:
    """Can an error leave out a frame of an app?"""
    return any(task.on_error != "stop" for task in app.tasks)


def _timed_parts(
    valid: Valid, groups: Mapping[str, TaskGroup], way: Sequence[ChainPart]
) -> Iterator[TimedPart]:
    """The parts of a chain as paths of their groups."""
    tokens_apart: Fraction | None = None
    for part in way:
        group = groups[part.app]
        firings = valid.repetition[group.name]
        ends = [(path.source, path.sink) for path in group.paths]
        number = ends.index((part.entry, part.exit))
        entry = firings[part.entry]
        gap: Fraction | None = largest_gap(group.paths[number].newest, entry, group.period_ns)
        if part.keep is not None and tokens_apart is not None:
            keeps_up = group.period_ns / entry <= tokens_apart
            gap = gap if keeps_up else None
        held = Fraction(0)
        if part.keep is not None and tokens_apart is not None and gap is not None:
            held = max(Fraction(0), gap - tokens_apart)
        yield TimedPart(group.name, number, gap, part.keep is not None, held)
        tokens_apart = group.period_ns / firings[part.exit]


@dataclass(frozen=True, slots=True)
class _CutNetwork:
    """A network that a search may cut: its worst cases by layer, and its layers if they are
    known."""

    task: Task
    app: str
    kernels: KernelRow
    inside: LayerChain | None

    def within(self, front: CandidateFront) -> DeadlineNetwork:
        """The network with its candidates."""
        return DeadlineNetwork(
            self.task.name,
            self.app,
            front.candidates,
            front.exact,
            _tensors(self.inside),
            _batch(self.task),
        )


def _without_period(app: Application) -> Diagnostic:
    message = f"`{app.name}` has no period, and others have: they cannot be mapped together"
    return Diagnostic("F215", message, app.span, help="give every app a period, or none")


def _pinned_type(platform: Platform, pin: Placement | None) -> str | None:
    """The type of processors that a task is pinned to; None without a pin."""
    return None if pin is None else platform.pool_of(pin.processors[0]).type


def _is_layered(known: Mapping[str, FiringTime]) -> bool:
    """Are there times of layers, which a cut needs, and no time of the text instead of them? What a
    cut costs on another engine than ONNX Runtime is no worst case."""
    entries = [time.entry for time in known.values() if time.entry is not None]
    if any(entry.engine for entry in entries):
        return False
    return any(
        time.entry is not None and time.entry.layers and not time.from_text
        for time in known.values()
    )


def _deadline_task(
    task: Task,
    app: str,
    known: Mapping[str, FiringTime],
    firings: int,
    pin: Placement | None,
    platform: Platform,
) -> DeadlineTask:
    apart = pin is not None and pin.process
    return DeadlineTask(
        task.name,
        app,
        {type_: ceil(time.longest_ns) for type_, time in known.items()},
        firings,
        estimated=frozenset(t for t, time in known.items() if time.source == "estimated"),
        curves={type_: time.curve for type_, time in known.items() if time.curve is not None},
        live=task.live,
        open_end=task.border is not None,
        batch=_batch(task),
        engine=task.network is not None,
        phases={type_: time.phases_ns for type_, time in known.items() if time.phases_ns},
        python=frozenset(t for t in known if not apart and task.in_python_on(platform.kinds[t])),
        by_text=frozenset(type_ for type_, time in known.items() if time.from_text),
        of_kind=frozenset(type_ for type_, time in known.items() if time.of_kind),
    )


def machines_for(valid: Valid) -> dict[str, str]:
    """The machine of each task, pinned or not; tasks without a path to a pinned one are on the
    first machine."""
    platform = valid.platform
    apps = tuple(without_transfers(a) for a in valid.system.apps)
    names = [t.name for a in apps for t in a.tasks]
    pins = {
        p.task: p.stages[0].processors[0] for p in valid.system.pins if p.platform == platform.name
    }
    near = nearest(apps, platform, {name: p for name, p in pins.items() if name in names})
    return {name: near.get(name, platform.machines[0]) for name in names}


def settled(valid: Valid) -> Valid:
    """The same with remote channels, with each task on its machine. Raises Errors.

    A search for deadlines chooses among the processors of that machine.
    """
    platform, system = valid.platform, valid.system
    pinned_tasks = {pin.task for pin in system.pins if pin.platform == platform.name}
    first = {
        pool.machine: pool.processors[0] for pool in reversed(platform.pools) if pool.kind != "link"
    }
    supposed = []
    for name, machine in machines_for(valid).items():
        if name not in pinned_tasks:
            span = valid.tasks[name].span
            whole = PinStage((first[machine],), None, 1, span)
            supposed.append(Pin(platform.name, name, (whole,), None, None, span))
    connected, faults = with_transfers(replace(system, pins=(*system.pins, *supposed)), platform)
    if has_errors(faults):
        raise Errors(faults)
    return valid.rewritten(
        replace(connected, pins=tuple(p for p in connected.pins if p not in supposed))
    )


def _front(platform: Platform, kernels: KernelRow) -> CandidateFront:
    return front(kernels, platform)


def _group(
    app: Application,
    release: Release,
    vector: Mapping[str, int],
    insides: Mapping[str, LayerChain | None],
    pins: tuple[Pin, ...],
    platform: Platform,
) -> TaskGroup:
    """The app with its channels, its paths and the order of its tasks. It has the period of its
    releases; the text's is its deadline where it has no other."""
    buffers = {
        pin.task: pin.buffers for pin in pins if pin.platform == platform.name and pin.buffers
    }
    channels = tuple(_channel(app, channel, vector, insides, buffers) for channel in app.channels)
    followed = tuple(
        TimedPath(path.source, path.sink, path.newest, path.deadline) for path in paths(app, vector)
    )
    order = tuple(task.name for task in app.tasks)
    deadline_ns = app.deadline_ns
    if deadline_ns is None and release.period_ns != app.period_ns:
        held = any(path.deadline is not None for path in followed)
        deadline_ns = None if held else app.period_ns
    return TaskGroup(
        app.name,
        release.period_ns,
        deadline_ns,
        app.priority,
        channels,
        followed,
        order,
        release=release,
    )


def _channel(
    app: Application,
    channel: Channel,
    vector: Mapping[str, int],
    insides: Mapping[str, LayerChain | None],
    buffers: Mapping[str, int],
) -> JointChannel:
    """A channel with its rates, and the layers at its ends if networks may be cut."""
    source, destination = app.task(channel.source), app.task(channel.destination)
    out, into = source.port(channel.source_port), destination.port(channel.destination_port)
    iterations = max(buffers.get(name, 0) for name in (channel.source, channel.destination))
    asked_for = tokens_asked_for(app, channel, iterations, vector)
    if source.transfer is not None:  # its room for one more token is that of a word on its way
        asked_for -= max(out.rates)
    return JointChannel(
        channel.source,
        channel.destination,
        out.rates,
        into.rates,
        channel.delay,
        token_bytes=1 if out.type is None else out.type.bytes,
        asked_for=asked_for,
        maker=_maker(source, channel.source_port, insides.get(source.name)),
        readers=_readers(destination, channel.destination_port, insides.get(destination.name)),
    )


def _maker(task: Task, port: str, inside: LayerChain | None) -> int | None:
    """The layer of a network that computes the output of a port; None if that is no layer, or
    unknown."""
    if task.network is None or inside is None:
        return None
    tensors = {p.name: t.name for p, t in zip(task.outputs, task.network.outputs, strict=True)}
    made, _ = inside.spans().get(tensors[port], (-1, -1))
    return made if made >= 0 else None


def _readers(task: Task, port: str, inside: LayerChain | None) -> tuple[int, ...]:
    """The layers of a network that read the input of a port."""
    if task.network is None or inside is None:
        return ()
    tensors = {p.name: t.name for p, t in zip(task.inputs, task.network.inputs, strict=True)}
    return _readers_of(tensors[port], inside)


def _readers_of(tensor: str, inside: LayerChain) -> tuple[int, ...]:
    readers = [number for number, layer in enumerate(inside.layers) if tensor in layer.reads]
    if tensor in inside.outputs and tensor in inside.inputs:  # the last stage outputs it
        readers.append(len(inside.layers) - 1)
    return tuple(readers)


def _tensors(inside: LayerChain | None) -> tuple[InnerTensor, ...]:
    """The tensors between layers of a network."""
    if inside is None:
        return ()
    tensors = []
    for number, layer in enumerate(inside.layers):
        for tensor in layer.makes:
            readers = _readers_of(tensor, inside)
            border = inside.tensors.get(tensor)
            if readers and border is not None and border.fixed:
                tensors.append(InnerTensor(number, readers, size(border)))
    return tuple(tensors)


def _batch(task: Task) -> int:
    return 1 if task.network is None else task.network.batch


def _inside(task: Task) -> LayerChain | None:
    """The layers of a network that may be cut; None if they cannot be read."""
    if task.network is None or not task.network.cuttable:
        return None
    try:
        return read_chain(Path(task.network.path), task.network.shapes)
    except NetworkError:
        return None


def _followers(app: Application, vector: Mapping[str, int]) -> Iterator[Follower]:
    words = {t.name: t.resampling.word for t in app.tasks if t.resampling is not None}
    for name, (host, other) in hosts(app).items():
        repeat = words[name] == "repeat"
        source, destination = (other, host) if repeat else (host, other)
        yield Follower(name, app.name, source, destination, repeat, vector[name])


def _untimed(task: Task, wanted: str | None, platform: Platform) -> Diagnostic:
    """The error that a task has no times on any processor, or on the `wanted` kind that it is
    pinned to."""
    where = "any processor" if wanted is None else f"the {wanted}"
    message = f"`{task.name}` has no worst-case time on {where} of `{platform.name}`"
    help_text = "declare a `wcet`, pin it with one, or measure it on the board with `flowc profile`"
    if task.link is not None:
        help_text = (
            "give its arrow one: `-> latest wcet 20 us ->`, or measure it on the board with `flowc"
            " profile`"
        )
    elif not task.implementations and task.network is None:
        help_text = (
            "declare a `wcet`, pin it with one, or import the project with a profile: `flowc import"
            " --profile`"
        )
    return Diagnostic("F509", message, task.span, help=help_text)


def _kernels(
    task: Task,
    known: Mapping[str, FiringTime],
    platform: Platform,
    firings: int,
    inside: LayerChain | None,
) -> KernelRow:
    """The layers of a network with their worst cases by type of processors, and where it may be
    cut."""
    entries = {type_: time.entry for type_, time in known.items() if time.entry is not None}
    longest = max(entries.values(), key=lambda entry: len(entry.layers))
    names = tuple(timed.layer for timed in longest.layers)
    shares: dict[str, float] = {}
    if inside is not None:
        names = tuple(layer.name for layer in inside.layers)
        shares = dict(zip(names, inside.shares(), strict=True))
    barred = barred_from(task, platform)
    times: dict[str, list[float]] = {}
    kinds = platform.kinds
    for type_, entry in entries.items():
        layers = _worst_case_layers(entry, shares)
        kind = kinds[type_]
        times[type_] = [inf if barred(kind, n) else layers.get(n, inf) for n in names]
    guessed = frozenset(type_ for type_, entry in entries.items() if entry.estimated)
    curves = {type_: time.curve for type_, time in known.items() if time.curve is not None}
    whole = task.network is not None and keeps_whole(task.network, platform)
    cuts = () if whole else _cuts(task, inside, len(names))
    return KernelRow(
        names,
        times,
        cuts,
        whole=frozenset(type_ for type_ in times if kinds[type_] in UNDIVIDED),
        estimated=guessed,
        firings=firings,
        curves=curves,
        of_kind=frozenset(type_ for type_, time in known.items() if time.of_kind),
    )


def _worst_case_layers(entry: ProfileEntry, shares: Mapping[str, float]) -> dict[str, float]:
    """The share of each layer in the worst case of the whole: worst cases of layers are unknown.

    On a type on which layers were not measured, the whole is distributed by multiplications.
    """
    layers = {timed.layer: timed.mean_ns for timed in entry.layers} or shares
    total = sum(layers.values()) or 1.0
    factor = max(1.0, entry.wcet_ns / total)
    if entry.estimated:
        factor *= float(MARGIN)
    return {name: ns * factor for name, ns in layers.items()}


def _cuts(task: Task, inside: LayerChain | None, layers: int) -> tuple[int, ...]:
    """The numbers of the layers before which a network may be cut."""
    if inside is None:
        described = task.network is not None and not task.network.model
        return () if described else tuple(range(1, layers))
    if not all(_readers_of(tensor, inside) for tensor in inside.inputs):
        return ()
    return tuple(cut.after + 1 for cut in inside.cuts() if not inside.fused(cut.after))


def require_possible(problem: JointProblem) -> None:
    """Raise errors where no search can find a mapping: a task that can run nowhere, or a cycle that
    nothing feeds."""
    faults = [*_without_places(problem), *_unfed(problem)]
    if faults:
        raise Errors(faults)


def _without_places(problem: JointProblem) -> Iterator[Diagnostic]:
    """The tasks and networks that can run nowhere."""
    board = problem.platform.name
    for task in problem.tasks:
        if not problem.places(task):
            kinds = one_of(sorted(task.wcet_ns))
            message = f"`{task.name}` can run nowhere on `{board}`: it has times for {kinds} only"
            yield Diagnostic("F503", message, None, help="add such a processor to the platform")
    for network in problem.networks:
        if not network.candidates:
            message = f"`{network.name}` cannot run on `{board}`: some layer runs nowhere"
            help_text = "give times of all layers on one kind at least"
            yield Diagnostic("F503", message, None, help=help_text)


def _unfed(problem: JointProblem) -> Iterator[Diagnostic]:
    """The groups with tasks that no source leads to."""
    for group in problem.groups:
        names = names_of(problem, group)
        fed = {c.destination for c in group.channels}
        reached = {name for name in names if name not in fed}
        while more := {c.destination for c in group.channels if c.source in reached} - reached:
            reached |= more
        left = [name for name in names if name not in reached]
        if left:
            message = (
                f"no source paces {listed(left)} of `{group.name}`: a cycle that nothing feeds"
            )
            help_text = (
                "let a task without inputs begin an iteration, or leave the period out:"
                f" `{group.name}` then runs as fast as it can"
            )
            yield Diagnostic("F509", message, None, help=help_text)


def overloaded(problem: JointProblem) -> Iterator[Diagnostic]:
    """Warnings about kinds of processors with more work than time, by the tasks that can run
    nowhere else: every mapping is late."""
    for kind in dict.fromkeys(problem.kind.values()):
        processors = [p for own in problem.of_type.values() for p in own if problem.kind[p] == kind]
        share = sum((problem.served[p] for p in processors), start=Fraction(0))
        for task in problem.tasks:
            places = problem.places(task)
            if {problem.kind[place] for place in places} == {kind}:
                share += min(problem.load(task, place) for place in places)
        if share > len(processors):
            message = (
                f"work that only a {kind} can do needs {float(share):.2f} of them, but there are"
                f" {len(processors)}"
            )
            help_text = "make periods longer, or give tasks code for other processors"
            yield Diagnostic("F509", message, None, help=help_text, severity="warning")
