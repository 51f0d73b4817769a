"""HOPES' names of tasks, ports and processors: they become names of C functions, files and XML."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..words import ORDERS

#: Names that a device cannot have: folders of the project.
FOLDERS = frozenset({ORDERS, "data", "external"})


def hopes_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """A name for each, unique also without case: file systems may ignore it."""
    used = {n.lower() for n in taken}
    found: dict[str, str] = {}
    for name in names:
        base = re.sub("[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
        if base[0].isdigit():
            base = f"n{base}"
        made, count = base, 2
        while made.lower() in used:
            made, count = f"{base}_{count}", count + 1
        used.add(made.lower())
        found[name] = made
    return found
