"""What passes take and give: a system on its way from its text to everything that looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..model.application import Task
from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping
from ..model.platform import Platform
from ..model.system import System

if TYPE_CHECKING:
    from ..networks.quantization.quantize import Loss


@dataclass(frozen=True, slots=True)
class Staged:
    """A system on its way, for one platform.

    `mapping` is the stored one, where it was carried out. `unquantized` has a task of each network that is still to be
    brought to 8 or 16 bits, `losses` what 8 bits cost by network and output.
    """

    system: System
    platform: Platform
    mapping: Mapping | None = None
    unquantized: tuple[Task, ...] = ()
    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


class Pass(Protocol):
    """A rewrite; its fields are its options."""

    def __call__(self, staged: Staged) -> Staged: ...


#: What cannot be built yet is still a faultless text: pins that `build` refuses.
BUILD_ONLY = ("F505", "F603")
