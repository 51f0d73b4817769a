"""Numbers per phase, in the form of graph files: `"3"`, `"1,3"`, `"2*1,3"`.

In: such a text. Out: runs of equal numbers, so that `"1000000*1"` needs no memory here; or, in
words, the fault. The language limits the length, because it has to hold the import.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ...dsl.build_tree import LONGEST_NUMBER
from ...dsl.evaluate import MOST_PHASES

Runs = tuple[tuple[Fraction, int], ...]
_ENTRY = re.compile(
    r"(?:([0-9]{1,9})\s*\*\s*)?([+-]?)((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)(?:\s*/\s*([0-9]+))?"
)


class Unreadable(Exception):
    """The fault, to follow the name of the list."""


def parse(text: str, *, whole: bool) -> Runs:
    """The numbers of a list, all of them non-negative. Raises Unreadable."""
    runs: list[tuple[Fraction, int]] = []
    for entry in text.strip().removesuffix(",").split(","):
        value, count = _entry(entry.strip(), whole)
        if runs and runs[-1][0] == value:
            value, count = value, runs.pop()[1] + count
        runs.append((value, count))
    if length(tuple(runs)) > MOST_PHASES:
        raise Unreadable(f"has more than {MOST_PHASES} phases")
    return tuple(runs)


def _entry(entry: str, whole: bool) -> tuple[Fraction, int]:
    """An entry: its number, and how often it stands there."""
    if not entry:
        raise Unreadable("has an entry without a number")
    match = _ENTRY.fullmatch(entry)
    cut = entry
    if len(entry) > 40:
        cut = entry[:37] + "..."
    if match is None:
        raise Unreadable(f"holds `{cut}`, which is not a number")
    stated_count, sign, digits, stated_divisor = match.groups()
    count, divisor = int(stated_count or 1), stated_divisor or "1"
    if max(len(digits), len(divisor)) > LONGEST_NUMBER:
        raise _too_long()
    if not int(divisor):
        raise Unreadable("divides by 0")
    if not count:
        raise Unreadable(f"repeats an entry 0 times: `{cut}`")
    value = Fraction(digits) / int(divisor)
    _check(value, sign, whole, cut)
    return value, count


def _check(value: Fraction, sign: str, whole: bool, cut: str) -> None:
    """Raises Unreadable for a number that no list may have; `cut` is its text."""
    if sign == "-" and value:
        raise Unreadable(f"is negative: `{cut}`")
    if whole and value.denominator != 1:
        raise Unreadable(f"is not a whole number: `{cut}`")
    if max(value.numerator, value.denominator) >= 10**LONGEST_NUMBER:
        raise _too_long()


def _too_long() -> Unreadable:
    return Unreadable(f"holds a number of more than {LONGEST_NUMBER} digits")


def length(runs: Runs) -> int:
    """The number of phases."""
    return sum(count for _, count in runs)


def over(runs: Runs, phases: int) -> Runs:
    """The same numbers for that many phases: one number holds in all of them."""
    if length(runs) == 1:
        return ((runs[0][0], phases),)
    return runs


def always_one(runs: Runs) -> bool:
    """True when every phase has the number 1."""
    return all(value == 1 for value, _ in runs)


def written(runs: Runs) -> str:
    """The numbers in the language: `3`, `[1, 3]`, `[0 for 9, 1]`."""
    if length(runs) == 1:
        return _number(runs[0][0])
    entries: list[str] = []
    for value, count in runs:
        text = _number(value)
        if count > 2:
            entries += [f"{text} for {count}"]
        else:
            entries += [text] * count
    return f"[{', '.join(entries)}]"


def _number(value: Fraction) -> str:
    whole, rest = divmod(value.numerator, value.denominator)
    if not rest:
        return str(whole)
    if 10**9 % value.denominator == 0 and whole < 10**20:
        return f"{whole}.{rest * 10**9 // value.denominator:09}".rstrip("0")
    return f"{value.numerator} / {value.denominator}"
