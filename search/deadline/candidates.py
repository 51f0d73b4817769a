"""Candidates of a network: every way to cut it over kinds of processors that is worth a look.

In: worst-case times of its kernels per kind of processor, where it may be cut, and the board. Out:
candidates that no other one beats at once in the time on a GPU, the time on the busiest DLA, and
the number of engines. The front is exact where a stage takes the sum of its kernels, over all
options with at most two borders between kinds, runs of which may be split over several processors;
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


@dataclass(frozen=True)
class KernelRow:
    """A network as a row of kernels: `wcet_ns[kind][k]` (infinite where it cannot run) and the
    layer it ends with.

    `cuts` are the positions where it may be cut (number of kernels in front), `border_ns` what a
    border costs the stage behind it. Stages on kinds of `whole` are one loadable; times on kinds of
    `estimated` are guesses. It fires `firings` times per iteration, and as a whole as
    `curves[kind]` say, where they are known.
    """

    layers: tuple[str, ...]
    wcet_ns: Mapping[str, Sequence[float]]
    cuts: tuple[int, ...]
    border_ns: int = 0
    whole: frozenset[str] = UNDIVIDED
    estimated: frozenset[str] = frozenset()
    firings: int = 1
    curves: Mapping[str, WorkloadCurve] = field(default_factory=dict)


@dataclass(frozen=True)
class CandidateFront:
    """The undominated candidates, and how many ways of cutting they were chosen from. `exact`: all
    ways there are.
    """

    candidates: tuple[Candidate, ...]
    looked_at: int
    exact: bool = True


def _count(platform: Platform, kind: str) -> int:
    return sum(p.count for p in platform.pools if p.kind == kind)


def _runs(kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for a in kinds:
        yield (a,)
        for b in kinds:
            if a != b:
                yield a, b
                for c in kinds:
                    if b != c:
                        yield a, b, c


def _split(
    runs: tuple[str, ...], counts: Mapping[str, int]
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every run in one or two parts, as far as there are processors and the number of stages
    allows.
    """
    rows: list[tuple[tuple[str, int], ...]] = [()]
    for kind in runs:
        rows = [(*row, (kind, parts)) for row in rows for parts in (1, 2) if parts <= counts[kind]]
    for row in rows:
        if sum(parts for _, parts in row) <= MOST_STAGES:
            yield row


def front(network: KernelRow, platform: Platform) -> CandidateFront:
    """All candidates over (time on each kind's busiest processor when stages are spread, engines on
    limited pools).

    Of networks on CPUs the whole one is always among them.

    Of more cuts than can be enumerated so many count that lie evenly in the network: the answer is
    not exact then.
    """
    every = network.cuts
    if len(every) > MOST_CUTS:
        network = replace(
            network, cuts=tuple(every[k * len(every) // MOST_CUTS] for k in range(MOST_CUTS))
        )
    kinds = kinds_of(network, platform)
    solver = _Enumerator(network, platform, kinds)
    found: list[tuple[tuple[float, float, float], tuple[tuple[str, int, int], ...]]] = []
    for runs in _runs(kinds):
        for row in _split(runs, {k: _count(platform, k) for k in kinds}):
            found += solver.undominated(row)
    positions = (0, *network.cuts, len(network.layers))
    rows = list(_front(found))
    if kinds == ["cpu"] and all(len(row) > 1 for row in rows):  # with slack, hand-overs are avoided
        rows.append((("cpu", 0, len(positions) - 1),))
    kept = [
        with_stages(network, tuple((k, positions[a], positions[b]) for k, a, b in row))
        for row in rows
    ]
    ordered = tuple(sorted(kept, key=lambda c: (c.latency, c.option)))
    return CandidateFront(ordered, solver.looked_at, exact=network.cuts == every)


def kinds_of(network: KernelRow, platform: Platform) -> list[str]:
    """Accelerators where they can run the whole network; beside an NPU, which has no GPU that helps
    it, CPUs as well; else CPUs."""
    kinds = [k for k in ACCELERATORS if k in network.wcet_ns and _count(platform, k)]
    layers = range(len(network.layers))
    if kinds and all(any(network.wcet_ns[k][i] < inf for k in kinds) for i in layers):
        return list(kinds)
    if "npu" in kinds and "cpu" in network.wcet_ns:
        return [*kinds, "cpu"]
    return ["cpu"]


def _front(
    found: list[tuple[tuple[float, float, float], tuple[tuple[str, int, int], ...]]],
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """What no other one beats: fewer engines first, each level against the staircase of all
    before.
    """
    steps: list[tuple[float, float]] = []
    for (x, y, _), stages in sorted(found, key=lambda f: (f[0][2], f[0][0], f[0][1])):
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

    def __init__(self, network: KernelRow, platform: Platform, kinds: Sequence[str]) -> None:
        import numpy as np

        self._np = np
        self._network, self._kinds = network, kinds
        self._at = np.array([0, *network.cuts, len(network.layers)])
        self._limited = {p.kind for p in platform.pools if p.engines is not None}
        self._counts = {k: _count(platform, k) for k in kinds}
        self._sums = {k: self._prefix(network.wcet_ns[k]) for k in kinds if k in network.wcet_ns}
        self.looked_at = 0

    def _prefix(self, times: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        numpy = self._np
        values = numpy.array(times, dtype=float)
        able = numpy.isfinite(values)
        sums = numpy.concatenate([[0.0], numpy.cumsum(numpy.where(able, values, 0.0))])[self._at]
        return sums, numpy.concatenate([[0], numpy.cumsum(~able)])[self._at]

    def _time(self, kind: str, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Time of a stage between positions; its border is charged to it unless it is the first
        one.
        """
        numpy = self._np
        sums, barred = self._sums[kind]
        time = sums[last] - sums[first] + numpy.where(first > 0, self._network.border_ns, 0)
        found: np.ndarray = numpy.where((barred[last] == barred[first]) & (last > first), time, inf)
        return found

    def undominated(
        self, row: tuple[tuple[str, int], ...]
    ) -> Iterator[tuple[tuple[float, float, float], tuple[tuple[str, int, int], ...]]]:
        """What no other candidate of one option beats: (times on both kinds, engines) and (kind,
        first, last).
        """
        numpy = self._np
        if any(k not in self._sums for k, _ in row):
            return
        borders = self._borders(len(row) - 1)
        stages: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]] = []
        for r, (kind, parts) in enumerate(row):
            first, last = borders[:, r], borders[:, r + 1]
            cut = [first, *([self._balanced(kind, first, last)] if parts == 2 else []), last]
            for a, b in pairwise(cut):
                stages.append((kind, a, b, self._time(kind, a, b)))
        self.looked_at += len(borders)
        columns = []
        for kind in self._kinds:
            own = [time for k, _, _, time in stages if k == kind]
            if not own:
                columns.append(numpy.zeros(len(borders)))
            elif len(own) <= self._counts[kind]:
                columns.append(numpy.maximum.reduce(own))
            else:
                columns.append(numpy.add.reduce(own))
        engines = float(sum(k in self._limited for k, _, _, _ in stages))
        if len(columns) < 2:
            columns.append(numpy.zeros(len(borders)))
        for i in self._best(columns):
            vector = float(columns[0][i]), float(columns[1][i]), engines
            yield vector, tuple((k, int(a[i]), int(b[i])) for k, a, b, _ in stages)

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

    def _balanced(self, kind: str, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The position between that makes the longer of two parts shortest."""
        numpy = self._np
        sums, _ = self._sums[kind]
        # only the second part pays it when all starts here
        border = numpy.where(first > 0, 0, self._network.border_ns)
        meet = numpy.searchsorted(sums, (sums[first] + sums[last] + border) / 2)
        low, high = (numpy.clip(at, first + 1, last - 1) for at in (meet - 1, meet))

        def longer(at: np.ndarray) -> np.ndarray:
            found: np.ndarray = numpy.maximum(
                self._time(kind, first, at), self._time(kind, at, last)
            )
            return found

        found: np.ndarray = numpy.where(longer(low) <= longer(high), low, high)
        return found

    def _best(self, columns: Sequence[np.ndarray]) -> list[int]:
        """Rows on the staircase of two columns."""
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


def with_stages(network: KernelRow, stages: Sequence[tuple[str, int, int]]) -> Candidate:
    """The candidate with these stages: kind, first kernel, the kernel behind the last."""
    steps = []
    for kind, begin, end in stages:
        times = [round(t) for t in network.wcet_ns[kind][begin:end]]
        if begin:
            times[0] += network.border_ns
        kernels = (sum(times),) if kind in network.whole else tuple(times)
        name = network.layers[end - 1] if end < len(network.layers) else None
        whole = network.curves.get(kind)
        curve = None
        if whole is not None and whole.longest:  # a stage takes its share of it
            curve = whole.scaled(Fraction(sum(kernels), whole.longest))
        steps.append(
            CandidateStage(
                kind, kernels, name, kind in network.estimated, network.firings, curve, end
            )
        )
    return Candidate("-".join(s.kind for s in steps), tuple(steps))
