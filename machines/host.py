"""A machine that programs run on: `HERE`, or a board (`board.py`). Whoever runs or measures something asks a host.

In: directories and commands. Out: what became of them. Paths on a host are strings: they mean nothing elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..model.files import scratch
from ..model.platform import Platform, Pool
from . import whoami
from .children import run

T = TypeVar("T")

#: Lines of what something said before it failed, and their characters.
LAST_LINES, LAST_CHARACTERS = 10, 4000


def last_words(said: str) -> str:
    """The end of what a program said: there it says why it failed."""
    return "\n".join(said.strip().splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a machine is: `description` in words, `host_hash` as profiles keep it."""

    cores: int
    memory_bytes: int
    description: str
    host_hash: str


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended; a negative status is the signal that ended it."""

    status: int
    stdout: str
    stderr: str


class Host(Protocol):
    """A machine that programs run on. Every method may raise Errors where that machine is another one."""

    @property
    def name(self) -> str:
        """`host`, or `board`: what its own platform is called."""

    @property
    def identity(self) -> Identity:
        """What it is."""

    @property
    def python(self) -> list[str]:
        """The words that start Python there."""

    @property
    def celsius(self) -> float | None:
        """How hot it was when it was reached, where it tells; None for several machines."""

    @property
    def made(self) -> set[str]:
        """What is known to have been made there, by digests: nobody has to look again."""

    def put(self, directory: Path, about: str) -> str:
        """Have a directory there, as it is here, C code compiled; returns its path there.

        What was put there before `about` the same thing is replaced; what programs made beside it stays.
        """

    def folder(self) -> AbstractContextManager[str]:
        """A new folder there, which is gone afterwards."""

    def writing(self, files: Mapping[str, Path | None]) -> AbstractContextManager[dict[str, str]]:
        """Where programs there write files, by name, so that they are here afterwards; None is for nobody to keep."""

    def execute(
        self, words: Sequence[str], *, cwd: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Done:
        """Run a command to its end, without input."""

    def module(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Done:
        """Run a module of flowc that is made for it (`profiling.there`, `machines.whoami`) as a program."""

    def read(self, file: str) -> bytes | None:
        """A file there; None where it does not exist."""

    def has_gpu(self) -> bool:
        """Is there a GPU that Python can use?"""

    def steadily(self, work: Callable[[], T]) -> T:
        """Do a piece of work from its beginning; again, where the way to the machine was lost in the middle."""


class Here:
    """This machine."""

    name = "host"

    def __init__(self) -> None:
        self.made: set[str] = set()

    @property
    def identity(self) -> Identity:
        return Identity(whoami.cores(), whoami.memory_bytes(), whoami.description(), whoami.host_hash())

    @property
    def celsius(self) -> float | None:
        return whoami.celsius()

    @property
    def python(self) -> list[str]:
        return [sys.executable]

    def put(self, directory: Path, about: str) -> str:
        return str(directory)

    @contextmanager
    def folder(self) -> Iterator[str]:
        with scratch() as folder:
            yield str(folder)

    @contextmanager
    def writing(self, files: Mapping[str, Path | None]) -> Iterator[dict[str, str]]:
        with self.folder() as folder:
            own = {name: Path(folder) / str(k) for k, name in enumerate(files)}
            yield {name: os.path.abspath(file or own[name]) for name, file in files.items()}

    def execute(
        self, words: Sequence[str], *, cwd: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Done:
        done = run(words, cwd=cwd, environment=environment)  # no limit: what it does may take as long as it takes
        return Done(done.returncode, done.stdout, done.stderr)

    def module(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Done:
        package = __package__.rpartition(".")[0]
        # -P: a file of the user called like a module of Python must not be imported instead.
        return self.execute([*self.python, "-P", "-m", f"{package}.{name}", *arguments], environment=environment)

    def read(self, file: str) -> bytes | None:
        path = Path(file)
        return path.read_bytes() if path.is_file() else None  # a pipe is read by somebody else

    def has_gpu(self) -> bool:
        return whoami.has_gpu()

    def steadily(self, work: Callable[[], T]) -> T:
        return work()


HERE: Host = Here()


def own_platform(host: Host) -> Platform:
    """The built-in platform of a machine (`host`, `board`): its cores under static orders."""
    of = host.identity
    pool = Pool("cpu", "cpu", of.cores, True, "static_order", memory_bytes=of.memory_bytes)
    what = "This machine" if host is HERE else "The board"
    return Platform(host.name, (pool,), (), f"{what}: {of.description}", None)
