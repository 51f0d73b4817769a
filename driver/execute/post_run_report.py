"""Results of a run beside what was known before: measured times of tasks, and bounds on latencies.

In: a build, and the report of its run. Out: differences that are large enough for a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...model.profile import Profile
from ...report.measured import MeasuredRun
from ...runtime.report import pauses
from ..build.build import Built

#: A task gets a line if its firings take this many times the measured time, after this many
#: firings, and the excess is at least this share of the run.
TIMES, FIRINGS, SHARE = 2.0, 10, 0.01


@dataclass(frozen=True, slots=True)
class Slower:
    """A task whose firings took longer than when it was measured alone: mean times in ns."""

    task: str
    mean_ns: float
    profile_ns: float


@dataclass(frozen=True, slots=True)
class Bounded:
    """The longest latency of a run beside its bound, of an app, a path, an age or a reaction, by
    its `name`; times in ns. `skipped` are the frames that apps have skipped, which bounds of ages
    and reactions do not count, and `paused`, in words, the live sources that have kept it waiting
    for longer than bounds count with. `supposed` is what the bound supposes, in words."""

    name: str
    bound_ns: int
    deadline_ns: int | None
    longest_ns: int
    skipped: tuple[tuple[str, int], ...] = ()
    paused: tuple[str, ...] = ()
    supposed: str = ""

    @property
    def exceeded(self) -> bool:
        """Did the latency exceed the bound? Then the times that the bound assumes were too
        short, or what it supposes does not hold."""
        return self.longest_ns > self.bound_ns


def slower(built: Built, ran: MeasuredRun, waiting: Collection[str] = ()) -> tuple[Slower, ...]:
    """Tasks that took much longer than in the profile, the most expensive first, without those that
    are `waiting`."""
    if built.profile is None:
        return ()
    alone = _measured_alone(built.profile)
    seconds = max((app.seconds for app in ran.apps.values()), default=0.0)
    by_loss = []
    for name, task in ran.tasks.items():
        expected = alone.get(name)
        if name in waiting or not expected or task.firings < FIRINGS or task.mean_ns is None:
            continue
        lost_ns = (task.mean_ns - expected) * task.firings
        if task.mean_ns >= TIMES * expected and lost_ns >= SHARE * seconds * 1e9:
            by_loss.append((lost_ns, Slower(name, task.mean_ns, expected)))
    return tuple(slow for _, slow in sorted(by_loss, key=lambda pair: -pair[0]))


def _measured_alone(profile: Profile) -> dict[str, float]:
    """The mean times of tasks on a CPU, as they were measured."""
    times = {}
    for entry in profile.entries:
        if entry.on_cpu and not entry.estimated:
            times[entry.subject] = float(entry.mean_ns)
    return times


def bounded(built: Built, ran: MeasuredRun) -> tuple[Bounded, ...]:
    """Latencies that the stored mapping bounds, if the run has measured any."""
    return tuple(_bounded(built, ran))


def _bounded(built: Built, ran: MeasuredRun) -> Iterator[Bounded]:
    waits = ((name, task.wait_us, task.period_us) for name, task in ran.tasks.items())
    paused = tuple(pauses(waits))
    for group in built.mapping.groups:
        app = ran.apps.get(group.app)
        if app is None:
            continue
        longest = app.latency.max_ns
        if group.response_ns is not None and longest is not None:
            yield Bounded(
                group.app,
                group.response_ns,
                group.deadline_ns,
                longest,
                paused=paused,
                supposed=group.supposed,
            )
        for path in group.paths:
            seen = app.paths.get((path.kind, path.source, path.task))
            if path.latency_ns is not None and seen is not None and seen.max_ns is not None:
                skipped: tuple[tuple[str, int], ...] = ()
                if path.kind != "path":
                    skipped = tuple((n, a.skipped) for n, a in ran.apps.items() if a.skipped)
                yield Bounded(
                    path.name,
                    path.latency_ns,
                    path.deadline_ns,
                    seen.max_ns,
                    skipped,
                    paused,
                    group.supposed,
                )
