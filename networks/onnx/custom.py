"""Operators that ONNX Runtime does not have: which a network uses, and the library with them.

In: a model, or the path of a library. Out: names, or why the library cannot be one. It is read, not
loaded: it may be for another machine, and loading it runs its code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...model.files import read_bytes, reason

if TYPE_CHECKING:
    from onnx import ModelProto

#: Bytes of a library.
MOST_LIBRARY = 1 << 28
#: The function that ONNX Runtime calls in one (`RegisterCustomOps` in its C API).
ENTRY = b"RegisterCustomOps\0"
#: Domains of operators that ONNX and ONNX Runtime describe, and how those of the latter begin.
KNOWN = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training"})
OWN = ("com.microsoft", "com.ms.", "ai.onnx.preview", "org.pytorch.aten")
#: The type of an ELF file that is a shared object.
_SHARED = 3


def foreign(model: ModelProto) -> tuple[str, ...]:
    """Operators that neither ONNX nor ONNX Runtime has, as `domain.Operator`."""
    local = {(f.domain, f.name) for f in model.functions}
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    found = set()
    for node in nodes:
        known = node.domain in KNOWN or node.domain.startswith(OWN)
        if not known and (node.domain, node.op_type) not in local:
            found.add(f"{node.domain}.{node.op_type}")
    return tuple(sorted(found))


def why_no_library(path: Path) -> str:
    """Why a file cannot be a library of operators; empty if it can."""
    try:
        content = read_bytes(path, MOST_LIBRARY)
    except OSError as error:
        return f"cannot be read: {reason(error)}"
    if content[:4] != b"\x7fELF" or int.from_bytes(content[16:18], "little") != _SHARED:
        return "is no shared library (ELF)"
    if ENTRY not in content:
        return f"has no function `{ENTRY[:-1].decode()}`, which ONNX Runtime calls"
    return ""
