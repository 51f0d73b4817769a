"""An inference engine as data: what it is called, what installs it, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...machines.whoami import version_of
from ...model.application import Network

#: Why an engine does not take a network, and what to do.
Refusal = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Engine:
    """`name` is written in pins. `packages` are those of PyPI, each of which has it; `install` is
    the command for one, `extra` the extra of flowc with it (empty: it comes with flowc).

    `purpose` says what it is for, with its licence and size, in the words of `flowc doctor`.
    `word` is its class in the runtime, `precisions` are those in which it computes. `refusal`
    judges a network by its file, without the engine: None if nothing speaks against it. A cut costs
    `cut_ns_per_byte` more than the hand-over, as tensors inside of it have another layout. It is
    `made_for` machines of that architecture; empty: for all.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    install: str
    extra: str
    purpose: str
    word: str
    precisions: tuple[str, ...]
    refusal: Callable[[Network], Refusal | None]
    cut_ns_per_byte: float = 0.0
    made_for: str = ""

    @property
    def version(self) -> str:
        """What is installed here; empty if it is not."""
        return next(filter(None, map(version_of, self.packages)), "")
