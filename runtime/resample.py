"""What stands on arrows: tokens that are read several times, and those of which the last ones go
on.

Nothing is copied where blocks are single tokens, or where the last ones go on; a larger block that
is repeated is.
"""

from __future__ import annotations

import abc
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .tokens import Port


class _Resampling(Code):
    """Works on blocks of `block` tokens."""

    hands_on = True

    def __init__(self, count: int, block: int = 1) -> None:
        self.count, self.block = count, block
        self.passes_on = self._passes_on()
        self._function: Callable[[np.ndarray], np.ndarray] = _as_it_is

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        if self.count > 1:
            self._function = self._made(inputs[0], outputs[0])

    def _passes_on(self) -> Tuple[int, Optional[int]]:
        """How often a token goes on, or how many of the last ones."""
        return self.count, None

    @abc.abstractmethod
    def _made(self, taken: Port, made: Port) -> Callable[[np.ndarray], np.ndarray]:
        """What a firing does, between these ports."""

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        return self._function(inputs[0])

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return self._function


class Repeat(_Resampling):
    """Each block is read `count` times in a row."""

    def _made(self, taken: Port, made: Port) -> Callable[[np.ndarray], np.ndarray]:
        if taken.bounded:
            return self._listed()
        shape, dtype = made.block_shape(0), made.dtype
        if self.block == 1:
            strides = (0,) + np.empty(taken.shape, dtype).strides
            array, broadcast = np.ndarray, np.broadcast_to

            def view(token: np.ndarray) -> np.ndarray:
                if token.flags.c_contiguous:  # broadcast_to does the same in four times the time
                    return array(shape, dtype, token, 0, strides)
                return broadcast(token, shape)

            return view
        several = (self.count,) + taken.block_shape(0)

        def copied(block: np.ndarray) -> np.ndarray:
            return np.broadcast_to(block, several).reshape(shape)

        return copied

    def _listed(self) -> Callable[[Any], Any]:
        """The same for tokens with sizes of their own."""
        count, single = self.count, self.block == 1

        def listed(block: Any) -> Any:
            return ([block] if single else block) * count

        return listed


class Last(_Resampling):
    """Of every `count` blocks the last one goes on."""

    def _passes_on(self) -> Tuple[int, Optional[int]]:
        return 1, self.block

    def _made(self, taken: Port, made: Port) -> Callable[[np.ndarray], np.ndarray]:
        if self.block == 1:

            def token(tokens: np.ndarray) -> np.ndarray:
                return tokens[-1, ...]

            return token
        size = self.block

        def block(tokens: np.ndarray) -> np.ndarray:
            return tokens[-size:]

        return block


def _as_it_is(tokens: np.ndarray) -> np.ndarray:
    return tokens
