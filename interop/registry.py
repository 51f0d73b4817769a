"""Formats of other tools: what one is, and which are installed.

Each format is an entry point of the group `flowc.formats` that names an `Importer`, an `Exporter`
or a `Target`: those of flowc (in `pyproject.toml`) like those of any other package. Formats of
flowc come first: a package cannot take a file or a name away from them.

An importer turns files into others: texts, networks, and data that belong to them. It prints
nothing and writes nothing; `driver.exchange.import_` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..model.diagnostic import Diagnostic, Errors, one_of
from ..model.mapping import Mapping as Placements
from ..model.platform import Platform
from ..model.profile import Profile
from ..model.system import System
from ..model.times import Times

if TYPE_CHECKING:
    from ..networks.quantization.quantize import QuantizationLoss

T = TypeVar("T")

GROUP = "flowc.formats"
#: Diagnostic: a format cannot be loaded.
BROKEN = "F739"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a format: `name` in Python, `--flag` (by default the same) on a command line.

    `kind` is `str`, `Path` or `bool`; `choices` are the only values of a text, and an option with
    `several` is a tuple of them. `shown_default` describes the value of an option that is not
    given. `with_into`: it also has an effect on a project that is there already.
    """

    name: str
    about: str
    kind: type[str] | type[Path] | type[bool] = str
    flag: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    several: bool = False
    shown_default: str = ""
    with_into: bool = False

    @property
    def word(self) -> str:
        """The option on a command line, without its dashes."""
        return self.flag or self.name


class Unusable(Exception):
    """An option that the others rule out."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(reason)
        self.option = option


def no_app(
    wanted: str | None, apps: Iterable[str], otherwise: str = "there is no app to export"
) -> Errors:
    """The error that the wanted app is not among those of a text, or that none is wanted."""
    message = otherwise
    if wanted is not None:
        message = f"there is no app `{wanted}`"
    names = list(apps)
    help_text = "add `app Name { ... }`"
    if names:
        help_text = f"choose one with --app: {one_of(names)}"
    return Errors([Diagnostic("F215", message, None, help=help_text)])


@dataclass(frozen=True, slots=True)
class Options:
    """Values of options by their names; those that are not given are None, or missing."""

    values: Mapping[str, object] = field(default_factory=dict)

    def get(self, name: str, kind: type[T]) -> T | None:
        """The value of an option. Raises TypeError if it is of another kind."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r}; expected {kind.__name__}")
        return value

    def path(self, name: str) -> Path | None:
        """The value of an option that names a file."""
        value = self.values.get(name)
        if isinstance(value, str):
            return Path(value)
        return self.get(name, Path)

    def texts(self, name: str) -> tuple[str, ...]:
        """The values of an option with several."""
        value = self.values.get(name)
        if isinstance(value, list):
            return tuple(value)
        return self.get(name, tuple) or ()

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that are given."""
        return tuple(n for n, value in self.values.items() if value not in (None, False, (), []))


@dataclass(frozen=True, slots=True)
class Request:
    """An import: `path`, a file or a folder, for the text (or network) `target`."""

    path: Path
    target: Path
    options: Options = field(default_factory=Options)


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

    `makes` is the ending of its output, `key` the name of that in JSON; `ending` is not part of the
    names of its inputs, which `inputs` describes in a line of usage. `read` raises Errors with all
    faults. `title` is the name of the tool. An importer that `takes_all` is asked last.
    """

    name: str
    about: str
    recognizes: Callable[[Path], bool]
    read: Callable[[Request], Imported]
    options: tuple[Option, ...] = ()
    makes: str = ".flow"
    key: str = "text"
    ending: str = ""
    title: str = ""
    inputs: str = ""
    takes_all: bool = False


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
class Order:
    """A directory to write: from the text at `path`, for a platform. `output` is None for the
    default place, and `report` hears of long steps."""

    path: Path
    output: Path | None = None
    platform: str = "host"
    options: Options = field(default_factory=Options)
    force: bool = False
    report: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A written directory; `fresh` is false if it already held exactly these files.

    `document` is the result as data, `lines` are the same for people, behind the name of the
    directory and the `losses` of networks in 8 bits.
    """

    directory: Path
    fresh: bool
    diagnostics: tuple[Diagnostic, ...]
    document: Mapping[str, object]
    lines: tuple[str, ...]
    losses: Mapping[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format that is written. `networks`: .onnx files as well; `timed`: it takes times from the
    stored profile.

    `write` gets a source and the name of the app (None: all of them, or the only one) and makes a
    file, `folder` makes a directory with all apps, and `into` gets a source, a project of the other
    tool that is there already, and options `with_into`. All raise Errors, `folder` also Unusable;
    a format has `write`, or some of the other two. `title` is the name of the tool. `directory` and
    `changes` describe what `folder` and `into` write.
    """

    name: str
    about: str
    suffix: str = ""
    write: Callable[[Source, str | None], Exported] | None = None
    into: Callable[[Source, Path, Options], Changes] | None = None
    folder: Callable[[Order], Folder] | None = None
    networks: bool = False
    timed: bool = False
    options: tuple[Option, ...] = ()
    title: str = ""
    directory: str = ""
    changes: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to build of a text for another tool: `build --target NAME`. `make` raises
    Errors."""

    name: str
    about: str
    make: Callable[[Order], Folder]


Format = Importer | Exporter | Target
_Named = TypeVar("_Named", Exporter, Target)


def importers() -> tuple[Importer, ...]:
    """All importers. The first one that recognizes a path reads it.

    Raises Errors (F739) for a package with a format that cannot be loaded.
    """
    known = [each for each in _formats() if isinstance(each, Importer)]
    return tuple(sorted(known, key=lambda importer: importer.takes_all))


def exporters() -> dict[str, Exporter]:
    """All exporters by the names of their formats. Raises Errors (F739)."""
    return _by_name(each for each in _formats() if isinstance(each, Exporter))


def targets() -> dict[str, Target]:
    """All targets of `build` that belong to formats, by their names. Raises Errors (F739)."""
    return _by_name(each for each in _formats() if isinstance(each, Target))


def _by_name(formats: Iterable[_Named]) -> dict[str, _Named]:
    """The first one of each name."""
    known: dict[str, _Named] = {}
    for each in formats:
        known.setdefault(each.name, each)
    return known


def _formats() -> list[Format]:
    """Those of flowc first, each group in the order of the names of their entry points."""

    def order(entry: EntryPoint) -> tuple[bool, str]:
        return _package(entry) != "flowc", entry.name

    entries = sorted(entry_points(group=GROUP), key=order)
    if not any(_package(entry) == "flowc" for entry in entries):
        message = "this installation of flowc has no formats of other tools"
        help_text = "install flowc again: it has been changed since"
        raise Errors([Diagnostic(BROKEN, message, None, help=help_text)])
    return [_loaded(entry) for entry in entries]


def _loaded(entry: EntryPoint) -> Format:
    try:
        loaded = entry.load()
    except Exception as error:  # it is code of another package: any error is possible
        raise Errors([_broken(entry, str(error) or type(error).__name__)]) from error
    if not isinstance(loaded, Format):
        raise Errors([_broken(entry, "it is neither an Importer nor an Exporter nor a Target")])
    return loaded


def _package(entry: EntryPoint) -> str:
    if entry.dist is not None:
        return entry.dist.name
    return entry.value


def _broken(entry: EntryPoint, reason: str) -> Diagnostic:
    package = _package(entry)
    message = f"the format `{entry.name}` of the package `{package}` cannot be loaded: {reason}"
    return Diagnostic(BROKEN, message, None, help=f"update or uninstall `{package}`")
