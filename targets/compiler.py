"""What the compiler of an accelerator takes, as data and functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..model.application import Network, Task
from ..networks.accelerators.breaches import Breach
from .fitness import Reason


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """A network as its compiler reads it.

    `modified` is the time of the file, so that broken rules are found once for each content.
    `sizes` has the shapes of its inputs by name.
    """

    path: Path
    modified: int
    sizes: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its inputs."""
        return dict(self.sizes)


def file_of(network: Network) -> NetworkFile:
    """The file of a network; for a stage, that of the whole network."""
    whole = network.cut_from or network
    path = Path(whole.path)
    modified = path.stat().st_mtime_ns
    sizes = tuple((t.name, t.type.shape) for t in whole.inputs)
    return NetworkFile(path, modified, sizes)


@dataclass(frozen=True, slots=True)
class Compiler:
    """What the compiler of a platform's accelerators takes.

    `title` is what messages call such an accelerator. `unfit` is the reason why no layer of a
    network can run there; `broken` are the rules that layers of a whole network break, and `remedy`
    says what to do about one. Not `known`: the platform does not say which compiler it is, and is
    for analyses, in which everything is allowed. Not `usable`: it has nothing for this
    accelerator, or does not say what. Not `selective`: it takes all layers of most networks, so
    only what it refuses is worth a table.
    """

    title: str
    unfit: Callable[[Task, Network], Reason | None]
    broken: Callable[[Network], tuple[Breach, ...]]
    remedy: str
    known: bool = True
    usable: bool = True
    selective: bool = True
