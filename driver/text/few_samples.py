"""How well measured times are known, for the verbs that decide by them.

In: a valid system and its times. Out: a warning that names times of a few firings.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from ...model.diagnostic import Diagnostic, listed
from ...model.times import FiringTime, Times
from ...profiling.there.samples import FEWEST
from .check import Valid

#: Most tasks that are named.
MOST_NAMED = 4


def few_samples(valid: Valid, times: Times) -> tuple[Diagnostic, ...]:
    """A warning if some of these times are those of a few firings."""
    few = [name for name, known in times.of.items() if any(map(_is_rare, known.values()))]
    if not few:
        return ()
    iterations_ns = Fraction(0)
    for vector in valid.repetition.values():
        for name, firings in vector.items():
            time = times.here(name)
            iterations_ns += 0 if time is None else time.mean_ns * firings
    message = f"the times of {listed(few, MOST_NAMED)} rest on fewer than {FEWEST} firings each"
    # the first firings are left out
    seconds = max(1, ceil((FEWEST + 2) * iterations_ns / 10**9))
    help_text = (
        f"`flowc profile{valid.about} --seconds {seconds}` measures more of them, if the stream is"
        " that long"
    )
    return (Diagnostic("F624", message, None, help=help_text, severity="warning"),)


def _is_rare(time: FiringTime) -> bool:
    """Does it count, and is it known from a few firings? Those of other tools have no samples."""
    entry = time.entry
    if time.source == "pin" or entry is None:
        return False
    return bool(entry.host_hash) and entry.samples < FEWEST
