"""What travels over a channel: arrays of one dtype and one fixed shape."""

from __future__ import annotations

from dataclasses import dataclass
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
#: The size of a dimension that only a run tells. Texts cannot say it: it stands between a network and its `post`.
OPEN = -1


@dataclass(frozen=True, slots=True)
class TensorType:
    """A numpy dtype with a shape, which is fixed but for dimensions that are `OPEN`; `()` is a scalar."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def open(self) -> bool:
        """Does its size depend on data?"""
        return OPEN in self.shape

    @property
    def bytes(self) -> int:
        """Size of one token in bytes, as far as it is known: an open dimension counts once."""
        return DTYPES[self.dtype][1] * prod(1 if n == OPEN else n for n in self.shape)

    def __str__(self) -> str:
        sizes = ("?" if n == OPEN else str(n) for n in self.shape)
        return self.dtype + (f"[{', '.join(sizes)}]" if self.shape else "")
