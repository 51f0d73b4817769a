"""XML of the SDF3 tools as a format of flowc, read and written.

Modules that take long to load are imported by the functions that need them.
"""

from __future__ import annotations

from pathlib import Path

from ..registry import Exported, Exporter, Imported, Importer, Option, Request, Source

TITLE = "SDF3"


def _recognizes(path: Path) -> bool:
    """Every file: what is wrong with one is said by the reader."""
    return True


def _read(request: Request) -> Imported:
    from .importer import imported

    return imported(request)


def _write(source: Source, app: str | None) -> Exported:
    from .importer import exported

    return exported(source, app)


IMPORTER = Importer(
    "sdf3",
    "an SDF3 XML file",
    _recognizes,
    _read,
    (Option("processor", "take the execution times of this processor type", metavar="TYPE"),),
    title=TITLE,
    inputs="GRAPH.xml",
    takes_all=True,
)
EXPORTER = Exporter(
    "sdf3", "the XML of the SDF3 tools", ".xml", _write, networks=True, timed=True, title=TITLE
)
