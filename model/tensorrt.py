"""Versions of TensorRT: everything that flowc decides by them is decided here, but for the rules of DLAs.

Those hold from a version on, each its own (`networks.dla.limits`).
"""

from __future__ import annotations


class TensorRTVersion(tuple[int, ...]):
    """A version as numbers; () = the board has none."""

    __slots__ = ()

    @property
    def too_old(self) -> bool:
        """Generated programs call `execute_async_v3`, which came with 8.5."""
        return self < (8, 5)

    @property
    def without_dla(self) -> bool:
        """From 10.8 until 11.4.1 no DLA was supported."""
        return (10, 8) <= self < (11, 4, 1)

    @property
    def for_xavier(self) -> bool:
        """JetPack for the Xavier ends at 8.5."""
        return self < (8, 6)

    @property
    def strongly_typed(self) -> bool:
        """Is it told no precision, but computes in the types of a model? Then its DLA knows Q/DQ layers."""
        return self >= (11,)

    @property
    def dialect(self) -> str:
        """Which of the three generations of the interface it has."""
        return "trt8" if self < (10,) else "trt10" if self < (11,) else "trt11"

    def __str__(self) -> str:
        return ".".join(map(str, self))
