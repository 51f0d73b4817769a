"""The Python tasks of hello.flow. A firing gets numpy arrays in port order and returns what it
writes."""

from __future__ import annotations

import numpy as np

BLOCK = 8


class Sensor:
    """A source with state: the time. Ends the stream after `blocks` firings (0 = never)."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.fired = 0

    def __call__(self):
        if self.blocks and self.fired == self.blocks:
            raise StopIteration
        time = np.arange(self.fired * BLOCK, (self.fired + 1) * BLOCK)
        self.fired += 1
        strength = 3.0 + 2.0 * np.sin(time / 200)
        return (strength * np.sin(time * 2 * np.pi / BLOCK)).astype(np.float32)


def scale(sample, level):
    """Both inputs are there before a firing starts: 8 samples and one level."""
    return sample * level


class Meter:
    """Smooths the mean strength over the blocks, so that the level follows slowly."""

    def __init__(self):
        self.level = np.float32(1.0)

    def __call__(self, scaled):
        strength = np.abs(scaled).mean()
        self.level = np.float32(self.level * (1 + 0.2 * (1 - strength)))
        return self.level


class Split:
    """Two phases; a port with a rate list always has a leading axis, in this phase of 1 or of 0."""

    def __init__(self):
        self.phase = 0

    def __call__(self, sample):
        one, none = sample[None], sample[None][:0]
        self.phase ^= 1
        return (one, none) if self.phase else (none, one)


class Report:
    """Prints the mean strength of every 100th block."""

    def __init__(self):
        self.blocks = 0

    def __call__(self, even, odd):
        self.blocks += 1
        if self.blocks % 100 == 0:
            strength = np.abs(np.concatenate([even, odd])).mean()
            print("block %4d: mean strength %.3f" % (self.blocks, strength))
