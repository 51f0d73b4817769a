"""Configurations of JEDI as a format of flowc, read and written.

Modules that take long to load are imported by the functions that need them.
"""

from __future__ import annotations

from pathlib import Path

from ..registry import Exported, Exporter, Imported, Importer, Request, Source

TITLE = "JEDI"


def _recognizes(path: Path) -> bool:
    return path.suffix == ".cfg"


def _read(request: Request) -> Imported:
    from .importer import imported

    return imported(request)


def _write(source: Source, app: str | None) -> Exported:
    from .importer import exported

    return exported(source, app)


IMPORTER = Importer(
    "jedi", "a configuration of JEDI", _recognizes, _read, title=TITLE, inputs="APP.cfg"
)
EXPORTER = Exporter("jedi", "a configuration of JEDI", ".cfg", _write, title=TITLE)
