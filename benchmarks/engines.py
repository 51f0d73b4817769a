"""What `flowc map` makes of inference engines and precisions: six questions, a command for each.

    engines.py twins      frames/s of examples/twins with `precision any`, over the same text in 32
                          bits; both mapped here, programs in turns
    engines.py networks   the engine that is chosen for one inference, over others: in 32 bits over
                          the best of both; a file in 8 bits over ONNX Runtime; with `precision any`
                          over ONNX Runtime in 32 bits. Chosen by one measurement, judged by others:
                          CPU time of a thread, in turns
    engines.py searches [twins mobilenet ...]   how many configurations `map` runs with engines, over
                          none; of some texts alone
    engines.py best [mobilenet ...]   whether the engine and precision that are chosen for a network
                          are those of its fastest program: all of them, in turn on two cores and on
                          two threads
    engines.py pairs      both apps of examples/twins in bf16 on a core each, over each of them alone
    engines.py figures    the signal-to-noise ratio that is stated, of 32 inputs, beside those of
                          later inputs from the same source, of a trained network (examples/digits)

Networks are those of structures.py, with random weights; samples for 8 bits are random.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median
from unittest import mock

import numpy as np
import structures
from flowc.driver.measure import engine_times
from flowc.driver.measure.measure import measure
from flowc.driver.plan import compared
from flowc.driver.solve.map import find_mapping
from flowc.driver.text.check import prepare
from flowc.model.application import Network
from flowc.model.mapping import OtherEngine
from flowc.model.system import System
from flowc.networks.engines import ENGINES, engine_of
from flowc.networks.onnx.interface import read_network
from flowc.passes.precision import with_precision
from flowc.runtime.noise import Noise
from flowc.targets.inference import with_engines
from one_network import write_app
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, table, verdict

from twins import copy_example

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FRAMES, ROUNDS, BUDGET = 250, 6, 15
NAMES = ("mobilenet", "squeezenet", "resnet18", "light_shufflenet", "light_inception_v1")
OPENVINO = engine_of("openvino")
DB, LOOSE_DB, ANY_DB = 20, 10, 1
#: Networks of `best`, the frames of a run, and what is tried.
SEVEN = (*NAMES, "googlenet", "unet")
FEW = 60
BOTH = (ENGINES[0], OPENVINO)
RUNS = {"fp32": BOTH, "bf16": (OPENVINO,), "int8": BOTH}
SHAPES = {"in turn": "cpu[0], cpu[1]", "two threads": "cpu[0] threads 2"}
APPS = ("Left", "Right")
SAMPLES, JUDGMENTS = 16, 3


# -- twins -----------------------------------------------------------------------------------------
def twins() -> None:
    """The example in each precision."""
    others = Others()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_example(folder)
        text = (folder / "twins.flow").read_text()
        calls = {"fp32": _program(folder, "fp32", text)}
        for db in (25, DB):
            wish = f"any within {db} dB"
            words = text.replace("batch 1 }", f"batch 1   precision {wish} }}")
            calls[wish] = _program(folder, f"any{db}", words)
        seconds = alternate(calls, ROUNDS)
    print(f"{machine()}; {others.text()}\n{FRAMES} frames of each application, {ROUNDS} rounds\n")
    rows = [["precision", "frames/s", "over fp32: median [quartiles] least..most", "aim"]]
    for side, own in seconds.items():
        gain = ratio(seconds["fp32"], own)
        aim = "" if side == "fp32" else verdict(gain.median, least=1.5)
        rows.append([side, f"{2 * FRAMES / Spread.of(own).median:.0f}", gain.text(), aim])
    print(table(rows))


def _program(folder: Path, name: str, text: str) -> Callable[[], float]:
    """Seconds of the program of a text, mapped here."""
    path = folder / f"{name}.flow"
    path.write_text(text)
    said = flowc("map", path, "--budget", str(BUDGET))
    print("\n".join(line for line in said.splitlines() if "recognize: " in line))
    return _built(folder, name, FRAMES)


# -- single networks -------------------------------------------------------------------------------
def networks() -> None:
    """Network by network."""
    others = Others()
    heading = ["network", "fp32: chosen, over the best", "int8: chosen, over ONNX Runtime"]
    rows = [[*heading, f"any within {LOOSE_DB} dB: chosen, over fp32 on ONNX Runtime"]]
    gains: list[list[float]] = [[], [], []]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network, path in structures.write(folder, NAMES).items():
            wishes = ("", "precision int8", f"precision any within {LOOSE_DB} dB")
            row = [network]
            for number, wish in enumerate(wishes):
                chosen, times = _judged(folder / f"{network}{number}", path, wish)
                best = min(1.0, times) if number == 0 else 1.0
                gains[number].append(best / (times if chosen != "ONNX Runtime" else 1.0))
                row.append(f"{chosen} {gains[number][-1]:.2f}")
            rows.append(row)
    print(f"{machine()}, OpenVINO {OPENVINO.version}; {others.text()}\n")
    means = [f"{geometric_mean(g):.2f} (least {min(g):.2f})" for g in gains]
    print(table([*rows, ["geometric mean", *means]]))


def _judged(folder: Path, path: Path, wish: str) -> tuple[str, float]:
    """What is chosen for a network; and the time of an inference on what was chosen, else on
    OpenVINO, over the time on ONNX Runtime: the median of measurements of its own."""
    text = write_app(folder, path)
    (image,) = read_network(path, {}, 1).inputs
    samples = np.random.default_rng(1).standard_normal((SAMPLES, *image.shape), np.float32)
    np.save(folder / "samples.npy", samples)
    if wish:
        wish += '  calibrate "samples.npy"  '
    text.write_text(text.read_text().replace(f'from "{path}" {{', f'from "{path}" {{ {wish}'))
    valid = prepare(text).require()
    profile, _ = measure(valid)
    found = engine_times.fastest_engines(valid, profile, {}, runs=True)
    (task,) = (t for t in valid.tasks.values() if t.network is not None)
    other = found.chosen.get(task.name)
    engine = OPENVINO if other is None or other.engine else ENGINES[0]
    chosen = "ONNX Runtime" if other is None else f"{other.precision} {engine.title}".strip()
    network = task.network if other is None else _on(valid.system, task.name, other)
    assert network is not None
    times = [engine_times.ratio_alone(network, engine)[0] for _ in range(JUDGMENTS)]
    return chosen, median(times)


def _on(system: System, task: str, other: OtherEngine) -> Network:
    """The network of a task as it was chosen."""
    chosen = with_engines(system, {task: other})
    made, _, _ = with_precision(chosen)
    (network,) = (t.network for app in made.apps for t in app.tasks if t.name == task)
    assert network is not None
    return network


# -- searches --------------------------------------------------------------------------------------
def searches(*some: str) -> None:
    """Examples with and without engines."""
    rows = [["text", "configurations run: on ONNX Runtime", "with engines", "over", "aim"]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_example(folder)
        texts = {"twins": folder / "twins.flow"}
        for network, path in structures.write(folder, NAMES[:3]).items():
            texts[network] = write_app(folder / network, path)
        for label in some or texts:
            text = texts[label]
            words = text.read_text()
            wish = f"precision any within {DB} dB }}\n"
            text.write_text(re.sub(r"^(network .*)\}\n", rf"\1 {wish}", words, flags=re.M))
            alone, both = _tried(text, ENGINES[:1]), _tried(text, ENGINES)
            aim = verdict(both / alone, most=1.5)
            rows.append([label, str(alone), str(both), f"{both / alone:.2f}", aim])
    print(table(rows))


def _tried(text: Path, engines: Sequence[object]) -> int:
    """How many configurations `map` runs."""
    for stored in text.parent.glob(f"{text.stem}.host.*"):
        stored.unlink()
    with mock.patch.object(engine_times, "ENGINES", engines):
        answer = find_mapping(text, budget=BUDGET)
    return sum(c.runs > 0 for c in answer.mapping.contestants)


# -- best ------------------------------------------------------------------------------------------
def best(*some: str) -> None:
    """Network by network, programs in all engines and precisions."""
    others = Others()
    rows = [["network", "chosen", "its best program, over the best of all", "best of all", "aim"]]
    with tempfile.TemporaryDirectory() as name:
        for network, path in structures.write(Path(name), some or SEVEN).items():
            calls = _programs(Path(name) / network, path)
            seconds = {side: median(each) for side, each in alternate(calls, JUDGMENTS).items()}
            chosen = _chosen(Path(name) / network / "app.flow")
            own = min(each for side, each in seconds.items() if side.startswith(chosen))
            fastest = min(seconds, key=lambda side: seconds[side])
            part = seconds[fastest] / own
            rows.append([network, chosen, f"{part:.2f}", fastest, verdict(part, least=0.95)])
    print(f"{machine()}, OpenVINO {OPENVINO.version}; {others.text()}\n\n{table(rows)}")


def _programs(folder: Path, network: Path) -> dict[str, Callable[[], float]]:
    """Seconds of programs around a network in all engines, precisions and shapes."""
    text = write_app(folder, network)
    (image,) = read_network(network, {}, 1).inputs
    samples = np.random.default_rng(1).standard_normal((SAMPLES, *image.shape), np.float32)
    np.save(folder / "samples.npy", samples)
    wish = f'{{ calibrate "samples.npy"   precision any within {ANY_DB} dB   '
    words = text.read_text().replace(f'from "{network}" {{', f'from "{network}" {wish}')
    text.write_text(words)
    calls: dict[str, Callable[[], float]] = {}
    for precision, engines in RUNS.items():
        for engine in engines:
            for shape, place in SHAPES.items():
                side = f"{precision} on {engine.title}, {shape}"
                stem = f"{engine.name}-{precision}-{len(calls)}"
                pin = f"{place} engine {engine.name} precision {precision}"
                (folder / f"{stem}.flow").write_text(
                    f"{words}mapping on host {{ One.frames -> cpu[0]   One.net -> {pin}"
                    "   One.largest -> cpu[0] }\n"
                )
                try:
                    calls[side] = _built(folder, stem, FEW)
                except SystemExit as refused:  # 8 bits may leave nothing of random weights
                    if "F541" not in str(refused):
                        raise
    return calls


def _chosen(text: Path) -> str:
    """The precision and the engine that `map` chooses for the network of a text."""
    valid = prepare(text).require()
    profile, _ = measure(valid)
    found = engine_times.fastest_engines(valid, profile, {}, runs=True)
    (other,) = found.chosen.values() or (OtherEngine("", ""),)
    engine = OPENVINO if other.engine else ENGINES[0]
    return f"{other.precision or 'fp32'} on {engine.title}"


# -- pairs -----------------------------------------------------------------------------------------
def pairs() -> None:
    """Two apps, and each of them alone."""
    others = Others()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_example(folder)
        words = (folder / "twins.flow").read_text().replace("batch 1 }", "batch 1 precision bf16 }")
        both = words + "".join(_on_a_core(app, core) for core, app in enumerate(APPS))
        (folder / "both.flow").write_text(both)
        for core, app in enumerate(APPS):
            (rival,) = set(APPS) - {app}
            alone = re.sub(rf"^app {rival} \{{.*?^\}}\n", "", words, flags=re.M | re.S)
            (folder / f"{app}.flow").write_text(alone + _on_a_core(app, core))
        calls = {stem: _built(folder, stem, FRAMES) for stem in (*APPS, "both")}
        seconds = alternate(calls, ROUNDS)
    rates = {side: [FRAMES / s for s in each] for side, each in seconds.items()}
    rates["both"] = [2 * rate for rate in rates["both"]]
    share = ratio(
        rates["both"], [sum(each) for each in zip(*(rates[a] for a in APPS), strict=True)]
    )
    print(f"{machine()}, OpenVINO {OPENVINO.version}; {others.text()}")
    print("frames/s: " + ", ".join(f"{side} {median(each):.0f}" for side, each in rates.items()))
    print(f"both over the sum: {share.text()}: {verdict(share.median, least=0.9)}")


def _on_a_core(app: str, core: int) -> str:
    """The pins of an app of the example, one mapping for each."""
    tasks = ("camera", "prepare", "recognize", "top")
    pins = "   ".join(f"{app}.{task} -> cpu[{core}]" for task in tasks)
    return f"mapping on host {{ {pins} }}\n"


def _built(folder: Path, stem: str, frames: int) -> Callable[[], float]:
    """The seconds in which the program of a text ends that many frames: of all its apps, the
    longest."""
    report = folder / f"{stem}.json"
    flowc("build", folder / f"{stem}.flow", "-o", folder / stem, "--no-measure")
    words = ("--frames", str(frames), "--quiet", "--report", str(report))

    def run() -> float:
        execute(sys.executable, folder / stem / "main.py", *words)
        return max(float(app["seconds"]) for app in json.loads(report.read_text())["apps"].values())

    return run


# -- figures ---------------------------------------------------------------------------------------
def figures() -> None:
    """Windows of inputs from the source of examples/digits."""
    count = compared.MORE_SAMPLES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "digits"
        shutil.copytree(EXAMPLES / "digits", folder, ignore=shutil.ignore_patterns("*.json"))
        valid = prepare(folder / "digits.flow").require()
        (task,) = (t for t in valid.tasks.values() if t.network is not None)
        assert task.network is not None
        inputs = engine_times.recorded_inputs(valid, [task.name], 20 * count)[task.name]
        network = replace(task.network, precision="bf16")
        found = []
        with compared.opened(network, OPENVINO) as (reference, other):
            for first in range(0, len(inputs) - count + 1, count):
                noise = Noise()
                for number, sample in enumerate(inputs[first : first + count]):
                    noise.add(reference.fire(sample, number), other.fire(sample, number))
                found.append(noise.db)
    stated, *later = found
    most = max(abs(db - stated) for db in later)
    windows = f"{len(later)} times {count} later ones: {Spread.of(later).text(1)} dB"
    print(f"digits in bf16: {stated:.1f} dB stated over {count} inputs; {windows}")
    print(f"largest difference {most:.1f} dB: {verdict(most, most=3.0, digits=1)}")


COMMANDS: dict[str, Callable[..., None]] = {
    "best": best,
    "pairs": pairs,
    "twins": twins,
    "networks": networks,
    "searches": searches,
    "figures": figures,
}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        raise SystemExit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
