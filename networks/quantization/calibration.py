"""Calibration data: samples of a network's inputs from files of numpy.

In: a glob pattern, and the inputs of a network. Out: samples, checked against names, shapes and
types of the inputs. What they are for is left to `quantize.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..onnx.interface import Border, NetworkError

if TYPE_CHECKING:
    import numpy as np

#: What calibration takes: it needs some hundreds of samples, and a few bytes of an .npz may stand
#: for any number.
MOST_SAMPLES = 100_000
MOST_BYTES = 1 << 30


def calibration(pattern: str, root: Path, inputs: Sequence[Border]) -> list[dict[str, np.ndarray]]:
    """Samples for inputs of fixed shapes: the files below `root` that match a glob pattern, in
    order of their paths.

    An `.npz` holds an array per input under its name, an `.npy` the array of the only input. An
    array has the shape of its input, or it holds several samples: along one more axis in front, or
    along the first one where the input has 1 there. Other floats become those of the input; all
    other types have to be right. Raises NetworkError: F410.
    """
    try:
        files = sorted(p for p in root.glob(pattern) if p.is_file())
    except (ValueError, NotImplementedError) as error:
        help_text = "write a pattern relative to the .flow file, like `frames/*.npy`"
        raise NetworkError(
            "F410", f'"{pattern}" is no pattern of files: {error}', help_text
        ) from error
    if not files:
        raise NetworkError(
            "F410", f'no file matches "{pattern}"', "patterns are relative to the .flow file"
        )
    samples: list[dict[str, np.ndarray]] = []
    for file in files:
        samples += _samples(
            file, file.relative_to(root).as_posix(), inputs, MOST_SAMPLES - len(samples)
        )
    return samples


def _samples(
    file: Path, name: str, inputs: Sequence[Border], most: int
) -> list[dict[str, np.ndarray]]:
    """The samples of a file, which messages call `name`; `most` are taken."""
    arrays = _arrays(file, name, inputs)
    columns = {}
    for border in inputs:
        if border.name not in arrays:
            raise NetworkError(
                "F410",
                f"`{name}` has no array `{border.name}`",
                f"the network takes {_listed(inputs)}",
            )
        columns[border.name] = _column(arrays[border.name], border, name)
    counts = sorted({len(c) for c in columns.values()})
    if len(counts) > 1:
        message = (
            f"arrays of `{name}` hold different numbers of samples: {', '.join(map(str, counts))}"
        )
        raise NetworkError("F410", message, "every input needs as many")
    if counts and counts[0] > most:
        message = f"with `{name}` there are more than {MOST_SAMPLES} samples"
        raise NetworkError("F410", message, "some hundreds that are typical are enough")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _arrays(file: Path, name: str, inputs: Sequence[Border]) -> dict[str, np.ndarray]:
    """Those of the inputs that the file has."""
    import numpy as np

    try:
        _require_small(file.stat().st_size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about files that Python 2 wrote
            loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            with loaded:
                _require_small(sum(entry.file_size for entry in loaded.zip.infolist()))
                return {b.name: loaded[b.name] for b in inputs if b.name in loaded.files}
    except Exception as error:
        # numpy reads headers as Python, and lets pass what its parser and zlib raise
        help_text = "write plain arrays of numbers with `numpy.save` or `numpy.savez`"
        raise NetworkError("F410", f"`{name}` cannot be read: {error}", help_text) from error
    if len(inputs) != 1:
        message = f"`{name}` holds one array without a name, the network has {len(inputs)} inputs"
        raise NetworkError("F410", message, f"write an .npz with {_listed(inputs)}")
    return {inputs[0].name: loaded}


def _listed(inputs: Sequence[Border]) -> str:
    return ", ".join(f"`{b.name}` {b}" for b in inputs)


def _require_small(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"it holds {size} bytes, more than {MOST_BYTES}")


def _column(array: np.ndarray, border: Border, name: str) -> np.ndarray:
    """The samples of one input along a new first axis."""
    import numpy as np

    dtype = np.dtype(border.dtype)
    what = f"`{border.name}` in `{name}`" if name.endswith(".npz") else f"`{name}`"
    if not isinstance(array, np.ndarray):
        # a member of an archive that is no array is handed out as its bytes
        raise NetworkError("F410", f"{what} is no array", "write it with `numpy.savez`")
    if not (array.dtype.newbyteorder("=") == dtype or array.dtype.kind == dtype.kind == "f"):
        raise NetworkError(
            "F410", f"{what} has type {array.dtype}, the network takes {dtype}", "convert it"
        )
    column = _stacked(array, border.shape, what)
    if not len(column):
        raise NetworkError("F410", f"{what} holds no sample", "remove the file")
    with np.errstate(over="ignore"):
        column = np.ascontiguousarray(column, dtype)
    if not np.isfinite(column).all():
        raise NetworkError(
            "F410", f"{what} holds values that are infinite or no numbers", "remove such samples"
        )
    return column


def _stacked(array: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """One sample, or several along an axis in front, or along the batch of 1 that the network
    has; raises NetworkError."""
    if array.shape == shape:
        return array[None]
    if array.shape[1:] == shape:
        return array
    if shape[:1] == (1,) and array.shape[1:] == shape[1:] and array.ndim:
        return array[:, None]
    has, wanted = (f"[{', '.join(map(str, s))}]" for s in (array.shape, shape))
    raise NetworkError(
        "F410",
        f"{what} has shape {has}, the network takes {wanted}",
        "several samples lie along one more axis in front",
    )
