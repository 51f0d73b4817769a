"""One actor per processor with phases by breadth-first search: Minakova's thesis, ch. 3, Algorithm
2, for comparison with `layerwise.phased`.

In: a Cnn, and the processor of every layer. Out: an abstract application that may deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ..onnx.layers import Cnn, Layer, LayerEdge
from .layerwise import Phased, assemble


def minakova(cnn: Cnn, mapping: Mapping[str, str], name: str) -> Phased:
    """One actor per processor, phases by breadth-first search: Minakova's thesis, ch. 3, Algorithm
    2; for comparison.

    A phase grows from a layer through its children until a layer with a child on another processor
    has been added; every output edge of such a layer becomes a channel, also those that stay on the
    processor (lines 13-15).

    Two gaps of the print are filled in the evident way: the queue is empty again when a phase is
    complete (what was waiting is found later, or would be lost with the last layer), and a layer
    that was queued twice is taken once.

    The rest is kept, and it is not safe; `phased` is. Below, only x is on another processor than
    the rest.
    - Deadlock: l1 -> l2 -> l4 -> x -> l3 with a skip l1 -> l3. The only phase {l1, l2, l3, l4}
      waits for x, x for it.
    - Deadlock: l1 -> l2, l1 -> l3 -> l4 -> l2, l4 -> x. {l1, l2, l3, l4} is one phase; as l4 has a
      child elsewhere, its edge to l2 becomes a channel from that phase to itself.
    - An edge between phases without a channel: l1 -> l2 -> x and l1 -> l3. The phases are {l1, l2}
      and {l3}, but l1 -> l3 is no channel, because both children of l1 are on its processor: its
      data is in no buffer.
    - The same in the wrong order: l1 -> l2 and x -> l3 -> l2. The phases are {l1, l2} and {l3}: l2
      runs before l3, on data of the frame before.

    Raises KeyError for a layer without processor.
    """
    children: dict[str, list[tuple[str, LayerEdge]]] = {x.name: [] for x in cnn.layers}
    homes: dict[str, list[Layer]] = {}
    for layer in cnn.layers:
        homes.setdefault(mapping[layer.name], []).append(layer)
        for edge in layer.inputs:
            children[edge.source].append((layer.name, edge))
    phases: dict[str, list[list[str]]] = {}
    outer: set[tuple[str, LayerEdge]] = set()
    for home, layers in homes.items():
        visited: set[str] = set()
        phases[home] = []
        for root in layers:
            if root.name in visited:
                continue
            part: list[str] = []
            queue = deque([root.name])
            while queue:
                found = queue.popleft()
                if found in visited:
                    continue
                part.append(found)
                visited.add(found)
                if any(mapping[child] != home for child, _ in children[found]):
                    outer.update(children[found])
                    break
                queue.extend(child for child, _ in children[found] if child not in visited)
            phases[home].append(part)
    return assemble(cnn, mapping, phases, name, outer)
