"""Messages of ROS 2 as its Python code has them: fields of fixed types, checked when they are
set."""

from __future__ import annotations

import array
from typing import Any, ClassVar

#: Elements of sequences, as `array` codes them.
CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d",
}  # fmt: skip


class Message:
    """Fields and their types: int, str, another message, a list of one, or a code of `array`."""

    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        for name, kind in self.fields.items():
            made = (
                array.array(kind)
                if isinstance(kind, str)
                else []
                if isinstance(kind, list)
                else kind()
            )
            object.__setattr__(self, name, made)
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.fields[name]
        if isinstance(kind, str):
            assert isinstance(value, array.array) and value.typecode == kind, (name, value)
        elif isinstance(kind, list):
            assert isinstance(value, list) and all(isinstance(v, kind[0]) for v in value), (
                name,
                value,
            )
        else:
            assert type(value) is kind, (name, value)
        object.__setattr__(self, name, value)


def message(name: str, **fields: Any) -> type[Message]:
    """A type of messages."""
    return type(name, (Message,), {"fields": fields, "__module__": __name__})


Time = message("Time", sec=int, nanosec=int)
Header = message("Header", stamp=Time, frame_id=str)
String = message("String", data=str)
MultiArrayDimension = message("MultiArrayDimension", label=str, size=int, stride=int)
MultiArrayLayout = message("MultiArrayLayout", dim=[MultiArrayDimension], data_offset=int)
Image = message(
    "Image",
    header=Header,
    height=int,
    width=int,
    encoding=str,
    is_bigendian=int,
    step=int,
    data="B",
)
#: Of `std_msgs`, for each type of element.
ARRAYS = {
    made.__name__: made
    for name, code in CODES.items()
    for made in [
        message(
            f"{name.capitalize().replace('Uint', 'UInt')}MultiArray",
            layout=MultiArrayLayout,
            data=code,
        )
    ]
}
globals().update(ARRAYS)  # pickle finds types by their names
