"""What instances are stamped from, and where files named in a text are."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from ..model.application import Port, Task
from ..model.files import MOST, read_bytes
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


def unreadable(place: Path, most: int = MOST) -> str:
    """What is to say of a file that cannot be read, or has more than `most` bytes; nothing of one that can.

    A path that no file system takes (too long, a zero byte) does not exist, and neither do directories and devices.
    """
    try:
        if not place.is_file():
            return "does not exist"
        read_bytes(place, most)
    except ValueError:
        return "does not exist"
    except OSError as error:
        return "does not exist" if error.errno == errno.ENAMETOOLONG else f"cannot be read: {error.strerror}"
    return ""


def beside(span: Span, path: str) -> Path:
    """Paths in a .flow text are relative to it."""
    return Path(os.path.normpath(Path(span.file).parent / path))
