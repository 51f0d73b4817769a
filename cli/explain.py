"""The verb `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ._common import Json, print_json

#: The subjects of codes, by their first digit.
KINDS = {
    "0": "texts",
    "1": "names and values",
    "2": "graphs",
    "3": "code",
    "4": "networks",
    "5": "platforms and mappings",
    "6": "building and running",
    "7": "files of other tools",
    "8": "scenarios",
}


def _codes() -> list[str]:
    from ..model.catalogue import CODES

    return sorted(CODES)


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            help="A diagnostic's code, such as F203 (default: list all).",
            show_default=False,
            autocompletion=_codes,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Explain a diagnostic, or list all of them."""
    from ..model.catalogue import CODES
    from ..model.diagnostic import did_you_mean

    if code is None:
        return _list(as_json)
    wanted = code.upper()
    if wanted not in CODES:
        guess = did_you_mean(wanted, CODES)
        raise typer.BadParameter(
            f"there is no diagnostic {code}; {guess or '`flowc explain` lists all'}"
        )
    title, text = CODES[wanted]
    if as_json:
        print_json({"code": wanted, "title": title, "text": text})
    else:
        print(f"{wanted}: {title}\n\n{text}")
    return 0


def _list(as_json: bool) -> int:
    """Every code with its title, by subject."""
    from ..model.catalogue import CODES

    if as_json:
        print_json(
            {"codes": [{"code": c, "title": title} for c, (title, _) in sorted(CODES.items())]}
        )
        return 0
    for digit, about in KINDS.items():
        if digit != "0":
            print()
        print(about)
        for c in sorted(c for c in CODES if c[1] == digit):
            print(f"  {c}  {CODES[c][0]}")
    return 0
