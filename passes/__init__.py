"""Rewrites of a system, one a file: each takes a valid system and gives a valid one. Their order stands here.

In: a faultless system and a platform. Out: `Staged`, what analyses, searches and code generation see.
"""

from __future__ import annotations

from ..model.diagnostic import has_errors
from ..model.platform import Platform
from ..model.system import System
from .exits import Exits
from .memory import Memory
from .precision import Precision
from .staged import Pass, Staged
from .stages import Stages
from .stored_mapping import StoredMapping
from .transfers import Transfers, with_transfers

__all__ = ["Pass", "Staged", "StoredMapping", "passes", "stage", "with_transfers"]


def passes(stored: StoredMapping | None) -> tuple[Pass, ...]:
    """All passes in their order; the stored mapping speaks where the pins of the text do not, so it comes behind them.

    What crosses between machines is known when all of them have spoken.
    """
    return (Precision(), Stages(), Exits(), Memory(), *([] if stored is None else [stored]), Transfers())


def stage(system: System, platform: Platform, stored: StoredMapping | None = None) -> Staged:
    """The system as everything behind the text sees it; after an error in one pass the others are left out."""
    staged = Staged(system, platform)
    for rewrite in passes(stored):
        if not has_errors(staged.diagnostics):
            staged = rewrite(staged)
    return staged
