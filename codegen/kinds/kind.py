"""A kind of code: how a task becomes code of it, its expression in main.py, and its requirements.

A kind is a module beside this one with a `Kind`, a frozen dataclass for the code of one task (which
deployment.json holds unchanged), and a class of the runtime whose call the dataclass prints. All
that the other modules of `codegen` ask of code are members of `BuildCode`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...dsl.includes import c_includes
from ...model.application import FilePath, Network, Parameter, Task, Value
from ...model.deployment import DataFile, DeployedPort, DeployedTask, Deployment, Plain
from ...model.mapping import Placement
from ...model.platform import Kind as ProcessorKind
from ...model.platform import Platform
from ...networks.engines import ENGINES
from ..libraries import Library
from ..names import literal
from ..sources import CTask, Plan, Sources

if TYPE_CHECKING:
    from jinja2 import Environment

#: The local modules of a Python file.
Helpers = Callable[[Path], tuple[Path, ...]]
#: The identifier in main.py of a task's name.
Identifiers = Mapping[str, str]
CPU: frozenset[ProcessorKind] = frozenset({"cpu"})
#: Why a program cannot choose code in each frame: see `BuildCode.not_choosable`.
ON_DEVICE = "runs on a GPU or DLA"
ON_NPU = "runs on an NPU"
BATCHED = "collects firings until it has a batch"


@dataclass(frozen=True, slots=True)
class CpuMemory:
    """Bytes of a network on CPUs. `weights` are those of each file, `block` those between layers in
    one firing of a worker (None: unknown).

    A network in bands has an `arena`, which all of them on a worker share; its firings keep `kept`,
    and `sessions` are what ONNX Runtime keeps for each plan.
    """

    weights: tuple[tuple[str, int | None], ...]
    block: int | None
    arena: int | None = None
    kept: int = 0
    sessions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of a network in the memory of a device (None: unknown): the weights on each of
    `processors`, and an arena, which the networks of a worker share."""

    weights: int | None
    arena: int | None
    processors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A network, or a part of one, that is built for a device: its code, and its ports."""

    code: BuildCode
    inputs: tuple[DeployedPort, ...]
    outputs: tuple[DeployedPort, ...]


@dataclass(frozen=True, slots=True)
class BuildCode(abc.ABC):
    """The code of a task, as data, with its requirements.

    A field without a default that overrides a property needs `= field()`: dataclasses would take
    the property for its default.
    """

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """Its name in deployment.json."""

    @property
    def batch(self) -> int:
        """Firings that share an inference."""
        return 1

    @property
    def moves(self) -> bool:
        """Does the program select at run time which part of a network this is?"""
        return False

    @property
    @abc.abstractmethod
    def words(self) -> frozenset[str]:
        """The names that main.py imports from the runtime for it."""

    @abc.abstractmethod
    def text(self, ids: Identifiers) -> str:
        """The expression in main.py."""

    @property
    def on_device(self) -> bool:
        """Does it run on a device, which CPUs replace with `--twin`?"""
        return False

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """Packages that it needs, beside numpy."""
        return ()

    @property
    def memory(self) -> CpuMemory | DeviceMemory | None:
        """Bytes of its network; None if no account of it is kept."""
        return None

    @property
    def not_choosable(self) -> str | None:
        """Why a program cannot choose in each frame whether to fire this code; None if it can."""
        return "has code that a program cannot choose in each frame"

    @property
    def called_in_c(self) -> bool:
        """Is it one C function, which needs nothing of Python between its firings?"""
        return False

    @property
    def passes_on(self) -> tuple[int, int | None] | None:
        """How often each token goes on, or how many of the last ones; None: it makes new ones."""
        return None

    def engines(self, task: DeployedTask) -> Sequence[BuiltEngine]:
        """What is built for devices, for the task whose code this is."""
        return ()

    def requests(self, task: DeployedTask) -> int:
        """How many requests it takes in a batch at most; 0: it takes none."""
        return 0

    @property
    def abortable(self) -> bool:
        """Can the program abort a firing, so that it leaves nothing behind?"""
        return False


def code_of(task: DeployedTask) -> BuildCode:
    """The code of a task that flowc has deployed."""
    return cast(BuildCode, task.code)


@dataclass(frozen=True, slots=True)
class CodeSite:
    """The target of code: the platform, the placement of the task, and the files of the build.

    `alone`: no other task needs the cores of the network's threads; `batch` is the number of its
    firings that the order groups. `c_tasks` collects the tasks of each C source. `arena` are
    TensorRT's measured bytes between the layers of the task's network. In an app with `lists` some
    firings of a batch may have no tokens.
    """

    platform: Platform
    place: Placement
    sources: Sources
    helpers: Helpers
    c_tasks: dict[str, list[CTask]]
    alone: bool
    batch: int
    arena: int | None = None
    lists: bool = False

    @property
    def processor(self) -> ProcessorKind:
        """The kind of processor that the task is on."""
        return self.platform.pool_of(self.place.processors[0]).kind

    def network(self, network: Network) -> str:
        """The file of a network in the build; its external weights are beside it."""
        file = self.sources.place("networks", network.path, network.model or None)
        for name in network.external:
            self.sources.place("networks", Path(network.path).parent / name)
        return file


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of code, for tasks on some kinds of `processors`.

    `make` returns None for a task that it does not serve; the first other code counts. `words` are
    the names that main.py may import from the runtime for it, which no other name may equal.
    `scripts` are further files of a build with such code, and `steps` the lines of its README that
    say when to start them. `engines` are those of pins for which it makes code; that without a name
    is ONNX Runtime on CPUs, and what the platform has on others.
    """

    name: str
    words: frozenset[str]
    processors: frozenset[ProcessorKind]
    make: Callable[[Task, CodeSite], BuildCode | None]
    scripts: Callable[[Environment, Deployment], Plan] | None = None
    steps: tuple[str, ...] = ()
    engines: frozenset[str] = frozenset({"", ENGINES[0].name})


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
