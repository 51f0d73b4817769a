"""Changes of state: how long one takes at most, and the same played through.

In: what runs in a state, as a timed system whose groups are released together when the state is
entered. Out: bounds on both halves of a change by the protocol `idle`, or what one execution of a
machine shows.

By `idle` no frame begins in the old state once a change is asked for, those that have begun end,
and then the groups of the new state are released together. So nothing of the two states ever meets,
and the bounds of each hold in it. A change is only looked at when every group of the state has
begun a frame; one that is asked for earlier waits for that.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from .response_time import bounds
from .simulate import Choices, Observed, simulate
from .system import Time, TimedGroup, TimedSystem, per_iteration


@dataclass(frozen=True, slots=True)
class Halves:
    """Bounds in ns for a state that is left, from the request (or from the beginning of the state,
    if the request came before) to the end of its last frame; and for one that is entered, until
    each group has ended its first frame."""

    leaving: Fraction
    entering: Fraction


def halves(system: TimedSystem, live: Collection[str] = ()) -> Halves | None:
    """The bounds of a state; None where some group has none. Raises Refused.

    Groups that are `live` have sources that wait for data from outside: their frames begin when
    they start to wait, and nothing stops them before the data come, a period later at most.

    By the time when the last group begins, others may be in later frames. The last one of each that
    is released by then, and those that have begun before their release, end within their bound from
    their release on.
    """
    bounded = bounds(system)
    if any(g.response is None for g in bounded.groups.values()):
        return None
    wait = {g.name: Fraction(g.period) if g.name in live else Fraction(0) for g in system.groups}
    ends: dict[str, list[Fraction]] = {}
    for g in system.groups:
        ends[g.name] = [wait[g.name] + bounded.tasks[t.name].end for t in g.tasks]
    all_begun = max(Fraction(0), *(min(own) for own in ends.values()))
    leaving = entering = Fraction(0)
    for g in system.groups:
        last = all_begun // g.period + ahead(g)
        leaving = max(leaving, last * g.period + max(ends[g.name]))
        entering = max(entering, *ends[g.name])
    return Halves(leaving, entering)


def ahead(group: TimedGroup) -> int:
    """How many iterations before its release one can begin: what stands behind initial tokens fires
    without its source.

    A task can be as far ahead as each of its inputs lets it: a channel lets it go on from where its
    source is by the iterations for which initial tokens are enough to begin.
    """
    firings = {t.name: t.firings for t in group.tasks}
    inputs: dict[str, list[tuple[str, int]]] = {name: [] for name in firings}
    for c in group.channels:
        taken = per_iteration(c.consumed, firings[c.destination])
        spare = c.delay - taken[0]
        inputs[c.destination].append((c.source, max(0, 1 + spare // sum(taken))))
    iterations = {name: 0 for name, feeding in inputs.items() if not feeding}
    while True:  # shortest ways from the sources, where each task waits for all of its inputs
        further: dict[str, int] = {}
        for name, feeding in inputs.items():
            counts = [iterations[source] + more for source, more in feeding if source in iterations]
            if counts and iterations.get(name) != min(counts):
                further[name] = min(counts)
        if not further:
            return max(iterations.values(), default=0)
        iterations.update(further)


# -- played through --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PlayedChange:
    """A change that was played through: from the request (or the beginning of the state, if later)
    to the end of the last frame, and from there until each group of the next state had ended its
    first one, in ns. `seen` is the stay in the state that was left."""

    source: str
    target: str
    drained: Time
    first: Time
    seen: Observed


def played(
    states: Mapping[str, TimedSystem],
    transitions: Collection[tuple[str, str]],
    initial: str,
    rng: random.Random,
    *,
    changes: int,
) -> Iterator[PlayedChange]:
    """So many changes of a machine, asked for at random and at bad moments: when something is
    released, begins or ends.

    Raises Refused and ValueError as `simulate` does.
    """
    at = initial
    leaving: dict[str, list[str]] = {}
    for name in states:
        leaving[name] = sorted({target for source, target in transitions if source == name})
    left: PlayedChange | None = None
    for _ in range(changes + 1):
        system = states[at]
        choices = Choices(
            execution=rng.choice(("worst", "worst", "worst", "random", "extreme")),
            shuffle=rng.random() < 0.5,
            against=rng.choice(system.groups).name,
        )
        asked = _moment(system, rng)
        horizon = 8 * max(g.period for g in system.groups)
        seen = simulate(system, horizon, replace(choices, asked=asked), rng)
        if left is not None:
            yield PlayedChange(left.source, at, left.drained, seen.first, left.seen)
        if not leaving[at]:
            return
        left = PlayedChange(at, "", max(0, seen.over - asked), 0, seen)
        at = rng.choice(leaving[at])


def _moment(system: TimedSystem, rng: random.Random) -> Time:
    """When a change is asked for."""
    group = rng.choice(system.groups)
    longest = max(g.period for g in system.groups)
    match rng.randrange(4):
        case 0:
            return 0
        case 1:
            return rng.randrange(4) * group.period
        case 2:
            seen = simulate(system, 4 * longest, Choices(), rng, keep=True).slices
            if not seen:
                return 0
            moment = rng.choice(seen)
            return rng.choice((moment.start, moment.end))
    return rng.randrange(max(1, int(4 * longest)))
