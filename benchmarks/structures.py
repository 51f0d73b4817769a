"""The structures that the benchmarks run: well-known networks with seeded random weights.

`python structures.py FOLDER` writes all of them as ONNX files; `write(folder, names)` some. They
take the time of the originals and recognize nothing. Those that are made here have batch
normalizations folded into the convolutions. The `light_*` ones come with the onnx package, where
all weights of a tensor are one constant; here they are random, and the rest is as in the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
#: The last part of a residual block counts less than what it is added to: sums of many blocks stay
#: in range.
RESIDUAL = 0.25


class Graph:
    """An ONNX graph that grows layer by layer; a tensor is its name."""

    def __init__(self, name: str, seed: int, side: int = 224) -> None:
        self.name, self.side, self.width = name, side, side
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: dict[str, tuple[int, ...]] = {}

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out or name], name=name, **attributes))
        return out or name

    def constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def conv(
        self, x: str, cin: int, cout: int, size: int = 1, stride: int = 1, group: int = 1
    ) -> str:
        """A convolution with bias that keeps the size of the image, or divides it by the stride."""
        name = f"conv_{len(self.nodes)}"
        weight = self.constant(name + ".weight", he(self.rng, (cout, cin // group, size, size)))
        bias = self.constant(name + ".bias", self.rng.normal(0, 0.1, cout))
        pads = [size // 2] * 4
        return self.add(
            "Conv",
            x,
            weight,
            bias,
            kernel_shape=[size] * 2,
            strides=[stride] * 2,
            pads=pads,
            group=group,
        )

    def relu(self, x: str) -> str:
        return self.add("Relu", x)

    def pool(self, x: str, size: int = 3, stride: int = 2) -> str:
        """The largest of size x size; with padding at the right and at the bottom where the size
        asks for it."""
        return self.add(
            "MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, auto_pad="SAME_UPPER"
        )

    def classify(self, x: str, features: int) -> onnx.ModelProto:
        """Mean over the image, one dense layer, 1000 classes: the end of most of them."""
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        weight = self.constant("classifier.weight", he(self.rng, (1000, features)))
        self.add(
            "Gemm",
            x,
            weight,
            self.constant("classifier.bias", np.zeros(1000)),
            out="logits",
            transB=1,
        )
        return self.model(logits=(1, 1000))

    def model(self, **outputs: tuple[int, ...]) -> onnx.ModelProto:
        def port(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        image = port("image", (1, 3, self.side, self.width))
        ports = [port(name, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, [image], ports, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def he(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random weights [out, in, ...] behind a rectifier: variance stays, and no filter sees the mean
    of its input."""
    weights = rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / np.prod(shape[1:])))
    return (
        weights - weights.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        if shape[1] > 1
        else weights
    )


# -- made here -------------------------------------------------------------------------------------
def mobilenet(side: int = 224) -> onnx.ModelProto:
    """MobileNetV2 1.0 (Sandler et al. 2018)."""
    g = Graph("mobilenet", seed=1, side=side)
    low, high = g.constant("zero", np.array(0)), g.constant("six", np.array(6))

    def relu6(x: str) -> str:
        return g.add("Clip", x, low, high)

    x, cin = relu6(g.conv("image", 3, 32, 3, 2)), 32
    blocks = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for expansion, cout, repeats, first_stride in blocks:
        for stride in [first_stride] + [1] * (repeats - 1):
            wide = cin * expansion
            y = x if expansion == 1 else relu6(g.conv(x, cin, wide))
            y = g.conv(relu6(g.conv(y, wide, wide, 3, stride, group=wide)), wide, cout)
            x, cin = g.add("Add", x, y) if stride == 1 and cin == cout else y, cout
    return g.classify(relu6(g.conv(x, cin, 1280)), 1280)


def resnet18() -> onnx.ModelProto:
    """ResNet-18 (He et al. 2016)."""
    g = Graph("resnet18", seed=2)
    x, cin = g.pool(g.relu(g.conv("image", 3, 64, 7, 2))), 64
    for cout, first_stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first_stride, 1):
            y = g.conv(g.relu(g.conv(x, cin, cout, 3, stride)), cout, cout, 3)
            if stride != 1 or cin != cout:
                x = g.conv(x, cin, cout, 1, stride)
            x, cin = g.relu(g.add("Add", y, x)), cout
    return g.classify(x, 512)


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    g = Graph("squeezenet", seed=3)

    def fire(x: str, cin: int, squeeze: int, expand: int) -> str:
        x = g.relu(g.conv(x, cin, squeeze))
        return g.add(
            "Concat",
            g.relu(g.conv(x, squeeze, expand)),
            g.relu(g.conv(x, squeeze, expand, 3)),
            axis=1,
        )

    x = g.pool(g.relu(g.conv("image", 3, 64, 3, 2)))
    x = g.pool(fire(fire(x, 64, 16, 64), 128, 16, 64))
    x = g.pool(fire(fire(x, 128, 32, 128), 256, 32, 128))
    x = fire(fire(x, 256, 48, 192), 384, 48, 192)
    x = fire(fire(x, 384, 64, 256), 512, 64, 256)
    g.add("Flatten", g.add("GlobalAveragePool", g.relu(g.conv(x, 512, 1000))), out="logits")
    return g.model(logits=(1, 1000))


def yolov3_tiny() -> onnx.ModelProto:
    """YOLOv3-tiny (Redmon and Farhadi 2018), 416 x 416, 80 classes: the raw values of its two
    detection layers."""
    g = Graph("yolov3_tiny", seed=4, side=416)

    def conv(x: str, cin: int, cout: int, size: int = 3) -> str:
        return g.add("LeakyRelu", g.conv(x, cin, cout, size), alpha=0.1)

    x, cin = "image", 3
    for cout in (16, 32, 64, 128):
        x, cin = g.pool(conv(x, cin, cout), 2), cout
    fine = conv(x, 128, 256)
    x = g.pool(conv(g.pool(fine, 2), 256, 512), 2, 1)
    x = conv(conv(x, 512, 1024), 1024, 256, 1)
    g.add("Identity", g.conv(conv(x, 256, 512), 512, 255), out="coarse")
    x = g.add(
        "Resize",
        conv(x, 256, 128, 1),
        "",
        g.constant("twice", np.array([1, 1, 2, 2])),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    x = conv(g.add("Concat", x, fine, axis=1), 384, 256)
    g.add("Identity", g.conv(x, 256, 255), out="fine")
    return g.model(coarse=(1, 255, 13, 13), fine=(1, 255, 26, 26))


#: Inception v1, GoogLeNet (Szegedy et al. 2015): the channels of each module, in stages with a pool
#: between them: those of the branch 1 x 1; 3 x 3 with those before it; 5 x 5 as well; of the pool.
GOOGLENET = (
    ((64, (96, 128), (16, 32), 32), (128, (128, 192), (32, 96), 64)),
    (
        (192, (96, 208), (16, 48), 64),
        (160, (112, 224), (24, 64), 64),
        (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64),
        (256, (160, 320), (32, 128), 128),
    ),
    ((256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128)),
)
#: A pool of 3 x 3 on a tensor, with this stride.
Pool = Callable[[str, int], str]


def _conv_relu(g: Graph, x: str, cin: int, cout: int, size: int = 1, stride: int = 1) -> str:
    return g.relu(g.conv(x, cin, cout, size, stride))


def _inception_modules(g: Graph, x: str, pool: Pool) -> str:
    """The modules of GoogLeNet on 192 channels; the result has 1024."""
    cin = 192
    for number, stage in enumerate(GOOGLENET):
        if number:
            x = pool(x, 2)
        for one, three, five, pooled in stage:
            parts = [
                _conv_relu(g, x, cin, one),
                _conv_relu(g, _conv_relu(g, x, cin, three[0]), *three, 3),
                _conv_relu(g, _conv_relu(g, x, cin, five[0]), *five, 5),
                _conv_relu(g, pool(x, 1), cin, pooled),
            ]
            x, cin = g.add("Concat", *parts, axis=1), one + three[1] + five[1] + pooled
    return x


def inception_v1() -> onnx.ModelProto:
    """Inception v1 without its local response normalization."""
    g = Graph("inception_v1", seed=5)

    def pool(x: str, stride: int) -> str:
        return g.pool(x, 3, stride)

    x = pool(_conv_relu(g, "image", 3, 64, 7, 2), 2)
    x = pool(_conv_relu(g, _conv_relu(g, x, 64, 64), 64, 192, 3), 2)
    return g.classify(_inception_modules(g, x, pool), 1024)


def edsr(scale: int = 2, channels: int = 32, blocks: int = 4) -> onnx.ModelProto:
    """An image four times the size: the structure of EDSR (Lim et al. 2017), 640 x 360 to 1280 x
    720."""
    g = Graph("edsr", seed=11, side=360)
    g.width = 640
    x = head = g.conv("image", 3, channels, 3)
    for _ in range(blocks):
        x = g.add("Add", x, g.conv(g.relu(g.conv(x, channels, channels, 3)), channels, channels, 3))
    x = g.add("Add", g.conv(x, channels, channels, 3), head)
    g.add(
        "DepthToSpace",
        g.conv(x, channels, 3 * scale * scale, 3),
        out="large",
        blocksize=scale,
        mode="CRD",
    )
    return g.model(large=(1, 3, 360 * scale, 640 * scale))


def unet(side: int = 512, base: int = 16, depth: int = 3) -> onnx.ModelProto:
    """A mask of an image: U-Net (Ronneberger et al. 2015) with 16 to 128 channels, scaled up by
    nearest neighbors."""
    g = Graph("unet", seed=12, side=side)
    x, cin = "image", 3
    skips = []
    for level in range(depth):
        width = base << level
        x = g.relu(g.conv(g.relu(g.conv(x, cin, width, 3)), width, width, 3))
        skips.append((x, width))
        x, cin = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), width
    width = base << depth
    x, cin = g.relu(g.conv(g.relu(g.conv(x, cin, width, 3)), width, width, 3)), width
    twice = g.constant("twice", np.array([1, 1, 2, 2]))
    for skip, width in reversed(skips):
        x = g.add(
            "Resize",
            g.conv(x, cin, width),
            "",
            twice,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        x = g.add("Concat", x, skip, axis=1)
        x, cin = g.relu(g.conv(g.relu(g.conv(x, 2 * width, width, 3)), width, width, 3)), width
    g.add("Identity", g.conv(x, cin, 2), out="mask")
    return g.model(mask=(1, 2, side, side))


# -- of the onnx package ---------------------------------------------------------------------------
def light(name: str) -> onnx.ModelProto:
    """A structure of the onnx package with random weights; its opset stays."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    graph = model.graph
    rng = np.random.default_rng(sum(name.encode()))
    shapes = {
        w.name: tuple(numpy_helper.to_array(w))
        for w in graph.initializer
        if w.data_type == TensorProto.INT64
    }
    weights = {w.name: tuple(w.dims) for w in graph.initializer if w.data_type == TensorProto.FLOAT}
    made = [n for n in graph.node if n.op_type == "ConstantOfShape"]
    weights |= {n.output[0]: shapes[n.input[0]] for n in made}
    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in nodes:
        for position, tensor in enumerate(node.input):
            readers.setdefault(tensor, []).append((node, position))
    of_shape = {n.input[0] for n in made}
    kept = [
        w for w in graph.initializer if w.name not in of_shape and w.data_type == TensorProto.INT64
    ]
    for tensor, shape in weights.items():
        if tensor in readers:
            kept.append(
                numpy_helper.from_array(
                    _drawn(rng, tensor, shape, readers).astype(np.float32), tensor
                )
            )
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    image = [i for i in graph.input if i.name not in weights and i.name not in shapes]
    del graph.input[:]
    graph.input.extend(image)
    model.ir_version = 4  # the first one in which weights are no inputs
    return model


def _drawn(
    rng: np.random.Generator,
    tensor: str,
    shape: tuple[int, ...],
    readers: dict[str, list[tuple[onnx.NodeProto, int]]],
) -> np.ndarray:
    """Random values for a weight, by what the layer that reads it does with it."""
    node, position = readers[tensor][0]
    if node.op_type == "Unsqueeze":
        node, position = readers[node.output[0]][0]
    kind = node.op_type
    if kind in ("Conv", "Gemm") and position == 1:
        return he(rng, shape)
    if (kind, position) in (("BatchNormalization", 1), ("Mul", 1)):
        residual = any(reader.op_type == "Sum" for reader, _ in readers.get(node.output[0], ()))
        return rng.normal(RESIDUAL if residual else 1, 0.1, shape)
    if (kind, position) == ("BatchNormalization", 4):
        return rng.uniform(0.5, 1.5, shape)
    return rng.normal(0, 0.1, shape)


# -- as papers count them --------------------------------------------------------------------------
def _normalized(g: Graph, x: str, channels: int) -> str:
    """A batch normalization, as a layer of its own."""
    name = f"norm_{len(g.nodes)}"
    values = [g.rng.uniform(0.5, 1.5, channels) for _ in range(4)]
    names = [g.constant(f"{name}.{k}", value) for k, value in enumerate(values)]
    return g.add("BatchNormalization", x, *names)


def resnet18_norms() -> onnx.ModelProto:
    """ResNet-18 with its normalizations, and a mean over the image that needs no Flatten."""
    g = Graph("resnet18_norms", seed=2)

    def conv(x: str, cin: int, cout: int, size: int, stride: int) -> str:
        return _normalized(g, g.conv(x, cin, cout, size, stride), cout)

    x, cin = g.pool(g.relu(conv("image", 3, 64, 7, 2))), 64
    for cout, first_stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first_stride, 1):
            y = conv(g.relu(conv(x, cin, cout, 3, stride)), cout, cout, 3, 1)
            if stride != 1 or cin != cout:
                x = conv(x, cin, cout, 1, stride)
            x, cin = g.relu(g.add("Add", y, x)), cout
    x = g.add("ReduceMean", x, axes=[2, 3], keepdims=0)
    weight = g.constant("classifier.weight", he(g.rng, (1000, 512)))
    bias = g.constant("classifier.bias", np.zeros(1000))
    g.add("Gemm", x, weight, bias, out="logits", transB=1)
    return g.model(logits=(1, 1000))


def tiny_yolo_v2() -> onnx.ModelProto:
    """Tiny YOLO v2 for VOC (Redmon and Farhadi 2017), with its normalizations."""
    g = Graph("tiny_yolo_v2", seed=7, side=416)
    scale, shift = g.constant("scale", np.array(1 / 255)), g.constant("shift", np.zeros((3, 1, 1)))
    x, cin = g.add("Add", g.add("Mul", "image", scale), shift), 3
    for k, cout in enumerate((16, 32, 64, 128, 256, 512, 1024, 1024)):
        x = g.add("LeakyRelu", _normalized(g, g.conv(x, cin, cout, 3), cout), alpha=0.1)
        if k < 6:
            x = g.pool(x, 2, 2 if k < 5 else 1)
        cin = cout
    g.conv(x, cin, 125)
    g.nodes[-1].output[0] = "grid"
    return g.model(grid=(1, 125, 13, 13))


def googlenet() -> onnx.ModelProto:
    """GoogLeNet (Szegedy et al. 2015) as Caffe has it: its pools round up, to 56, 28, 14 and 7 rows
    (those of `light_inception_v1` round down)."""
    g = Graph("googlenet", seed=8)

    def pool(x: str, stride: int) -> str:
        pads = [1 if stride == 1 else 0] * 4
        return g.add(
            "MaxPool", x, kernel_shape=[3] * 2, strides=[stride] * 2, pads=pads, ceil_mode=1
        )

    x = g.add("LRN", pool(_conv_relu(g, "image", 3, 64, 7, 2), 2), size=5)
    x = pool(g.add("LRN", _conv_relu(g, _conv_relu(g, x, 64, 64), 64, 192, 3), size=5), 2)
    x = _inception_modules(g, x, pool)
    x = g.add("Dropout", g.add("GlobalAveragePool", x))
    weight = g.constant("classifier.weight", he(g.rng, (1000, 1024)))
    bias = g.constant("classifier.bias", np.zeros(1000))
    x = g.add("Gemm", g.add("Flatten", x), weight, bias, transB=1)
    g.add("Softmax", x, out="logits")
    return g.model(logits=(1, 1000))


def mobilenet_v1(width: float = 1.0) -> onnx.ModelProto:
    """MobileNet V1 (Howard et al. 2017)."""
    g = Graph("mobilenet_v1", seed=9)

    def channels(count: int) -> int:
        return int(count * width)

    x, cin = g.relu(g.conv("image", 3, channels(32), 3, 2)), channels(32)
    for count, stride in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
        (1024, 1),
    ):  # fmt: skip
        x = g.relu(g.conv(x, cin, cin, 3, stride, group=cin))
        x, cin = g.relu(g.conv(x, cin, channels(count))), channels(count)
    return g.classify(x, cin)


def efficientnet_b0() -> onnx.ModelProto:
    """EfficientNet B0 (Tan and Le 2019)."""
    g = Graph("efficientnet_b0", seed=10)

    def swish(x: str) -> str:
        return g.add("Mul", x, g.add("Sigmoid", x))

    def excited(x: str, channels: int, narrow: int) -> str:
        y = swish(g.conv(g.add("GlobalAveragePool", x), channels, narrow))
        return g.add("Mul", x, g.add("Sigmoid", g.conv(y, narrow, channels)))

    x, cin = swish(g.conv("image", 3, 32, 3, 2)), 32
    blocks = [
        (1, 3, 16, 1, 1),
        (6, 3, 24, 2, 2),
        (6, 5, 40, 2, 2),
        (6, 3, 80, 3, 2),
        (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    ]
    for expansion, size, cout, repeats, first_stride in blocks:
        for stride in [first_stride] + [1] * (repeats - 1):
            wide = cin * expansion
            y = x if expansion == 1 else swish(g.conv(x, cin, wide))
            y = swish(g.conv(y, wide, wide, size, stride, group=wide))
            y = g.conv(excited(y, wide, cin // 4), wide, cout)
            x, cin = g.add("Add", x, y) if stride == 1 and cin == cout else y, cout
    return g.classify(swish(g.conv(x, cin, 1280)), 1280)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet": mobilenet,
    "resnet18": resnet18,
    "squeezenet": squeezenet,
    "yolov3_tiny": yolov3_tiny,
    "inception_v1": inception_v1,
    **{
        f"light_{name}": partial(light, name)
        for name in (
            "bvlc_alexnet",
            "densenet121",
            "inception_v1",
            "inception_v2",
            "resnet50",
            "shufflenet",
            "squeezenet",
            "vgg19",
            "zfnet512",
        )
    },
}


#: On large images, where memory counts.
LARGE: dict[str, Callable[[], onnx.ModelProto]] = {
    "edsr": edsr,
    "unet": unet,
    "mobilenet_1024": lambda: mobilenet(1024),
}


#: Those of published tables, with the layers that the tables count.
PUBLISHED: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18_norms": resnet18_norms,
    "tiny_yolo_v2": tiny_yolo_v2,
    "googlenet": googlenet,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v1_quarter": partial(mobilenet_v1, 0.25),
    "efficientnet_b0": efficientnet_b0,
}


def write(folder: Path, names: Iterable[str] = NETWORKS) -> dict[str, Path]:
    """Write networks as NAME.onnx unless they are there already; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.onnx" for name in names}
    for name, path in paths.items():
        if not path.is_file():
            path.write_bytes((NETWORKS | LARGE | PUBLISHED)[name]().SerializeToString())
    return paths


def main() -> None:
    """Write all and say what they are."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for name, path in write(Path(sys.argv[1])).items():
        print(f"{name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
