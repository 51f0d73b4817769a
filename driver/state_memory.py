"""Scenarios whose networks have little memory: the same bands in all states, for one size of what lies between layers
after the other.

In: a text with states, and what a search for memory is to keep. Out: what was found for the states, with what networks
take in the state that needs most; weights of all networks stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from ..codegen.states import memory_of
from ..machines.crew import ALONE, Crew
from ..model.application import Task
from ..model.deployment import Deployment, PlannedMemory
from ..model.diagnostic import Errors
from ..model.mapping import Mapping
from ..model.profile import Profile
from ..model.times import times_of
from ..networks.onnx.memory import needs
from ..search.budget import Budget
from ..search.events import Listener
from ..search.memory import Chosen, Wish, fastest, in_mb, sizes, too_much
from ..search.registry import Search
from .best import map_states_jointly
from .build import place, plan
from .check import Report, Valid
from .memory import fronts_of
from .own_places import in_state
from .state_map import States


@dataclass(frozen=True, slots=True)
class _Try:
    """What was found for the states with some bands."""

    states: States
    chosen: Chosen
    memory: PlannedMemory


def map_states_within(
    valid: Valid,
    profile: Profile | None,
    search: Search,
    wish: Wish,
    *,
    budget: Budget,
    seed: int,
    crew: Crew = ALONE,
    run_here: bool,
    report: Report | None = None,
    listener: Listener = None,
) -> States:
    """One placement for all states, whose networks take at most `wish.limit`, or with `wish.least` as little as meets
    deadlines. Raises Errors (F521) where no size is small enough.
    """
    fronts = fronts_of(_free_networks(valid), _cpu_ns(valid, profile), profile)
    every = sizes(fronts) or [0]
    steps = [s for s in every if wish.limit is None or s <= wish.limit] or every[-1:]
    find = partial(
        map_states_jointly, valid, profile, search, budget=budget.part(1 / (len(steps) + run_here)), seed=seed,
        crew=crew, report=report, listener=listener,
    )  # fmt: skip
    tried: list[_Try] = []

    def look(chosen: Chosen, run_here: bool = False) -> _Try | None:
        states = find(run_here=run_here, chosen=chosen)
        if not states.mapping.placements:
            return None
        return _Try(states, chosen, taken_in_states(states.valid, profile, states.mapping))

    def fits(one: _Try) -> bool:
        return wish.limit is None or one.memory.total <= wish.limit

    for size in reversed(steps) if wish.least else steps:
        if report is not None:
            report(f"networks with at most {in_mb(size)} between layers")
        one = look({task: fastest(front, size) for task, front in fronts.items()})
        tried += [] if one is None else [one]
        if one is not None and fits(one) and not one.states.late:
            break
    if not tried:  # bands or not: say why there is no mapping at all
        return find(run_here=False)
    fitting = [t for t in tried if fits(t)]
    if not fitting:
        assert wish.limit is not None
        smallest = min(tried, key=lambda t: t.memory.total)
        raise Errors([too_much(wish.limit, smallest.memory, smallest.chosen, " in all states")])
    best = next((t for t in fitting if not t.states.late), fitting[0])
    again = look(best.chosen, run_here=True) if run_here else None  # only what is taken is worth a run
    if again is not None and fits(again) and again.states.late <= best.states.late:
        best = again
    return replace(best.states, mapping=replace(best.states.mapping, memory=best.memory))


def _free_networks(valid: Valid) -> list[Task]:
    """Tasks of all states that no pin of the text places."""
    pinned = {p.task for p in valid.system.pins if p.platform == valid.platform.name}
    found = {name: task for state in _all_states(valid) for name, task in state.tasks.items()}
    return [task for name, task in found.items() if name not in pinned]


def _all_states(valid: Valid) -> Iterable[Valid]:
    """The states, also as they are with other variants."""
    yield from valid.states.values()
    yield from (o for own in valid.options.values() for o in own if not isinstance(o, str))


def _cpu_ns(valid: Valid, profile: Profile | None) -> dict[str, float]:
    """How long tasks take on a CPU, as far as that is known."""
    found: dict[str, float] = {}
    for state in _all_states(valid):
        times = times_of(state.system, state.platform, profile)
        found |= {name: float(of["cpu"].mean_ns) for name, of in times.of.items() if "cpu" in of}
    return found


def taken(valid: Valid, profile: Profile | None, mapping: Mapping) -> PlannedMemory:
    """What networks take under a mapping of a text, or of one of its states. Raises Errors."""
    return _deployed(valid, profile, mapping).planned or PlannedMemory(0, 0, 0)


def taken_in_states(valid: Valid, profile: Profile | None, mapping: Mapping) -> PlannedMemory:
    """The weights of all networks, and the rest of the state that needs most. Raises Errors."""
    own = {s.state: s.placements for s in mapping.states if s.placements}
    mappings = {name: in_state(mapping, own[name]) if name in own else mapping for name in valid.states}
    found = memory_of([_deployed(valid.states[name], profile, m) for name, m in mappings.items()])
    return found or PlannedMemory(0, 0, 0)


def taken_beside(valid: Valid, state: Valid, profile: Profile | None) -> Callable[[Mapping], PlannedMemory]:
    """What networks take in one state, with the weights of those in others, which stay."""
    there = {t.network.content_hash for t in state.tasks.values() if t.network is not None}
    others = {
        n.content_hash: n for s in valid.states.values() for t in s.tasks.values() if (n := t.network) is not None
    }
    known = [needs(n) for digest, n in others.items() if digest not in there]
    weights = sum(n.weights for n in known if n is not None)

    def found(mapping: Mapping) -> PlannedMemory:
        own = taken(state, profile, mapping)
        return replace(own, weights=own.weights + weights)

    return found


def require_within(wish: Wish, mapping: Mapping) -> None:
    """All states together keep the limit: sessions of one stay in memory in others, too. Raises Errors."""
    assert mapping.memory is not None
    if wish.limit is not None and mapping.memory.total > wish.limit:
        raise Errors([too_much(wish.limit, mapping.memory, {}, " in all states")])


def _deployed(valid: Valid, profile: Profile | None, mapping: Mapping) -> Deployment:
    mapped = valid.mapped(mapping)
    times = times_of(mapped.system, mapped.platform, profile)
    return plan(mapped, times, place(mapped, times)).deployment
