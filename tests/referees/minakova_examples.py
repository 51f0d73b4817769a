"""The examples and tables of Minakova's thesis as data: chapters 3 to 6.

Tests and `benchmarks/published.py` compute what they say. Shapes that only a picture has are ones
that fit the text; each name says which figure or table it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod

from flowc.analysis.minakova import BufferedEdge
from flowc.analysis.sbrs import Alternative, ComparedLayer
from flowc.networks.onnx.layers import SAME, WHOLE, Cnn, Layer, LayerEdge, Rows, RowWindow


# -- chapter 3 -------------------------------------------------------------------------------------
def chain(edges: Sequence[tuple[str, str]], sizes: Mapping[str, int] = {}) -> Cnn:
    """Layers of one row, in the order in which they appear; `sizes` are elements of their data."""
    names = list(dict.fromkeys(n for e in edges for n in e))
    layers = []
    for n in names:
        inputs = tuple(LayerEdge(a, sizes.get(a, 7), 1, WHOLE) for a, b in edges if b == n)
        layers.append(Layer(n, "Conv", (1, 1, 1, sizes.get(n, 7)), 4, 1, inputs))
    return Cnn(tuple(layers), "f")


def figure_3_2() -> Cnn:
    """23 layers and 24 edges; of their sizes the text tells those of layers 7 and 12."""
    edges = [(str(i), str(i + 1)) for i in range(1, 23) if i != 10]
    edges = sorted(
        [*edges, ("3", "6"), ("8", "11"), ("10", "13")], key=lambda e: (int(e[1]), int(e[0]))
    )
    return chain(edges, {"7": 187200, "12": 22500})


def table_3_1() -> dict[str, str]:
    """The processor of each layer of Fig. 3.2."""
    others = {2: (8, 9, 10, 13), 3: (11, 12), 4: (14, 15, 16, 17, 18, 21, 22, 23), 5: (19, 20)}
    places = {str(n): "cpu1" for n in range(1, 24)}
    places |= {str(n): f"cpu{k}" for k, own in others.items() for n in own}
    return places


# -- chapter 4 -------------------------------------------------------------------------------------
def figure_4_1(phases: Sequence[int] = (32, 16, 4, 1, 1)) -> Cnn:
    """Five layers with so many phases each."""
    shapes = [(1, 32, 32, 1), (1, 16, 16, 4), (1, 4, 4, 3), (1, 1, 1, 2), (1, 1, 1, 2)]
    rows: list[Rows] = [RowWindow(17), RowWindow(5, 3, top=-1, bottom=-1), WHOLE, WHOLE]
    operators = ["input", "Conv", "Conv", "Gemm", "output"]
    layers = []
    for i, (shape, operator, p) in enumerate(zip(shapes, operators, phases, strict=True)):
        edges = (
            (LayerEdge(str(i), prod(shapes[i - 1]), shapes[i - 1][1], rows[i - 1]),) if i else ()
        )
        layers.append(Layer(str(i + 1), operator, shape, 1, p, edges))
    return Cnn(tuple(layers), "fig4_1")


# -- chapter 5 -------------------------------------------------------------------------------------
#: Fig. 5.4: two scenarios of one supergraph, and their edges.
ONE: tuple[str, ...] = ("1", "2", "4", "5", "6")
TWO: tuple[str, ...] = ("1", "2", "3", "4", "5", "6")
EDGES: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {
    order: tuple(pairwise(order)) for order in (ONE, TWO)
}


def compared(*said: tuple[str, str, str, str]) -> tuple[ComparedLayer, ...]:
    """Layers of a name, an operator, a kernel and parameters."""
    return tuple(
        ComparedLayer(name, (("op", op), ("kernel", k), ("parameters", w)))
        for name, op, k, w in said
    )


#: Fig. 5.3.
FIRST = Alternative(
    "first",
    compared(("1", "input", "", ""), ("2", "conv", "3", "W2"), ("3", "conv", "5", "W31"), ("4", "gemm", "", "W4"),
             ("5", "output", "", "")),
    (("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")),
)  # fmt: skip
SECOND = Alternative(
    "second",
    compared(("1", "input", "", ""), ("2", "conv", "3", "W2"), ("3", "pool", "2", ""), ("4", "conv", "5", "W42"),
             ("5", "gemm", "", "W4"), ("6", "output", "", "")),
    (("1", "2"), ("2", "3"), ("3", "4"), ("4", "5"), ("5", "6")),
)  # fmt: skip

#: Tables 5.4 (memory of each scenario) and 5.5 (all of them: naive, shared with A = {I, O, par} and
#: {I, O}, and the reductions in %), in MB.
TABLES_5_4_AND_5_5 = {
    "VOC": ((292.61, 210.69, 242.72, 155.48, 130.21), 1032, 230, 547, 78, 47),
    "PAMAP2": ((10.02, 4.30, 4.86, 4.11), 23.28, 22.43, 23.21, 3.64, 0.31),
    "CIFAR": ((52.87, 13.07, 18.30, 28.07), 112.31, 83.3, 107.17, 25.9, 4.57),
}


def times_of_figure_5_5() -> list[tuple[Fraction, ...]]:
    """Times of the six layers, multiples of a half up to 4, with the delays 17.5 and 12.5 of the
    text: the figure alone has the times, these are all that fit."""
    found = []
    for a, b, c, d, e in product(range(1, 9), repeat=5):
        # in halves; the last one follows from the sum
        f, odd = divmod(36 - 2 * (a + b + d + e) - c, 2)
        end = a + max(b, a) + max(d, b) + max(e, c) + max(f, d) + e + f
        if not odd and 1 <= f <= 8 and a >= 2 and end == 26:
            found.append(tuple(Fraction(x, 2) for x in (a, b, c, d, e, f)))
    return found


# -- chapter 6 -------------------------------------------------------------------------------------
#: Parts 2 and 3 are a pipeline; part 1 is the other CNN.
PIPELINE = {frozenset((2, 3))}
PIPELINED_EDGES = (
    BufferedEdge("e12^2", 2, 3072, 1, 2), BufferedEdge("e23^2(1)", 2, 6272, 2, 2), BufferedEdge("e23^2(2)", 3, 6272, 1, 1),
    BufferedEdge("e34^2", 3, 10, 1, 2),
)  # fmt: skip
#: Table 6.1.
WHOLE_EDGES = (
    BufferedEdge("e12^1", 1, 3072, 1, 2), BufferedEdge("e23^1", 1, 8192, 2, 3), BufferedEdge("e24^1", 1, 8192, 2, 4),
    BufferedEdge("e34^1", 1, 8192, 3, 4), BufferedEdge("e45^1", 1, 8192, 4, 5), *PIPELINED_EDGES,
)  # fmt: skip
#: Table 6.3: schedule l1, l2, (l3 l4 l5) x 32.
EDGES_BY_PARTS = (
    BufferedEdge("e12^1", 1, 3072, 1, 2), BufferedEdge("e23^1", 1, 8192, 2, 96), BufferedEdge("e24^1", 1, 8192, 2, 97),
    BufferedEdge("e34^1", 1, 256, 3, 97), BufferedEdge("e45^1", 1, 256, 4, 98), *PIPELINED_EDGES,
)  # fmt: skip


def _layer(name: str, channels: int, *sources: tuple[str, int]) -> Layer:
    """32 rows of 32, from others with so many channels, row by row."""
    edges = tuple(LayerEdge(s, 32 * 32 * c, 32, SAME) for s, c in sources)
    return Layer(name, "Conv", (1, 32, 32, channels), 1, 32, edges)


#: CNN1 of Fig. 6.1; its windows are in a picture: rows go one by one here.
CNN1 = Cnn(
    (_layer("l1", 3), _layer("l2", 8, ("l1", 3)), _layer("l3", 8, ("l2", 8)), _layer("l4", 8, ("l2", 8), ("l3", 8)),
     _layer("l5", 8, ("l4", 8))), "thesis",
)  # fmt: skip
