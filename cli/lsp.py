"""The verb `lsp`."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer


def lsp(
    stdio: Annotated[
        bool,
        typer.Option(
            "--stdio", help="Talk over standard input and output, as it does anyway.", hidden=True
        ),
    ] = True,
) -> int:
    """Serve an editor: diagnostics while you type, hover, rename.

    A language server over standard input and output; docs/editor.md says how editors start it.
    """
    from ..model.extras import require

    require("pygls", "editor", "`flowc lsp`")
    from ..editor.workers import prepare

    prepare()
    from ..editor.server import make

    server = make()
    try:
        server.start_io()
    finally:
        server.workers.end()
    if not sys.stdout.closed:  # the editor exited without closing it
        return 0
    sys.stdout = io.StringIO()  # `exit` has closed it, and there is nothing left to write
    return 0 if server.asked_to_stop else 1
