"""The states of a scenario with one placement: what runs in several of them is in one place.

In: a valid text with a scenario. Out: its states with everything pinned that an earlier one has placed.
"""

from __future__ import annotations

from ..model.diagnostic import Diagnostic
from ..model.mapping import Mapping, Placement
from ..model.profile import Profile
from ..model.times import times_of
from .build import place
from .check import Valid


def placed_states(valid: Valid, profile: Profile | None) -> tuple[dict[str, Valid], tuple[Diagnostic, ...]]:
    """The states, each with the places of all its tasks. Raises Errors.

    The state with the most tasks is placed first.
    """
    placed: dict[str, Placement] = {}
    found: dict[str, Valid] = {}
    for name, state in sorted(valid.states.items(), key=lambda s: -len(s[1].tasks)):
        state = state.mapped(Mapping(valid.platform.name, tuple(placed.values()), search="states"))
        mapping = place(state, times_of(state.system, state.platform, profile))
        placed.update((p.task, p) for p in mapping.placements if state.tasks[p.task].resampling is None)
        found[name] = state
    return {name: found[name] for name in valid.states}, ()
