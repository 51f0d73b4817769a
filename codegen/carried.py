"""The files of the runtime that a build carries: those that its programs can import, and no others.

In: the names that a program takes from the runtime. Out: files. What a file imports is read from
its text, inside of functions as well. A module that is only imported by its name in a string
(`import_module`) has to be named. A room of another tool may have modules of its own that belong
beside those of the runtime: they import from `flowc.runtime`, and in a build from their neighbors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from ..runtime import FACES

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
#: The license of flowc, which its runtime keeps wherever it is copied to.
LICENSE = RUNTIME / "LICENSE"
#: A row of the table of names in `__init__.py`, or a line of its stub: a module, and its names.
_ROW = re.compile(r'^(?:    "|from \.)(\w+)(?:": \(.*\),| import .*)\n', re.MULTILINE)
#: Relative imports, and what only type checkers read: lines, for parsing the whole runtime takes a
#: fifth of the time of a build.
_BESIDE = re.compile(
    r"^ *from \.(?:(?P<module>\w+)[\w.]*)? import (?P<names>\([^)]*\)|.*)", re.MULTILINE
)
_FOR_TYPES = re.compile(r"^( *)if TYPE_CHECKING:\n(?:\1 .*\n|\n)+", re.MULTILINE)
_COMMENT = re.compile("#.*")
_FROM_RUNTIME = re.compile(r"^from flowc\.runtime\.", re.MULTILINE)


def carried(
    names: Iterable[str], modules: Iterable[str] = (), own: Mapping[str, Path] | None = None
) -> dict[str, bytes]:
    """The files, by their paths in a build, for `names` of the package and for whole `modules`.

    `own` are files from elsewhere, by the names of their modules in a build.
    """
    texts = {module: _beside_runtime(path) for module, path in (own or {}).items()}
    found = {"__init__"}
    left = [*modules, *(FACES[name] for name in names)]
    for text in texts.values():
        left += imports_in(text)
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += _imported(module)
    files = {f"runtime/{module}.py": (RUNTIME / f"{module}.py").read_bytes() for module in found}
    for name in ("__init__.py", "__init__.pyi"):
        files[f"runtime/{name}"] = _naming((RUNTIME / name).read_text(), found).encode()
    files["runtime/LICENSE"] = LICENSE.read_bytes()
    files |= {f"runtime/{module}.py": text.encode() for module, text in texts.items()}
    return dict(sorted(files.items()))


def _naming(text: str, modules: Collection[str]) -> str:
    """The `__init__.py` of a build, or its stub: only what it says of these modules."""
    return _ROW.sub(lambda row: row[0] if row[1] in modules else "", text)


def _beside_runtime(path: Path) -> str:
    """The text of a module, as it is beside those of the runtime."""
    return _FROM_RUNTIME.sub("from .", path.read_text())


@cache
def _imported(module: str) -> tuple[str, ...]:
    """The modules beside it that a module of the runtime imports."""
    return tuple(dict.fromkeys(imports_in((RUNTIME / f"{module}.py").read_text())))


def imports_in(text: str) -> Iterator[str]:
    """The modules beside it that a module imports, also inside of functions, but for what only type
    checkers read."""
    for found in _BESIDE.finditer(_FOR_TYPES.sub("", text)):
        if found["module"]:
            yield found["module"]
        else:
            names = _COMMENT.sub("", found["names"]).strip("() \n").split(",")
            yield from (name.split()[0] for name in names if name.strip())
