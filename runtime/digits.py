"""Numbers as people read them: a fixed number of decimals, and where these would show too little,
three significant digits."""

from __future__ import annotations

import math

#: Decimals at most: those of a nanosecond in a millisecond.
MOST = 6


def decimals(value: float, least: int) -> str:
    """A number with at least so many decimals, and below 1 with as many as three significant digits
    need."""
    if 0 < abs(value) < 1:
        least = max(least, min(MOST, 2 - math.floor(math.log10(abs(value)))))
    return "%.*f" % (least, value)


def plain(value: float) -> str:
    """A number with three decimals, or three significant digits, without zeros at its end."""
    return decimals(value, 3).rstrip("0").rstrip(".")


def seconds(value: float) -> str:
    """A time in whole seconds, or, below one, with two significant digits."""
    return "%.0f" % value if value >= 1 else "%.2g" % value
