"""System A: one network for the highest throughput (Kim's thesis, ch. 3)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from math import inf
from pathlib import Path

import flowc
from flowc.interop.jedi import file as jedi_file
from flowc.interop.jedi.file import JediInstance
from flowc.model.mapping import Mapping, NetworkPlan
from flowc.search.budget import Budget
from flowc.search.throughput import jedi as tuner
from flowc.search.throughput.design import complete
from flowc.search.throughput.jedi_bench import options
from flowc.search.throughput.partition import (
    Costs,
    Partition,
    StagePlace,
    best_partitions,
    evaluate,
)
from flowc.search.throughput.problem import Measurement, Problem
from published_systems import jedi_on_twins
from published_systems.jedi_on_twins import instance
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
from published_systems.texts import chain

from kim_examples import TABLE_3_2, TABLE_3_4, TABLE_3_5
from paper_counts import cut_tuple_count
from problems import NET, problem

TITLE = "A. JEDI: one network, highest throughput"
SOURCE = "J. Kim's thesis, chapter 3"
#: The table's names of processors, in flowc's shipped board.
DEVICES = {("GPU", 0): "gpu", ("DLA", 0): "dla[0]", ("DLA", 1): "dla[1]"}
#: The time of Yolov4 on the GPU in ms (Table 3.10), and how many times as long a DLA takes (Table
#: 3.11).
WHOLE_MS, SLOWER = 8.055, 2.95
#: More configurations than a search tries.
MOST = 100_000


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield from quick_tables()
    yield from jedi_on_twins.tables()
    yield _efforts()


def quick_tables() -> Iterator[Table]:
    """What takes a moment, and is the same on every CPU."""
    yield absent(
        "Table 3.1, Figures 3.1 to 3.7.",
        "methods of an interface, and drawings, which have no results",
    )
    yield _mapping_options()
    yield board("Table 3.3, accuracy.", "the trained networks and COCO")
    yield _design_space()
    yield _configurations()
    yield board("Figures 3.8 to 3.11, rates and energy by option.", "an AGX Xavier with TensorRT 6")
    yield _explorations()
    yield _overheads()
    yield _gantt_charts()
    yield _warm_starts()
    yield board("Table 3.6, the profile's solution as a start.", "an AGX Xavier with TensorRT 6")


def _mapping_options() -> Table:
    given = problem({"gpu": [1.0] * 8, "dla": [2.0] * 8}, {"cpu": 1, "gpu": 1, "dla": 2})
    found = {option.name: option.stages for option in options(given, NET)}
    rows = []
    for name, stages in TABLE_3_2.items():
        paper = " - ".join("DLA0+1" if n == 2 else f"{d}{n}" for d, n in stages)
        here = " - ".join("+".join(place) for place in found[name])
        both = ("dla[0]", "dla[1]")
        meant = tuple(both if n == 2 else (DEVICES[d, n],) for d, n in stages)
        rows.append((name, paper, here, same(meant, found[name])))
    return table(
        "Table 3.2, mapping options.",
        "flowc has these seven where a board has one GPU and two DLAs, and others elsewhere"
        " (frames in turn, any number of stages).",
        "option | paper | flowc | ",
        rows,
        filled_by=by_benchmark(
            "`flowc map --search jedi` tries these options, and prints the one that it chooses"
        ),
    )


def _design_space() -> Table:
    rows = []
    for name, row in TABLE_3_4.items():
        space = cut_tuple_count(row.layers)
        shares = [f"{100 * searched / space:.3f}" for searched, _ in (row.fp16, row.int8)]
        printed = [f"{share:.3f}" for _, share in (row.fp16, row.int8)]
        rows.append(
            (name, row.layers, space, row.fp16[0], printed[0], shares[0], row.int8[0], printed[1],
             shares[1], same(printed, shares))
        )  # fmt: skip
    return table(
        "Table 3.4, share of the design space that was searched, in %.",
        "Tuples of cut points are 2 C(N-1,1) + 3 C(N-1,2) + C(N-1,3) for N layers: the six options"
        " with a pipeline. flowc's `exact` needs none of these runs: it proves the best tuple in"
        " the model of times, and runs one program.",
        "network | layers | tuples | FP16 searched | paper % | computed % | INT8 searched | paper %"
        " | computed % | ",
        rows,
        filled_by=ARITHMETIC,
    )


def _configurations() -> Table:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, cells in TABLE_3_5.items():
            for precision, tuned in zip(("FP16", "INT8"), cells, strict=True):
                there = instance(tuned, TABLE_3_4[name].layers, precision)
                pin, back = _through_flowc(there, TABLE_3_4[name].layers, folder)
                cuts = numbers(tuned.cuts) or "-"
                told = f"{tuned.option}; {cuts}; {tuned.pre}, {tuned.post}; {tuned.buffers};"
                rows.append((name, precision, f"{told} {numbers(tuned.streams)}", f"`{pin}`",
                             same(there, back)))  # fmt: skip
    return table(
        "Table 3.5, tuned configurations (option; cuts; threads before and behind; buffers;"
        " streams).",
        "Each one as a file of JEDI is read by `flowc import` into a pin, checked, and written by"
        " `flowc export --format jedi`: the last column compares both files. The networks are"
        " chains with as many layers. The text of the thesis reads Yolov2's FP16 row as layers 0"
        " to 19, where the table cuts after layer 23.",
        "network | precision | paper | flowc's pin | back as JEDI's",
        rows,
        filled_by="`flowc import app.cfg -o app.flow`, `flowc check app.flow --platform xavier`, `flowc export"
        " app.flow --format jedi --platform xavier -o back.cfg`",
    )


def _through_flowc(there: JediInstance, layers: int, folder: Path) -> tuple[str, JediInstance]:
    """Import, check, export: the pin, and what comes back."""
    chain(folder / "net.onnx", layers)
    configuration, text = folder / "app.cfg", folder / "app.flow"
    configuration.write_text(jedi_file.text_of([(there, ())], ()))
    flowc.import_(configuration, text, force=True)
    checked = flowc.check(text, platform="xavier")
    assert checked.diagnostics == (), checked.diagnostics
    back = flowc.export(text, "jedi", platform="xavier").text.encode()
    (again,) = jedi_file.read("app.cfg", back).instances
    (pin,) = re.findall(r"Net\.net -> (.*)", text.read_text())
    return pin, again


def _explorations() -> Table:
    """Table 3.7: points that its GAs and the heuristic searched."""
    told = {"Yolov4": (497, 162, 344, 19), "Yolov4tiny": (1261, 559, 214, 35),
            "Yolov4csp": (1204, 143, 320, 14), "CSPNet": (335, 161, 424, 15)}  # fmt: skip
    rows = []
    for name, (comprehensive, tuning, mapping, parameters) in told.items():
        fewer = 100 * (1 - parameters / tuning)
        total = 100 * (1 - (mapping + parameters) / comprehensive)
        rows.append((name, f"{fewer:.1f}", f"{total:.1f}"))
    return table(
        "Table 3.7, fewer points than the two genetic searches, in %.",
        "Computed from the counts of the table. The text says 88 to 94 % less for fine-tuning, and"
        " 27 to 80 % less in total except for CSPNet, which needs more. Its rates and engines need"
        " an AGX Xavier.",
        "network | fewer than its GA for tuning | fewer than the GA for all",
        rows,
        filled_by=ARITHMETIC,
    )


class _Machine:
    """Runs of a made-up board: what the model says. Keeps the configurations that were run."""

    def __init__(self, given: Problem) -> None:
        self._problem = given
        self.tuples: set[object] = set()
        self.plans: set[NetworkPlan] = set()

    def __call__(self, mapping: Mapping) -> Measurement:
        (plan,) = mapping.networks
        cuts = tuple((stage.processors, stage.until) for stage in plan.stages)
        if len(cuts) > 1:
            self.tuples.add(cuts)
        self.plans.add(plan)
        others = {placement.task: placement for placement in mapping.placements}
        design = complete(self._problem, mapping.networks, "", "throughput", others)
        busiest = max(design.load.values())
        busy = {processor: load / busiest for processor, load in design.load.items()}
        return Measurement({"A": design.predicted}, busy=busy)


def _efforts() -> Table:
    """Configurations that flowc's `jedi` runs, beside those of Table 3.7."""
    told = {
        "Yolov4": (344, 19),
        "Yolov4tiny": (214, 35),
        "Yolov4csp": (320, 14),
        "CSPNet": (424, 15),
    }
    rows = []
    for name, (tuples, parameters) in told.items():
        layers = TABLE_3_4[name].layers
        on_gpu = [WHOLE_MS / layers] * layers
        on_dla = [SLOWER * ms for ms in on_gpu]
        given = problem({"gpu": on_gpu, "dla": on_dla}, {"cpu": 8, "gpu": 1, "dla": 2})
        machine = _Machine(given)
        tuner.search(given, measure=machine, budget=Budget(evaluations=MOST))
        cuts = len(machine.tuples)
        rows.append((name, layers, tuples, cuts, parameters, len(machine.plans) - cuts))
    return table(
        "Table 3.7, configurations that the tuner runs.",
        "Cut-point tuples of all options, and the other settings: threads, buffers and streams (the"
        " paper's are those of its fine-tuner, flowc's also those of the maximizer). flowc's `jedi`"
        " runs them on a made-up board: times that add up, all layers of a chain equally long,"
        " 8055 us in all on the GPU and 2.95 times as long on a DLA (Yolov4 in Tables 3.10 and"
        " 3.11). So the counts show the same size of effort, and nothing about the quality; the"
        " paper begins with random tuples, flowc with a balanced one. Single moves, and runs by"
        " option, are not printed; hours and engines need the board. `exact` runs one program.",
        "network | layers | tuples, paper | flowc | other settings, paper | flowc",
        rows,
        filled_by=by_benchmark(
            "`flowc map --search jedi` runs programs on the board; made-up times take"
            " its place here"
        ),
    )


def _gantt_charts() -> Table:
    """Figures 3.12 and 3.13: the steps of a frame of Yolov4 in us."""
    pre, post, threads = 6344, 2207, 2
    gpu, dlas = StagePlace(("gpu",), "gpu"), StagePlace(("dla[0]", "dla[1]"), "dla")
    charts = {
        "3.12 (a), GPU alone": ([inf, inf], [8055.0, 0.0], 8055),
        "3.12 (b), PND-A as measured": ([9020.0, inf], [inf, 5550.0], 14570),
        "3.13, the same as profiled": ([8146.0, inf], [inf, 5290.0], 13436),
    }
    rows: list[tuple[object, ...]] = []
    for name, (on_dla, on_gpu, told) in charts.items():
        split = on_dla[0] < inf
        places = (dlas, gpu) if split else (gpu,)
        found = evaluate(_parts(on_dla, on_gpu), (1, 2) if split else (2,), places, "throughput")
        rows.append((name, told, *_frames(found, pre, post, threads)))
    # What both parts take on the GPU is what it takes alone.
    either = _parts([9020.0, inf], [8055.0 - 5550.0, 5550.0])
    best = min(best_partitions(either, (gpu, dlas), "throughput", 2), key=lambda p: p.cost)
    shown = " - ".join("+".join(place.processors) for place in best.places)
    rows.append((f"flowc's `exact`: {shown}", "-", *_frames(best, pre, post, threads)))
    return table(
        "Figures 3.12 and 3.13, a frame of Yolov4 (us).",
        "Inference times of Tables 3.10 and 3.11 are the sums of the stages in the figures. *In turn*"
        " is a frame after the other, *overlapped* the busiest step alone (two threads in front, two"
        " DLAs in turn). The last row is the best cut of both parts with their measured times: the"
        " paper's. Table 3.7 reports 216 frames per second, one in 4630 us, which is 17 % less than"
        " the GPU's stage alone: streams that overlap frames on the GPU may be the reason; times"
        " that add up do not count them.",
        "figure | inference, paper | sum of stages | in turn fps | overlapped fps",
        rows,
        filled_by=by_benchmark(
            "the figures have times of two parts, and no layers that a text could cut"
        ),
    )


def _parts(on_dla: list[float], on_gpu: list[float]) -> Costs:
    """Two parts of a network with their times on both."""
    return Costs(
        {"dla": on_dla, "gpu": on_gpu}, {"dla": 0.0, "gpu": 0.0}, ((1, 0),), lambda a, b, n: 0.0
    )


def _frames(found: Partition, pre: float, post: float, threads: int) -> tuple[str, str, str]:
    """The sum of the stages in us, and frames per second in turn and overlapped."""
    stages = sum(found.stage_cost)
    busiest = max(found.cost, pre / threads, post)
    return f"{stages:.0f}", f"{1e6 / (pre + stages + post):.0f}", f"{1e6 / busiest:.0f}"


def _warm_starts() -> Table:
    """Tables 3.8 and 3.9: tuples searched and engines built for another size or batch; the first
    search is Table 3.7's."""
    first = {
        "Yolov4": (344, 337),
        "Yolov4tiny": (214, 98),
        "Yolov4csp": (320, 319),
        "CSPNet": (424, 355),
    }
    again = {
        "512 x 512": ((78, 125), (54, 50), (54, 92), (79, 109)),
        "608 x 608": ((65, 104), (55, 50), (54, 92), (64, 94)),
        "batch of 4": ((61, 106), (55, 50), (53, 92), (74, 104)),
        "batch of 8": ((85, 133), (55, 50), (58, 99), (77, 108)),
    }
    rows = []
    for what, cells in again.items():
        for (name, before), after in zip(first.items(), cells, strict=True):
            shares = [f"{100 * (1 - a / b):.1f}" for a, b in zip(after, before, strict=True)]
            rows.append((what, name, *shares))
    return table(
        "Tables 3.8 and 3.9, what a warm start saves, in %.",
        "Computed from the counts of Tables 3.7 to 3.9. The text says 74 to 85 % (sizes) and 74 to"
        " 83 % (batches) fewer tuples, and 63 to 85 % and 60 to 85 % fewer engines: the smallest"
        " saving of engines is 49 %, Yolov4tiny's. In flowc's `jedi` a warm start has to take less"
        " than 70 % of the runs (a test). The rates need an AGX Xavier.",
        "change | network | fewer tuples | fewer engines",
        rows,
        filled_by=ARITHMETIC,
    )


def _overheads() -> Table:
    told = {"Yolov4": (14570, 392, 2.69, 13436, 7.79), "Yolov4csp": (13297, 373, 2.81, 12216, 8.13),
            "Densenet+Yolo": (14108, 203, 1.44, 12855, 8.88)}  # fmt: skip
    rows = []
    for name, (measured, communication, share, profiled, off) in told.items():
        computed = 100 * communication / measured, 100 * (measured - profiled) / measured
        rows.append(
            (name, f"{share:.2f}", f"{computed[0]:.2f}", f"{off:.2f}", f"{computed[1]:.2f}")
        )
    return table(
        "Tables 3.10 and 3.11, what cuts cost and how far estimates are off, in % of the measured"
        " time.",
        "Computed from the times of both tables; Yolov4's 7.79 is 7.78. Estimates from ratios fall"
        " short by up to 9 %, so flowc marks such entries, counts them a margin longer, and calls"
        " verdicts that rest on them conditional.",
        "network | cuts, paper | computed | estimate off, paper | computed",
        rows,
        filled_by=ARITHMETIC,
    )
