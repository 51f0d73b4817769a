"""A kind of code: how a task becomes code of it, its expression in main.py, and its requirements.

A kind is a module beside this one with a `Kind`, a frozen dataclass for the code of one task (which
deployment.json holds unchanged), and a class of the runtime whose call the dataclass prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...dsl.includes import c_includes
from ...model import deployment
from ...model.application import FilePath, Network, Parameter, Task, Value
from ...model.deployment import DataFile, Deployment, Plain
from ...model.mapping import Placement
from ...model.platform import Platform
from ..names import literal
from ..sources import Plan, Sources

if TYPE_CHECKING:
    from jinja2 import Environment

#: The local modules of a Python file.
Helpers = Callable[[Path], tuple[Path, ...]]
#: The identifier in main.py of a task's name.
Identifiers = Mapping[str, str]


class BuildCode(deployment.Code, Protocol):
    """The code of a task, as data, with its requirements."""

    @property
    def words(self) -> frozenset[str]:
        """The names that main.py imports from the runtime for it."""

    @property
    def on_device(self) -> bool:
        """Does it need CUDA?"""

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """Packages that it needs, beside numpy and CUDA's bindings."""

    def text(self, ids: Identifiers) -> str:
        """The expression in main.py."""


@dataclass(frozen=True, slots=True)
class CodeSite:
    """The target of code: the platform, the placement of the task, and the files of the build.

    `alone`: no other task needs the cores of the network's threads; `batch` is the number of its
    firings that the order groups. `c_tasks` collects the tasks of each C source. `arena` are
    TensorRT's measured bytes between the layers of the task's network.
    """

    platform: Platform
    place: Placement
    sources: Sources
    helpers: Helpers
    c_tasks: dict[str, list[Task]]
    alone: bool
    batch: int
    arena: int | None = None

    @property
    def on_cpu(self) -> bool:
        """Is the task on a CPU?"""
        return self.platform.pool_of(self.place.processors[0]).kind == "cpu"

    def network(self, network: Network) -> str:
        """The file of a network in the build; its external weights are beside it."""
        file = self.sources.place("networks", network.path, network.model or None)
        for name in network.external:
            self.sources.place("networks", Path(network.path).parent / name)
        return file


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of code: the first one that `serves` a task at its site makes its code.

    `words` are the names that main.py may import from the runtime for it, which no other name may
    equal. `scripts` are further files of a build with such code.
    """

    name: str
    words: frozenset[str]
    serves: Callable[[Task, CodeSite], bool]
    make: Callable[[Task, CodeSite], BuildCode]
    scripts: Callable[[Environment, Deployment], Plan] | None = None


def tensors(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and outputs."""
    return tuple(t.name for t in network.inputs), tuple(t.name for t in network.outputs)


def names(given: Iterable[str]) -> str:
    """A list of names in main.py."""
    return "[" + ", ".join(literal(n) for n in given) + "]"


def several(count: int) -> int:
    """The value of an option that one is the default of: 0 leaves it out."""
    return count if count > 1 else 0


def number(value: Value) -> Plain:
    """A parameter of a kernel in JSON."""
    from fractions import Fraction

    return float(value) if isinstance(value, Fraction) else value


def plain(value: Parameter, sources: Sources) -> Plain | DataFile:
    """A parameter in JSON; the file behind one goes with the build."""
    if isinstance(value, FilePath):
        return DataFile(sources.place("data", value.path))
    return number(value)


def value_text(value: object) -> str:
    """A parameter in main.py."""
    if isinstance(value, DataFile):
        return f"p.file({literal(value.file)})"
    return literal(value)


def headers(path: str, sources: Sources) -> None:
    """The local files that a source of CUDA includes."""
    for header in c_includes(Path(path)):
        sources.place("tasks", header)
