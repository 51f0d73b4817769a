"""Runs a network unsplit and in several plans of bands, in turns, and prints the time of each, as
JSON."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from itertools import chain
from typing import Dict, List

import numpy as np

from ...runtime.bands import Bands
from ...runtime.code import Code, Network
from ...runtime.memory import rehearsed
from ...runtime.tokens import Port
from .kernels import random_value

#: The content of a directory: the unsplit model, the ends of all (lists of name, type and shape, by
#: side), and folders 0, 1, ... with plans.
MODEL, ENDS, PLAN = "whole.onnx", "ends.json", "plan.json"
#: Least number of turns, however long they take.
FEWEST = 5


def times(directory: str, seconds: float) -> List[List[int]]:
    """CPU time in ns of each inference of the network, and of each plan, in turns; one thread,
    random data."""
    with open(os.path.join(directory, ENDS), encoding="utf-8") as file:
        ends: Dict[str, List[List[object]]] = json.load(file)
    inputs, outputs = _ports(ends["inputs"]), _ports(ends["outputs"])
    codes = _codes(directory, [p.name for p in inputs], [p.name for p in outputs])
    for code in codes:
        code.open(directory, inputs, outputs)
    rehearsals = chain.from_iterable(code.rehearsals() for code in codes)
    for _, step in rehearsed((None, rehearsal) for rehearsal in rehearsals):
        step()
    rng = np.random.default_rng(0)
    tokens = [random_value(rng, p.dtype.name, p.shape) for p in inputs]
    for code in codes:
        code.fire(tokens, 0)
    spent: List[List[int]] = [[] for _ in codes]
    turns, order = random.Random(0), list(range(len(codes)))
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(spent[0]) < FEWEST:
        turns.shuffle(order)
        for k in order:
            begin = time.thread_time_ns()
            codes[k].fire(tokens, 0)
            spent[k].append(time.thread_time_ns() - begin)
    return spent


def _ports(ends: List[List[object]]) -> List[Port]:
    return [Port(str(name), str(dtype), tuple(shape)) for name, dtype, shape in ends]  # type: ignore[arg-type]


def _codes(directory: str, inputs: List[str], outputs: List[str]) -> List[Code]:
    """The unsplit network, and each plan."""
    codes: List[Code] = [Network(MODEL, inputs, outputs)]
    while os.path.isdir(os.path.join(directory, str(len(codes) - 1))):
        codes.append(Bands(os.path.join(str(len(codes) - 1), PLAN), inputs, outputs))
    return codes


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(sys.argv[1], float(sys.argv[2]))))
