"""The answers that a board may give, as data: any other answer is rejected, with the place of the
fault.

In: documents from a board, or the output of a command there. Out: frozen dataclasses, or a
ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from ..model.json_reader import Between, parse, read, shown

T = TypeVar("T")

#: A measured time, in ns.
Ns = Annotated[float, Between(0, 1 << 62)]
#: Most characters of a machine's description.
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that failed there."""

    fault: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The folder was taken; or not, because it holds `foreign` files or is `taken`."""

    base: str
    python: tuple[int, int, int] = (0, 0, 0)
    foreign: tuple[str, ...] = ()
    taken: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """The request is done."""


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Digests of the files that are there."""

    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class FolderAnswer:
    """A new folder."""

    path: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a file, and whether more follow."""

    more: bool
    there: bool = True


@dataclass(frozen=True, slots=True)
class Said:
    """Output of a command, and its stream."""

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
    """The output of `whoami`."""

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
    """An answer while a command runs. Raises ValueError."""
    known = document if isinstance(document, dict) else {}
    if "said" in known:
        return read(Said, document)
    if "alive" in known:
        return read(Alive, document)
    if "end" in known:
        return read(Ended, document)
    return read(Fault, document)


def machine(printed: str) -> Machine:
    """The output of `whoami`. Raises ValueError."""
    if len(printed) > _LONGEST:
        raise ValueError(f"it has {len(printed)} characters")
    return printed_as(Machine, printed)


def printed_as(kind: type[T], printed: str) -> T:
    """The last line that a module of flowc has printed: libraries may have printed something
    before.

    Raises ValueError.
    """
    *_, last = printed.rstrip("\n").rsplit("\n", 1)
    try:
        return read(kind, parse(last))
    except ValueError as error:
        raise ValueError(f"{error}; it says {shown(last)}") from error
