"""System D: CPUs and a GPU balanced by a genetic search, phases against deadlocks (Minakova's
thesis, ch. 3; SAMOS 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from flowc.analysis.dataflow.order import iteration_order
from flowc.analysis.dataflow.repetition import repetition
from flowc.networks.dataflow.layerwise import Phased, as_sdf, phased
from flowc.networks.dataflow.minakova import minakova
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

from minakova_examples import chain, figure_3_2, table_3_1

TITLE = "D. High-throughput inference: SDF, a balanced mapping, CSDF with phases"
SOURCE = "S. Minakova's thesis, chapter 3, and its conference version (SAMOS 2020)"


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield absent(
        "Figures 3.1 and 3.5 (thesis), 2 and 3 (SAMOS).",
        "drawings, which have no results",
    )
    yield _graphs()
    yield _deadlocks()
    yield _fitness()
    yield _rates("Table 3.2 (thesis)", THESIS, "1.36 to 42")
    yield _rates("Table 2 (SAMOS)", CONFERENCE, "up to 20")
    yield board("The rates themselves.", "a Jetson TX2 with TensorRT and the ARM Compute Library")


def _graphs() -> Table:
    """Figures 3.2 to 3.4 with Table 3.1."""
    cnn, places = figure_3_2(), table_3_1()
    sdf = as_sdf(cnn, "A")
    printed, ours = minakova(cnn, places, "A"), phased(cnn, places, "A")
    rows: list[tuple[object, ...]] = [
        ("actors of the SDF graph (Fig. 3.3)", 23, len(sdf.tasks), len(sdf.tasks)),
        ("channels of the SDF graph", 24, len(sdf.channels), len(sdf.channels)),
        ("actors of the CSDF graph (Fig. 3.4)", 5, len(printed.app.tasks), len(ours.app.tasks)),
        ("channels", 7, len(printed.app.channels), len(ours.app.channels)),
        ("of these from actor 2 to itself", 1, _loops(printed), _loops(ours)),
        ("phases of actor 2", 2, len(printed.phases["A.cpu2"]), len(ours.phases["A.cpu2"])),
        ("their layers", "8; 9, 10, 13", *(_phases(p) for p in (printed, ours))),
        (
            "consumed from channel 1 -> 2",
            [187200, 0],
            *(_taken(p, "cpu1") for p in (printed, ours)),
        ),
        ("consumed from channel 3 -> 2", [0, 22500], *(_taken(p, "cpu3") for p in (printed, ours))),
        ("free of deadlock", "yes", *(_runs(p) for p in (printed, ours))),
    ]
    return table(
        "Figures 3.2 to 3.4 with Table 3.1.",
        "The sizes of layers 7 and 12 are in the text, the other shapes in the picture only; the"
        " edges are a topology that fits the text. *Computed* is Algorithm 2 as printed, *flowc*"
        " cuts phases by topological levels, so that layers 9 and 10 need not wait for actor 3."
        " Fig. 4 of the conference version puts layer"
        " 8 on CPU 1, its Table 1 on CPU 2, as the thesis does.",
        "what | paper | computed | flowc | ",
        ((*row, same(row[1], row[2])) for row in rows),
        filled_by=by_benchmark(
            "the shapes of the layers are in a picture, so there is no ONNX file; of one, `flowc analyze"
            " NET.onnx --csdf --places FILE.json` prints both graphs"
        ),
    )


def _loops(made: Phased) -> int:
    return sum(c.source == c.destination for c in made.app.channels)


def _phases(made: Phased) -> str:
    return "; ".join(numbers(part) for part in made.phases["A.cpu2"])


def _taken(made: Phased, source: str) -> list[int]:
    """What each phase of actor 2 takes from another actor."""
    (found,) = (
        c for c in made.app.channels if (c.source, c.destination) == (f"A.{source}", "A.cpu2")
    )
    return list(made.app.task("A.cpu2").port(found.destination_port).rates)


def _runs(made: Phased) -> str:
    blocked = iteration_order(made.app, repetition(made.app).vector).blocked
    return "no" if blocked else "yes"


def _deadlocks() -> Table:
    """Graphs on which Algorithm 2 stops for ever."""
    cases = {
        "l1 -> l2 -> l4 -> x -> l3, l1 -> l3": "l1 l2, l2 l4, l4 x, l1 l3, x l3",
        "l1 -> a -> l3 -> l2, l1 -> l2, l3 -> x": "l1 a, a l3, l1 l2, l3 l2, l3 x",
    }
    rows = []
    for name, told in cases.items():
        edges = [(e.split()[0], e.split()[1]) for e in told.split(", ")]
        cnn = chain(edges)
        places = {x.name: "q" if x.name == "x" else "p" for x in cnn.layers}
        rows.append(
            (name, "never", _runs(minakova(cnn, places, "A")), _runs(phased(cnn, places, "A")))
        )
    return table(
        "Algorithm 2 and deadlocks (section 3.5.3).",
        "The thesis says that phases avoid deadlocks. Where a skip connection leaves a processor"
        " and comes back, Algorithm 2 puts into one phase what waits for itself: only x is on"
        " another processor here. Levels cannot (a proof in `phased`, and random graphs in the"
        " tests).",
        "edges | deadlock, paper | Algorithm 2 is free | flowc is free",
        rows,
        filled_by=by_benchmark(
            "graphs of edges alone; of an ONNX file, `flowc analyze NET.onnx --csdf --places FILE.json`"
            " says whether either rule deadlocks"
        ),
    )


def _fitness() -> Table:
    """Equation 3.1."""
    rows = []
    for one, other in (((10, 10), (1, 1)), ((10, 10), (1, 2))):
        better = "the same" if _difference(one) == _difference(other) else f"{one}"
        rows.append((f"{one} or {other}", better, f"{min(one, other, key=max)}"))
    return table(
        "Equation 3.1, loads of two processors.",
        "The sum of differences prefers equal loads, however large. flowc's `ga-balance` keeps the"
        " equation and breaks ties by the larger load; its other searches minimize that load.",
        "loads | equation 3.1 prefers | higher throughput has",
        rows,
        filled_by=ARITHMETIC,
    )


def _difference(loads: tuple[int, int]) -> int:
    return abs(loads[0] - loads[1])


#: Frames per second: ARM Compute Library, TensorRT, the paper's; the printed gain in %, if any.
Rates = dict[str, tuple[float, float, float, float | None]]
THESIS: Rates = {
    "bvlc alexnet": (8.7, 104, 140, 35),
    "VGG 19": (1.84, 15, 21.3, 42),
    "bvlc googlenet": (3.9, 118, 154, 31),
    "tiny yolo v2": (3.2, 131, 133, 1.36),
    "inception v1": (4.25, 122, 166, 36),
    "resnet18": (8.7, 137, 143, 4.37),
    "densenet121": (3, 62, 69, 12),
    "Emotion FER": (21.2, 325, 416, 28),
}
CONFERENCE: Rates = {
    "bvlc alexnet": (3.2, 106, 112, None),
    "VGG 19": (1.2, 13, 18, None),
    "bvlc googlenet": (5, 115, 140, None),
    "tiny yolo v2": (2.6, 38, 45, None),
    "inception v1": (3.2, 115, 136, None),
    "resnet18": (7.7, 138, 143, None),
    "densenet121": (3, 52, 72, None),
    "Emotion FER": (55, 325, 401, None),
}


def _rates(title: str, told: Rates, claim: str) -> Table:
    rows = []
    for name, (cpus, gpu, reached, printed) in told.items():
        gain = 100 * (reached / gpu - 1)
        both = 100 * cpus / gpu
        moved = 1 - gpu / reached  # the share of the GPU's work that it has to be rid of
        rows.append(
            (name, f"{cpus:g}", f"{gpu:g}", f"{reached:g}", "-" if printed is None else f"{printed:g}",
             f"{gain:.2f}", f"{both:.2f}", f"{100 * moved:.1f}", f"{moved * reached / cpus:.1f}")
        )  # fmt: skip
    largest = max(100 * (r / g - 1) for _, g, r, _ in told.values())
    return table(
        f"{title}, gains over TensorRT in %.",
        f"Computed from the published rates; the text says {claim} %, the largest is"
        f" {largest:.1f} %. *Both* is the gain of frames in turn: CPUs and GPU each run whole"
        " frames at their published rates, side by side. It is what a partition reaches at most"
        " if all layers are as much slower on CPUs as the whole network is. *Moved* is the share of"
        " its work that the GPU has to hand over to reach the paper's rate, and *faster* how many"
        " times as fast as on average CPUs have to be on that share to keep up. Where this is above"
        " 1, layers that suit CPUs better, or a GPU that waits less between frames, made up for it:"
        " per-layer times would tell these apart, and these tables do not.",
        "network | CPUs fps | GPU fps | both fps, paper | gain, paper | computed | both | moved |"
        " faster",
        rows,
        filled_by=ARITHMETIC,
    )
