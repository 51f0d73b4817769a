"""The tensors that nodes of an ONNX graph read and make, by name.

In: nodes (onnx' NodeProto). Out: names. What a node leaves out has the empty name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def read_by(nodes: Iterable[Any]) -> set[str]:
    """The tensors that some of the nodes read."""
    return set[str]().union(*(n.input for n in nodes))


def made_by(nodes: Iterable[Any]) -> set[str]:
    """The tensors that the nodes make."""
    return set[str]().union(*(n.output for n in nodes))


def first_output(node: Any) -> str:
    """The name of a layer: that of its first output; empty where a node has none."""
    return str(next((t for t in node.output if t), ""))
