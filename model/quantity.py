"""Quantities in words: one way to print them."""

from __future__ import annotations

#: Units of sizes, as texts have them.
UNITS = ("B", "kB", "MB", "GB", "TB")


def in_bytes(count: int) -> str:
    """A size with four digits, in the largest unit of which it has at least one: `1.54 MB`."""
    value = float(count)
    for unit in UNITS[:-1]:
        if value < 999.95:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} {UNITS[-1]}"
