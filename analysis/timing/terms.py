"""Bounds and what they are made of: the answers of the response-time analyses.

Data only; times in ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from .system import TimedPath

Kind = Literal[
    "own", "earlier", "release", "wakeup", "higher", "equal", "queue", "spared", "contention"
]


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a window: `times` of `each` ns that `who` takes, `total` together (less where a
    queue limits them).

    `own` is the firing itself, `earlier` are firings of the same worker just before it, `release`
    is the time until a later firing of a source is released, or by which releases are late (less
    than 0: what the others are made of began before the release that counts),
    `wakeup` is the time until the worker is awake,
    `higher` and `equal` are groups by priority, `queue` is who is ahead on a FIFO processor,
    `spared` is how much less slips in before kernels of a GPU than they count (less than 0),
    `contention` is time lost to another pool.
    """

    kind: Kind
    who: str
    times: int
    each: Fraction
    total: Fraction


@dataclass(frozen=True, slots=True)
class TaskBound:
    """Bounds of a task, over all its firings; times in ns.

    `response`: from when a firing has its data, room and release to its end. `end`: from the
    release of its iteration to its end. `jitter`: between the earliest and the latest that it can
    have all it needs. `terms` add up to `window`, which begins `start` after the release of the
    iteration, once the worker knows of the end of `after` (or the release). `capped` where the
    bound over the whole path from the release is shorter than start and window together.
    """

    task: str
    group: str
    processor: str
    response: Fraction
    end: Fraction
    jitter: Fraction
    after: str
    start: Fraction
    window: Fraction
    terms: tuple[Term, ...]
    capped: bool


@dataclass(frozen=True, slots=True)
class PathResponse:
    """`latency` is None when there is no bound. `terms` are as for groups, from the release of the
    newest data on."""

    path: TimedPath
    latency: Fraction | None
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class GroupResponse:
    """`response` is None when there is no bound: `reason` says why. `path`: tasks whose windows
    lead to the end.

    `terms` are those of the windows on the path, or from where the bound over the whole path is
    shorter, of that one. They add up to the response.
    """

    group: str
    response: Fraction | None
    deadline: Fraction | None
    reason: str
    path: tuple[str, ...]
    terms: tuple[Term, ...]
    paths: tuple[PathResponse, ...]

    @property
    def schedulable(self) -> bool:
        """Are all deadlines kept in every case?"""
        held = [(self.response, self.deadline), *((p.latency, p.path.deadline) for p in self.paths)]
        return self.response is not None and all(
            due is None or (b is not None and b <= due) for b, due in held
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tasks of groups without a bound are missing from `tasks`."""

    groups: dict[str, GroupResponse]
    tasks: dict[str, TaskBound]


@dataclass(frozen=True, slots=True)
class WorstCases:
    """Bounds in ns, None = unbounded: of `groups` from the release of an iteration to the end of
    its last sink, of the `paths` of each group, in its order, from the release of the newest data
    to the end of what depends on them, and of the `chains` that end in each group.
    """

    groups: dict[str, Fraction | None]
    paths: dict[str, tuple[Fraction | None, ...]]
    chains: dict[str, tuple[Fraction | None, ...]]


def filled(terms: Sequence[Term], length: Fraction, who: str) -> tuple[Term, ...]:
    """Terms that add up to a length: what is missing was waited for the release of `who`."""
    rest = length - sum(term.total for term in terms)
    if not rest:
        return tuple(terms)
    return (Term("release", who, 1, rest, rest), *terms)
