"""The states of a scenario with one placement: what runs in several of them is in one place.

In: a valid text with a scenario. Out: its states with everything pinned that a stored mapping, or an earlier state, has
placed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping, StateBound
from ..model.profile import Profile
from ..model.times import times_of
from . import store
from .build import place, union
from .check import Valid


@dataclass(frozen=True, slots=True)
class PlacedStates:
    """The states, each with the places of all its tasks. By a stored mapping: what a change takes at most in ns, and
    what is proved of states; `diagnostics` say why that does not count."""

    states: dict[str, Valid]
    bounds: dict[tuple[str, str], int | None]
    proved: dict[str, StateBound]
    diagnostics: tuple[Diagnostic, ...]


def placed_states(valid: Valid, profile: Profile | None) -> PlacedStates:
    """One placement for all states; the one with the most tasks is placed first. Raises Errors."""
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
    proved = {s.state: s for s in placed.states}
    return PlacedStates(
        {name: found[name] for name in valid.states}, bounds, proved, (*told, *([] if stale is None else [stale]))
    )
