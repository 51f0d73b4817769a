"""The states of a scenario with one placement: a task of several states has one place, unless a
stored mapping has another one for a state.

In: a valid text with a scenario. Out: its states with everything pinned that a stored mapping, or
an earlier state, has placed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

from ...model.diagnostic import Diagnostic, Errors, did_you_mean, has_errors, one_of
from ...model.mapping import ChangeBound, Mapping, Placement, StateBound
from ...model.platform import Platform
from ...model.profile import Profile
from ...model.times import times_of
from ...passes.staged import Staged
from ..text import store
from ..text.check import Valid, ValidScenario
from .per_state_placement import in_state, require_own_places
from .program import place, union


@dataclass(frozen=True, slots=True)
class PlacedStates:
    """The states, each with the places of all its tasks. By a stored mapping: how changes are made
    and what they take at most, and what is proved of states; `diagnostics` say why that does not
    count. `homes` are the common places of what is elsewhere in some state."""

    states: dict[str, Valid]
    bounds: dict[tuple[str, str], ChangeBound]
    proved: dict[str, StateBound]
    diagnostics: tuple[Diagnostic, ...]
    homes: tuple[Placement, ...]


def placed_states(valid: ValidScenario, profile: Profile | None) -> PlacedStates:
    """One placement for all states; the one with the most tasks is placed first. Raises Errors."""
    placed, warnings = _stored(valid)
    own = {s.state: s.placements for s in placed.states}
    bounds = {(t.source, t.target): t for t in placed.transitions}
    proved = {s.state: s for s in placed.states}
    states: dict[str, Valid] = {}
    for name, state in sorted(valid.states.items(), key=lambda s: -len(s[1].tasks)):
        beside = (*placed.placements, *_beside(state, placed, states.values()))
        moved = own.get(name, ())
        order = proved[name].priorities if name in proved else None
        mapping = in_state(replace(placed, placements=beside), moved, order)
        states[name] = state = state.mapped(mapping)
        common = _common_places(state, profile, {place.task for place in moved})
        placed = union((placed, replace(placed, placements=common)))
    elsewhere: set[str] = set()
    for moved in own.values():
        elsewhere |= {place.task for place in moved}
    homes = tuple(p for p in placed.placements if p.task in elsewhere)
    return PlacedStates(
        {name: states[name] for name in valid.states}, bounds, proved, warnings, homes
    )


def _stored(valid: ValidScenario) -> tuple[Mapping, tuple[Diagnostic, ...]]:
    """The stored mapping, an empty one if it does not count, and why not. Raises Errors."""
    empty = Mapping(valid.platform.name, (), search="states")
    stored, warnings = store.read_mapping(valid.system, valid.platform)
    if stored is None:
        return empty, warnings
    stale = stored.stale(valid.system, valid.platform)
    if stale is not None:
        return empty, (*warnings, stale)
    _require_rates(stored.mapping, valid.platform, stored.file)
    require_own_places(valid, stored.mapping, stored.file)
    return stored.mapping, warnings


def _common_places(
    state: Valid, profile: Profile | None, moved: Container[str]
) -> tuple[Placement, ...]:
    """The places of a state's tasks, without those that are `moved` there. Raises Errors."""
    tasks = state.tasks
    common = []
    for placement in place(state, times_of(state.system, state.platform, profile)).placements:
        if tasks[placement.task].resampling is None and placement.task not in moved:
            common.append(placement)
    return tuple(common)


def with_stored(valid: Valid) -> tuple[Valid, tuple[Diagnostic, ...]]:
    """A text with its tasks where a stored mapping has them in all states, for pictures; and why
    the mapping does not count.

    Raises Errors.
    """
    stored, warnings = store.read_mapping(valid.system, valid.platform)
    if stored is None:
        return valid, warnings
    staged = stored(Staged(valid.system, valid.platform))
    if has_errors(staged.diagnostics):
        raise Errors(staged.diagnostics)
    shown = replace(valid.rewritten(staged.system), mapping=staged.mapping)
    return shown, (*warnings, *staged.diagnostics)


def _require_rates(mapping: Mapping, platform: Platform, file: str) -> None:
    """Clock rates in a file edited by hand must be rates of the platform. Raises Errors."""
    known = {pool.name: [round(hz) for hz in pool.frequencies_hz] for pool in platform.pools}
    faults = []
    for state in mapping.states:
        for pool, hz in state.clocks_hz:
            if pool not in known:
                message = f"platform `{platform.name}` has no pool `{pool}`"
                help_text = did_you_mean(pool, known) or f"it has {one_of(known)}"
                help_text = f"{help_text}; {store.said_in(file)}"
                faults.append(Diagnostic("F501", message, None, help=help_text))
            elif hz not in known[pool]:
                message = f"`{pool}` has no clock rate of {hz / 1e6:g} MHz"
                faults.append(Diagnostic("F105", message, None, help=store.said_in(file)))
    if faults:
        raise Errors(faults)


def _beside(state: Valid, placed: Mapping, earlier: Iterable[Valid]) -> Iterator[Placement]:
    """Variants without a place get the place of those that they replace, so that no task waits for
    them."""
    known = {p.task: p for p in placed.placements}
    homes: dict[str, Placement] = {}
    for other in earlier:
        for task, where in places_of_variants(other):
            if task in known:
                homes[where] = known[task]
    for task, where in places_of_variants(state):
        home = homes.get(where)
        if home is None or task in known or home.bands:
            continue
        if all(state.platform.pool_of(p).kind == "cpu" for p in home.processors):
            yield replace(home, task=task)


def places_of_variants(state: Valid) -> Iterator[tuple[str, str]]:
    """The tasks of variants, each with the name without that of the variant."""
    for app in state.system.apps:
        wholes = {f"{instance}.{variant}": instance for instance, variant in app.variants}
        for task in app.tasks:
            for whole, instance in wholes.items():
                if task.name == whole or task.name.startswith(f"{whole}."):
                    yield task.name, instance + task.name[len(whole) :]
