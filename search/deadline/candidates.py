"""Candidates of a network: every way to cut it over types of processors that is worth a look.

In: worst-case times of its kernels by type of processors, where it may be cut, and the board. Out:
candidates that no other one beats at once in the time on a GPU, the time on the busiest DLA, and
the number of engines. The front is exact where a stage takes the sum of its kernels, over all
options with at most two borders between types, runs of which may be split over several processors;
options A to E of Kim's thesis (Tables 4.3 and 5.2) are among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from ...model.platform import ACCELERATORS, UNDIVIDED, Platform
from ...model.workload import WorkloadCurve
from .problem import Candidate, CandidateStage

if TYPE_CHECKING:
    import numpy as np

#: Stages of a network, at most; the paper has four.
MOST_STAGES = 4
#: With more cuts there would be more pairs of them than fit into memory.
MOST_CUTS = 4000
#: The same over three types of processors or more, where far more candidates beat each other.
MOST_CUTS_OF_MANY = 24

#: Engines and times of a candidate, and its stages: type, first position, last position.
_Row = tuple[tuple[float, ...], tuple[tuple[str, int, int], ...]]


@dataclass(frozen=True)
class KernelRow:
    """A network as a row of kernels: `wcet_ns[type][k]` (infinite where it cannot run) and the
    layer it ends with.

    `cuts` are the positions where it may be cut (number of kernels in front), `border_ns` what a
    border costs the stage behind it. Stages on kinds of `whole` are one loadable; times on types of
    `estimated` are guesses, and those of `of_kind` the same for all types of a kind. It fires
    `firings` times per iteration, and as a whole as `curves[type]` say, where they are known.
    """

    layers: tuple[str, ...]
    wcet_ns: Mapping[str, Sequence[float]]
    cuts: tuple[int, ...]
    border_ns: int = 0
    whole: frozenset[str] = UNDIVIDED
    estimated: frozenset[str] = frozenset()
    firings: int = 1
    curves: Mapping[str, WorkloadCurve] = field(default_factory=dict)
    of_kind: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CandidateFront:
    """The undominated candidates, and how many ways of cutting they were chosen from. `exact`: all
    ways there are.
    """

    candidates: tuple[Candidate, ...]
    looked_at: int
    exact: bool = True


def _count(platform: Platform, type_: str) -> int:
    return sum(p.count for p in platform.pools if p.type == type_)


def _runs(types: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for a in types:
        yield (a,)
        for b in types:
            if a != b:
                yield a, b
                for c in types:
                    if b != c:
                        yield a, b, c


def _split(
    runs: tuple[str, ...], counts: Mapping[str, int]
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every run in one or two parts, as far as there are processors and the number of stages
    allows.
    """
    rows: list[tuple[tuple[str, int], ...]] = [()]
    for type_ in runs:
        rows = [
            (*row, (type_, parts)) for row in rows for parts in (1, 2) if parts <= counts[type_]
        ]
    for row in rows:
        if sum(parts for _, parts in row) <= MOST_STAGES:
            yield row


def front(network: KernelRow, platform: Platform) -> CandidateFront:
    """All candidates over (time on each type's busiest processor when stages are spread, engines on
    limited pools).

    Of networks on CPUs the whole one is always among them.

    Of more cuts than can be enumerated so many count that lie evenly in the network: the answer is
    not exact then.
    """
    every = network.cuts
    types = types_for(network, platform)
    most = MOST_CUTS if len(types) < 3 else MOST_CUTS_OF_MANY
    if len(every) > most:
        cuts = tuple(every[k * len(every) // most] for k in range(most))
        network = replace(network, cuts=cuts)
    cpus = [type_ for type_ in types if platform.kinds[type_] == "cpu"]
    solver = _Enumerator(network, platform, types)
    found: list[_Row] = []
    for runs in _runs(types):
        for row in _split(runs, {t: _count(platform, t) for t in types}):
            found += solver.undominated(row)
    positions = (0, *network.cuts, len(network.layers))
    rows = list(_front(found))
    if cpus == types:  # with slack, hand-overs are avoided
        whole = {row[0][0] for row in rows if len(row) == 1}
        able = (cpu for cpu in cpus if max(network.wcet_ns[cpu]) < inf)
        rows += [((cpu, 0, len(positions) - 1),) for cpu in able if cpu not in whole]
    kept = [
        with_stages(network, tuple((k, positions[a], positions[b]) for k, a, b in row))
        for row in rows
    ]
    ordered = tuple(sorted(kept, key=lambda c: (c.latency, c.option)))
    return CandidateFront(ordered, solver.looked_at, exact=network.cuts == every)


def types_for(network: KernelRow, platform: Platform) -> list[str]:
    """Accelerators where they can run the whole network; beside an NPU, which has no GPU that helps
    it, CPUs as well; else CPUs."""
    known = [t for t in platform.kinds if t in network.wcet_ns and _count(platform, t)]
    order = {kind: number for number, kind in enumerate(ACCELERATORS)}
    alien = [t for t in known if platform.kinds[t] in order]
    alien.sort(key=lambda t: order[platform.kinds[t]])
    cpus = [t for t in known if platform.kinds[t] == "cpu"]
    layers = range(len(network.layers))
    if alien and all(any(network.wcet_ns[t][i] < inf for t in alien) for i in layers):
        return alien
    if any(platform.kinds[t] == "npu" for t in alien):
        return [*alien, *cpus]
    return cpus


def _front(found: list[_Row]) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """What no other one beats: fewer engines first, each level against all before."""
    many = max((len(vector) for vector, _ in found), default=0) > 3
    yield from _beaten_by_none(found) if many else _on_staircase(found)


def _beaten_by_none(found: list[_Row]) -> Iterator[tuple[tuple[str, int, int], ...]]:
    kept: list[tuple[float, ...]] = []
    for vector, stages in sorted(found, key=lambda row: row[0]):
        if not any(all(a <= b for a, b in zip(k, vector, strict=True)) for k in kept):
            kept.append(vector)
            yield stages


def _on_staircase(found: list[_Row]) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """The same where times are on two types."""
    steps: list[tuple[float, float]] = []
    for (_, x, y), stages in sorted(found, key=lambda row: row[0]):
        at = bisect_right(steps, (x, inf))
        if at and steps[at - 1][1] <= y:
            continue
        yield stages
        behind = at
        while behind < len(steps) and steps[behind][1] >= y:
            behind += 1
        steps[at:behind] = [(x, y)]


class _Enumerator:
    """Prefix sums of a network at its positions: 0, the cuts, the end."""

    def __init__(self, network: KernelRow, platform: Platform, types: Sequence[str]) -> None:
        import numpy as np

        self._np = np
        self._network, self._types = network, types
        self._at = np.array([0, *network.cuts, len(network.layers)])
        self._limited = {p.type for p in platform.pools if p.engines is not None}
        self._counts = {t: _count(platform, t) for t in types}
        self._sums = {t: self._prefix(network.wcet_ns[t]) for t in types if t in network.wcet_ns}
        self.looked_at = 0

    def _prefix(self, times: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        numpy = self._np
        values = numpy.array(times, dtype=float)
        able = numpy.isfinite(values)
        sums = numpy.concatenate([[0.0], numpy.cumsum(numpy.where(able, values, 0.0))])[self._at]
        return sums, numpy.concatenate([[0], numpy.cumsum(~able)])[self._at]

    def _time(self, type_: str, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Time of a stage between positions; its border is charged to it unless it is the first
        one.
        """
        numpy = self._np
        sums, barred = self._sums[type_]
        time = sums[last] - sums[first] + numpy.where(first > 0, self._network.border_ns, 0)
        found: np.ndarray = numpy.where((barred[last] == barred[first]) & (last > first), time, inf)
        return found

    def undominated(self, row: tuple[tuple[str, int], ...]) -> Iterator[_Row]:
        """What no other candidate of one option beats: (times on all types, engines) and
        (type, first, last).
        """
        numpy = self._np
        if any(t not in self._sums for t, _ in row):
            return
        borders = self._borders(len(row) - 1)
        stages: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]] = []
        for r, (type_, parts) in enumerate(row):
            first, last = borders[:, r], borders[:, r + 1]
            cut = [first, *([self._balanced(type_, first, last)] if parts == 2 else []), last]
            for a, b in pairwise(cut):
                stages.append((type_, a, b, self._time(type_, a, b)))
        self.looked_at += len(borders)
        columns = []
        for type_ in self._types:
            own = [time for t, _, _, time in stages if t == type_]
            if not own:
                columns.append(numpy.zeros(len(borders)))
            elif len(own) <= self._counts[type_]:
                columns.append(numpy.maximum.reduce(own))
            else:
                columns.append(numpy.add.reduce(own))
        engines = float(sum(t in self._limited for t, _, _, _ in stages))
        if len(columns) < 2:
            columns.append(numpy.zeros(len(borders)))
        for i in self._best(columns):
            vector = (engines, *(float(column[i]) for column in columns))
            yield vector, tuple((t, int(a[i]), int(b[i])) for t, a, b, _ in stages)

    def _borders(self, inner: int) -> np.ndarray:
        numpy = self._np
        end = len(self._at) - 1
        cuts = numpy.arange(1, end)
        found: np.ndarray
        if inner == 0:
            found = numpy.array([[0, end]])
        elif inner == 1:
            found = numpy.stack([numpy.zeros_like(cuts), cuts, numpy.full_like(cuts, end)], axis=1)
        else:
            a, b = numpy.triu_indices(max(len(cuts), 0), 1)
            found = numpy.stack(
                [numpy.zeros_like(a), cuts[a], cuts[b], numpy.full_like(a, end)], axis=1
            )
        return found

    def _balanced(self, type_: str, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The position between that makes the longer of two parts shortest."""
        numpy = self._np
        sums, _ = self._sums[type_]
        # only the second part pays it when all starts here
        border = numpy.where(first > 0, 0, self._network.border_ns)
        meet = numpy.searchsorted(sums, (sums[first] + sums[last] + border) / 2)
        low, high = (numpy.clip(at, first + 1, last - 1) for at in (meet - 1, meet))

        def longer(at: np.ndarray) -> np.ndarray:
            found: np.ndarray = numpy.maximum(
                self._time(type_, first, at), self._time(type_, at, last)
            )
            return found

        found: np.ndarray = numpy.where(longer(low) <= longer(high), low, high)
        return found

    def _best(self, columns: Sequence[np.ndarray]) -> list[int]:
        """Rows that no other one beats in all columns."""
        if len(columns) > 2:
            return self._best_of_many(columns)
        numpy = self._np
        x, y = columns
        kept, least = [], inf
        for i in numpy.lexsort((y, x)):
            if x[i] == inf:
                break
            if y[i] < least:
                kept.append(int(i))
                least = float(y[i])
        return kept

    def _best_of_many(self, columns: Sequence[np.ndarray]) -> list[int]:
        """The same for more than two columns: a row with the least sum is beaten by none, and
        takes those away that it beats."""
        numpy = self._np
        rows = numpy.stack(columns, axis=1)
        left = numpy.flatnonzero(numpy.isfinite(rows).all(axis=1))
        kept = []
        while len(left):
            first = left[numpy.argmin(rows[left].sum(axis=1))]
            kept.append(int(first))
            left = left[(rows[left] < rows[first]).any(axis=1)]
        return kept


def with_stages(network: KernelRow, stages: Sequence[tuple[str, int, int]]) -> Candidate:
    """The candidate with these stages: type, first kernel, the kernel behind the last."""
    steps = []
    for type_, begin, end in stages:
        times = [round(t) for t in network.wcet_ns[type_][begin:end]]
        if begin:
            times[0] += network.border_ns
        kernels = (sum(times),) if type_ in network.whole else tuple(times)
        name = network.layers[end - 1] if end < len(network.layers) else None
        whole = network.curves.get(type_)
        curve = None
        if whole is not None and whole.longest:  # a stage takes its share of it
            curve = whole.scaled(Fraction(sum(kernels), whole.longest))
        steps.append(
            CandidateStage(
                type_,
                kernels,
                name,
                type_ in network.estimated,
                network.firings,
                curve,
                end,
                type_ in network.of_kind,
            )
        )
    return Candidate("-".join(s.type for s in steps), tuple(steps))
