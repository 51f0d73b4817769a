"""Networks in 8 bits against the same networks in 32, in the same configuration: frames in turn on
all cores.

Each network gets the app of one_network.py, once with `precision int8` and once without; the
generated programs take turns. The loss of 8 bits is measured on the calibration samples (random
images here, random weights as well: a trained network loses less).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean

import flowc
import numpy as np
import steady
import structures
from flowc.networks.onnx.interface import read_network
from one_network import write_app
from paired import Others, alternate, machine, ratio, rounds, table

NAMES = ("mobilenet", "squeezenet", "resnet18")
SAMPLES, SECONDS = 8, 3.0


def built(folder: Path, network: Path, bits: int) -> tuple[Path, str]:
    """A program with the network on all cores, and what it loses."""
    text = write_app(folder, network)
    words = text.read_text()
    if bits == 8:
        (image,) = read_network(network, {}, 1).inputs
        (folder / "frames").mkdir()
        rng = np.random.default_rng(1)
        for k in range(SAMPLES):
            np.save(folder / "frames" / f"{k}.npy", rng.standard_normal(image.shape, np.float32))
        words = words.replace(
            f'from "{network}" {{',
            f'from "{network}" {{ precision int8  calibrate "frames/*.npy"  ',
        )
    checked = flowc.check(text)
    assert checked.platform is not None
    text.write_text(
        words + f"mapping on host {{ One.net -> {', '.join(checked.platform.processors)} }}\n"
    )
    done = flowc.build(text, folder / "build")
    lost = [f"{x.decibels:.1f} dB" for found in done.losses.values() for x in found]
    return done.directory, " ".join(lost)


def program(directory: Path) -> Callable[[], float]:
    """ns between frames."""
    return lambda: steady.program(directory, SECONDS)


def main() -> None:
    """Network by network."""
    count = rounds(__doc__, 7)
    others = Others()
    rows = [["network", "8 bits over 32", "signal to noise"]]
    gains = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in NAMES:
            network = structures.write(Path(scratch), [name])[name]
            exact, _ = built(Path(scratch) / f"{name}-32", network, 32)
            coarse, lost = built(Path(scratch) / f"{name}-8", network, 8)
            samples = alternate({"32": program(exact), "8": program(coarse)}, count)
            gain = ratio(samples["32"], samples["8"])
            gains.append(gain.median)
            rows.append([name, gain.text(), lost])
    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds; times as fast: median [quartiles] least..most\n")
    print(table(rows))
    print(f"\ngeometric mean {geometric_mean(gains):.2f}")


if __name__ == "__main__":
    main()
