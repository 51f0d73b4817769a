"""Systems with deadlines for benchmarks of joint searches: the HOPES example ImgProcessing, random
ones, large ones.

ImgProcessing has four cameras with eight image tasks and a YOLO each, on a Jetson Xavier of which
four cores are used (Kim's thesis, 5.5.3); its figures are in imgprocessing.json. Random systems
keep its networks and replace its tasks by graphs of ten nodes in the style of SDF3 (5.5.4).
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

from flowc.model.platform import Platform, Pool
from flowc.model.span import Span
from flowc.model.times import MARGIN
from flowc.search.deadline.candidates import KernelRow, front
from flowc.search.deadline.problem import (
    Assignment,
    Candidate,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)

HERE = Path(__file__).parent
#: Tasks of the random graphs have these times (us) when there are sixteen of them; with fewer
#: graphs, longer ones.
GPU_US, CPU_US, GRAPHS = (10, 100), (100, 500), 16


def board(cores: int = 4, gpus: int = 1, dlas: int = 2, engines: int = 4) -> Platform:
    """CPUs by priority, GPUs and DLAs in order of arrival, so many engines over all DLAs."""
    pools = (
        Pool("cpu", "cpu", cores, True, "fixed_priority"),
        Pool("gpu", "gpu", gpus, gpus > 1, "fifo"),
        Pool("dla", "dla", dlas, True, "fifo", engines=engines, engines_total=True),
    )
    return Platform("board", pools, (), "", Span("", 1, 1, 1, 1))


@cache
def figures() -> dict[str, Any]:
    """The file."""
    found: dict[str, Any] = json.loads((HERE / "imgprocessing.json").read_text())
    return found


@cache
def kernels(group: int) -> KernelRow:
    """Worst-case times of a YOLO; those on the DLA are estimates and count more."""
    own = figures()["groups"][group]
    times = {"gpu": tuple(1000.0 * t for t in own["gpu"])}
    times["dla"] = tuple(inf if t is None else 1000 * MARGIN * t for t in own["dla"])
    names = tuple(f"kernel_{k}" for k in range(1, len(own["gpu"]) + 1))
    return KernelRow(names, times, tuple(range(1, len(names))), estimated=frozenset({"dla"}))


@cache
def candidates(group: int, dlas: int = 2, gpus: int = 1) -> tuple[Candidate, ...]:
    """The exact front of a YOLO."""
    return front(kernels(group), board(gpus=gpus, dlas=dlas)).candidates


def period(fps: Fraction | float) -> Fraction:
    """In ns."""
    return Fraction(10**9) / Fraction(fps)


def imgprocessing(fps: Fraction | float) -> JointProblem:
    """The example with this rate for all groups."""
    told = figures()
    teams, items, nets = [], [], []
    for g, (own, priority) in enumerate(zip(told["groups"], told["priorities"], strict=True)):
        name = f"G{g + 1}"
        channels = tuple(JointChannel(f"{name}.{a}", f"{name}.{b}") for a, b in told["channels"])
        teams.append(TaskGroup(name, period(fps), None, priority, channels))
        tasks = {
            **told["image_tasks"],
            "Jedi_pre": {"cpu": own["pre"]},
            "Jedi_post": {"cpu": own["post"]},
        }
        for task, us in tasks.items():
            items.append(
                DeadlineTask(f"{name}.{task}", name, {kind: 1000 * t for kind, t in us.items()})
            )
        nets.append(DeadlineNetwork(f"{name}.Jedi", name, candidates(g)))
    return JointProblem(board(), tuple(teams), tuple(items), tuple(nets), {})


def authors(problem: JointProblem) -> tuple[JointProblem, Assignment, list[str]]:
    """The mapping that comes with the example, as a problem with these candidates; tasks that it
    puts where they cannot run, which are left on the GPU."""
    moved, items, nets, places = [], [], [], []
    for g, (own, net) in enumerate(zip(figures()["groups"], problem.networks, strict=True)):
        chain = kernels(g)
        steps, first = [], 0
        for place, last in own["authors"]["stages"]:
            kind = place.partition("[")[0]
            parts = tuple(round(t) for t in chain.wcet_ns[kind][first:last])
            steps.append(
                CandidateStage(
                    kind,
                    parts if kind == "gpu" else (sum(parts),),
                    chain.layers[last - 1],
                    kind == "dla",
                )
            )
            first = last
        nets.append(replace(net, candidates=(Candidate("authors", tuple(steps)),)))
        places.append(tuple(place for place, _ in own["authors"]["stages"]))
    for item in problem.tasks:
        group, _, task = item.name.partition(".")
        place = figures()["groups"][int(group[1:]) - 1]["authors"]["tasks"][task]
        if place not in problem.places(item):
            moved.append(item.name)
            place = "gpu"
        items.append(place)
    own_problem = replace(problem, networks=tuple(nets))
    return own_problem, Assignment((0,) * len(nets), tuple(places), tuple(items)), moved


def random_system(graphs: int, fps: Fraction | float, seed: int) -> JointProblem:
    """The four YOLOs beside random graphs of ten nodes, half of which run on the GPU only; all are
    independent."""
    rng = random.Random(f"{graphs} {seed}")
    teams, items = [], []
    nets = []
    for g in range(4):
        name = f"N{g + 1}"
        teams.append(TaskGroup(name, period(fps), None, 100 + g, ()))
        nets.append(DeadlineNetwork(f"{name}.Jedi", name, candidates(g)))
    for g in range(graphs):
        name = f"G{g + 1}"
        tasks, channels = _graph(rng, name, 10)
        works = list(range(10))
        rng.shuffle(works)
        for k, task in enumerate(tasks):
            times = {"gpu": _time(rng, GPU_US, graphs)}
            if works[k] >= 5:
                times["cpu"] = _time(rng, CPU_US, graphs)
            items.append(DeadlineTask(task, name, times))
        teams.append(TaskGroup(name, period(fps), None, rng.randrange(100), channels))
    return JointProblem(board(), tuple(teams), tuple(items), tuple(nets), {})


def _time(rng: random.Random, us: tuple[int, int], graphs: int) -> int:
    return round(1000 * rng.uniform(*us) * GRAPHS / graphs)


def _graph(rng: random.Random, name: str, count: int) -> tuple[list[str], tuple[JointChannel, ...]]:
    """A connected graph without cycles: a way through all nodes' ranks, and some arrows more."""
    tasks = [f"{name}.t{k}" for k in range(count)]
    arrows = {(rng.randrange(k), k) for k in range(1, count)}
    arrows |= {tuple(sorted(rng.sample(range(count), 2))) for _ in range(count // 3)}  # type: ignore[misc]
    return tasks, tuple(JointChannel(tasks[a], tasks[b]) for a, b in sorted(arrows))


def large_system(groups: int, cores: int, gpus: int, dlas: int, seed: int = 0) -> JointProblem:
    """Groups of ten tasks in a row with a fork, every fourth with a YOLO of the example, on a large
    board; 10 fps.

    Most tasks run on CPUs only, a third of them on a GPU as well; CPUs are used for about half of
    their time.
    """
    rng = random.Random(seed)
    teams, items, nets = [], [], []
    share = 0.5 * cores * float(period(10)) / (10 * groups)
    for g in range(groups):
        name = f"G{g + 1}"
        count = 9 if g % 4 == 0 else 10
        tasks = [f"{name}.t{k}" for k in range(count)]
        rows = [*tasks[:5], f"{name}.net", *tasks[5:]] if g % 4 == 0 else tasks
        channels = [JointChannel(a, b) for a, b in pairwise(rows[:-1])] + [
            JointChannel(rows[2], rows[-1])
        ]
        for task in tasks:
            cpu = round(share * rng.uniform(0.5, 1.5))
            times = {"cpu": cpu, "gpu": cpu // 8} if rng.random() < 0.3 else {"cpu": cpu}
            items.append(DeadlineTask(task, name, times))
        if g % 4 == 0:
            nets.append(DeadlineNetwork(f"{name}.net", name, candidates(g // 4 % 4, dlas=2)))
        teams.append(TaskGroup(name, period(10), None, rng.randrange(8), tuple(channels)))
    return JointProblem(board(cores, gpus, dlas, 16), tuple(teams), tuple(items), tuple(nets), {})
