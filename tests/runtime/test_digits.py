"""Numbers that are small still say something."""

from __future__ import annotations

import pytest
from flowc.runtime.digits import decimals, plain, seconds


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0.00"), (12.345, "12.35"), (1, "1.00"), (0.5, "0.500"), (0.061, "0.0610"), (1e-6, "0.000001"), (1e-9, "0.000000")],
)  # fmt: skip
def test_small_numbers_have_three_significant_digits(value: float, said: str) -> None:
    assert decimals(value, 2) == said


def test_times_in_words() -> None:
    assert [plain(ms) for ms in (150, 2.5, 0.0471, 0.000001)] == [
        "150",
        "2.5",
        "0.0471",
        "0.000001",
    ]
    assert [seconds(s) for s in (0.0513, 0.3, 2.04, 75)] == ["0.051", "0.3", "2", "75"]
