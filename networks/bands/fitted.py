"""What bands of a network cost, fitted to runs.

In: for some plans what they do beside the network, and the time that they took. Out: `BandCosts`.
Each price is held near the usual one as far as the runs do not say otherwise: what hardly matters
to these plans cannot be told from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import median

from ...model.profile import BandCosts
from .choose import USUAL, Extra

#: How far a price may be from the usual one, as its share of the time of the network: as much
#: counts an error of a run.
HELD = 0.02


def fitted(seen: Sequence[tuple[Extra, float]], whole_ns: float, blocked: bool) -> BandCosts:
    """`seen` has what a plan does beside the network, and its time in units of the network's, which
    is `whole_ns`."""
    import numpy as np

    usual = USUAL[blocked]
    shares = np.array([extra.ns(usual, whole_ns) for extra, _ in seen]) / whole_ns
    beyond = np.array([time - 1 for _, time in seen])
    kinds = shares.shape[1]
    rows, wanted = (
        np.vstack([shares, HELD * np.eye(kinds)]),
        np.concatenate([beyond, HELD * np.ones(kinds)]),
    )
    best, least = np.ones(kinds), float("inf")
    for kept in product((False, True), repeat=kinds):
        # least squares without negative prices: some are nothing
        columns = np.flatnonzero(kept)
        factors = np.zeros(kinds)
        factors[columns] = np.linalg.lstsq(rows[:, columns], wanted, rcond=None)[0]
        left = float(np.sum((rows @ factors - wanted) ** 2))
        if left < least and factors.min() >= 0:
            best, least = factors, left
    error = median(abs(p - b) / (1 + b) for p, b in zip(shares @ best, beyond, strict=True))
    again, by_byte, by_firing, by_weight = (float(f) for f in best)
    return BandCosts(
        blocked,
        usual.firing_ns * by_firing,
        usual.byte_ns * by_byte,
        usual.weight_ns * by_weight,
        usual.again * again,
        whole_ns,
        len(seen),
        float(error),
    )
