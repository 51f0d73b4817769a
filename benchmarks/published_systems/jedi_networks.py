"""The benchmark networks of JEDI (Table 3.3), as Darknet texts: their layers, fewer channels.

Layers, skips and heads are those of the public networks, with rectifiers as the thesis has them.
Images are small, layers have an eighth of the channels and weights are random: the networks find
nothing, but cuts, streams and copies meet the same structure. Numbers of layers as tkDNN counts
them are those of Table 3.3.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import onnx
from flowc.networks.darknet.cfg import read_sections
from flowc.networks.darknet.convert import network_of, read_darknet

#: Rows and columns of an image: 32 is what the networks divide by.
SIDE = 64
#: What channels are divided by.
NARROWER = 8
#: Anchors x (4 + 1 + classes) of a head, with one anchor and one class.
HEAD = 6


class Darknet:
    """A Darknet text that grows section by section."""

    def __init__(self) -> None:
        self.sections = [f"[net]\nwidth={SIDE}\nheight={SIDE}\nchannels=3"]

    @property
    def last(self) -> int:
        """The number of the last layer."""
        return len(self.sections) - 2

    def add(self, kind: str, **options: object) -> None:
        """A section."""
        told = "".join(f"\n{name}={value}" for name, value in options.items())
        self.sections.append(f"[{kind}]{told}")

    def conv(self, channels: int, size: int = 1, stride: int = 1, **other: object) -> None:
        """A convolution with a rectifier, if nothing `other` is said."""
        told = {"activation": "relu", "size": size, "stride": stride, "pad": 1, **other}
        self.add("convolutional", batch_normalize=1, filters=max(4, channels // NARROWER), **told)

    def convs(self, *channels: int) -> None:
        """Convolutions of sizes 1 and 3 in turn."""
        for k, count in enumerate(channels):
            self.conv(count, 3 if k % 2 else 1)

    def pool(self, size: int = 2, stride: int = 2) -> None:
        """The largest of size x size."""
        self.add("maxpool", size=size, stride=stride)

    def route(self, *layers: int) -> None:
        """These layers side by side; below 0 they count from here."""
        self.add("route", layers=",".join(map(str, layers)))

    def shortcut(self, back: int = -3, activation: str = "linear") -> None:
        """The sum of the last layer and the one `back` from here."""
        self.add("shortcut", **{"from": back}, activation=activation)

    def head(self, kind: str = "yolo", activation: str = "linear") -> None:
        """Boxes: a convolution without rectifier, and the detection layer."""
        self.add("convolutional", filters=HEAD, size=1, stride=1, pad=1, activation=activation)
        anchors = {"anchors": "1,1", "classes": 1, "num": 1}
        self.add(kind, **({"mask": 0} if kind == "yolo" else {}), **anchors)


def yolov2() -> Darknet:
    """YOLOv2."""
    d = Darknet()
    d.conv(32, 3)
    d.pool()
    d.conv(64, 3)
    for channels in (128, 256):
        d.pool()
        d.conv(channels, 3)
        d.convs(channels // 2, channels)
    for channels in (512, 1024):
        d.pool()
        d.conv(channels, 3)
        d.convs(channels // 2, channels, channels // 2, channels)
    d.conv(1024, 3)
    d.conv(1024, 3)
    d.route(-9)
    d.conv(64)
    d.add("reorg", stride=2)
    d.route(-1, -4)
    d.conv(1024, 3)
    d.head("region")
    return d


def _tiny() -> Darknet:
    """What the tiny networks begin with."""
    d = Darknet()
    for channels in (16, 32, 64, 128, 256):
        d.conv(channels, 3)
        d.pool()
    d.conv(512, 3)
    d.pool(2, 1)
    d.conv(1024, 3)
    return d


def yolov2tiny() -> Darknet:
    """YOLOv2-tiny."""
    d = _tiny()
    d.conv(512, 3)
    d.head("region")
    return d


def yolov3tiny() -> Darknet:
    """YOLOv3-tiny."""
    d = _tiny()
    d.convs(256, 512)
    d.head()
    d.route(-4)
    d.conv(128)
    d.add("upsample", stride=2)
    d.route(-1, 8)
    d.conv(256, 3)
    d.head()
    return d


def yolov3() -> Darknet:
    """YOLOv3."""
    d = Darknet()
    d.conv(32, 3)
    ends = []
    for channels, blocks in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        d.conv(channels, 3, 2)
        for _ in range(blocks):
            d.convs(channels // 2, channels)
            d.shortcut()
        ends.append(d.last)
    for channels, skip in ((1024, None), (512, ends[3]), (256, ends[2])):
        if skip is not None:
            d.route(-4)
            d.conv(channels // 2)
            d.add("upsample", stride=2)
            d.route(-1, skip)
        d.convs(*[channels // 2, channels] * 3)
        d.head()
    return d


def _stages(d: Darknet, stages: tuple[tuple[int, int], ...]) -> list[int]:
    """Cross stage partial stages of CSPDarknet-53; the numbers of their last layers."""
    ends = []
    for channels, blocks in stages:
        d.conv(channels, 3, 2)
        inner = channels if channels == 64 else channels // 2
        d.conv(inner)
        d.route(-2)
        d.conv(inner)
        for _ in range(blocks):
            d.convs(channels // 2, inner)
            d.shortcut()
        d.conv(inner)
        d.route(-1, -3 * blocks - 4)
        d.conv(channels)
        ends.append(d.last)
    return ends


def _pyramid(d: Darknet) -> None:
    """Spatial pyramid pooling of the last layer."""
    for size, back in ((5, -2), (9, -4)):
        d.pool(size, 1)
        d.route(back)
    d.pool(13, 1)
    d.route(-1, -3, -5, -6)


def _down_and_up(d: Darknet, lower: int, middle: int) -> None:
    """The neck and the heads of YOLOv4: pyramid, two ways up, and down again to three heads."""
    d.convs(512, 1024, 512)
    _pyramid(d)
    d.convs(512, 1024, 512)
    tops = [d.last]
    for channels, skip in ((256, middle), (128, lower)):
        d.conv(channels)
        d.add("upsample", stride=2)
        d.route(skip)
        d.conv(channels)
        d.route(-1, -3)
        d.convs(channels, 2 * channels, channels, 2 * channels, channels)
        tops.append(d.last)
    d.conv(256, 3)
    d.head()
    for channels, top in ((256, tops[1]), (512, tops[0])):
        d.route(-4)
        d.conv(channels, 3, 2)
        d.route(-1, top)
        d.convs(channels, 2 * channels, channels, 2 * channels, channels, 2 * channels)
        d.head()


def yolov4() -> Darknet:
    """YOLOv4."""
    d = Darknet()
    d.conv(32, 3)
    ends = _stages(d, ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)))
    _down_and_up(d, ends[2], ends[3])
    return d


def cspnet() -> Darknet:
    """CSPResNeXt-50 with the neck and the heads of YOLOv4."""
    d = Darknet()
    d.conv(64, 7, 2)
    d.pool()
    ends = []
    for channels, blocks in ((128, 3), (256, 3), (512, 5), (1024, 2)):
        # between stages a grouped convolution divides the size; two ways begin without rectifiers
        activation = "linear" if channels in (256, 512) else "relu"
        if channels > 128:
            d.conv(channels, 3, 2, groups=32 // NARROWER)
            ends.append(d.last)
        d.conv(channels, activation=activation)
        d.route(-2)
        d.conv(channels // 2 if channels == 128 else channels, activation=activation)
        for _ in range(blocks):
            d.conv(channels)
            d.conv(channels, 3, groups=32 // NARROWER)
            d.conv(channels, activation="linear")
            d.shortcut(-4, "relu")
        d.conv(channels)
        d.route(-1, -4 * blocks - 4)
        d.conv(2 * channels)
    _down_and_up(d, ends[1] - 1, ends[2] - 1)
    return d


def yolov4tiny() -> Darknet:
    """YOLOv4-tiny."""
    d = Darknet()
    d.conv(32, 3, 2)
    d.conv(64, 3, 2)
    for channels in (64, 128, 256):
        d.conv(channels, 3)
        d.add("route", layers=-1, groups=2, group_id=1)
        d.conv(channels // 2, 3)
        d.conv(channels // 2, 3)
        d.route(-1, -2)
        d.conv(channels)
        d.route(-6, -1)
        d.pool()
    d.conv(512, 3)
    d.convs(256, 512)
    d.head()
    d.route(-4)
    d.conv(128)
    d.add("upsample", stride=2)
    d.route(-1, 23)
    d.conv(256, 3)
    d.head()
    return d


def _fused(d: Darknet, channels: int) -> None:
    """A cross stage partial part of the neck of YOLOv4-CSP."""
    d.conv(channels)
    d.conv(channels)
    d.route(-2)
    d.convs(channels, channels, channels, channels)
    d.route(-1, -6)
    d.conv(channels)


def yolov4csp() -> Darknet:
    """YOLOv4-CSP."""
    d = Darknet()
    d.conv(32, 3)
    d.conv(64, 3, 2)
    d.convs(32, 64)
    d.shortcut()
    ends = _stages(d, ((128, 2), (256, 8), (512, 8), (1024, 4)))
    d.conv(512)
    d.route(-2)
    d.convs(512, 512, 512)
    _pyramid(d)
    d.convs(512, 512)
    d.route(-1, -13)
    d.conv(512)
    tops = [d.last]
    for channels, skip in ((256, ends[2]), (128, ends[1])):
        d.conv(channels)
        d.add("upsample", stride=2)
        d.route(skip)
        d.conv(channels)
        d.route(-1, -3)
        _fused(d, channels)
        tops.append(d.last)
    d.conv(256, 3)
    d.head(activation="logistic")
    for channels, top in ((256, tops[1]), (512, tops[0])):
        d.route(-4)
        d.conv(channels, 3, 2)
        d.route(-1, top)
        _fused(d, channels)
        d.conv(2 * channels, 3)
        d.head(activation="logistic")
    return d


def densenet() -> Darknet:
    """DenseNet-201 with the head of YOLOv2."""
    d = Darknet()
    d.conv(64, 7, 2)
    d.pool()
    for units, channels in ((6, 128), (12, 256), (48, 896), (32, 0)):
        for _ in range(units):
            d.convs(128, 32)
            d.route(-1, -3)
        if channels:
            d.conv(channels)
            d.pool()
    d.conv(1024, 3)
    d.conv(1024, 3)
    d.head("region")
    return d


NETWORKS = {
    "Yolov2": yolov2,
    "Yolov2tiny": yolov2tiny,
    "Yolov3": yolov3,
    "Yolov3tiny": yolov3tiny,
    "Yolov4": yolov4,
    "Yolov4tiny": yolov4tiny,
    "Yolov4csp": yolov4csp,
    "CSPNet": cspnet,
    "Densenet+Yolo": densenet,
}


def write(name: str, folder: Path) -> Path:
    """`net.cfg`, `net.weights` with random numbers, and `net.onnx`."""
    cfg = folder / "net.cfg"
    cfg.write_text("\n".join(NETWORKS[name]().sections) + "\n")
    rng = np.random.default_rng(3)
    numbers = []
    for part in network_of(read_sections(cfg)).parts:
        numbers.append(_drawn(rng, part.what, part.shape).astype("<f4").tobytes())
    weights = cfg.with_suffix(".weights")
    weights.write_bytes(struct.pack("<3iq", 0, 2, 0, 0) + b"".join(numbers))
    onnx.save(read_darknet(cfg, weights), cfg.with_suffix(".onnx"))
    return cfg.with_suffix(".onnx")


def _drawn(rng: np.random.Generator, what: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that keep the size of what goes through a rectifier; no filter sees the mean of what
    it reads, which would drown what tells images apart."""
    if what == "weights":
        weights = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        alone = np.prod(shape[1:]) == 1
        return weights if alone else weights - weights.mean(axis=(1, 2, 3), keepdims=True)
    if what in ("scales", "variance"):
        return rng.uniform(0.8, 1.2, shape)
    return rng.normal(0, 0.1, shape)
