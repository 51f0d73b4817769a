"""Files of other tools become texts and networks; `interop.registry` finds the importer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...interop.registry import Imported, Importer, Options, Request, importers
from ...interop.unread import unread
from ...model.diagnostic import Diagnostic, Errors, few_guesses
from ...model.files import replace_file
from ...profiling.identity import task_hashes
from ..text import store
from ..text.check import check


@dataclass(frozen=True, slots=True)
class Import:
    """Result: `target` is the requested file, `written` all files, `key` the kind (text, network).

    `said` is a line about the result, or empty.
    """

    target: Path
    written: tuple[Path, ...]
    warnings: tuple[Diagnostic, ...]
    key: str
    said: str = ""


def importer_of(path: Path) -> Importer:
    """The importer for a path. Raises Errors if the path cannot be read."""
    return next(i for i in importers() if i.recognizes(path))


def foreign_options(path: Path, options: Options) -> tuple[str, ...]:
    """The given options that have no effect for the format of a path."""
    own = {option.name for option in importer_of(path).options}
    return tuple(name for name in options.given if name not in own)


def import_(
    path: str | Path,
    output: str | Path | None = None,
    *,
    force: bool = False,
    **options: object,
) -> Import:
    """Turn a graph or a configuration of another tool into a .flow text, or a Darknet network into
    an .onnx.

    `output` is by default STEM.flow or STEM.onnx here. `options` are those of the formats (`flowc
    import --help` lists them). Raises Errors; faults in the files of the other tool are found
    before anything is written.
    """
    _refuse_unknown(options)
    path = Path(path)
    if not path.name:  # `.`, which has a name elsewhere
        path = path.resolve()
    importer = importer_of(path)
    other = unread(path) if importer.takes_all else ""
    if other:
        tools = ", ".join(sorted({i.title for i in importers() if i.title}))
        help_text = f"flowc imports files of {tools}; write others as a text (docs/language.md)"
        message = f"`{path.name}` is {other}, which flowc does not import"
        raise Errors([Diagnostic("F701", message, None, help=help_text)])
    stem = path.resolve().name if os.path.isdir(path) else path.stem.removesuffix(importer.ending)
    target = Path(output) if output is not None else Path(f"{stem}{importer.makes}")
    refuse(target, force)
    with few_guesses():
        imported = importer.read(Request(path, target, Options(options)))
    written = _write(imported, target, force)
    return Import(target, tuple(written), imported.warnings, importer.key, imported.said)


def _write(imported: Imported, target: Path, force: bool) -> list[Path]:
    """Write all files, and the profile of the text. Raises Errors."""
    folder = target.parent
    for name in imported.files:
        refuse(folder / name, force)
    written = [folder / name for name in imported.files]
    for name, content in imported.files.items():
        write(folder / name, content)
    for name, content in imported.kept.items():
        if not (folder / name).exists():  # --force must not destroy code written by the user
            write(folder / name, content)
            written.append(folder / name)
    if imported.profile is not None:
        valid = check(target, platform=str(folder / imported.platform)).require()
        place = store.profile_path(valid.system, valid.platform)
        refuse(place, force)
        write(place, imported.profile(task_hashes(valid.system)).to_json())
        written.append(place)
    return written


def _refuse_unknown(options: Iterable[str]) -> None:
    """Raises TypeError for an option that no format has."""
    known = {option.name for importer in importers() for option in importer.options}
    for name in options:
        if name not in known:
            raise TypeError(f"import_() got an unexpected keyword argument '{name}'")


def refuse(target: Path, force: bool) -> None:
    """Existing files are replaced only with `force`. Raises Errors."""
    if os.path.exists(target) and not force:
        help_text = "choose another --output, or give --force"
        raise Errors([Diagnostic("F604", f"`{target}` exists", None, help=help_text)])


def write(file: Path, content: str | bytes, *, follow: bool = False) -> None:
    """Write a file that the user named, completely or not at all (see `files.replace_file`). Raises
    Errors."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content, follow=follow)
    except OSError as error:
        raise Errors(
            [Diagnostic("F605", f"cannot write `{file}`: {error.strerror}", None)]
        ) from error
