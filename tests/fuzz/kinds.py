"""What can be tried: each kind makes its files beside what they need, and hands them to flowc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from . import boards, others, peers, stored, texts
from . import networks as onnx_files


@dataclass(frozen=True)
class Kind:
    """`make` writes an input into a folder that `prepare` has filled; `run` is true when it was
    accepted."""

    prepare: Callable[[Path], None]
    make: Callable[[Random, Path], None]
    run: Callable[[Random, Path], bool]
    weight: int


KINDS = {
    "flow": Kind(texts.prepare, texts.make, texts.run, 8),
    "onnx": Kind(onnx_files.prepare, onnx_files.make, onnx_files.run, 5),
    "stored": Kind(stored.prepare, stored.make, stored.run, 3),
    "numpy": Kind(others.nothing, others.make_numpy, others.run_numpy, 2),
    "darknet": Kind(others.nothing, others.make_darknet, others.run_darknet, 3),
    "jedi": Kind(others.nothing, others.make_jedi, others.run_jedi, 3),
    "sdf3": Kind(others.nothing, others.make_sdf3, others.run_sdf3, 3),
    "preesm": Kind(others.prepare_preesm, others.make_preesm, others.run_preesm, 2),
    "hopes": Kind(others.prepare_hopes, others.make_hopes, others.run_hopes, 2),
    "board": Kind(boards.prepare, boards.make, boards.run, 2),
    "peer": Kind(others.nothing, peers.make, peers.run, 2),
}
