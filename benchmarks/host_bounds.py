"""Latencies that a generated program measures on this machine, against the bounds that flowc
computed for it.

Two apps on one clock: frames through MobileNetV2 ten times a second, and spectra of blocks of sound
forty times. The profile is measured here, `flowc map` places everything and bounds the response
times of the program's own orders, and the program then runs for a while. The bounds are as good as
the worst-case times of the profile (largest seen, or mean + 6 sigma) and do not model the operating
system: latencies above them are the effect of a kernel that is not real-time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import flowc
import structures
from flowc.driver.solve.map import find_mapping
from paired import Others, execute, machine, table

TEXT = """task Frames  {{ out image: {frame}   python "tasks.py:Frames" }}
task Largest {{ in scores: {scores}   python "tasks.py:Largest" }}
network Net from "{network}" {{ in image: {frame} from "{image}"   out scores: {scores} from "{output}" }}
task Sound   {{ out block: float32[4096]   python "tasks.py:Sound" }}
task Window  {{ in block: float32[4096]   out shaped: float32[4096]   python "tasks.py:Window" }}
task Spectrum {{ in shaped: float32[4096]   out power: float32[2049]   python "tasks.py:Spectrum" }}
task Keep    {{ in block: float32[4096]   python "tasks.py:Keep" }}
task Peak    {{ in power: float32[2049]   python "tasks.py:Peak" }}
app Watch {{
    period 100 ms   priority 1
    frames: Frames   net: Net   largest: Largest
    frames -> net -> largest
}}
app Listen {{
    period 25 ms   priority 2
    sound: Sound   keep: Keep   window: Window   spectrum: Spectrum   peak: Peak
    sound -> keep   sound -> window -> spectrum -> peak
}}
"""
PYTHON = '''"""Tasks with something to do."""

import numpy as np


class Frames:
    def __init__(self):
        self.frame = np.random.default_rng(0).standard_normal({shape}, np.float32)

    def __call__(self):
        return self.frame


class Largest:
    def __call__(self, scores):
        self.last = int(scores.argmax())


class Sound:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self):
        return self.rng.standard_normal(4096, np.float32)


class Window:
    def __call__(self, block):
        return block * np.hanning(4096).astype(np.float32)


class Spectrum:
    def __call__(self, shaped):
        return (np.abs(np.fft.rfft(shaped)) ** 2).astype(np.float32)


class Keep:
    def __call__(self, block):
        self.loud = float(np.sqrt((block * block).mean()))


class Peak:
    def __call__(self, power):
        self.last = int(power.argmax())
'''


def write_app(folder: Path, network: Path) -> Path:
    """The text and its tasks."""
    from flowc.networks.onnx.interface import read_network

    model = read_network(network, {}, 1)
    (image,), (output,) = model.inputs, model.outputs
    shape, scores = (", ".join(map(str, border.shape)) for border in (image, output))
    (folder / "tasks.py").write_text(PYTHON.format(shape=tuple(image.shape)))
    text = folder / "two.flow"
    frame = f"float32[{shape}]"
    text.write_text(
        TEXT.format(
            frame=frame,
            scores=f"float32[{scores}]",
            network=network,
            image=image.name,
            output=output.name,
        )
    )
    return text


def main() -> None:
    """Map, build, run; a line for each app and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument(
        "--frames", type=int, default=200, metavar="N", help="iterations of each app (default 200)"
    )
    given = parser.parse_args()
    others = Others()
    rows = [["app", "run", "bound ms", "p50", "p99", "max", "max / bound", "missed"]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = write_app(folder, structures.write(folder, ["mobilenet"])["mobilenet"])
        found = find_mapping(text, budget=10).joint
        assert found is not None and found.program is not None and found.verdict is not None
        bounds = {name: float(ns or 0) / 1e6 for name, ns in found.verdict.worst.groups.items()}
        build = flowc.build(text, folder / "build").directory
        for run in range(given.runs):
            report = folder / "report.json"
            execute(
                sys.executable,
                build / "main.py",
                "--frames",
                str(given.frames),
                "--quiet",
                "--report",
                str(report),
            )
            for name, seen in json.loads(report.read_text())["apps"].items():
                told = seen["latency_ms"]
                rows.append(
                    [
                        name,
                        str(run + 1),
                        f"{bounds[name]:.2f}",
                        *(f"{told[k]:.2f}" for k in ("p50", "p99", "max")),
                        f"{told['max'] / bounds[name]:.2f}",
                        str(seen["deadline_misses"]),
                    ]
                )
    print(f"{machine()}; {others.text()}\n{given.frames} iterations a run\n")
    print(table(rows))


if __name__ == "__main__":
    main()
