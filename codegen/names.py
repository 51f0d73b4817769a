"""Names and literals in generated text: they keep the code correct, whatever names users chose."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from fractions import Fraction
from unicodedata import category


def identifiers(names: Iterable[str], reserved: Iterable[str]) -> dict[str, str]:
    """A readable, unique Python identifier for each name."""
    taken = set(reserved)
    result: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "x"
        if base[0].isdigit():
            base = f"n{base}"
        elif keyword.iskeyword(base) or keyword.issoftkeyword(base) or base in taken:
            base = f"{base}_"
        candidate, count = base, 2
        while candidate in taken or keyword.iskeyword(candidate):
            candidate, count = f"{base.rstrip('_')}_{count}", count + 1
        taken.add(candidate)
        result[name] = candidate
    return result


def literal(value: object) -> str:
    """A Python literal. Fractions of parameters become floats."""
    if isinstance(value, Fraction):
        return repr(float(value))
    if isinstance(value, tuple):
        inner = ", ".join(literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(literal(v) for v in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return double_quoted(value)
    return repr(value)


def option(name: str, value: object) -> str:
    """A further argument of a call, which is left out if it is false, 0, None or empty."""
    return f", {name}={literal(value)}" if value else ""


def double_quoted(text: str) -> str:
    """A string literal in double quotes."""
    body = repr(text)[1:-1]
    if repr(text)[0] == "'":
        body = body.replace("\\'", "'").replace('"', '\\"')
    return f'"{body}"'


def one_line(text: str) -> str:
    """Text for a comment: no line ends or control characters, and no characters that change the
    display order of code."""
    return " ".join("".join(map(_visible, text)).split())


def _visible(character: str) -> str:
    kind = category(character)
    if kind in ("Cc", "Zl", "Zp"):
        return " "
    if kind.startswith("C"):  # including those that change the direction of writing
        return ""
    return character
