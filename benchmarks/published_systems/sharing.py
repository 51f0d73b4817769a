"""System G: buffers shared within and between CNNs, and reduced by parts (Minakova's thesis,
ch. 6)."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import structures
from flowc.analysis.minakova import BufferedEdge, Reduced, algorithm8, algorithm9, selected
from flowc.analysis.placement import MemoryBlock, place
from flowc.driver.show.networks import network_by_thesis
from flowc.networks.dataflow.reduced import derived
from flowc.networks.onnx.read_layers import read_layers
from published_systems.phases import MB, parameters, paths
from published_systems.rows import Table, absent, board, by_benchmark, numbers, table

from minakova_examples import CNN1, EDGES_BY_PARTS, PIPELINE, PIPELINED_EDGES, WHOLE_EDGES

TITLE = "G. Joint memory of several CNNs"
SOURCE = "S. Minakova's thesis, chapter 6 (TODAES 2022)"


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield absent(
        "Table 6.5, Figures 6.1 and 6.2.",
        "a comparison in words, and drawings, which have no results",
    )
    yield _example()
    yield _orders()
    yield _chosen()
    yield _networks()
    yield _several()
    yield _selected()
    yield absent(
        "Table 6.6, applications 3 and 4 (pipelines of MobileNet V2 and EfficientNet B0).",
        "the cuts between their partitions are those of another paper, [67], and are not printed;"
        " which buffers two partitions use at once follows from them. The thesis has 61.69, 20.32,"
        " 17.38 and 15.92 MB (none, [76], [65], least), and 163.65, 39.14, 44.18 and 31.34 MB",
    )
    yield absent(
        "Tables 6.7 and 6.8, applications and precisions of Fig. 6.3.",
        "what is asked of the applications (rates and memory) and the names of four precisions."
        " What they reach is in the bars of Fig. 6.3 only",
    )
    yield board("Table 6.6, rates, and Fig. 6.3.", "a Jetson TX2 with TensorRT")


def _total(edges: Sequence[BufferedEdge]) -> int:
    return sum(b.size for b in algorithm8(edges, PIPELINE))


def _arena(edges: Sequence[BufferedEdge]) -> int:
    """The least arena of the example: the tensor of e23 and e24 is there once, and the pipeline,
    whose copies are alive all the time, runs when the first CNN does not."""
    one = [e for e in edges if e.part == 1 and e.name != "e23^1"]
    items = [MemoryBlock(e.size, e.first, e.last) for e in one]
    end = max(e.last for e in one)
    items += [MemoryBlock(e.size, end + 1, end + 2) for e in PIPELINED_EDGES]
    placed = place(items, seconds=2.0)
    assert placed.proved
    return placed.total


def _example() -> Table:
    def buffers(edges: Sequence[BufferedEdge]) -> str:
        return numbers(b.size for b in algorithm8(edges, PIPELINE))

    whole, _ = derived(CNN1, (), 1)
    parts, _ = derived(CNN1, ("l3", "l4", "l5"), 1)
    rows = [
        ("6.1, each edge its own", "51446", str(sum(e.size for e in WHOLE_EDGES)), "-", "-"),
        ("6.2, shared: 8192, 8192, 8192, 10", "24586", str(_total(WHOLE_EDGES)),
         buffers(WHOLE_EDGES), str(_arena(WHOLE_EDGES))),
        ("the same, edges derived by flowc", "24586", str(_total([*whole, *PIPELINED_EDGES])),
         buffers([*whole, *PIPELINED_EDGES]), "-"),
        ("6.3, layers 3 to 5 by parts: 3072, 8192, 8192, 256", "19712",
         str(_total(EDGES_BY_PARTS)), buffers(EDGES_BY_PARTS), str(_arena(EDGES_BY_PARTS))),
        ("the same, edges derived by flowc", "19712", str(_total([*parts, *PIPELINED_EDGES])),
         buffers([*parts, *PIPELINED_EDGES]), "-"),
    ]  # fmt: skip
    return table(
        "Tables 6.1 to 6.3, the application APP (elements).",
        "Table 6.1's own sizes add up to 51466. *flowc* places tensors at offsets in one arena,"
        " where a tensor with two readers is there once; the least is proved. The thesis' numbers"
        " also need that the pipeline copies between its parts while both wait: with alternating"
        " copies a layer reads the next frame.",
        "table | paper | Algorithm 8 | its buffers | flowc",
        rows,
        filled_by=by_benchmark(
            "the shapes of the layers are in a picture, so there are no ONNX files"
        ),
    )


def _orders() -> Table:
    rng = random.Random(0)
    rows = []
    for name, edges in (("6.2", WHOLE_EDGES), ("6.3", EDGES_BY_PARTS)):
        found = {_total(rng.sample(edges, len(edges))) for _ in range(2000)}
        rows.append((name, min(found), max(found)))
    return table(
        "Algorithm 8 and the order of edges.",
        "2,000 random orders: the answer depends on the order by a third.",
        "table | least | most",
        rows,
        filled_by=by_benchmark("the edges of the example, as above"),
    )


def _chosen() -> Table:
    """Algorithm 9 on the example."""

    def evaluate(chosen: tuple[bool, ...]) -> Reduced:
        names = [x.name for x, bit in zip(CNN1.layers, chosen, strict=True) if bit]
        edges, steps = derived(CNN1, names, 1)
        return Reduced(chosen, _total([*edges, *PIPELINED_EDGES]), (float(steps),))

    def found(printed: bool) -> Reduced:
        rng = random.Random(0)
        return algorithm9(5, evaluate, 20000, (1e9,), rng, population=12, generations=6,
                          printed=printed)  # fmt: skip

    rows = []
    for name, answer in (("line 14 as printed", found(True)), ("as meant", found(False))):
        bits = numbers(int(bit) for bit in answer.chosen)
        rows.append((name, "0, 0, 1, 1, 1", 19712, bits, answer.memory, int(answer.times[0])))
    return table(
        "Table 6.4, the chromosome of Algorithm 9 under 20000 elements.",
        "Line 14 takes the least memory within the limits, which the thesis' own answer is not."
        " Meant is the highest throughput. Rows go one by one here, as the windows of CNN1 are in"
        " a picture; *steps* of a frame stand for its time.",
        "rule | layers by parts, paper | elements, paper | layers by parts | elements | steps",
        rows,
        filled_by=by_benchmark("the example, as above, with the steps of a frame for its time"),
    )


#: Table 6.6: no reduction, [76] (buffers shared), [65] (by parts), the least of the thesis, in MB.
REPORTED = {
    "MobileNet V2 1.0": ("mobilenet", 58.63, 20.32, 16.2, 14.90),
    "EfficientNet B0": ("efficientnet_b0", 161.33, 39.14, 42.97, 27.30),
    "MobileNet V1 1.0": ("mobilenet_v1", None, None, None, None),
    "MobileNet V1 0.25": ("mobilenet_v1_quarter", None, None, None, None),
    "ResNet-50": ("light_resnet50", None, None, None, None),
    "DenseNet-121": ("light_densenet121", None, None, None, None),
    "Inception V2": ("light_inception_v2", None, None, None, None),
}
FOLDER = Path(structures.__file__).resolve().parents[1] / "build" / "networks"


def _once(edges: Collection[BufferedEdge]) -> list[MemoryBlock]:
    """Each tensor once: as large as its largest edge, until its last reader."""
    tensors: dict[str, MemoryBlock] = {}
    for e in edges:
        maker = e.name.partition("->")[0].rpartition(".")[0]
        block = tensors.get(maker, MemoryBlock(0, e.first, e.last))
        tensors[maker] = MemoryBlock(
            max(block.size, e.size), min(block.first, e.first), max(block.last, e.last)
        )
    return list(tensors.values())


def _networks() -> Table:
    rows = []
    files = paths(FOLDER, [row[0] for row in REPORTED.values()])
    for name, (file, *told) in REPORTED.items():
        cnn, weights = read_layers(files[file]), parameters(files[file])
        rules = network_by_thesis(files[file])
        whole, _ = derived(cnn, ())
        parts, _ = derived(cnn, [x.name for x in cnn.layers])
        computed = [sum(e.size for e in whole), rules.whole, rules.edges, rules.parts]
        least = min(place(_once(edges), seconds=2.0).total for edges in (whole, parts))
        cells = [f"{weights:.1f}"]
        for paper, size in zip(told, computed, strict=True):
            cells += ["-" if paper is None else f"{paper:g}", f"{weights + size / MB:.1f}"]
        rows.append((name, *cells, f"{weights + least / MB:.1f}"))
    return table(
        "Table 6.6, real networks by their structure (MB with parameters).",
        "*No reduction*: each edge has its buffer. [76]: Algorithm 8. [65]: all layers by parts,"
        " each edge with its buffer. *Both*: by parts and shared, all layers. *flowc* places tensors"
        " at offsets, by parts, each of them once. For MobileNet V2 the computed"
        " numbers are 5 to 18 % above the thesis': activations are layers of their own here, which"
        " TensorRT fuses. EfficientNet B0 is 11 % below to 16 % above it: each swish is two layers"
        " here, and normalizations are folded. The other five are in the table only together.",
        "network | parameters | none, paper | computed | [76], paper | computed | [65], paper |"
        " computed | both, paper | computed | flowc",
        rows,
        filled_by="[76], [65] and *both* are what `flowc analyze NET.onnx --memory` takes from the thesis, by its"
        " function (the command itself refuses files that make their weights of a shape); *none* and"
        " *flowc* are sums by the benchmark over the same edges",
    )


#: Table 6.6: the networks of an application, then as above, in MB.
APPLICATIONS = {
    "5": (
        ("light_inception_v2", "mobilenet_v1_quarter", "light_resnet50"),
        380,
        175,
        226,
        162,
    ),
    "6": (("light_densenet121", "mobilenet_v1", "light_resnet50"), 625, 291, 184, 155),
}


def _several() -> Table:
    rows = []
    for name, (names, *told) in APPLICATIONS.items():
        files = paths(FOLDER, list(names))
        weights = sum(parameters(files[n]) for n in names)
        none = alone = together = by_parts = 0
        shared: list[BufferedEdge] = []
        by_rows: list[BufferedEdge] = []
        for part, n in enumerate(names):
            cnn = read_layers(files[n])
            whole, _ = derived(cnn, (), part)
            rows_, _ = derived(cnn, [x.name for x in cnn.layers], part)
            none += sum(e.size for e in whole)
            alone += sum(b.size for b in algorithm8(whole, ()))
            by_parts += sum(e.size for e in rows_)
            shared += whole
            by_rows += rows_
        together = sum(b.size for b in algorithm8(shared, ()))
        least = sum(b.size for b in algorithm8(by_rows, ()))
        computed = [none, alone, by_parts, min(together, least)]
        cells = [f"{weights:.1f}"]
        for paper, size in zip(told, computed, strict=True):
            cells += [f"{paper}", f"{weights + size / MB:.1f}"]
        rows.append((name, *cells, f"{weights + together / MB:.1f}"))
    return table(
        "Table 6.6, networks that take turns (MB with parameters).",
        "Buffers are shared between the networks, by Algorithm 8 without any that run together."
        " TensorRT has fewer tensors, since it fuses layers. The 291 MB of [76] for application 6"
        " stay unexplained: nothing in the structures takes the more than 100 MB beyond what is computed.",
        "application | parameters | none, paper | computed | [76], paper | computed | [65], paper |"
        " computed | least, paper | computed | whole, between networks",
        rows,
        filled_by=by_benchmark(
            "`flowc analyze --memory` is about one network, and this is about several"
        ),
    )


def _selected() -> Table:
    told = ((20.32, 46.0), (14.98, 41.0), (14.90, 40.5))
    front = [Reduced((), int(1e6 * mb), (1 / fps,)) for mb, fps in told]
    rows = []
    for name, limit, printed in (("15 MB", 15, 14.98), ("25 MB", 25, 20.32)):
        answers = [selected(front, limit * 10**6, (1.0,), printed=way) for way in (True, False)]
        rows.append((name, f"{printed:g}", *(f"{a.memory / MB:.2f}" for a in answers)))
    return table(
        "Table 6.6, application 1: which of its three answers Algorithm 9 selects (MB).",
        "Line 14 would take the least memory under both limits; meant is the highest rate within"
        " them. (Lines 1 to 5 answer before it, if nothing has to go by parts: 25 MB.)",
        "limit | paper | line 14 | as meant",
        rows,
        filled_by=by_benchmark("the three answers are the table's own"),
    )
