"""JEDI's pipeline cut-point explorer: Algorithms 2 (global search) and 3 (local search) of Kim's
thesis, ch. 3.5.1.

In: an option with its parameters, and a `Bench` that runs settings. Out: the best cut-point tuple
found. Options, parameters, and the steps before and after are in `jedi`.

The pseudo code is incomplete or wrong in some places. This is how it is carried out:

- Algorithm 2 never returns from a tuple that is worse: its `continue with P_i again` leaves
  `cut_cur` where it failed, so that the search would end at an arbitrary tuple. Here a move without
  gain is undone, as in Algorithm 3, lines 19-20.
- `New cut-point tuple is selected` (line 3) does not name the source of the tuple. K is "the number
  of tuples to maintain during the iterative process": every pass begins at the best of the K best
  tuples at which none began, until there is none. So a large K searches more, and K = 1 is hill
  climbing from one tuple: the fast search.
- `fps_prev = MAX` (line 1 of both) would end the first repetition at once: here a move is compared
  with the value before it.
- A move in a direction skips infeasible tuples.
- The local search (Algorithm 3) begins although nothing "is improved" yet, and line 6 (`i,`) means
  `<`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, product
from math import inf

from .jedi_bench import STREAMS, Bench, BenchSetting, MappingOption

#: The global search uses every third cut point (Fig. 3.7).
SAMPLE = 3
#: The number of tuples that are tried around an initial one that is infeasible.
NEARBY = 500

Cuts = tuple[int, ...]
#: Which cuts move, and in which direction.
Policy = tuple[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class _StageWork:
    """The times of all layers on a place, summed from the front, and the number of processors that
    a stage has there."""

    sums: list[float]
    processors: float


class Explorer:
    """Tuples of one option. `best` and `value` are the best setting so far, `searched` has the
    values of tuples.
    """

    def __init__(
        self,
        bench: Bench,
        option: MappingOption,
        numbers: tuple[int, ...],
        keep: int,
        first: Cuts | None,
    ) -> None:
        self._bench, self._option, self._numbers, self._keep = bench, option, numbers, keep
        self._all = [after for after, _ in bench.network.costs.cuts]
        sampled = self._all[SAMPLE - 1 :: SAMPLE]
        if first is not None and not self._fits(first):
            first = None
        self._sampled = self._all
        if len(sampled) >= len(option.stages):
            self._sampled = sorted({*sampled, *(first or ())})
        self._first = self._initial() if first is None else first
        self._localised: set[Cuts] = set()
        self.searched: dict[Cuts, float] = {}
        self.best: BenchSetting | None = None
        self.value = inf

    def begin(self) -> None:
        """Run the initial tuple, if there is one. Raises Over."""
        if self._first is not None:
            self._try(self._first, 1.0, local=False)

    # -- Algorithm 2 -------------------------------------------------------------------------------
    def search(self, threshold: float, *, local: bool) -> int:
        """The global search; with `local` also the local one around the best tuples. Returns the
        number of tuples from which local searches have begun so far. Raises Over.

        Below the `threshold` of utilization, the processor of the last stage gets more layers;
        otherwise every cut moves alone, and then all move together.
        """
        if self._first is None:
            return 0
        self._try(self._first, threshold, local=local)
        begun: set[Cuts] = set()
        while fresh := [cuts for cuts in self._top() if cuts not in begun]:
            current = fresh[0]
            begun.add(current)
            for policy in self._policies(current, threshold):
                while (moved := self._moved(current, policy, self._sampled)) is not None:
                    if self._try(moved, threshold, local=local) >= self.searched[current]:
                        break
                    current = moved
        return len(self._localised)

    def _try(self, cuts: Cuts, threshold: float, *, local: bool) -> float:
        setting = self._at(cuts)
        self.searched[cuts] = value = self._bench.run(setting)
        self._update(setting, value)
        wanted = local and cuts not in self._localised and cuts in self._top()
        if wanted and self._bench.utilization(setting) >= threshold:
            self._localised.add(cuts)
            self._local(setting, value)
        return value

    def _top(self) -> list[Cuts]:
        return sorted(self.searched, key=lambda c: self.searched[c])[: self._keep]

    def _policies(self, cuts: Cuts, threshold: float) -> Iterator[Policy]:
        every = range(len(cuts))
        if self._bench.utilization(self._at(cuts)) < threshold:
            main = self._option.main
            ends = [k for k in every if k in main and k + 1 not in main]
            begins = [k for k in every if k + 1 in main and k not in main]
            yield from (((k,), 1) for k in ends)
            yield from (((k,), -1) for k in begins)
            return
        for k, step in product(every, (-1, 1)):
            yield (k,), step
        if len(cuts) > 1:
            yield tuple(every), -1
            yield tuple(every), 1

    # -- Algorithm 3 -------------------------------------------------------------------------------
    def _local(self, here: BenchSetting, value: float) -> None:
        """Single cuts move over all cut points. With two stages on the main processor, all streams
        but one of the first may move to the last.
        """
        streams = here.numbers[STREAMS:]
        if len(self._option.main) > 1 and self._option.main[0] == 0 and streams[0] > 1:
            moved_streams = (1, *streams[1:-1], streams[-1] + streams[0] - 1)
            other = BenchSetting(here.option, here.cuts, (*here.numbers[:STREAMS], *moved_streams))
            reached = self._bench.run(other)
            self._update(other, reached)
            if reached < value:
                here, value = other, reached
        improved = True
        while improved:
            improved = False
            for k, step in product(range(len(here.cuts)), (-1, 1)):
                while (moved := self._moved(here.cuts, ((k,), step), self._all)) is not None:
                    other = BenchSetting(here.option, moved, here.numbers)
                    reached = self._bench.run(other)
                    self._update(other, reached)
                    if reached >= value:
                        break
                    here, value, improved = other, reached, True

    # -- tuples ------------------------------------------------------------------------------------
    def _at(self, cuts: Cuts) -> BenchSetting:
        return BenchSetting(self._option, cuts, self._numbers)

    def _update(self, setting: BenchSetting, value: float) -> None:
        if value < self.value:
            self.best, self.value = setting, value

    def _fits(self, cuts: Cuts) -> bool:
        if len(cuts) != len(self._option.stages) - 1 or not set(cuts) <= {*self._all}:
            return False
        return self._bench.feasible(self._option, cuts)

    def _moved(self, cuts: Cuts, policy: Policy, positions: Sequence[int]) -> Cuts | None:
        """The next feasible tuple in a direction, or None at the end."""
        moving, step = policy
        at = [bisect_right(positions, c) - 1 for c in cuts]
        while True:
            for k in moving:
                at[k] += step
            if not _in_order(at, len(positions)):
                return None
            moved = tuple(positions[i] for i in at)
            if self._bench.feasible(self._option, moved):
                return moved

    def _initial(self) -> Cuts | None:
        """Stages of equal length by the profile, as far as samples allow, or the nearest feasible
        tuple, or None.

        The thesis began at random, as layers could not be measured on its DLAs; it suggests this
        for other boards.
        """
        if len(self._sampled) < len(self._option.stages) - 1:
            return None
        start = self._balanced()
        queue, seen = [start], {start}
        for cuts in queue:
            if self._bench.feasible(self._option, cuts):
                return cuts
            for neighbor in self._neighbors(cuts):
                if neighbor not in seen and len(seen) < NEARBY:
                    seen.add(neighbor)
                    queue.append(neighbor)
        return None

    def _neighbors(self, cuts: Cuts) -> Iterator[Cuts]:
        """The tuples in which one cut is at the sample before or behind."""
        at = [self._sampled.index(c) for c in cuts]
        for k, step in product(range(len(at)), (-1, 1)):
            near = [*at[:k], at[k] + step, *at[k + 1 :]]
            if _in_order(near, len(self._sampled)):
                yield tuple(self._sampled[i] for i in near)

    def _balanced(self) -> Cuts:
        """The cuts with the shortest longest stage, by bisection of its time."""
        work = [self._work(place) for place in self._option.stages]
        low, high = 0.0, max(stage.sums[-1] / stage.processors for stage in work)
        cuts, _ = self._filled(high, work)
        for _ in range(40):
            middle = (low + high) / 2
            tried, fits = self._filled(middle, work)
            if fits:
                high, cuts = middle, tried
            else:
                low = middle
        return cuts

    def _work(self, place: tuple[str, ...]) -> _StageWork:
        """The times of layers on a place; a processor with two stages has half of its time for
        each."""
        layers = self._bench.network.costs.layers
        times = zip(*(layers[self._bench.type(p)] for p in place), strict=True)
        slowest = [max(of_layer) for of_layer in times]
        sums = [0.0, *accumulate(t if t < inf else 0.0 for t in slowest)]
        uses = Counter(chain.from_iterable(self._option.stages))
        return _StageWork(sums, sum(1 / uses[p] for p in place))

    def _filled(self, limit: float, work: list[_StageWork]) -> tuple[Cuts, bool]:
        """Cuts at which every stage but the last has as many layers as fit in that time, and
        whether all fit.

        A stage ends at least one position later than the one before, and leaves a position for each
        stage behind.
        """
        *inner, last = work
        cuts: list[int] = []
        at, first, fits = -1, 0, True
        for k, stage in enumerate(inner, 1):
            room = limit * stage.processors
            at += 1
            while at + 1 < len(self._sampled) - (len(inner) - k):
                if stage.sums[self._sampled[at + 1]] - stage.sums[first] > room:
                    break
                at += 1
            fits = fits and stage.sums[self._sampled[at]] - stage.sums[first] <= room
            first = self._sampled[at]
            cuts.append(first)
        rest = last.sums[-1] - last.sums[first]
        return tuple(cuts), fits and rest <= limit * last.processors


def _in_order(at: Sequence[int], count: int) -> bool:
    """True if numbers increase and are at least 0 and less than `count`."""
    return at[0] >= 0 and at[-1] < count and all(a < b for a, b in pairwise(at))
