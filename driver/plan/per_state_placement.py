"""States with places of their own: what the common placement leaves late there, and the new places.

In: a state that misses something with the common placement. Out: another answer of the search for
it, if there is one; and from a mapping and the common one, the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...model.diagnostic import Diagnostic, Errors, one_of
from ...model.mapping import Mapping, Placement
from ...model.priorities import PriorityOrder
from ...model.scenario import Scenario
from ...search.deadline.outcome import Outcome
from ..text import store
from ..text.check import Valid, ValidScenario


@dataclass(frozen=True, slots=True)
class PerStatePlacement:
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
    states: set[str] = set()
    for transition in scenario.transitions:
        if transition.at_once:
            states |= {transition.source, transition.target}
    return frozenset(states)


def different(mapping: Mapping, common: Mapping) -> tuple[Placement, ...]:
    """The places of a state that differ from the common ones."""
    before = _wholes(common)
    return tuple(Placement(task, at) for task, at in _wholes(mapping).items() if at != before[task])


def _wholes(mapping: Mapping) -> dict[str, tuple[str, ...]]:
    """The places of tasks, and of networks that are not cut."""
    places = {p.task: p.processors for p in mapping.placements}
    return places | {n.task: n.stages[0].processors for n in mapping.networks if len(n.stages) == 1}


# -- of a stored mapping ---------------------------------------------------------------------------
def in_state(
    mapping: Mapping, own: Iterable[Placement], priorities: PriorityOrder | None
) -> Mapping:
    """A mapping with some places replaced, and the priorities of a state."""
    places = {p.task: p for p in own}
    placements = (*(p for p in mapping.placements if p.task not in places), *places.values())
    networks = tuple(n for n in mapping.networks if n.task not in places)
    return Mapping(
        mapping.platform,
        placements,
        search=mapping.search,
        networks=networks,
        priorities=priorities,
    )


def require_own_places(valid: ValidScenario, mapping: Mapping, file: str) -> None:
    """Places of states in a file edited by hand must be CPUs, for tasks that may move. Raises
    Errors."""
    faults: list[Diagnostic] = []
    for bound in mapping.states:
        if bound.placements and bound.state in valid.states:
            faults += _faults(valid.states[bound.state], mapping, bound.placements, file)
    if faults:
        raise Errors(faults)


def _faults(
    state: Valid, mapping: Mapping, own: Iterable[Placement], file: str
) -> Iterator[Diagnostic]:
    platform, common, tasks = state.platform, _as_placed(mapping), state.tasks
    for place in own:
        if place.task not in tasks:
            continue
        span = tasks[place.task].span
        unknown = [p for p in place.processors if p not in platform.processors]
        if unknown:
            message = f"platform `{platform.name}` has no processor `{unknown[0]}`"
            help_text = f"it has {one_of(platform.processors)}; {store.said_in(file)}"
            yield Diagnostic("F501", message, span, help=help_text)
        elif not (_moves(state, place) and _moves(state, common.get(place.task))):
            message = (
                f"`{place.task}` must have the same place in every state: "
                "only unsplit, single-threaded CPU tasks may differ"
            )
            help_text = f"leave its place in a state out; {store.said_in(file)}"
            yield Diagnostic("F504", message, span, help=help_text)


def _as_placed(mapping: Mapping) -> dict[str, Placement]:
    """The common places of tasks and of networks that are not cut."""
    places = {p.task: p for p in mapping.placements}
    for n in mapping.networks:
        places.pop(n.task, None)
        if len(n.stages) == 1 and (n.pre, n.post) == (1, 1):
            s = n.stages[0]
            places[n.task] = Placement(
                n.task,
                s.processors,
                s.streams,
                s.threads,
                bands=s.bands,
                engine=s.engine,
                precision=s.precision,
            )
    return places


def _moves(state: Valid, place: Placement | None) -> bool:
    """May a task with this place have another one in another state?"""
    if place is None or len(place.processors) != 1:
        return False
    if place != Placement(place.task, place.processors, buffers=place.buffers):
        return False
    processor = place.processors[0]
    if processor not in state.platform.processors:
        return False
    return state.platform.pool_of(processor).kind == "cpu"
