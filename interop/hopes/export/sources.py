"""The C files of tasks in a project of HOPES: all in one folder.

HOPES' translator copies the C files and headers in the folder of the project itself, and no others.
Each source becomes one unit of the program, after the header with its prototypes.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ....codegen.in_c import is_cpp
from ....dsl.includes import c_includes
from ....model.application import Implementation, Task, all_tasks
from ....model.diagnostic import Diagnostic, Note
from ....model.files import read_bytes
from ....model.system import System
from .kept import KeptCode
from .names import hopes_names

#: The header of every task.
COMMON = "flowc_hopes.h"


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """A C source with the tasks that use it. `source` includes `header` and `file`; `included` are
    its local files."""

    path: Path
    source: str
    header: str
    included: tuple[Path, ...]
    tasks: tuple[Task, ...]

    @property
    def file(self) -> str:
        """The source as its author wrote it."""
        return self.path.name

    @property
    def beside(self) -> tuple[str, ...]:
        """All files of the author."""
        return tuple(
            dict.fromkeys(p.name for p in (self.path, *self.included) if p.name != self.header)
        )


def code_in_c(task: Task) -> Implementation | None:
    """The C code that the task runs; None if it does not run as C code."""
    code = task.implementation_on("cpu")
    if code is None or code.language != "c":
        return None
    if task.network is not None or task.resampling is not None:
        return None
    return code


def in_c(task: Task) -> bool:
    """Does the task run as C code?"""
    return code_in_c(task) is not None


def units(system: System, own: Container[str] = ()) -> dict[str, SourceUnit]:
    """The C sources of all tasks, by the path that their implementations have, without those of
    tasks in `own`."""
    found: dict[str, list[Task]] = {}
    for task in all_tasks(system.apps):
        code = code_in_c(task)
        if code is not None and task.name not in own:
            found.setdefault(code.path, []).append(task)
    names = hopes_names([Path(p).stem for p in found])
    made = {}
    for path, tasks in found.items():
        name = names[Path(path).stem]
        made[path] = SourceUnit(
            Path(os.path.abspath(path)),
            f"flowc_{name}.c",
            f"{name}.flow.h",
            c_includes(Path(path)),
            tuple(tasks),
        )
    return made


def refusals(
    made: Mapping[str, SourceUnit],
    written: Iterable[str],
    own: Iterable[tuple[Task, KeptCode]] = (),
) -> Iterator[Diagnostic]:
    """Errors for files that cannot be in one folder, or in one program. `written` are the files
    generated there."""
    taken = {name.lower(): "a file that is generated" for name in written}
    first: dict[str, Path] = {}
    for task, code in own:
        yield from _placed(task, code.file, code.files, taken, first)
    symbols: dict[str, tuple[Path, Task]] = {}
    for unit in made.values():
        task = unit.tasks[0]
        # The one of `flowc headers` is generated again.
        files = (unit.path, *(path for path in unit.included if path.name != unit.header))
        yield from _placed(task, unit.path, files, taken, first)
        if is_cpp(unit.file):
            yield _no(
                f"`{unit.file}` is C++, but code in a project of HOPES has to be C",
                task,
                "write it in C",
            )
        if set('"\\\n\r') & set(unit.file):
            yield _no(
                f"no C file can include `{unit.file}`",
                task,
                "rename it: without quotes and backslashes",
            )
        for other_task in unit.tasks:
            code_of_task = code_in_c(other_task)
            if code_of_task is not None:
                yield from _two(other_task, code_of_task.symbol, unit, symbols)


def _placed(
    task: Task, main: Path, files: Iterable[Path], taken: Mapping[str, str], first: dict[str, Path]
) -> Iterator[Diagnostic]:
    """Files with conflicting names."""
    for path in files:
        if path.name == COMMON:
            continue  # of an earlier export: it is generated again
        if path.parent != main.parent:
            other = os.path.relpath(path, main.parent)
            message = f"`{main.name}` includes `{other}`, but HOPES copies only one folder"
            yield _no(message, task, "put both into one folder")
            continue
        before = first.setdefault(path.name.lower(), path)
        if path.name.lower() in taken or not _one(before, path):
            other = taken.get(path.name.lower(), f"`{before}`")
            yield _no(
                f"`{path.name}` lies in one folder with {other} of that name", task, "rename it"
            )


def _one(first: Path, second: Path) -> bool:
    """May both be one file? Copies of a composite have copies of its code."""
    if first == second:
        return True
    try:
        return first.name == second.name and read_bytes(first) == read_bytes(second)
    except OSError:
        return False


def _two(
    task: Task, symbol: str, unit: SourceUnit, symbols: dict[str, tuple[Path, Task]]
) -> Iterator[Diagnostic]:
    """A function that another C file has as well."""
    path, other = symbols.setdefault(symbol, (unit.path, task))
    if path != unit.path:
        message = f"two C files have a function `{symbol}`, but HOPES makes one program"
        note = Note(f"`{other.definition}` has one", other.span)
        yield Diagnostic("F723", message, task.span, notes=(note,), help="rename one of them")


def _no(message: str, task: Task, help_text: str) -> Diagnostic:
    return Diagnostic("F723", message, task.span, help=help_text)
