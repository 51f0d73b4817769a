"""The signal-to-noise ratio of a network in fewer bits."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from flowc.runtime.noise import Noise


def measured(wanted: np.ndarray, made: np.ndarray) -> Noise:
    """The noise over the samples along the first axis."""
    noise = Noise()
    for one, other in zip(wanted, made, strict=True):
        noise.add([one], [other])
    return noise


def test_the_ratio_is_pooled_over_samples_and_around_their_mean() -> None:
    random = np.random.default_rng(2)
    wanted = random.standard_normal((40, 3, 5)) + 100.0
    made = (wanted + 0.01 * random.standard_normal(wanted.shape)).astype(np.float32)
    signal = np.sum((wanted - wanted.mean(axis=0)) ** 2)
    db = 10 * np.log10(signal / np.sum((made - wanted) ** 2))
    assert measured(wanted, made).db == pytest.approx(db, abs=1e-3)
    assert 38 < db < 42, "what all samples have in common is no signal"
    assert str(measured(wanted, made)) == f"{db:.1f} dB over 40 samples"


def test_of_samples_that_are_alike_the_mean_counts() -> None:
    one = np.ones((1, 8))
    assert measured(one, one + 0.1).db == pytest.approx(20)
    assert measured(np.repeat(one, 5, axis=0), np.repeat(one + 0.1, 5, axis=0)).db == pytest.approx(
        20
    )


def test_the_worst_output_counts_and_whole_numbers_are_counted() -> None:
    noise = Noise()
    wanted = np.arange(10.0)
    noise.add([wanted, np.arange(10)], [wanted, np.arange(10)])
    assert (noise.db, noise.agreement) == (inf, 1.0)
    noise.add([-wanted, np.arange(10)], [-wanted + 1.0, np.array([9, *range(1, 10)])])
    assert noise.db == pytest.approx(10 * np.log10(2 * np.sum(wanted**2) / 10))
    assert noise.agreement == 0.95
    assert noise.within(17)
    assert not noise.within(18)
    noise.add([wanted, np.arange(10)], [wanted, np.arange(10) + 1])
    assert not noise.within(10), "less than nine of ten are equal"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_noise(wrong: float) -> None:
    wanted = np.arange(6.0).reshape(3, 2)
    made = wanted.copy()
    made[1, 1] = wrong
    assert not measured(wanted, made).within(-1000)
    wanted[1, 1] = wrong
    assert measured(wanted, made).db == inf, "both have it"


def test_of_samples_of_several_sizes_everything_counts() -> None:
    noise = Noise()
    for size in (4, 12):
        noise.add([np.full(size, 2.0)], [np.full(size, 2.2)])
    assert noise.db == pytest.approx(20)
