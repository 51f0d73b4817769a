"""System H: one network over GPU and CPU in stages, with TVM on a Jetson TX2 (IEEE Access 11,
2023)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from flowc.search.throughput.partition import (
    Costs,
    StagePlace,
    best_partitions,
    configurations,
    evaluate,
    paper_stops,
)
from published_systems import changing_load, texts
from published_systems.rows import ARITHMETIC, Table, absent, board, by_benchmark, numbers, table

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
#: MobileNet between an image and its label, which take no time.
TEXT = """\
task Image { out image: float32[1, 4]   wcet 1 ns }
network MobileNet from "mobilenet.onnx"
task Label { in scores: float32[1, 4]   wcet 1 ns }
app Net { image: Image   net: MobileNet   label: Label   image -> net -> label }
"""
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
    yield absent(
        "Table 1, Figures 2, 3 and 10.",
        "related work and drawings, which have no results",
    )
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
        filled_by=ARITHMETIC,
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
        filled_by=ARITHMETIC,
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


def _write(stem: str, costs: Costs, watts: dict[str, float] | None = None) -> None:
    """MobileNet with these times as a text: a chain of as many layers, whose profile is all that
    counts here."""
    texts.write_board("tx2", "cpu cpu", "gpu gpu")
    texts.chain(texts.FOLDER / "mobilenet.onnx", LAYERS["MobileNet"])
    times = {
        kind: {f"l{n}": ns for n, ns in enumerate(layers)} for kind, layers in costs.layers.items()
    }
    texts.write(stem, TEXT, "tx2", {"Net.net": times}, watts=watts)


def _mapped(stem: str, objective: str = "throughput") -> tuple[str, float]:
    """The stages that `flowc map` finds, as in the paper, and predicted frames per second."""
    mapping = texts.mapped(stem, "tx2", search="exact", objective=objective).mapping
    if not mapping.networks:
        (whole,) = (place for place in mapping.placements if place.task == "Net.net")
        return f"31 {whole.processors[0].upper()}", 1e9 / dict(mapping.predicted_period_ns)["Net"]
    (plan,) = mapping.networks
    parts, begin = [], 0
    for stage in plan.stages:
        end = LAYERS["MobileNet"] if stage.until is None else int(stage.until[1:]) + 1
        parts.append(f"{end - begin} {'+'.join(stage.processors).upper()}")
        begin = end
    return " - ".join(parts), 1e9 / dict(mapping.predicted_period_ns)["Net"]


def _mobilenet() -> Table:
    rows = []
    for number, (name, (gpu, cpu, reached, cut)) in enumerate(TABLE_5.items()):
        _write(f"mobilenet_{number}", _profile(gpu, cpu))
        found, fps = _mapped(f"mobilenet_{number}")
        rows.append(
            (name, f"{gpu:g}", f"{cpu:g}", f"{gpu + cpu:.1f}", f"{cut} GPU - {31 - cut} CPU",
             f"{reached:g}", found, f"{fps:.1f}")
        )  # fmt: skip
    return table(
        "Table 5, MobileNet beside other loads (images per second).",
        "Times by layer are in pictures only. flowc's exact partition is of the simplest profile"
        " that fits, into up to four stages where the paper has two: two blocks of equal layers whose sums are those of the baseline's rates, and"
        " which are slower by the rates of each load. Its rates are those of the paper up to 14 %;"
        " cuts differ, as in one block many cuts are nearly as good. *Frames in turn*"
        " needs no cut at all: GPU and CPU run whole frames, at the sum of both rates, which no"
        " measured pipeline exceeds by more than 0.1; flowc tries it too.",
        "load | GPU | CPU | frames in turn | paper's cut | paper | flowc's cut | flowc",
        rows,
        filled_by=f"{texts.command('mobilenet_LOAD', 'tx2', search='exact')}, LOAD of 0 to {len(TABLE_5) - 1}",
    )


def _objectives() -> Table:
    rows = []
    costs = _profile(*TABLE_5["baseline"][:2])
    for objective, paper in (("throughput", "23 GPU - 8 CPU"), ("latency", "31 GPU")):
        rows.append((objective, paper, _mapped("mobilenet_0", objective)[0]))
    for watts in (1, 3, 4):
        _write(f"mobilenet_{watts}w", costs, {"gpu": float(watts), "cpu": 1.0})
        found, _ = _mapped(f"mobilenet_{watts}w", "energy")
        rows.append((f"energy, the GPU's power {watts} times the CPU's", "31 GPU", found))
    return table(
        "Sections IV-B.1 to 3, MobileNet's best configurations by objective.",
        "With the same profile. Powers by layer are not published: GPU-only takes the least energy as"
        " long as the GPU's power is less than 3.3 times the CPU's, since it runs the last eight"
        " layers 3.3 times as fast, and the others 3.5 times.",
        "objective | paper | flowc",
        rows,
        filled_by=f"{texts.command('mobilenet_0', 'tx2', search='exact', objective='OBJECTIVE')}, for energy"
        " `mobilenet_1w.flow` and so on, whose profiles have the energy of layers",
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
        filled_by=by_benchmark(
            "equation 3 and the rule for stopping are the paper's; no verb has them"
        ),
    )
