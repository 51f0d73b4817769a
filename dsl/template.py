"""What instances are stamped from, and where files named in a text are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..model.application import Port, Task
from ..model.span import Span


@dataclass(frozen=True, slots=True)
class Link:
    """A channel inside a template, between its tasks (names relative to the instance)."""

    source: str
    source_port: str
    destination: str
    destination_port: str


@dataclass(frozen=True, slots=True)
class Template:
    """What one instance becomes: usually one task; a network with `pre`/`post` becomes several.

    `tasks` have names relative to the instance ("" = the instance itself). `inputs` and `outputs` map the ports an
    application sees to (relative task, its port).
    """

    tasks: tuple[Task, ...]
    links: tuple[Link, ...]
    inputs: dict[str, tuple[str, Port]]
    outputs: dict[str, tuple[str, Port]]


def is_file(place: Path) -> bool:
    """Whether a file is there; a path that no file system takes (too long, a zero byte) is not."""
    try:
        return place.is_file()
    except (OSError, ValueError):
        return False


def beside(span: Span, path: str) -> Path:
    """Paths in a .flow text are relative to it."""
    return Path(os.path.normpath(Path(span.file).parent / path))
