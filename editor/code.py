"""Code that a text refers to: Python, C and CUDA files, networks and their layers. Nothing is
run."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ..dsl.code import c_functions, read_python
from ..dsl.index import Named
from ..dsl.template import beside
from ..model.files import read_bytes
from ..networks.onnx.cuts import read_chain
from ..networks.onnx.interface import NetworkError


def file_of(named: Named) -> Path:
    """The file that a quoted text names, also if it names a part of it."""
    file = named.value.rpartition(":")[0] if named.kind in ("python", "c", "cuda") else named.value
    return beside(named.span, file)


def line_of(named: Named) -> tuple[Path, int] | None:
    """The file and the line, from 1, of the named code; None if it does not exist."""
    file, symbol = file_of(named), named.value.rpartition(":")[2]
    try:
        if named.kind == "python":
            found = read_python(file).symbols.get(symbol)
            return None if found is None else (file, found.line)
        text = read_bytes(file).decode(errors="replace")
    except (OSError, ValueError):
        return None
    pattern = re.compile(rf"\b{re.escape(symbol)}\s*\(")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
    defined = [
        n for n in lines if not text.splitlines()[n - 1].lstrip().startswith(("//", "*", "/*"))
    ]
    return (file, (defined or lines)[0]) if lines else None


def symbols(file: Path, language: str) -> tuple[str, ...]:
    """The names that a file defines, in its order."""
    try:
        names = tuple(read_python(file).symbols) if language == "python" else c_functions(file)
    except (OSError, ValueError):
        return ()
    return tuple(name for name in names if not name.startswith("_"))


def layers(file: Path) -> tuple[str, ...]:
    """Names of the layers of a network, from front to back."""
    try:
        return _layers(str(file), file.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=32)
def _layers(file: str, modified: int) -> tuple[str, ...]:
    try:
        return tuple(layer.name for layer in read_chain(Path(file)).layers)
    except NetworkError:
        return ()
