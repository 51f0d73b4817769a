"""The Python tasks of spotter.flow."""

from __future__ import annotations

import wave

import numpy as np

CHUNK, FRAME, STEP_SECONDS = 512, 400, 0.08
NAMES = ("-", "up", "down", "tone", "hiss")
WINDOW = np.hanning(FRAME).astype(np.float32)


class Microphone:
    """Plays a file of 16,000 samples a second, `loops` times."""

    def __init__(self, sound, loops=1):
        with wave.open(sound) as file:
            self.chunks = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(
                -1, CHUNK
            )
        self.last, self.fired = loops * len(self.chunks), 0

    def __call__(self):
        if self.fired == self.last:
            raise StopIteration
        chunk = self.chunks[self.fired % len(self.chunks)]
        self.fired += 1
        return chunk.astype(np.float32) / np.float32(32768)


def spectrum(x):
    """x: the last 400 samples, 160 of them new."""
    s = np.fft.rfft(x * WINDOW, 512)
    return (s.real**2 + s.imag**2).astype(np.float32)


def picture(mel):
    """mel: the last 49 frames, 8 of them new."""
    return ((mel - mel.mean()) * np.float32(0.5))[None, None]


def smooth(scores, before, weight):
    return np.float32(weight) * scores[0] + np.float32(1 - weight) * before


class Events:
    """Prints a word when it is surely there, and not again before it is over."""

    def __init__(self, threshold):
        self.threshold, self.decisions, self.events, self.word = threshold, 0, 0, 0

    def __call__(self, sure):
        self.decisions += 1
        word = int(sure.argmax())
        if sure[word] > self.threshold and word != self.word:
            self.word = word
            if word:
                self.events += 1
                seconds = self.decisions * STEP_SECONDS
                print("%6.2f s: %-4s (%.2f)" % (seconds, NAMES[word], sure[word]))

    def close(self):
        print("%d events in %d decisions" % (self.events, self.decisions), flush=True)
