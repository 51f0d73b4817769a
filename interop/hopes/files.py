"""The files of a HOPES project, how they are read, and a collector for diagnostics about them.

In: the folder or the file that a user names. Out: a `HopesProject` with paths that exist, the XML
trees of its files, and a `HopesCollector` for faults and warnings, so that one run reports all of
them. Paths inside a project belong to the machine of its authors: files are found by their names,
and nothing outside the project is opened. Other modules interpret the XML.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from xml.parsers import expat

from ...model.diagnostic import Diagnostic, Errors
from ...model.files import read_bytes
from ...model.span import Span
from .. import collector
from ..names import listed, shown
from ..xml_tree import Element, parse

#: Diagnostics: not a HOPES project; a faulty HOPES project; a feature of HOPES that flowc does not
#: have.
NOT_HOPES, FAULTY, LESS = "F720", "F721", "F722"
#: Most levels of composites.
MOST_LEVELS = 16
#: The ending after the name of a project in the form of the translator.
ALGORITHM = "_algorithm.xml"
_NS = {
    "h": Fraction(3_600_000_000_000),
    "m": Fraction(60_000_000_000),
    "s": Fraction(1_000_000_000),
    "ms": Fraction(1_000_000),
    "us": Fraction(1000),
    "ns": Fraction(1),
    "ps": Fraction(1, 1000),
    "fs": Fraction(1, 1_000_000),
}
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
#: Characters of a file that contain its root element.
_HEAD = 4096


@dataclass(slots=True)
class HopesCollector(collector.Collector):
    """Errors and warnings of one project."""

    faulty: str = FAULTY
    less: str = LESS

    def time_ns(self, text: str, unit: str, of: str, span: Span) -> Fraction | None:
        """A time in ns; None after a fault, or after a warning if it is not given in time."""
        value = self.whole(text, of, span)
        if value is None:
            return None
        if unit in ("cycle", "count"):
            self.warn(f"{of} is given in {unit}s: it is left out", span, "flowc knows times only")
            return None
        if unit not in _NS:
            self.fault(f"{of} has the unit {shown(unit)}", span, f"there is {', '.join(_NS)}")
            return None
        return value * _NS[unit]


def start_of(path: Path) -> Span:
    """The place of a whole file."""
    return Span(str(path), 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class HopesProject:
    """`graph` is the task.xml of the top level, `files` the folder around it, `gui` the file of the
    tool.

    `translated`: it has the form of HOPES' translator, with all graphs in one file, and other
    projects may be in the folder.
    """

    name: str
    graph: Path
    files: Path
    gui: Path | None
    translated: bool = False

    def named(self, said: str, near: Path) -> Path | None:
        """The file for a path of the authors: at that place below the project, else with that name
        in `near`."""
        parts = _parts(said)
        if parts:
            return self._first([self.files.joinpath(*parts), near / parts[-1]])
        return None

    def below(self, said: str, near: Path) -> Path | None:
        """The file at that place below the project, or below `near`."""
        parts = _parts(said)
        if parts:
            return self._first([self.files.joinpath(*parts), near.joinpath(*parts)])
        return None

    def anywhere(self, said: str) -> Path | None:
        """The only file of that name in the project: HOPES puts all code into one folder."""
        parts = _parts(said)
        if not parts or self.files.suffix != ".files":
            # what is around a CICTask on its own may be large
            return None
        found = [p for p in self.files.rglob(glob.escape(parts[-1])) if os.path.isfile(p)]
        if len(found) == 1:
            return self._first(found)
        return None

    def _first(self, candidates: Iterable[Path]) -> Path | None:
        root = self.files.resolve()
        return next(
            (p for p in candidates if os.path.isfile(p) and p.resolve().is_relative_to(root)), None
        )

    def beside(self, kind: str) -> list[Path]:
        """The files `*_KIND.xml` of the project, the one with its name first."""
        if self.translated:
            found = [self.files / f"{self.name}_{kind}.xml"]
        else:
            found = sorted(self.files.glob(f"*_{kind}.xml"))
        found = [p for p in found if os.path.isfile(p)]
        return sorted(found, key=lambda p: p.name != f"{self.name}_{kind}.xml")


def _parts(said: str) -> tuple[str, ...]:
    """A path without its root; empty if there is none, or it leads upwards."""
    parts = tuple(
        p for p in PurePosixPath(said.replace("\\", "/").replace("\0", "")).parts if p != "/"
    )
    if ".." in parts:
        return ()
    return parts


def is_of_translator(path: Path) -> bool:
    """Is this one of the files that HOPES' translator reads (`NAME_algorithm.xml` and others of
    that name)?"""
    if path.suffix != ".xml" or not os.path.isfile(path):
        return False
    try:
        head = read_bytes(path)[:_HEAD]
    except OSError:
        return False
    return re.search(rb"<(?:[\w.-]+:)?CIC_[A-Z]", head) is not None


def locate(folder: Path) -> HopesProject:
    """The project in a folder: that of a project, its `NAME.files`, a `CICTask`, or that of a
    `NAME_algorithm.xml`.

    The algorithm may be named itself as well. Raises Errors (F720).
    """
    if not os.path.exists(folder):
        raise Errors([Diagnostic(NOT_HOPES, f"there is no `{folder}`", None)])
    if is_of_translator(folder):
        return _of_algorithm(folder)
    inside = _projects_in(folder)
    if len(inside) > 1:
        raise _several(folder, (p.stem for p in inside), inside[0])
    places = [folder / "CICTask", folder, *(path / "CICTask" for path in inside)]
    # the file of the tool was named
    places.append(folder.with_name(f"{folder.name}.files") / "CICTask")
    for cic in places:
        if os.path.isfile(cic / "task.xml"):
            return _of_task(cic)
    return _of_algorithm(_only_algorithm(folder))


def _of_task(cic: Path) -> HopesProject:
    """The project of a folder with the task.xml of the top level."""
    around = cic.parent
    if around.suffix != ".files":
        # A CICTask on its own: `CICTask/..` may be anything, and is not part of it.
        files = cic
        if cic.name == "CICTask":
            files = around
        return HopesProject(around.resolve().name, cic / "task.xml", files, None)
    gui = around.with_suffix("")
    return HopesProject(around.stem, cic / "task.xml", around, gui if os.path.isfile(gui) else None)


def _projects_in(folder: Path) -> list[Path]:
    """The folders `NAME.files` of projects in a folder."""
    if not os.path.isdir(folder):
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == ".files" and os.path.isfile(path / "CICTask" / "task.xml")
    )


def _only_algorithm(folder: Path) -> Path:
    """The one file of a translator's project in a folder. Raises Errors."""
    algorithms = sorted(p for p in folder.glob(f"*{ALGORITHM}") if is_of_translator(p))
    if len(algorithms) > 1:
        raise _several(folder, (p.name.removesuffix(ALGORITHM) for p in algorithms), algorithms[0])
    if algorithms:
        return algorithms[0]
    help_text = (
        "name the folder with `NAME.files`, a `CICTask` folder with its task.xml, or"
        f" `NAME{ALGORITHM}`"
    )
    message = f"`{folder}` holds no HOPES project: there is no CICTask/task.xml"
    raise Errors([Diagnostic(NOT_HOPES, message, None, help=help_text)])


def _several(folder: Path, names: Iterable[str], first: Path) -> Errors:
    message = f"`{folder}` holds several projects: {listed(names)}"
    help_text = f"import one of them, such as `{first}`"
    return Errors([Diagnostic(NOT_HOPES, message, None, help=help_text)])


def _of_algorithm(path: Path) -> HopesProject:
    """The project of an algorithm in the form of HOPES' translator. Raises Errors for a file that
    belongs to one."""
    if not path.name.endswith(ALGORITHM):
        name = path.stem.rpartition("_")[0] or "NAME"
        help_text = f"name its algorithm, `{name}{ALGORITHM}`, and the others are found beside it"
        raise Errors(
            [Diagnostic(NOT_HOPES, f"`{path}` is a part of a HOPES project", None, help=help_text)]
        )
    return HopesProject(path.name.removesuffix(ALGORITHM), path, path.parent, None, translated=True)


def read_xml(path: Path, say: HopesCollector, *roots: str) -> Element | None:
    """The root element, which has to be one of `roots`; None after a fault."""
    data = _bytes(path, say)
    if data is None:
        return None
    return _tree(str(path), data, say, roots)


def _tree(path: str, data: bytes, say: HopesCollector, roots: Sequence[str]) -> Element | None:
    try:
        root = parse(path, data, FAULTY)
    except Errors as fault:
        say.faults += fault.diagnostics
        return None
    if root.tag not in roots:
        say.fault(f"the root of this XML is {shown(root.tag)}, not `{roots[0]}`", root.span)
        return None
    return root


def read_text(path: Path, say: HopesCollector) -> str | None:
    """A file that is a text; None after a fault."""
    data = _bytes(path, say)
    try:
        if data is None:
            return None
        return data.decode()
    except UnicodeDecodeError:
        say.fault("this file is not a text", start_of(path), "write it as UTF-8")
        return None


def _bytes(path: Path, say: HopesCollector) -> bytes | None:
    try:
        return read_bytes(path)
    except OSError as error:
        say.fault(f"`{path}` cannot be read: {error.strerror}", start_of(path))
        return None


def embedded(path: Path, say: HopesCollector) -> Element | None:
    """The architecture that the file of the tool holds as text inside `schematic`; None if there is
    none."""
    data = _bytes(path, say)
    if data is None or _tree(str(path), data, say, ("project",)) is None:
        return None
    for line, text in _schematics(data):
        bare = _DECLARATION.sub(lambda found: "\n" * found.group().count("\n"), text)
        if "<CIC_Architecture" in bare:
            return _tree(str(path), ("\n" * (line - 1) + bare).encode(), say, ("CIC_Architecture",))
    return None


def _schematics(data: bytes) -> Iterator[tuple[int, str]]:
    """The texts of all `schematic` elements with their first lines. The XML was parsed before: it
    has no entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = False
    found: list[tuple[int, list[str]]] = []
    inside = [False]

    def start(tag: str, attributes: dict[str, str]) -> None:
        inside[0] = tag == "schematic"

    def end(tag: str) -> None:
        inside[0] = False

    def opened() -> None:
        # Text between the tag and `<![CDATA[` does not count.
        if inside[0]:
            found.append((parser.CurrentLineNumber, []))

    def text(part: str) -> None:
        if inside[0] and found:
            found[-1][1].append(part)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartCdataSectionHandler, parser.CharacterDataHandler = opened, text
    parser.Parse(data, True)
    return ((line, "".join(parts)) for line, parts in found)
