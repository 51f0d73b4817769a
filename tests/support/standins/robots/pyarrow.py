"""Arrays of Arrow, as far as the stand-in for dora needs them."""

from __future__ import annotations

from typing import Any


class Array:
    """An array of one dimension."""

    def __init__(self, data: Any) -> None:
        assert data.ndim == 1
        self._data = data

    def to_numpy(self, zero_copy_only: bool = True) -> Any:
        """As numpy has it; only some types without a copy."""
        assert not zero_copy_only
        return self._data


def array(data: Any) -> Array:
    """From numpy."""
    return Array(data)
