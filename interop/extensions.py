"""Formats of installed packages: each is an entry point of the group `flowc.formats`.

An entry point names an `Importer` or an `Exporter` of `registry`. Formats of flowc come first: a
package cannot take a file or a name away from them. In: nothing. Out: all importers and exporters.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from ..model.diagnostic import Diagnostic, Errors
from .registry import EXPORTERS, IMPORTERS, Exporter, Importer

GROUP = "flowc.formats"


def importers() -> tuple[Importer, ...]:
    """All importers. The first one that recognizes a path reads it; the last one accepts every
    path.

    Raises Errors (F739) for a package with a format that cannot be loaded.
    """
    *own, last = IMPORTERS
    added = [found for found in _loaded() if isinstance(found, Importer)]
    return (*own, *added, last)


def exporters() -> dict[str, Exporter]:
    """All exporters by the names of their formats. Raises Errors (F739)."""
    found = {e.name: e for e in _loaded() if isinstance(e, Exporter)}
    return {**found, **{e.name: e for e in EXPORTERS}}


def _loaded() -> list[Importer | Exporter]:
    found = []
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception as error:  # it is code of another package: any error is possible
            raise Errors([_broken(entry, str(error) or type(error).__name__)]) from error
        if not isinstance(loaded, Importer | Exporter):
            raise Errors([_broken(entry, "it is neither an Importer nor an Exporter")])
        found.append(loaded)
    return found


def _broken(entry: EntryPoint, reason: str) -> Diagnostic:
    package = entry.dist.name if entry.dist is not None else entry.value
    message = f"the format `{entry.name}` of the package `{package}` cannot be loaded: {reason}"
    return Diagnostic("F739", message, None, help=f"update or uninstall `{package}`")
