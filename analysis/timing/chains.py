"""Bounds of chains: ages of data, and reactions to events, over ways through several apps.

In: chains in parts, one for each app, and the bounds of these as paths. Out: the largest age, from
the release of the newest data of the source that an output was made of to the end of that output;
or the largest reaction, from an event just after a release of the source to the end of the first
output that knows it.

Let T be the largest time between the releases of successive firings that a part passes on, and L
the bound of the part, from such a release to the end of writing its token into the mailbox. A token
is overwritten T + L after the release of its data at the latest, since the data behind the next
token are released by T later. What a reader finds is thus T + L old at most when it begins, and the
last part takes its own L from there on. So the age is at most the sum of T + L over all parts but
the last one, and L of the last one. An event waits for the next release, T at most, and is written
L later; the last reader that missed it was released before, the next one T later. So the reaction
is at most the sum of T + L over all parts (Davare et al., "Period optimization for hard real-time
distributed automotive systems", 2007). Both hold for any phases of the apps, on one machine or on
several. Where all apps share a clock, one_clock.py knows more.

A part that takes each token once is released by it: there is no wait in front of it, but for the
news in a token that it does not pass on, which wait for one that it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from .system import Time, TimedChain, TimedPart

#: The bounds of the paths of each group in ns, in their order.
PathBounds = Mapping[str, Sequence[Fraction | None]]


def largest_gap(newest: Sequence[int], firings: int, period: Fraction) -> Fraction:
    """The largest time in ns between the releases of successive firings of a source that the end of
    a path depends on: those in `newest`, of `firings` in each period."""
    passed_on = sorted({number % firings for number in newest})
    apart = [
        b - a for a, b in zip(passed_on, [*passed_on[1:], passed_on[0] + firings], strict=True)
    ]
    return max(apart) * period / firings


def bound_in_any_phases(
    chain: TimedChain, way: Sequence[TimedPart], paths: PathBounds
) -> Fraction | None:
    """The age or the reaction in ns along one way; None where no bound is known."""
    terms = chain_terms(chain, way, paths)
    return None if terms is None else sum((w + n for w, n in terms), start=Fraction(0))


def chain_terms(
    chain: TimedChain, way: Sequence[TimedPart], paths: PathBounds
) -> list[tuple[Fraction, Fraction]] | None:
    """What the bound along one way is made of, in ns: for each part the wait in front of it, and
    its latency. None where no bound is known.

    An event waits for the next release of the part; a token is found until a newer one is there.
    """
    terms: list[tuple[Fraction, Fraction]] = []
    before: TimedPart | None = None
    for part in way:
        latency = paths[part.group][part.path] if part.group in paths else None
        if latency is None or part.gap is None:
            return None
        wait: Time = part.held if chain.kind == "reaction" else 0
        if not part.takes_each:
            waited_for = part if chain.kind == "reaction" else before
            if waited_for is not None and waited_for.gap is not None:
                wait = waited_for.gap
        terms.append((Fraction(wait), latency))
        before = part
    return terms


def over_ways(chain: TimedChain, bounds: Sequence[Fraction | None]) -> Fraction | None:
    """The bound over all ways from those of each: the oldest data count, and the first news."""
    known = [bound for bound in bounds if bound is not None]
    if chain.kind == "age":
        return max(known) if known and len(known) == len(bounds) else None
    return min(known, default=None)
