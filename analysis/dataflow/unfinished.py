"""Analyses that end without their answer: why, and how they say so."""

from __future__ import annotations

from typing import Literal

#: For want of time, or because the graph is too large to look at.
Why = Literal["time", "size"]


class Unfinished(Exception):
    """An analysis ended without an answer: time ran out, or the graph is too large for it."""

    why: Why


class OutOfTime(Unfinished):
    """The deadline has passed."""

    why = "time"


class TooLarge(Unfinished):
    """More firings, or pairs of them, than are looked at."""

    why = "size"
