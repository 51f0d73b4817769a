"""The states of a scenario with one placement: what runs in several of them is in one place.

In: a valid text with a scenario. Out: its states with everything pinned that a stored mapping, or an earlier state, has
placed.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping
from ..model.profile import Profile
from ..model.times import times_of
from . import store
from .build import place, union
from .check import Valid


def placed_states(
    valid: Valid, profile: Profile | None
) -> tuple[dict[str, Valid], dict[tuple[str, str], int | None], tuple[Diagnostic, ...]]:
    """The states, each with the places of all its tasks; what a change takes at most in ns, by a stored mapping; why
    that does not count. Raises Errors.

    The state with the most tasks is placed first.
    """
    stored, told = store.read_mapping(valid.system, valid.platform)
    stale = None if stored is None else stored.stale(valid.system, valid.platform)
    placed = Mapping(valid.platform.name, (), search="states")
    if stored is not None and stale is None:
        placed = stored.mapping
    found: dict[str, Valid] = {}
    for name, state in sorted(valid.states.items(), key=lambda s: -len(s[1].tasks)):
        state = state.mapped(replace(placed, states=(), transitions=()))
        own = place(state, times_of(state.system, state.platform, profile)).placements
        kept = tuple(p for p in own if state.tasks[p.task].resampling is None)
        placed = union((placed, replace(placed, placements=kept)))
        found[name] = state
    bounds = {(t.source, t.target): t.delay_ns for t in placed.transitions}
    return {name: found[name] for name in valid.states}, bounds, (*told, *([] if stale is None else [stale]))
