"""Models that are messages of their kind, and still not what the format promises: refused with a
reason, everywhere."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import pytest
from flowc.codegen.names import one_line
from flowc.driver.show import networks
from flowc.model.diagnostic import Errors
from flowc.networks.onnx.interface import Border, NetworkError
from flowc.networks.quantization import calibration as samples
from flowc.networks.quantization.calibration import calibration
from onnx import TensorProto, helper, numpy_helper

Change = Callable[[Any], object]


def model() -> Any:
    """One convolution and a Relu."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 8, 8]) for n in ("x", "y")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    weights = numpy_helper.from_array(np.zeros((2, 2, 3, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external(location: str) -> Change:
    def change(m: Any) -> None:
        weights = m.graph.initializer[0]
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=location)

    return change


CHANGES: list[tuple[str, Change, str, str]] = [
    ("zero byte", external("a\0b"), "F407", "missing"),
    ("long", external("x" * 300), "F407", "missing"),
    ("outside", external("../../../etc/passwd"), "F407", "outside"),
    (
        "type -1",
        lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", -1),
        "F402",
        "no type of tensors -1",
    ),
    (
        "type 67",
        lambda m: m.graph.value_info.append(helper.make_tensor_value_info("c", 67, [1])),
        "F402",
        "tensors 67",
    ),
    (
        "nothing for a constant",
        lambda m: m.graph.initializer.add(),
        "F402",
        "a constant has no type",
    ),
    ("two outputs", lambda m: m.graph.node[1].output.append("c"), "F402", "made twice"),
    ("two inputs", lambda m: m.graph.input.append(m.graph.input[0]), "F402", "`x` is made twice"),
    (
        "two attributes",
        lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0]),
        "F402",
        "attribute twice",
    ),
    (
        "reference",
        lambda m: setattr(m.graph.node[0].attribute[0], "ref_attr_name", "z"),
        "F402",
        "outside of a function",
    ),
    ("no kernel", lambda m: m.graph.node[0].attribute[0].ClearField("ints"), "F402", "is []"),
    (
        "kernel of 1",
        lambda m: m.graph.node[0].attribute[0].ints.pop(),
        "F402",
        "different numbers of axes",
    ),
    (
        "attribute",
        lambda m: setattr(m.graph.node[0].attribute[0], "type", 1),
        "F402",
        "another type",
    ),
    ("no inputs", lambda m: m.graph.node[1].ClearField("input"), "F402", "0 inputs"),
    (
        "short weights",
        lambda m: setattr(m.graph.initializer[0], "raw_data", b"abc"),
        "F402",
        "3 bytes, and 36 elements",
    ),
    ("no numbers", lambda m: m.graph.initializer[0].ClearField("raw_data"), "F402", "0 numbers"),
    ("negative", lambda m: m.graph.initializer[0].dims.append(-1), "F402", "negative"),
    (
        "segment",
        lambda m: m.graph.initializer[0].segment.SetInParent(),
        "F402",
        "part of a larger one",
    ),
    (
        "version",
        lambda m: setattr(m.opset_import[0], "version", 2**62),
        "F402",
        "version 4611686018427387904",
    ),
    (
        "no text",
        lambda m: attribute(m, auto_pad=b"\xffVALID"),
        "F402",
        "`auto_pad` of Conv `c` is no text",
    ),
    (
        "no texts",
        lambda m: m.graph.initializer.append(text(b"\xff")),
        "F402",
        "a text in constant `t` is no text",
    ),
    (
        "pads",
        lambda m: attribute(m, pads=[2**62] * 4),
        "F402",
        "`pads` of Conv `c` is [4611686018427387904",
    ),
    ("group", lambda m: attribute(m, group=2**40), "F402", "`group` of Conv `c` is 1099511627776"),
    ("kernel", lambda m: attribute(m, kernel_shape=[2**31, 3]), "F402", "is [2147483648, 3]"),
    (
        "long input",
        lambda m: sized(m, 2**62, 2, 8, 8),
        "F402",
        "4611686018427387904 x 2 x 8 x 8 elements",
    ),
    ("large input", lambda m: sized(m, 2**31 - 1, 2, 2**20, 8), "F402", "no memory holds them"),
    (
        "dense",
        lambda m: m.graph.sparse_initializer.append(sparse(2**20, 2**20)),
        "F402",
        "1048576 x 1048576 elements",
    ),
    ("constant", lambda m: constant(m, 2**50), "F402", "has 1125899906842624 elements"),
    (
        "places",
        lambda m: m.graph.sparse_initializer.append(sparse(2, 2, places=2)),
        "F402",
        "sparse constant `s` has 1 values, and not as many places",
    ),
    ("two nodes", lambda m: named(m, "n", "n"), "F402", "there are two nodes `n`"),
    ("unknown", lambda m: attribute(m, spatial=1), "F402", "Conv `c` has no attribute `spatial`"),
    ("no input", lambda m: m.graph.node[1].input.__setitem__(0, ""), "F402", "has no input `X`"),
    ("old", lambda m: setattr(m.graph.node[1], "op_type", "Upsample"), "F402", "of version 17 any"),
    ("format", lambda m: m.ClearField("ir_version"), "F402", "the version of its format"),
]


def named(m: Any, *names: str) -> None:
    for node, name in zip(m.graph.node, names, strict=True):
        node.name = name


def attribute(m: Any, **values: object) -> None:
    """Of the convolution."""
    for name, value in values.items():
        kept = [a for a in m.graph.node[0].attribute if a.name != name]
        del m.graph.node[0].attribute[:]
        m.graph.node[0].attribute.extend([*kept, helper.make_attribute(name, value)])


def text(content: bytes) -> Any:
    """A constant with one text in it."""
    return TensorProto(name="t", data_type=TensorProto.STRING, dims=[1], string_data=[content])


def sized(m: Any, *shape: int) -> None:
    m.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    m.graph.output[0].type.tensor_type.ClearField("shape")


def sparse(*shape: int, places: int = 1) -> Any:
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    return helper.make_sparse_tensor(
        values, numpy_helper.from_array(np.zeros(places, np.int64), "at"), shape
    )


def constant(m: Any, count: int) -> None:
    """Weights that lie in a file, or so they say."""
    external("net.onnx")(m)
    m.graph.initializer[0].dims[:] = [count]


@pytest.mark.parametrize(
    ("change", "code", "said"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_a_damaged_model_is_refused(change: Change, code: str, said: str, tmp_path: Path) -> None:
    damaged = model()
    change(damaged)
    refuses(damaged.SerializeToString(), code, said, tmp_path)


@pytest.mark.parametrize("name", [b"location-is-here", b"name-of-a-tensor"])
def test_texts_of_a_model_are_texts(name: bytes, tmp_path: Path) -> None:
    damaged = model()
    external("location-is-here")(damaged)
    damaged.graph.initializer[0].doc_string = "name-of-a-tensor"
    refuses(
        damaged.SerializeToString().replace(name, b"\xff" * len(name)),
        "F402",
        "is no text",
        tmp_path,
    )


def test_sizes_below_0_are_unknown(tmp_path: Path) -> None:
    """Some exporters write -1; shape inference ends the process where a slice takes from such a
    tensor."""
    one, here = helper.make_node, numpy_helper.from_array
    nodes = [one("Relu", ["x"], ["r"]), one("Slice", ["r", "from", "to", "axes"], ["y"])]
    constants = [here(np.array([v]), name) for name, v in (("from", 0), ("to", 1), ("axes", 1))]
    kind, unknown = (
        TensorProto.FLOAT,
        helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, -1]),
    )
    inputs, outputs = (
        [helper.make_tensor_value_info("x", kind, [1, 4])],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants, value_info=[unknown])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
        str(tmp_path / "net.onnx"),
    )
    assert networks.check_network(tmp_path / "net.onnx").ok


def test_a_network_that_no_file_system_could_hold(tmp_path: Path) -> None:
    (tmp_path / "app.flow").write_text(f'network N from "{"f" * 300}/net.onnx"\n')
    assert [d.code for d in flowc.check(tmp_path / "app.flow").diagnostics] == ["F401"]


def test_a_layer_that_makes_nothing_disturbs_no_other(tmp_path: Path) -> None:
    """flowc does not know an operator of another domain, nor how many results it has."""
    odd = model()
    odd.opset_import.append(helper.make_opsetid("of.mine", 1))
    odd.graph.node.insert(0, helper.make_node("Probe", ["x"], [], domain="of.mine"))
    odd.graph.node.insert(1, helper.make_node("Other", ["x"], ["", "z"], domain="of.mine"))
    onnx.save(odd, str(tmp_path / "net.onnx"))
    assert networks.network_bands(tmp_path / "net.onnx").choices[-1].bands == ()


def refuses(content: bytes, code: str, said: str, folder: Path) -> None:
    file, flow = folder / "net.onnx", folder / "app.flow"
    file.write_bytes(content)
    flow.write_text('network N from "net.onnx"\n')
    (fault,) = flowc.check(flow).diagnostics
    assert fault.code == code and said in fault.message
    for face in (networks.check_network, networks.network_cuts, networks.network_memory):
        with pytest.raises(Errors) as raised:
            face(file)
        assert raised.value.diagnostics[0].code == code


def test_the_model_is_in_order(tmp_path: Path) -> None:
    onnx.save(model(), str(tmp_path / "net.onnx"))
    assert networks.check_network(tmp_path / "net.onnx").ok


# -- calibration data ------------------------------------------------------------------------------
def npy(header: str) -> bytes:
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header) + 1)
        + header.encode()
        + b"\n"
        + bytes(64)
    )


def npz(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", content)
    return stream.getvalue()


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), }"
GOOD = npz(npy(HEADER))
DAMAGED = {
    "token.npy": npy(HEADER.replace("}", "(")),
    "shape.npy": npy(HEADER.replace("(1, 8)", "(True, 8)")),
    "huge.npy": npy(HEADER.replace("1, 8", "10000000000000, 8")),
    "bytes.npz": npz(b"no array"),
    "deflate.npz": GOOD[:45] + b"\xff" * 12 + GOOD[57:],
    "encrypted.npz": GOOD[:6]
    + b"\1"
    + GOOD[7:].replace(b"PK\1\2\x14\x03\x14\0\0", b"PK\1\2\x14\x03\x14\0\1"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_samples_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    with pytest.raises(NetworkError) as raised:
        calibration(name, tmp_path, [Border("x", "float32", (1, 8))])
    assert raised.value.code == "F410"


def test_samples_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    border = Border("x", "float32", (1, 2))
    np.savez_compressed(
        tmp_path / "many.npz", x=np.zeros((samples.MOST_SAMPLES + 1, 2), np.float32)
    )
    np.save(tmp_path / "one.npy", np.zeros((1, 2), np.float32))
    with pytest.raises(NetworkError, match="more than 100000 samples"):
        calibration("many.npz", tmp_path, [border])
    monkeypatch.setattr(samples, "MOST_SAMPLES", 1)
    assert len(calibration("one.npy", tmp_path, [border])) == 1
    monkeypatch.setattr(samples, "MOST_BYTES", 1000)  # of what an .npz unfolds to
    with pytest.raises(NetworkError, match="more than 1000"):
        calibration("many.npz", tmp_path, [border])


# -- generated comments ----------------------------------------------------------------------------
def test_comments_keep_the_order_of_code() -> None:
    assert (
        one_line("a\u202eb\u2066c\u200fd\ufeffe\ud800f\u2028g\x85h\x1bi é 漢")
        == "abcdef g h i é 漢"
    )


def test_rows_that_no_layer_works_through_one_by_one(tmp_path: Path) -> None:
    tall = model()
    for port in (tall.graph.input[0], tall.graph.output[0]):
        port.type.tensor_type.shape.dim[2].dim_value = 300_000_000
    onnx.save(tall, tmp_path / "tall.onnx")
    with pytest.raises(Errors) as caught:
        networks.check_network(tmp_path / "tall.onnx", by_parts=True)
    assert [d.code for d in caught.value.diagnostics] == ["F105"]
    assert "has 300000000 rows" in caught.value.diagnostics[0].message


def test_a_network_that_only_one_input_fits(tmp_path: Path) -> None:
    """It can be read, and what is known of a tensor inside contradicts any other batch."""
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])]
    inside = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("s", "y")]
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends, inside[1:], value_info=inside[:1])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "n.onnx"
    )
    (tmp_path / "a.flow").write_text('network N from "n.onnx" { batch 2 }')
    assert {d.code for d in flowc.check(tmp_path / "a.flow").diagnostics} == {"F409"}
