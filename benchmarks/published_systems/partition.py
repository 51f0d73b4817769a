"""System H: one network over GPU and CPU in stages, with TVM on a Jetson TX2 (IEEE Access 11,
2023)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from flowc.search.throughput.partition import (
    Costs,
    Objective,
    Partition,
    StagePlace,
    best_partitions,
    configurations,
    evaluate,
    paper_stops,
)
from published_systems import changing_load
from published_systems.rows import Table, board, numbers, table

TITLE = "H. Heterogeneous pipelining with a compiler"
SOURCE = "The paper on pipelining with TVM on a Jetson TX2 (IEEE Access 11, 2023)"

GPU, CPU = StagePlace(("gpu",), "gpu"), StagePlace(("cpu",), "cpu")
#: Table 2: layers that can be cut apart.
LAYERS = {"MobileNet": 31, "SqueezeNet-v1.1": 40, "Inception-v3": 122, "VGG-19": 26}
#: Table 5: images per second on the GPU, on the CPU, in stages, and the layers of the GPU.
TABLE_5 = {
    "baseline": (76.6, 22.0, 98.0, 23),
    "(a) video player": (70.0, 17.1, 77.6, 28),
    "(b) glmark2": (51.4, 15.6, 67.1, 26),
    "(c) stress": (80.0, 8.7, 88.4, 29),
    "(d) glxgears": (67.1, 15.5, 76.8, 26),
}
#: Tables 3 and 4: the configuration, expected and measured images per second.
TABLES_3_AND_4 = {
    ("MobileNet", "default"): ("23 GPU - 8 CPU", 100.0, 98.0),
    ("SqueezeNet-v1.1", "default"): ("32 GPU - 8 CPU", 100.2, 101.3),
    ("Inception-v3", "default"): ("88 GPU - 34 CPU", 9.5, 10.9),
    ("VGG-19", "default"): ("20 GPU - 6 CPU", 17.9, 16.0),
    ("MobileNet", "tuned"): ("4 CPU - 27 GPU", 167.9, 139.9),
    ("SqueezeNet-v1.1", "tuned"): ("6 CPU - 34 GPU", 175.0, 161.2),
    ("Inception-v3", "tuned"): ("5 CPU - 117 GPU", 20.9, 24.5),
    ("VGG-19", "tuned"): ("20 GPU - 6 CPU", 17.9, 16.8),
}


def tables() -> Iterator[Table]:
    """All that the paper has."""
    yield _counts()
    yield _reported()
    yield _mobilenet()
    yield from changing_load.tables(loads())
    yield _objectives()
    yield _stages()
    yield board(
        "Tables 3 and 4, partitions worked out from times by layer.",
        "the times by layer of each network on GPU and CPU. Figure 4 has them for MobileNet alone, as"
        " a picture. For SqueezeNet-v1.1, Inception-v3 and VGG-19 no times by layer are published,"
        " and no rate of a single processor in numbers (Figures 1, 7 and 8 are pictures), so that the"
        " profile of two blocks, as of MobileNet under Table 5, has too few figures as well. The"
        " time of a transfer by bytes is in Figure 6 only, the bytes of a cut nowhere",
    )
    yield board(
        "Figures 1, 4 to 9 and 11, times by layer, transfers, energies.", "a Jetson TX2 with TVM"
    )


def _counts() -> Table:
    rows = []
    for name, layers in LAYERS.items():
        rows.append((name, layers, *(configurations(layers, 2, s) for s in (1, 2, 3, 4))))
    return table(
        "Table 2 with equation 2, ways to map a network in s stages to two processors.",
        "The paper's own search takes two stages. flowc's `exact` proves the optimum of up to four:"
        " polynomial for a given number of stages.",
        "network | layers | s = 1 | 2 | 3 | 4",
        rows,
    )


def _reported() -> Table:
    rows = []
    for (name, form), (told, expected, measured) in TABLES_3_AND_4.items():
        layers = sum(int(word) for word in told.split() if word.isdigit())
        off = 100 * (expected / measured - 1)
        rows.append(
            (
                name,
                form,
                told,
                layers,
                LAYERS[name],
                f"{expected:g}",
                f"{measured:g}",
                f"{off:+.1f}",
            )
        )
    return table(
        "Tables 3 and 4, expected against measured images per second.",
        "Expectations are off by -15 to +20 %, which the text calls remarkably close. flowc"
        " predicts in the same way, corrects the model by what it measures, and lets runs decide.",
        "network | compiled | configuration | its layers | of Table 2 | expected | measured | off"
        " in %",
        rows,
    )


def loads() -> dict[str, Costs]:
    """The profile of MobileNet beside each load of Table 5."""
    return {name: _profile(gpu, cpu) for name, (gpu, cpu, _, _) in TABLE_5.items()}


def _profile(gpu_fps: float, cpu_fps: float) -> Costs:
    """MobileNet's layers in ns: two blocks of equal layers that fit the baseline of Table 5 and the
    expected 100 images per second of 23 layers on the GPU; slower by what Table 5 says."""
    whole, expected = TABLE_5["baseline"], TABLES_3_AND_4["MobileNet", "default"][1]
    stage = 1e9 / expected
    layers = {}
    for kind, base, now, first in (
        ("gpu", whole[0], gpu_fps, stage),
        ("cpu", whole[1], cpu_fps, None),
    ):
        total = 1e9 / base
        head = total - stage if first is None else first
        slower = base / now
        layers[kind] = [slower * head / 23] * 23 + [slower * (total - head) / 8] * 8
    cuts = tuple((k, 0) for k in range(1, 31))
    return Costs(layers, {"gpu": 0.0, "cpu": 0.0}, cuts, lambda a, b, n: 0.0)


def _told(partition: Partition) -> str:
    """As in the paper: layers and processors."""
    begins = (0, *partition.ends[:-1])
    parts = [
        f"{end - begin} {place.kind.upper()}"
        for begin, end, place in zip(begins, partition.ends, partition.places, strict=True)
    ]
    return " - ".join(parts)


def _mobilenet() -> Table:
    rows = []
    for name, (gpu, cpu, reached, cut) in TABLE_5.items():
        costs = _profile(gpu, cpu)
        found = best_partitions(costs, (GPU, CPU), "throughput", 2)[-1]
        rows.append(
            (name, f"{gpu:g}", f"{cpu:g}", f"{gpu + cpu:.1f}", f"{cut} GPU - {31 - cut} CPU",
             f"{reached:g}", _told(found), f"{1e9 / found.cost:.1f}")
        )  # fmt: skip
    return table(
        "Table 5, MobileNet beside other loads (images per second).",
        "Times by layer are in pictures only. flowc's exact partition is of the simplest profile"
        " that fits: two blocks of equal layers whose sums are those of the baseline's rates, and"
        " which are slower by the rates of each load. Its rates are those of the paper up to 13 %;"
        " cuts differ, as in one block many cuts are nearly as good. *Frames in turn*"
        " needs no cut at all: GPU and CPU run whole frames, at the sum of both rates, which no"
        " measured pipeline exceeds by more than 0.1; flowc tries it too.",
        "load | GPU | CPU | frames in turn | paper's cut | paper | flowc's cut | flowc",
        rows,
    )


def _objectives() -> Table:
    rows: list[tuple[str, str, str]] = []
    costs = _profile(*TABLE_5["baseline"][:2])
    told: dict[Objective, str] = {"throughput": "23 GPU - 8 CPU", "latency": "31 GPU"}
    for objective, paper in told.items():
        best = min(best_partitions(costs, (GPU, CPU), objective, 3), key=lambda p: p.cost)
        rows.append((objective, paper, _told(best)))
    for watts in (1, 3, 4):
        energies = {k: [watts * t if k == "gpu" else t for t in v] for k, v in costs.layers.items()}
        own = Costs(energies, costs.overhead, costs.cuts, costs.transfer)
        best = min(best_partitions(own, (GPU, CPU), "energy", 3), key=lambda p: p.cost)
        rows.append((f"energy, the GPU's power {watts} times the CPU's", "31 GPU", _told(best)))
    return table(
        "Sections IV-B.1 to 3, MobileNet's best configurations by objective.",
        "With the same profile. Powers by layer are not published: GPU-only takes the least energy as"
        " long as the GPU's power is less than 3.3 times the CPU's, since it runs the last eight"
        " layers 3.3 times as fast, and the others 3.5 times.",
        "objective | paper | flowc",
        rows,
    )


def _stages() -> Table:
    costs = Costs(
        {"cpu": [4.0, 8.0, 4.0], "gpu": [inf, 2.0, inf]},
        {"cpu": 0.0, "gpu": 0.0},
        ((1, 0), (2, 0)),
        lambda a, b, n: 0.0,
    )
    three = evaluate(costs, (1, 2, 3), (CPU, GPU, CPU), "throughput")
    found = best_partitions(costs, (GPU, CPU), "throughput", 3)
    optima = {len(p.ends): p.cost for p in found}
    by_stages = [optima.get(s, inf) for s in (1, 2, 3)]
    rows = [
        ("time of CPU, GPU, CPU by equation 3", f"{max(three.stage_cost):g}"),
        ("load of its busiest processor", f"{three.cost:g}"),
        ("optimum of 1, 2, 3 stages", numbers(f"{c:g}" for c in by_stages)),
        ("stages where the paper's search stops", paper_stops(by_stages)),
    ]
    return table(
        "Equation 3 and k stages.",
        "Three layers of 4, 8, 4 on the CPU, the middle one 2 on the GPU, the others not there."
        " Equation 3 takes the largest stage, though one processor has two of them; flowc adds up"
        " what each processor does. And more stages are tried as long as they gain, which may be"
        " too early: two stages gain nothing here, three do.",
        "what | here",
        rows,
    )
