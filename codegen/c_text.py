"""Values of a text as literals of C."""

from __future__ import annotations

from math import isinf

import numpy as np

from .names import one_line

#: Bytes that stand for themselves in a string literal.
_PLAIN = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 /._-+=:,;<>()[]{}*&!|^~@#$'`"
)


def text(value: str) -> str:
    """A string literal of C."""
    return '"' + "".join(_character(byte) for byte in value.encode()) + '"'


def _character(byte: int) -> str:
    return chr(byte) if byte in _PLAIN else f"\\{byte:03o}"


def parameter(value: object) -> str:
    """The value of a parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _float(value)
    return text(str(value))


def _integer(value: int) -> str:
    return f"INT64_C({value})" if value > -(2**63) else "INT64_MIN"


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
    if dtype == "uint64":
        return f"{int(value)}u"
    return _integer(int(value))


def comment(words: str) -> str:
    """Text inside of a comment."""
    return one_line(str(words)).replace("*/", "* /").replace("/*", "/ *")
