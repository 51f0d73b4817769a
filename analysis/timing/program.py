"""The timing of a generated program, as its deployment says: what bounds have to be about to be
true of it.

In: a deployment, and the worst-case time of a firing by task. Out: a timed system with the
program's own workers, orders and channel capacities. Programs release apps from one clock,
beginning together, but for those whose data come when they come. Workers of apps without a period,
where others have one, are in the background.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from ...model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedTask,
    DeployedWorker,
    Deployment,
)
from ...model.platform import Platform, Pool
from ...model.release import Release
from ...model.workload import WorkloadCurve
from .runs import in_runs, runs_of
from .system import (
    Refused,
    RoundFiring,
    Slowdown,
    Time,
    TimedBackground,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedTrigger,
    TimedWorker,
)


def timed_program(
    deployment: Deployment,
    platform: Platform,
    wcet_ns: Mapping[str, Time | tuple[Time, ...]],
    curves: Mapping[str, WorkloadCurve] | None = None,
    phases: Mapping[str, tuple[Time, ...]] | None = None,
    releases: Mapping[str, Release] | None = None,
) -> TimedSystem:
    """The system to bound or simulate; several times of a task are those of its kernels, in order.

    For tasks with `curves` the times are in these. `phases` are the worst cases of tasks by phase,
    where they differ; a longer time of a task holds for all of them. `releases` are those of apps
    that are not released by the program's clock alone.

    A network computes a batch of firings in one run, which takes as long as these (`in_runs`).

    Raises Refused where no bound is known: no period, iterations that alternate, cuts that move.
    """
    wrong = _unbounded(deployment)
    if wrong:
        raise Refused(wrong)
    home: dict[str, str] = {}
    processors: dict[str, TimedProcessor] = {}
    paced = [app for app in deployment.apps if app.period_ns is not None]
    workers = [worker for worker in deployment.processors if worker.paced]
    for worker in deployment.processors:
        home.update((entry.task, worker.processor) for entry in worker.order)
        pool = platform.pool_of(worker.processor)
        processors[worker.processor] = timed_processor(worker.processor, pool, platform)
    app_of: dict[str, str] = {}
    for app in deployment.apps:
        app_of.update((task.name, app.name) for task in app.tasks)
    system = TimedSystem(
        tuple(
            released(
                _group(a, home, wcet_ns, curves or {}, phases or {}), (releases or {}).get(a.name)
            )
            for a in paced
        ),
        tuple(processors.values()),
        tuple(Slowdown(c.victim, c.aggressor, c.factor) for c in platform.contention),
        timed_workers(workers, app_of),
        tuple(
            _background(w, app_of[w.order[0].task], processors, wcet_ns)
            for w in deployment.processors
            if not w.paced
        ),
    )
    batches = {task.name: task.code.batch for app in paced for task in app.tasks}
    return in_runs(system, runs_of(workers, batches))


def timed_processor(name: str, pool: Pool, platform: Platform) -> TimedProcessor:
    """A processor of a pool as the analysis has it."""
    wakeup = platform.wakeup_ns(pool)
    return TimedProcessor(name, pool.scheduler, pool.name, pool.kind, wakeup, pool.slice)


def _background(
    worker: DeployedWorker,
    app: str,
    processors: Mapping[str, TimedProcessor],
    wcet_ns: Mapping[str, Time | tuple[Time, ...]],
) -> TimedBackground:
    """A worker in the background. How long its sub-tasks take matters where they queue, or where it
    has a server. Raises Refused if that is not known."""
    waited_for = processors[worker.processor].scheduler in ("fifo", "priority", "time_slice")
    if not waited_for and worker.server is None:
        return TimedBackground(worker.processor)
    longest: Time = 0
    for entry in worker.order:
        if entry.task not in wcet_ns:
            raise Refused([f"no worst-case time of `{entry.task}` is known"])
        kernels = wcet_ns[entry.task]
        longest = max(longest, *(kernels if isinstance(kernels, tuple) else (kernels,)))
    return TimedBackground(worker.processor, longest, worker.server, app)


def _unbounded(deployment: Deployment) -> list[str]:
    """What no bound is known for."""
    below = {entry.task for w in deployment.processors if not w.paced for entry in w.order}
    wrong = []
    for app in deployment.apps:
        if any(task.name in below for task in app.tasks):
            continue
        if app.period_ns is None:
            wrong.append(f"`{app.name}` has no period")
        for task in app.tasks:
            if task.code.moves:
                wrong.append(f"the cut of `{task.name}` moves")
    return wrong


def _group(
    app: DeployedApp,
    home: Mapping[str, str],
    wcet_ns: Mapping[str, Time | tuple[Time, ...]],
    curves: Mapping[str, WorkloadCurve],
    phases: Mapping[str, tuple[Time, ...]],
) -> TimedGroup:
    assert app.period_ns is not None
    tasks = {t.name: t for t in app.tasks}
    kernels = {name: ns if isinstance(ns, tuple) else (ns,) for name, ns in wcet_ns.items()}
    for name, curve in curves.items():
        if sum(kernels.get(name, ())) != curve.longest:
            kernels[name] = (curve.longest,)
    timed = []
    for name, task in tasks.items():
        known, own = curves.get(name), phases.get(name, ())
        if own and kernels[name] != (max(own),):
            own = ()
        timed.append(TimedTask(name, home[name], kernels[name], (), task.firings, known, own))
    paths = []
    for p in app.paths:
        if p.kind in ("path", "part"):  # the others are bounded over these
            paths.append(TimedPath(p.source, p.sink, p.newest, _time(p.deadline_ns)))
    return TimedGroup(
        app.name,
        Fraction(app.period_ns),
        tuple(timed),
        tuple(_channel(c, tasks) for c in app.channels),
        _time(app.deadline_ns),
        app.priority,
        paths=tuple(paths),
    )


def released(group: TimedGroup, release: Release | None) -> TimedGroup:
    """A group with its releases; without any, those of the program's clock. What tokens release has
    their period, and is due when it was."""
    if release is None:
        return replace(group, offset=0)
    if any(source.keep is not None for source in release.sources):
        group = replace(group, gated=True)
    if release.period_ns != group.period:
        group = replace(group, period=release.period_ns, deadline=group.due)
    if release.trigger is not None:
        trigger = TimedTrigger(release.trigger.app, release.trigger.task)
        return replace(group, offset=0, trigger=trigger)
    return replace(group, offset=0 if release.clocked else None)


def _time(ns: str | None) -> Fraction | None:
    return None if ns is None else Fraction(ns)


def _channel(channel: DeployedChannel, tasks: Mapping[str, DeployedTask]) -> TimedChannel:
    made = next(p.rates for p in tasks[channel.source].outputs if p.name == channel.source_port)
    taken = next(
        p.rates for p in tasks[channel.destination].inputs if p.name == channel.destination_port
    )
    # Between machines there is room for a transfer more, since the word that there is room takes
    # its time (`deploy`).
    room = channel.capacity
    if tasks[channel.source].code.kind == "transfer":
        room -= max(made)
    return TimedChannel(channel.source, channel.destination, made, taken, channel.delay, room)


def timed_workers(
    workers: Iterable[DeployedWorker], app_of: Mapping[str, str]
) -> tuple[TimedWorker, ...]:
    """Workers of a program as the analysis has them; `app_of` is the app of each task.

    Raises Refused where iterations of a task alternate between processors.
    """
    return tuple(_worker(w, app_of) for w in workers)


def _worker(worker: DeployedWorker, app_of: Mapping[str, str]) -> TimedWorker:
    shared = sorted({e.task for e in worker.order if e.replica[1] > 1})
    if shared:
        raise Refused(
            [f"iterations of `{t}` alternate between processors: no bound is known" for t in shared]
        )
    places = []
    for e in worker.order:
        for k in range(e.first, e.first + e.times):
            places.append(RoundFiring(app_of[e.task], e.task, k, e.round[0], e.stage))
    rounds = {app_of[e.task]: e.round[1] for e in worker.order}
    return TimedWorker(worker.processor, tuple(places), tuple(rounds.items()))
