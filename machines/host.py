"""A machine that programs run on: `HERE`, or a board (`board.py`). All runs and measurements go
through a host.

In: directories and commands. Out: their results. Paths on a host are strings: they have no meaning
elsewhere.
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
from ..model.platform import ACCELERATORS, Platform, Pool
from . import whoami
from .children import run

T = TypeVar("T")

#: Most lines and characters of a failed program's output.
LAST_LINES, LAST_CHARACTERS = 10, 4000


def last_words(said: str) -> str:
    """The end of a program's output, where it reports why it failed."""
    return "\n".join(said.strip().splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:]


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a machine: `description` in words, `host_hash` as in profiles."""

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
    """A machine that programs run on. Every method may raise Errors if that machine is remote."""

    @property
    def name(self) -> str:
        """`host`, or `board`: the name of its own platform."""

    @property
    def identity(self) -> Identity:
        """The machine's identity."""

    @property
    def python(self) -> list[str]:
        """The words of the command that starts Python there."""

    @property
    def celsius(self) -> float | None:
        """Its temperature when it was connected, if it reports one; None for several machines."""

    @property
    def made(self) -> set[str]:
        """Digests of files known to be built there: they need not be checked again."""

    def put(self, directory: Path, about: str) -> str:
        """Copy a directory there, with C code compiled; returns its path there.

        An earlier directory `about` the same thing is replaced; files that programs created beside
        it stay.
        """

    def folder(self) -> AbstractContextManager[str]:
        """A temporary folder there."""

    def writing(self, files: Mapping[str, Path | None]) -> AbstractContextManager[dict[str, str]]:
        """Paths where programs there write files, by name; afterwards they are copied here, or
        discarded if None."""

    def execute(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command to its end, without input."""

    def module(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Done:
        """Run a module of flowc that is made for a host (`profiling.there`, `machines.whoami`) as a
        program."""

    def read(self, file: str) -> bytes | None:
        """A file there; None if it does not exist."""

    def has_gpu(self) -> bool:
        """Is there a GPU that Python can use?"""

    def has_npu(self) -> bool:
        """May there be an NPU? A board is taken for what the platform says: a program tells."""

    def steadily(self, work: Callable[[], T]) -> T:
        """Do a piece of work; repeat it from its start if the connection to the machine was
        lost."""


class Here:
    """This machine."""

    name = "host"

    def __init__(self) -> None:
        self.made: set[str] = set()

    @property
    def identity(self) -> Identity:
        return Identity(
            whoami.cores(), whoami.memory_bytes(), whoami.description(), whoami.host_hash()
        )

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
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        # no limit: a command may take as long as it needs
        done = run(words, cwd=cwd, environment=environment)
        return Done(done.returncode, done.stdout, done.stderr)

    def module(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Done:
        package = __package__.rpartition(".")[0]
        # -P: a file of the user with the name of a Python module must not be imported instead.
        return self.execute(
            [*self.python, "-P", "-m", f"{package}.{name}", *arguments], environment=environment
        )

    def read(self, file: str) -> bytes | None:
        path = Path(file)
        return path.read_bytes() if path.is_file() else None  # a pipe has another reader

    def has_gpu(self) -> bool:
        return whoami.has_gpu()

    def has_npu(self) -> bool:
        return whoami.has_npu()

    def steadily(self, work: Callable[[], T]) -> T:
        return work()


HERE: Host = Here()


def has_accelerators(host: Host, platform: Platform) -> bool:
    """Has a machine accelerators of a platform, as far as can be detected?"""
    kinds = {pool.kind for pool in platform.pools}
    if "npu" in kinds and host.has_npu():
        return True
    return not kinds.isdisjoint(ACCELERATORS) and host.has_gpu()


def own_platform(host: Host) -> Platform:
    """The built-in platform of a machine (`host`, `board`): its cores under static orders."""
    of = host.identity
    pool = Pool("cpu", "cpu", of.cores, True, "static_order", memory_bytes=of.memory_bytes)
    what = "This machine" if host is HERE else "The board"
    return Platform(host.name, (pool,), (), f"{what}: {of.description}", None)
