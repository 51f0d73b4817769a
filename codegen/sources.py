"""Where the files of an application go in a build: a plan entry for each, nothing written yet."""

from __future__ import annotations

import os
import re
from pathlib import Path

Plan = dict[str, bytes | Path]

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


class Sources:
    """Collects files below `root` (the .flow's folder) into a plan, each under a room of the build."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.plan: Plan = {}

    def place(self, room: str, path: str | Path) -> str:
        """The path in the build of a file of the application; adds it to the plan."""
        file = Path(path).resolve()
        relative = os.path.relpath(file, self._root)
        parts = ["_up" if part == ".." else part for part in Path(relative).parts]
        target = "/".join([room, *parts])
        earlier = self.plan.setdefault(target, file)
        if earlier != file:
            raise RuntimeError(f"{target} would be two files")
        return target

    def place_c(self, path: str | Path) -> str:
        """A C source and the local files it includes."""
        target = self.place("c", path)
        waiting, seen = [Path(path).resolve()], {Path(path).resolve()}
        while waiting:
            current = waiting.pop()
            for name in _INCLUDE.findall(current.read_text(errors="replace")):
                included = (current.parent / name).resolve()
                if included.is_file() and included not in seen:
                    seen.add(included)
                    waiting.append(included)
                    self.place("c", included)
        return target
