"""What the compiler of an accelerator takes, as data and functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.application import Network, Task
from ..networks.accelerators.breaches import Breach
from .fitness import Reason


@dataclass(frozen=True, slots=True)
class Compiler:
    """What the compiler of a platform's accelerators takes.

    `title` is what messages call such an accelerator. `unfit` is the reason why no layer of a
    network can run there; `broken` are the rules that layers of a whole network break, and `remedy`
    says what to do about one. Not `known`: the platform does not say which compiler it is, and is
    for analyses, in which everything is allowed. Not `usable`: it has nothing for this
    accelerator, or does not say what.
    """

    title: str
    unfit: Callable[[Task, Network], Reason | None]
    broken: Callable[[Network], tuple[Breach, ...]]
    remedy: str
    known: bool = True
    usable: bool = True
