"""The files of weights that several models of a program have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ...model.application import CommonWeights
from ..sources import Sources


def place_common(common: CommonWeights, models: Mapping[str, str], sources: Sources) -> str:
    """The file that lists common weights, placed with all that it lists: input of
    `runtime/own_graph.py: opened`.

    `models` are the names of files by the digests of the models in them.
    """
    file = Path(common.file)

    def place(suffix: str, content: bytes) -> str:
        return sources.place("networks", file.with_suffix(suffix), content)

    listed = {
        "onnxruntime": list(common.onnxruntime),
        "block": common.block,
        "probe": place(".probe.onnx", common.probe),
        "weights": place(file.suffix, common.content),
        "shared": common.tensors,
        "models": {
            models[f.digest]: [place(f".{f.digest}.onnx", f.model), list(f.names)]
            for f in common.forms
        },
    }
    return place(".json", (json.dumps(listed, separators=(",", ":")) + "\n").encode())
