"""How near the results of a network in fewer bits are to those of a reference: its signal-to-noise
ratio.

Over all samples, of each output: the power of what distinguishes the samples (the mean over them is
no signal) over the power of the difference. The network has the least of its outputs.
"""

from __future__ import annotations

from math import inf, isfinite, log10
from typing import List, Optional, Sequence

import numpy as np


class OutputNoise:
    """Of one output: whole numbers are counted, all others measured."""

    def __init__(self) -> None:
        self.samples = self.count = self.equal = 0
        self._sum: Optional[np.ndarray] = None
        self._several_sizes = False
        self._power = self._noise = 0.0

    def add(self, wanted: np.ndarray, made: np.ndarray) -> None:
        """Another sample."""
        self.samples += 1
        if wanted.dtype.kind not in "fc":
            self.count += wanted.size
            self.equal += int(np.sum(wanted == made))
            return
        same = (made == wanted) | (np.isnan(made) & np.isnan(wanted))
        exact = np.where(np.isfinite(wanted), wanted, 0.0).astype(np.float64)
        if self._sum is None or self._sum.shape == exact.shape:
            self._sum = exact if self._sum is None else self._sum + exact
        else:
            self._several_sizes = True
        self._power += float(np.sum(exact**2))
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0.0, made.astype(np.float64) - wanted)
        self._noise += float(np.sum(off**2))

    @property
    def db(self) -> Optional[float]:
        """The ratio in dB; None for whole numbers. Of samples that are all alike, the mean counts
        as signal, and of samples of several sizes, which have no mean, everything."""
        if self.count or not self.samples:
            return None
        spread = self._power
        if self._sum is not None and not self._several_sizes:
            spread -= float(np.sum(self._sum**2)) / self.samples
        signal = spread if spread > 1e-9 * self._power else self._power
        if not self._noise:
            return inf
        return 10 * log10(signal / self._noise) if signal > 0 and isfinite(self._noise) else -inf


class Noise:
    """Of all outputs of a network."""

    def __init__(self) -> None:
        self._outputs: List[OutputNoise] = []

    def add(self, wanted: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> None:
        """Another sample."""
        if not self._outputs:
            self._outputs = [OutputNoise() for _ in wanted]
        for output, one, other in zip(self._outputs, wanted, made):
            output.add(one, other)

    @property
    def samples(self) -> int:
        return max([o.samples for o in self._outputs] or [0])

    @property
    def db(self) -> float:
        """The least of its outputs; infinite where nothing differs."""
        return min([o.db for o in self._outputs if o.db is not None] or [inf])

    @property
    def agreement(self) -> float:
        """The least share of equal whole numbers."""
        return min([o.equal / o.count for o in self._outputs if o.count] or [1.0])

    def within(self, db: float) -> bool:
        """Is it near enough? Of whole numbers nine of ten have to be equal."""
        return self.db >= db and self.agreement >= 0.9

    def __str__(self) -> str:
        words = []
        if any(o.db is not None for o in self._outputs):
            words.append("the same" if self.db == inf else "%.1f dB" % self.db)
        if any(o.count for o in self._outputs):
            words.append("%.1f %% of whole numbers equal" % (100 * self.agreement))
        return "%s over %d samples" % (", ".join(words), self.samples)
