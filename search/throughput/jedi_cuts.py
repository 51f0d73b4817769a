"""JEDI's pipeline cut-point explorer: Algorithms 2 (global search) and 3 (local search) of Kim's
thesis, ch. 3.5.1.

In: an option with its parameters, and a `Bench` that runs settings. Out: the best cut-point tuple
found. Options, parameters and what is run before and after are left to `jedi`.

Where the pseudo code is silent or wrong, it is read so:

- Algorithm 2 never returns from a tuple that is worse: its `continue with P_i again` leaves
  `cut_cur` where it failed, and the walk would end anywhere. A move that gains nothing is taken
  back, as in Algorithm 3, lines 19-20.
- `New cut-point tuple is selected` (line 3) is not said to come from where. K is "the number of
  tuples to maintain during the iterative process": every pass begins at the best of the K best
  tuples at which none began, until there is none. So a large K searches more, and K = 1 climbs one
  hill: the fast search.
- `fps_prev = MAX` (line 1 of both) would end the first repetition at once; what counts is the value
  before the move.
- A move goes on in its direction over infeasible tuples to the next feasible one.
- The local search (Algorithm 3) begins although nothing "is improved" yet, and line 6 (`i,`) reads
  `<`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from .jedi_bench import STREAMS, Bench, Option, Setting

#: The global search looks at every third cut point (Fig. 3.7).
SAMPLE = 3
#: Tuples that are looked at around an initial one that is infeasible.
NEARBY = 500

Cuts = tuple[int, ...]
#: Which cuts move, and in which direction.
Policy = tuple[tuple[int, ...], int]


class Explorer:
    """Tuples of one option; `best` and `value` are the best setting so far, `searched` all values
    of tuples.
    """

    def __init__(
        self, bench: Bench, option: Option, numbers: tuple[int, ...], keep: int, first: Cuts | None
    ) -> None:
        self._bench, self._option, self._numbers, self._keep = bench, option, numbers, keep
        self._all = [after for after, _ in bench.network.costs.cuts]
        sampled = self._all[SAMPLE - 1 :: SAMPLE]
        fitting = first if first is not None and self._fits(first) else None
        self._sampled = (
            sorted({*sampled, *(fitting or ())})
            if len(sampled) >= len(option.stages)
            else self._all
        )
        self._first = fitting if fitting is not None else self._initial()
        self._localised: set[Cuts] = set()
        self.searched: dict[Cuts, float] = {}
        self.best: Setting | None = None
        self.value = float("inf")

    def begin(self) -> None:
        """Run the initial tuple, if there is one. Raises Over."""
        if self._first is not None:
            self._try(self._first, 1.0, local=False)

    # -- Algorithm 2 -------------------------------------------------------------------------------
    def search(self, threshold: float, *, local: bool) -> int:
        """The global search; with `local` also the local one around the best tuples. Raises Over.

        Below the `threshold` of utilization the last stage's processor gets more layers; otherwise
        every cut moves alone, and all move together. Returns from how many tuples local searches
        have begun so far.
        """
        if self._first is None:
            return 0
        self._try(self._first, threshold, local=local)
        begun: set[Cuts] = set()
        while (current := next((c for c in self._top() if c not in begun), None)) is not None:
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
            yield from (((k,), 1) for k in every if k in main and k + 1 not in main)
            yield from (((k,), -1) for k in every if k + 1 in main and k not in main)
            return
        yield from (((k,), step) for k in every for step in (-1, 1))
        if len(cuts) > 1:
            yield from ((tuple(every), step) for step in (-1, 1))

    # -- Algorithm 3 -------------------------------------------------------------------------------
    def _local(self, here: Setting, value: float) -> None:
        """Single cuts move over all cut points; with two stages on the main processor, the first
        may get one stream.
        """
        streams = here.numbers[STREAMS:]
        if len(self._option.main) > 1 and self._option.main[0] == 0 and streams[0] > 1:
            given = (1, *streams[1:-1], streams[-1] + streams[0] - 1)
            other = Setting(here.option, here.cuts, (*here.numbers[:STREAMS], *given))
            reached = self._bench.run(other)
            self._update(other, reached)
            if reached < value:
                here, value = other, reached
        improved = True
        while improved:
            improved = False
            for k in range(len(here.cuts)):
                for step in (-1, 1):
                    while (moved := self._moved(here.cuts, ((k,), step), self._all)) is not None:
                        other = Setting(here.option, moved, here.numbers)
                        reached = self._bench.run(other)
                        self._update(other, reached)
                        if reached >= value:
                            break
                        here, value, improved = other, reached, True

    # -- tuples ------------------------------------------------------------------------------------
    def _at(self, cuts: Cuts) -> Setting:
        return Setting(self._option, cuts, self._numbers)

    def _update(self, setting: Setting, value: float) -> None:
        if value < self.value:
            self.best, self.value = setting, value

    def _fits(self, cuts: Cuts) -> bool:
        right = len(cuts) == len(self._option.stages) - 1 and set(cuts) <= {*self._all}
        return right and self._bench.feasible(self._option, cuts)

    def _moved(self, cuts: Cuts, policy: Policy, positions: Sequence[int]) -> Cuts | None:
        """The next feasible tuple in a direction, or None at the end."""
        which, step = policy
        at = [bisect_right(positions, c) - 1 for c in cuts]
        while True:
            for k in which:
                at[k] += step
            if at[0] < 0 or at[-1] >= len(positions) or any(a >= b for a, b in pairwise(at)):
                return None
            moved = tuple(positions[i] for i in at)
            if self._bench.feasible(self._option, moved):
                return moved

    def _initial(self) -> Cuts | None:
        """Stages of equal length by the profile, as far as samples allow, or the nearest feasible
        tuple; None: there is none.

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
            at = [self._sampled.index(c) for c in cuts]
            for k in range(len(at)):
                for step in (-1, 1):
                    near = [*at[:k], at[k] + step, *at[k + 1 :]]
                    inside = near[0] >= 0 and near[-1] < len(self._sampled)
                    if inside and all(a < b for a, b in pairwise(near)):
                        neighbor = tuple(self._sampled[i] for i in near)
                        if neighbor not in seen and len(seen) < NEARBY:
                            seen.add(neighbor)
                            queue.append(neighbor)
        return None

    def _balanced(self) -> Cuts:
        """By bisection of the longest stage. A processor with two stages has half the room in
        each.
        """
        costs, stages = self._bench.network.costs, self._option.stages
        uses = {p: sum(p in place for place in stages) for place in stages for p in place}
        room = [sum(1 / uses[p] for p in place) for place in stages]
        sums = []
        for place in stages:
            times = [
                max(costs.layers[self._bench.kind(p)][i] for p in place) for i in range(costs.count)
            ]
            sums.append([0.0, *accumulate(t if t < float("inf") else 0.0 for t in times)])
        low, high = 0.0, max(s[-1] / r for s, r in zip(sums, room, strict=True))
        cuts = self._filled(high, sums, room)[0]
        for _ in range(40):
            middle = (low + high) / 2
            tried, fits = self._filled(middle, sums, room)
            if fits:
                high, cuts = middle, tried
            else:
                low = middle
        return cuts

    def _filled(
        self, limit: float, sums: list[list[float]], room: list[float]
    ) -> tuple[Cuts, bool]:
        """Every stage but the last takes what it can in that time; at least to one more position,
        at most so far that one is left for each stage behind."""
        cuts: list[int] = []
        at, first, last, fits = -1, 0, len(sums) - 1, True
        for k in range(last):
            at += 1
            while at + 1 < len(self._sampled) - (last - 1 - k):
                if sums[k][self._sampled[at + 1]] - sums[k][first] > limit * room[k]:
                    break
                at += 1
            fits = fits and sums[k][self._sampled[at]] - sums[k][first] <= limit * room[k]
            first = self._sampled[at]
            cuts.append(first)
        return tuple(cuts), fits and sums[last][-1] - sums[last][first] <= limit * room[last]
