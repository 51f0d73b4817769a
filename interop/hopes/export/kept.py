"""The kept parts of a HOPES project that a text was imported from: its names, and its own code.

They come from the import manifest. A text that was not imported keeps nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....model.application import Application, Task
from ....model.diagnostic import Diagnostic
from ....model.files import read_bytes
from ....model.system import System
from ..words import HELD

#: Calls of such code that need declarations in a project's XML, which an export does not write.
_ASKED = re.compile(r"\b(?:UFLoop_\w+|AC_(?:SEND|RECEIVE|CHECK)|LIBCALL)\b", re.ASCII)

#: Macros for ports in the C file around it: those at the border of a loop, which a firing may skip,
#: and those without a connection.
_LEFT = re.compile(r'\bCIC_(SHARED|NEXT|LAST|LOOSE)\("(\w+)"', re.ASCII)
#: Ports that write or read the newest token.
_NEWEST = re.compile(r'\bCIC_(?:NEWEST|SEEN)\("(\w+)"', re.ASCII)


@dataclass(frozen=True, slots=True)
class KeptCode:
    """Code of HOPES that a task runs: its `.cic`, headers before it, sources beside it, and all
    files of these.

    `around` is the C file of the import, `parameters` are name, type and value in HOPES.
    """

    file: Path
    around: Path
    headers: tuple[Path, ...]
    sources: tuple[Path, ...]
    files: tuple[Path, ...]
    parameters: tuple[tuple[str, str, str], ...]
    cflags: str
    ldflags: str
    language: str


@dataclass(frozen=True, slots=True)
class KeptNames:
    """HOPES' names: of the project and its device, by pool (element, type), task and port of the
    text.

    `around` has the top-level composite that a task was in, `newest` the ports (task, port) of the
    text at which such code writes or reads the newest token.
    """

    project: str = ""
    device: str = ""
    pools: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[tuple[str, str], str] = field(default_factory=dict)
    around: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, KeptCode] = field(default_factory=dict)
    newest: frozenset[tuple[str, str]] = frozenset()

    def port(self, task: str, port: str) -> str:
        """The name of a port in HOPES."""
        return self.ports.get((task, port), port)


def newest_of(own: KeptCode) -> frozenset[str]:
    """The ports, by their names in HOPES, at which code writes or reads the newest token."""
    return frozenset(_NEWEST.findall(_text(own.around)))


def refusals(system: System, kept: KeptNames, held: frozenset[str]) -> Iterator[Diagnostic]:
    """Errors for features that the code of HOPES does not support. `held` are channels whose
    initial tokens must be in the reader's code."""
    for app in system.apps:
        for task in app.tasks:
            own = kept.own.get(task.name)
            if own is None:
                continue
            text = _text(own.file)
            wanted = [*_wanted(task, app, text, _text(own.around), held, kept)]
            asked = sorted({m.group() for m in _ASKED.finditer(text)})
            for what in wanted:
                message = (
                    f"`{task.name}` runs code of HOPES, `{own.file.name}`, which does not support"
                    f" {what}"
                )
                yield Diagnostic(
                    "F736", message, task.span, help="give it code of your own, or leave that out"
                )
            if asked:
                message = (
                    f"`{own.file.name}` of `{task.name}` calls `{asked[0]}`, and loops and"
                    " libraries are not exported"
                )
                yield Diagnostic(
                    "F736",
                    message,
                    task.span,
                    help="`export --into PROJECT` takes the mapping back",
                )


def _text(file: Path) -> str:
    """The content of a file; empty if it cannot be read, which is reported when it is copied."""
    try:
        return read_bytes(file).decode("latin-1")
    except OSError:
        return ""


def _wanted(
    task: Task, app: Application, text: str, around: str, held: frozenset[str], kept: KeptNames
) -> Iterator[str]:
    if any(p.window for p in task.inputs):
        yield "a window"
    if task.phases > 1:
        yield "rates that change from firing to firing"
    for kind, port in _LEFT.findall(around):
        place = "outside of a loop"
        if kind == "LOOSE":
            place = "without an arrow"
        yield f"its port `{port}` {place}"
    known = {m[1]: int(m[2]) for m in HELD.finditer(text)}
    into = {c.destination_port: c for c in app.channels if c.destination == task.name}
    for port, channel in into.items():
        expected = 0
        if channel.name in held:
            expected = channel.delay
        if any(channel.values):
            yield f"the initial values of `{channel.name}`"
        elif known.get(kept.port(task.name, port), 0) != expected:
            yield f"the initial tokens of `{channel.name}`"
