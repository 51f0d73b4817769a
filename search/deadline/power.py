"""The mean power of a placement at clock rates, by the model of the platform.

In: the rates that the clock of each pool may have, and the mean work of tasks and networks. Out:
watts. The mean power is that of the board, plus `idle` of every processor of a pool, plus `busy` of
each for the share of its time in which it works, by mean times; or the energy of a firing if the
profile has it, because power times time scales with the clock. At a slower clock work takes longer
by the ratio of the rates. A pool that declares no power takes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ...model.platform import Platform, Pool
from ...model.times import FiringTime, Times
from ..frequency.problem import Domain, Levels

ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a pool: the `rates` that may be chosen are those numbers among the pool's,
    slowest first. A pool without known rates has one."""

    pool: Pool
    rates: tuple[int, ...]

    @property
    def hz(self) -> tuple[Fraction, ...]:
        """The rates that may be chosen; 0 if they are unknown."""
        known = self.pool.frequencies_hz or (ZERO,)
        return tuple(known[k] for k in self.rates)

    @property
    def levels(self) -> range:
        """The positions of the rates that may be chosen, slowest first."""
        return range(len(self.rates))

    def slowness(self, level: int) -> Fraction:
        """How many times as long work takes as at the pool's highest rate; 1 if unknown."""
        hz = self.hz[level]
        return max(self.pool.frequencies_hz) / hz if hz else Fraction(1)

    def idle(self, level: int) -> Fraction:
        """The watts of all processors that do nothing."""
        return self.pool.idle_w[self.rates[level]] * self.pool.count if self.pool.busy_w else ZERO

    def busy(self, level: int) -> Fraction:
        """The watts beside `idle` of work that keeps a processor busy at the highest rate."""
        if not self.pool.busy_w:
            return ZERO
        return self.pool.busy_w[self.rates[level]] * self.slowness(level)

    def domain(self, work: Fraction) -> Domain:
        """The power of the pool at each rate, with so much work."""
        watts = tuple(self.idle(level) + work * self.busy(level) for level in self.levels)
        return Domain(self.pool.name, self.pool.kind, self.hz, watts)


def clock_of(pool: Pool, wanted: Fraction | None, free: bool) -> Clock:
    """The clock of a pool with the rate `wanted` by the text; without it with all rates if they are
    `free`, else with the highest."""
    rates = pool.frequencies_hz or (ZERO,)
    if wanted is not None:
        allowed = {wanted}
    elif free:
        allowed = set(rates)
    else:
        allowed = {max(rates)}
    return Clock(pool, tuple(k for k, hz in enumerate(rates) if hz in allowed))


@dataclass(frozen=True, slots=True)
class MeanWork:
    """The mean time of a firing beside the longest in ns, at the highest rate, and its energy in
    nJ if it is known."""

    mean_ns: Fraction
    longest_ns: Fraction
    energy_nj: Fraction | None = None

    def share(self, pool: Pool, firings_per_ns: Fraction) -> Fraction:
        """The processors of a pool that so many firings keep busy; with a known energy, as many as
        take that."""
        if self.energy_nj is not None and pool.busy_w and pool.busy_w[-1]:
            return self.energy_nj * firings_per_ns / pool.busy_w[-1]
        return self.mean_ns * firings_per_ns

    def longer(self, factor: Fraction) -> MeanWork:
        """The same work where it takes so many times as long."""
        energy = None if self.energy_nj is None else self.energy_nj * factor
        return MeanWork(self.mean_ns * factor, self.longest_ns * factor, energy)

    def part(self, longest_ns: Fraction) -> MeanWork:
        """The part of it that takes so long in the worst case."""
        share = longest_ns / self.longest_ns
        energy = None if self.energy_nj is None else self.energy_nj * share
        return MeanWork(self.mean_ns * share, longest_ns, energy)


#: That of code on arrows.
NO_WORK = MeanWork(ZERO, Fraction(1))


@dataclass(frozen=True, slots=True)
class PowerModel:
    """The clocks of the pools in the order of the platform, the power of the board, and the mean
    work of tasks and whole networks by type of processors."""

    clocks: tuple[Clock, ...]
    base_w: Fraction
    works: Mapping[str, Mapping[str, MeanWork]]

    def work(self, name: str, type_: str) -> MeanWork:
        """The mean work of a firing; none for code on arrows."""
        return self.works.get(name, {}).get(type_, NO_WORK)

    @property
    def highest(self) -> Levels:
        """The highest rate of every clock."""
        return tuple(len(clock.rates) - 1 for clock in self.clocks)

    def domains(self, work: Mapping[str, Fraction]) -> tuple[Domain, ...]:
        """The power of every pool at each of its rates, by the work on it."""
        return tuple(clock.domain(work[clock.pool.name]) for clock in self.clocks)

    def slowness(self, levels: Levels) -> dict[str, Fraction]:
        """How many times as long work takes on each processor."""
        found = {}
        for clock, level in zip(self.clocks, levels, strict=True):
            found.update(dict.fromkeys(clock.pool.processors, clock.slowness(level)))
        return found


def power_model(
    platform: Platform,
    times: Times,
    wanted: Mapping[str, Fraction],
    free: bool,
) -> PowerModel:
    """The model of a platform; `wanted` are the rates of the text by pool."""
    clocks = tuple(clock_of(pool, wanted.get(pool.name), free) for pool in platform.pools)
    works = {}
    for name, known in times.of.items():
        works[name] = {type_: _mean_work(time) for type_, time in known.items()}
    return PowerModel(clocks, platform.power_w, works)


def _mean_work(time: FiringTime) -> MeanWork:
    energy = None if time.entry is None or time.source == "pin" else time.entry.energy_nj
    known = None if energy is None else Fraction(energy)
    return MeanWork(time.mean_ns, time.longest_ns or Fraction(1), known)
