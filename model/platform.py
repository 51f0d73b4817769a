"""The machine: processors in pools, how each is scheduled, and how they disturb each other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from .span import Span

Kind = Literal["cpu", "gpu", "dla"]
Scheduler = Literal["static_order", "fixed_priority", "fifo"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Of one pool: more is a slip of the pen, and each would get its own entry everywhere.
MOST_PROCESSORS = 1024
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)


@dataclass(frozen=True, slots=True)
class Pool:
    """`count` equal processors of one kind. `indexed` is false for a single one declared without a count.

    `frequencies_hz` are the selectable clock rates; `engines` is the limit of resident engines, in total over the
    pool (`engines_total`) or each; `memory_bytes` is 0 when unknown. `compute` is the compute capability of a GPU. The
    pool is one clock domain: at each of its rates (or at the one it has) every processor takes `idle_w` watts, and
    `busy_w` more while it is busy; () = unknown.
    """

    name: str
    kind: Kind
    count: int
    indexed: bool
    scheduler: Scheduler
    frequencies_hz: tuple[Fraction, ...] = ()
    engines: int | None = None
    engines_total: bool = False
    memory_bytes: int = 0
    compute: tuple[int, int] | None = None
    idle_w: tuple[Fraction, ...] = ()
    busy_w: tuple[Fraction, ...] = ()

    @property
    def processors(self) -> tuple[str, ...]:
        """The names `carmel[0]`, `carmel[1]`, ...; a single one without index is `volta`."""
        return tuple(f"{self.name}[{i}]" for i in range(self.count)) if self.indexed else (self.name,)


@dataclass(frozen=True, slots=True)
class Contention:
    """Work on `victim` takes `factor` times as long while `aggressor` is busy."""

    victim: str
    aggressor: str
    factor: Fraction


@dataclass(frozen=True, slots=True)
class Platform:
    """`span` is None for the built-in host. `tensorrt` is the version that the board has, () = none. `power_w` watts
    takes the board itself, whatever runs."""

    name: str
    pools: tuple[Pool, ...]
    contention: tuple[Contention, ...]
    doc: str
    span: Span | None
    tensorrt: tuple[int, ...] = ()
    power_w: Fraction = Fraction(0)

    @property
    def silent(self) -> tuple[str, ...]:
        """Pools that say nothing of their power."""
        return tuple(pool.name for pool in self.pools if not pool.busy_w)

    def pool_of(self, processor: str) -> Pool:
        """The pool that a processor belongs to. Raises KeyError."""
        for pool in self.pools:
            if processor in pool.processors:
                return pool
        raise KeyError(processor)

    @property
    def processors(self) -> tuple[str, ...]:
        """All processors, in declaration order."""
        return tuple(p for pool in self.pools for p in pool.processors)
