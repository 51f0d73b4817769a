"""The files of the runtime that a build carries: those that its programs can import, and no others.

In: the names that a program takes from the runtime. Out: files. What a file imports is read from
its text, inside of functions as well. A module that is only imported by its name in a string
(`import_module`) has to be named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..runtime import FACES

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"


def carried(names: Iterable[str], modules: Iterable[str] = ()) -> dict[str, bytes]:
    """The files, by their paths in a build, for `names` of the package and for whole `modules`."""
    found = {"__init__"}
    left = [*modules, *(FACES[name] for name in names)]
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += _imported(module)
    return {
        f"runtime/{module}.py": (RUNTIME / f"{module}.py").read_bytes() for module in sorted(found)
    }


@cache
def _imported(module: str) -> tuple[str, ...]:
    """The modules beside it that a module of the runtime imports, but for what only type checkers
    read."""
    tree = ast.parse((RUNTIME / f"{module}.py").read_text())
    return tuple(dict.fromkeys(_imports_in(tree)))


def _imports_in(node: ast.AST) -> Iterable[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.level == 1:
            if child.module is None:
                yield from (alias.name for alias in child.names)
            else:
                yield child.module.partition(".")[0]
        yield from _imports_in(child)
