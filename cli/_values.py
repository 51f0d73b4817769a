"""Values of a command line that need no conversion.

Newer versions of typer convert every value by pydantic; importing that takes a fifth of the CPU
time of checking a small text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What parameters of such versions have, and what is changed here: no version promises them.
_NEEDED = ("get_runtime_param", "type_descriptor", "multiple", "nargs")


def without_pydantic(parameters: Iterable[Any]) -> None:
    """Let typer convert values only where there is something to convert."""
    for parameter in parameters:
        if all(hasattr(parameter, name) for name in _NEEDED):
            described = parameter.type_descriptor
            converter = _Converter(
                parameter.get_runtime_param,
                several=parameter.multiple or parameter.nargs == -1,
                text=described.annotation is str,
                path=described.annotation is Path and _is_any_path(described.parameter_info),
            )
            parameter.get_runtime_param = converter.itself


def _is_any_path(described: Any) -> bool:
    """Has a path to exist, or to be of one kind?"""
    asked = described.exists or described.writable or described.resolve_path
    return not asked and described.file_okay and described.dir_okay


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts values of a parameter: `several` ones, a `text`, a `path`, or others.

    `of_typer` gives typer's own converter.
    """

    of_typer: Callable[[], Any]
    several: bool
    text: bool
    path: bool

    def itself(self) -> _Converter:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The converted value. Raises BadParameter."""
        if value is None:
            return () if self.several else None
        if self.text and isinstance(value, str) and value.isprintable():
            return value
        if self.path and _can_be_read(value):
            return Path(value)
        return self.of_typer().coerce(value, param=param, ctx=ctx)


def _can_be_read(path: str | Path) -> bool:
    """Is it the path of a file that can be read, or of nothing?"""
    return str(path).isprintable() and (os.access(path, os.R_OK) or not os.path.lexists(path))
