"""System A on twins: its tuned configurations (Table 3.5), run on CPUs in place of a Xavier.

In: the configurations, and networks of the same structure. Out: tables that say whether cuts,
streams and copies of a stage change what a network gives, and whether its 8-bit ranges survive a
cut. Times need the board.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from unittest import mock

import flowc
import numpy as np
import onnx
import onnxruntime
from flowc.driver.text.check import prepare
from flowc.interop.jedi import file as jedi_file
from flowc.interop.jedi.file import JediInstance, JediStage
from flowc.networks.quantization.implicit import LARGEST, ranges_of, without_pairs
from onnx import numpy_helper
from published_systems import jedi_networks
from published_systems.jedi_networks import SIDE
from published_systems.rows import Table, numbers, same, table

from kim_examples import TABLE_3_2, TABLE_3_4, TABLE_3_5, Tuned

#: More frames than any row has places for at once.
FRAMES = 24
#: Seconds for a run.
LONGEST = 300
#: Samples that ranges are taken from.
SAMPLES = 4
#: The code of the tasks that the import leaves abstract; the last one keeps every result.
CODE = """
import numpy as np


class Source:
    def __init__(self):
        self.frame = -1

    def __call__(self):
        self.frame += 1
        return self.frame


def pre(frame):
    return np.random.default_rng(int(frame)).random((1, 3, {side}, {side}), np.float32)


def post({outputs}):
    return np.concatenate([{flat}])


class Sink:
    def __init__(self):
        self.results = []

    def __call__(self, result):
        self.results.append(result.copy())
        if len(self.results) == {frames}:
            np.save("{file}", self.results)
"""


Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Twins:
    """A configuration on the twin, and the network in one piece on the GPU's twin.

    `cut` and `whole` are the results of all frames; the models of both are in the folders.
    """

    pin: str
    cut: np.ndarray
    whole: np.ndarray
    cut_models: Path
    whole_models: Path


def tables() -> Iterator[Table]:
    """Runs, and ranges."""
    runs: list[Row] = []
    ranges: list[Row] = []
    for name in TABLE_3_5:
        of_runs, of_ranges = rows_of(name)
        runs += of_runs
        ranges += of_ranges
    yield _of_runs(runs)
    yield _of_ranges(ranges)


def rows_of(name: str) -> tuple[list[Row], list[Row]]:
    """The rows of a network in both tables."""
    runs: list[Row] = []
    ranges: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        jedi_networks.write(name, folder)
        _write_samples(folder)
        layers = _layers(folder / "net.onnx")
        counted = same(layers, TABLE_3_4[name].layers)
        for precision, tuned in zip(("FP16", "INT8"), TABLE_3_5[name], strict=True):
            twins = _twins(instance(tuned, layers, precision), folder)
            runs.append((name, layers, counted, precision, *_compared(twins)))
            if precision == "INT8" and tuned.cuts:
                ranges.append((name, numbers(tuned.cuts), *_ranges(twins)))
    return runs, ranges


# -- configurations on twins -----------------------------------------------------------------------
def instance(tuned: Tuned, layers: int, precision: str) -> JediInstance:
    """The configuration as JEDI has it."""
    places = TABLE_3_2[tuned.option]
    ends = (*tuned.cuts, layers - 1)
    stages = []
    for (device, number), last, streams in zip(places, ends, tuned.streams, strict=True):
        stages.append(JediStage(device, number, streams, last))
    others = (("network_name", '"Net"'), ("model_type", '"TkdnnModel"'), ("cfg_path", '"net.cfg"'))
    return JediInstance("Net", tuple(stages), 1, tuned.pre, tuned.post, tuned.buffers,
                        precision.lower(), False, "net.cfg", others)  # fmt: skip


def _layers(file: Path) -> int:
    """The number of layers as tkDNN counts them."""
    told = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
    return len(json.loads(told["darknet.tkdnn_layers"]))


def _write_samples(folder: Path) -> None:
    samples = folder / "calibration" / "Net"
    samples.mkdir(parents=True)
    for k in range(SAMPLES):
        image = np.random.default_rng(1000 + k).random((1, 3, SIDE, SIDE), np.float32)
        np.save(samples / f"{k}.npy", image)


def _twins(there: JediInstance, folder: Path) -> Twins:
    configuration, imported = folder / "app.cfg", folder / "app.flow"
    configuration.write_text(jedi_file.text_of([(there, ())], ()))
    flowc.import_(configuration, imported, force=True)
    text = _with_code(imported.read_text(), folder)
    (pin,) = re.findall(r"Net\.net -> (.*)", text)
    # Layers that a DLA cannot run are given to the GPU, as in the thesis.
    helped = re.sub(r"(nvdla[^|]*?)(?= \||$)", r"\1 fallback gpu", pin)
    cut, cut_models = _results(text.replace(pin, helped), folder, f"{there.precision}.cut")
    whole, whole_models = _results(text.replace(pin, "volta"), folder, f"{there.precision}.whole")
    return Twins(pin, cut, whole, cut_models, whole_models)


def _with_code(text: str, folder: Path) -> str:
    """The imported text with code for its tasks, on the board that comes with flowc: the import
    declares a board without its version of TensorRT."""
    text = re.sub(r"/// NVIDIA[^\n]*\nplatform xavier {.*?\n}\n", "", text, flags=re.DOTALL)
    outputs = re.findall(r"in (\w+): float32\[([\d, ]+)\]", text)
    count = sum(prod(int(side) for side in sides.split(",")) for _, sides in outputs)
    for name, ports in {
        "Source": "out frame: int64",
        "Pre": "in frame: int64",
        "Post": f"out result: float32[{count}]",
        "Sink": f"in result: float32[{count}]",
    }.items():
        untyped = ports.partition(":")[0]
        code = name if name in ("Source", "Sink") else name.lower()
        text = re.sub(
            rf"(task Net{name} {{.*?){untyped}\b", rf'\1{ports} python "steps.py:{code}"', text,
            flags=re.DOTALL,
        )  # fmt: skip
    names = [name for name, _ in outputs]
    code = CODE.format(
        side=SIDE,
        outputs=", ".join(names),
        flat=", ".join(f"{name}.ravel()" for name in names),
        frames=FRAMES,
        file=folder / "results.npy",
    )
    (folder / "steps.py").write_text(code)
    return text


def _results(text: str, folder: Path, stem: str) -> tuple[np.ndarray, Path]:
    """What the program gives on its twin, and the folder of its networks."""
    flow = folder / f"{stem}.flow"
    flow.write_text(text)
    prepare(flow, platform="xavier")
    # In 8 bits deep networks of random weights lose more than any text may allow.
    with mock.patch("flowc.driver.plan.compared._lossy", return_value=()):
        built = flowc.build(flow, folder / stem, platform="xavier", measure=False).directory
    command: list[str | Path] = [
        sys.executable,
        built / "main.py",
        "--twin",
        "--frames",
        str(FRAMES),
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    if done.returncode:
        raise SystemExit(f"{stem}: {done.stderr}")
    kept = folder / "results.npy"
    results = np.load(kept)
    kept.unlink()
    return results, built / "networks"


def _compared(twins: Twins) -> tuple[str, ...]:
    """Pin, results, order."""
    apart = np.square(twins.cut[:, None] - twins.whole[None]).sum(axis=2)
    in_order = (apart.argmin(axis=1) == np.arange(FRAMES)).all()
    order = "kept" if in_order else "lost"
    return f"`{twins.pin}`", _nearness(twins.cut, twins.whole), order


def _nearness(found: np.ndarray, wanted: np.ndarray) -> str:
    """Equal to the bit, or the signal-to-noise ratio around the mean over the frames."""
    if np.array_equal(found, wanted):
        return "equal"
    power = np.square(wanted - wanted.mean(axis=0)).mean()
    return f"{10 * np.log10(power / np.square(found - wanted).mean()):.1f} dB"


def _of_runs(rows: list[Row]) -> Table:
    return table(
        "Table 3.5 on twins: streams, partial network duplication and cuts.",
        f"Networks with the layers, skips and heads of the thesis, an eighth"
        f" of the channels, images of {SIDE} x {SIDE} and random weights. Each"
        f" configuration is imported, built for `xavier` and run with `--twin` for {FRAMES} frames;"
        " *results* compares all outputs with the network in one piece on the GPU's twin, without"
        " streams and further threads: *equal* is to the bit."
        " What crosses a cut in FP16 has 16 bits."
        " *Order*: of all frames of that run,"
        " the one at the same place is the nearest. Layers that the DLA does not have get `fallback"
        " gpu`, as in the thesis. The import declares the board without its TensorRT; the one that"
        " comes with flowc takes its place. Rates and energy, and the results of GPU and DLA"
        " themselves, need an AGX Xavier. Two networks in 8 bits are cut in front of a rectifier,"
        " which ONNX Runtime joins with its convolution where both are in one part: that rounds"
        " otherwise, see the next table.",
        "network | layers | as in Table 3.3 | precision | pin | results | order",
        rows,
        filled_by="`flowc import app.cfg -o app.flow`, then, with code and `fallback gpu` written"
        " into the text, `flowc build app.flow --platform xavier -o out` and `python out/main.py"
        f" --twin --frames {FRAMES}`; in 8 bits `build` refuses networks of random weights (F541:"
        " they lose too much), and the benchmark lifts that check",
    )


# -- ranges ----------------------------------------------------------------------------------------
def _ranges(twins: Twins) -> tuple[object, ...]:
    """Pairs of the network, of its parts, and of these with the network's scale; what ONNX Runtime
    makes of both; ranges that DLAs are told, by where they come from."""
    (file,) = twins.whole_models.glob("*.onnx")
    parts = sorted(twins.cut_models.glob("*stage?.onnx"))
    whole = _scales(file)
    found = [(key, scale) for part in parts for key, scale in _scales(part).items()]
    if {key for key, _ in found} != whole.keys():
        raise SystemExit(f"{file}: pairs were lost or added")
    kept = sum(whole[key] == scale for key, scale in found)
    joined, plain = _outputs([file], joined=True), _outputs([file], joined=False)
    split = _nearness(_outputs(parts, joined=False), plain)
    return (len(whole), f"{kept} of {len(found)}", split, _nearness(joined, plain),
            *_told(twins.cut_models, file, whole))  # fmt: skip


def _scales(file: Path) -> dict[tuple[str, str], float]:
    """The scale of each pair that has one for the whole tensor, by its kind and what it reads."""
    graph = onnx.load(file).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            scale = constants[node.input[1]]
            if not scale.dims:
                found[node.op_type, node.input[0]] = float(numpy_helper.to_array(scale))
    return found


def _outputs(parts: list[Path], *, joined: bool) -> np.ndarray:
    """What ONNX Runtime alone makes of some images with these parts in turn; `joined`: it may join
    layers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not joined:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [onnxruntime.InferenceSession(part, options) for part in parts]
    results = []
    for k in range(SAMPLES):
        there = {"image": np.random.default_rng(k).random((1, 3, SIDE, SIDE), np.float32)}
        for session in sessions:
            fed = {value.name: there[value.name] for value in session.get_inputs()}
            names = [value.name for value in session.get_outputs()]
            there.update(zip(names, session.run(names, fed), strict=True))
        heads = sorted(name for name in there if name.startswith(("yolo", "region")))
        results.append(np.concatenate([there[name].ravel() for name in heads]))
    return np.array(results)


def _told(
    cut_models: Path, file: Path, whole: dict[tuple[str, str], float]
) -> tuple[int, int, int, int]:
    """Ranges that DLAs are told: all, a tensor's own, that of a group with one scale as in the
    network in one piece, and of a group that a cut divides."""
    told = {}
    for beside in sorted(cut_models.glob("*.implicit.json")):
        told.update(json.loads(beside.read_text())["ranges"])
    own = ranges_of(onnx.load(file)) | {t: LARGEST * scale for (_, t), scale in whole.items()}
    _, uncut = without_pairs(file.read_bytes())
    for_itself = {t for t, largest in told.items() if own.get(t) == largest}
    as_uncut = {t for t, largest in told.items() if uncut.get(t) == largest} - for_itself
    rest = len(told) - len(for_itself) - len(as_uncut)
    return len(told), len(for_itself), len(as_uncut), rest


def _of_ranges(rows: list[Row]) -> Table:
    return table(
        "Section 3.4.1, calibration of a cut network.",
        "JEDI divides the calibration table of the whole network; flowc quantizes the whole network"
        " and cuts it, so that every part has its scales. The INT8 rows of Table 3.5 with a cut:"
        " scales of the network in one piece and of its parts, read from their files; results of"
        " the parts in turn beside those of the whole where ONNX Runtime joins no layers, and how"
        " far joining alone moves the whole (random weights make little noise large). A DLA before"
        " TensorRT 11 is told ranges per tensor: the tensor's own of the whole network, or the"
        " largest of a group with one scale, as an uncut network on one DLA would have it, or of"
        " what a cut leaves of such a group. Accuracy of a DLA needs the board.",
        "network | cuts | scales | same in parts | parts, not joined | joined or not | told to DLAs"
        " | own | of a group | of a divided group",
        rows,
        filled_by="the files in `out/networks` of the same `flowc build`",
    )
