"""Names of other tools to names of the language: readable, unique, and reproducible.

In: names with any characters. Out: identifiers in the same order. A name that is an identifier
already stays unchanged; the importer reports changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache

from ..dsl.parse import keywords, soft_keywords

NAME = re.compile("[A-Za-z_][A-Za-z_0-9]*")
#: Words that read like keywords, or may become some.
_NEARLY = ("scenario", "event", "true", "false", "index")


@cache
def reserved_words() -> frozenset[str]:
    """Reserved names: the grammar rejects some of these in some places, the others would be hard to
    read."""
    return frozenset({*keywords(), *_NEARLY})


@cache
def refused_words() -> frozenset[str]:
    """Names that no instance and no port gets: there, the other keywords are names like any
    other."""
    return keywords() - soft_keywords()


def identifiers(names: Iterable[str], kind: str, reserved: Collection[str] = ()) -> list[str]:
    """One identifier for each name, unique also without case.

    `kind` replaces names that cannot be written, as in `port_1`. Valid names stay whatever precedes
    them.
    """
    wanted = list(names)
    result = [""] * len(wanted)
    used: set[str] = set()
    for i, name in enumerate(wanted):
        if NAME.fullmatch(name) and name not in reserved and name.lower() not in used:
            result[i] = name
            used.add(name.lower())
    counts: dict[str, int] = {}
    for i, name in enumerate(wanted):
        if result[i]:
            continue
        base = _spelt(name, kind, reserved)
        key = base.lower()
        made = base
        while made.lower() in used:
            counts[key] = counts.get(key, 1) + 1
            made = f"{base}_{counts[key]}"
        result[i] = made
        used.add(made.lower())
    return result


def capitalised(name: str, kind: str) -> str:
    """The name in the style of tasks and apps: `my_actor` becomes `MyActor`. Idempotent."""
    joined = "".join(part[:1].upper() + part[1:] for part in _spelt(name, kind, ()).split("_"))
    if NAME.fullmatch(joined):
        return joined
    return kind.capitalize() + joined


def shown(name: str) -> str:
    """An untrusted name in a message or a comment, on one line."""
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    if len(printable) > 60:
        printable = printable[:57] + "..."
    return f"`{printable}`"


def listed(names: Iterable[str], limit: int = 6) -> str:
    """`a`, `b` and 3 more."""
    parts = [shown(name) for name in names]
    if len(parts) > limit:
        return f"{', '.join(parts[:limit])} and {len(parts) - limit} more"
    if len(parts) > 1:
        return " and ".join([", ".join(parts[:-1]), parts[-1]])
    return "".join(parts)


def _spelt(name: str, kind: str, reserved: Collection[str]) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    base = re.sub("[^A-Za-z0-9]+", "_", plain).strip("_")
    if not base:
        return kind
    if NAME.fullmatch(base) and base not in reserved:
        return base
    return f"{kind}_{base}"
