"""What other programs took from a run."""

from __future__ import annotations

import pytest
from flowc.profiling.there.child import _Load


def test_threads_below_others_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the others of the program, which is as it should be."""
    seen = [{"1": (0, 0), "2": (0, 0)}, {"1": (75, 25), "2": (10, 990)}]
    monkeypatch.setattr(_Load, "_read", staticmethod(lambda: seen.pop(0) if seen[1:] else seen[0]))
    load = _Load()
    assert load.delayed({"2"}) == 0.25
    assert load.delayed() > 0.9
