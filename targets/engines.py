"""The limit of engines on the processors of a platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.platform import Platform, Pool
from .fitness import Reason


def crowded(platform: Platform, places: Mapping[str, Sequence[str]]) -> Iterator[tuple[Pool, int]]:
    """Pools that would hold more engines than they can, and how many; `places` has the processors
    of each engine.
    """
    for pool in platform.pools:
        if pool.engines is None:
            continue
        held = [sum(p in where for where in places.values()) for p in pool.processors]
        most = sum(held) if pool.engines_total else max(held)
        if most > pool.engines:
            yield pool, most


def too_many_engines(platform: Platform, places: Mapping[str, Sequence[str]]) -> Reason | None:
    """The reason why networks (or stages) cannot be where `places` has them."""
    for pool, most in crowded(platform, places):
        where = f"`{pool.name}`" if pool.engines_total else f"one `{pool.name}`"
        message = f"{most} engines on {where}, which can hold {pool.engines}"
        return "F510", message, "make fewer stages, or run some of them on the GPU"
    return None
