"""Shared parts of all pictures: loading matplotlib, and writing a figure to a file, completely or
not at all."""

from __future__ import annotations

import logging
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.diagnostic import Diagnostic, Errors
from ..model.files import reason, replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def load() -> None:
    """Load matplotlib without a screen, with reproducible output, and without messages about its
    caches."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "flowc"


def save(figure: Figure, target: Path) -> None:
    """Write a picture; its format follows the ending of `target` (svg, png, pdf). Raises Errors."""
    content = BytesIO()
    metadata = {"Date": None} if target.suffix == ".svg" else None
    figure.savefig(content, format=target.suffix[1:], dpi=130, metadata=metadata)
    try:
        replace_file(target, content.getvalue(), follow=True)
    except OSError as error:
        raise Errors(
            [Diagnostic("F605", f"cannot write `{target}`: {reason(error)}", None)]
        ) from error
