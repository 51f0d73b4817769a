"""Darknet networks as ONNX models: every layer against plain numpy, and what is said of files that
are not in order."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from flowc.cli import app
from flowc.model.catalogue import CODES
from flowc.networks.darknet.cfg import read_sections
from flowc.networks.darknet.convert import CfgError, is_darknet, network_of, read_darknet
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.onnx.interface import NetworkError, read_network
from flowc.networks.onnx.split import split
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from split_check import check_split

Array = np.ndarray[Any, Any]
Cfg = Sequence[tuple[str, Mapping[str, Any]]]


# -- a second Darknet ------------------------------------------------------------------------------
class Reference:
    """Runs a network in plain numpy, layer by layer as Darknet's loops do, and draws the weights on
    the way.

    `outputs` are those of all layers by name, `numbers` the weights in the order of Darknet's file.
    """

    def __init__(self, cfg: Cfg, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        net = cfg[0][1]
        self.image = self.rng.random((net["channels"], net["height"], net["width"]), np.float32)
        self.layers: list[Array] = []
        self.outputs: dict[str, Array] = {}
        self.numbers: list[Array] = []
        for index, (kind, options) in enumerate(cfg[1:]):
            data = self.layers[-1] if self.layers else self.image.astype(np.float64)
            self.layers.append(getattr(self, kind)(data, dict(options)))
            self.outputs[f"{kind.replace('convolutional', 'conv')}_{index}"] = self.layers[-1]

    def draw(self, *shape: int, low: float = -1.0) -> Array:
        """Numbers such that sums of their products stay near 1, as in trained networks."""
        high = 2.0 if low > 0 else 2.0 / np.sqrt(np.prod(shape[1:]))
        self.numbers.append(
            self.rng.uniform(low if low > 0 else -high, high, shape).astype(np.float32)
        )
        return self.numbers[-1].astype(np.float64)

    def other(self, index: int) -> Array:
        return self.layers[index]  # below 0 it counts from the end, as Darknet does

    @staticmethod
    def active(data: Array, name: str) -> Array:
        soft = np.log1p(np.exp(-np.abs(data))) + np.maximum(data, 0)
        return {
            "linear": data, "leaky": np.where(data > 0, data, 0.1 * data), "relu": np.maximum(data, 0),
            "relu6": np.minimum(np.maximum(data, 0), 6), "logistic": 1 / (1 + np.exp(-data)), "tanh": np.tanh(data),
            "swish": data / (1 + np.exp(-data)), "mish": data * np.tanh(soft),
        }[name]  # fmt: skip

    @staticmethod
    def normalized(
        data: Array, scales: Array, biases: Array, mean: Array, variance: Array
    ) -> Array:
        columns = [v[:, None, None] for v in (scales, biases, mean, variance)]
        return (data - columns[2]) / np.sqrt(columns[3] + 0.00001) * columns[0] + columns[1]

    def convolutional(self, data: Array, o: dict[str, Any]) -> Array:
        filters, size, groups = o.get("filters", 1), o.get("size", 1), o.get("groups", 1)
        tall, wide = o.get("stride_y", o.get("stride", 1)), o.get("stride_x", o.get("stride", 1))
        pad = size // 2 if o.get("pad") else o.get("padding", 0)
        depth = len(data) // groups
        biases = self.draw(filters)
        if o.get("batch_normalize"):
            scales, mean, variance = (
                self.draw(filters),
                self.draw(filters),
                self.draw(filters, low=0.5),
            )
        weights = self.draw(filters, depth, size, size)
        padded = np.pad(data, ((0, 0), (pad, pad), (pad, pad)))
        height, width = (
            (n + 2 * pad - size) // s + 1 for n, s in zip(data.shape[1:], (tall, wide), strict=True)
        )
        result = np.zeros((filters, height, width))
        for f in range(filters):
            g = f // (filters // groups)
            for y in range(height):
                for x in range(width):
                    seen = padded[
                        g * depth : (g + 1) * depth,
                        y * tall : y * tall + size,
                        x * wide : x * wide + size,
                    ]
                    result[f, y, x] = (seen * weights[f]).sum()
        if o.get("batch_normalize"):
            result = self.normalized(result, scales, biases, mean, variance)
        else:
            result += biases[:, None, None]
        return self.active(result, o.get("activation", "logistic"))

    def connected(self, data: Array, o: dict[str, Any]) -> Array:
        count = o.get("output", 1)
        biases, weights = self.draw(count), self.draw(count, data.size)
        result = (weights @ data.ravel())[:, None, None]
        if o.get("batch_normalize"):
            scales, mean, variance = self.draw(count), self.draw(count), self.draw(count, low=0.5)
            result = self.normalized(result, scales, biases, mean, variance)
        else:
            result = result + biases[:, None, None]
        return self.active(result, o.get("activation", "logistic"))

    def maxpool(self, data: Array, o: dict[str, Any]) -> Array:
        stride = o.get("stride", 1)
        tall, wide, size = (
            o.get("stride_y", stride),
            o.get("stride_x", stride),
            o.get("size", stride),
        )
        padding = o.get("padding", size - 1)
        rows, columns = data.shape[1:]
        height, width = (rows + padding - size) // tall + 1, (columns + padding - size) // wide + 1
        result = np.full((len(data), height, width), -np.inf)
        offset = int(-padding / 2)  # as C divides
        for y in range(height):
            for x in range(width):
                for n in range(size):
                    for m in range(size):
                        i, j = offset + y * tall + n, offset + x * wide + m
                        if 0 <= i < rows and 0 <= j < columns:
                            result[:, y, x] = np.maximum(result[:, y, x], data[:, i, j])
        return result

    def avgpool(self, data: Array, o: dict[str, Any]) -> Array:
        return data.mean((1, 2), keepdims=True)

    def route(self, data: Array, o: dict[str, Any]) -> Array:
        pieces = []
        for i in map(int, str(o["layers"]).split(",")):
            flat = self.other(i).ravel()
            share = flat.size // o.get("groups", 1)
            pieces.append(flat[share * o.get("group_id", 0) :][:share])
        return np.concatenate(pieces).reshape(-1, *self.other(i).shape[1:])

    def shortcut(self, data: Array, o: dict[str, Any]) -> Array:
        result = data.copy()
        for i in map(int, str(o["from"]).split(",")):
            added, (height, width) = self.other(i), data.shape[1:]
            tall, wide = added.shape[1:]
            every, apart = max(wide // width, 1), max(width // wide, 1)
            for k in range(min(len(data), len(added))):
                for row in range(min(height, tall)):
                    for column in range(min(width, wide)):
                        result[k, row * apart, column * apart] += added[
                            k, row * every, column * every
                        ]
        return self.active(result, o.get("activation", "linear"))

    def upsample(self, data: Array, o: dict[str, Any]) -> Array:
        stride = o.get("stride", 2)
        return np.kron(data, np.ones((1, stride, stride)))

    def reorg(self, data: Array, o: dict[str, Any]) -> Array:
        s, (channels, height, width), flat = o["stride"], data.shape, data.ravel()
        fewer = channels // (s * s)
        result = np.zeros(data.size)
        for k in range(channels):
            for j in range(height):
                for i in range(width):
                    row, column = j * s + k // fewer // s, i * s + k // fewer % s
                    source = column + width * s * (row + height * s * (k % fewer))
                    result[i + width * (j + height * k)] = flat[source]
        return result.reshape(channels * s * s, height // s, width // s)

    def same(self, data: Array, o: dict[str, Any]) -> Array:
        return data

    yolo = region = dropout = same

    def l2norm(self, data: Array, o: dict[str, Any]) -> Array:
        return np.asarray(data / np.sqrt((data**2).sum(0)))

    def softmax(self, data: Array, o: dict[str, Any]) -> Array:
        powers = np.exp(data - data.max())
        return np.asarray(powers / powers.sum())


def text_of(cfg: Cfg) -> str:
    return "\n".join(
        f"[{kind}]\n" + "".join(f"{k}={v}\n" for k, v in options.items()) for kind, options in cfg
    )


def header(version: tuple[int, int, int] = (0, 2, 5), seen: int = 0) -> bytes:
    long = version[0] * 10 + version[1] >= 2
    return struct.pack("<3iq" if long else "<3ii", *version, seen)


def save(folder: Path, cfg: Cfg, numbers: Sequence[Array], stem: str = "net") -> tuple[Path, Path]:
    path = folder / f"{stem}.cfg"
    path.write_text(text_of(cfg))
    weights = path.with_suffix(".weights")
    weights.write_bytes(header() + b"".join(n.astype("<f4").tobytes() for n in numbers))
    return path, weights


def run(model: Any, image: Array, names: Sequence[str] = ()) -> dict[str, Array]:
    """The outputs of a model, and the tensors `names`."""
    seen = [o.name for o in model.graph.output]
    for name in names:
        if name not in seen:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results = session.run(None, {"image": image[None].astype(np.float32)})
    return {o.name: r[0] for o, r in zip(session.get_outputs(), results, strict=True)}


def close(found: Array, wanted: Array, what: str = "") -> None:
    assert found.shape == wanted.shape, what
    assert np.abs(found - wanted).max() <= 1e-4 * max(1.0, np.abs(wanted).max()), what


def agree(folder: Path, cfg: Cfg, seed: int = 0) -> Any:
    """The model of a network, after each of its layers was compared with the reference."""
    wanted = Reference(cfg, seed)
    model = read_darknet(*save(folder, cfg, wanted.numbers))
    onnx.checker.check_model(model, full_check=True)
    every = onnx.ModelProto.FromString(model.SerializeToString())
    found = run(every, wanted.image, list(wanted.outputs))
    for name, result in wanted.outputs.items():
        close(found[name], result, name)
    return model


def net(channels: int = 3, height: int = 8, width: int = 8) -> tuple[str, dict[str, Any]]:
    return "net", {
        "batch": 64,
        "width": width,
        "height": height,
        "channels": channels,
        "momentum": 0.9,
    }


def conv(filters: int, size: int = 3, stride: int = 1, **more: Any) -> tuple[str, dict[str, Any]]:
    options = {
        "batch_normalize": 1,
        "filters": filters,
        "size": size,
        "stride": stride,
        "pad": 1,
        "activation": "leaky",
    }
    return "convolutional", options | more


def head(filters: int) -> tuple[str, dict[str, Any]]:
    return conv(filters, 1, batch_normalize=0, activation="linear")


def route(layers: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "route", {"layers": layers, **more}


def yolo(mask: str, classes: int) -> tuple[str, dict[str, Any]]:
    anchors = "10,14,  23,27,  37,58,  81,82,  135,169,  344,319"
    return "yolo", {
        "mask": mask, "anchors": anchors, "classes": classes, "num": 6, "jitter": ".3", "scale_x_y": "1.05",
        "iou_loss": "ciou", "nms_kind": "greedynms", "beta_nms": "0.6",
    }  # fmt: skip


POOL = ("maxpool", {"size": 2, "stride": 2})


def csp(filters: int) -> list[tuple[str, dict[str, Any]]]:
    """A block of YOLOv4-tiny."""
    half = filters // 2
    first = [
        conv(filters),
        route("-1", groups=2, group_id=1),
        conv(half),
        conv(half),
        route("-1,-2"),
    ]
    return [*first, conv(filters, 1), route("-6,-1"), POOL]


def yolov4_tiny(width: int = 4, classes: int = 2) -> Cfg:
    """All layers of YOLOv4-tiny, which has 32 filters in the first."""
    w, out = width, 3 * (classes + 5)
    return [
        net(3, 64, 32), conv(w, 3, 2), conv(2 * w, 3, 2), *csp(2 * w), *csp(4 * w), *csp(8 * w),
        conv(16 * w), conv(8 * w, 1), conv(16 * w), head(out), yolo("3,4,5", classes),
        route("-4"), conv(4 * w, 1), ("upsample", {"stride": 2}), route("-1,23"), conv(8 * w), head(out),
        yolo("1,2,3", classes),
    ]  # fmt: skip


def yolov3_tiny(width: int, classes: int) -> Cfg:
    """All layers of YOLOv3-tiny, which has 16 filters in the first."""
    w, out = width, 3 * (classes + 5)
    down = [layer for k in range(5) for layer in (conv(w << k), POOL)]
    return [
        net(3, 64, 32), *down, conv(32 * w), ("maxpool", {"size": 2, "stride": 1}), conv(64 * w), conv(16 * w, 1),
        conv(32 * w), head(out), yolo("3,4,5", classes),
        route("-4"), conv(8 * w, 1), ("upsample", {"stride": 2}), route("-1,8"), conv(16 * w), head(out),
        yolo("0,1,2", classes),
    ]  # fmt: skip


def yolov2(width: int = 2, classes: int = 3) -> Cfg:
    """All layers of YOLOv2, which has 32 filters in the first."""
    w = width

    def block(wide: int, *, twice: bool = False) -> list[tuple[str, dict[str, Any]]]:
        more = [conv(wide // 2, 1), conv(wide)]
        return [conv(wide), *more, *(more if twice else [])]

    anchors = (
        "0.57273, 0.677385, 1.87446, 2.06253, 3.33843, 5.47434, 7.88282, 3.52778, 9.77052, 9.16828"
    )
    return [
        net(3, 64, 64), conv(w), POOL, conv(2 * w), POOL, *block(4 * w), POOL, *block(8 * w), POOL,
        *block(16 * w, twice=True), POOL, *block(32 * w, twice=True), conv(32 * w), conv(32 * w),
        route("-9"), conv(2 * w, 1), ("reorg", {"stride": 2}), route("-1,-4"), conv(32 * w), head(5 * (classes + 5)),
        ("region", {"anchors": anchors, "classes": classes, "coords": 4, "num": 5, "softmax": 1, "bias_match": 1}),
    ]  # fmt: skip


# -- whole networks --------------------------------------------------------------------------------
def test_yolov4_tiny(tmp_path: Path) -> None:
    model = agree(tmp_path, yolov4_tiny())
    assert [(o.name, [d.dim_value for d in o.type.tensor_type.shape.dim]) for o in model.graph.output] == [
        ("yolo_30", [1, 21, 2, 1]), ("yolo_37", [1, 21, 4, 2]),
    ]  # fmt: skip
    names = [n.output[0] for n in model.graph.node]
    assert names[:6] == ["conv_0_conv", "conv_0_bn", "conv_0", "conv_1_conv", "conv_1_bn", "conv_1"]
    assert {"route_3", "maxpool_9", "conv_23", "upsample_33", "route_34"} <= set(names)
    said = {p.key: json.loads(p.value) for p in model.metadata_props}
    assert said["darknet.weights"] == {"version": "0.2.5", "images_seen": 0}
    first = said["darknet.yolo_30"]
    assert (first["classes"], first["mask"], first["scale_x_y"], first["new_coords"]) == (
        2,
        [3, 4, 5],
        1.05,
        0,
    )
    assert first["anchors"] == [[10, 14], [23, 27], [37, 58], [81, 82], [135, 169], [344, 319]]
    assert (first["nms_kind"], first["beta_nms"], first["jitter"]) == ("greedynms", "0.6", ".3")
    assert said["darknet.yolo_37"]["mask"] == [1, 2, 3]


def test_yolov2_and_the_numbers_of_its_layers_in_tkdnn(tmp_path: Path) -> None:
    cfg = yolov2()
    assert len(cfg) == 33
    model = agree(tmp_path, cfg)
    said = {p.key: json.loads(p.value) for p in model.metadata_props}
    steps = said["darknet.tkdnn_layers"]
    # JEDI's example: "in the case of yolov2, the 53 is the last layer". The activations are layers
    # there.
    assert (len(steps), steps[:5], steps[53]) == (
        54,
        ["conv_0_bn", "conv_0", "maxpool_1", "conv_2_bn", "conv_2"],
        "region_31",
    )
    assert set(steps) <= {t for n in model.graph.node for t in n.output}
    assert (said["darknet.region_31"]["num"], said["darknet.region_31"]["softmax"]) == (5, "1")
    assert said["darknet.region_31"]["anchors"][0] == [0.57273, 0.677385]


def test_a_classifier(tmp_path: Path) -> None:
    cfg = [net(3, 6, 5), conv(4), ("dropout", {"probability": 0.5}), ("connected", {"output": 7, "activation": "relu"}),
           ("connected", {"output": 3, "activation": "linear", "batch_normalize": 1}), ("softmax", {"groups": 1})]  # fmt: skip
    model = agree(tmp_path, cfg)
    assert [o.name for o in model.graph.output] == ["softmax_4"]
    read_on = agree(tmp_path, [*SMALL, conv(2), route("1"), route("1")])
    assert [o.name for o in read_on.graph.output] == ["yolo_2", "conv_3", "route_4", "route_5"]
    average = [net(2, 5, 4), conv(3), ("avgpool", {}), ("softmax", {})]
    before = agree(tmp_path, average)
    path = tmp_path / "net.cfg"
    path.write_text(text_of([*average, ("cost", {"type": "sse"})]))
    assert read_darknet(path, path.with_suffix(".weights")) == before


def test_cuts_at_the_layers(tmp_path: Path) -> None:
    model = agree(tmp_path, yolov4_tiny())
    path = tmp_path / "tiny.onnx"
    onnx.save(model, path)
    assert str(read_network(path, {}, None).inputs[0]) == "float32[1, 3, 64, 32]"
    assert {"conv_12", "route_22"} <= {x.name for x in read_chain(path).layers}
    assert check_split(path, split(path, {}, None, ["conv_12", "route_22"]), 1) <= 1e-5


@pytest.mark.parametrize(
    ("cfg", "version", "size"),
    [
        (yolov4_tiny(32, 80), (0, 2, 5), 24_251_276),
        (yolov3_tiny(16, 80), (0, 2, 0), 35_434_956),
        (yolov2(32, 80), (0, 1, 0), 203_934_260),
    ],
    ids=["yolov4-tiny", "yolov3-tiny", "yolov2"],
)
def test_sizes_of_published_weights(
    tmp_path: Path, cfg: Cfg, version: tuple[int, int, int], size: int
) -> None:
    path = tmp_path / "net.cfg"
    path.write_text(text_of(cfg))
    parts = network_of(read_sections(path)).parts
    assert len(header(version)) + 4 * sum(p.count for p in parts) == size


def test_same_files_same_bytes(tmp_path: Path) -> None:
    files = save(tmp_path, yolov4_tiny(), Reference(yolov4_tiny(), 1).numbers)
    assert read_darknet(*files).SerializeToString() == read_darknet(*files).SerializeToString()


# -- single layers ---------------------------------------------------------------------------------
ACTIVATIONS = ("linear", "leaky", "relu", "relu6", "mish", "swish", "logistic", "tanh")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(tmp_path: Path, activation: str) -> None:
    agree(
        tmp_path,
        [net(), conv(4, activation=activation), conv(5, activation=activation, batch_normalize=0)],
    )


@pytest.mark.parametrize(
    "layer",
    [
        conv(4, 1), conv(4, 5, 2), conv(6, 3, groups=3), conv(3, 2, 2), conv(4, 3, pad=0), conv(4, 3, pad=0, padding=2),
        conv(4, 3, stride_x=2, stride_y=1), ("convolutional", {}), ("conv", {"filters": 2, "clip": 10}),
        ("maxpool", {"size": 2, "stride": 1}), ("maxpool", {"size": 5, "stride": 1}), ("maxpool", {"stride": 2}),
        ("maxpool", {"size": 3, "stride": 2}), ("maxpool", {"size": 3, "stride": 2, "padding": 0}),
        ("maxpool", {"size": 4, "stride": 3, "padding": 3}), ("maxpool", {"size": 2, "stride_x": 1, "stride_y": 2}),
        ("maxpool", {"size": 3, "stride": 1, "padding": 4}), ("max", {"size": 1}),
        ("avgpool", {}), ("avg", {}), ("upsample", {}), ("upsample", {"stride": 3}), ("dropout", {"probability": 0.2}),
        ("reorg", {"stride": 1}), ("conn", {"output": 3}),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("size", [(6, 7), (5, 4)], ids=str)
def test_layers(tmp_path: Path, layer: tuple[str, dict[str, Any]], size: tuple[int, int]) -> None:
    long = {"conv": "convolutional", "conn": "connected", "max": "maxpool", "avg": "avgpool"}
    cfg = [net(3, *size), layer, route("-1")]
    wanted = Reference([cfg[0], (long.get(layer[0], layer[0]), layer[1]), cfg[2]], 5)
    model = read_darknet(*save(tmp_path, cfg, wanted.numbers))
    onnx.checker.check_model(model, full_check=True)
    close(run(model, wanted.image)["route_1"], wanted.layers[-1])


@pytest.mark.parametrize(
    "layers",
    [
        [conv(4), conv(2), conv(2), route("-1,0")],
        [conv(4), conv(8), route("-1,-2,0", groups=4, group_id=2)],
        [conv(4), route("-1", groups=2), conv(2), route("0", groups=2, group_id=1), route("-1,-2")],
        [conv(4), conv(4, 1), ("shortcut", {"from": -2, "activation": "leaky"})],
        [conv(4), conv(4, 1), conv(4), ("shortcut", {"from": "-2,0", "activation": "linear"})],
        [conv(6), conv(4, 1), ("shortcut", {"from": -2})],
        [conv(4), conv(4, stride=2), ("shortcut", {"from": -2, "activation": "relu"})],
        [conv(6), conv(4, size=5, stride=3), ("shortcut", {"from": 0})],
        [conv(4, stride=2), ("upsample", {"stride": 2}), conv(6), ("shortcut", {"from": 0})],
        [conv(2, stride=3), ("upsample", {"stride": 4}), ("shortcut", {"from": -2})],
        [conv(4), ("l2norm", {}), conv(2, 1)],
        [conv(2), conv(5, 1), ("shortcut", {"from": 0, "activation": "mish"}), conv(1, 1)],
        [conv(8), ("reorg", {"stride": 2}), route("-1")],
        [conv(4, 1), ("upsample", {"stride": 2}), conv(3), route("-1, -2,")],
    ],
)
def test_layers_that_read_others(tmp_path: Path, layers: list[tuple[str, dict[str, Any]]]) -> None:
    if str(layers[-1][1].get("layers", "")).endswith(","):
        # a comma at the end is nothing to Darknet
        fixed = [*layers[:-1], route("-1,-2")]
        wanted = Reference([net(), *fixed], 0)
        model = read_darknet(*save(tmp_path, [net(), *layers], wanted.numbers))
        close(run(model, wanted.image)["route_3"], wanted.layers[-1])
    else:
        agree(tmp_path, [net(), *layers])


def by_hand(folder: Path, cfg: Cfg, image: Any, *numbers: Any) -> Array:
    files = save(folder, cfg, [np.asarray(n, np.float32) for n in numbers])
    (result,) = run(read_darknet(*files), np.asarray(image, np.float32)).values()
    return result


def test_a_pool_of_two_at_stride_one_looks_to_the_right_and_down(tmp_path: Path) -> None:
    image = [[[9, 1, 2], [0, 3, 4], [5, 0, 0]]]
    cfg = [net(1, 3, 3), ("maxpool", {"size": 2, "stride": 1})]
    assert by_hand(tmp_path, cfg, image).tolist() == [[[9, 4, 4], [5, 4, 4], [5, 0, 0]]]
    cfg = [net(1, 3, 3), POOL]
    assert by_hand(tmp_path, cfg, image).tolist() == [[[9, 4], [5, 0]]]


def test_groups_upsampling_and_reorg_by_hand(tmp_path: Path) -> None:
    image = np.arange(16).reshape(4, 2, 2)
    half = by_hand(
        tmp_path, [net(4, 2, 2), ("dropout", {}), route("-1", groups=2, group_id=1)], image
    )
    assert half.tolist() == image[2:].tolist()
    larger = by_hand(tmp_path, [net(1, 1, 2), ("upsample", {"stride": 2})], [[[1, 2]]])
    assert larger.tolist() == [[[1, 1, 2, 2], [1, 1, 2, 2]]]
    reorganized = by_hand(tmp_path, [net(4, 2, 2), ("reorg", {"stride": 2})], image)
    # Darknet sees one 4x4 image, takes every second pixel, and reads what it wrote as 16 channels.
    assert reorganized.ravel().tolist() == [0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]


def test_a_shortcut_and_a_convolution_by_hand(tmp_path: Path) -> None:
    plain = {"filters": 1, "size": 1, "stride": 1, "activation": "linear"}
    cfg = [
        net(1, 1, 2),
        ("convolutional", plain),
        ("convolutional", plain),
        ("shortcut", {"from": -2, "activation": "leaky"}),
    ]
    # Biases stand in front of weights: 2x + 1, then -3y - 20, and the sum of both.
    assert by_hand(
        tmp_path, cfg, [[[1, -10]]], [1], [2], [-20], [-3]
    ).ravel().tolist() == pytest.approx([-2.6, 1.8 * 10])
    cfg = [net(1, 1, 1), ("convolutional", {**plain, "batch_normalize": 1})]
    # Biases, scales, mean, variance, weights: ((3 * 2 - 4) / sqrt(0.25)) * 10 + 7.
    assert by_hand(tmp_path, cfg, [[[2]]], [7], [10], [4], [0.25], [3]).item() == pytest.approx(
        47, rel=1e-4
    )
    cfg = [net(1, 1, 1), ("convolutional", {**plain, "activation": "mish"})]
    assert by_hand(tmp_path, cfg, [[[1]]], [0], [1]).item() == pytest.approx(0.86509839)


@st.composite
def networks(draw: st.DrawFn) -> Cfg:
    """Layers that fit together, by a small model of their shapes."""
    channels, height, width = (
        draw(st.integers(1, 4)),
        draw(st.integers(3, 9)),
        draw(st.integers(3, 9)),
    )
    cfg: list[tuple[str, dict[str, Any]]] = [net(channels, height, width)]
    shapes: list[tuple[int, int, int]] = []
    for index in range(draw(st.integers(2, 8))):
        channels, height, width = shapes[-1] if shapes else (channels, height, width)
        alike = [i for i, s in enumerate(shapes) if s[1:] == (height, width)]
        kinds = ["convolutional", "maxpool", "dropout", *(["route", "shortcut"] if alike else [])]
        kinds += ["upsample"] if height * width < 80 else []
        kinds += ["reorg"] if channels % 4 == height % 2 == width % 2 == 0 else []
        kind = draw(st.sampled_from(kinds))
        options: dict[str, Any] = {}
        size = draw(st.integers(1, min(height, width, 5)))
        stride = draw(st.integers(1, 3))
        if kind == "convolutional":
            divisors = [g for g in range(1, channels + 1) if channels % g == 0]
            groups = draw(st.sampled_from(divisors))
            pad = draw(st.booleans())
            options = {
                "filters": groups * draw(st.integers(1, 3)), "size": size, "stride": stride, "pad": int(pad),
                "groups": groups, "batch_normalize": draw(st.integers(0, 1)), "activation": draw(st.sampled_from(ACTIVATIONS)),
            }  # fmt: skip
            around = 2 * (size // 2) if pad else 0
            shape = (
                options["filters"],
                (height + around - size) // stride + 1,
                (width + around - size) // stride + 1,
            )
        elif kind == "maxpool":
            options = {"size": size, "stride": stride}
            padding = draw(st.none() | st.integers(0, 2 * size - 2))
            if padding is not None:
                options["padding"] = padding
            around = size - 1 if padding is None else padding
            shape = (
                channels,
                (height + around - size) // stride + 1,
                (width + around - size) // stride + 1,
            )
        elif kind == "route":
            chosen = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=3))
            counts = [shapes[i][0] for i in chosen]
            groups = draw(
                st.sampled_from([g for g in (1, 2, 3) if all(c % g == 0 for c in counts)])
            )
            listed = [i - index if draw(st.booleans()) else i for i in chosen]
            options = {
                "layers": ", ".join(map(str, listed)),
                "groups": groups,
                "group_id": draw(st.integers(0, groups - 1)),
            }
            shape = (sum(counts) // groups, height, width)
        elif kind == "shortcut":
            chosen = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=2))
            options = {
                "from": ",".join(map(str, chosen)),
                "activation": draw(st.sampled_from(ACTIVATIONS)),
            }
            shape = (channels, height, width)
        elif kind == "upsample":
            options, shape = {"stride": 2}, (channels, 2 * height, 2 * width)
        elif kind == "reorg":
            options, shape = {"stride": 2}, (channels * 4, height // 2, width // 2)
        else:
            shape = (channels, height, width)
        cfg.append((kind, options))
        shapes.append(shape)
    return cfg


@settings(max_examples=150)
@given(networks(), st.integers(0, 2**32 - 1))
def test_any_network(tmp_path: Path, cfg: Cfg, seed: int) -> None:
    agree(tmp_path, cfg, seed)


# -- the files -------------------------------------------------------------------------------------
SMALL: Cfg = [
    net(1, 2, 2),
    conv(2, 1),
    head(7),
    ("yolo", {"mask": 0, "anchors": "1,2", "classes": 2, "num": 1}),
]


def test_the_header_has_two_lengths(tmp_path: Path) -> None:
    wanted = Reference(SMALL, 3)
    cfg, weights = save(tmp_path, SMALL, wanted.numbers)
    numbers = weights.read_bytes()[20:]
    for version, seen in (((0, 1, 0), 77), ((0, 2, 0), 2**40), ((1, 0, 0), 5)):
        weights.write_bytes(header(version, seen) + numbers)
        model = read_darknet(cfg, weights)
        said = {p.key: json.loads(p.value) for p in model.metadata_props}["darknet.weights"]
        assert said == {"version": ".".join(map(str, version)), "images_seen": seen}
        close(run(model, wanted.image)["yolo_2"], wanted.layers[-1])


def test_texts_as_people_write_them(tmp_path: Path) -> None:
    wanted = Reference(SMALL, 4)
    cfg, weights = save(tmp_path, SMALL, wanted.numbers)
    text = cfg.read_text().replace("[net]", "\ufeff# a comment: é\n; another\n\n[network]")
    text = text.replace("filters=2", "  filters = 2   # two\t").replace("\n", "\r\n")
    cfg.write_bytes(text.encode())
    assert is_darknet(cfg)
    close(run(read_darknet(cfg, weights), wanted.image)["yolo_2"], wanted.layers[-1])


@pytest.mark.parametrize(
    ("change", "message", "help_text"),
    [
        (lambda b: b[:10], "`net.weights` (10 bytes) has no header", "fetch"),
        (lambda b: b[:18], "`net.weights` (18 bytes) has no header", "fetch"),
        (lambda b: b"PK\3\4" + b[4:], "`net.weights` holds no Darknet weights", "fetch"),
        (lambda b: b[:-2], "`net.weights` ends inside of a number", "truncated"),
        (lambda b: b[:-4], "`net.weights` ends in layer `conv_1`: its weights are 14 numbers, 13 are left", "another cfg"),
        (lambda b: b[:32], "`net.weights` ends in layer `conv_0`: its scales are 2 numbers, 1 are left", "`net.cfg`"),
        (lambda b: b[:20], "`net.weights` ends in layer `conv_0`: its biases are 2 numbers, 0 are left", "`net.cfg`"),
        (lambda b: b + b[-8:], "`net.weights` has 33 numbers, and the layers of `net.cfg` only 31", "another cfg"),
        (lambda b: b[:44] + struct.pack("<f", -1) + b[48:], "`net.weights` gives layer `conv_0` a negative variance", "damaged"),
        (lambda b: b[:24] + b"\xff" * 4 + b[28:], "`net.weights` gives layer `conv_0` biases that are not finite", "damaged"),
    ],
)  # fmt: skip
def test_weights_that_do_not_belong_here(
    tmp_path: Path, change: Any, message: str, help_text: str
) -> None:
    cfg, weights = save(tmp_path, SMALL, Reference(SMALL, 3).numbers)
    weights.write_bytes(change(weights.read_bytes()))
    with pytest.raises(NetworkError) as raised:
        read_darknet(cfg, weights)
    assert (raised.value.code, raised.value.message) == (
        "F402",
        message,
    ) and help_text in raised.value.help


def test_files_that_are_not_there(tmp_path: Path) -> None:
    cfg, weights = save(tmp_path, SMALL, [])
    weights.unlink()
    with pytest.raises(
        NetworkError,
        match=r"the weights of `net.cfg` cannot be read: `.*net.weights`: No such file",
    ) as raised:
        read_darknet(cfg, weights)
    assert raised.value.code == "F407" and "--weights" in raised.value.help
    with pytest.raises(NetworkError, match=r"cannot read `.*no.cfg`: No such file") as raised:
        read_darknet(tmp_path / "no.cfg", weights)
    assert raised.value.code == "F401"
    for code in ("F401", "F402", "F407"):
        assert code in CODES


def faults(folder: Path, text: str) -> list[str]:
    """`LINE: message` of all faults; weights are not looked at."""
    path = folder / "net.cfg"
    path.write_text(text)
    with pytest.raises(CfgError) as raised:
        read_darknet(path, folder / "none.weights")
    fault = raised.value
    assert fault.code == "F402" and len(fault.message.splitlines()) == len(fault.diagnostics)
    assert all(
        d.span is not None and d.span.file == str(path) and d.span.end_column > d.span.column
        for d in fault.diagnostics
    )
    return [f"{d.span.line}: {d.message}" for d in fault.diagnostics if d.span]


NET = "[net]\nwidth=8\nheight=8\nchannels=3\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[convolutional]\nfilters=2\n", ["1: the first section is [convolutional], not [net]"]),
        ("width=3\n[net]\n", ["1: a line before the first section"]),
        ("[net]\nwidth=8\n[maxpool]\nsize=9\npadding=0\n", ["1: [net] does not say its `channels`", "1: [net] does not say its `height`"]),
        (NET, ["1: there is no layer after [net]"]),
        (NET.replace("=8", "=800000"), ["1: there is no layer after [net]"]),
        (NET.replace("=8", "=800000") + "[avgpool]", ["1: a tensor of 3x800000x800000 is too large"]),
        ("[net\nwidth=8\n[avgpool]\n", ["1: '[net' is no section"]),
        (NET + "[convolutional\nfilters=2\n", ["5: '[convolutional' is no section"]),
        (NET + "[convolutional]\nfilters 2\n[yolo]\nanchors=1\n",
         ["6: 'filters 2' is no `option=value`", "8: `anchors` has 1 numbers, and 1 anchors are 2"]),
        (NET + "[convolutional]\nfilters=\n", ["6: `filters` has no value"]),
        (NET + "[convolutionel]\n[crop]\n[cost]\n[avgpool]", ["5: [convolutionel] is no section of Darknet",
         "6: [crop] is not supported", "7: [cost] is not the last section"]),
        (NET + "[convolutional]\nactivation=hardswish\n", ["6: `activation=hardswish` is not read by flowc"]),
        (NET + "[convolutional]\nfilters=two\nsize=0\n", ["6: `filters` is 'two', not a whole number",
         "7: `size` is 0, and has to be 1 or more"]),
        (NET + "[convolutional]\nfilters=2\nfilters=3\n", ["7: `filters` is 2 and 3"]),
        (NET + "[convolutional]\nstrid=2\n", ["6: [convolutional] has no option `strid` that flowc reads"]),
        (NET + "[convolutional]\nxnor=1\ndilation=2\nantialiasing=0\n", ["6: `xnor=1` is not supported in [convolutional]",
         "7: `dilation=2` is not supported in [convolutional]"]),
        (NET + "[convolutional]\ngroups=2\n", ["6: 3 channels do not divide into 2 groups"]),
        (NET + "[convolutional]\ngroups=3\nfilters=4\n", ["6: 4 filters do not divide into 3 groups"]),
        (NET + "[convolutional]\nsize=9\n", ["6: a window of 9 does not fit into 8 with 0 of padding"]),
        (NET + "[maxpool]\nsize=2\npadding=4\n", ["7: a window of 2 may see nothing but the 4 of padding"]),
        (NET + "[upsample]\nstride=99999\n", ["5: a tensor of 3x799992x799992 is too large"]),
        (NET + "[route]\n", ["5: [route] does not say which layers it reads"]),
        (NET + "[avgpool]\n[route]\nlayers=-2,7\n", ["7: layer 1 reads layer -1, which is not before it"]),
        (NET + "[avgpool]\n[route]\nlayers=1\n", ["7: layer 1 reads layer 1, which is not before it"]),
        (NET + "[dropout]\n[avgpool]\n[route]\nlayers=-1,0\n", ["8: `avgpool_1` and `dropout_0` differ in size: 1x1 and 8x8"]),
        (NET + "[dropout]\n[route]\nlayers=0\ngroups=2\n", ["8: 3 channels of `dropout_0` do not divide into 2 groups"]),
        (NET + "[dropout]\n[route]\nlayers=a\ngroups=2\ngroup_id=2\n", ["7: `layers` lists 'a', not a whole number"]),
        (NET + "[dropout]\n[route]\nlayers=0\ngroups=2\ngroup_id=2\n", ["9: there is no group 2 of 2"]),
        (NET + "[dropout]\n[maxpool]\nstride_x=2\nsize=1\n[shortcut]\nfrom=0\n",
         ["10: `maxpool_1` and `dropout_0` differ in size: 8x4 and 8x8"]),
        (NET + "[dropout]\n[avgpool]\n[shortcut]\nfrom=0\nactivation=mish\n",
         ["8: `avgpool_1` and `dropout_0` differ in size, and AlexeyAB's Darknet adds them number by number, "
          "whatever pixels they belong to"]),
        (NET + "[dropout]\n[shortcut]\nfrom=0\nweights_type=per_feature\nalpha=1.0\nbeta=2\n",
         ["8: `weights_type=per_feature` is not supported in [shortcut]", "10: `beta=2` is not supported in [shortcut]"]),
        (NET + "[shortcut]\nactivation=linear\n", ["5: [shortcut] does not say which layer it adds"]),
        (NET + "[reorg]\nstride=2\n", ["6: 3x8x8 does not divide by a stride of 2"]),
        (NET + "[softmax]\n", ["5: [softmax] is read over channels alone, not over 3x8x8"]),
        (NET + "[avgpool]\n[softmax]\ntemperature=2\n", ["7: `temperature=2` is not supported in [softmax]"]),
        (NET + "[yolo]\nclasses=2\nanchors=1,2\n", ["6: [yolo] is given 3 channels, and needs 7: 1 anchors x (2 classes + 5)"]),
        (NET + "[yolo]\nclasses=2\nanchors=1,x\n", ["7: `anchors` is not a list of numbers"]),
        (NET + "[yolo]\nmask=1\nanchors=1,2\n", ["6: `mask` takes anchor 1 of 1"]),
        (NET + "[yolo]\nnum=999999999\nanchors=1,2\n",
         ["7: `anchors` has 2 numbers, and 999999999 anchors are 1999999998"]),
        (NET + "[region]\nanchors=1,2\nnum=1\nclasses=3\n",
         ["8: [region] is given 3 channels, and needs 8: 1 anchors x (3 classes + 4 + 1)"]),
    ],
)  # fmt: skip
def test_faults_of_the_text(tmp_path: Path, text: str, wanted: list[str]) -> None:
    assert sorted(faults(tmp_path, text)) == sorted(wanted)


def test_faults_are_told_together_and_do_not_follow_from_each_other(tmp_path: Path) -> None:
    text = (
        NET
        + """[convolutional]
groups=2
[convolutional]
filters=2
activation=lekay
[maxpool]
size=100
padding=0
[route]
layers=-1,9
[convolutional]
bath_normalize=1
"""
    )
    assert faults(tmp_path, text) == [
        "6: 3 channels do not divide into 2 groups",
        "9: `activation=lekay` is not read by flowc",
        "14: layer 3 reads layer 9, which is not before it",
        "16: [convolutional] has no option `bath_normalize` that flowc reads",
    ]
    with pytest.raises(CfgError) as raised:
        read_darknet(tmp_path / "net.cfg", tmp_path)
    helps = [d.help for d in raised.value.diagnostics]
    assert (
        helps[1] == "did you mean `leaky`?"
        and helps[3] == "did you mean `batch_normalize`?"
        and "count from 0" in helps[2]
    )


LINES = [
    *("[net]", "[route]", "[shortcut]", "[yolo]", "[region]", "[convolutional]", "[connected]", "[maxpool]", "[reorg]"),
    *("[upsample]", "[softmax]", "[cost]", "[dropout]", "[avgpool", "width=8", "height=8", "channels=4", "batch 1"),
    *("filters=2", "groups=2", "group_id=1", "layers=-1", "layers=0,-2", "from=-2", "from=x", "size=3", "stride=2"),
    *("padding=9", "pad=1", "activation=mish", "activation=", "anchors=1,2,3,4", "mask=0,,1", "num=99999999", "classes=1"),
    *("= 3", "#", "stride=-2", "filters=1e3", "scale_x_y=nan", "batch_normalize=1", "\x00", "\u2028"),
]  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.sampled_from(LINES), max_size=30), st.booleans())
def test_any_text_is_a_network_or_has_faults(
    tmp_path: Path, lines: list[str], framed: bool
) -> None:
    path = tmp_path / "net.cfg"
    path.write_text((NET if framed else "") + "\n".join(lines), encoding="utf-8")
    try:
        count = sum(p.count for p in network_of(read_sections(path)).parts)
    except CfgError as faults:
        assert faults.diagnostics and all(d.message and d.span for d in faults.diagnostics)
        return
    weights = tmp_path / "net.weights"
    weights.write_bytes(header() + np.ones(count, "<f4").tobytes())
    onnx.checker.check_model(read_darknet(path, weights), full_check=True)


# -- the command -----------------------------------------------------------------------------------
def flowc(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_import_writes_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Reference(yolov4_tiny(), 2)
    (tmp_path / "nets").mkdir()
    cfg, weights = save(tmp_path / "nets", yolov4_tiny(), wanted.numbers, "tiny")
    monkeypatch.chdir(tmp_path)
    done = flowc("import", cfg)
    assert (done.exit_code, done.stdout) == (0, "tiny.onnx\n")
    found = run(onnx.load(tmp_path / "tiny.onnx"), wanted.image)
    close(found["yolo_37"], wanted.layers[37])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nets", "tiny.onnx"]
    blocked = flowc("import", cfg, "-o", "tiny.onnx/inside.onnx")
    assert (
        blocked.exit_code == 1
        and "error[F605]: cannot write `tiny.onnx/inside.onnx`" in blocked.stderr
    )
    again = flowc("import", cfg)
    assert again.exit_code == 1 and "error[F604]" in again.stderr
    weights.rename(tmp_path / "best.weights")
    done = flowc("import", cfg, "--weights", "best.weights", "-o", "out/other.onnx", "--json")
    assert json.loads(done.stdout) == {"network": "out/other.onnx"}
    assert (tmp_path / "out" / "other.onnx").read_bytes() != b"" and done.exit_code == 0
    listed = flowc("analyze", "tiny.onnx", "--cuts", "--json")
    assert listed.exit_code == 0
    assert {"conv_0", "conv_12", "route_22"} <= {
        c["layer"] for c in json.loads(listed.stdout)["cuts"]
    }


def test_import_tells_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.cfg").write_text(NET + "[convolutional]\nactivation=leeky\n[lstm]\n")
    done = flowc("import", "bad.cfg")
    assert done.exit_code == 1 and not Path("bad.onnx").exists()
    assert "error[F402]: `activation=leeky` is not read by flowc\n --> bad.cfg:6:1" in done.stderr
    assert (
        "6 | activation=leeky\n   | ^^^^^^^^^^^^^^^^\n   = help: did you mean `leaky`?"
        in done.stderr.replace("\n  |", "\n   |").replace("\n  =", "\n   =")
    )
    assert "error[F402]: [lstm] is not supported\n --> bad.cfg:7:1" in done.stderr
    Path("good.cfg").write_text(NET + "[convolutional]\n")
    done = flowc("import", "good.cfg", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["diagnostics"][0]["code"] == "F407"
    assert flowc("import", "none.cfg").stderr.startswith("error[F401]: cannot read `none.cfg`")
    Path("jedi.cfg").write_text('configs = {\n  instance_num = "1";\n}\n')
    assert "error[F402]: `jedi.cfg` is no Darknet network" in flowc("import", "jedi.cfg").stderr
    assert flowc("import", "good.cfg", "--processor", "p").exit_code == 2
    assert flowc("import", "graph.xml", "--weights", "w").exit_code == 2
