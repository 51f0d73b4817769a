"""Local modules that a task's Python file imports, and name conflicts between them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ..model.application import Implementation
from ..model.diagnostic import Diagnostic
from .code import read_python

#: Module names that generated programs use.
TAKEN = frozenset({"runtime", "main"})


def local_modules(path: Path) -> tuple[Path, ...]:
    """The files below the folder of `path` that it imports, directly or through each other (not
    `path` itself).

    Found as Python would find them: absolute names from the task file's folder, relative ones
    inside packages, with the `__init__.py` of every package on the way.
    """
    modules: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        current = waiting.pop()
        for name in read_python(current).imports:
            for file in _files(name, path.parent, current.parent):
                if file != path and file not in modules:
                    modules[file] = None
                    waiting.append(file)
    return tuple(sorted(modules))


def _files(name: str, root: Path, folder: Path) -> list[Path]:
    """The files behind an import: packages on the way, and the module where there is one."""
    level = len(name) - len(name.lstrip("."))
    start = root
    if level:
        start = folder
        for _ in range(level - 1):
            start = start.parent
    files = []
    place = start
    for part in name.lstrip(".").split("."):
        if not part:
            break
        place = place / part
        module = place.with_name(part + ".py")
        if os.path.isfile(place / "__init__.py"):
            files.append(place / "__init__.py")
        elif os.path.isfile(module):
            files.append(module)
            break
        elif not os.path.isdir(place):
            break
    return files


def clashes(implementations: Iterable[Implementation]) -> list[Diagnostic]:
    """Conflicts between local modules: a program has one table of modules, whatever their
    folders."""
    faults: list[Diagnostic] = []
    owners: dict[str, tuple[Path, Implementation]] = {}
    for code in implementations:
        if code.language != "python":
            continue
        path = Path(code.path)
        if any(name.startswith(".") for name in read_python(path).imports):
            message = f"`{code.file}` imports relatively, but it is not part of a package"
            faults.append(
                Diagnostic(
                    "F308", message, code.span, help="write `import name` for a module beside it"
                )
            )
        for helper in local_modules(path):
            name = helper.relative_to(path.parent).parts[0].removesuffix(".py")
            if name in sys.stdlib_module_names or name in TAKEN:
                what = "a generated program" if name in TAKEN else "Python"
                message = (
                    f"`{code.file}` imports `{name}` from its folder, but {what} has a module of"
                    " that name"
                )
                faults.append(Diagnostic("F308", message, code.span, help=f"rename `{name}`"))
                break
            folder, other = owners.setdefault(name, (path.parent, code))
            if folder != path.parent:
                message = (
                    f"`{code.file}` and `{other.file}` import different modules called `{name}`"
                )
                faults.append(
                    Diagnostic("F308", message, code.span, help="rename one of them, or share one")
                )
                break
    return faults
