"""The files of a PREESM project, and how they are read.

In: a path that the user named, and paths in PREESM's form: `/PROJECT/Algo/top.pi` or `Algo/sub.pi`,
from the folder of the project. Out: paths that exist below that folder, XML trees, and a
`PreesmCollector`. Nothing outside of the project is opened. Other modules interpret the XML.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from ...model.diagnostic import Diagnostic, Errors
from ...model.files import read_bytes
from ...model.span import Span
from .. import collector
from ..names import shown
from ..xml_tree import Element, parse

#: Diagnostics: no file of PREESM; a faulty one; one that the language cannot express; one that is
#: only partly imported.
NOT_PREESM, FAULTY, BEYOND, LESS = "F730", "F731", "F732", "F733"
#: Most files of a project that are searched, and most levels from a file up to its project.
_MOST, _HIGHEST = 20_000, 6


@dataclass(slots=True)
class PreesmCollector(collector.Collector):
    """Errors and warnings of one import."""

    faulty: str = FAULTY
    less: str = LESS

    def refuse(self, message: str, span: Span, help_text: str = "") -> None:
        """An error: PREESM supports it and the language does not."""
        self.faults.append(Diagnostic(BEYOND, message, span, help=help_text))


@dataclass(frozen=True)
class PreesmProject:
    """`root` is the folder that paths of PREESM begin at."""

    root: Path

    def find(self, said: str) -> Path | None:
        """The file that PREESM means; the first part may be the name of the project. None where
        there is none."""
        parts = _parts(said)
        candidates = [parts, parts[1:]]
        if said.startswith("/"):
            candidates.reverse()
        for candidate in candidates:
            file = self.root.joinpath(*candidate)
            if candidate and self.holds(file):
                return file
        return None

    def rank(self, said: Iterable[str]) -> tuple[int, int, bool, int]:
        """How well this folder explains paths of PREESM: how many lead to a file, how many name it
        as their project, whether it has `.project`, and how many lead to a file as a whole."""
        found = named = whole = 0
        for path in said:
            parts = _parts(path)
            inside = bool(parts[1:]) and self.holds(self.root.joinpath(*parts[1:]))
            if path.startswith("/"):
                named += inside and self.root.name == parts[0]
                found += inside
            else:
                exists = bool(parts) and self.holds(self.root.joinpath(*parts))
                whole += exists
                found += exists or inside
        return found, named, os.path.isfile(self.root / ".project"), whole

    def holds(self, file: Path) -> bool:
        """Is this a file of the project? A link may lead out of it to a C file of the same name
        only."""
        if not os.path.isfile(file):
            return False
        real = Path(os.path.realpath(file))
        shared = real.name == file.name and file.suffix in (".c", ".h")
        return shared or real.is_relative_to(os.path.realpath(self.root))

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """All files, those of hidden folders and of folders with generated code left out."""
        found: list[Path] = []
        for folder, inside, names in os.walk(self.root):
            inside[:] = sorted(
                n for n in inside if not n.startswith(".") and n not in ("generated", "build")
            )
            found += [Path(folder, name) for name in sorted(names)]
            if len(found) > _MOST:
                break
        return tuple(f for f in found if self.holds(f))


def _parts(said: str) -> tuple[str, ...]:
    """The parts of a path of PREESM; none where it leads upwards."""
    path = PurePosixPath(said.replace("\\", "/").replace("\0", ""))
    parts = tuple(p for p in path.parts if p != "/")
    if ".." in parts:
        return ()
    return parts


def project_of(file: Path, said: Iterable[str]) -> PreesmProject:
    """The project around a file: the folder in which the paths `said` exist, wherever a `.project`
    is; where none exists, the folder with `.project`, or the second around the file."""
    paths = list(said)
    around = [PreesmProject(p) for p in Path(os.path.abspath(file)).parents[:_HIGHEST]]
    best = max(around, key=lambda project: project.rank(paths))
    if any(best.rank(paths)):
        return best
    return around[:2][-1]


def start_of(path: Path) -> Span:
    """The place of a whole file."""
    return Span(str(path), 1, 1, 1, 1)


def read_xml(path: Path, say: PreesmCollector, root: str, code: str = FAULTY) -> Element | None:
    """The root element, which has to be `root`; None after a fault."""
    try:
        tree = parse(str(path), read_bytes(path), code)
    except OSError as error:
        say.faults.append(Diagnostic(code, f"`{path}` cannot be read: {error.strerror}", None))
        return None
    except Errors as fault:
        say.faults += fault.diagnostics
        return None
    if tree.tag != root:
        say.faults.append(
            Diagnostic(code, f"the root of this XML is {shown(tree.tag)}, not `{root}`", tree.span)
        )
        return None
    return tree


def read_text(path: Path) -> str | None:
    """A source as text; None if it cannot be read."""
    try:
        return read_bytes(path).decode(errors="replace")
    except OSError:
        return None
