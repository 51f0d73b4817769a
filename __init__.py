"""flowc: from a dataflow text with neural networks in it to a checked, mapped, running program.

For scripts: `flowc.check(path)` tells everything that can be known without running anything, `flowc.load(path)` gives
the model of a faultless text, `flowc.build(path, output)` writes the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model.system import System
    from .steps import Built, Checked

__version__ = "0.1.0"
__all__ = ["__version__", "build", "check", "load"]


def check(path: str | Path, *, platform: str = "host") -> Checked:
    """Check a text: its model, the verdicts of every app, and all diagnostics. Runs nobody's code, raises nothing."""
    from . import steps

    return steps.check(path, platform=platform)


def load(path: str | Path) -> System:
    """The model of a text. Raises `flowc.model.diagnostic.Faults` when it has errors."""
    from .model.diagnostic import Faults

    checked = check(path)
    if not checked.ok:
        raise Faults(checked.diagnostics)
    return checked.system


def build(path: str | Path, output: str | Path | None = None, *, platform: str = "host", force: bool = False) -> Built:
    """Write the program for a text to `output` (default `build/STEM`). Raises `flowc.model.diagnostic.Faults`."""
    from . import steps

    return steps.build(path, output, platform=platform, force=force)
