"""Values of a text as literals of C."""

from __future__ import annotations

from math import isinf

import numpy as np

from .names import one_line


def text(value: str) -> str:
    """A string literal of C."""
    plain = set(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        b" /._-+=:,;<>()[]{}*&!|^~@#$'`"
    )
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in value.encode()) + '"'


def parameter(value: object) -> str:
    """The value of a parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"INT64_C({value})" if value > -(2**63) else "INT64_MIN"
    return _float(value) if isinstance(value, float) else text(str(value))


def _float(value: float) -> str:
    if isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    return repr(value)


def element(value: int | float, dtype: str) -> str:
    """An element of an initial token, as numpy rounds it."""
    if dtype == "float16":
        return str(int(np.array(value, np.float16).view(np.uint16)))
    if dtype.startswith(("float", "complex")):
        with np.errstate(over="ignore"):
            return _float(float(np.array(value, dtype).real))
    if dtype == "bool":
        return str(int(bool(value)))
    return (
        f"{int(value)}u"
        if dtype == "uint64"
        else f"INT64_C({int(value)})"
        if int(value) > -(2**63)
        else "INT64_MIN"
    )


def comment(words: str) -> str:
    """Text inside of a comment."""
    return one_line(str(words)).replace("*/", "* /").replace("/*", "/ *")
