"""A file that is no ONNX model is named, with the converter that makes one of it."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.onnx.interface import NetworkError, read_fixed, read_network
from flowc.networks.onnx.memory import needs_of
from onnx import TensorProto, helper, numpy_helper


def archive(*names: str) -> bytes:
    """A zip of files without content."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name in names:
            made.writestr(name, "")
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


KINDS = {
    "a.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite", "tf2onnx.convert --tflite"),
    "b.pt": (archive("b/data.pkl", "b/version"), "PyTorch", "torch.onnx.export"),
    "c.pth": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "PyTorch", "torch.onnx.export"),
    "d.pt": (archive("d/constants.pkl", "d/data.pkl"), "TorchScript", "torch.onnx.export"),
    "e.pt2": (archive("archive_format"), "torch.export", "torch.onnx.export"),
    "f.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5", 'model.export("f.onnx", format="onnx")'),
    "g.keras": (archive("config.json", "model.weights.h5"), "Keras", "model.export"),
    "h.engine": (b"ftrt" + bytes(40), "engine of TensorRT", "the .onnx file"),
    "i.pb": (b"\x0a\x07\x12\x05input", "TensorFlow", "tf2onnx.convert --graphdef i.pb"),
    "j.safetensors": (safetensors(), "weights (safetensors)", "torch.onnx.export"),
    "k.pkl": (b"\x80\x04\x95\0\0\0\0csklearn.svm\nSVC\n.", "scikit-learn", "skl2onnx"),
    "l.gguf": (b"GGUF" + bytes(40), "llama.cpp", "optimum-cli"),
    "m.onnx": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
    "n.onnx": (b"<!DOCTYPE html><html></html>", "a web page", "fetch the file"),
    "o.xml": (b'<?xml version="1.0"?><net name="o">', "OpenVINO", "export the model"),
    "p.ort": (b"\x1c\0\0\0ORTM" + bytes(40), ".ort format", "the .onnx file"),
    "q.zip": (archive("net/q.onnx"), "an archive (zip)", "`q.onnx` is inside"),
    "r.pdmodel": (b"\xff\xff\xff", "PaddlePaddle", "paddle2onnx"),
    "s.onnx": (b"PK\x03\x04" + bytes(9), "that is damaged", "fetch it again"),
}


@pytest.mark.parametrize("name", KINDS)
def test_another_format_is_named_with_its_converter(name: str, tmp_path: Path) -> None:
    content, what, helps = KINDS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NetworkError) as raised:
        read_network(tmp_path / name, {}, None)
    assert raised.value.code == "F402"
    assert what in raised.value.message and helps in raised.value.help


def test_a_folder_of_tensorflow_is_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/saved_model.pb").write_bytes(b"")
    with pytest.raises(NetworkError) as raised:
        read_network(tmp_path / "net", {}, None)
    assert "--saved-model net" in raised.value.help


def test_weights_in_constant_nodes_count(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 64]) for t in ("x", "y")]
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    found = []
    for nodes, weights in (
        ([helper.make_node("Constant", [], ["w"], value=weight), product], []),
        ([product], [weight]),
    ):
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
        opsets = [helper.make_opsetid("", 17)]
        path = tmp_path / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        needs = needs_of(read_chain(path), read_fixed(path, {}, 1)[1], tmp_path)
        found.append(needs.weights)
    assert found == [64 * 64 * 4] * 2
