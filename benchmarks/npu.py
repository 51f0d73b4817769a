"""Networks in 8 bits where an NPU is played, against ONNX Runtime on the same file and against 32
bits: what check says, and signal-to-noise ratios.

    npu.py qnn  [NETWORK.onnx ...]   on the emulator of Qualcomm's NPU, with what the provider takes;
                                     needs the extra `qnn`
    npu.py rknn [NETWORK.onnx ...]   on the simulator of Rockchip's, and the same in fp16; needs
                                     rknn-toolkit2, beside flowc in an environment of its own

By default networks are those of structures.py and the examples. Weights of the structures, and
images, are random: trained networks lose less.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import structures
from flowc.networks.npu import engine_of
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.onnx.interface import NetworkInterface, read_fixed
from flowc.networks.quantization.quantize import CPU, quantize
from flowc.runtime.code import session
from flowc.runtime.noise import Noise
from flowc.runtime.qnn import npu_session
from flowc.runtime.rknn import Simulated
from flowc.runtime.tokens import Port
from paired import table

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = ("mobilenet", "squeezenet")
CALIBRATION, SAMPLES = 8, 8
#: What an NPU that is played makes of inputs.
Played = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def row(engine: str, network: Path, folder: Path) -> list[str]:
    """A row of the table."""
    name = (
        network.stem if network.is_relative_to(folder) else f"{network.parent.name}.{network.stem}"
    )
    fixed, in_8_bits = folder / f"{name}.fixed.onnx", folder / f"{name}.int8.onnx"
    interface, model = read_fixed(network, {}, 1)
    onnx.save(model, fixed)
    rng = np.random.default_rng(3)
    samples = [
        {b.name: rng.random(b.shape, np.float32) for b in interface.inputs}
        for _ in range(CALIBRATION + SAMPLES)
    ]
    in_8_bits.write_bytes(quantize(fixed, samples[:CALIBRATION], CPU))
    off = len(engine_of(engine).breaches(in_8_bits))
    layers = len(read_chain(in_8_bits).layers)
    played = on_qnn if engine == "qnn" else on_rknn
    npu, words = played(in_8_bits, interface)
    exact, coarse = session(str(fixed), 1, False), session(str(in_8_bits), 1, False)
    to_coarse, to_exact, lost = Noise(), Noise(), Noise()
    began = time.perf_counter()
    for feeds in samples[CALIBRATION:]:
        made, wanted = npu(feeds), _run(coarse, feeds)
        to_coarse.add(wanted, made)
        to_exact.add(_run(exact, feeds), made)
        lost.add(_run(exact, feeds), wanted)
    seconds = (time.perf_counter() - began) / SAMPLES
    figures = [f"{noise.db:.1f}" for noise in (to_coarse, to_exact, lost)]
    if engine == "rknn":
        words = _in_16_bits(fixed, interface, samples[CALIBRATION:])
    return [name, f"{layers - off} of {layers}", words, *figures, f"{seconds:.2f} s"]


def on_qnn(file: Path, interface: NetworkInterface) -> tuple[Played, str]:
    """A network on the emulator, and how many nodes run there."""
    opened, words = npu_session(str(file), 0, here=False)
    return partial(_run, opened), words.rpartition(", ")[2]


def on_rknn(file: Path, interface: NetworkInterface) -> tuple[Played, str]:
    """A network on the simulator, and its version."""
    names = [b.name for b in interface.inputs], [b.name for b in interface.outputs]
    twin = Simulated(file.name, *names)
    inputs, outputs = (
        [Port(b.name, b.dtype, b.shape) for b in side]
        for side in (interface.inputs, interface.outputs)
    )
    twin.open(str(file.parent), inputs, outputs)
    return (lambda feeds: list(twin.fire([*feeds.values()], 0))), twin.engine


def _in_16_bits(
    file: Path, interface: NetworkInterface, samples: Sequence[dict[str, np.ndarray]]
) -> str:
    """The signal-to-noise ratio of the same network in fp16."""
    npu, words = on_rknn(file, interface)
    if not words.endswith("simulator"):
        sys.exit("rknn-toolkit2 is missing")
    noise, exact = Noise(), session(str(file), 1, False)
    for feeds in samples:
        noise.add(_run(exact, feeds), npu(feeds))
    return f"{noise.db:.1f}"


def _run(session_: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(session_.run(None, feeds))


def main() -> None:
    """Network by network."""
    engine, *files = sys.argv[1:] or ["qnn"]
    also = {"qnn": "provider", "rknn": "fp16 to fp32, dB"}[engine]
    head = ["network", "check", also, "to ONNX Runtime int8, dB", "to fp32, dB"]
    rows = [[*head, "ONNX Runtime int8 to fp32, dB", "a frame"]]
    with tempfile.TemporaryDirectory() as scratch:
        networks = [Path(p) for p in files]
        if not networks:
            made = structures.write(Path(scratch), NAMES)
            networks = [*sorted(EXAMPLES.glob("*/*.onnx")), *made.values()]
        for network in networks:
            rows.append(row(engine, network, Path(scratch)))
    print(table(rows))


if __name__ == "__main__":
    main()
