"""System E: layers that process their data in phases (Minakova's thesis, ch. 4; DSD 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import prod
from pathlib import Path

import numpy as np
import onnx
import structures
from flowc.analysis.dataflow.buffers import least_capacities
from flowc.analysis.dataflow.graph import graph_of
from flowc.analysis.dataflow.repetition import repetition
from flowc.driver.show.networks import network_by_thesis, network_memory
from flowc.model.application import Application
from flowc.networks.dataflow.by_parts import DoesNotApply, algorithm4, by_parts
from flowc.networks.onnx.layers import Cnn
from flowc.networks.onnx.read_layers import read_layers
from published_systems.rows import (
    ARITHMETIC,
    Table,
    absent,
    board,
    by_benchmark,
    numbers,
    same,
    table,
)

from minakova_examples import figure_4_1

TITLE = "E. Low-memory inference: layers in phases"
SOURCE = "S. Minakova's thesis, chapter 4 (DSD 2020)"
MB = 1e6


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield absent(
        "Figures 4.2 to 4.4.",
        "drawings, which have no results",
    )
    yield _executions()
    yield _graph()
    yield _footprints()
    yield _networks()
    yield _layers()
    yield board("Table 4.2, rates.", "a Jetson TX2 with TensorRT")


def _least(app: Application) -> list[int]:
    """Capacities of the channels, in their order."""
    found = least_capacities(graph_of(app, repetition(app).vector, overlap=True))
    return [found.capacities[k] for k in range(len(app.channels))]


def _executions() -> Table:
    told = {
        "Ex1": ((1, 1, 1, 1, 1), (1024, 1024, 48, 2), 2098),
        "Ex2": ((2, 2, 1, 1, 1), (768, 1024, 48, 2), 1842),
        "Ex3": ((32, 16, 1, 1, 1), (544, 1024, 48, 2), 1618),
        "Ex4": ((32, 16, 4, 1, 1), (544, 384, 48, 2), 978),
    }
    rows = []
    for name, (phases, buffers, total) in told.items():
        found = _least(by_parts(figure_4_1(phases), "A"))
        rows.append((name, numbers(phases), numbers(buffers), total, numbers(found), sum(found),
                     same(total, sum(found))))  # fmt: skip
    return table(
        "Table 4.1, four executions of Fig. 4.1 (bytes).",
        "Ex2 differs: the thesis gives layer 1 two phases of 24 rows, of 32 rows in all, so that"
        " it makes the 16 rows between them twice; in flowc a layer makes each row once, 16 in"
        " each of two phases, and the second is there before layer 2 can begin. Ex4 takes less"
        " in both.",
        "execution | phases | paper | sum | flowc | sum | ",
        rows,
        filled_by=by_benchmark(
            "numbers of phases are given to layers, where `flowc analyze NET.onnx --by-parts` takes each"
            " row as a phase"
        ),
    )


def _rates(app: Application, source: str, destination: str, *, taken: bool) -> str:
    (c,) = (
        c for c in app.channels if (c.source, c.destination) == (f"A.{source}", f"A.{destination}")
    )
    end = (c.destination, c.destination_port) if taken else (c.source, c.source_port)
    rates = app.task(end[0]).port(end[1]).rates
    return numbers(f"{len([*run])} x {rate}" for rate, run in groupby(rates))


def _graph() -> Table:
    """Figure 4.5 and the sizes of its buffers."""
    cnn = figure_4_1()
    printed, ours = algorithm4(cnn, "A"), by_parts(cnn, "A")
    found = [repetition(app).vector for app in (printed, ours)]
    phases = ["32, 16, 4, 1, 1", *(numbers(v[f"A.{k}"] for k in range(1, 6)) for v in found)]
    capacities = _least(printed)
    loops = [c.source == c.destination for c in printed.channels]
    edges = sum(n for n, loop in zip(capacities, loops, strict=True) if not loop)
    rows = [
        ("phases (Algorithm 3)", *phases),
        ("layer 3 takes from layer 2", "1 x 384, 2 x 192, 1 x 256",
         *(_rates(app, "2", "3", taken=True) for app in (printed, ours))),
        ("layer 3 makes for layer 4", "4 x 12",
         *(_rates(app, "3", "4", taken=False) for app in (printed, ours))),
        ("layer 3 hands to itself", "3 x 128, 1 x 0", _rates(printed, "3", "3", taken=False), "-"),
        ("layer 3 takes from itself", "1 x 0, 3 x 128", _rates(printed, "3", "3", taken=True), "-"),
        ("buffers of edges", 978, edges, sum(_least(ours))),
        ("buffers of self-loops", "not told", sum(capacities) - edges, 0),
        ("all buffers", 978, sum(capacities), sum(_least(ours))),
    ]  # fmt: skip
    return table(
        "Fig. 4.5, the CSDF graph by Algorithms 3 and 4.",
        "*Computed* is Algorithm 4 as printed: it keeps overlapping rows in self-loops, which need"
        f" {sum(capacities) - edges} bytes that the thesis' {edges} leave out. In flowc they stay"
        " in the buffer of the edge, and a phase frees the rows that no later one needs: 978 is"
        " all.",
        "what | paper | computed | flowc",
        rows,
        filled_by=by_benchmark(
            "the layers of Fig. 4.1 are given as rows and bytes; of an ONNX file, `flowc analyze NET.onnx"
            " --by-parts` prints the sums"
        ),
    )


#: Of Tables 4.2 and 4.3: footprint, buffers (both by TensorRT, ours), parameters in MB; reduction
#: in %; fps by TensorRT, ours, and their reduction in %.
REPORTED = {
    "resnet18": ((51.6, 49), (4.8, 2.2), 46.8, 5, (137, 121), 12),
    "googlenet": ((38.7, 31), (10.7, 3), 28, 19.8, (118, 103), 13),
    "tiny yolo v2": ((77.3, 64.3), (14.2, 0.8), 63.5, 16.8, (131, 105), 20),
    "inception v1": ((38.3, 31), (10.3, 3), 28, 19, (122, 106), 13),
    "VGG 19": ((594, 577), (19.3, 2.3), 574.7, 2.8, (15, 14.7), 2),
    "densenet121": ((43, 40), (10.9, 7.9), 32.1, 7.5, (62, 49), 21),
    "squeezenet": ((10.4, 6.4), (5.1, 1.4), 5, 38, (342, 262), 23),
}


def _footprints() -> Table:
    rows = []
    for name, (whole, buffers, weights, less, fps, slower) in REPORTED.items():
        sums = [b + weights for b in buffers]
        rows.append(
            (name, numbers(f"{x:g}" for x in whole), numbers(f"{x:.1f}" for x in sums), f"{less:g}",
             f"{100 * (1 - whole[1] / whole[0]):.1f}", f"{slower}", f"{100 * (1 - fps[1] / fps[0]):.1f}")
        )  # fmt: skip
    return table(
        "Tables 4.2 and 4.3 with each other (MB, TensorRT then phases).",
        "Buffers and parameters of Table 4.3 are to be the footprints of Table 4.2: they are but"
        " for tiny yolo v2 and squeezenet (by 0.3 to 0.4 MB, before phases). Percentages are"
        " computed from the columns beside them.",
        "network | footprint, paper | buffers + parameters | less in %, paper | computed | slower"
        " in %, paper | computed",
        rows,
        filled_by=ARITHMETIC,
    )


#: Networks of Table 4.3 whose structure is at hand, with its layers and phases: by TensorRT, ours.
STRUCTURES = {
    "resnet18": ("resnet18_norms", 68, 1962),
    "googlenet": ("googlenet", 143, 2630),
    "tiny yolo v2": ("tiny_yolo_v2", 33, 3796),
    "VGG 19": ("light_vgg19", 46, 2354),
    "inception v1": ("light_inception_v1", 143, 2494),
    "squeezenet": ("light_squeezenet", 66, 1870),
    "densenet121": ("light_densenet121", 428, 8935),
}


def paths(folder: Path, names: list[str]) -> dict[str, Path]:
    """Files of structures; those of the onnx package lie there."""
    made = [n for n in names if not n.startswith("light_")]
    found = structures.write(folder, made)
    return {n: found.get(n, structures.LIGHT / f"{n}.onnx") for n in names}


def parameters(path: Path) -> float:
    """MB of the weights in a network, 4 bytes each."""
    graph = onnx.load(str(path)).graph
    weights = [i for i in graph.initializer if i.data_type == onnx.TensorProto.FLOAT]
    count: int = sum(prod(i.dims) for i in weights)
    known: dict[str, np.ndarray] = {
        i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer
    }
    for node in graph.node:
        # The light networks make their weights of a shape and a constant.
        if node.op_type == "ConstantOfShape":
            count += int(known[node.input[0]].prod())
    return 4 * count / MB


def _networks() -> Table:
    rows = []
    folder = Path(structures.__file__).resolve().parents[1] / "build" / "networks"
    files = paths(folder, [name for name, _, _ in STRUCTURES.values()])
    for name, (file, layers, phases) in STRUCTURES.items():
        cnn = read_layers(files[file])
        inner = [x for x in cnn.layers if x.operator not in ("input", "output")]
        memory, rules = network_memory(files[file]), network_by_thesis(files[file])
        printed = "fails" if memory.algorithm4 is None else f"{4 * memory.algorithm4 / MB:.1f}"
        _, buffers, weights, *_ = REPORTED[name]
        rows.append(
            (name, f"{layers}, {phases}", f"{len(inner)}, {sum(x.phases for x in inner)}",
             f"{weights:g}", f"{parameters(files[file]):.1f}", f"{buffers[0]:g}",
             f"{rules.whole / MB:.1f}", f"{buffers[1]:g}", printed, f"{4 * memory.by_parts / MB:.1f}",
             f"{rules.parts / MB:.1f}", f"{4 * memory.layerwise / MB:.0f}")
        )  # fmt: skip
    return table(
        "Table 4.3, real networks by their structure (MB).",
        "Layers and phases are those of the thesis, but for densenet121: in the file at"
        " hand each normalization has a Mul and an Add behind it; without these it has 426 layers"
        " and 8591 phases. googlenet has 136 phases"
        " more than inception v1 because its pools round up: 56, 28, 14 and 7 rows for 55, 27, 13"
        " and 6. *Whole* is TensorRT's buffers beside buffers shared by"
        " Algorithm 8 without phases. *In phases* is the thesis' number; then Algorithm 4 as"
        " printed, which fails on the first layer of ordinary networks (padding above the stride,"
        " rows that no window reaches); then flowc's rates with a buffer for each edge, whose least"
        " capacities are proved; then the same with buffers shared. Each edge counts, also the"
        " input's, and no layers are fused, as TensorRT's are: so most of flowc's sums are above"
        " the thesis'. *Each its own* keeps all tensors.",
        "network | layers, phases, paper | flowc | parameters, paper | computed | whole, paper |"
        " Algorithm 8 | in phases, paper | Algorithm 4 | flowc | flowc, shared | each its own",
        rows,
        filled_by="`flowc analyze NET.onnx --by-parts` (*Algorithm 4*, *flowc*, *each its own*); *Algorithm 8*"
        " and *flowc, shared* are what `flowc analyze NET.onnx --memory` takes from the thesis, by its"
        " function: the command itself refuses files that make their weights of a shape",
    )


def _layers() -> Table:
    """Where Algorithm 4 fails."""
    from flowc.networks.onnx.layers import Layer, LayerEdge, RowWindow

    cases = {
        "7 x 7, stride 2, padding 3, of 224 rows": (RowWindow(7, 2, top=3, bottom=3), 224, 112),
        "3 x 3, stride 2, padding 1, of 56 rows": (RowWindow(3, 2, top=1, bottom=1), 56, 28),
        "1 x 1, stride 2, of 56 rows": (RowWindow(1, 2), 56, 28),
    }
    rows = []
    for name, (window, before, after) in cases.items():
        data = Layer("data", "input", (1, before, 1, 1), 1, before, ())
        edge = LayerEdge("data", before, before, window)
        cnn = Cnn((data, Layer("conv", "Conv", (1, after, 1, 1), 1, after, (edge,))), "f")
        try:
            algorithm4(cnn, "A")
            printed = "works"
        except DoesNotApply as error:
            printed = str(error).partition(": ")[2]
        rows.append((name, printed, _rates(by_parts(cnn, "A"), "data", "conv", taken=True)))
    return table(
        "Algorithm 4 on layers of common networks.",
        "Lines 27 to 36 take padding below for less than the stride, and every row for one that"
        " some window reaches.",
        "layer | Algorithm 4 | flowc takes rows",
        rows,
        filled_by=by_benchmark(
            "single layers; of a network that has one, `flowc analyze NET.onnx --by-parts` names it as"
            " the reason why Algorithm 4 does not apply"
        ),
    )
