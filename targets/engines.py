"""The limit of engines on the processors of a platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.platform import Platform, Pool
from .fitness import Reason


def crowded(
    platform: Platform, places: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Pool, int, tuple[str, ...]]]:
    """Pools that would hold more engines than they can, how many, and on which of their processors;
    `places` has the processors of each engine.
    """
    for pool in platform.pools:
        if pool.engines is None:
            continue
        held = {p: sum(p in where for where in places.values()) for p in pool.processors}
        most = sum(held.values()) if pool.engines_total else max(held.values())
        if most > pool.engines:
            full = tuple(p for p in held if pool.engines_total or held[p] == most)
            yield pool, most, full


def too_many_engines(
    platform: Platform, places: Mapping[str, Sequence[str]]
) -> tuple[Reason, str] | None:
    """The reason why networks (or stages) cannot be where `places` has them, and the last one that
    is one too many."""
    for pool, most, full in crowded(platform, places):
        last = [name for name, where in places.items() if not set(full).isdisjoint(where)][-1]
        where = f"`{pool.name}`" if pool.engines_total else f"one `{pool.name}`"
        message = f"{most} engines on {where}, which can hold {pool.engines}"
        return ("F510", message, "make fewer stages, or run some of them on the GPU"), last
    return None
