"""The verb `mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._common import seconds


def mcp(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The texts are below this folder (default: here).",
            show_default=False,
            metavar="DIR",
            exists=True,
            file_okay=False,
        ),
    ] = Path(),
    limit: Annotated[
        str, typer.Option(metavar="TIME", help="Most time for a call: `60s`, `5min`.")
    ] = "2min",
) -> int:
    """Serve a language model: check, analyze, map, run, explain.

    A server of the Model Context Protocol over standard input and output; docs/assistants.md says
    how clients start it.
    """
    from ..model.extras import require

    require("mcp", "mcp", "`flowc mcp`")
    most = seconds(limit, "--limit")
    if not most > 0:
        raise typer.BadParameter(f"`{limit}` leaves no time", param_hint="--limit")
    from ..assistant.calls import Limits
    from ..assistant.server import make
    from ..assistant.stdio import serve

    number = serve(make(folder, Limits(most)))
    return 128 + number if number else 0
