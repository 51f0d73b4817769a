"""Pictures to files.

In: a figure. Out: the file, whole or not at all.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.diagnostic import Diagnostic, Errors
from ..model.files import reason, replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, target: Path) -> None:
    """Write a picture; its format follows the ending of `target` (svg, png, pdf). Raises Errors."""
    content = BytesIO()
    metadata = {"Date": None} if target.suffix == ".svg" else None
    figure.savefig(content, format=target.suffix[1:], dpi=130, metadata=metadata)
    try:
        replace_file(target, content.getvalue(), follow=True)
    except OSError as error:
        raise Errors([Diagnostic("F605", f"cannot write `{target}`: {reason(error)}", None)]) from error
