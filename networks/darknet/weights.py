"""The `.weights` file of a Darknet network.

In: the file, and the parts that a `DarknetNet` wants, in their order. Out: an array for each, and
what the header says; or the reason why the file is not the one that belongs to the network.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.files import read_bytes
from ..onnx.interface import LARGEST, NetworkError
from .net import DarknetNet

if TYPE_CHECKING:
    import numpy as np


def read_weights(
    path: Path, net: DarknetNet, cfg: Path
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """The parts of the file by tensor, and its header."""
    import numpy as np

    try:
        content = read_bytes(path, LARGEST)
    except OSError as error:
        why = error.strerror
        help_text = f"put `{cfg.stem}.weights` beside the cfg, or name the file with --weights"
        raise NetworkError(
            "F407", f"the weights of `{cfg.name}` cannot be read: `{path}`: {why}", help_text
        ) from error
    header, start = _header(path, content)
    if (len(content) - start) % 4:
        raise NetworkError(
            "F402", f"`{path.name}` ends inside of a number", "it is truncated: fetch it again"
        )
    numbers = np.frombuffer(content, "<f4", offset=start)
    values = {}
    place = 0
    for part in net.parts:
        left = len(numbers) - place
        if left < part.count:
            wanted = f"its {part.what} are {part.count} numbers, {left} are left"
            message = f"`{path.name}` ends in layer `{part.layer}`: {wanted}"
            raise NetworkError(
                "F402", message, f"it is truncated, or it belongs to another cfg than `{cfg.name}`"
            )
        values[part.name] = numbers[place : place + part.count].reshape(part.shape)
        place += part.count
        _check(path, cfg, part.layer, part.what, values[part.name])
    if place < len(numbers):
        message = (
            f"`{path.name}` has {len(numbers)} numbers, and the layers of `{cfg.name}` only {place}"
        )
        raise NetworkError(
            "F402", message, "it belongs to another cfg: are classes and filters the same?"
        )
    return values, header


def _header(path: Path, content: bytes) -> tuple[dict[str, Any], int]:
    """What is said in front of the weights, and where they begin: the counter of images became
    longer in 0.2.
    """
    if len(content) < 16:
        raise NetworkError(
            "F402", f"`{path.name}` ({len(content)} bytes) has no header", "fetch it again"
        )
    major, minor, revision = struct.unpack_from("<3i", content)
    # Higher ones mark a layout that has long been out of use, or another kind of file.
    if not all(0 <= v < 1000 for v in (major, minor, revision)):
        raise NetworkError("F402", f"`{path.name}` holds no Darknet weights", "fetch it again")
    long = major * 10 + minor >= 2
    if long and len(content) < 20:
        raise NetworkError(
            "F402", f"`{path.name}` ({len(content)} bytes) has no header", "fetch it again"
        )
    (seen,) = struct.unpack_from("<q" if long else "<i", content, 12)
    return {"version": f"{major}.{minor}.{revision}", "images_seen": seen}, 20 if long else 16


def _check(path: Path, cfg: Path, layer: str, what: str, values: np.ndarray[Any, Any]) -> None:
    """Weights that were read at the wrong place rarely make sense."""
    import numpy as np

    wrong = ""
    if not np.isfinite(values).all():
        wrong = f"{what} that are not finite"
    elif what == "variance" and (values < 0).any():
        wrong = "a negative variance"
    if wrong:
        message = f"`{path.name}` gives layer `{layer}` {wrong}"
        raise NetworkError(
            "F402", message, f"it is damaged, or it belongs to another cfg than `{cfg.name}`"
        )
