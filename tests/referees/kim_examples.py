"""Tables of Kim's thesis as data: chapters 3 and 4.

Tests and `benchmarks/published.py` compute what they say of each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explored:
    """A row of Table 3.4: layers, then tuples that were searched and their share of all in %, with
    FP16 and with INT8."""

    layers: int
    fp16: tuple[int, float]
    int8: tuple[int, float]


TABLE_3_4 = {
    "Yolov2": Explored(54, (249, 0.900), (243, 0.878)),
    "Yolov2tiny": Explored(24, (178, 6.910), (172, 6.677)),
    "Yolov3": Explored(179, (223, 0.023), (260, 0.027)),
    "Yolov3tiny": Explored(35, (183, 2.366), (174, 2.250)),
    "Yolov4": Explored(269, (283, 0.009), (344, 0.010)),
    "Yolov4tiny": Explored(57, (294, 0.906), (214, 0.659)),
    "Yolov4csp": Explored(290, (319, 0.008), (320, 0.008)),
    "CSPNet": Explored(228, (308, 0.015), (424, 0.021)),
    "Densenet+Yolo": Explored(508, (386, 0.002), (325, 0.001)),
}


@dataclass(frozen=True, slots=True)
class Tuned:
    """A cell of Table 3.5: option, cut points, pre- and post-processing threads, buffers, streams
    of the stages (of a stage on two DLAs on both together)."""

    option: str
    cuts: tuple[int, ...]
    pre: int
    post: int
    buffers: int
    streams: tuple[int, ...]


#: With FP16 and with INT8.
TABLE_3_5 = {
    "Yolov2": (Tuned("PND-A", (23,), 2, 1, 5, (4, 2)), Tuned("PND-A", (16,), 4, 1, 7, (4, 2))),
    "Yolov2tiny": (Tuned("PND-A", (11,), 5, 2, 10, (4, 2)), Tuned("E", (), 6, 3, 18, (2,))),
    "Yolov3": (Tuned("PND-A", (57,), 1, 1, 4, (4, 2)), Tuned("PND-A", (59,), 2, 1, 8, (4, 2))),
    "Yolov3tiny": (Tuned("PND-A", (5,), 5, 1, 11, (4, 4)), Tuned("E", (), 6, 2, 20, (5,))),
    "Yolov4": (Tuned("PND-A", (82,), 1, 1, 5, (4, 2)), Tuned("PND-A", (87,), 2, 1, 8, (4, 2))),
    "Yolov4tiny": (Tuned("PND-B", (30, 45), 4, 1, 7, (2, 4, 1)), Tuned("E", (), 6, 1, 12, (4,))),
    "Yolov4csp": (Tuned("PND-A", (80,), 1, 1, 16, (4, 3)), Tuned("PND-A", (88,), 2, 2, 18, (4, 4))),
    "CSPNet": (
        Tuned("C", (30, 35), 1, 1, 5, (2, 2, 3)),
        Tuned("PND-B", (34, 106), 1, 1, 4, (1, 4, 2)),
    ),
    "Densenet+Yolo": (
        Tuned("PND-A", (95,), 1, 1, 4, (4, 2)),
        Tuned("PND-A", (98,), 2, 1, 4, (4, 2)),
    ),
}

#: Table 3.2, as (device, number of the DLA; 2 is both) of each stage in a file of JEDI.
TABLE_3_2 = {
    "A": (("DLA", 0), ("GPU", 0)),
    "B": (("GPU", 0), ("DLA", 0), ("GPU", 0)),
    "C": (("DLA", 0), ("DLA", 1), ("GPU", 0)),
    "D": (("GPU", 0), ("DLA", 0), ("DLA", 1), ("GPU", 0)),
    "E": (("GPU", 0),),
    "PND-A": (("DLA", 2), ("GPU", 0)),
    "PND-B": (("GPU", 0), ("DLA", 2), ("GPU", 0)),
}

#: Table 4.4: layers, cut points, candidates, Pareto-optimal ones.
TABLE_4_4 = {
    "Yolov2": (54, 22, 2025, 112),
    "Yolov3": (179, 78, 82161, 158),
    "Yolov2tiny": (24, 10, 221, 19),
    "Yolov3tiny": (35, 10, 221, 14),
}
#: Table 4.5: the apps of each state.
FSM = {
    "B": ((0,), (3,), (0, 1), (1, 3), (0, 2), (2, 3), (0, 1, 2), (1, 2, 3)),
    "C": ((0, 3), (0,), (3,), (0, 1), (1, 3), (0, 2), (2, 3), (1, 2)),
    "D": ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)),
}
#: Table 4.7, in MHz, of a Xavier.
TABLE_4_7 = {
    "gpu": (675.75, 828.75, 905.25, 1032.75, 1198.5, 1236.75, 1338.75, 1377.0),
    "cpu": (1190.4, 1267.2, 1344.0, 1420.8, 1497.6, 1574.4, 1651.2, 1728.0, 1804.8, 1881.6, 2035.2,
            2112.0, 2188.8, 2265.6),
    "dla": (550.4, 640.0, 729.6, 806.4, 896.0, 972.8, 1062.4, 1152.0, 1228.8, 1395.2),
}  # fmt: skip
#: Table 4.8: highest frames per second of FSM-A to D with the networks of case alpha, then of
#: beta. SOTA is the work [12] of the thesis; GB_BY_STATE is GB where each single state keeps its
#: deadlines (section 4.5.3.2: beta "is the same as PR").
LS, BS, GB, PR, SOTA, GB_BY_STATE = (
    (47, 47, 71, 40, 32, 32, 38, 28),
    (32, 32, 44, 24, 21, 21, 33, 15),
    (40,) * 4 + (28,) * 4,
    (47, 47, 56, 40, 32, 32, 38, 28),
    (39,) * 4 + (26,) * 4,
    (45, 45, 51, 40, 32, 32, 38, 28),
)
#: Table 4.9 (b): clock rates in MHz by case and frames per second.
TABLE_4_9 = {
    ("alpha", 40): {"cpu": 1574.4, "gpu": 1032.75},
    ("alpha", 45): {"cpu": 2112.0, "gpu": 1236.75},
    ("alpha", 47): {"cpu": 2265.6, "gpu": 1338.75},
    ("beta", 25): {"cpu": 1958.4, "gpu": 1032.75},
    ("beta", 30): {"cpu": 1651.2, "gpu": 1338.75},
    ("beta", 32): {"cpu": 1728.0, "gpu": 1377.0},
}
#: Table 4.10: frames per second that clock rates are tuned for, by case and scenario.
TABLE_4_10 = {
    ("alpha", "B"): (35, 40, 45),
    ("alpha", "C"): (40, 45, 50),
    ("alpha", "D"): (30, 35, 40),
    ("beta", "B"): (20, 25, 30),
    ("beta", "C"): (25, 30, 35),
    ("beta", "D"): (15, 20, 25),
}
#: Table 4.11: seconds of an evaluation by the greedy rule and by all combinations, and of a whole
#: search with each; FSM-A to D with case alpha, then beta.
EVALUATION = (
    (1.41, 3.44, 3.08, 1.68, 2.28, 5.07, 3.98, 3.30),
    (46.13, 99.76, 87.30, 57.08, 61, 131.78, 118.78, 87.21),
)
WHOLE = (
    (317.66, 1119.19, 1268.51, 439.59, 519.03, 1223.27, 726.65, 867.07),
    (13390.05, 35457.24, 36095.17, 17972.25, 17405.57, 34586.12, 23861.59, 27643.66),
)
