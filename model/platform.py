"""Platforms: machines, processors in pools, their scheduling, contention and links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Literal, get_args

from .span import Span

Kind = Literal["cpu", "gpu", "dla", "npu", "link"]
Scheduler = Literal["static_order", "fixed_priority", "fifo", "priority", "time_slice"]
#: The kinds that a text declares as processors; a link joins machines.
KINDS: tuple[Kind, ...] = ("cpu", "gpu", "dla", "npu")
#: Those beside the CPU.
ACCELERATORS: tuple[Kind, ...] = ("gpu", "dla", "npu")
#: Those that run a stage of a network as one piece, between whose layers nothing can run.
UNDIVIDED: frozenset[Kind] = frozenset({"dla", "npu"})
#: What runs networks on an NPU.
NPU_ENGINES = ("qnn", "openvino", "rknn")
#: Limit of one pool: more is a mistake, and each would get its own entry everywhere.
MOST_PROCESSORS = 1024
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
#: Those by which priorities of apps count.
RANKED: frozenset[Scheduler] = frozenset({"fixed_priority", "priority"})
#: Those of CPUs, of GPUs, and of other accelerators.
CPU_SCHEDULERS: tuple[Scheduler, ...] = ("static_order", "fixed_priority", "fifo")
GPU_SCHEDULERS: tuple[Scheduler, ...] = ("fifo", "static_order", "priority", "time_slice")
OTHER_SCHEDULERS: tuple[Scheduler, ...] = ("fifo", "static_order")


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """Processes take turns of at most `length_ns`; going over to another one takes `switch_ns`."""

    length_ns: int
    switch_ns: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """`count` equal processors of one kind. `indexed` is false for a single one declared without a
    count.

    The kind tells what code runs there, the `type` how fast: times are known by it. It is the kind
    where a platform has no other processors of that kind. Against those of its kind, a pool is
    `speed` times as fast as one with 1 (0 = unknown). `cores` are the numbers that the operating
    system gives its CPUs; () = not stated. A `slice` belongs to the scheduler `time_slice`.

    `frequencies_hz` are the selectable clock rates; `engines` is the limit of resident engines, in
    total over the pool (`engines_total`) or each; `memory_bytes` is 0 when unknown. `compute` is
    the compute capability of a GPU, `engine` the library that runs networks on an NPU. The pool is
    one clock domain: at each of its rates (or its fixed one) every processor takes `idle_w` watts,
    and `busy_w` more while it is busy; () = unknown. With several machines, `machine` is the
    pool's, for a link the sender. `wakeup_ns` is how late a thread that slept goes on at most, once
    it has what it slept for; of CPUs only.
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
    machine: str = ""
    engine: str = ""
    wakeup_ns: int = 0
    type: str = ""
    speed: Fraction = Fraction(0)
    cores: tuple[int, ...] = ()
    slice: TimeSlice | None = None

    def __post_init__(self) -> None:
        if not self.type:
            object.__setattr__(self, "type", self.kind)

    @property
    def processors(self) -> tuple[str, ...]:
        """The names `carmel[0]`, `carmel[1]`, ...; a single one without index is `volta`."""
        if not self.indexed:
            return (self.name,)
        return tuple(f"{self.name}[{i}]" for i in range(self.count))


def first_of_pools(pools: Iterable[Pool]) -> tuple[str, ...]:
    """The processors of pools for messages that name some of them: one of each pool first."""
    rows = [pool.processors for pool in pools]
    return (*(row[0] for row in rows if row), *chain.from_iterable(row[1:] for row in rows))


@dataclass(frozen=True, slots=True)
class Contention:
    """Work on `victim` takes `factor` times as long while `aggressor` is busy."""

    victim: str
    aggressor: str
    factor: Fraction


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a link between two machines: a processor of kind `link` that runs one
    transfer at a time.

    A transfer takes `fixed_ns`, and `ns_per_byte` for each byte.
    """

    source: str
    destination: str
    fixed_ns: Fraction
    ns_per_byte: Fraction
    span: Span

    @property
    def processor(self) -> str:
        """Its name among the processors: `front->back`."""
        return f"{self.source}->{self.destination}"

    def takes_ns(self, tokens: int, size: int) -> Fraction:
        """The time of a transfer of `tokens` tokens of `size` bytes; 0 for none."""
        return self.fixed_ns + tokens * size * self.ns_per_byte if tokens else Fraction(0)


@dataclass(frozen=True)
class Platform:
    """`span` is None for the built-in host. `tensorrt` is the board's version, () = none; `module`
    names the board among `model.modules`, "" = unknown.

    With several `machines`, each pool belongs to one of them, and `wires` join them; each wire is a
    pool of its own, too. `power_w` is the board's constant power in watts. `native`: its programs
    are in C++, which have times and a mapping of their own.
    """

    name: str
    pools: tuple[Pool, ...]
    contention: tuple[Contention, ...]
    doc: str
    span: Span | None
    tensorrt: tuple[int, ...] = ()
    machines: tuple[str, ...] = ()
    wires: tuple[Wire, ...] = ()
    power_w: Fraction = Fraction(0)
    native: bool = False
    module: str = ""

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The machine of each processor, for a link the sender; empty if there is only one."""
        machines: dict[str, str] = {}
        for pool in self.pools:
            machines.update(dict.fromkeys(pool.processors, pool.machine))
        return machines

    def wire(self, source: str, destination: str) -> Wire | None:
        """The link direction from one machine to another, None without a link."""
        return next(
            (w for w in self.wires if (w.source, w.destination) == (source, destination)), None
        )

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each type of processors, in the order of the pools."""
        return {pool.type: pool.kind for pool in self.pools}

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each processor."""
        return {p: pool.type for pool in self.pools for p in pool.processors}

    @cached_property
    def cores(self) -> dict[str, int]:
        """The number of each processor among those that a program may use: that of the operating
        system where its pool states it, else its position."""
        numbers = {name: number for number, name in enumerate(self.processors)}
        for pool in self.pools:
            numbers.update(zip(pool.processors, pool.cores, strict=False))
        return numbers

    def types_of(self, kind: str) -> tuple[str, ...]:
        """The types of a kind of processors."""
        return self._types_of.get(kind, ())

    @cached_property
    def _types_of(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for type_, kind in self.kinds.items():
            found[kind] = (*found.get(kind, ()), type_)
        return found

    @property
    def without_power_model(self) -> tuple[str, ...]:
        """Pools without declared power."""
        return tuple(pool.name for pool in self.pools if not pool.busy_w and pool.kind != "link")

    def pool_of(self, processor: str) -> Pool:
        """The pool that a processor belongs to. Raises KeyError."""
        for pool in self.pools:
            if processor in pool.processors:
                return pool
        raise KeyError(processor)

    def wakeup_ns(self, pool: Pool) -> int:
        """How late a worker of these processors goes on at most after it has slept. Workers of
        others than CPUs are threads on some CPU of their machine, of a link on one of both."""
        if pool.kind == "cpu":
            return pool.wakeup_ns
        machines = {pool.machine}
        machines.update(w.destination for w in self.wires if w.processor == pool.name)
        cpus = (p for p in self.pools if p.kind == "cpu" and p.machine in machines)
        return max((cpu.wakeup_ns for cpu in cpus), default=0)

    @property
    def processors(self) -> tuple[str, ...]:
        """All processors, in declaration order."""
        return tuple(chain.from_iterable(pool.processors for pool in self.pools))
