"""A system that is hard to map under its deadlines: evolution alone finds nothing, and annealing is
needed."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

from flowc.model.platform import Platform, Pool
from flowc.search.deadline.problem import (
    Candidate,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)

MS = 1_000_000


def crowded(seed: int = 0, groups: int = 3, tasks: int = 3, load: float = 0.6) -> JointProblem:
    """Groups of tasks in a row on three cores and a GPU, with a network each; `load` is the share
    of the cores' time."""
    rng = random.Random(seed)
    pools = (Pool("arm", "cpu", 3, True, "fixed_priority"), Pool("volta", "gpu", 1, False, "fifo"))
    teams, items, nets = [], [], []
    each = load * 3 / (groups * tasks)
    for g in range(groups):
        name, period = f"G{g}", rng.choice((20, 25, 40)) * MS
        row = [f"{name}.t{t}" for t in range(tasks)]
        for task in row:
            times = {"cpu": round(period * each * rng.uniform(0.5, 1.5))}
            if rng.random() < 0.3:
                times["gpu"] = times["cpu"] // 4
            items.append(DeadlineTask(task, name, times))
        kernels = tuple(round(period * 0.1 / groups * rng.uniform(0.5, 1.5)) for _ in range(3))
        nets.append(
            DeadlineNetwork(
                f"{name}.net",
                name,
                (
                    Candidate("gpu", (CandidateStage("gpu", kernels, None),)),
                    Candidate(
                        "gpu-cpu",
                        (
                            CandidateStage("gpu", kernels[:2], "l1"),
                            CandidateStage("cpu", (3 * kernels[2],), None),
                        ),
                    ),
                ),
            )
        )
        row.insert(tasks // 2, f"{name}.net")
        channels = tuple(JointChannel(a, b) for a, b in pairwise(row))
        teams.append(TaskGroup(name, Fraction(period), None, g, channels))
    return JointProblem(
        Platform("board", pools, (), "", None), tuple(teams), tuple(items), tuple(nets), {}
    )
