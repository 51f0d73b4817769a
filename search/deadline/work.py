"""The mean work that a placement puts on each pool, and the power that it takes.

In: a problem with its power model, an assignment. Out: the processors of each pool that are busy in
the mean at the highest clock rate, and watts at other rates.
"""

from __future__ import annotations

from fractions import Fraction

from ...model.platform import Pool
from ..frequency.problem import Domain
from .power import PowerModel
from .problem import (
    Assignment,
    Candidate,
    DeadlineNetwork,
    DeadlineTask,
    JointProblem,
)


def model_of(problem: JointProblem) -> PowerModel:
    """The power model of a problem. Raises AssertionError if there is none."""
    assert problem.power is not None
    return problem.power


def task_work(problem: JointProblem, task: DeadlineTask, pool: Pool) -> Fraction:
    """The work of a task on a pool, with that of the ends of arrows that are fired beside it."""
    model, period = model_of(problem), problem.period[task.group]
    if task.homes:  # a server: nothing is known of the mean work of its app
        return Fraction(0)
    found = model.work(task.name, pool.type).share(pool, task.firings / period)
    for follower in problem.followers:
        if follower.task is not None and follower.source == task.name:
            work = model.work(follower.name, pool.type)
            found += work.share(pool, follower.firings / period)
    return found


def stage_work(
    problem: JointProblem, network: DeadlineNetwork, candidate: Candidate, s: int, pool: Pool
) -> Fraction:
    """The work of a stage of a candidate on a pool: a network that is not cut has all of it, else a
    stage has its part by the worst cases."""
    stage = candidate.stages[s]
    work = model_of(problem).work(network.name, pool.type)
    if len(candidate.stages) > 1:
        work = work.part(Fraction(stage.firing))
    return work.share(pool, stage.firings / problem.period[network.group])


def domains(problem: JointProblem, assignment: Assignment) -> tuple[Domain, ...]:
    """The power of each pool at each of its rates."""
    platform = problem.platform
    work = {pool.name: Fraction(0) for pool in platform.pools}
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        pool = platform.pool_of(place)
        work[pool.name] += task_work(problem, task, pool)
    for network, choice, places in zip(
        problem.networks, assignment.choice, assignment.stages, strict=True
    ):
        for s, place in enumerate(places):
            pool = platform.pool_of(place)
            work[pool.name] += stage_work(problem, network, network.candidates[choice], s, pool)
    return model_of(problem).domains(work)
