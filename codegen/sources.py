"""The places of an application's files in a build: a plan entry for each, nothing written yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..dsl.includes import c_includes
from ..model.application import Implementation, Task
from ..model.files import KEPT

Plan = dict[str, bytes | Path]


@dataclass(frozen=True, slots=True)
class CTask:
    """A task with its code in C."""

    task: Task
    code: Implementation


class Sources:
    """Collects files below `root` (the .flow's folder) into a plan, each under a folder of the
    build."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.abspath(root))
        self.plan: Plan = {}

    def place(self, room: str, path: str | Path, content: bytes | None = None) -> str:
        """The path in the build of a file of the application; adds it to the plan.

        `content` is for a file that does not exist: it was made from the application's files.
        """
        file = Path(os.path.abspath(path))  # a link keeps its own place: its neighbors are there
        relative = Path(os.path.relpath(file, self._root))
        if relative.parts[0] == KEPT:
            relative = Path(relative.name)
        parts = [part for part in relative.parts if part != ".."]
        up = len(relative.parts) - len(parts)
        if up:
            parts.insert(0, f"_up{up}")
        target = "/".join([room, *parts])
        entry = file if content is None else content
        if self.plan.setdefault(target, entry) != entry:
            raise RuntimeError(f"{target} would be two files")
        return target

    def place_c(self, path: str | Path) -> str:
        """A C source and the local files it includes."""
        for included in c_includes(Path(path)):
            self.place("c", included)
        return self.place("c", path)
