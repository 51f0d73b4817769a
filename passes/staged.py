"""The input and output of passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..model.application import Task
from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping
from ..model.platform import Platform
from ..model.system import System

if TYPE_CHECKING:
    from ..networks.quantization.quantize import QuantizationLoss


@dataclass(frozen=True, slots=True)
class Staged:
    """A system between passes, for one platform.

    `mapping` is the stored one, if it was applied. `unquantized` has a task of each network that is
    not yet converted to 8 or 16 bits, `losses` the error of 8 bits by network and output.
    """

    system: System
    platform: Platform
    mapping: Mapping | None = None
    unquantized: tuple[Task, ...] = ()
    losses: dict[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


def tasks_of(system: System) -> dict[str, Task]:
    """The tasks of all apps by name."""
    tasks: dict[str, Task] = {}
    for app in system.apps:
        tasks.update((task.name, task) for task in app.tasks)
    return tasks


class Pass(Protocol):
    """A rewrite; its fields are its options."""

    def __call__(self, staged: Staged) -> Staged: ...


#: Faults of pins that `build` rejects in an otherwise valid text.
BUILD_ONLY = ("F505", "F603")
