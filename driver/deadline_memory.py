"""Apps with deadlines whose networks have little memory: the joint search, for one size of what lies between layers
after the other.

In: a text whose apps all have periods, and what a search for memory is to keep. Out: a `Joint`, with what its networks
take in its mapping. Smaller is slower, so the first size that keeps both is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..machines.crew import ALONE, Crew
from ..model.deployment import PlannedMemory
from ..model.diagnostic import Errors
from ..model.mapping import Mapping
from ..model.profile import Profile
from ..model.times import Times
from ..search.budget import Budget
from ..search.deadline.answer import mapping_of
from ..search.deadline.auto import Outcome
from ..search.deadline.memory import banded
from ..search.deadline.problem import JointProblem
from ..search.events import Listener, heard
from ..search.memory import Chosen, Wish, fastest, in_mb, sizes, too_much
from ..search.registry import Search
from .check import Report, Valid
from .deadline_problem import joint_problem, require_possible
from .deadlines import Joint, judged
from .memory import fronts_of


@dataclass(frozen=True, slots=True)
class _Try:
    """A problem in bands with what was found for it."""

    problem: JointProblem
    outcome: Outcome
    chosen: Chosen
    memory: PlannedMemory
    late: bool


def map_jointly_within(
    valid: Valid,
    profile: Profile | None,
    times: Times,
    search: Search,
    wish: Wish,
    planned: Callable[[Mapping], PlannedMemory],
    *,
    budget: Budget,
    seed: int,
    crew: Crew = ALONE,
    run_here: bool = True,
    report: Report | None = None,
    listener: Listener = None,
) -> Joint:
    """The joint mapping whose networks take at most `wish.limit`, or with `wish.least` as little as meets deadlines.

    Raises Errors (F521) where no size is small enough.
    """
    problem = joint_problem(valid, times, crew)
    require_possible(problem)
    cpu = {name: float(of["cpu"].mean_ns) for name, of in times.of.items() if "cpu" in of}
    pinned = {p.task for p in valid.system.pins if p.platform == valid.platform.name}
    fronts = fronts_of([t for t in valid.tasks.values() if t.name in cpu and t.name not in pinned], cpu, profile)
    tried: list[_Try] = []
    steps = sizes(fronts) or [0]
    for size in reversed(steps) if wish.least else steps:
        chosen = {task: fastest(front, size) for task, front in fronts.items()}
        changed = banded(problem, chosen)
        outcome = search.run(
            changed, seed=seed, budget=budget.part(1 / len(steps)), progress=heard(report, listener), crew=crew
        )
        one = _tried(changed, outcome, chosen, planned, seed)
        if one is None:
            continue
        tried.append(one)
        if (wish.limit is None or one.memory.total <= wish.limit) and not one.late:
            break
    fitting = [t for t in tried if wish.limit is None or t.memory.total <= wish.limit]
    if not tried:  # bands or not: say why there is no mapping at all
        outcome = search.run(problem, seed=seed, budget=budget, progress=heard(report, listener), crew=crew)
        return judged(valid, profile, times, problem, outcome, seed, run_here=run_here, report=report)
    if not fitting:
        assert wish.limit is not None
        smallest = min(tried, key=lambda t: t.memory.total)
        raise Errors([too_much(wish.limit, smallest.memory, smallest.chosen, " to meet deadlines")])
    best = next((t for t in fitting if not t.late), fitting[0])
    if report is not None:
        report(f"networks take {in_mb(best.memory.total)}")
    outcome = best.outcome
    if best.problem.bands:  # what is proved is proved for these bands, and others were not searched
        outcome = replace(outcome, proved=False, bound=None)
    joint = judged(valid, profile, times, best.problem, outcome, seed, run_here=run_here, report=report)
    return replace(joint, mapping=replace(joint.mapping, memory=best.memory))


def _tried(
    problem: JointProblem, outcome: Outcome, chosen: Chosen, planned: Callable[[Mapping], PlannedMemory], seed: int
) -> _Try | None:
    """What a search has found for some choices; None where that is no mapping."""
    if outcome.assignment is None or outcome.verdict is None:
        return None
    mapping = mapping_of(problem, outcome, outcome.verdict, seed)
    return _Try(problem, outcome, chosen, planned(mapping), not outcome.verdict.feasible)
