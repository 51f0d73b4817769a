"""What libraries define, read from their bytes.

In: a shared library in the format ELF. Out: the names that it gives to others. The layout is in the
System V ABI, chapter "Object Files".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM
#: Of a file of 32 and of 64 bits: where the section headers are told of, a section header (its
#: type, offset, size and link are fields 1, 4, 5 and 6), and a symbol with the places of its name
#: and its section.
_FORMS = {
    1: ((32, "I", 46), "10I", ("IIIBBH", 0, 5)),
    2: ((40, "Q", 58), "IIQQQQIIQQ", ("IBBHQQ", 0, 3)),
}


def defined_names(content: bytes) -> frozenset[str] | None:
    """The names of functions and data that a library defines for others; None: it is no ELF file
    that can be read."""
    if content[:4] != b"\x7fELF" or len(content) < 6 or content[4] not in _FORMS:
        return None
    try:
        return frozenset(_defined(content, "<" if content[5] == 1 else ">"))
    except (struct.error, IndexError, ValueError):
        return None


def _defined(content: bytes, order: str) -> Iterator[str]:
    (at, word, sizes_at), section, (symbol, name, place) = _FORMS[content[4]]
    (table,) = struct.unpack_from(order + word, content, at)
    size, count = struct.unpack_from(order + "HH", content, sizes_at)
    sections = [
        struct.unpack_from(order + section, content, table + number * size)
        for number in range(count)
    ]
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[link][4]
        for fields in struct.iter_unpack(order + symbol, content[start : start + length]):
            if fields[place]:  # 0: only used here
                begin = names + fields[name]
                yield content[begin : content.index(b"\0", begin)].decode(errors="replace")
