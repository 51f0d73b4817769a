"""What a file is that is no ONNX model, and the converter that makes one of it.

In: a name, and the content. Out: a `FileKind`, or None for a file that may be a damaged ONNX model.
Content decides before the ending of the name. Nothing is unpacked or executed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

_TORCH = 'export it in Python: `torch.onnx.export(model, inputs, "{stem}.onnx", dynamo=True)`'
_KERAS = 'export it in Python: `model.export("{stem}.onnx", format="onnx")` of Keras 3'
_TENSORFLOW = "convert it: `python3 -m tf2onnx.convert {option} {name} --output {stem}.onnx`"
_SKLEARN = (
    "convert it in Python: `skl2onnx.to_onnx(model, samples)`, with the object that was stored"
)
_PADDLE = "convert it: `paddle2onnx --model_dir . --model_filename {name} --save_file {stem}.onnx`"
#: The largest table of contents of an archive that is looked at.
MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class FileKind:
    """`what` it is, with an article, and the `help` that leads to an ONNX model."""

    what: str
    help: str


def kind_of(name: str, content: bytes) -> FileKind | None:
    """What a file is by its first bytes, else by its name; None if it may be an ONNX model."""
    found = _by_content(content) or _by_name(name)
    if found is None:
        return None
    what, help_text = found
    stem = PurePath(name).stem
    option = "--tflite" if "Lite" in what else "--graphdef"
    return FileKind(what, help_text.format(name=name, stem=stem, option=option))


def kind_of_folder(name: str) -> FileKind:
    """What a folder with a `saved_model.pb` is."""
    help_text = _TENSORFLOW.format(option="--saved-model", name=name, stem=PurePath(name).name)
    return FileKind("a SavedModel of TensorFlow", help_text)


def _by_content(content: bytes) -> tuple[str, str] | None:
    for begins, found in _BEGINNINGS:
        if content.startswith(begins):
            return found(content) if callable(found) else found
    if content[4:8] == b"TFL3":
        return "a network of TensorFlow Lite", _TENSORFLOW
    if content[4:8] == b"ORTM":
        return (
            "a network in the .ort format of ONNX Runtime",
            "take the .onnx file that it was made of",
        )
    if _is_safetensors(content):
        return (
            "a file of weights (safetensors), without the network that they belong to",
            "load them into the model in Python, and export that: "
            '`torch.onnx.export(model, inputs, "{stem}.onnx", dynamo=True)`',
        )
    if content.lstrip()[:1] == b"<":
        return _in_markup(content)
    return None


def _is_safetensors(content: bytes) -> bool:
    """The length of a header in JSON, and the header."""
    length = int.from_bytes(content[:8], "little")
    return 2 <= length <= len(content) - 8 and content[8:10] == b'{"'


def _in_markup(content: bytes) -> tuple[str, str]:
    start = content[:1000].lower()
    if b"<html" in start or b"<!doctype html" in start:
        return "a web page", "the download went wrong: fetch the file itself"
    if b"<net" in start:
        return (
            "a network of OpenVINO",
            "export the model that it was made of to ONNX: OpenVINO does not write it",
        )
    return "a text in XML", "name an .onnx file"


def _in_zip(content: bytes) -> tuple[str, str]:
    """What an archive is, by the names of its files."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [PurePath(n).name for n in archive.namelist()[:MOST_ENTRIES]]
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return "an archive (zip) that is damaged", "fetch it again"
    if "model.weights.h5" in names:
        return "a network of Keras", _KERAS
    if "constants.pkl" in names:
        return "a network of PyTorch (TorchScript)", _TORCH
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return "a network of PyTorch (torch.export)", _TORCH
    if "data.pkl" in names:
        return "a file of PyTorch", _TORCH
    inside = next((n for n in names if n.endswith(".onnx")), "")
    return "an archive (zip)", f"unpack it{f': `{inside}` is inside' if inside else ''}"


def _in_pickle(content: bytes) -> tuple[str, str]:
    start = content[:4096]
    if b"sklearn" in start:
        return "an object of scikit-learn (pickle)", _SKLEARN
    if b"torch" in start or _TORCH_MAGIC in start:
        return "a file of PyTorch (pickle)", _TORCH
    return "a Python object (pickle)", f"export what is in it: {_TORCH.removeprefix('export it ')}"


#: The number at the start of files of PyTorch before 1.6, as pickle writes it.
_TORCH_MAGIC = bytes.fromhex("8a0a6cfc9c46f9206aa85019")
_Found = tuple[str, str] | Callable[[bytes], tuple[str, str]]
_BEGINNINGS: tuple[tuple[bytes, _Found], ...] = (
    (b"PK\x03\x04", _in_zip),
    (b"\x80\x02", _in_pickle),
    (b"\x80\x03", _in_pickle),
    (b"\x80\x04", _in_pickle),
    (b"\x80\x05", _in_pickle),
    (b"\x89HDF\r\n\x1a\n", ("a network of Keras (HDF5), or its weights", _KERAS)),
    (
        b"ftrt",
        (
            "an engine of TensorRT, made for one GPU",
            "take the .onnx file that it was made of: flowc has engines built on the machine",
        ),
    ),
    (
        b"GGUF",
        (
            "a language model for llama.cpp (GGUF)",
            "export the model that it was made of: `optimum-cli export onnx --model ID FOLDER`",
        ),
    ),
    (
        b"version https://git-lfs",
        ("a pointer of Git LFS", "fetch the file that it stands for: `git lfs pull`"),
    ),
    (b"7767517", ("a network of ncnn", "take the .onnx file that it was made of")),
    (b"\x1f\x8b", ("an archive (gzip)", "unpack it")),
    (b"7z\xbc\xaf\x27\x1c", ("an archive (7z)", "unpack it")),
)
_ENDINGS: dict[str, tuple[str, str]] = {
    ".pb": ("a network of TensorFlow", _TENSORFLOW),
    ".pdmodel": ("a network of PaddlePaddle", _PADDLE),
    ".tflite": ("a damaged network of TensorFlow Lite", _TENSORFLOW),
    ".pt": ("a damaged file of PyTorch", _TORCH),
    ".pth": ("a damaged file of PyTorch", _TORCH),
    ".h5": ("a damaged network of Keras", _KERAS),
    ".keras": ("a damaged network of Keras", _KERAS),
    ".engine": (
        "an engine of TensorRT, made for one GPU",
        "take the .onnx file that it was made of: flowc has engines built on the machine",
    ),
    ".caffemodel": (
        "a network of Caffe",
        "convert it: `python3 -m caffe2onnx.convert --prototxt FILE.prototxt --caffemodel {name}`",
    ),
    ".mlmodel": (
        "a network of Core ML",
        "convert it in Python: `onnxmltools.convert_coreml(model)`",
    ),
    ".cfg": ("a network of Darknet", "import it: `flowc import {name}`"),
    ".weights": (
        "weights of Darknet",
        "import its configuration: `flowc import FILE.cfg`",
    ),
}


def _by_name(name: str) -> tuple[str, str] | None:
    return _ENDINGS.get(PurePath(name).suffix.lower())
