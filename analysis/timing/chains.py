"""Bounds of chains: how old data are at the end of a way through several apps.

In: chains in parts, one for each app, and the bounds of these as paths. Out: the largest age, from
the release of the newest data of the source that an output was made of to the end of that output.

Let T be the largest time between the releases of successive firings that a part passes on, and L
the bound of the part, from such a release to the end of writing its token into the mailbox. A token
is overwritten T + L after the release of its data at the latest, since the data behind the next
token are released by T later. What a reader finds is thus T + L old at most when it begins, and the
last part takes its own L from there on. So the age is at most the sum of T + L over all parts but
the last one, and L of the last one (Davare et al., "Period optimization for hard real-time
distributed automotive systems", 2007, without the wait of the event itself). It holds for any
phases of the apps, on one machine or on several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .system import Time
from .terms import WorstCases


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A part of a chain: path number `path` of a group, from which data go on every `gap` ns at
    least. `gap` is None where no bound is known: a reader that waits for each token."""

    group: str
    path: int
    gap: Time | None


@dataclass(frozen=True, slots=True)
class TimedChain:
    """All ways from a source to a task of another group, with the age that its data may have."""

    source: str
    sink: str
    ways: tuple[tuple[TimedPart, ...], ...]
    deadline: Fraction

    @property
    def groups(self) -> tuple[str, ...]:
        """All that it leads through."""
        return tuple(dict.fromkeys(part.group for way in self.ways for part in way))


def largest_gap(newest: Sequence[int], firings: int, period: Fraction) -> Fraction:
    """The largest time in ns between the releases of successive firings of a source that the end of
    a path depends on: those in `newest`, of `firings` in each period."""
    passed_on = sorted(set(newest))
    apart = [
        b - a for a, b in zip(passed_on, [*passed_on[1:], passed_on[0] + firings], strict=True)
    ]
    return max(apart) * period / firings


def largest_age(chain: TimedChain, worst: WorstCases) -> Fraction | None:
    """The age in ns that data of a chain can have at its end; None where no bound is known, also
    where a part is not there."""
    ages = []
    for way in chain.ways:
        terms = age_terms(way, worst)
        if terms is None:
            return None
        ages.append(sum(terms, start=Fraction(0)))
    return max(ages, default=None)


def age_terms(way: Sequence[TimedPart], worst: WorstCases) -> list[Fraction] | None:
    """What the age along one way is made of, in ns: for each part its latency, and the time until
    the next token overwrites its own, but for the last one. None where no bound is known."""
    terms: list[Fraction] = []
    for part in way:
        latency = worst.paths[part.group][part.path] if part.group in worst.paths else None
        if latency is None or part.gap is None:
            return None
        terms += latency, Fraction(part.gap)
    return terms[:-1]
