"""Repetition of tokens, and keeping only the last ones, as operators on an arrow, if these are
equivalent.

PiSDF counts for itself how often a sub-graph fires its tasks. If that takes more tokens from an
input interface than one firing from outside brings, those tokens come again from the first one on;
from an output interface only the last tokens leave. A broadcast whose outputs are longer than its
input repeats in the same way. If the lengths are no multiples of each other the language has no
operator: then a task copies (`level`).
"""

from __future__ import annotations


def repeated(taken: int, made: int) -> str | None:
    """A hop of an arrow that makes tokens out of a block, from the first one on, repeatedly.

    "" if the numbers are equal, None if no operator fits.
    """
    return _hop("repeat", taken, made)


def kept(taken: int, made: int) -> str | None:
    """A hop of an arrow that makes of tokens the last ones; "" and None as in `repeated`."""
    return _hop("last", made, taken)


def _hop(word: str, block: int, blocks: int) -> str | None:
    if block == blocks:
        return ""
    if blocks % block:
        return None
    tokens = ""
    if block > 1:
        tokens = f" of {block}"
    return f"{word} {blocks // block}{tokens}"
