"""How many ways to cut a network papers count."""

from __future__ import annotations

from math import comb


def candidate_count(n: int) -> int:
    """Candidate mappings of a network with n cut points over options A to E (Kim's thesis, ch. 4,
    Table 4.4).

    One stage, two stages in one order, three in two, four in one: 22, 78 and 10 cut points give
    2025, 82161 and 221.
    """
    return 1 + n + 2 * comb(n, 2) + comb(n, 3)


def cut_tuple_count(layers: int) -> int:
    """Cut-point tuples of a network over JEDI's mapping options that pipeline it (Kim's thesis, ch.
    3, Table 3.4).

    Yolov2 (54 layers) has 27666 and Yolov2tiny (24 layers) 2576.
    """
    n = layers - 1
    return 2 * comb(n, 1) + 3 * comb(n, 2) + comb(n, 3)
