"""The application without flowc: one loop around the same functions.

Usage: python plain.py [LOOPS]   (default: 1; how often sound.wav is played)

It prints what the program prints. Needs numpy, onnxruntime and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from spotter import FRAME, Events, Microphone, picture, smooth, spectrum

HERE = Path(__file__).resolve().parent
HOP, MELS, FRAMES, STEP, WORDS = 160, 40, 49, 8, 5


def load_mel():
    """mel.c as a function of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "mel.so")
        command = [
            "cc",
            "-std=gnu11",
            "-O2",
            "-fPIC",
            "-shared",
            "-o",
            library,
            str(HERE / "mel.c"),
            "-lm",
        ]
        subprocess.run(command, check=True)
        function = ctypes.CDLL(library).mel
    function.argtypes = [ctypes.c_void_p] * 4

    def mel(power):
        result = np.empty(MELS, np.float32)
        function(None, power.ctypes.data, result.ctypes.data, None)
        return result

    return mel


def listener():
    """A function that listens to sound.wav a number of times."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    network = onnxruntime.InferenceSession(
        str(HERE / "spotter.onnx"), options, providers=["CPUExecutionProvider"]
    )
    mel = load_mel()

    def listen(loops):
        microphone, events = Microphone(str(HERE / "sound.wav"), loops), Events(0.6)
        # those that the next spectrum sees again, and those behind them
        samples = np.zeros(FRAME - HOP, np.float32)
        mels = [np.zeros(MELS, np.float32)] * (FRAMES - STEP)
        sure = np.zeros(WORDS, np.float32)
        while True:
            try:
                samples = np.concatenate([samples, microphone()])
            except StopIteration:
                break
            while len(samples) >= FRAME:
                mels.append(mel(spectrum(samples[:FRAME])))
                samples = samples[HOP:]
                if len(mels) == FRAMES:
                    (scores,) = network.run(["scores"], {"picture": picture(np.stack(mels))})
                    sure = smooth(scores, sure, 0.5)
                    events(sure)
                    del mels[:STEP]
        events.close()

    return listen


if __name__ == "__main__":
    listener()(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
