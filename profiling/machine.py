"""What a machine costs beside computing: firing, handing a token to another core, and how much its times scatter.

In: a machine. Out: what the runtime adds to a firing and to a change of state, a linear cost of transfers between CPUs,
and the noise of a fixed piece of work; measured by `there/costs.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..machines.host import HERE, Host
from ..model.profile import Transfer
from .measure import MeasurementFailed
from .there import costs


@dataclass(frozen=True, slots=True)
class RuntimeCosts:
    """`firing_ns` is added to each firing; `transfer` is what a token from another worker costs its receiver."""

    firing_ns: float
    transfer: Transfer


def runtime_costs(host: Host = HERE) -> RuntimeCosts:
    """Measure them; takes about a second. Raises MeasurementFailed."""
    found = costs.runtime_costs() if host is HERE else _told(host, "costs")
    return RuntimeCosts(found["firing_ns"], Transfer("cpu", "cpu", found["hop_ns"], found["ns_per_byte"]))


def change_ns(host: Host = HERE) -> int:
    """What the controller of a program takes at most for a change of state. Raises MeasurementFailed."""
    return round((costs.change_cost() if host is HERE else _told(host, "change"))["change_ns"])


def noise(host: Host = HERE) -> tuple[float, float | None]:
    """By how much equal work differs now (the span from the 10th to the 90th percentile, relative), and how hot the
    machine is, in degrees Celsius, where it tells."""
    found = costs.noise() if host is HERE else _told(host, "noise")
    return found["noise"], found["celsius"]


def _told(host: Host, what: str) -> dict[str, Any]:
    done = host.steadily(lambda: host.module("profiling.there.costs", [what]))
    if done.status:
        raise MeasurementFailed(done.stderr.strip())
    found: dict[str, Any] = json.loads(done.stdout)
    return found
