"""A text with a network on an NPU, for tests of what runs networks there."""

from __future__ import annotations

PYTHON = """
import numpy as np

def make(firings=[]):
    firings.append(0)
    return np.random.default_rng(len(firings)).random((1, 4, 8, 8), np.float32)

def take(y):
    print("got", y.shape, flush=True)
"""
#: Of the parts of a text, `platform` has what stands between its braces.
TEXT = """
task Make {{ out x: float32[1, 4, 8, 8]  python "t.py:make" }}
task Take {{ in y: float32[1, 4, 8, 8]  python "t.py:take" }}
network Net from "net.onnx" {{ in x: float32[1, 4, 8, 8] from "x"  out y: float32[1, 4, 8, 8] from "y" {more} }}
app A {{ m: Make  n: Net  t: Take  m -> n -> t }}
platform board {{ {platform} }}
mapping on board {{ A.n -> {pin} }}
"""
