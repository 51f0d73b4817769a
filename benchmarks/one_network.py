"""Throughput of one network alone: what `flowc map` chooses, against plain loops around ONNX
Runtime.

Every network of structures.py gets an app of three tasks: a source that has its frames ready, the
network, and a sink that looks for the largest value of each output. flowc searches a mapping for 25
s. Every side then runs the same Python functions around the network, in a process of its own, for
some seconds; the first quarter of them does not count, so that caches are warm and pipelines full.
What the sinks saw is compared once. A run that other processes disturbed is repeated, for some
minutes at most.

    flowc         the generated program, as `flowc map` found it
    default       a loop: source, `session.run`, sink; the session as ONNX Runtime opens it by
    default
    two threads   the same with intra_op_num_threads=2
    one core      the same with intra_op_num_threads=1
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import flowc
import steady
import structures
from flowc.driver.solve.map import find_mapping
from flowc.networks.onnx.interface import read_network
from paired import Others, Spread, alternate, execute, machine, ratio, table, verdict

BUDGET = 25.0
#: Frames after which checksums are compared.
CHECKED = 8
WAYS: dict[str, dict[str, int]] = {
    "default": {},
    "two threads": {"intra_op_num_threads": 2},
    "one core": {"intra_op_num_threads": 1},
}
#: What flowc should reach as the geometric mean over all networks, and where no network should be
#: below.
AIMS = {"default": 1.02, "two threads": 1.02, "one core": 1.85}
NEVER_BELOW = {"default": 0.98, "two threads": 0.98}
PYTHON = '''"""The tasks around the network."""

import zlib

import numpy as np


class Frames:
    """The same four frames over and over."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.frames = [rng.standard_normal({shape}, np.float32) for _ in range(4)]
        self.fired = 0

    def __call__(self):
        self.fired += 1
        return self.frames[self.fired % 4]


class Largest:
    """A checksum over where the largest values are."""

    def __init__(self):
        self.frames = self.checksum = 0

    def __call__(self, *outputs):
        self.frames += 1
        for output in outputs:
            self.checksum = zlib.crc32(b"%d " % output.argmax(), self.checksum)

    def close(self):
        print("%d frames, checksum %08x" % (self.frames, self.checksum), flush=True)
'''


# -- the app ---------------------------------------------------------------------------------------
def write_app(folder: Path, network: Path) -> Path:
    """A text with one app around a network, and its tasks; the path of the text."""
    folder.mkdir(parents=True, exist_ok=True)
    model = read_network(network, {}, 1)
    (image,) = model.inputs
    outputs = {f"y{k}": border for k, border in enumerate(model.outputs)}
    types = {
        port: f"float32[{', '.join(map(str, border.shape))}]" for port, border in outputs.items()
    }
    frame = f"float32[{', '.join(map(str, image.shape))}]"
    ports = "   ".join(
        f'out {port}: {types[port]} from "{border.name}"' for port, border in outputs.items()
    )
    inputs = "   ".join(f"in {port}: {types[port]}" for port in outputs)
    arrows = "   ".join(f"net.{port} -> largest.{port}" for port in outputs)
    (folder / "tasks.py").write_text(PYTHON.format(shape=tuple(image.shape)))
    text = folder / "app.flow"
    text.write_text(f"""task Frames {{ out image: {frame}   python "tasks.py:Frames" }}
task Largest {{ {inputs}   python "tasks.py:Largest" }}
network Net from "{network}" {{ in image: {frame} from "{image.name}"   {ports} }}
app One {{
    frames: Frames   net: Net   largest: Largest
    frames -> net   {arrows}
}}
""")
    return text


def loop(way: str, folder: Path, network: Path, seconds: float, frames: int) -> None:
    """A peer: prints ns per frame, or runs `frames` frames and prints what the sink saw."""
    import onnxruntime

    spec = importlib.util.spec_from_file_location("tasks", folder / "tasks.py")
    assert spec is not None and spec.loader is not None
    tasks: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    options = onnxruntime.SessionOptions()
    for name, value in WAYS[way].items():
        setattr(options, name, value)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    (image,) = (i.name for i in session.get_inputs())
    outputs = [o.name for o in session.get_outputs()]
    source, sink = tasks.Frames(), tasks.Largest()

    def frame() -> None:
        sink(*session.run(outputs, {image: source()}))

    if frames:
        for _ in range(frames):
            frame()
        sink.close()
    else:
        print(steady.loop(frame, seconds))


# -- the sides -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mapped:
    """A network with what flowc made of it."""

    name: str
    network: Path
    folder: Path
    chosen: str
    seconds: float

    @property
    def sides(self) -> dict[str, Callable[[], float]]:
        """ns per frame of every side."""
        peers = {way: (lambda way=way: float(self.peer(way))) for way in WAYS}
        return {"flowc": self.generated, **peers}

    def generated(self) -> float:
        """ns per frame of the generated program."""
        return steady.program(self.folder / "build", self.seconds)

    def peer(self, way: str, frames: int = 0) -> str:
        """What a peer prints."""
        arguments = [json.dumps([way, str(self.folder), str(self.network), self.seconds, frames])]
        return execute(sys.executable, Path(__file__).resolve(), "--peer", *arguments)

    def check(self) -> None:
        """All sides have to see the same."""
        main = self.folder / "build" / "main.py"
        seen = execute(sys.executable, main, "--frames", str(CHECKED), "--quiet")
        for way in WAYS:
            if self.peer(way, CHECKED) != seen:
                raise SystemExit(f"{self.name}: flowc and {way} do not agree on what was seen")


def mapped(name: str, network: Path, folder: Path) -> Mapped:
    """Search, build and check."""
    text = write_app(folder, network)
    found = find_mapping(text, budget=BUDGET).mapping
    flowc.build(text, folder / "build")
    best = found.contestants[0]
    seconds = steady.long_enough(best.measured_ns or best.predicted_ns)
    one = Mapped(name, network, folder, f"{best.name}: {best.configuration}", seconds)
    one.check()
    return one


def main() -> None:
    """Network by network: search, alternate, and one line; then the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(structures.NETWORKS),
        metavar="NAME",
        help="repeatable",
    )
    parser.add_argument(
        "--networks", type=Path, metavar="FOLDER", help="keep the networks (1.4 GB) here"
    )
    given = parser.parse_args()
    names = given.only or list(structures.NETWORKS)
    others, quiet = Others(), steady.Quiet()
    chosen = []
    rows = [["network", "frames/s", *(f"over {way}" for way in WAYS)]]
    gains: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as scratch:
        kept = given.networks or Path(scratch)
        for name in names:
            network = structures.write(kept, [name])[name]
            quiet.wait()
            one = mapped(name, network, Path(scratch) / name)
            samples = alternate(
                {side: quiet.side(call) for side, call in one.sides.items()}, given.rounds
            )
            over = {way: ratio(samples[way], samples["flowc"]) for way in WAYS}
            for way, gain in over.items():
                gains[way].append(gain.median)
            rate = 1e9 / Spread.of(samples["flowc"]).median
            rows.append([name, f"{rate:.1f}", *(gain.text() for gain in over.values())])
            chosen.append([name, one.chosen])
            print(" ".join(rows[-1]), one.chosen, file=sys.stderr, flush=True)

    print(f"{machine()}; {others.text()}\n{quiet.text()}")
    print(f"{given.rounds} rounds; times as fast: median [quartiles] least..most\n")
    print(table(rows), end="\n\n")
    means = [["over all networks", "geometric mean", "aim", "least", "aim"]]
    for way in WAYS:
        mean, least = geometric_mean(gains[way]), min(gains[way])
        floor = verdict(least, least=NEVER_BELOW[way]) if way in NEVER_BELOW else ""
        means.append(
            [f"over {way}", f"{mean:.3f}", verdict(mean, least=AIMS[way]), f"{least:.3f}", floor]
        )
    print(table(means), end="\n\nchosen:\n")
    print("\n".join(f"  {name}: {what}" for name, what in chosen))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        way, folder, network, seconds, frames = json.loads(sys.argv[2])
        loop(way, Path(folder), Path(network), seconds, frames)
    else:
        main()
