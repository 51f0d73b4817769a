"""Every placement of tasks and every cut of a network of small random apps, against `exact`.

The load of the busiest processor is computed here from the numbers that a problem is made of,
without the code of the searches: work, overheads, hand-overs, and the lock of the interpreter.

    python tests/referees/joint_throughput.py --apps 500 --seed 1

prints how many answers are the least of all, and how many of these `exact` calls optimal; how many
are called optimal though a better one exists, and how many bounds are above the least. The exit
status is 1 if one of the last two happened.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from flowc.model.mapping import Mapping
from flowc.model.platform import Pool, Wire
from flowc.search.budget import Budget
from flowc.search.registry import search_named
from flowc.search.throughput.joint import joint_plan
from flowc.search.throughput.problem import Problem

from graphs import PLACE
from problems import NET, chain, problem

#: A hand-over between tasks, what a stage takes beyond its layers, and a hand-over between stages
#: of one kind of processor (`problems.problem`).
HOP, STAGE, SAME = 30_000.0, 20_000.0, 20_000.0
#: Threads that share the interpreter take so many times as long.
CONTENTION = 1.3
MOST_STAGES = 4
TASKS = ("A.t0", "A.t1", "A.t3")


def draw(seed: int) -> Problem:
    """camera -> prepare -> network -> top on up to three processors, some of them on two machines;
    some tasks in Python, some layers impossible on a GPU."""
    rng = random.Random(seed)
    pools = rng.choice([{"cpu": 2}, {"cpu": 3}, {"cpu": 1, "gpu": 1}, {"cpu": 2, "gpu": 1}])
    count = rng.randint(2, 6)
    layers = {kind: [rng.uniform(0.2, 2.0) for _ in range(count)] for kind in pools}
    if "gpu" in layers and rng.random() < 0.3:
        layers["gpu"][rng.randrange(count)] = inf
    given = problem(layers, pools)  # type: ignore[arg-type]
    letters = "".join(rng.choice("pc") for _ in range(2)) + "c" + rng.choice("pc")
    whole = sum(layers["cpu"]) * 1e6
    firing = dict(given.firing_ns)
    for task in TASKS:
        firing[task] = {"cpu": rng.uniform(0, 0.5) * whole}
    app = chain("A", letters, stateless=True)
    given = replace(
        given, apps=(app,), firing_ns=firing, runtime_ns=rng.choice([0.0, 5_000.0, 50_000.0])
    )
    return given if rng.random() < 0.6 else on_two_machines(given, rng)


def on_two_machines(given: Problem, rng: random.Random) -> Problem:
    """The same with two cores on one machine and one on another, or one on each; a wire may lead in
    one direction only."""
    here = Pool("here", "cpu", rng.randint(1, 2), True, "static_order", machine="m")
    there = Pool("there", "cpu", 1, True, "static_order", machine="n")
    wires = [
        Wire(a, b, Fraction(rng.randint(0, 900_000)), Fraction(rng.randint(0, 8)), PLACE)
        for a, b in (("m", "n"), ("n", "m"))
    ]
    kept = tuple(wires if rng.random() < 0.7 else wires[:1])
    links = (Pool(w.processor, "link", 1, False, "fifo", machine=w.source) for w in kept)
    platform = replace(given.platform, pools=(here, there, *links), machines=("m", "n"), wires=kept)
    costs = given.networks[NET].costs
    layers, overhead = {"cpu": costs.layers["cpu"]}, {"cpu": costs.overhead["cpu"]}
    network = replace(given.networks[NET], costs=replace(costs, layers=layers, overhead=overhead))
    firing = {task: {"cpu": times["cpu"]} for task, times in given.firing_ns.items()}
    return replace(given, platform=platform, networks={NET: network}, firing_ns=firing)


def transfer(source: str, target: str) -> float:
    """Between stages: 100 kB at 0.2 ps a byte."""
    return SAME + (0.0002 * 100_000 if source != target else 0.0)


def busiest(
    given: Problem, ends: tuple[int, ...], stages: tuple[str, ...], tasks: tuple[str, ...]
) -> float:
    """The load of the busiest processor, wire, or interpreter of a machine, in ns."""
    kind = {p: pool.kind for pool in given.platform.pools for p in pool.processors}
    machine = {p: pool.machine for pool in given.platform.pools for p in pool.processors}
    wires = {(w.source, w.destination): w for w in given.platform.wires}
    load = dict.fromkeys(kind, 0.0)
    runtime, python = Counter[str](), Counter[str]()

    def hand_over(sender: str, receiver: str, size: int, here: float) -> float:
        """What goes over a wire, or costs the receiver."""
        between = machine[sender], machine[receiver]
        if between[0] == between[1]:
            return here
        if between not in wires:
            return inf
        wire = wires[between]
        load[wire.processor] += float(wire.fixed_ns + size * wire.ns_per_byte)
        return 0.0

    layers = given.networks[NET].costs.layers
    for number, (first, end) in enumerate(pairwise((0, *ends))):
        place = stages[number]
        load[place] += sum(layers[kind[place]][first:end]) + STAGE + given.runtime_ns
        runtime[machine[place]] += 1
        if number:
            load[place] += transfer(kind[stages[number - 1]], kind[place])
            load[place] += hand_over(stages[number - 1], place, 100_000, 0.0)
    used: dict[str, set[str]] = {}
    for task, place in zip(TASKS, tasks, strict=True):
        ns = given.firing_ns[task]["cpu"]
        load[place] += ns + given.runtime_ns
        runtime[machine[place]] += 1
        if given.apps[0].task(task).implementations[0].language == "python":
            python[machine[place]] += ns
            used.setdefault(machine[place], set()).add(place)
    camera, prepare, top = tasks
    for sender, receiver in ((camera, prepare), (prepare, stages[0]), (stages[-1], top)):
        if sender != receiver:
            load[receiver] += hand_over(sender, receiver, 0, HOP)
    locks = (
        python[m] * (CONTENTION if len(used.get(m, ())) > 1 else 1) + given.runtime_ns * count
        for m, count in runtime.items()
    )
    return max(*locks, *load.values())


def everything(given: Problem) -> Iterator[float]:
    """The loads of all mappings with one processor for each task and stage."""
    count = given.networks[NET].costs.count
    cpus = given.cpus
    processors = [
        p for pool in given.platform.pools for p in pool.processors if pool.kind != "link"
    ]
    for stages in range(1, min(MOST_STAGES, count) + 1):
        for cuts in combinations(range(1, count), stages - 1):
            for order in product(processors, repeat=stages):
                if any(a == b for a, b in pairwise(order)):
                    continue
                for tasks in product(cpus, repeat=len(TASKS)):
                    yield busiest(given, (*cuts, count), order, tasks)


def exact(given: Problem) -> Mapping:
    """The answer of the search."""
    found: Mapping = search_named("exact", "throughput").run(
        given, seed=0, budget=Budget(60.0), measure=None, objective="throughput"
    )
    return found


def judged(seed: int) -> tuple[str, str]:
    """How an answer compares, and how it is called; both in words."""
    given = draw(seed)
    least = min(everything(given))
    found = exact(given)
    predicted = found.contestants[0].predicted_ns or inf
    plan = joint_plan(given, Budget(60.0))
    assert plan is not None
    if plan.bound_ns > least * (1 + 1e-9):
        return "wrong", f"bound {plan.bound_ns} above {least}"
    called = "optimal" if found.effort.optimal else "not called optimal"
    if predicted > least * (1 + 1e-6):
        wrong = "wrong" if found.effort.optimal else "not the least"
        return wrong, f"{called}: {predicted} above {least}"
    return "the least, or less by copies", called


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(options.seed, options.seed + options.apps):
        how, said = judged(seed)
        counts[f"{how}: {said}" if how.startswith("the least") else how] += 1
        if how != "the least, or less by copies":
            wrong.append(f"seed {seed}: {how}, {said}")
    for what, number in sorted(counts.items()):
        print(f"{what:50}{number:6}")
    print("\n".join(wrong))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
