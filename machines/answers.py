"""What a board may answer, as data: whatever else comes from there is refused, with the place where it is wrong.

In: documents that came from a board, or what a command there has printed. Out: frozen dataclasses, or a ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from ..model.json_reader import Between, parse, read, shown

T = TypeVar("T")

#: A time that was measured, in ns.
Ns = Annotated[float, Between(0, 1 << 62)]
#: Characters of what a machine says of itself.
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """Something there cannot be done."""

    fault: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A folder was taken; or it was not, since it holds `foreign` files or is `taken`."""

    base: str
    python: tuple[int, int, int] = (0, 0, 0)
    foreign: tuple[str, ...] = ()
    taken: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """It was done."""


@dataclass(frozen=True, slots=True)
class Known:
    """Digests of the files that are there."""

    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Folder:
    """A new one."""

    path: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a file, and whether there are more behind it."""

    more: bool
    there: bool = True


@dataclass(frozen=True, slots=True)
class Said:
    """A command has said something, on that output."""

    said: Literal["out", "err"]


@dataclass(frozen=True, slots=True)
class Alive:
    """A command is still running."""

    alive: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A command has ended; or there is none of that name."""

    end: Annotated[int, Between(-255, 255)]
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What `whoami` says."""

    cores: Annotated[int, Between(1, 1 << 12)]
    memory_bytes: Annotated[int, Between(1, 1 << 60)]
    description: str
    host_hash: str
    python: str
    numpy: str | None
    tensorrt: str | None
    device: str | None
    boot: str
    celsius: float | None


def of_command(document: Any) -> Fault | Said | Alive | Ended:
    """What comes while a command runs. Raises ValueError."""
    known = document if isinstance(document, dict) else {}
    if "said" in known:
        return read(Said, document)
    if "alive" in known:
        return read(Alive, document)
    if "end" in known:
        return read(Ended, document)
    return read(Fault, document)


def machine(printed: str) -> Machine:
    """What `whoami` has printed. Raises ValueError."""
    if len(printed) > _LONGEST:
        raise ValueError(f"it has {len(printed)} characters")
    return printed_as(Machine, printed)


def printed_as(kind: type[T], printed: str) -> T:
    """What a module of flowc has printed in its last line: libraries may have said something before.

    Raises ValueError.
    """
    *_, last = printed.rstrip("\n").rsplit("\n", 1)
    try:
        return read(kind, parse(last))
    except ValueError as error:
        raise ValueError(f"{error}; it says {shown(last)}") from error
