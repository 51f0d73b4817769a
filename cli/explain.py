"""The verb `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ._common import Json, print_json


def explain(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, such as F203.")], as_json: Json = False
) -> int:
    """Explain a diagnostic."""
    from ..model.catalogue import CODES
    from ..model.diagnostic import did_you_mean

    wanted = code.upper()
    if wanted not in CODES:
        raise typer.BadParameter(f"there is no diagnostic {code}. {did_you_mean(wanted, CODES)}".rstrip())
    title, text = CODES[wanted]
    if as_json:
        print_json({"code": wanted, "title": title, "text": text})
    else:
        print(f"{wanted}: {title}\n\n{text}")
    return 0
