"""Mappings with deadlines whose networks take little memory: the unchanged search, for one size of
the buffers between layers after the other.

In: a text whose apps all have periods, and a limit on memory. Out: the first answer that keeps the
limit and meets all deadlines. Smaller is slower, so the first size that does both is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ...codegen.states import memory_of
from ...model.application import Network, Task
from ...model.deployment import Deployment, PlannedMemory
from ...model.diagnostic import Errors
from ...model.mapping import Mapping
from ...model.profile import Profile
from ...model.quantity import in_bytes
from ...model.times import Times, times_of
from ...networks.onnx.memory import needs
from ...search.deadline.answer import mapping_of
from ...search.deadline.memory import banded
from ...search.deadline.outcome import Outcome
from ...search.deadline.problem import JointProblem
from ...search.memory import Chosen, Fronts, MemoryLimit, fastest, sizes, too_much
from ..plan.memory import fronts_of
from ..plan.per_state_placement import in_state
from ..plan.program import place, plan
from ..text.check import Valid, ValidScenario
from .best import map_states_jointly
from .deadline_problem import joint_problem, require_possible
from .deadlines import Joint, judged, searched
from .known_times import KnownTimes
from .request import MapRequest
from .state_map import States

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[A]):
    """An answer with some bands, and the memory of its networks."""

    answer: A
    chosen: Chosen
    memory: PlannedMemory
    late: bool


def map_jointly_within(
    valid: Valid, known: KnownTimes, request: MapRequest, limit: MemoryLimit
) -> Joint:
    """The joint mapping whose networks keep the limit and meet all deadlines. Raises Errors
    (F521)."""
    problem = joint_problem(valid, known.times, request.search_workers)
    require_possible(problem)
    on_cpu = _cpu_ns([known.times])
    fronts = fronts_of(
        [t for t in _free(valid, [valid]) if t.name in on_cpu], on_cpu, known.profile
    )
    buffer_sizes = sizes(fronts) or [0]
    part = request.part(1 / len(buffer_sizes))

    def attempt(chosen: Chosen) -> Attempt[tuple[JointProblem, Outcome]] | None:
        changed = banded(problem, chosen)
        outcome = searched(changed, part)
        if outcome.assignment is None or outcome.verdict is None:
            return None
        memory = taken(
            valid, known.profile, mapping_of(changed, outcome, outcome.verdict, request.seed)
        )
        return Attempt((changed, outcome), chosen, memory, not outcome.verdict.feasible)

    best = _first_within(limit, fronts, buffer_sizes, attempt, " to meet deadlines")
    if best is None:  # no mapping with or without bands: the whole search reports why
        return judged(valid, known, problem, searched(problem, request), request)
    request.say(f"networks take {in_bytes(best.memory.total)}")
    changed, outcome = best.answer
    if changed.bands:  # other bands were not searched
        outcome = outcome.without_proof
    joint = judged(valid, known, changed, outcome, request)
    return replace(joint, mapping=replace(joint.mapping, memory=best.memory))


def map_states_within(
    valid: ValidScenario, known: KnownTimes, request: MapRequest, limit: MemoryLimit
) -> States:
    """One placement for all states, with the same bands in all of them, that keeps the limit.
    Raises Errors (F521)."""
    every_state = [*valid.states.values(), *_options(valid)]
    on_cpu = _cpu_ns(known.of(state).times for state in every_state)
    fronts = fronts_of(_free(valid, every_state), on_cpu, known.profile)
    every_size = sizes(fronts) or [0]
    buffer_sizes = [s for s in every_size if limit.bytes is None or s <= limit.bytes] or every_size[
        -1:
    ]
    part = request.part(1 / (len(buffer_sizes) + request.runs_program))
    nothing_runs = replace(part, measure=False)

    def attempt(chosen: Chosen, asked: MapRequest = nothing_runs) -> Attempt[States] | None:
        states = map_states_jointly(valid, known, asked, chosen)
        if not states.mapping.placements:
            return None
        memory = taken_in_states(states.valid, known.profile, states.mapping)
        return Attempt(states, chosen, memory, states.late)

    def announced(chosen: Chosen) -> Attempt[States] | None:
        most = max((c.buffers for c in chosen.values()), default=0)
        request.say(f"networks with at most {in_bytes(most)} between layers")
        return attempt(chosen)

    best = _first_within(limit, fronts, buffer_sizes, announced, " in all states")
    if best is None:  # no mapping with or without bands: the search without bands reports why
        return map_states_jointly(valid, known, nothing_runs)
    # only the chosen one is run
    again = attempt(best.chosen, part) if request.runs_program else None
    if again is not None and limit.allows(again.memory) and again.late <= best.late:
        best = again
    return replace(best.answer, mapping=replace(best.answer.mapping, memory=best.memory))


def _first_within(
    limit: MemoryLimit,
    fronts: Fronts,
    buffer_sizes: list[int],
    attempt: Callable[[Chosen], Attempt[A] | None],
    aim: str,
) -> Attempt[A] | None:
    """The first attempt that keeps the limit and is in time, else the first that keeps the limit.

    None if no bands have any mapping. Raises Errors (F521) if no size is small enough.
    """
    attempts: list[Attempt[A]] = []
    for size in reversed(buffer_sizes) if limit.least else buffer_sizes:
        one = attempt({task: fastest(front, size) for task, front in fronts.items()})
        if one is None:
            continue
        attempts.append(one)
        if limit.allows(one.memory) and not one.late:
            return one
    if not attempts:
        return None
    fitting = [a for a in attempts if limit.allows(a.memory)]
    if not fitting:
        smallest = min(attempts, key=lambda a: a.memory.total)
        raise Errors([too_much(limit, smallest.memory, smallest.chosen, aim)])
    return fitting[0]


def _options(valid: ValidScenario) -> list[Valid]:
    """The states with other variants."""
    return [option for own in valid.options.values() for option in own if isinstance(option, Valid)]


def _free(valid: Valid, parts: Iterable[Valid]) -> list[Task]:
    """Tasks that no pin of the text places."""
    pinned = {p.task for p in valid.system.pins if p.platform == valid.platform.name}
    tasks: dict[str, Task] = {}
    for part in parts:
        tasks |= part.tasks
    return [task for name, task in tasks.items() if name not in pinned]


def _cpu_ns(times: Iterable[Times]) -> dict[str, float]:
    """The known times of tasks on a CPU."""
    found: dict[str, float] = {}
    for part in times:
        on_cpus = {name: part.on_cpu(name) for name in part.of}
        found |= {name: float(time.mean_ns) for name, time in on_cpus.items() if time is not None}
    return found


# -- what networks take ----------------------------------------------------------------------------
def taken(valid: Valid, profile: Profile | None, mapping: Mapping) -> PlannedMemory:
    """The memory of networks under a mapping of a text, or of one of its states. Raises Errors."""
    return _deployed(valid, profile, mapping).planned or PlannedMemory(0, 0, 0)


def taken_in_states(
    valid: ValidScenario, profile: Profile | None, mapping: Mapping
) -> PlannedMemory:
    """The weights of all networks, and the rest of the state that needs most. Raises Errors."""
    own = {s.state: s.placements for s in mapping.states if s.placements}
    mappings = {
        name: in_state(mapping, own[name], None) if name in own else mapping
        for name in valid.states
    }
    memory = memory_of([_deployed(valid.states[name], profile, m) for name, m in mappings.items()])
    return memory or PlannedMemory(0, 0, 0)


def taken_beside(
    valid: ValidScenario, state: Valid, profile: Profile | None
) -> Callable[[Mapping], PlannedMemory]:
    """The memory of networks in one state, with the weights of those in others, which stay."""
    there = {t.network.content_hash for t in state.tasks.values() if t.network is not None}
    others: dict[str, Network] = {}
    for other_state in valid.states.values():
        for task in other_state.tasks.values():
            if task.network is not None and task.network.content_hash not in there:
                others[task.network.content_hash] = task.network
    needed = [needs(network) for network in others.values()]
    weights = sum(need.weights for need in needed if need is not None)

    def found(mapping: Mapping) -> PlannedMemory:
        own = taken(state, profile, mapping)
        return replace(own, weights=own.weights + weights)

    return found


def require_within(limit: MemoryLimit, memory: PlannedMemory) -> None:
    """Check that all states together keep the limit: sessions of one state stay in memory in
    others. Raises Errors (F521)."""
    if not limit.allows(memory):
        raise Errors([too_much(limit, memory, {}, " in all states")])


def _deployed(valid: Valid, profile: Profile | None, mapping: Mapping) -> Deployment:
    mapped = valid.mapped(mapping)
    times = times_of(mapped.system, mapped.platform, profile)
    return plan(mapped, times, place(mapped, times)).deployment
