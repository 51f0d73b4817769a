"""The power model of a machine, fitted to what it took while some of its CPUs worked; and what a
run of a network takes.

In: rows of `there.power`. Out: for each pool and rate the watts of a CPU that does nothing and
those of one that works, and the rest of the machine, each with an interval of 95 %. `pieces_of`
does the same with rows of `there.energy`.

Ordinary least squares over all rows: the machine at rest at its slowest rates, plus for each pool
and rate the CPUs of the pool times `idle`, plus the busy ones times `busy`, plus a drift, which is
a straight line in time within each block of steps and begins anywhere. What pools take at rest at
their slowest rates cannot be told from the rest of the machine, and counts there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Standard errors in an interval of 95 %, by degrees of freedom (Student's t); with more 2.
ERRORS = (12.7, 4.3, 3.2, 2.8, 2.6, 2.5, 2.4, 2.3, 2.3, 2.2)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A number of watts, and how far it may be off (95 %)."""

    watts: float
    off: float

    def is_known(self, share: float) -> bool:
        """Is it above 0, and off by less than this share?"""
        return self.off < share * self.watts


@dataclass(frozen=True, slots=True)
class PowerFit:
    """The machine at rest, and by pool and position of the rate what a CPU takes at rest more than
    at the slowest rate, and what it takes more while it works. `residual` is the root mean square
    of what the model leaves, relative to the mean power."""

    board: Fitted
    idle: Mapping[str, tuple[Fitted, ...]]
    busy: Mapping[str, tuple[Fitted, ...]]
    residual: float


def fitted(
    rows: Sequence[Mapping[str, Any]], pools: Sequence[tuple[str, int, int]], blocks: int
) -> PowerFit:
    """The model of pools (name, CPUs, rates), from the rows of so many blocks."""
    columns: dict[tuple[str, str, int], int] = {("board", "", 0): 0}
    for name, _, rates in pools:
        for rate in range(rates):
            if rate:
                columns["idle", name, rate] = len(columns)
            columns["busy", name, rate] = len(columns)
    matrix = np.zeros((len(rows), len(columns)))
    for number, row in enumerate(rows):
        matrix[number, 0] = 1
        for n, (name, count, _) in enumerate(pools):
            rate, busy = row["rates"][n], row["busy"][n]
            if rate:
                matrix[number, columns["idle", name, rate]] = count
            matrix[number, columns["busy", name, rate]] = busy
    found, residual = _least_squares(rows, matrix, blocks)

    def number_of(kind: str, name: str, rate: int) -> Fitted:
        return found[columns[kind, name, rate]]

    idle, busy = {}, {}
    for name, _, rates in pools:
        more = (number_of("idle", name, rate) for rate in range(1, rates))
        idle[name] = (Fitted(0.0, 0.0), *more)
        busy[name] = tuple(number_of("busy", name, rate) for rate in range(rates))
    return PowerFit(number_of("board", "", 0), idle, busy, residual)


@dataclass(frozen=True, slots=True)
class PieceFit:
    """What the machine takes more while a piece of a network runs again and again, and the `ns` of
    a run."""

    watts: Fitted
    ns: float

    @property
    def energy_nj(self) -> float:
        """The energy of a run, beside that of the machine at rest."""
        return self.watts.watts * self.ns


def pieces_of(rows: Sequence[Mapping[str, Any]], pieces: int, blocks: int) -> tuple[PieceFit, ...]:
    """Each of so many pieces of networks, from rows of `there.energy`."""
    matrix = np.zeros((len(rows), 1 + pieces))
    matrix[:, 0] = 1
    times: list[list[float]] = [[] for _ in range(pieces)]
    for number, row in enumerate(rows):
        piece = row["piece"]
        if piece is not None:
            matrix[number, 1 + piece] = 1
            times[piece].append(row["ns"])
    (_, *found), _ = _least_squares(rows, matrix, blocks)
    ns = (float(np.mean(of_piece)) for of_piece in times)
    return tuple(PieceFit(watts, t) for watts, t in zip(found, ns, strict=True))


def _least_squares(
    rows: Sequence[Mapping[str, Any]], columns: Any, blocks: int
) -> tuple[tuple[Fitted, ...], float]:
    """The watts of each column, beside a drift; and the residual, relative to the mean power."""
    count = columns.shape[1]
    # the drift is a line, and where each block but one is
    matrix = np.hstack([columns, np.zeros((len(rows), blocks))])
    each = len(rows) // blocks
    for number, row in enumerate(rows):
        block = min(number // each, blocks - 1)
        first = rows[block * each]["at"]
        middle = (first + rows[min(block * each + each, len(rows)) - 1]["at"]) / 2
        matrix[number, count] = row["at"] - middle
        if block:
            matrix[number, count + block] = 1
        else:  # the machine at rest is the mean over all blocks
            matrix[number, count + 1 :] = -1
    watts = np.array([row["watts"] for row in rows])
    found, _, rank, _ = np.linalg.lstsq(matrix, watts, rcond=None)
    left = watts - matrix @ found
    free = max(1, len(rows) - int(rank))
    errors = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)) * float(left @ left) / free)
    wide = ERRORS[free - 1] if free <= len(ERRORS) else 2.0
    numbers = tuple(Fitted(float(found[k]), wide * float(errors[k])) for k in range(count))
    mean = float(watts.mean())
    return numbers, float(np.sqrt(left @ left / len(rows))) / mean if mean else 0.0
