"""The common part of every result of a verb: a notebook shows it as tables.

The functions that make the tables are in a higher layer, which knows all kinds of results. So they
are found by name.
"""

from __future__ import annotations

from importlib import import_module

#: The module with a function for each type of result: the name of the type in lower case.
_TABLES = "show.notebook"


class NotebookResult:
    """A result of a verb in Python."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Its tables, as a notebook shows them."""
        driver = __package__.rpartition(".")[0]
        tables = import_module(f"{driver}.{_TABLES}")
        html: str = getattr(tables, type(self).__name__.lower())(self)
        return html
