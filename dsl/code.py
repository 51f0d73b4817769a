"""Static inspection of a task's code: Python by its syntax tree, C by its text."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ..model.files import read_bytes
from .includes import c_includes

#: A comment, or a string that may look as if it had one.
_COMMENT = re.compile(
    r"""/\*.*?\*/|//[^\n]*|(?P<kept>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""", re.DOTALL
)
#: Words of C with a block behind their parentheses.
_WITH_BLOCKS = ("if", "for", "while", "switch", "catch")


@dataclass(frozen=True, slots=True)
class Callable:
    """Positional parameters in order, how many of them have defaults, keyword-only ones, and the
    open ends.
    """

    positional: tuple[str, ...]
    defaults: int
    keyword_only: tuple[str, ...]
    keyword_required: tuple[str, ...]
    any_positional: bool
    any_keyword: bool
    line: int

    @property
    def required(self) -> tuple[str, ...]:
        """Positional parameters without a default."""
        return self.positional[: len(self.positional) - self.defaults]


@dataclass(frozen=True, slots=True)
class PythonSymbol:
    """`fires` and `makes` are None when they cannot be seen (an alias, an inherited method, a
    decorator).

    `can_fire` is false for a class that surely has no `__call__`.
    """

    kind: Literal["function", "class", "other"]
    fires: Callable | None
    makes: Callable | None
    line: int
    can_fire: bool = True


@dataclass(frozen=True, slots=True)
class PythonFile:
    """The module-level names of a file, or the reason why it cannot be read."""

    symbols: dict[str, PythonSymbol]
    imports: tuple[str, ...]
    error: str = ""
    error_line: int = 0


@lru_cache(maxsize=256)
def _read_python(path: str, modified: int) -> PythonFile:
    try:
        tree = ast.parse(read_bytes(path))
    except SyntaxError as error:
        return PythonFile({}, (), error.msg, error.lineno or 0)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return PythonFile({}, (), str(error), 0)
    symbols: dict[str, PythonSymbol] = {}
    for node in _module_level(tree.body):
        for name, symbol in _symbols(node):
            symbols[name] = symbol
    imports: list[str] = []
    for part in ast.walk(tree):
        if isinstance(part, ast.Import):
            imports.extend(alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            base = "." * part.level + (part.module or "")
            imports.append(base)
            joint = "" if base.endswith(".") or not base else "."
            imports.extend(f"{base}{joint}{alias.name}" for alias in part.names)
    return PythonFile(symbols, tuple(imports))


def read_python(path: Path) -> PythonFile:
    """Parse a Python file without running it."""
    return _read_python(str(path), path.stat().st_mtime_ns)


def _module_level(body: list[ast.stmt]) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for node in body:
        statements.append(node)
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            statements.extend(_module_level(node.body))
            statements.extend(_module_level(getattr(node, "orelse", [])))
            for handler in getattr(node, "handlers", []):
                statements.extend(_module_level(handler.body))
    return statements


def _symbols(node: ast.stmt) -> list[tuple[str, PythonSymbol]]:
    match node:
        case ast.FunctionDef(name=name):
            fires = None if node.decorator_list else _callable(node, skip=0)
            return [(name, PythonSymbol("function", fires, None, node.lineno))]
        case ast.ClassDef(name=name):
            return [(name, _class(node))]
        case ast.Assign(value=ast.Constant()) | ast.AnnAssign(value=ast.Constant()):
            names = []  # a number or a text cannot fire
        case ast.Assign(targets=targets):
            names = [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            names = [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            names = [a.asname or a.name.split(".")[0] for a in aliases]
        case _:
            names = []
    return [(n, PythonSymbol("other", None, None, node.lineno)) for n in names]


def _class(node: ast.ClassDef) -> PythonSymbol:
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
    inherits = bool(node.bases or node.decorator_list or node.keywords)
    nothing = Callable((), 0, (), (), False, False, node.lineno)

    def seen(name: str, otherwise: Callable | None) -> Callable | None:
        method = methods.get(name)
        if method is None:
            return None if inherits else otherwise
        return None if method.decorator_list else _callable(method, skip=1)

    fires = seen("__call__", None)
    can_fire = "__call__" in methods or inherits
    return PythonSymbol("class", fires, seen("__init__", nothing), node.lineno, can_fire)


def _callable(node: ast.FunctionDef, skip: int) -> Callable:
    a = node.args
    positional = tuple(p.arg for p in [*a.posonlyargs, *a.args])[skip:]
    required = tuple(p.arg for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is None)
    return Callable(
        positional,
        min(len(a.defaults), len(positional)),
        tuple(p.arg for p in a.kwonlyargs),
        required,
        a.vararg is not None,
        a.kwarg is not None,
        node.lineno,
    )


def c_functions(path: Path) -> tuple[str, ...]:
    """Names that look like functions that a C file defines."""
    text = re.sub(r"^[ \t]*#[^\n]*", " ", _without_comments(path), flags=re.MULTILINE)
    found = re.findall(r"\b([A-Za-z_]\w*)\s*\((?=[^;{}]{0,5000}\)[\w\s>:-]*\{)", text)
    return tuple(name for name in dict.fromkeys(found) if name not in _WITH_BLOCKS)


def c_may_define(path: Path, symbol: str) -> bool:
    """May a C file, with the local files that it includes, define that function? Macros make
    functions as well, so only a name that is nowhere is none."""
    word = re.compile(rf"\b{symbol}\b|##")
    return any(word.search(_without_comments(file)) for file in (path, *c_includes(path)))


def _without_comments(path: Path) -> str:
    text = read_bytes(path).decode(errors="replace")
    text = re.sub(r"\\\r?\n", "", text)
    return _COMMENT.sub(lambda found: found["kept"] or " ", text)
