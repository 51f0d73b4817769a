"""Graphs and scenarios of PREESM as a format of flowc that is read.

Modules that take long to load are imported by the functions that need them.
"""

from __future__ import annotations

from pathlib import Path

from ..registry import Imported, Importer, Request


def _recognizes(path: Path) -> bool:
    return path.suffix in (".pi", ".scenario")


def _read(request: Request) -> Imported:
    from .importer import imported

    return imported(request)


IMPORTER = Importer(
    "preesm",
    "a graph or scenario of PREESM",
    _recognizes,
    _read,
    title="PREESM",
    inputs="APP.scenario|TOP.pi",
)
