"""Memory of networks: what a build plans to take against what its platform has, and what a network can do with."""

from __future__ import annotations

from ..codegen.deploy import Deployed
from ..model.deployment import PlannedMemory
from ..model.diagnostic import Diagnostic
from ..model.platform import Platform

#: What a process takes with Python, numpy and ONNX Runtime before any network, in bytes.
BASE = 50_000_000


def beyond_platform(deployed: Deployed, platform: Platform) -> Diagnostic | None:
    """The error that a program needs more memory than the CPUs of its platform have; None where that is not known."""
    planned = deployed.deployment.planned
    pools = [p for p in platform.pools if p.kind == "cpu" and p.memory_bytes]
    limit = sum(p.memory_bytes for p in pools)
    if planned is None or not pools or planned.total + BASE <= limit:
        return None
    message = f"networks need {in_mb(planned.total)} beside {in_mb(BASE)} for Python and libraries"
    message += f", and `{platform.name}` has {in_mb(limit)}"
    help_text = f"{largest(planned)}; `flowc map --memory` looks for less, `memory` of the platform says what there is"
    return Diagnostic("F521", message, platform.span, help=help_text)


def largest(planned: PlannedMemory) -> str:
    """What a plan is made of, in words."""
    parts = {"weights": planned.weights, "buffers": planned.buffers, "tokens": planned.tokens}
    return ", ".join(f"{in_mb(n)} are {name}" for name, n in sorted(parts.items(), key=lambda p: -p[1]))


def in_mb(count: int) -> str:
    """Bytes in millions."""
    return f"{count / 1e6:.4g} MB"
