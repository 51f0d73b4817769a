"""JEDI's search with a genetic fine-tuner: Kim's thesis, ch. 3.6.4.4, *fine-tuning-GA*.

In: a problem, and a function that runs mappings; without one, predictions replace runs. Out: the
cuts of JEDI's heuristic, with the numbers of threads, streams and buffers that evolve. The thesis
compares it with the greedy fine-tuner (`jedi`) and with one chromosome for everything
(`comprehensive_ga`).

A chromosome is a number for each parameter of the setting, from one to what the maximizer finds.
The operators are those of `evolve`. Of all settings within the loss that the greedy
fine-tuner may cause, the one with the least sum of numbers is the answer: the step is there to
spare resources.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ...model.mapping import Mapping
from ..evolution import Evolution
from .evolve import MEASURED, PREDICTED, Genes, evolve
from .jedi import LOSS, explored
from .jedi_bench import STREAMS, Bench, BenchSetting
from .request import SearchRequest


def search(request: SearchRequest) -> Mapping:
    """The best configuration, never worse than option E or frames in turn. Raises Errors for other
    objectives."""
    rng = random.Random(request.seed)
    numbers = (PREDICTED if request.runs is None else MEASURED).changed(request.evolution)

    def tuned(bench: Bench, begin: BenchSetting, most: BenchSetting) -> BenchSetting:
        return _evolved(bench, _Numbers(bench, begin, most), rng, numbers)

    return explored(request, "fine-tuning-ga", tuned)


def _evolved(bench: Bench, space: _Numbers, rng: random.Random, numbers: Evolution) -> BenchSetting:
    """The setting with the fewest threads, streams and buffers that loses next to nothing. Raises
    Over."""
    values: dict[BenchSetting, float] = evolve(space, bench.run, rng, numbers).values
    allowed = min(values.values()) * (1 + LOSS)
    near = [setting for setting, value in values.items() if value <= allowed]
    return min(near, key=lambda setting: (sum(setting.numbers), values[setting]))


class _Numbers:
    """What genes mean: the numbers of a setting whose option and cuts are decided."""

    def __init__(self, bench: Bench, begin: BenchSetting, most: BenchSetting) -> None:
        self._begin = begin
        streams = range(STREAMS, len(begin.numbers))
        self._moved = (*bench.adjustable, *streams)
        limits = bench.numbers(begin.option, most.numbers)
        limits = tuple(map(max, limits, begin.numbers))
        self.high = [limits[parameter] for parameter in self._moved]
        self.cuts: set[int] = set()

    def plain(self) -> Iterator[tuple[str, Genes]]:
        """The setting to begin with."""
        yield "", [self._begin.numbers[parameter] - 1 for parameter in self._moved]

    def decode(self, genes: Sequence[int]) -> BenchSetting:
        """The setting of genes, with buffers for all of its lanes."""
        numbers = list(self._begin.numbers)
        for parameter, gene in zip(self._moved, genes, strict=True):
            numbers[parameter] = gene + 1
        return self._begin.with_numbers(numbers)
