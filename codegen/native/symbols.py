"""The names of functions of C sources in one executable.

Each source of a build is a library of its own in Python's programs, so that two of them may have
functions of one name. In an executable, build.sh keeps the functions of tasks alone visible, under
names of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.deployment import Deployment
from ..kinds.c import CCode
from ..names import identifiers
from .library import library_of

#: What a source may have beside the function of a task.
BESIDE = ("", "_init", "_exit", "_error")


@dataclass(frozen=True, slots=True)
class Symbols:
    """The names of tasks' functions, by their source and their names there."""

    names: dict[tuple[str, str], str]

    def of(self, code: CCode) -> str:
        """The name of a task's function in the executable."""
        return self.names[code.source, code.name]

    def in_source(self, source: str) -> dict[str, str]:
        """New names by the ones in a source: of functions of tasks, and of what belongs to them."""
        found = {}
        for (file, name), new in self.names.items():
            if file == source:
                found.update({name + beside: new + beside for beside in BESIDE})
        return found

    @property
    def taken(self) -> frozenset[str]:
        """All names that functions of tasks have in the executable, or may have beside them."""
        return frozenset(name + beside for name in self.names.values() for beside in BESIDE)

    @property
    def sources(self) -> list[str]:
        """The C sources."""
        return sorted({source for source, _ in self.names})


def symbols_of(deployment: Deployment) -> Symbols:
    """The names of all functions of a deployment: none is one of the C library or of the
    program's own library."""
    wanted: dict[str, tuple[str, str]] = {}
    for task in deployment.tasks:
        if isinstance(task.code, CCode):
            stem = task.code.source.rsplit(".", 1)[0].removeprefix("c/")
            wanted[f"{stem} {task.code.source} {task.code.name}"] = task.code.source, task.code.name
    names: dict[tuple[str, str], str] = {}
    library = library_of(deployment)
    taken = set() if library is None else set(library.names)
    for text, key in wanted.items():
        plain = f"task_{text.partition(' ')[0]}_{key[1]}"
        made = identifiers([plain], taken)[plain]
        taken |= {made + beside for beside in BESIDE}
        names[key] = made
    return Symbols(names)
