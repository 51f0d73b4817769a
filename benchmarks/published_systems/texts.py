"""The texts that the page's commands are about, as a user would have them.

In: a text, the name of its board, and times of its tasks. Out: files in `build/published`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import flowc
import onnx
from flowc.driver.solve.map import Answer
from flowc.driver.solve.request import WhatIf
from flowc.model.profile import LayerTime, Profile, ProfileEntry
from flowc.profiling.identity import task_hashes
from onnx import TensorProto, helper

FOLDER = Path(__file__).resolve().parents[2] / "build" / "published"

#: The ns of a firing, or those of each layer of a network by its name.
Times = int | Mapping[str, float]


def write(
    stem: str,
    text: str,
    board: str,
    times: Mapping[str, Mapping[str, Times]],
    *,
    estimated: frozenset[str] = frozenset(),
    watts: Mapping[str, float] | None = None,
) -> None:
    """`STEM.flow`, with the times of its tasks by kind of processor as its profile on the board.

    Layers have estimated times on the kinds named so, and the energy of that many watts.
    """
    path = FOLDER / f"{stem}.flow"
    path.write_text(text)
    path.with_name(f"{stem}.{board}.mapping.json").unlink(missing_ok=True)
    hashes = task_hashes(flowc.load(path, platform=str(FOLDER / f"{board}.flow")))
    entries = []
    for task, by_kind in times.items():
        for kind, own in by_kind.items():
            layers: tuple[LayerTime, ...] = ()
            if not isinstance(own, int):
                power = None if watts is None else watts[kind]
                layers = tuple(
                    LayerTime(name, ns, None if power is None else power * ns)
                    for name, ns in own.items()
                )
            ns = own if isinstance(own, int) else ceil(sum(own.values()))
            entry = ProfileEntry(kind, task, "", hashes[task], "", 0, ns, 0, ns, ns, layers=layers,
                                 estimated=bool(layers) and kind in estimated)  # fmt: skip
            entries.append(entry)
    profile = Profile(board, "times by a paper, or made up", tuple(entries))
    path.with_name(f"{stem}.{board}.profile.json").write_text(profile.to_json())


def write_board(name: str, *lines: str) -> None:
    """`NAME.flow` with a platform of that name."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"platform {name} {{", *(f"    {line}" for line in lines), "}"])
    (FOLDER / f"{name}.flow").write_text(text + "\n")


def mapped(stem: str, board: str, *, fps: int | None = None, **asked: Any) -> Answer:
    """The answer of `command` with the same words."""
    what_if = WhatIf(fps=None if fps is None else Fraction(fps))
    return flowc.map(
        FOLDER / f"{stem}.flow", platform=str(FOLDER / f"{board}.flow"), measure=False,
        what_if=what_if, **asked,
    )  # fmt: skip


def command(stem: str, board: str, **asked: object) -> str:
    """What a user types in `build/published` for the same."""
    options = "".join(f" --{name} {value}" for name, value in asked.items())
    return f"`flowc map {stem}.flow --platform {board}.flow --no-measure{options}`"


def chain(file: Path, layers: int) -> None:
    """A network of so many layers in a row, with the numbers that tkDNN would give them."""
    names = [f"l{k}" for k in range(layers)]
    nodes = [
        helper.make_node("Relu", [a], [b]) for a, b in zip(["image", *names], names, strict=False)
    ]
    first, last = (
        helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 4]) for t in ("image", names[-1])
    )
    graph = helper.make_graph(nodes, "net", [first], [last])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"darknet.tkdnn_layers": json.dumps(names)})
    onnx.save(model, file)
