"""System C: dataflow tasks and CNNs mapped together (Kim's thesis, ch. 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import boards
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.problem import JointProblem
from flowc.search.deadline.verdict import verdict
from published_systems.bounds import equations_5_3_and_5_4
from published_systems.rows import Table, board, table

TITLE = "C. CNNs in model-based design: one mapping for tasks and networks"
SOURCE = "J. Kim's thesis, chapter 5"

RATES = (10, 15, 20, 25)
#: Evaluations of a search, so that its answer is the same on every machine. Those of the thesis end
#: before, once ten generations were no better.
EVALUATIONS = {
    "heuristic-ga": 1000,
    "entire-ga": 1000,
    "baseline": 1000,
    "auto": 300,
    "exact": 1200,
}
#: Random graphs: how many, and the evaluations of `auto` beside each of them.
GRAPHS, RANDOM = (4, 8, 16), 150


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield board(
        "Section 5.5.1, a network as tasks (18 fps) or by TensorRT (81 fps).", "an AGX Xavier"
    )
    yield _candidates()
    yield _processors()
    yield equations_5_3_and_5_4()
    yield _cameras()
    yield _random()


def _candidates() -> Table:
    told = {
        "Yolov4": (269, 51),
        "Yolov2tiny": (24, 14),
        "Yolov3tiny": (35, 12),
        "Yolov4csp": (290, 65),
    }
    rows = []
    for group, (name, (layers, selected)) in enumerate(told.items()):
        kernels = boards.kernels(group)
        rows.append((name, layers, len(kernels.layers), selected, len(boards.candidates(group))))
    return table(
        "Table 5.3, candidates of each network.",
        "The thesis evolves 65 chromosomes for 1,000 generations on the board, and keeps what it"
        " has found not to be dominated in measured latency and power. flowc computes the exact"
        " front of the profile that comes with the HOPES example, by the time on each processor:"
        " all that no other one beats on every processor.",
        "network | layers | kernels in the example | candidates, paper | flowc",
        rows,
    )


def _processors() -> Table:
    told = {"ReadImage": "cpu", "cvt_BGR_NV12": "cpu, gpu", "Rescale1": "gpu", "Bilateral": "cpu, gpu",
            "cvt_NV12_BGR1": "cpu, gpu", "Rescale2": "gpu", "cvt_NV12_BGR2": "cpu, gpu",
            "SaveImage": "cpu"}  # fmt: skip
    known = boards.figures()["image_tasks"]
    named = {"Bilateral": "TNR"}
    rows = []
    for name, kinds in told.items():
        here = ", ".join(sorted(known[named.get(name, name)]))
        rows.append((name, kinds, here, "same" if kinds == here else "differs"))
    return table(
        "Table 5.4, where tasks can run.",
        "*flowc* is the profile of the HOPES example, where TNR is the bilateral filter.",
        "task | paper | flowc | ",
        rows,
    )


def _found(problem: JointProblem, evaluations: Mapping[str, int]) -> dict[str, Outcome]:
    found = {}
    for name, count in evaluations.items():
        outcome = search(problem, name=name, seed=0, budget=Budget(evaluations=count))
        # With slack `auto` takes fewer CPUs than it has balanced; the thesis balances.
        found[name] = outcome.balanced or outcome
    return found


def _shown(outcome: Outcome) -> str:
    told = outcome.verdict
    if told is None:
        return "nothing"
    return f"{float(told.maximum):.2%}" if told.feasible else "late"


def _cells(found: dict[str, Outcome]) -> list[str]:
    """The answers of the searches, and the highest bound that one of them has proved."""
    bound = max(outcome.bound for outcome in found.values() if outcome.bound is not None)
    return [*(_shown(outcome) for outcome in found.values()), f"{float(bound):.2%}"]


def _cameras() -> Table:
    rows, proved = [], 0
    told = {10: "baseline 5 to 7 % worse", 15: "baseline 5 to 7 % worse",
            20: "heuristic about as entire", 25: "entire much better; baseline nothing"}  # fmt: skip
    for fps in RATES:
        problem, assignment, _ = boards.authors(boards.imgprocessing(fps))
        own = verdict(problem, assignment)
        authors = f"{float(own.maximum):.2%}" if own.feasible else "late"
        found = _found(boards.imgprocessing(fps), EVALUATIONS)
        proved += found["exact"].proved
        rows.append((fps, told[fps], *_cells(found), authors))
    return table(
        "Fig. 5.6, the four cameras: utilization of the busiest processor.",
        "The thesis shows ratios to its best, with bounds that simulations exceed (equations 5.3"
        " and 5.4, see [mapping](mapping.md#where-the-bounds-of-the-thesis-are-exceeded)), and does"
        " not publish the times of image tasks. Here are the profile of the HOPES example and"
        " bounds that hold: deadlines are harder to keep, and at 25 fps the thesis' searches find"
        " nothing. *Authors* is the mapping that comes with the example. `auto` has"
        f" {EVALUATIONS['auto']} evaluations, and `exact` {EVALUATIONS['exact']}; the bound is"
        f" proved for all mappings, and `exact` reaches it at {proved} of {len(RATES)} rates. Where the"
        " busiest processor has slack, `auto` goes on to fewer CPUs, which is left out here.",
        "fps | the thesis says | heuristic-ga | entire-ga | baseline | auto | exact | bound"
        " | authors",
        rows,
    )


def _random() -> Table:
    rows = []
    evaluations = {name: EVALUATIONS[name] for name in ("heuristic-ga", "entire-ga", "baseline")}
    evaluations["auto"] = RANDOM
    for graphs in GRAPHS:
        for fps in RATES:
            found = _found(boards.random_system(graphs, fps, 0), evaluations)
            rows.append((graphs, fps, *_cells(found)))
    return table(
        "Figures 5.7 to 5.9, the same four networks beside 4, 8 and 16 random graphs.",
        "Ten tasks each, half of them for the GPU only, in the style of SDF3; the thesis' graphs"
        " are not published, these are of seed 0. The thesis finds `entire-ga` best at all rates,"
        " and neither `heuristic-ga` nor the baseline better than the other."
        f" `auto` has {RANDOM} evaluations.",
        "graphs | fps | heuristic-ga | entire-ga | baseline | auto | bound",
        rows,
    )
