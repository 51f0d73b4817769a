"""Strongly connected components and their order, against networkx."""

from __future__ import annotations

import networkx as nx
from flowc.analysis.dataflow.contracted import contracted
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = "abcdefgh"
ARROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=16)


@settings(max_examples=200)
@given(ARROWS)
def test_components_are_those_of_networkx_with_sources_first(arrows: list[tuple[str, str]]) -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(NAMES)
    graph.add_edges_from(arrows)
    found = contracted(NAMES, arrows)
    assert set(found.components) == set(map(frozenset, nx.strongly_connected_components(graph)))
    assert all(name in found.components[i] for name, i in found.home.items())
    assert set(found.home) == set(NAMES)
    between = {(found.home[a], found.home[b]) for a, b in arrows if found.home[a] != found.home[b]}
    assert {(a, b) for b, before in enumerate(found.before) for a in before} == between
    assert all(a < b for a, b in between)


def test_a_long_cycle_is_one_component() -> None:
    """Longer than Python's stack is deep."""
    count = 20_000
    names = [str(n) for n in range(count)]
    found = contracted(names, zip(names, names[1:] + names[:1], strict=True))
    assert found.components == (frozenset(names),) and found.before == (frozenset(),)
