"""What NVIDIA's own parser says of an ONNX file, where the extra `rtx` is installed.

In: a model file. Out: `Breach`es in TensorRT's words. TensorRT for RTX needs neither a GPU nor a
driver to read a file; its parser is that of TensorRT 11. `there/parse.py` runs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...machines.children import run
from ..accelerators.breaches import Breach
from ..onnx.nodes import first_output
from .operators import NOT_IN_RTX

MODULE = "tensorrt_rtx"
SCRIPT = Path(__file__).parent / "there" / "parse.py"
#: Seconds that reading one file may take.
PATIENCE = 60
#: Characters of TensorRT's words that a message repeats.
MOST_WORDS = 200
RULE = "TensorRT's parser takes it"


@dataclass(frozen=True, slots=True)
class Answer:
    """What TensorRT says of a file: `errors` as (number of the node or -1, operator, words); the
    bytes of the plan (None: none was asked for, or none was built), and why there is none; what its
    builder counts for `weights`, and for `activations` between layers."""

    errors: tuple[tuple[int, str, str], ...]
    built: int | None = None
    words: str = ""
    weights: int | None = None
    activations: int | None = None


def is_installed() -> bool:
    """Is there a parser to ask?"""
    return find_spec(MODULE) is not None


def answers(
    paths: Sequence[Path], *, build: bool = False, patience: float = PATIENCE
) -> list[Answer | None]:
    """TensorRT's answers; None for a file where it gave none, because it crashed, or took more
    seconds than `patience` for all files."""
    words = [sys.executable, str(SCRIPT), *(["--build"] if build else []), *map(str, paths)]
    try:
        said = run(words, cwd=None, limit=patience).stdout
    except subprocess.TimeoutExpired:
        said = ""
    found: list[Answer | None] = []
    for line in said.split("\n")[:-1]:
        one = json.loads(line)
        errors = tuple((int(node), str(op), str(why)) for node, op, why in one.pop("errors"))
        found.append(Answer(errors, **one))
    return [*found, *([None] * (len(paths) - len(found)))]


def ask(path: Path, *, build: bool = False, patience: float = PATIENCE) -> Answer | None:
    """TensorRT's answer about one file; see `answers`."""
    return answers([path], build=build, patience=patience)[0]


def refused(path: Path, passed: Collection[str] = NOT_IN_RTX) -> tuple[Breach, ...]:
    """The layers that TensorRT's parser refuses, in its words; none where it says nothing.

    Operators that other TensorRTs have are `passed`.
    """
    answer = ask(path)
    if answer is None or not answer.errors:
        return ()
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    found: dict[str, Breach] = {}
    for number, op, words in answer.errors:
        if op in passed:
            continue
        node: Any = nodes[number if 0 <= number < len(nodes) else 0]
        layer = first_output(node)
        detail = " ".join(words.split())[:MOST_WORDS]
        found.setdefault(layer, Breach(layer, op or node.op_type, RULE, detail))
    return tuple(found.values())
