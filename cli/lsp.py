"""The verb `lsp`."""

from __future__ import annotations

from typing import Annotated

import typer


def lsp(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Talk over standard input and output, as it does anyway.", hidden=True)
    ] = True,
) -> int:
    """Serve an editor: diagnostics while you type, hover, rename.

    A language server over standard input and output; docs/editor.md says how editors start it.
    """
    from ..model.extras import require

    require("pygls", "editor", "`flowc lsp`")
    from ..editor.server import make

    make().start_io()
    return 0
