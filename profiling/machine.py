"""Overheads of a machine: firings, hand-overs to another core, and the noise of its times.

In: a machine. Out: the runtime's overhead for a firing and for a change of state, a linear cost of
transfers between CPUs, and the noise of a fixed piece of work; measured by `there/costs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..machines.answers import Ns, printed_as
from ..machines.host import HERE, Host
from ..model.profile import TransferCost
from .measure import MeasurementFailed
from .there import costs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeCosts:
    """`firing_ns` is added to each firing; `transfer` is a receiver's cost of a token from another
    worker."""

    firing_ns: float
    transfer: TransferCost


@dataclass(frozen=True, slots=True)
class _Costs:
    """The output of `there/costs.py` for `costs`."""

    firing_ns: Ns
    hop_ns: Ns
    ns_per_byte: Ns


@dataclass(frozen=True, slots=True)
class _Change:
    """The same for `change`."""

    change_ns: Ns


@dataclass(frozen=True, slots=True)
class _Noise:
    """The same for `noise`."""

    noise: float
    celsius: float | None


def runtime_costs(host: Host = HERE) -> RuntimeCosts:
    """Measure them; takes about a second. Raises MeasurementFailed."""
    measured = _Costs(**costs.runtime_costs()) if host is HERE else _told(host, "costs", _Costs)
    return RuntimeCosts(
        measured.firing_ns, TransferCost("cpu", "cpu", measured.hop_ns, measured.ns_per_byte)
    )


def change_ns(host: Host = HERE) -> int:
    """The controller's longest time for a change of state. Raises MeasurementFailed."""
    measured = _Change(**costs.change_cost()) if host is HERE else _told(host, "change", _Change)
    return round(measured.change_ns)


def noise(host: Host = HERE) -> tuple[float, float | None]:
    """The noise of equal work now (the span from the 10th to the 90th percentile, relative), and
    the machine's temperature in degrees Celsius, if it reports one."""
    measured = _Noise(**costs.noise()) if host is HERE else _told(host, "noise", _Noise)
    return measured.noise, measured.celsius


def _told(host: Host, what: str, kind: type[T]) -> T:
    done = host.steadily(lambda: host.module("profiling.there.costs", [what]))
    if done.status:
        raise MeasurementFailed(done.stderr.strip())
    try:
        return printed_as(kind, done.stdout)
    except ValueError as error:
        raise MeasurementFailed(f"the overheads of the machine cannot be read: {error}") from error
