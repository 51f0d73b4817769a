"""The states of a scenario with one placement: what runs in several of them is in one place.

In: a valid text with a scenario. Out: its states with everything pinned that a stored mapping, or an earlier state, has
placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..model.diagnostic import Diagnostic
from ..model.mapping import ChangeBound, Mapping, Placement
from ..model.profile import Profile
from ..model.times import times_of
from . import store
from .build import place, union
from .check import Valid


def placed_states(
    valid: Valid, profile: Profile | None
) -> tuple[dict[str, Valid], dict[tuple[str, str], ChangeBound], tuple[Diagnostic, ...]]:
    """The states, each with the places of all its tasks; how a change is made and what it takes at most, by a stored
    mapping; why that does not count. Raises Errors.

    The state with the most tasks is placed first.
    """
    stored, told = store.read_mapping(valid.system, valid.platform)
    stale = None if stored is None else stored.stale(valid.system, valid.platform)
    placed = Mapping(valid.platform.name, (), search="states")
    if stored is not None and stale is None:
        placed = stored.mapping
    found: dict[str, Valid] = {}
    for name, state in sorted(valid.states.items(), key=lambda s: -len(s[1].tasks)):
        beside = replace(placed, placements=(*placed.placements, *_beside(state, placed, found.values())))
        state = state.mapped(replace(beside, states=(), transitions=()))
        own = place(state, times_of(state.system, state.platform, profile)).placements
        kept = tuple(p for p in own if state.tasks[p.task].resampling is None)
        placed = union((placed, replace(placed, placements=kept)))
        found[name] = state
    bounds = {(t.source, t.target): t for t in placed.transitions}
    return {name: found[name] for name in valid.states}, bounds, (*told, *([] if stale is None else [stale]))


def _beside(state: Valid, placed: Mapping, earlier: Iterable[Valid]) -> Iterator[Placement]:
    """Variants that nobody has placed go where those are whose place they take, so that nothing waits for them."""
    known = {p.task: p for p in placed.placements}
    homes = {where: known[task] for e in earlier for task, where in places_of_variants(e) if task in known}
    for task, where in places_of_variants(state):
        home = homes.get(where)
        if home is None or task in known or home.bands:
            continue
        if all(state.platform.pool_of(p).kind == "cpu" for p in home.processors):
            yield replace(home, task=task)


def places_of_variants(state: Valid) -> Iterator[tuple[str, str]]:
    """The tasks of variants, each with the name that it has without the variant's."""
    for app in state.system.apps:
        wholes = {f"{instance}.{variant}": instance for instance, variant in app.variants}
        for task in app.tasks:
            for whole, instance in wholes.items():
                if task.name == whole or task.name.startswith(f"{whole}."):
                    yield task.name, instance + task.name[len(whole) :]
