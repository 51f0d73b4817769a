"""The directory and machine of a program: options that several verbs share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._boards import BoardAddress, BoardPython, host_of
from ._common import Force, NoMeasure, OnPlatform, Output, RunTarget, Target, measuring, progress

if TYPE_CHECKING:
    from ..machines.host import Host


class Measured:
    """A group of options of a verb that builds a program, and may measure its tasks first; one in
    C++ if it is `native`."""

    __slots__ = ()
    platform: str
    force: bool
    no_measure: bool

    @property
    def native(self) -> bool:
        """Is it a program in C++?"""
        return False

    @property
    def asked(self) -> dict[str, Any]:
        """The same for the driver (fields of `BuildOptions`), which reports its progress to the
        terminal."""
        return {
            "platform": self.platform,
            "native": self.native,
            "force": self.force,
            "measure": not self.no_measure,
            "on_measure": measuring,
            "report": progress,
        }


@dataclass(frozen=True, slots=True)
class BuildPlace(Measured):
    """The directory of a build, its platform, and the machine that runs it."""

    output: Output = None
    target: RunTarget = Target.PROGRAM
    platform: OnPlatform = "host"
    board: BoardAddress = None
    board_python: BoardPython = "python3"
    force: Force = False
    no_measure: NoMeasure = False

    @property
    def native(self) -> bool:
        """Is it a program in C++?"""
        return self.target == Target.NATIVE

    @property
    def host(self) -> AbstractContextManager[Host]:
        """A connection to the machine."""
        return host_of(self.board, self.board_python)
