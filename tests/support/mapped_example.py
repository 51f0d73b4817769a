"""Fig. 3.2 of Minakova's thesis as an ONNX file, and Table 3.1 as a file of places.

Layers 1 and 23 are the input and the output of the network; sizes that only the picture has are
made up.
"""

from __future__ import annotations

import json
from pathlib import Path

from minakova_examples import table_3_1
from models import N, save, weights

#: Elements of layer 12's data; layers 2 to 8 have 187200.
SMALL = 22500


def name_of(number: str) -> str:
    """The name of a layer in the file by its number in the thesis."""
    return "l22:output" if number == "23" else f"l{number}"


def write_network(folder: Path) -> Path:
    """The network."""
    joined = {6: 3, 13: 12}
    nodes = []
    for k in range(2, 23):
        before = 8 if k == 11 else k - 1
        if k in joined:
            before = 10 if k == 13 else before
            nodes.append(N("Add", [f"l{before}", f"l{joined[k]}"], [f"l{k}"]))
        elif k in (10, 11):
            nodes.append(N("Conv", [f"l{before}", "w"], [f"l{k}"]))
        else:
            nodes.append(N("Relu", [f"l{before}"], [f"l{k}"]))
    inputs = {"l1": [1, 208, 30, 30]}
    return save(folder / "net.onnx", nodes, inputs, {"w": weights(25, 208, 1, 1)}, "l22")


def write_places(folder: Path, ns: int | None = None) -> Path:
    """Table 3.1; with `ns`, the time of each layer."""
    places: dict[str, list[str]] = {}
    for number, processor in table_3_1().items():
        places.setdefault(processor, []).append(name_of(number))
    document: object = places
    if ns is not None:
        document = {place: dict.fromkeys(own, ns) for place, own in places.items()}
    file = folder / "places.json"
    file.write_text(json.dumps(document))
    return file
