"""Streams of CUDA with the urgency that a worker wants, through NVIDIA's bindings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from flowc.runtime import cuda_python
from flowc.runtime.cuda import WANTED, CudaError
from flowc.runtime.py_cuda import PyCuda
from flowc.runtime.scheduling import OnStream


class Driver:
    """Notes the streams that are made; as a GPU with the priorities 0 to -2."""

    def __init__(self) -> None:
        self.made: list[tuple[int, ...]] = []

    def cuStreamCreate(self, *how: int) -> tuple[int, int]:
        self.made.append(how)
        return 0, 7

    cuStreamCreateWithPriority = cuStreamCreate

    def cuCtxGetStreamPriorityRange(self) -> tuple[int, int, int]:
        return 0, 0, -2


def made(urgency: int | None, said: list[str]) -> tuple[int, ...]:
    driver = Driver()

    def ask(answer: tuple[Any, ...]) -> Any:
        return answer[1] if len(answer) == 2 else answer[1:]

    if urgency is not None:
        OnStream(urgency).begin(SimpleNamespace(warn_once=said.append))  # type: ignore[arg-type]
    gpu = SimpleNamespace(ask=ask, wait_outside=None)
    cuda_python._Stream(gpu, driver)  # type: ignore[arg-type]
    return driver.made[0]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WANTED, "urgency", None)
    monkeypatch.setattr(WANTED, "warn", str)


def test_an_urgent_app_has_a_small_number() -> None:
    said: list[str] = []
    assert made(None, said) == (1,)
    assert [made(urgency, said) for urgency in (0, 1, 2)] == [(1, 0), (1, -1), (1, -2)]
    assert not said


def test_where_levels_are_missing_the_most_urgent_share_one() -> None:
    said: list[str] = []
    assert made(4, said) == (1, -2)
    assert said == ["the GPU has 3 levels of priority: the most urgent apps share one"]


def test_pycuda_has_no_priorities() -> None:
    WANTED.urgency = 1
    with pytest.raises(CudaError, match="cuda-python"):
        PyCuda.new_stream(SimpleNamespace())  # type: ignore[arg-type]
