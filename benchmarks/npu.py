"""Networks in 8 bits on the emulator of Qualcomm's NPU, against ONNX Runtime on the same file and
against 32 bits: what check says, what the provider takes, and signal-to-noise ratios.

Needs the extra `qnn`. Weights of the structures, and images, are random: trained networks lose less.
Usage: python benchmarks/npu.py [NETWORK.onnx ...]   (default: those of structures.py and examples)
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import structures
from flowc.networks.npu import engine_of
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.onnx.interface import read_fixed
from flowc.networks.quantization.quantize import CPU, quantize
from flowc.runtime.code import session
from flowc.runtime.noise import Noise
from flowc.runtime.qnn import npu_session
from paired import table

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = ("mobilenet", "squeezenet")
CALIBRATION, SAMPLES = 8, 8


def row(network: Path, folder: Path) -> list[str]:
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
    off = len(engine_of("qnn").breaches(in_8_bits))
    on_npu, words = npu_session(str(in_8_bits), 0, here=False)
    exact, coarse = session(str(fixed), 1, False), session(str(in_8_bits), 1, False)
    to_coarse, to_exact, lost = Noise(), Noise(), Noise()
    began = time.perf_counter()
    for feeds in samples[CALIBRATION:]:
        made, wanted = _run(on_npu, feeds), _run(coarse, feeds)
        to_coarse.add(wanted, made)
        to_exact.add(_run(exact, feeds), made)
        lost.add(_run(exact, feeds), wanted)
    seconds = (time.perf_counter() - began) / SAMPLES
    layers = len(read_chain(in_8_bits).layers)
    figures = [f"{noise.db:.1f}" for noise in (to_coarse, to_exact, lost)]
    taken = words.rpartition(", ")[2]
    return [name, f"{layers - off} of {layers}", taken, *figures, f"{seconds:.2f} s"]


def _run(session_: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(session_.run(None, feeds))


def main() -> None:
    """Network by network."""
    head = ["network", "check", "provider", "to ONNX Runtime int8, dB", "to fp32, dB"]
    rows = [[*head, "ONNX Runtime int8 to fp32, dB", "a frame"]]
    with tempfile.TemporaryDirectory() as scratch:
        networks = [Path(p) for p in sys.argv[1:]]
        if not networks:
            made = structures.write(Path(scratch), NAMES)
            networks = [*sorted(EXAMPLES.glob("*/*.onnx")), *made.values()]
        for network in networks:
            rows.append(row(network, Path(scratch)))
    print(table(rows))


if __name__ == "__main__":
    main()
