"""States with places of their own: what the common placement leaves late there, and the new places.

In: a state that misses something with the common placement. Out: another answer of the search for
it, if there is one; and from a mapping and the common one, the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...model.diagnostic import Diagnostic, Errors, one_of
from ...model.mapping import Mapping, Placement
from ...model.scenario import Scenario
from ...search.deadline.outcome import Outcome
from ..text.check import Valid, ValidScenario


@dataclass(frozen=True, slots=True)
class Own:
    """For a state with places of its own: the answer with the `common` places, and what it misses,
    in words."""

    common: Outcome
    late: str


def bound_together(scenario: Scenario) -> frozenset[str]:
    """States that must have the common places: a frame that is done again in the next state stays
    in its layout.

    A change with `next` requires nothing: it is made without a pause if both states keep all their
    deadlines in one layout, and a state that keeps them needs no places of its own.
    """
    return frozenset(
        name for t in scenario.transitions if t.at_once for name in (t.source, t.target)
    )


def different(mapping: Mapping, common: Mapping) -> tuple[Placement, ...]:
    """The places of a state that differ from the common ones."""
    before = _wholes(common)
    return tuple(Placement(task, at) for task, at in _wholes(mapping).items() if at != before[task])


def _wholes(mapping: Mapping) -> dict[str, tuple[str, ...]]:
    """The places of tasks, and of networks that are not cut."""
    found = {p.task: p.processors for p in mapping.placements}
    return found | {n.task: n.stages[0].processors for n in mapping.networks if len(n.stages) == 1}


# -- of a stored mapping ---------------------------------------------------------------------------
def in_state(mapping: Mapping, own: Iterable[Placement]) -> Mapping:
    """A mapping with some places replaced."""
    places = {p.task: p for p in own}
    placements = (*(p for p in mapping.placements if p.task not in places), *places.values())
    networks = tuple(n for n in mapping.networks if n.task not in places)
    return Mapping(mapping.platform, placements, search=mapping.search, networks=networks)


def require_own_places(valid: ValidScenario, mapping: Mapping, file: str) -> None:
    """Places of states in a file edited by hand must be CPUs, for tasks that may move. Raises
    Errors."""
    faults = [
        fault
        for bound in mapping.states
        if bound.placements and bound.state in valid.states
        for fault in _faults(valid.states[bound.state], mapping, bound.placements, file)
    ]
    if faults:
        raise Errors(faults)


def _faults(
    state: Valid, mapping: Mapping, own: Iterable[Placement], file: str
) -> Iterator[Diagnostic]:
    platform, common = state.platform, _as_placed(mapping)
    said = f"this is said in `{file}`"
    for place in (p for p in own if p.task in state.tasks):
        span = state.tasks[place.task].span
        unknown = [p for p in place.processors if p not in platform.processors]
        if unknown:
            message = f"platform `{platform.name}` has no processor `{unknown[0]}`"
            yield Diagnostic(
                "F501", message, span, help=f"it has {one_of(platform.processors)}; {said}"
            )
        elif not (
            _moves(state, place) and place.task in common and _moves(state, common[place.task])
        ):
            message = (
                f"`{place.task}` must have the same place in every state: "
                "only unsplit, single-threaded CPU tasks may differ"
            )
            yield Diagnostic("F504", message, span, help=f"leave its place in a state out; {said}")


def _as_placed(mapping: Mapping) -> dict[str, Placement]:
    """The common places of tasks and of networks that are not cut."""
    found = {p.task: p for p in mapping.placements}
    for n in mapping.networks:
        found.pop(n.task, None)
        if len(n.stages) == 1 and (n.pre, n.post) == (1, 1):
            s = n.stages[0]
            found[n.task] = Placement(n.task, s.processors, s.streams, s.threads, bands=s.bands)
    return found


def _moves(state: Valid, place: Placement) -> bool:
    """May this task have another place in another state?"""
    plain = place == Placement(place.task, place.processors, buffers=place.buffers)
    known = all(p in state.platform.processors for p in place.processors)
    return (
        plain
        and known
        and len(place.processors) == 1
        and state.platform.pool_of(place.processors[0]).kind == "cpu"
    )
