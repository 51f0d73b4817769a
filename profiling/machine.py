"""What a machine costs beside computing: firing, handing a token to another core, and how much its times scatter.

In: a machine. Out: what the runtime adds to a firing and to a change of state, a linear cost of transfers between CPUs,
and the noise of a fixed piece of work; measured by `there/costs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..machines.answers import Ns, printed_as
from ..machines.host import HERE, Host
from ..model.profile import Transfer
from .measure import MeasurementFailed
from .there import costs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeCosts:
    """`firing_ns` is added to each firing; `transfer` is what a token from another worker costs its receiver."""

    firing_ns: float
    transfer: Transfer


@dataclass(frozen=True, slots=True)
class _Costs:
    """What `there/costs.py` says of `costs`."""

    firing_ns: Ns
    hop_ns: Ns
    ns_per_byte: Ns


@dataclass(frozen=True, slots=True)
class _Change:
    """Of `change`."""

    change_ns: Ns


@dataclass(frozen=True, slots=True)
class _Noise:
    """Of `noise`."""

    noise: float
    celsius: float | None


def runtime_costs(host: Host = HERE) -> RuntimeCosts:
    """Measure them; takes about a second. Raises MeasurementFailed."""
    found = _Costs(**costs.runtime_costs()) if host is HERE else _told(host, "costs", _Costs)
    return RuntimeCosts(found.firing_ns, Transfer("cpu", "cpu", found.hop_ns, found.ns_per_byte))


def change_ns(host: Host = HERE) -> int:
    """What the controller of a program takes at most for a change of state. Raises MeasurementFailed."""
    found = _Change(**costs.change_cost()) if host is HERE else _told(host, "change", _Change)
    return round(found.change_ns)


def noise(host: Host = HERE) -> tuple[float, float | None]:
    """By how much equal work differs now (the span from the 10th to the 90th percentile, relative), and how hot the
    machine is, in degrees Celsius, where it tells."""
    found = _Noise(**costs.noise()) if host is HERE else _told(host, "noise", _Noise)
    return found.noise, found.celsius


def _told(host: Host, what: str, kind: type[T]) -> T:
    done = host.steadily(lambda: host.module("profiling.there.costs", [what]))
    if done.status:
        raise MeasurementFailed(done.stderr.strip())
    try:
        return printed_as(kind, done.stdout)
    except ValueError as error:
        raise MeasurementFailed(f"what the machine takes cannot be read: {error}") from error
