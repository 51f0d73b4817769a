"""Types of tokens: arrays of one dtype, with a fixed shape or one that varies within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

#: Every dtype a token may have, with the C type a firing sees and its size in bytes.
DTYPES: dict[str, tuple[str, int]] = {
    "bool": ("_Bool", 1),
    "int8": ("int8_t", 1),
    "int16": ("int16_t", 2),
    "int32": ("int32_t", 4),
    "int64": ("int64_t", 8),
    "uint8": ("uint8_t", 1),
    "uint16": ("uint16_t", 2),
    "uint32": ("uint32_t", 4),
    "uint64": ("uint64_t", 8),
    "float16": ("uint16_t", 2),
    "float32": ("float", 4),
    "float64": ("double", 8),
    "complex64": ("float _Complex", 8),
    "complex128": ("double _Complex", 16),
}


#: Elements along a dimension, and bytes of a token: no memory holds more.
MOST_ALONG, MOST_BYTES = (1 << 31) - 1, 1 << 40
#: The size of a dimension that is known only at run time. It occurs only between a network and its
#: `post`.
OPEN = -1


@dataclass(frozen=True, slots=True)
class TensorType:
    """A numpy dtype with a shape, fixed except for `OPEN` dimensions; `()` is a scalar.

    A token may be smaller along the axes in `bounded` (ascending), where `shape` has the largest
    size: `float32[3, up to 480]` has the shape (3, 480) and is bounded along axis 1.
    """

    dtype: str
    shape: tuple[int, ...]
    #: Not in `repr`, from which stored profiles and engines are named: ports are hashed as `str`.
    bounded: tuple[int, ...] = field(default=(), repr=False)

    @property
    def varies(self) -> bool:
        """True if tokens have sizes of their own, within bounds."""
        return bool(self.bounded)

    @property
    def largest(self) -> TensorType:
        """The type of its largest tokens."""
        return TensorType(self.dtype, self.shape)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """True if a token may have that shape."""
        return len(shape) == len(self.shape) and all(
            0 <= n <= most if axis in self.bounded else n == most
            for axis, (n, most) in enumerate(zip(shape, self.shape, strict=True))
        )

    @property
    def open(self) -> bool:
        """True if its size depends on data."""
        return OPEN in self.shape

    @property
    def bytes(self) -> int:
        """Size of the largest token in bytes, where an open dimension counts as 1."""
        return DTYPES[self.dtype][1] * prod(1 if n == OPEN else n for n in self.shape)

    def __str__(self) -> str:
        sizes = (
            "?" if n == OPEN else f"up to {n}" if axis in self.bounded else str(n)
            for axis, n in enumerate(self.shape)
        )
        return self.dtype + (f"[{', '.join(sizes)}]" if self.shape else "")
