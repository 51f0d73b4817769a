"""System C: dataflow tasks and CNNs mapped together (Kim's thesis, ch. 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import boards
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.verdict import verdict
from published_systems import cameras, texts
from published_systems.bounds import equations_5_3_and_5_4
from published_systems.rows import Table, absent, board, table

TITLE = "C. CNNs in model-based design: one mapping for tasks and networks"
SOURCE = "J. Kim's thesis, chapter 5"

RATES = (10, 15, 20, 25)
#: The searches of the thesis.
THESIS = ("heuristic-ga", "entire-ga", "baseline")
#: Evaluations of a search, so that its answer is the same on every machine. Those of the thesis end
#: before, once ten generations were no better.
EVALUATIONS = {
    "heuristic-ga": 1000,
    "entire-ga": 1000,
    "baseline": 1000,
    "auto": 300,
    "exact": 100,
}
#: At the highest rate, where bounds take most time, the searches of the thesis have fewer: with 1,000
#: they end late as well, after up to 224.
FEWER = 60
#: Random graphs: how many, and the evaluations of `auto` beside each of them.
GRAPHS, RANDOM = (4, 8, 16), 50


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    cameras.write("cameras", boards.imgprocessing(RATES[0]))
    yield absent(
        "Tables 5.1 and 5.2, Figures 5.2 to 5.5.",
        "notation, options and drawings, which have no results",
    )
    yield absent(
        "Fig. 5.1, the motivational example.",
        "a drawing without numbers. Its graph is that of the four cameras of Fig. 5.6 below, as the"
        " HOPES example ImgProcessing has it",
    )
    yield board(
        "Section 5.5.1, a network as tasks (18 fps) or by TensorRT (81 fps).", "an AGX Xavier"
    )
    yield _candidates()
    yield absent(
        "Table 5.4, where tasks can run.",
        "no profile of the image tasks is published. `benchmarks/imgprocessing.json` assumes times"
        " for them, on the processors of this table: to compare it with them says nothing",
    )
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
    asked: dict[str, Any] = {"search": "baseline", "evaluations": 1}
    answer = texts.mapped("cameras", "xavier", **asked).joint
    assert answer is not None
    rows = []
    for group, (name, (layers, selected)) in enumerate(told.items()):
        kernels = boards.kernels(group)
        found = answer.problem.networks[group].candidates
        rows.append((name, layers, len(kernels.layers), selected, len(found)))
    return table(
        "Table 5.3, candidates of each network.",
        "The thesis evolves 65 chromosomes for 1,000 generations on the board, and keeps what it"
        " has found not to be dominated in measured latency and power. flowc computes the exact"
        " front of the profile that comes with the HOPES example, by the time on each processor:"
        " all that no other one beats on every processor.",
        "network | layers | kernels in the example | candidates, paper | flowc",
        rows,
        filled_by=f"{texts.command('cameras', 'xavier', **asked)} builds these candidates; only"
        " `flowc.map(...).joint.problem` in Python shows how many",
    )


def _found(stem: str, fps: int, evaluations: Mapping[str, int]) -> dict[str, Outcome]:
    """What `flowc map` finds with each search."""
    found = {}
    for name, count in evaluations.items():
        answer = texts.mapped(
            stem, "xavier", fps=fps, search=name, evaluations=count, objective="utilization"
        )
        assert answer.joint is not None
        found[name] = answer.joint.outcome
    return found


def _command(stem: str) -> str:
    """For all searches and rates of a table."""
    return texts.command(
        stem, "xavier", fps="FPS", search="SEARCH", evaluations="N", objective="utilization"
    )


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
        fewer = dict.fromkeys(THESIS, FEWER) if fps == RATES[-1] else {}
        found = _found("cameras", fps, EVALUATIONS | fewer)
        proved += found["exact"].proved
        rows.append((fps, told[fps], *_cells(found), authors))
    most = ", ".join(f"{count:,} for `{name}`" for name, count in EVALUATIONS.items())
    return table(
        "Fig. 5.6, the four cameras: utilization of the busiest processor.",
        "The thesis shows ratios to its best, with bounds that simulations exceed (equations 5.3"
        " and 5.4, see [mapping](../mapping.md#where-the-bounds-of-the-thesis-are-exceeded)), and does"
        " not publish the times of image tasks. Here are the times of networks that come with the"
        " HOPES example, times of image tasks that flowc's authors assume, and bounds that hold:"
        " deadlines are harder to keep, and at 25 fps the thesis' searches find"
        " nothing. *Authors* is the mapping that comes with the example. The bound is"
        f" proved for all mappings, and `exact` reaches it at {proved} of {len(RATES)} rates.",
        "fps | the thesis says | heuristic-ga | entire-ga | baseline | auto | exact | bound"
        " | authors",
        rows,
        filled_by=f"{_command('cameras')} with the SEARCH of the column and at most N evaluations"
        f" ({most}; at {RATES[-1]} fps {FEWER} for the searches of the thesis); *authors* is a problem built by the benchmark, not by a verb: a text pins a"
        " network in stages by the layers of its ONNX file, which the example does not have",
    )


def _random() -> Table:
    rows = []
    evaluations = {name: EVALUATIONS[name] for name in THESIS}
    evaluations["auto"] = RANDOM
    for graphs in GRAPHS:
        cameras.write(f"random{graphs}", boards.random_system(graphs, RATES[0], 0))
        for fps in RATES:
            rows.append((graphs, fps, *_cells(_found(f"random{graphs}", fps, evaluations))))
    return table(
        "Figures 5.7 to 5.9, the same four networks beside 4, 8 and 16 random graphs.",
        "Ten tasks each, half of them for the GPU only, in the style of SDF3; the thesis' graphs"
        " are not published, these are of seed 0. The thesis finds `entire-ga` best at all rates,"
        " and neither `heuristic-ga` nor the baseline better than the other.",
        "graphs | fps | heuristic-ga | entire-ga | baseline | auto | bound",
        rows,
        filled_by=f"{_command('randomGRAPHS')}, N as above, but {RANDOM} for `auto`",
    )
