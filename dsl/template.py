"""Templates of instances, and the paths of files named in a text."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from ..model.application import Port, Task
from ..model.files import MOST, read_bytes
from ..model.span import Span


@dataclass(frozen=True, slots=True)
class TemplateChannel:
    """A channel inside a template, between its tasks (names relative to the instance)."""

    source: str
    source_port: str
    destination: str
    destination_port: str


@dataclass(frozen=True, slots=True)
class Template:
    """The tasks of one instance: usually one; a network with `pre`/`post` has several.

    `tasks` have names relative to the instance ("" = the instance itself). `inputs` and `outputs`
    map the ports an application sees to (relative task, its port).
    """

    tasks: tuple[Task, ...]
    links: tuple[TemplateChannel, ...]
    inputs: dict[str, tuple[str, Port]]
    outputs: dict[str, tuple[str, Port]]

    @property
    def varies(self) -> bool:
        """Has its network tokens with sizes of their own?"""
        return any(task.network is not None and task.sized_ports for task in self.tasks)


def unreadable(place: Path, most: int = MOST) -> str:
    """The reason why a file cannot be read or has more than `most` bytes; empty if it can be read.

    Invalid paths (too long, a zero byte) and devices count as missing.
    """
    try:
        if place.is_dir():
            return "is a folder, and a file is wanted"
        if not place.is_file():
            return "does not exist"
        read_bytes(place, most)
    except ValueError:
        return "does not exist"
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return "does not exist"
        return f"cannot be read: {error.strerror}"
    return ""


def beside(span: Span, path: str) -> Path:
    """Paths in a .flow text are relative to it."""
    return Path(os.path.normpath(Path(span.file).parent / path))
