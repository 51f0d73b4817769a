"""Versions of TensorRT, and everything that depends on them except for the rules of DLAs.

Those depend on versions individually (`networks.dla.limits`).
"""

from __future__ import annotations


class TensorRTVersion(tuple[int, ...]):
    """A version as numbers; () = the board has none. TensorRT for RTX counts from 1."""

    __slots__ = ()

    @property
    def rtx(self) -> bool:
        """TensorRT for RTX: it builds plans without a GPU, and has no DLA."""
        return self[:1] == (1,)

    @property
    def rules(self) -> tuple[int, ...]:
        """The version whose parser it has."""
        return (11,) if self.rtx else self

    @property
    def too_old(self) -> bool:
        """Generated programs call `execute_async_v3`, which came with 8.5."""
        return self.rules < (8, 5)

    @property
    def without_dla(self) -> bool:
        """From 10.8 until 11.4.1 no DLA was supported."""
        return self.rtx or (10, 8) <= self < (11, 4, 1)

    @property
    def without_most_dlas(self) -> bool:
        """From 11.4.1 on it has the DLA of one module only (`model.modules`)."""
        return self >= (11, 4, 1)

    @property
    def for_xavier(self) -> bool:
        """JetPack for the Xavier ends at 8.5."""
        return self.rules < (8, 6)

    @property
    def strongly_typed(self) -> bool:
        """True if it computes in the types of the model instead of a given precision. Its DLA then
        supports Q/DQ layers.
        """
        return self.rules >= (11,)

    @property
    def dialect(self) -> str:
        """The generation of its API, one of three."""
        if self.rules < (10,):
            return "trt8"
        return "trt10" if self.rules < (11,) else "trt11"

    def __str__(self) -> str:
        numbers = ".".join(map(str, self))
        return f"for RTX {numbers}" if self.rtx else numbers
