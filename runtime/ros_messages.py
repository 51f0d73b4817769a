"""Tokens as messages of ROS 2: pictures as `sensor_msgs/Image`, other arrays as
`std_msgs/Float32MultiArray` and its like.

In: a token. Out: the bytes of a message in CDR, little-endian, and back. rclpy is not needed: only
these messages are known here. Elements that ROS 2 has no numbers for (float16, complex ones) are
written as their bytes, which the last axis counts.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .tokens import Port

#: Elements of messages without pictures. There is none for truth values: they are 0 and 1.
MESSAGES = {
    "bool": "UInt8MultiArray",
    "int8": "Int8MultiArray",
    "int16": "Int16MultiArray",
    "int32": "Int32MultiArray",
    "int64": "Int64MultiArray",
    "uint8": "UInt8MultiArray",
    "uint16": "UInt16MultiArray",
    "uint32": "UInt32MultiArray",
    "uint64": "UInt64MultiArray",
    "float32": "Float32MultiArray",
    "float64": "Float64MultiArray",
}
#: Encodings of pictures by dtype and channels: the one that is sent, and others that mean the same
#: numbers.
ENCODINGS = {
    ("uint8", 1): ("mono8", "8UC1"),
    ("uint8", 3): ("8UC3", "rgb8", "bgr8"),
    ("uint8", 4): ("8UC4", "rgba8", "bgra8"),
    ("uint16", 1): ("mono16", "16UC1"),
    ("uint16", 3): ("16UC3", "rgb16", "bgr16"),
    ("uint16", 4): ("16UC4", "rgba16", "bgra16"),
}
#: Those of pictures in files, which say in what order the colors are: viewers ask for it.
COLORS = {"8UC3": "rgb8", "8UC4": "rgba8", "16UC3": "rgb16", "16UC4": "rgba16"}
#: Other encodings of pictures that bags have: OpenCV's names for elements and channels.
_OPENCV = re.compile("(8U|8S|16U|16S|32S|32F|64F)C([1-4])?")
_ELEMENTS = {"U": "uint", "S": "int", "F": "float"}
IMAGE, STRING = "sensor_msgs/msg/Image", "std_msgs/msg/String"
_NUMBERS = {
    "std_msgs/msg/" + name: dtype for dtype, name in MESSAGES.items() if dtype not in ("bool",)
}
#: Messages of one number.
_SCALARS = {
    "std_msgs/msg/" + name[: -len("MultiArray")]: dtype
    for dtype, name in MESSAGES.items()
    if dtype not in ("bool",)
}
_SCALARS.update({"std_msgs/msg/Bool": "bool", "std_msgs/msg/Byte": "uint8"})
#: What stands before a message: CDR, little-endian.
_CDR = b"\x00\x01\x00\x00"
_RULE = "=" * 80
#: The fields of messages, as .msg files say them; those that they use follow.
_IMAGE = """std_msgs/Header header
uint32 height
uint32 width
string encoding
uint8 is_bigendian
uint32 step
uint8[] data
{rule}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
{rule}
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
""".format(rule=_RULE)
_ARRAY = """std_msgs/MultiArrayLayout layout
{element}[] data
{rule}
MSG: std_msgs/MultiArrayLayout
std_msgs/MultiArrayDimension[] dim
uint32 data_offset
{rule}
MSG: std_msgs/MultiArrayDimension
string label
uint32 size
uint32 stride
"""


def is_picture(dtype: str, shape: Sequence[int]) -> bool:
    """Does it travel as an Image: rows, columns, and one, three or four channels of 8 or 16
    bits?"""
    return (
        len(shape) in (2, 3)
        and 0 not in shape
        and (dtype, shape[2] if len(shape) == 3 else 1) in ENCODINGS
    )


def message_of(port: Port) -> str:
    """The type of the messages that tokens of a port are."""
    if is_picture(str(port.dtype), port.shape):
        return IMAGE
    return "std_msgs/msg/" + MESSAGES.get(str(port.dtype), MESSAGES["uint8"])


def definition_of(kind: str) -> str:
    """The fields of a type of messages, as .msg files say them."""
    if kind == IMAGE:
        return _IMAGE
    return "string data\n" if kind == STRING else _ARRAY.format(element=_NUMBERS[kind], rule=_RULE)


def text_message(text: str) -> bytes:
    """A message of the type STRING."""
    data = text.encode()
    return _CDR + struct.pack("<I", len(data) + 1) + data + b"\0"


def text_in(message: Any) -> str:
    """What such a message says. Raises ValueError."""
    cursor = _Cursor(message)
    return cursor.text()


def message(kind: str, token: np.ndarray, stamp: int) -> Tuple[bytes, np.ndarray]:
    """What stands before the data of a token, and the data in one piece. `stamp`: ns since 1970, in
    the header of a picture."""
    if sys.byteorder == "big":
        token = token.astype(token.dtype.newbyteorder("<"))
    data = np.ascontiguousarray(token).reshape(-1).view(np.uint8)
    if kind == IMAGE:
        return _before_picture(token, stamp, len(data)), data
    sizes, elements = list(token.shape), token.size
    if str(token.dtype) not in MESSAGES:
        sizes, elements = [*sizes, token.itemsize], len(data)
    return _before_numbers(sizes, elements, len(data) // max(1, elements)), data


def _before_picture(token: np.ndarray, stamp: int, size: int) -> bytes:
    height, width, channels = (*token.shape, 1)[:3]
    sent = ENCODINGS[token.dtype.name, channels][0]
    encoding = COLORS.get(sent, sent).encode() + b"\0"
    text = struct.pack("<iII", stamp // 10**9, stamp % 10**9, 1) + b"\0\0\0\0"
    text += struct.pack("<III", height, width, len(encoding)) + encoding + b"\0"  # is_bigendian
    text += b"\0" * (-len(text) % 4)
    return _CDR + text + struct.pack("<II", width * channels * token.itemsize, size)


def _before_numbers(sizes: Sequence[int], elements: int, width: int) -> bytes:
    text, stride = struct.pack("<I", len(sizes)), int(np.prod(sizes, dtype=np.int64))
    for axis, size in enumerate(sizes):
        label = b"axis%d\0" % axis
        text += struct.pack("<I", len(label)) + label
        text += b"\0" * (-len(text) % 4) + struct.pack("<II", size, stride)
        stride //= max(1, size)
    text += struct.pack("<II", 0, elements)
    return _CDR + text + b"\0" * (-len(text) % width if elements else 0)


def token_in(kind: str, data: Any, port: Port) -> np.ndarray:
    """The token that a message of that type is, for a port. Read-only. Raises ValueError for a
    message that is damaged, or no token of the port."""
    cursor = _Cursor(data)
    if kind == IMAGE:
        array, shape = _picture(cursor, port)
    elif kind in _NUMBERS:
        array, shape = _numbers(cursor, kind, port)
    elif kind in _SCALARS:
        array, shape = _number(cursor, kind, port)
    else:
        raise ValueError("is a message of the type %s, which is no picture, array or number" % kind)
    if array.dtype != port.dtype or not _fits(shape, port):
        raise ValueError(
            "is %s%s, and tokens of `%s` are %s%s"
            % (array.dtype, list(shape), port.name, port.dtype, list(port.shape))
        )
    token = array.reshape(shape)
    token.setflags(write=False)
    return token


def _fits(shape: Sequence[int], port: Port) -> bool:
    return len(shape) == len(port.shape) and all(
        n <= most if axis in port.bounded else n == most
        for axis, (n, most) in enumerate(zip(shape, port.shape))
    )


def _picture(cursor: _Cursor, port: Port) -> Tuple[np.ndarray, Tuple[int, ...]]:
    """The rows of a picture, without what fills them up."""
    cursor.skip(8)
    cursor.text()
    height, width, encoding = cursor.number(), cursor.number(), cursor.text()
    (bigendian,) = cursor.bytes(1)
    step, size = cursor.number(), cursor.number()
    key = _elements(encoding)
    if key is None:
        raise ValueError("is a picture in `%s`" % encoding[:40])
    dtype, channels = np.dtype(key[0]), key[1]
    row = width * channels * dtype.itemsize
    if size != height * step or row > step:
        raise ValueError("is a picture of %d x %d in %d bytes" % (height, width, size))
    rows = np.frombuffer(cursor.bytes(size), np.uint8).reshape(height, step)
    own = np.ascontiguousarray(rows[:, :row]).reshape(-1)
    swapped = own.view(dtype.newbyteorder(">" if bigendian else "<")).astype(dtype, copy=False)
    deep = channels > 1 or len(port.shape) == 3
    return swapped, (height, width) + ((channels,) if deep else ())


def _elements(encoding: str) -> Optional[Tuple[str, int]]:
    """The dtype of a picture's numbers, and its channels; None for an encoding of another kind."""
    for key, names in ENCODINGS.items():
        if encoding in names:
            return key
    found = _OPENCV.fullmatch(encoding)
    if found is None:
        return None
    bits, sign = found.group(1)[:-1], found.group(1)[-1]
    return _ELEMENTS[sign] + bits, int(found.group(2) or 1)


def _number(cursor: _Cursor, kind: str, port: Port) -> Tuple[np.ndarray, Tuple[int, ...]]:
    """One number, for a port of one."""
    dtype = np.dtype(_SCALARS[kind])
    data = cursor.bytes(dtype.itemsize)
    if dtype.kind == "b" and data[0] > 1:
        raise ValueError("is neither true nor false")
    array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    one = math.prod(port.shape) == 1
    return array, port.shape if one else ()


def _numbers(cursor: _Cursor, kind: str, port: Port) -> Tuple[np.ndarray, Tuple[int, ...]]:
    """The numbers of an array, and its sizes; those of the port where the message has none."""
    sizes = []
    for _ in range(cursor.number(least=12)):
        cursor.text()
        sizes.append(cursor.number())
        cursor.number()
    if cursor.number():
        raise ValueError("has data with an offset")
    elements, dtype = cursor.number(), np.dtype(_NUMBERS[kind])
    cursor.align(dtype.itemsize if elements else 1)
    data = cursor.bytes(elements * dtype.itemsize)
    as_bytes = str(port.dtype) not in MESSAGES
    if as_bytes and (not sizes or sizes.pop() != port.dtype.itemsize):
        raise ValueError("does not have the bytes of %s" % port.dtype)
    wanted = port.dtype if as_bytes or port.dtype == bool else dtype
    if len(data) % wanted.itemsize:
        raise ValueError("does not have the bytes of %s" % port.dtype)
    array = np.frombuffer(data, wanted.newbyteorder("<")).astype(wanted, copy=False)
    if port.dtype == bool and len(data) and max(data) > 1:
        raise ValueError("has other numbers than 0 and 1 for `%s`" % port.name)
    if not sizes and port.shape and array.size == int(np.prod(port.shape)):
        return array, port.shape
    if math.prod(sizes) != array.size:
        raise ValueError("has %d numbers, and its sizes are %s" % (array.size, sizes[:8]))
    return array, tuple(sizes)


class _Cursor:
    """Goes through a message. All methods raise ValueError where it ends too early."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data)
        if bytes(self._data[:4]) != _CDR:
            raise ValueError("is no message in little-endian CDR")
        self._data, self._at = self._data[4:], 0

    def align(self, size: int) -> None:
        """Go on at an address that is a multiple of a size."""
        self._at += -self._at % size

    def skip(self, size: int) -> None:
        """Leave bytes out."""
        self.bytes(size)

    def bytes(self, size: int) -> memoryview:
        """The next bytes."""
        begin = self._at
        if begin + size > len(self._data):
            raise ValueError("ends after %d bytes" % len(self._data))
        self._at += size
        return self._data[begin : begin + size]

    def number(self, least: int = 0) -> int:
        """The next uint32; of things that each take `least` bytes there are no more than fit."""
        self.align(4)
        (number,) = struct.unpack("<I", self.bytes(4))
        if least and number * least > len(self._data):
            raise ValueError("ends after %d bytes" % len(self._data))
        return int(number)

    def text(self) -> str:
        """The next string."""
        found: Optional[memoryview] = self.bytes(self.number())
        return bytes(found or b"").rstrip(b"\0").decode("utf-8", "replace")
