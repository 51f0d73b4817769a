"""An ONNX model cut into stages that together compute what the whole computes.

In: a model file and the last layers of all stages but the last. Out: a `Stage` each, an ONNX model
by itself. A tensor goes from the stage that makes it straight to each stage that reads it: no stage
hands on what it does not make.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from .cuts import LayerChain, folded, read_chain
from .extract import load_weights
from .interface import Border, NetworkError
from .nodes import made_by, read_by
from .own_graph import bytes_of

#: Protocol buffers end here.
LIMIT = 2**31 - 1


class SplitError(ValueError):
    """A model cannot be split in that way."""


class NoSuchLayer(SplitError):
    """`close` are the names of layers that are spelt alike."""

    def __init__(self, layer: str, file: str, close: Sequence[str]) -> None:
        hint = ""
        if close:
            hint = f"; did you mean {' or '.join(f'`{c}`' for c in close)}?"
        super().__init__(f"`{file}` has no layer `{layer}`{hint}")
        self.layer, self.file, self.close = layer, file, tuple(close)


class OutOfOrder(SplitError):
    """A stage would end before the one in front of it."""

    def __init__(self, first: str, then: str) -> None:
        super().__init__(
            f"layer `{then}` comes before `{first}`: name the last layers of stages from front to"
            " back"
        )
        self.first, self.then = first, then


class EmptyStage(SplitError):
    """No layer is left for a stage (counted from 0) after `layer`."""

    def __init__(self, stage: int, layer: str) -> None:
        super().__init__(f"no layer is left for the stage after `{layer}`")
        self.stage, self.layer = stage, layer


class TooManyStages(SplitError):
    """More stages than layers."""

    def __init__(self, stages: int, layers: int, file: str) -> None:
        super().__init__(f"`{file}` has {layers} layers: too few for {stages} stages")
        self.stages, self.layers, self.file = stages, layers, file


class StageTooLarge(SplitError):
    """A stage (counted from 0) whose weights do not fit into one ONNX file."""

    def __init__(self, stage: int, bytes: int) -> None:
        super().__init__(
            f"stage {stage} has {bytes} bytes of weights, a file holds {LIMIT}: cut it in two"
        )
        self.stage, self.bytes = stage, bytes


@dataclass(frozen=True, slots=True)
class StageInput:
    """`from_stage` makes the tensor; None for an input of the network."""

    tensor: Border
    from_stage: int | None


@dataclass(frozen=True, slots=True)
class Stage:
    """`model` is a serialized ONNX model with these inputs and outputs, in this order; it needs no
    other files.

    Outputs are what later stages read and the outputs of the network that are made here, the former
    with fixed shapes.
    """

    model: bytes
    inputs: tuple[StageInput, ...]
    outputs: tuple[Border, ...]
    layers: tuple[str, ...]


def split(
    path: Path, fixed: Mapping[str, tuple[int, ...]], batch: int | None, after: Sequence[str]
) -> tuple[Stage, ...]:
    """Cut a model after the layers `after`; `fixed` and `batch` fix dynamic dimensions as in
    `read_network`.

    Weights and what is computed from them go to each stage that uses them; what is asked of fixed
    shapes alone becomes a constant. Outputs of the network that follow from constants alone, or are
    inputs too, are given by the last stage. Raises SplitError, or NetworkError: those of
    `read_chain`, and F403 where a tensor between stages has no fixed shape or a type that numpy
    does not have.
    """
    import onnx

    chain = read_chain(path, fixed, batch)
    ends = (-1, *_places(chain, after), len(chain.layers) - 1)
    whole = _Whole(path, chain, onnx.load(str(path), load_external_data=False))
    return tuple(whole.stage(k, ends) for k in range(len(ends) - 1))


def _places(chain: LayerChain, after: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the last layers of all stages but the last; raises SplitError."""
    numbers = {x.name: k for k, x in enumerate(chain.layers)}
    for name in after:
        if name not in numbers:
            raise NoSuchLayer(name, chain.file, get_close_matches(name, numbers, 3))
    if len(after) >= len(numbers):
        raise TooManyStages(len(after) + 1, len(numbers), chain.file)
    for stage, (first, then) in enumerate(pairwise(after), 1):
        if first == then:
            raise EmptyStage(stage, first)
        if numbers[then] < numbers[first]:
            raise OutOfOrder(first, then)
    if after and after[-1] == chain.layers[-1].name:
        raise EmptyStage(len(after), after[-1])
    return tuple(numbers[name] for name in after)


class _Whole:
    """A model whose weights are read when a stage needs them."""

    def __init__(self, path: Path, chain: LayerChain, model: Any) -> None:
        self.path, self.chain, self.model = path, chain, model
        self.spans = chain.spans()
        self.nodes = list(model.graph.node)
        self.maker = {t: k for k, n in enumerate(self.nodes) for t in n.output if t}

    def stage(self, number: int, ends: Sequence[int]) -> Stage:
        """The layers after number `ends[number]`, up to `ends[number + 1]`."""
        before, end = ends[number], ends[number + 1]
        layers = self.chain.layers[before + 1 : end + 1]
        read = set[str]().union(*(x.reads for x in layers))
        outputs = [t for x in layers for t in x.makes if self._is_given_out(t, end)]
        if end == len(self.chain.layers) - 1:
            unmade = [t for t in self.chain.outputs if self._maker_of(t) < 0]
            read.update(t for t in unmade if t in self.spans)
            outputs += unmade
        inputs = tuple(self._inputs(read, ends[: number + 1]))
        results = tuple(self._output(t) for t in outputs)
        nodes = self._with_constants([self.maker[x.name] for x in layers], outputs)
        model = self._model(number, nodes, [i.tensor for i in inputs], results)
        return Stage(
            model.SerializeToString(deterministic=True),
            inputs,
            results,
            tuple(x.name for x in layers),
        )

    def _inputs(self, read: Container[str], ends: Sequence[int]) -> Iterator[StageInput]:
        """What a stage reads of the inputs of the network and of the stages before it, which end
        with these layers."""
        for tensor, (made, _) in self.spans.items():
            if tensor in read and made <= ends[-1]:
                maker = bisect_left(ends, made) - 1 if made >= 0 else None
                yield StageInput(self._fixed(tensor), maker)

    def _maker_of(self, tensor: str) -> int:
        """The number of the layer that makes a tensor; -1 for an input, and where no layer does."""
        return self.spans.get(tensor, (-1, -1))[0]

    def _is_given_out(self, tensor: str, end: int) -> bool:
        """Does a stage up to layer number `end` give out a tensor that it makes?"""
        return tensor in self.chain.outputs or self.spans[tensor][1] > end

    def _output(self, tensor: str) -> Border:
        if tensor in self.chain.outputs:
            return self.chain.tensors[tensor]
        return self._fixed(tensor)

    def _with_constants(self, layers: Sequence[int], outputs: Iterable[str]) -> list[Any]:
        """The nodes of layers and those that their constants are computed by, in the order of the
        file."""
        nodes = {k: self.nodes[k] for k in layers}
        wanted = [*outputs, *read_by(nodes.values())]
        while wanted:
            tensor = wanted.pop()
            maker = self.maker.get(tensor)
            if tensor not in self.spans and maker is not None and maker not in nodes:
                nodes[maker] = folded(self.nodes[maker], self.chain.tensors)
                wanted += nodes[maker].input
        return [nodes[k] for k in sorted(nodes)]

    def _model(
        self, number: int, nodes: Sequence[Any], inputs: Sequence[Border], outputs: Sequence[Border]
    ) -> Any:
        """A model of these nodes, with what they use of the weights and of what the whole says of
        tensors."""
        whole = self.model.graph
        border = {b.name for b in (*inputs, *outputs)}
        used = read_by(nodes) | {b.name for b in outputs}
        inner = (used | made_by(nodes)) - border
        weights = {t.name: t for t in whole.initializer if t.name in used}
        _require_one_file(number, weights.values(), nodes)

        model = self._without_graph()
        graph = model.graph
        graph.name, graph.doc_string = f"{whole.name}.{number}", whole.doc_string
        graph.metadata_props.extend(whole.metadata_props)
        graph.node.extend(nodes)
        graph.initializer.extend(weights.values())
        sparse = [t for t in whole.sparse_initializer if t.values.name in used]
        graph.sparse_initializer.extend(sparse)
        graph.value_info.extend(v for v in whole.value_info if v.name in inner)
        notes = [a for a in whole.quantization_annotation if a.tensor_name in used | border]
        graph.quantization_annotation.extend(notes)
        graph.input.extend(_value(b) for b in inputs)
        # Before version 4 of the format weights had to be listed as inputs.
        graph.input.extend(v for v in whole.input if v.name in weights)
        declared = {v.name: v for v in whole.output}
        graph.output.extend(_value(b) if b.fixed else declared[b.name] for b in outputs)
        load_weights((*graph.initializer, *_attributes(graph.node)), self.path.parent)
        return model

    def _without_graph(self) -> Any:
        """What the model says beside its graph."""
        import onnx

        model = onnx.ModelProto()
        for field, value in self.model.ListFields():
            if isinstance(value, int | str):
                setattr(model, field.name, value)
            elif field.name not in ("graph", "training_info"):
                getattr(model, field.name).extend(value)
        return model

    def _fixed(self, tensor: str) -> Border:
        """A tensor between stages; raises NetworkError where it has no fixed shape."""
        border = self.chain.tensors.get(tensor)
        if border is None or not border.fixed:
            message = (
                f"tensor `{tensor}` of `{self.chain.file}` has no fixed shape, or a type that numpy"
                " does not have"
            )
            raise NetworkError(
                "F403", message, "cut the network elsewhere, or export it with fixed shapes"
            )
        return border


def _require_one_file(number: int, weights: Collection[Any], nodes: Iterable[Any]) -> None:
    """Raise StageTooLarge where the weights of a stage do not fit into one ONNX file."""
    external = [t for t in (*weights, *_attributes(nodes)) if t.external_data]
    bytes = sum(t.ByteSize() for t in weights) + sum(map(bytes_of, external))
    if bytes > LIMIT:
        raise StageTooLarge(number, bytes)


def _value(tensor: Border) -> Any:
    import numpy as np
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(tensor.name, kind, tensor.shape)


def _attributes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Tensors in the attributes of nodes."""
    for node in nodes:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
