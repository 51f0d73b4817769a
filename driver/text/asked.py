"""Keyword arguments of a function of `flowc` as the value that its steps pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

Asked = TypeVar("Asked")


def asked_of(kind: type[Asked], function: str, asked: Mapping[str, Any]) -> Asked:
    """A dataclass with these fields. Raises TypeError, with all of them, for other names."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for name in asked:
        if name not in names:
            raise TypeError(
                f"flowc.{function}() got an unexpected keyword argument '{name}': it has"
                f" {', '.join(names)}"
            )
    return kind(**asked)
