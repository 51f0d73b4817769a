"""Rows of kinds of processors that a network may be cut over, as the paper lists them."""

from __future__ import annotations

from collections.abc import Sequence

from flowc.model.platform import Platform
from flowc.search.deadline.candidates import _count, _runs, _split


def options_of(platform: Platform, kinds: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Rows of kinds with at most two borders, runs of one kind as long as the board has processors
    of it.

    One GPU and two DLAs give the paper's A (dla, gpu), B (gpu, dla, gpu), C (dla, dla, gpu), D
    (gpu, dla, dla, gpu) and E (gpu), and what begins or ends elsewhere.
    """
    found: list[tuple[str, ...]] = []
    for runs in _runs(kinds):
        for row in _split(runs, {k: _count(platform, k) for k in kinds}):
            found.append(tuple(k for k, parts in row for _ in range(parts)))
    return tuple(sorted(set(found), key=lambda row: (len(row), row)))
