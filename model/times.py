"""Times of firings: the rule that every command uses, and the origin of each time.

In: a system, its platform, and a profile (None = nothing was measured). Out: for each task and each
type of processors that can run it, the worst case, which verdicts use, and the mean, which
throughput uses.

1. A pin's `wcet` for this platform: both, on every type.
2. The task's own `wcet` on that type, on its kind, or without `on`: the worst case, if it has code
   for the kind. The mean is the measured one, else the average over its phases.
3. The profile's entry for that type: its `wcet_ns` (times `MARGIN` if it is an estimate) and
   `mean_ns`. Without one, the entry of the kind, or of another type, `slower` as the platform's
   speeds say.

Times in the text are never replaced; `exceeded` lists those that a measurement exceeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Literal

from .application import Application, Task, all_tasks
from .diagnostic import Diagnostic
from .full_counts import worst_shares_ns
from .mapping import Pin, Placement
from .platform import Platform
from .profile import Profile, ProfileEntry, slower
from .system import System
from .workload import WorkloadCurve, cyclic_workload

#: Factor on estimated times: those of accelerators fell 7.8 to 8.9 % short in Kim's thesis (5.5.3).
MARGIN = Fraction(11, 10)

TimeOrigin = Literal["pin", "declared", "measured", "estimated"]
#: The weakest origin of an app's times: all from the text, some from a profile, some unknown.
Weakest = Literal["wcet", "profile", "unit"]


@dataclass(frozen=True, slots=True)
class FiringTime:
    """The time of a firing on one type of processors, in ns.

    `worst_ns` has one entry per phase, or one for all; `source` is its origin. `entry` is the
    measurement on that type, whether it is used or not. A time that is `of_kind` is the same on
    all types of the kind: nothing tells them apart.
    """

    worst_ns: tuple[Fraction, ...]
    mean_ns: Fraction
    source: TimeOrigin
    entry: ProfileEntry | None = None
    of_kind: bool = False

    @property
    def longest_ns(self) -> Fraction:
        """The worst case of any phase."""
        return max(self.worst_ns)

    @property
    def phases_ns(self) -> tuple[int, ...]:
        """The worst cases of phases that differ, rounded up; empty where they do not."""
        return tuple(ceil(ns) for ns in self.worst_ns) if len(set(self.worst_ns)) > 1 else ()

    @property
    def usual_ns(self) -> tuple[Fraction, ...]:
        """The mean time of each phase, or one for all: measured means do not tell phases apart, so
        that phases keep the ratios of the worst cases."""
        if not self.phases_ns:
            return (self.mean_ns,)
        of_all = self.mean_ns / _mean(self.worst_ns)
        return tuple(ns * of_all for ns in self.worst_ns)

    @property
    def from_text(self) -> bool:
        """True if the worst case is the user's: it then holds for each firing."""
        return self.source in ("pin", "declared")

    @property
    def seen_ns(self) -> int:
        """The longest measured firing, 0 if none was measured."""
        return 0 if self.entry is None or self.entry.estimated else self.entry.max_ns

    def of_runs(self, sizes: tuple[int, ...]) -> FiringTime:
        """The same for the firings of an iteration that is computed in runs of so many: each takes
        its share of its run. Declared times are those of each firing."""
        if self.from_text or self.entry is None:
            return self
        margin = MARGIN if self.entry.estimated else 1
        shares = worst_shares_ns(self.entry, sizes)
        return replace(self, worst_ns=tuple(ns * margin for ns in shares))

    @property
    def curve(self) -> WorkloadCurve | None:
        """The workload curve of successive firings; None if only the worst case of one is known."""
        if self.from_text or self.phases_ns:
            phases = [ceil(ns) for ns in self.worst_ns]
            return cyclic_workload(phases) if len(set(phases)) > 1 else None
        if self.entry is None or self.entry.curve is None:
            return None
        return self.entry.curve.scaled(MARGIN if self.entry.estimated else 1)


@dataclass(frozen=True, slots=True)
class AppTimes:
    """Worst-case times of one app's tasks for analyses without a mapping, in ns, per phase or one
    for all.

    `ns` is the time where a task is pinned or mapped, else on the slowest CPUs, else on the fastest
    type; `least_ns` is the time on the fastest type, a lower bound over all mappings. `guessed` are
    the tasks without a known time: 1 ns. `source` is the weakest origin among them; `measured` are
    the tasks whose time comes from a profile, `timeless` are `repeat` and `last` on arrows.
    `wakeup_ns` is how late a thread goes on at most after it has slept: on the best CPUs, and on
    any.
    """

    ns: dict[str, tuple[Fraction, ...]]
    source: Weakest
    measured: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    least_ns: dict[str, tuple[Fraction, ...]] = field(default_factory=dict)
    timeless: tuple[str, ...] = ()
    wakeup_ns: tuple[int, int] = (0, 0)

    @property
    def unknown(self) -> bool:
        """True if no time is known, so that all tasks count alike."""
        return len(self.guessed) + len(self.timeless) == len(self.ns)


@dataclass(frozen=True)
class Times:
    """Times of all tasks of a system by task and type of processors.

    `cpus` are the types of CPUs. `at` is the type where a task is pinned, `placed` the one where a
    mapping puts it.
    `reference_ns` is the mean time of a task's reference on a CPU, if nothing else is known of the
    task: a rough substitute. `elsewhere` has times of tasks that no processor of this platform can
    run, or is known to: analyses use them, mappings do not. `wakeup_ns` is as in AppTimes.
    """

    of: Mapping[str, Mapping[str, FiringTime]]
    at: Mapping[str, str] = field(default_factory=dict)
    reference_ns: Mapping[str, float] = field(default_factory=dict)
    placed: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, FiringTime] = field(default_factory=dict)
    wakeup_ns: tuple[int, int] = (0, 0)
    cpus: tuple[str, ...] = ("cpu",)

    def on_mapping(self, placements: tuple[Placement, ...], platform: Platform) -> Times:
        """The same with the placements of a mapping."""
        return replace(
            self, placed={p.task: platform.pool_of(p.processors[0]).type for p in placements}
        )

    def on(self, task: str, type_: str) -> FiringTime | None:
        """The time of a task on a type of processors, None if it is not known."""
        return self.of[task].get(type_)

    def on_cpu(self, task: str) -> FiringTime | None:
        """The time of a task on the CPUs where its worst case is longest."""
        known = self.of[task]
        own = (known[cpu] for cpu in self.cpus if cpu in known)
        return max(own, key=lambda time: time.longest_ns, default=None)

    def on_mapped(self, task: str) -> FiringTime | None:
        """The time of a task where it is mapped, else on the slowest CPUs."""
        return self.of[task].get(self.placed.get(task, "")) or self.on_cpu(task)

    def here(self, task: str) -> FiringTime | None:
        """The time of a task where it is mapped or pinned, else on the slowest CPUs, else where its
        worst case is shortest.
        """
        known = self.of[task]
        found = known.get(self.placed.get(task) or self.at.get(task) or "") or self.on_cpu(task)
        if found is not None:
            return found
        return min(known.values(), key=lambda t: t.longest_ns, default=self.elsewhere.get(task))

    def least(self, task: str) -> FiringTime | None:
        """The time of a task where its worst case is shortest, among the types still open to it."""
        return min(self._open(task), key=lambda t: t.longest_ns, default=self.elsewhere.get(task))

    def _open(self, task: str) -> list[FiringTime]:
        known = self.of[task]
        return [known[self.at[task]]] if self.at.get(task) in known else list(known.values())

    def app(self, app: Application) -> AppTimes:
        """Worst-case times of an app."""
        times = {t.name: (self.here(t.name), self.least(t.name)) for t in app.tasks}
        return replace(_app_times(app, times), wakeup_ns=self.wakeup_ns)

    def app_means(self, app: Application) -> AppTimes:
        """Mean times of an app, in the same form: the least is on the type with the shortest
        mean.
        """
        means = {}
        for name in (t.name for t in app.tasks):
            least = min(self._open(name), key=lambda t: t.mean_ns, default=self.elsewhere.get(name))
            means[name] = _as_mean(self.here(name)), _as_mean(least)
        return _app_times(app, means)

    def means(self, placements: tuple[Placement, ...], platform: Platform) -> dict[str, float]:
        """Mean time of a firing in ns by task, on its mapped processors, if it is known."""
        mapped = self.on_mapping(placements, platform)
        times: dict[str, float] = {}
        for name in self.of:
            time = mapped.on_mapped(name)
            if time is not None:
                times[name] = float(time.mean_ns)
            elif name in self.reference_ns:
                times[name] = self.reference_ns[name]
        return times

    @cached_property
    def exceeded(self) -> tuple[tuple[str, str, FiringTime], ...]:
        """Declared or pinned worst cases that a run exceeded: (task, type with the longest,
        time).
        """
        exceeded_times = []
        for name, known in self.of.items():
            here = {self.at[name]: known[self.at[name]]} if self.at.get(name) in known else known
            late = [
                (time.seen_ns - time.longest_ns, type_)
                for type_, time in here.items()
                if time.from_text and time.seen_ns > time.longest_ns
            ]
            if late:
                _, type_ = max(late)
                exceeded_times.append((name, type_, known[type_]))
        return tuple(exceeded_times)

    def warnings(self, tasks: Mapping[str, Task]) -> tuple[Diagnostic, ...]:
        """A diagnostic for each of `exceeded`."""
        return tuple(
            too_optimistic(tasks[name], time, time.seen_ns) for name, _, time in self.exceeded
        )


def too_optimistic(task: Task, time: FiringTime, seen_ns: int) -> Diagnostic:
    """The warning that a firing took longer than declared in the text."""
    word = "declared" if time.source == "declared" else "pinned"
    message = (
        f"`{task.name}` took up to {_ms(seen_ns)}, more than the {word} {_ms(time.longest_ns)}: "
        "proofs that use it may not hold"
    )
    help_text = "increase the `wcet`, or leave it out to use the measured worst case"
    return Diagnostic("F613", message, task.span, help=help_text, severity="warning")


def times_of(system: System, platform: Platform, profile: Profile | None = None) -> Times:
    """The times of every task of a system on a platform."""
    measured: dict[str, dict[str, ProfileEntry]] = {}
    for entry in profile.entries if profile is not None else ():
        measured.setdefault(entry.subject, {})[entry.processor] = entry
    pins = {pin.task: pin for pin in system.pins if pin.platform == platform.name}
    at = _types_of(pins, platform)
    times: dict[str, dict[str, FiringTime]] = {}
    elsewhere: dict[str, FiringTime] = {}
    for task in all_tasks(system.apps):
        name = task.name
        wcet = pins[name].wcet_ns if name in pins else None
        entries = measured.get(name, {})
        times[name] = dict(_times(task, wcet, entries, platform, at.get(name)))
        other = _elsewhere(task, entries, platform)
        if not times[name] and other is not None:
            elsewhere[name] = other
    cpus = platform.types_of("cpu")
    references: dict[str, float] = {}
    for name, entries in measured.items():
        own = [float(entries[cpu].expected_ns) for cpu in ("cpu", *cpus) if cpu in entries]
        if own and times.get(name) == {}:
            references[name] = max(own)
    latencies = [pool.wakeup_ns for pool in platform.pools if pool.kind == "cpu"]
    wakeup_ns = min(latencies, default=0), max(latencies, default=0)
    return Times(times, at, references, elsewhere=elsewhere, wakeup_ns=wakeup_ns, cpus=cpus)


def _types_of(pins: Mapping[str, Pin], platform: Platform) -> dict[str, str]:
    """The type of processors that each pinned task begins on."""
    types = platform.types
    first = {task: pin.stages[0].processors[0] for task, pin in pins.items()}
    return {task: types[processor] for task, processor in first.items() if processor in types}


def _times(
    task: Task,
    pin: Fraction | None,
    entries: Mapping[str, ProfileEntry],
    platform: Platform,
    at: str | None,
) -> Iterator[tuple[str, FiringTime]]:
    """The times of a task by type; `pin` is the `wcet` of its pin, `at` where that is."""
    for type_, kind in platform.kinds.items():
        alike = len(platform.types_of(kind)) > 1
        entry, of_kind = _entry_for(type_, kind, entries, platform)
        declared, on = _declared_on(task, type_, platform)
        known = bool(on) or entry is not None
        if pin is not None:
            yield type_, FiringTime((pin,), pin, "pin", entry)
        elif declared and _is_for(task, type_, platform, at, known):
            mean = _mean(declared) if entry is None else Fraction(entry.expected_ns)
            for_kind = alike and on in ("", kind)
            yield type_, FiringTime(declared, mean, "declared", entry, for_kind)
        elif entry is not None and has_code(task, kind, platform):
            margin = MARGIN if entry.estimated else Fraction(1)
            worst = margin * max(worst_shares_ns(entry))
            mean, source = Fraction(entry.expected_ns), _measured(entry)
            yield type_, FiringTime((worst,), mean, source, entry, of_kind and alike)


def _declared_on(task: Task, type_: str, platform: Platform) -> tuple[tuple[Fraction, ...], str]:
    """A task's own `wcet` on a type, and whether it is that of the type, of its kind, or of all
    processors (""); no times where it has none.

    Times of single pools count if all pools of the type have one: the longest, of equal ones the
    first.
    """
    stated, kind = dict(task.wcet_on), platform.kinds[type_]
    if type_ in stated:
        return stated[type_], type_
    for_kind = stated.get(kind, task.wcet_ns)
    pools = [pool.name for pool in platform.pools if pool.type == type_]
    if not any(name in stated for name in pools):
        return for_kind, kind if kind in stated else ""
    times = [stated.get(name, for_kind) for name in pools]
    if not all(times):
        return (), type_
    return max(times, key=max), type_


def _entry_for(
    type_: str, kind: str, entries: Mapping[str, ProfileEntry], platform: Platform
) -> tuple[ProfileEntry | None, bool]:
    """What was measured on a type, else on its kind or on other types of it; and whether that holds
    for the whole kind alike.

    It may have been measured on the fastest processors of the kind: where the platform states
    their speeds, the estimate is as much longer as these are faster.
    """
    if type_ in entries:
        return entries[type_], type_ == kind
    speeds: dict[str, Fraction] = {}
    for pool in platform.pools:
        if pool.kind == kind:
            speeds[pool.type] = min(pool.speed, speeds.get(pool.type, pool.speed))
    if not all(speeds.values()):
        return entries.get(kind), True
    if kind in entries:
        return slower(entries[kind], max(speeds.values()) / speeds[type_]), False
    guesses = [
        slower(entries[other], speed / speeds[type_])
        for other, speed in speeds.items()
        if other in entries
    ]
    return max(guesses, key=lambda entry: entry.wcet_ns, default=None), False


def _elsewhere(
    task: Task, entries: Mapping[str, ProfileEntry], platform: Platform
) -> FiringTime | None:
    """The declared time of a task that cannot run on this platform; of several on types that it
    lacks none, since each may be false there. Else its time on a CPU if the platform has no CPU."""
    stated = {ns for _, ns in task.wcet_on}
    if task.wcet_ns or stated:
        if not task.wcet_ns and len(stated) > 1:
            return None
        declared = task.wcet_ns or stated.pop()
        return FiringTime(declared, _mean(declared), "declared")
    entry = entries.get("cpu") if all(pool.kind != "cpu" for pool in platform.pools) else None
    if entry is None:
        return None
    return FiringTime(
        (Fraction(entry.wcet_ns),), Fraction(entry.expected_ns), _measured(entry), entry
    )


def _mean(phases: tuple[Fraction, ...]) -> Fraction:
    return phases[0] if len(phases) == 1 else sum(phases, Fraction(0)) / len(phases)


def _measured(entry: ProfileEntry) -> TimeOrigin:
    return "estimated" if entry.estimated else "measured"


def has_code(task: Task, kind: str, platform: Platform) -> bool:
    """Can a processor of that kind run the task? Abstract tasks run wherever they have times.

    A task with code for a GPU alone runs as its reference if the platform has no GPU; otherwise the
    time of the reference is not the time of the task.
    """
    if (
        task.network is not None
        or not task.implementations
        or any(i.kind == kind for i in task.implementations)
    ):
        return True
    return (
        kind == "cpu"
        and task.reference is not None
        and all(p.kind != "gpu" for p in platform.pools)
    )


def _is_for(task: Task, type_: str, platform: Platform, at: str | None, known: bool) -> bool:
    """Does a task's own `wcet` hold on that type?

    Without code, one for all holds where the task is pinned, else on CPUs; and wherever a time is
    `known`, by the text or a measurement, since a mapping may put the task there.
    """
    kind = platform.kinds[type_]
    if task.implementations:
        return has_code(task, kind, platform)
    if known:
        return True
    return kind == "cpu" if at is None else type_ == at


def _as_mean(time: FiringTime | None) -> FiringTime | None:
    if time is None:
        return None
    source = time.source
    if time.entry is not None and source != "pin":
        source = _measured(time.entry)
    worst = time.worst_ns if source == "declared" else time.usual_ns
    return FiringTime(worst, time.mean_ns, source, time.entry)


def _app_times(
    app: Application, times: Mapping[str, tuple[FiringTime | None, FiringTime | None]]
) -> AppTimes:
    ns: dict[str, tuple[Fraction, ...]] = {}
    least: dict[str, tuple[Fraction, ...]] = {}
    guessed, measured = [], []
    for task in app.tasks:
        here, fastest = times[task.name]
        if here is None or fastest is None:
            ns[task.name] = least[task.name] = (Fraction(1),)
            guessed.append(task.name)
            continue
        ns[task.name], least[task.name] = here.worst_ns, fastest.worst_ns
        if not here.from_text:
            measured.append(task.name)
    source: Weakest = "wcet"
    if guessed:
        source = "unit"
    elif measured:
        source = "profile"
    timeless = tuple(t.name for t in app.tasks if t.resampling is not None)
    return AppTimes(ns, source, tuple(measured), tuple(guessed), least, timeless)


def _ms(ns: Fraction | int) -> str:
    return f"{float(ns) / 1e6:.6g} ms"
