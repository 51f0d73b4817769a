"""Layers that process their data by parts, so that buffers hold some rows instead of whole tensors.

In: a Cnn. Out: cyclo-static applications, one actor per layer, one token per element (no code, no
types, no times). The least buffers and the order of phases that reaches them are the analysis's
business.

After Minakova's thesis, ch. 4. `by_parts` differs from its Algorithm 4, which is kept as
`algorithm4`, in two ways. Rows that are needed again stay in the buffer of the edge, and
`Channel.frees` says what is given back: Algorithm 4 moves them into self-loops, which in the
example of Fig. 4.1 need 1280 elements beside the 978 that the thesis reports. And rates follow from
the rows that are needed, whatever the window; Algorithm 4 fails on ordinary layers.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from ...model.application import Application
from ..onnx.interface import NetworkError
from ..onnx.layers import Cnn, EveryRow, Layer, LayerEdge, RowWindow, Scaled, Transposed
from .layerwise import ActorChannel, application

#: Rows of a layer that are worked through one by one.
MOST_ROWS = 100_000
#: Rows that a layer takes, in messages.
_WORDS = {
    EveryRow: "whole",
    RowWindow: "window",
    Scaled: "scaled",
    Transposed: "transposed",
}


class DoesNotApply(Exception):
    """Algorithm 4 gives no valid rates for a layer; the message names it and the reason."""


def layerwise_elements(cnn: Cnn) -> int:
    """Elements in all buffers when every layer takes its data at once: the sum of |e.data| (thesis,
    ch. 4.4, Ex1)."""
    return sum(edge.elements for layer in cnn.layers for edge in layer.inputs)


def by_parts(cnn: Cnn, name: str, *, loops: bool = False) -> Application:
    """Every layer with its phases. A phase takes the rows that no phase before it has needed and
    frees those that no later phase needs; the last phase takes and frees what is left, so that
    every frame starts anew.

    With `loops`, rows that are needed again go through a self-loop of the layer instead, as in
    Algorithm 4: a graph for tools in which a firing frees what it takes.

    It holds for padding of any size on either side, strides above the kernel, dilation, remainders
    that no window reaches, and several inputs. Totals of a frame are equal on both sides, and
    nothing is freed before it was taken.
    """
    tallest = max(cnn.layers, key=lambda layer: layer.shape[1])
    if tallest.shape[1] > MOST_ROWS:
        message = (
            f"layer `{tallest.name}` of `{cnn.file}` has {tallest.shape[1]} rows: by parts,"
            f" {MOST_ROWS} at most"
        )
        raise NetworkError("F105", message, "leave `--by-parts` out")
    phases = {layer.name: layer.phases for layer in cnn.layers}
    arrows = []
    for layer in cnn.layers:
        for edge in layer.inputs:
            taken, freed = rows_by_phase(layer, edge)
            consumed, frees = (tuple(edge.row * n for n in rows) for rows in (taken, freed))
            produced = _produced(edge, phases)
            if not loops:
                arrows.append(ActorChannel(edge.source, layer.name, produced, consumed, frees))
                continue
            arrows.append(ActorChannel(edge.source, layer.name, produced, consumed))
            kept = [a - b for a, b in zip(accumulate(consumed), accumulate(frees), strict=True)]
            if any(kept):
                arrows.append(ActorChannel(layer.name, layer.name, tuple(kept), (0, *kept[:-1])))
    return application(name, cnn.file, {x.name: x.operator for x in cnn.layers}, arrows)


def rows_by_phase(layer: Layer, edge: LayerEdge) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows of an edge that each phase of its layer takes, and rows that each phase frees at its
    end."""
    step = layer.shape[1] // layer.phases
    last, first = [0] * layer.phases, [edge.height] * layer.phases
    for row in range(layer.shape[1]):
        needed = edge.rows.needs(row, edge.height)
        if needed:
            phase = row // step
            last[phase] = max(last[phase], needed.stop)
            first[phase] = min(first[phase], needed.start)
    taken = [*accumulate(last[:-1], max), edge.height]
    needed_later = [*accumulate(reversed(first[1:]), min)][::-1]
    freed = [*map(min, needed_later, taken), edge.height]
    taken_by_phase, freed_by_phase = (
        tuple(b - a for a, b in pairwise([0, *rows])) for rows in (taken, freed)
    )
    return taken_by_phase, freed_by_phase


def algorithm4(cnn: Cnn, name: str) -> Application:
    """The thesis's Algorithm 4 as printed: what overlaps goes through a self-loop of the layer; for
    comparison.

    A layer that takes everything is a window as high as its data. A self-loop without tokens (a
    layer of one phase) is left out. Line 26 is read with its text: a layer of one phase produces
    all its rows in it.

    Raises DoesNotApply where rates are negative or do not add up: the last phase takes fewer rows
    by as many as are padded below, but these may be more than the stride (7x7 with stride 2 and
    padding 3 on 224 rows: -1), and the last window may end before the padding or the data does (3x3
    with stride 2 and padding 1 on 56 rows: 55 of 56). Also for what is no sliding window: data
    broadcast over rows, transposed convolutions, scaling.
    """
    phases = {layer.name: layer.phases for layer in cnn.layers}
    arrows = []
    for layer in cnn.layers:
        for edge in layer.inputs:
            window = _as_window(layer, edge)
            taken = _printed(layer, edge, window)
            consumed = tuple(edge.row * n for n in taken)
            arrows.append(ActorChannel(edge.source, layer.name, _produced(edge, phases), consumed))
            overlap = (window.span - window.stride) * edge.row
            if overlap > 0 and layer.phases > 1:
                again = (overlap,) * (layer.phases - 1)
                arrows.append(ActorChannel(layer.name, layer.name, (*again, 0), (0, *again)))
    return application(name, cnn.file, {x.name: x.operator for x in cnn.layers}, arrows)


def _as_window(layer: Layer, edge: LayerEdge) -> RowWindow:
    if isinstance(edge.rows, RowWindow):
        return edge.rows
    if isinstance(edge.rows, EveryRow) and layer.phases == 1:
        return RowWindow(edge.height)
    raise DoesNotApply(
        f"layer {layer.name!r}: {_WORDS[type(edge.rows)]} rows are no sliding window"
    )


def _printed(layer: Layer, edge: LayerEdge, window: RowWindow) -> list[int]:
    """Rows per phase, lines 27-36."""
    first = window.span - window.top
    if layer.phases == 1:
        rows = [first - window.bottom]
    else:
        later = min(window.stride, window.span)
        rows = [first, *[later] * (layer.phases - 2), later - window.bottom]
    if min(rows) < 0:
        phase = rows.index(min(rows)) + 1
        raise DoesNotApply(
            f"layer {layer.name!r}: phase {phase} of {layer.phases} would take {min(rows)} rows"
        )
    if sum(rows) != edge.height:
        raise DoesNotApply(
            f"layer {layer.name!r}: its phases take {sum(rows)} rows, the data has {edge.height}"
        )
    return rows


def _produced(edge: LayerEdge, phases: dict[str, int]) -> tuple[int, ...]:
    return (edge.elements // phases[edge.source],) * phases[edge.source]
