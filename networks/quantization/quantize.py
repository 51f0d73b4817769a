"""A network in 8 bits: quantized as a whole on calibration data, before it is cut, so that all
stages agree on scales.

In: a model file, and samples of its inputs (`calibration.py`). Out: the bytes of a model with the
same inputs and outputs, in 8 bits between them, and what it loses. Cutting it is left to
`split.py`, telling of the loss to the CLI.

Ranges are the least and the largest value seen, weights are scaled per output channel. There are
two schemes: `CPU`, with unsigned activations, and `TENSORRT`, which takes nothing but zero points
of 0, and no biases in 8 bits.

Unsigned activations are what ONNX Runtime 1.31 is fast at. fp32 time over int8 time on one core of
an AMD EPYC with VNNI, and signal to noise of the scores (with their mean as
signal, which `QuantizationLoss` takes off), for the networks of `examples/twins` and a ResNet-18,
all with random weights:

    activations, weights          MobileNetV2      SqueezeNet       ResNet-18
    uint8, int8 per channel       2.0   22.9 dB    2.4   35.7 dB    3.4   20.4 dB
    uint8, int8 per tensor        2.1   21.2 dB    2.3   32.8 dB    3.4   18.5 dB
    uint8, 7 bits per channel     2.1   21.0 dB    2.5   30.3 dB    3.4   16.6 dB
    int8, int8 per channel        1.2   23.0 dB    0.7   35.8 dB    1.3   20.4 dB
    uint8, uint8 per tensor       1.0   22.2 dB    1.2   33.4 dB    1.4   19.1 dB

Without VNNI an x86-64 adds two products in 16 bits, which saturate unless weights have 7 bits. On
an emulated Haswell the first row became 18.0, 27.6 and 15.8 dB, and a trained ResNet lost 25 dB: so
ONNX Runtime multiplies unsigned bytes there (`runtime/session.py`), and nothing is lost, but time.
7 bits would cost 2 to 5 dB on all other machines. An emulated ARM (Neoverse N1) kept the first
row. The trained network of `examples/digits` had 42 dB and named the same digit in all of 1000
images; it is so small that 8 bits made it no faster. Nor do they where data is mostly moved: a
ShuffleNet took 1.6 times as long.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from math import inf, log10, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.files import scratch
from ...runtime.session import opened
from ..onnx.interface import NetworkError, read_network
from ..onnx.nodes import first_output, made_by, read_by
from ..onnx.order import in_order
from .tails import parts, tail

if TYPE_CHECKING:
    import numpy as np

#: What ONNX Runtime computes in 8 bits on a CPU. Its quantizer would also take operators that then
#: run in floating point between two conversions, and Softmax, whose results are better off without.
OPERATORS = (
    *("Conv", "Gemm", "MatMul", "Add", "Mul", "Relu", "Clip", "LeakyRelu", "Sigmoid"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "Resize"),
    *(
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "Where",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
    ),
)
#: Layers that TensorRT computes in 8 bits when what they read is quantized; pooling and such follow
#: by themselves.
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add")
#: A constant of theirs would get one scale for all channels: with one they stay in floating point.
WITHOUT_CONSTANTS = frozenset({"Add", "Mul", "Gather", "Where"})
#: They can give floating point at no cost.
SUMS = frozenset({"Gemm", "MatMul"})
#: They become part of the layer before: a range of 8 bits ends where they cut off.
RECTIFIERS = frozenset({"Relu", "Clip"})
PAIR = ("QuantizeLinear", "DequantizeLinear")
STANDARD = ("", "ai.onnx")
#: The first operator set in which scales per channel can be written, and the version of the format
#: that goes with it.
OPSET, IR = 13, 7


@dataclass(frozen=True, slots=True)
class Scheme:
    """What reads and makes 8 bits. `symmetric`: only what `operators` read is quantized, around 0;
    biases are not.
    """

    operators: tuple[str, ...]
    symmetric: bool


CPU = Scheme(OPERATORS, symmetric=False)
TENSORRT = Scheme(WEIGHTED, symmetric=True)


@dataclass(frozen=True, slots=True)
class QuantizationLoss:
    """How far the output `name` is off in 8 bits, over all samples.

    `largest` is the largest difference over the largest value, `rms` the root of the mean square of
    differences over that of values around their mean over the samples, the noise of
    `runtime/noise.py`; both are 0 where nothing differs. `same_best` is the share of
    samples whose largest score stays the same, where the output has one axis longer than 1 (after
    the batch) and so may hold scores; else None.
    """

    name: str
    largest: float
    rms: float
    same_best: float | None

    @property
    def decibels(self) -> float:
        """Signal to noise; infinite where nothing differs."""
        return -20 * log10(self.rms) if self.rms else inf


def quantize(
    path: Path, samples: Sequence[Mapping[str, np.ndarray]], scheme: Scheme = CPU
) -> bytes:
    """The model in 8 bits, with ranges from what it computes on the samples; dynamic dimensions
    stay dynamic.

    Inputs and outputs keep names and types. Layers keep their order and, as far as they are still
    there, their names, which now mean tensors of 8 bits: a cut after such a layer moves a quarter
    of the bytes and changes no result. Of Conv, BatchNormalization and Relu, the Relu means the
    tensor of 8 bits, the BatchNormalization the one before it, and no name is left of the Conv; nor
    of a Dropout or Identity. An input or output that is needed in 8 bits too has the name
    `NAME.int8` there, a tensor before its conversion that had no name `NAME.float`. Each layer
    reads tensors of its own, made by a DequantizeLinear directly before it, so that nothing has to
    cross a cut in floating point. Same file, samples and ONNX Runtime, same bytes. In the scheme of
    TensorRT a Relu stays a layer, `NAME.float`. What is read by no layer that computes in 8 bits
    crosses cuts in floating point, and outputs of the network are given out as they are made.
    Raises NetworkError: those of `read_network`, and F411 where ONNX Runtime cannot quantize the
    model.
    """
    import onnx

    read_network(path, {}, None)
    whole = onnx.load(str(path))
    _require_floats(path, whole, scheme)
    try:
        with scratch() as folder, silence():
            made, left_out = _quantized(whole, samples, folder, scheme)
    except Exception as error:  # onnx and ONNX Runtime raise types of their own
        message = f"`{path.name}` cannot be quantized: {_said(error)}"
        help_text = (
            f"check the calibration data; export the network with operator set {OPSET} or later"
        )
        raise NetworkError("F411", message, help_text) from error
    arranged = _Arranged(made.graph, whole.graph, left_out, scheme)
    if not arranged.scales:
        raise NetworkError(
            "F411", f"no layer of `{path.name}` runs in 8 bits", "leave `precision` out"
        )
    model = onnx.ModelProto(
        ir_version=max(IR, whole.ir_version),
        producer_name="flowc",
        domain=whole.domain,
        model_version=whole.model_version,
        doc_string=whole.doc_string,
        metadata_props=whole.metadata_props,
        graph=arranged.graph(),
    )
    domains = {n.domain or "" for n in model.graph.node}
    model.opset_import.extend(o for o in made.opset_import if o.domain in domains)
    return bytes(model.SerializeToString(deterministic=True))


def _require_floats(path: Path, whole: Any, scheme: Scheme) -> None:
    """Raise NetworkError for a model that is quantized already, or that has other floating point
    than ranges are found from."""
    from onnx import TensorProto

    if any(n.op_type in PAIR for n in whole.graph.node):
        raise NetworkError("F411", f"`{path.name}` is quantized already", "leave `precision` out")
    if not scheme.symmetric:
        return
    constants = list(whole.graph.initializer)
    for node in whole.graph.node:
        if node.op_type == "Constant":
            constants += (a.t for a in node.attribute)
    if any(t.data_type == TensorProto.FLOAT16 for t in constants):
        message = f"`{path.name}` computes in fp16, and 8 bits are found from fp32"
        raise NetworkError("F411", message, "export it in fp32")


def loss(
    path: Path, quantized: bytes, samples: Sequence[Mapping[str, np.ndarray]]
) -> tuple[QuantizationLoss, ...]:
    """What a model loses by quantization on samples, by output. Raises whatever ONNX Runtime raises
    on them.

    Outputs whose size turns out another (boxes that are found or not) cannot be compared: they are
    left out. One that joins tensors of different ranges has a loss for each of these, since the
    loss of the whole would be that of the large one.
    """
    exact, coarse = _session(str(path)), _session(quantized)
    names = [o.name for o in exact.get_outputs()]
    joined = parts(path, samples)
    sums: dict[str, _Sum] = {}
    for sample in samples:
        for name, wanted, found in zip(
            names, exact.run(names, sample), coarse.run(names, sample), strict=True
        ):
            if name in joined and wanted.shape == found.shape:
                for part in joined[name]:
                    sums.setdefault(part.name, _Sum()).add(part.of(wanted), part.of(found))
            else:
                sums.setdefault(name, _Sum()).add(wanted, found)
    return tuple(t.loss(name) for name, t in sums.items() if t.alike)


@contextmanager
def silence() -> Iterator[None]:
    """What the quantizer logs and prints is about its own means."""
    import onnxruntime as ort

    before = logging.root.manager.disable
    # Without a handler, the first message would give the root logger one for good.
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    logging.disable(logging.CRITICAL)
    ort.set_default_logger_severity(4)
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        ort.set_default_logger_severity(2)
        logging.disable(before)
        logging.root.removeHandler(handler)


def _quantized(
    whole: Any, samples: Sequence[Mapping[str, np.ndarray]], folder: Path, scheme: Scheme
) -> tuple[Any, set[str]]:
    """What the quantizer of ONNX Runtime makes of a model whose constants and normalizations are
    folded.

    Also the names of those of the scheme's operators that stay in floating point all the same.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    prepared, result = folder / "prepared.onnx", folder / "quantized.onnx"
    model = _prepared(whole, prepared)
    for node in model.graph.node:
        # Two nodes of one name would confuse the quantizer.
        node.name = first_output(node)
    left_out = _left_out(model.graph, scheme)
    if not scheme.symmetric:  # there, what no layer in 8 bits reads stays as it is
        left_out |= tail(model, samples)
    # Types of what only ONNX Runtime knows; it does not write them itself.
    made = made_by(model.graph.node)
    model.graph.value_info.extend(v for v in whole.graph.value_info if v.name in made)
    onnx.save(model, str(prepared))
    quantize_static(
        str(prepared),
        str(result),
        Reader(samples),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(scheme.operators),
        nodes_to_exclude=sorted(left_out),
        per_channel=True,
        activation_type=QuantType.QInt8 if scheme.symmetric else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        extra_options=_symmetric(scheme.operators) if scheme.symmetric else {},
    )
    return onnx.load(str(result)), left_out


def _prepared(whole: Any, target: Path) -> Any:
    """The model with its constants and normalizations folded by ONNX Runtime, which writes it to a
    file."""
    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    # Layers that happen to be the same remain two, each with its name.
    kept = ["CommonSubexpressionElimination"]
    plain = _plain(whole).SerializeToString()
    ort.InferenceSession(
        plain, options, providers=["CPUExecutionProvider"], disabled_optimizers=kept
    )
    return onnx.load(str(target))


def _left_out(graph: Any, scheme: Scheme) -> set[str]:
    """The names of the nodes that are not to be quantized though the scheme has their operators."""
    from onnx import TensorProto

    # What is added to each element alike is part of the layer before it, for TensorRT.
    least = 1 if scheme.symmetric else 2
    constants = set()
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and prod(tensor.dims) >= least:
            constants.add(tensor.name)
    results = {v.name for v in graph.output}
    left_out = set()
    for node in graph.node:
        if node.op_type in WITHOUT_CONSTANTS and not constants.isdisjoint(node.input):
            left_out.add(node.name)
        # The quantizer would cut off its input for all others too.
        if node.op_type in RECTIFIERS and node.input[0] in results:
            left_out.add(node.name)
    return left_out


def _symmetric(operators: Sequence[str]) -> dict[str, object]:
    """What TensorRT wants of the quantizer; weights stay in floating point, in front of a pair of
    their own.
    """
    return {
        "ActivationSymmetric": True,
        "AddQDQPairToWeight": True,
        "QuantizeBias": False,
        "OpTypesToExcludeOutputQuantization": list(operators),
    }


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _session(model: str | bytes) -> Any:
    import onnxruntime as ort

    def options() -> Any:
        quiet = ort.SessionOptions()
        quiet.log_severity_level = 3
        return quiet

    return opened(model, options)


class _Sum:
    """Differences of one output, sample by sample."""

    def __init__(self) -> None:
        from ...runtime.noise import OutputNoise

        self._difference = self._value = 0.0
        self._noise = OutputNoise()
        self._same: list[float] = []
        self.alike = True

    def add(self, wanted: np.ndarray, coarse: np.ndarray) -> None:
        """What the network gives for one sample, and what it gives in 8 bits."""
        import numpy as np

        self.alike &= wanted.shape == coarse.shape
        if not self.alike:
            return
        exact = wanted.astype(np.float64)
        off = np.abs(exact - coarse)
        self._difference = max(self._difference, off.max(initial=0))
        self._value = max(self._value, np.abs(exact).max(initial=0))
        self._noise.add(exact, coarse)
        long = [k for k, size in enumerate(wanted.shape) if size > 1 and (k or wanted.ndim == 1)]
        if len(long) == 1:
            axis = long[0]
            self._same.append(float((wanted.argmax(axis) == coarse.argmax(axis)).mean()))

    def loss(self, name: str) -> QuantizationLoss:
        """Of a network that gives nothing but zeros, everything else is infinitely far off."""
        largest = _share(self._difference, self._value)
        noise = self._noise.db
        rms = 0.0 if noise is None else 10 ** (-noise / 20)
        best = sum(self._same) / len(self._same) if self._same else None
        return QuantizationLoss(name, float(largest), rms, best)


def _share(part: float, whole: float) -> float:
    """0 of nothing is 0, all else of nothing is infinite."""
    if not part:
        return 0.0
    return part / whole if whole else inf


class Reader:
    """What the quantizer asks for samples."""

    def __init__(self, samples: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self._samples, None)


def _plain(whole: Any) -> Any:
    """A copy in an operator set that the quantizer can write to, where neither weights nor outputs
    are inputs.
    """
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(whole)
    model.ir_version = max(IR, model.ir_version)
    inputs = _inputs(whole.graph)
    names = {v.name for v in inputs}
    del model.graph.input[:], model.graph.output[:]
    model.graph.input.extend(inputs)
    model.graph.output.extend(v for v in whole.graph.output if v.name not in names)
    for node in model.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
    if max(o.version for o in model.opset_import if o.domain in STANDARD) < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    return model


def _inputs(graph: Any) -> list[Any]:
    """Without weights, which had to be listed before version 4 of the format."""
    weights = {t.name for t in graph.initializer}
    return [v for v in graph.input if v.name not in weights]


class _Arranged:
    """A quantized graph: pairs around data taken out, and put back in so that every cut is a good
    one.

    `scales` are scale and zero point of each tensor that has a pair.
    """

    def __init__(self, made: Any, whole: Any, left_out: Set[str], scheme: Scheme) -> None:
        self._made, self._whole = made, whole
        self._on_cpus = not scheme.symmetric
        self._inputs = [v.name for v in _inputs(whole)]
        self._results = {v.name for v in whole.output}
        #: Those that are there before any conversion, under their own names.
        self._plain = set(self._inputs)
        if scheme.symmetric:
            self._plain |= self._results
        self.scales: dict[str, tuple[str, str]] = {}
        self._nodes = self._without_pairs()
        self._spare_sums(left_out, scheme.operators)
        if scheme.symmetric:
            self._spare_joined()
        self._used = {*self._inputs, *self._results, *(t.name for t in made.initializer)}
        self._used |= made_by(self._nodes)

    def _without_pairs(self) -> list[Any]:
        """The nodes but those of pairs around data, whose scales are noted."""
        coded = self._coded()
        names: dict[str, str] = {}
        rest = []
        for node in self._made.node:
            if node.op_type == PAIR[1] and node.input[0] in coded:
                _, scale, zero = node.input
                before, behind = coded[node.input[0]], node.output[0]
                # An output of the network has its name behind the pair, all other tensors before
                # it.
                name = behind if behind in self._results else before
                names[before] = names[behind] = name
                self.scales[name] = scale, zero
            elif node.output[0] not in coded:
                rest.append(node)
        for node in rest:
            node.input[:] = [names.get(t, t) for t in node.input]
            node.output[:] = [names.get(t, t) for t in node.output]
        return rest

    def _coded(self) -> dict[str, str]:
        """What tensors of 8 bits are converted from, without weights."""
        weights = {t.name for t in self._made.initializer}
        coded = {}
        for node in self._made.node:
            if node.op_type == PAIR[0] and node.input[0] not in weights:
                coded[node.output[0]] = node.input[0]
        return coded

    def _spare_sums(self, left_out: Set[str], operators: Sequence[str]) -> None:
        """Results of a sum without a reader in 8 bits stay in floating point: more exact, and not
        clipped to ranges.

        Not those of a rectifier that has become part of a sum, for it is nothing but the range.
        """
        in_8_bits = (n for n in self._nodes if n.op_type in operators and n.name not in left_out)
        kept = read_by(in_8_bits) | made_by(self._rectifiers())
        for node in self._nodes:
            if node.op_type in SUMS and node.output[0] not in kept:
                self.scales.pop(node.output[0], None)

    def _rectifiers(self) -> list[Any]:
        return [n for n in self._whole.node if n.op_type in RECTIFIERS]

    def _spare_joined(self) -> None:
        """A layer and the sum behind it are one kernel of TensorRT, unless something stands between
        them.

        So of what a sum reads, one tensor that a layer with weights makes for it alone is not
        quantized: the last one.
        """
        readers = Counter(self._results)
        makers: dict[str, int] = {}
        for number, node in enumerate(self._nodes):
            readers.update(node.input)
            if node.op_type in WEIGHTED and node.op_type != "Add":
                makers[node.output[0]] = number
        for node in self._nodes:
            if node.op_type == "Add":
                own = [t for t in node.input if t in makers and readers[t] == 1]
                if own:
                    self.scales.pop(max(own, key=makers.__getitem__), None)

    def graph(self) -> Any:
        """The graph with its pairs, and with the inputs and outputs of the whole."""
        from onnx import helper

        plain, coded = self._names()
        nodes = self._with_pairs(plain, coded)
        if self._on_cpus:
            nodes = self._with_own_weights(nodes)
        # Of what operators make that only ONNX Runtime knows; the types of all else can be
        # inferred.
        own = made_by(n for n in nodes if n.domain not in STANDARD)
        types = {plain.get(v.name, v.name): v.type for v in self._made.value_info}
        read = read_by(nodes) | self._results
        weights = [t for t in self._made.initializer if t.name in read]
        return helper.make_graph(
            nodes,
            self._whole.name,
            _inputs(self._whole),
            list(self._whole.output),
            sorted(weights, key=lambda t: t.name),
            self._whole.doc_string,
            [helper.make_value_info(t, kind) for t, kind in types.items() if t in own],
            [t for t in self._made.sparse_initializer if t.values.name in read],
        )

    def _with_pairs(self, plain: Mapping[str, str], coded: Mapping[str, str]) -> list[Any]:
        """The nodes in their order, and conversions behind what makes a tensor and before each of
        its readers."""
        readers: Counter[str] = Counter()
        nodes: list[Any] = []
        for tensor in self._inputs:
            nodes += self._closed(tensor, plain, coded)
        for node in self._in_order():
            for k, tensor in enumerate(node.input):
                if tensor in self.scales:
                    readers[tensor] += 1
                    node.input[k] = self._new(f"{coded[tensor]}.{readers[tensor]}")
                    nodes.append(self._conversion(PAIR[1], coded[tensor], node.input[k], tensor))
            made = list(node.output)
            node.output[:] = [plain.get(t, t) for t in made]
            node.name = first_output(node)
            nodes.append(node)
            for tensor in made:
                nodes += self._closed(tensor, plain, coded)
        return nodes

    def _with_own_weights(self, nodes: list[Any]) -> list[Any]:
        """The nodes, each with weights in 8 bits of its own: ONNX Runtime's mode that is exact on
        all CPUs takes no others (`runtime/session.py`)."""
        weights = {t.name: t for t in self._made.initializer}
        made: dict[str, Any] = {}
        taken: set[str] = set()
        found = []
        for node in nodes:
            if node.op_type == PAIR[1] and node.input[0] in weights:
                made[node.output[0]] = node
            for k, tensor in enumerate(node.input):
                if tensor in taken:
                    own = self._copied(made[tensor], weights)
                    node.input[k] = own.output[0]
                    found.append(own)
                elif tensor in made:
                    taken.add(tensor)
            found.append(node)
        return found

    def _copied(self, conversion: Any, weights: Mapping[str, Any]) -> Any:
        """The conversion of a copy of weights, with a copy of its scale and zero point."""
        own = type(conversion)()
        own.CopyFrom(conversion)
        for k, name in enumerate(conversion.input):
            copy = self._made.initializer.add()
            copy.CopyFrom(weights[name])
            own.input[k] = copy.name = self._new(name)
        own.output[0] = own.name = self._new(conversion.output[0])
        return own

    def _closed(
        self, tensor: str, plain: Mapping[str, str], coded: Mapping[str, str]
    ) -> Iterator[Any]:
        """The conversions behind what makes a tensor."""
        if tensor in self.scales:
            yield self._conversion(PAIR[0], plain[tensor], coded[tensor], tensor)
            if tensor in self._results and tensor not in self._plain:
                yield self._conversion(PAIR[1], coded[tensor], tensor, tensor)

    def _conversion(self, kind: str, source: str, target: str, tensor: str) -> Any:
        """A node of a pair, with the scale of a tensor."""
        from onnx import helper

        return helper.make_node(kind, [source, *self.scales[tensor]], [target], target)

    def _names(self) -> tuple[dict[str, str], dict[str, str]]:
        """What tensors that have a pair are called before it, and in 8 bits."""
        border = self._results.union(self._inputs)
        coded = {t: self._new(f"{t}.int8") if t in border else t for t in self.scales}
        # A rectifier that has become part of a layer leaves it the name of what it read.
        freed = {n.output[0]: n.input[0] for n in self._rectifiers()}
        plain = {}
        for tensor in self.scales:
            if tensor in self._plain:
                plain[tensor] = tensor
                continue
            name = freed.get(tensor, tensor)
            if name in self._used:
                name = f"{tensor}.float"
            plain[tensor] = self._new(name)
        return plain, coded

    def _new(self, name: str) -> str:
        while name in self._used:
            name += "'"
        self._used.add(name)
        return name

    def _in_order(self) -> list[Any]:
        """As in the whole; what is not of it comes directly before its first reader."""
        order: dict[str, int] = {}
        for number, node in enumerate(self._whole.node):
            order |= dict.fromkeys(node.output, number)
        readers: dict[str, list[int]] = {}
        for number, node in enumerate(self._nodes):
            for tensor in node.input:
                readers.setdefault(tensor, []).append(number)
        end = len(order)
        places = [order.get(first_output(n), end) for n in self._nodes]
        for number in reversed(range(len(places))):  # the quantizer sorts nodes
            node = self._nodes[number]
            if first_output(node) not in order:
                behind = chain.from_iterable(readers.get(t, ()) for t in node.output)
                places[number] = min((places[reader] for reader in behind), default=end)
        return in_order(self._nodes, places)
