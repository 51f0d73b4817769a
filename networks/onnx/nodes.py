"""The tensors that nodes of an ONNX graph read and make, by name.

In: nodes (onnx' NodeProto). Out: names. What a node leaves out has the empty name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def read_by(nodes: Iterable[Any]) -> set[str]:
    """The tensors that some of the nodes read."""
    return set[str]().union(*(n.input for n in nodes))


def read_inside(node: Any) -> set[str]:
    """The tensors that graphs inside of a node read, some of which are made outside of it."""
    found: set[str] = set()
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found.update(value.name for value in graph.output)
            for inner in graph.node:
                found.update(inner.input)
                found |= read_inside(inner)
    return found


def made_by(nodes: Iterable[Any]) -> set[str]:
    """The tensors that the nodes make."""
    return set[str]().union(*(n.output for n in nodes))


def first_output(node: Any) -> str:
    """The name of a layer: that of its first output; empty where a node has none."""
    return str(next((t for t in node.output if t), ""))
