"""Networks on the cores of an NPU, whatever runs them there."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from .code import Network
from .memory import Rehearsal


class OnNpu(Network):
    """Inference on an NPU; `file` to `outputs` as in `Network`. The n-th processor of the task is
    core `cores[n]`: `_opened` has what runs there, in the same order, once it is open."""

    def __init__(
        self, file: str, inputs: Sequence[str], outputs: Sequence[str], cores: Sequence[int]
    ) -> None:
        Network.__init__(self, file, inputs, outputs)
        self._cores = list(cores)
        self._opened: List[Any] = []
        self._per_iteration, self._engine = 1, ""

    @property
    def engine(self) -> str:
        return self._engine

    def fired_per_iteration(self, firings: int) -> None:
        self._per_iteration = firings

    def rehearsals(self) -> List[Rehearsal]:
        return []

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return None

    def close(self) -> None:
        self._opened = []

    def _of(self, firing: int) -> Any:
        """What runs a firing: replicas have iterations in turn, in the order of their
        processors."""
        return self._opened[firing // self._per_iteration % len(self._opened)]
