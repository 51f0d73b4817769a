"""The project that a text was imported from: the XML in the import manifest, and the code beside
the text.

In: a manifest. Out: the files of the project by their paths, and the missing ones.
`export.reexport` imports them again to check whether the text still means the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ...model.diagnostic import Diagnostic, Errors
from ..names import shown
from .design import HopesTask
from .files import ALGORITHM, HopesProject
from .import_manifest import WRONG, ImportManifest
from .importer import Understood


def files_of(kept: ImportManifest, beside: Path) -> dict[str, bytes | Path]:
    """The files of a project by their paths in its folder; code is beside the manifest, which is
    the file `beside`.

    Raises Errors (F726) for paths that lead out of the folder.
    """
    try:
        found: dict[str, bytes | Path] = {
            _place(kept, beside, path): as_bytes(text) for path, text in kept.xml.items()
        }
    except UnicodeEncodeError as error:
        raise not_kept(beside, "has characters that are none") from error
    folder = Path(os.path.abspath(beside.parent))
    for task in kept.tasks:
        if task.code is None:
            continue
        for path in task.code.files:
            file = Path(os.path.normpath(folder / path))
            # The manifest may have been edited: only files beside the text are copied.
            if os.path.isfile(file) and file.resolve().is_relative_to(folder.resolve()):
                _, _, below = path.partition("/")
                found[_place(kept, beside, below)] = file
    return found


def start(kept: ImportManifest) -> str:
    """The path that is imported: the algorithm, or the folder around the project."""
    if kept.form == "translator":
        return f"{kept.project}{ALGORITHM}"
    return "."


def as_bytes(text: str) -> bytes:
    """The bytes of a stored text."""
    return text.encode("utf-8", "surrogateescape")


def absent(found: Understood) -> tuple[str, ...]:
    """Names of files of a project that do not exist."""
    return tuple(
        dict.fromkeys(PurePosixPath(name.replace("\\", "/")).name for name in _absent(found))
    )


def _absent(found: Understood) -> Iterator[str]:
    for task in found.tasks.values():
        if task.graph is None:
            yield from _absent_of_task(task, found.project)
    for graph in found.graphs():
        for library in graph.libraries.values():
            near = Path(library.span.file).parent
            for name in (library.file, library.header):
                if name and found.project.below(name, near) is None:
                    yield name


def _absent_of_task(task: HopesTask, project: HopesProject) -> Iterator[str]:
    near = Path(task.span.file).parent
    for name in (task.code, *task.headers, *task.sources, *task.files, *task.network.values()):
        places = (project.below(name, near), project.named(name, near), project.anywhere(name))
        if name and not any(places):
            yield name


def _place(kept: ImportManifest, beside: Path, path: str) -> str:
    """The place of a file in the folder of the project."""
    tool = kept.form == "tool" and any(name.startswith("CICTask/") for name in kept.xml)
    place = os.path.normpath(f"{kept.project}.files/{path}" if tool else path)
    os.fsencode(path)  # a path that the file system rejects is invalid, too
    if os.path.isabs(path) or place.startswith("..") or "\0" in path:
        raise not_kept(beside, f"has a file {shown(path)}, which is outside of the project")
    return place


def not_kept(beside: Path, what: str) -> Errors:
    """The error that a manifest was not written by an import."""
    return Errors(
        [Diagnostic(WRONG, f"`{beside.name}` {what}", None, help="import the project again")]
    )
