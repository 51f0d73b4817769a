"""Write sound.wav: eight seconds with ten words in noise.

Usage: python make_sound.py [FOLDER]   (default: beside this file)

A word is a third of a second that goes up, goes down, keeps its tone or hisses. Needs numpy.
Seeded: every run writes the same file.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np
from spotter import NAMES

RATE, LENGTH = 16000, 5120  # samples in a second, and in a word
SPOKEN = ("up", "down", "tone", "hiss", "down", "up", "hiss", "tone", "tone", "up")
# samples: a word with the silence around it; ten are 54 iterations of the application
PLACE = 13824


def word(name: str, rng: np.random.Generator) -> np.ndarray:
    """A new variant of a word: of another pitch, strength and speed."""
    time = np.linspace(0, 1, LENGTH)
    low, wide = rng.uniform(300, 1500), rng.uniform(1.5, 3.5)
    paths = {
        "up": low * wide**time,
        "down": low * wide ** (1 - time),
        "tone": np.full(LENGTH, low * wide**0.5),
    }
    if name == "hiss":
        sound = rng.normal(0, 0.5, LENGTH)
    else:
        phase = 2 * np.pi * np.cumsum(paths[name]) / RATE
        sound = np.sin(phase) + rng.uniform(0.1, 0.5) * np.sin(2 * phase)
    envelope = np.clip(np.minimum(time, 1 - time) * 10, 0, 1)
    return rng.uniform(0.1, 0.4) * envelope * sound


def track(names: tuple[str, ...], rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Words in noise, each somewhere in its place, and the samples at which they begin."""
    sound = rng.normal(0, rng.uniform(0.001, 0.01), len(names) * PLACE)
    begins = [i * PLACE + int(rng.integers(1000, PLACE - LENGTH - 4000)) for i in range(len(names))]
    for name, begin in zip(names, begins, strict=True):
        sound[begin : begin + LENGTH] += word(name, rng)
    return np.rint(np.clip(sound, -1, 1) * 32767).astype("<i2"), begins


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    assert set(SPOKEN) < set(NAMES)
    sound, begins = track(SPOKEN, np.random.default_rng(1))
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((1, 2, RATE, len(sound), "NONE", ""))
        file.writeframes(sound.tobytes())
    for name, begin in zip(SPOKEN, begins, strict=True):
        print("%6.2f s: %s" % (begin / RATE, name))


if __name__ == "__main__":
    main()
