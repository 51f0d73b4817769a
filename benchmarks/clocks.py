"""Clock rates of the HOPES example in the scenarios of Kim's thesis (Table 4.5), and what rates one
mapping reaches.

Usage: python benchmarks/clocks.py [--brute] [--together]

Four cameras on a Xavier (benchmarks/boards.py), which states run alone or together: FSM-B, C and D.
One mapping, found for all cameras at once, is judged state by state: the highest rate at which
every state keeps its deadlines, beside that for all at once. Then every state gets the rates of
Table 4.7 (1,120 combinations) that take least: the proved optimum, beside the greedy rule of the
thesis and the highest rates, at three periods of each scenario; witnesses of a longer period are
handed on to the next shorter one. `--brute` tests all combinations of one state of each as well.

First come places, cuts and clocks together (`minimise energy`), beside
the best clocks after places of the least utilization;
`--together` prints this alone.

The powers are made up (voltages that rise with the rate, some watts at the highest): the thesis
shows curves only. So what is to be seen is who finds what with how many tests, not how much a
Xavier takes.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "referees"))

import boards
from flowc.analysis.timing.least import Least
from flowc.analysis.timing.response_time import worst_cases, worst_cases_in_time
from flowc.analysis.timing.slower import slower
from flowc.analysis.timing.system import with_its_workers
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search
from flowc.search.deadline.energy import with_least_power
from flowc.search.deadline.energy_model import StateProblem
from flowc.search.deadline.limits import held
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.power import MeanWork, PowerModel, clock_of
from flowc.search.deadline.problem import Assignment, JointProblem
from flowc.search.deadline.program import timed
from flowc.search.deadline.states import search_states
from flowc.search.deadline.work import domains as power_of
from flowc.search.frequency.greedy import greedy
from flowc.search.frequency.optimal import optimal
from flowc.search.frequency.problem import ClockProblem, Levels
from paired import Others, machine, table

from kim_examples import FSM, TABLE_4_7

#: What the highest rate is to be, against that for all cameras at once.
AIMS = {"B": 1.10, "C": 1.25, "D": 1.00}
#: Watts of a processor at the highest rate: idle, and more while it is busy; of the board, whatever
#: runs.
WATTS, BOARD = {"cpu": (0.1, 1.5), "gpu": (1.6, 12.0), "dla": (0.2, 3.2)}, Fraction(42, 10)
#: Of a worst case, what a firing takes in the mean; how much longer than the shortest the three
#: periods are.
MEAN, LONGER = Fraction(3, 4), (Fraction(2), Fraction(3, 2), Fraction(1))
SEED, BUDGET, TOGETHER = 0, 15.0, 45.0


@dataclass(frozen=True)
class Board:
    """The mapping for all cameras at once."""

    problem: JointProblem
    assignment: Assignment
    fps: int


def mapped() -> Board:
    """The mapping for the highest whole rate at which `auto` finds one."""
    best, fps = None, 20
    while True:
        found = search(boards.imgprocessing(fps), name="auto", seed=SEED, budget=Budget(BUDGET))
        if found.verdict is None or not found.verdict.feasible or found.assignment is None:
            assert best is not None
            return best
        best = Board(boards.imgprocessing(fps), found.assignment, fps)
        fps += 1


def state(
    board: Board, cameras: tuple[int, ...], fps: Fraction | int
) -> tuple[JointProblem, Assignment]:
    """The part of the mapping that runs in a state."""
    whole, given = board.problem, board.assignment
    problem = of_cameras(whole, cameras)
    groups = tuple(replace(group, period_ns=boards.period(fps)) for group in problem.groups)
    place = {t.name: p for t, p in zip(whole.tasks, given.tasks, strict=True)}
    cut = {
        network.name: (choice, stages)
        for network, choice, stages in zip(whole.networks, given.choice, given.stages, strict=True)
    }
    places = Assignment(
        tuple(cut[network.name][0] for network in problem.networks),
        tuple(cut[network.name][1] for network in problem.networks),
        tuple(place[task.name] for task in problem.tasks),
    )
    return replace(problem, groups=groups), places


def of_cameras(whole: JointProblem, cameras: tuple[int, ...]) -> JointProblem:
    """The part of a problem that is about some cameras."""
    names = {f"G{c + 1}" for c in cameras}
    return replace(
        whole,
        groups=tuple(group for group in whole.groups if group.name in names),
        tasks=tuple(task for task in whole.tasks if task.group in names),
        networks=tuple(network for network in whole.networks if network.group in names),
    )


def searched(problem: JointProblem, part: Budget) -> Outcome:
    """The default search."""
    return search(problem, name="auto", seed=SEED, budget=part)


def powered(problem: JointProblem) -> JointProblem:
    """The problem with clocks and powers."""
    pools, works = [], {}
    for pool in problem.platform.pools:
        hz = tuple(Fraction(str(mhz)) * 10**6 for mhz in TABLE_4_7[pool.kind])
        top_idle, top_busy = map(Fraction, WATTS[pool.kind])
        idle, busy = [], []
        for rate in hz:
            speed = rate / hz[-1]
            volts = Fraction(65, 100) + Fraction(35, 100) * speed
            idle.append(top_idle * (volts + volts**2 * speed) / 2)
            busy.append(top_busy * volts**2 * speed)
        pools.append(
            replace(
                pool,
                frequencies_hz=hz,
                idle_w=tuple(idle),
                busy_w=tuple(busy),
            )
        )
    mean = MeanWork(MEAN, Fraction(1))
    for task in problem.tasks:
        works[task.name] = {kind: mean.part(Fraction(ns)) for kind, ns in task.wcet_ns.items()}
    for network in problem.networks:
        # stages have a part of this, whatever it is; what is not cut has all of it
        whole = {c.whole_on: c.stages[0].firing for c in network.candidates if c.whole_on}
        longest = {kind: Fraction(whole.get(kind, 1)) for kind in WATTS}
        works[network.name] = {kind: mean.part(ns) for kind, ns in longest.items()}
    clocks_of = tuple(clock_of(pool, None, True) for pool in pools)
    return replace(
        problem,
        platform=replace(problem.platform, pools=tuple(pools), power_w=BOARD),
        power=PowerModel(clocks_of, BOARD, works),
    )


def clocks(problem: JointProblem, places: Assignment) -> ClockProblem:
    """What the rates of a state cost, and whether it keeps its deadlines at these."""
    system = with_its_workers(timed(problem, places))
    domains = power_of(powered(problem), places)
    number = {p: n for n, pool in enumerate(problem.platform.pools) for p in pool.processors}
    least = Least(system, number)

    def slowness(levels: Levels) -> list[Fraction]:
        return [
            domain.hz[-1] / domain.hz[level] for domain, level in zip(domains, levels, strict=True)
        ]

    def surely_late(levels: Levels) -> bool:
        return least.missed(slowness(levels))

    def holds(levels: Levels) -> bool:
        if surely_late(levels):
            return False
        factor = slowness(levels)
        factors = {p: factor[n] for p, n in number.items()}
        worst = worst_cases_in_time(slower(system, factors))
        return worst is not None and all(
            h.met for team in problem.groups for h in held(team, worst)
        )

    return ClockProblem(domains, BOARD, holds, surely_late)


def highest(board: Board, states: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """The highest whole rate at which every state keeps its deadlines with that mapping, and with
    one for the states.

    The second is searched for from the first on.
    """
    fps = board.fps
    while all(keeps(*state(board, cameras, fps + 1)) for cameras in states):
        fps += 1
    own = fps

    while True:
        problems = {str(n): state(board, cameras, own + 1)[0] for n, cameras in enumerate(states)}
        found = search_states(problems, searched, budget=Budget(BUDGET)).states.values()
        if len(found) < len(states) or not all(
            o.verdict is not None and o.verdict.feasible for o in found
        ):
            return fps, own
        own += 1


def keeps(problem: JointProblem, places: Assignment) -> bool:
    """Is every deadline kept at the highest clock rates?"""
    worst = worst_cases(timed(problem, places), patience=Fraction(1))
    return all(h.met for team in problem.groups for h in held(team, worst))


def tuned(board: Board, name: str, fps: int, brute: bool) -> Iterator[list[str]]:
    """A row for each period of a scenario."""
    states = FSM[name]
    failing: dict[tuple[int, ...], tuple[Levels, ...]] = {}
    for longer in LONGER:
        rate = Fraction(fps) / longer
        watts, others, fastest = Fraction(0), Fraction(0), Fraction(0)
        tests = greedy_tests = missed = worse = whole = 0
        seconds = 0.0
        for n, cameras in enumerate(states):
            problem = clocks(*state(board, cameras, rate))
            begin = time.process_time()
            found = optimal(problem, infeasible_levels=failing.get(cameras, ()))
            seconds += time.process_time() - begin
            other = greedy(problem)
            assert found.watts is not None and other.watts is not None
            worse += found.watts > other.watts
            whole += found.whole
            failing[cameras] = found.witnesses
            tests, greedy_tests = tests + found.tests, greedy_tests + other.tests
            missed += found.watts < other.watts
            watts, others, fastest = (
                watts + found.watts,
                others + other.watts,
                fastest + problem.watts(problem.highest),
            )
            if brute and not n:
                every = itertools.product(*(range(len(d.hz)) for d in problem.domains))
                assert min(problem.watts(x) for x in every if problem.holds(x)) == found.watts
        count = len(states)
        yield [
            f"FSM-{name}",
            f"{float(rate):.1f}",
            f"{float(watts) / count:.3f}",
            f"{float(others) / count:.3f}",
            f"{float(fastest) / count:.3f}",
            f"{missed} of {count}",
            f"{worse} of {count}",
            f"{whole} of {count}",
            f"{tests / count:.1f}",
            f"{greedy_tests / count:.1f}",
            f"{seconds:.1f}",
        ]


def together(
    name: str,
    states: tuple[tuple[int, ...], ...],
    fps: int,
) -> list[str]:
    """The mean power of places, cuts and clocks together, and the least possible;
    beside that of clocks after places."""
    whole = powered(boards.imgprocessing(fps))
    problems = {str(n): of_cameras(whole, cameras) for n, cameras in enumerate(states)}
    begin = time.monotonic()
    found = search_states(problems, searched, budget=Budget(BUDGET))
    share = Fraction(1, len(states))
    posed = {n: StateProblem(problem, share) for n, problem in problems.items()}
    best = with_least_power(found, posed, searched, seed=SEED, budget=Budget(TOGETHER))
    seconds = time.monotonic() - begin
    power, first, by_greedy = best.power, Fraction(0), Fraction(0)
    assert power is not None
    for state_name, problem in problems.items():
        assignment = found.states[state_name].assignment
        assert assignment is not None
        posed_clocks = clocks(problem, assignment)
        watts, greedy_w = optimal(posed_clocks).watts, greedy(posed_clocks).watts
        assert watts is not None and greedy_w is not None
        first, by_greedy = first + share * watts, by_greedy + share * greedy_w
    return [
        name,
        str(fps),
        f"{float(power.watts):.3f}",
        f"{float(first):.3f}",
        f"{float(by_greedy):.3f}",
        f"{float(power.watts / by_greedy):.3f}",
        f"{float(power.bound):.3f}",
        f"{power.gap:.1%}",
        f"{seconds:.0f}",
    ]


def compared() -> Iterator[list[str]]:
    """A row for all cameras at each rate, and for each scenario at 15 frames/s."""
    for fps in (15, 20):
        yield together("four cameras", ((0, 1, 2, 3),), fps)
    for name, states in FSM.items():
        yield together(f"FSM-{name}", states, 15)


def main(brute: bool) -> None:
    """All tables."""
    others = Others()
    print(f"{machine()}; {others.text()}\n")
    head = [
        "",
        "fps",
        "W",
        "clocks after",
        "greedy after",
        "of that",
        "at least",
        "above",
        "s",
    ]
    print(table([head, *compared()]), end="\n\n")
    if "--together" in sys.argv[1:]:
        return
    board = mapped()
    reached = {name: highest(board, states) for name, states in FSM.items()}
    rows = [
        [
            "scenario",
            "all at once fps",
            "the same, state by state",
            "searched state by state",
            "ratio",
            "aim",
        ]
    ]
    for name, (fps, own) in reached.items():
        rows.append(
            [
                f"FSM-{name}",
                str(board.fps),
                str(fps),
                str(own),
                f"{own / board.fps:.2f}",
                f"{AIMS[name]:.2f}",
            ]
        )
    print(table(rows), end="\n\n")
    head = [
        "scenario",
        "fps",
        "W",
        "greedy W",
        "highest W",
        "greedy worse",
        "greedy better",
        "whole",
        "tests",
        "greedy tests",
        "CPU s",
    ]
    print(
        table(
            [
                head,
                *(
                    row
                    for name, (fps, _) in reached.items()
                    for row in tuned(board, name, fps, brute)
                ),
            ]
        )
    )


if __name__ == "__main__":
    main("--brute" in sys.argv[1:])
