"""Types of fifos and of arguments of C functions as types of the language.

In: the C type in a `.pi` file, and the sizes that a scenario gives. Out: a `PreesmToken`. A struct
is an array of bytes, which its C code interprets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: Sizes on PREESM's own machines: `char` is signed, `long` has 8 bytes.
_ELEMENTS = {
    "char": "int8",
    "signed char": "int8",
    "uchar": "uint8",
    "unsigned char": "uint8",
    "byte": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "unsigned short": "uint16",
    "int": "int32",
    "uint": "uint32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "_Bool": "bool",
    "boolean": "bool",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class PreesmToken:
    """`text` is the type of the language, `c` the element in C."""

    text: str
    bytes: int
    c: str


def token_of(said: str, sizes: Mapping[str, int]) -> PreesmToken | None:
    """None if neither the language nor the scenario defines the type."""
    element = _ELEMENTS.get(plain(said))
    if element is not None:
        size = 1
        bits = re.search("[0-9]+", element)
        if bits is not None:
            size = int(bits.group()) // 8
        return PreesmToken(element, size, _c(element))
    size = sizes.get(said.strip(), sizes.get(plain(said), 0))
    if 0 < size <= _MOST:
        return PreesmToken(f"uint8[{size}]", size, "uint8_t")
    return None


def plain(said: str) -> str:
    """A C type without `const` and pointers."""
    words = re.sub(r"\*|&|\[[^]]*\]", " ", said).split()
    return " ".join(w for w in words if w not in ("const", "volatile", "restrict", "struct"))


def _c(element: str) -> str:
    return {"float32": "float", "float64": "double", "bool": "bool"}.get(element, f"{element}_t")
