"""The formats of other tools that flowc reads and writes: one line each here, one package each
beside.

An importer turns files into others: texts, networks, and data that belong to them. It prints
nothing and writes nothing; `driver.exchange.import_` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping as Placements
from ..model.platform import Platform
from ..model.profile import Profile
from ..model.system import System
from ..model.times import Times


@dataclass(frozen=True, slots=True)
class Request:
    """An import: `path`, a file or a folder, for the text (or network) `target`. The rest are
    options."""

    path: Path
    target: Path
    processor: str | None = None
    weights: Path | None = None
    times: Path | None = None
    modes: tuple[str, ...] | None = None
    state: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The result: contents of files by their names; the first one was requested, others belong
    beside it.

    `kept` are files that are the user's once they exist. `profile`, if the source has times, makes
    the profile of `platform` (the name of one of the files) from the content hashes of the tasks:
    it needs the text in its place. `said` is a line about the result.
    """

    files: Mapping[str, str | bytes]
    warnings: tuple[Diagnostic, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    profile: Callable[[Mapping[str, str]], Profile] | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Importer:
    """A format that is read. `recognizes` checks the path, and the content if necessary.

    `options` are the fields of a `Request` with an effect. `makes` is the ending of its output,
    `key` the name of that in JSON; `ending` is not part of the names of its inputs. `read` raises
    Errors with all faults.
    """

    name: str
    about: str
    recognizes: Callable[[Path], bool]
    read: Callable[[Request], Imported]
    options: frozenset[str] = frozenset()
    makes: str = ".flow"
    key: str = "text"
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """An export: the system as written, and as staged for a platform, with its times."""

    whole: System
    staged: System
    platform: Platform
    mapping: Placements | None
    times: Times


@dataclass(frozen=True, slots=True)
class Exported:
    """`name` is that of the app, or of the text if there are several."""

    name: str
    text: str
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Files of another tool's project that change, with their new content."""

    files: Mapping[Path, str]
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format that is written. `networks`: .onnx files as well; `timed`: it takes times from the
    stored profile.

    `write` gets a source and the name of the app (None: all of them, or the only one), `into` a
    source, a project of the other tool, and who decides there when a task runs (None: as before).
    Both raise Errors; a format has one.
    """

    name: str
    about: str
    suffix: str = ""
    write: Callable[[Source, str | None], Exported] | None = None
    into: Callable[[Source, Path, str | None], Changes] | None = None
    networks: bool = False
    timed: bool = False


def _darknet(request: Request) -> Imported:
    from .darknet import read

    return read(request)


def _is_darknet(path: Path) -> bool:
    from .darknet import is_network

    return path.suffix == ".cfg" and is_network(path)


def _is_hopes(path: Path) -> bool:
    from .hopes.files import is_of_translator

    return (
        os.path.isdir(path)
        or os.path.isdir(path.with_name(f"{path.name}.files"))
        or is_of_translator(path)
    )


def _hopes(request: Request) -> Imported:
    from .hopes.importer import imported

    return imported(request)


def _jedi(request: Request) -> Imported:
    from .jedi.importer import imported

    return imported(request)


def _preesm(request: Request) -> Imported:
    from .preesm.importer import imported

    return imported(request)


def _sdf3(request: Request) -> Imported:
    from .sdf3.importer import imported

    return imported(request)


def _to_sdf3(source: Source, app: str | None) -> Exported:
    from .sdf3.importer import exported

    return exported(source, app)


def _to_jedi(source: Source, app: str | None) -> Exported:
    from .jedi.importer import exported

    return exported(source, app)


def _into_hopes(source: Source, project: Path, policy: str | None) -> Changes:
    from .hopes.back import back

    return back(source, project, policy)


#: The first one that recognizes a path reads it; the last one accepts everything.
IMPORTERS: tuple[Importer, ...] = (
    Importer(
        "hopes",
        "a HOPES project",
        _is_hopes,
        _hopes,
        frozenset({"times", "modes", "state", "device"}),
        ending="_algorithm",
    ),
    Importer(
        "darknet",
        "the .cfg of a Darknet network",
        _is_darknet,
        _darknet,
        frozenset({"weights"}),
        ".onnx",
        "network",
    ),
    Importer("jedi", "a configuration of JEDI", lambda path: path.suffix == ".cfg", _jedi),
    Importer(
        "preesm",
        "a graph or scenario of PREESM",
        lambda path: path.suffix in (".pi", ".scenario"),
        _preesm,
    ),
    Importer("sdf3", "an SDF3 XML file", lambda path: True, _sdf3, frozenset({"processor"})),
)

EXPORTERS: tuple[Exporter, ...] = (
    Exporter("sdf3", "the XML of the SDF3 tools", ".xml", _to_sdf3, networks=True, timed=True),
    Exporter("jedi", "a configuration of JEDI", ".cfg", _to_jedi),
    Exporter("hopes", "mapping, profile and orders for a HOPES project", into=_into_hopes),
)
