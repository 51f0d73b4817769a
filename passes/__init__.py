"""Rewrites of a system, one per file, each from a valid system to a valid one, and their order.

In: a valid system and a platform. Out: `Staged`, the input of analyses, searches and code
generation.
"""

from __future__ import annotations

from ..model.diagnostic import has_errors
from ..model.platform import Platform
from ..model.system import System
from .exits import Exits
from .memory import BandsWithinMemory
from .operator_set import OperatorSets
from .precision import Precision
from .staged import Pass, Staged
from .stages import Stages
from .stored_mapping import StoredMapping
from .transfers import Transfers, with_transfers

__all__ = ["Pass", "Staged", "StoredMapping", "passes", "stage", "with_transfers"]


def passes(stored: StoredMapping | None) -> tuple[Pass, ...]:
    """All passes in their order; pins of the text take precedence over the stored mapping, so they
    come first.

    Transfers between machines are known last.
    """
    return (
        OperatorSets(),
        Precision(),
        Stages(),
        Exits(),
        BandsWithinMemory(),
        *([] if stored is None else [stored]),
        Transfers(),
    )


def stage(system: System, platform: Platform, stored: StoredMapping | None = None) -> Staged:
    """The system after all passes; after an error in one pass the others are skipped."""
    staged = Staged(system, platform)
    for rewrite in passes(stored):
        if not has_errors(staged.diagnostics):
            staged = rewrite(staged)
    return staged
