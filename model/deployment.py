"""Who runs where, in which order, over which channels: all that a program needs, as plain data (deployment.json)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from .application import OnError
from .scenario import ChangeProtocol

DEPLOYMENT_VERSION = 1

Plain = bool | int | float | str


@dataclass(frozen=True, slots=True)
class DataFile:
    """A parameter whose value is a file of the build (path relative to it)."""

    file: str


class Code(Protocol):
    """The code of a task: a frozen dataclass of its kind (`codegen.kinds`), whose fields stand in the file."""

    @property
    def kind(self) -> str:
        """What the file calls it."""

    @property
    def batch(self) -> int:
        """Firings that share an inference."""

    @property
    def moves(self) -> bool:
        """Does the program decide while it runs which part of a network this is?"""


@dataclass(frozen=True, slots=True)
class DeployedPort:
    """A port with its type; see `Port` of the application."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    rates: tuple[int, ...]
    stacked: bool
    window: int = 0


@dataclass(frozen=True, slots=True)
class DeployedTask:
    """`firings` per iteration. `fixed` are the parameters that cannot have other values when the program starts.

    The rest is as in the text: see `model.application.Task`.
    """

    name: str
    doc: str
    code: Code
    inputs: tuple[DeployedPort, ...]
    outputs: tuple[DeployedPort, ...]
    firings: int
    fixed: tuple[str, ...] = ()
    live: bool = False
    keep: int | None = None
    on_error: OnError = "stop"


@dataclass(frozen=True, slots=True)
class DeployedPath:
    """From a source to a task; `newest`: the source's newest firing behind each firing of the task in an iteration."""

    source: str
    sink: str
    newest: tuple[int, ...]
    deadline_ns: str | None


@dataclass(frozen=True, slots=True)
class DeployedChannel:
    """`capacity` in tokens."""

    name: str
    source: str
    source_port: str
    destination: str
    destination_port: str
    capacity: int
    delay: int
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class DeployedApp:
    """Times are exact fractions of ns as text, None = as fast as data allows."""

    name: str
    doc: str
    period_ns: str | None
    deadline_ns: str | None
    priority: int
    tasks: tuple[DeployedTask, ...]
    channels: tuple[DeployedChannel, ...]
    paths: tuple[DeployedPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A step of a static order; see `Fire` of the runtime."""

    task: str
    times: int
    first: int
    stage: int
    replica: tuple[int, int]
    round: tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeployedWorker:
    """One thread of a processor. `fixed_priority` is (core, priority) under that scheduler."""

    processor: str
    scheduler: str
    order: tuple[Entry, ...]
    fixed_priority: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class DeployedClock:
    """The rate of a pool of some kind, and the highest one that it has, in Hz."""

    pool: str
    kind: str
    hz: int
    highest_hz: int


@dataclass(frozen=True, slots=True)
class DeployedState:
    """A state of a scenario: what `Deployment` says of a program without states.

    `choices` are networks with the variants that it has of them. `like` is another state from which it differs in these
    alone: one set of channels and workers serves both.
    `clocks` are the clock rates that a stored mapping has chosen, and `energy_mw` the mean power by the model, where it
    is known.
    """

    name: str
    apps: tuple[DeployedApp, ...]
    processors: tuple[DeployedWorker, ...]
    choices: tuple[tuple[str, str], ...] = ()
    like: str | None = None
    clocks: tuple[DeployedClock, ...] = ()
    energy_mw: float | None = None
    #: Of a state with several paces: its name in the text, and the frames per second of the app with most.
    level_of: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class DeployedTransition:
    """On `events`, or after so many ns in a state (an exact fraction as text); `bound_ns` is what it takes at most.

    `protocol` is how the change is made.
    """

    source: str
    target: str
    events: tuple[str, ...]
    after_ns: str | None
    bound_ns: int | None
    protocol: ChangeProtocol = "idle"


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Bytes of weights of variants that have some in common: of each network by itself, of what differs in content, and
    as the program has them."""

    separate: int
    distinct: int
    built: int


@dataclass(frozen=True, slots=True)
class DeployedScenario:
    """States, the first of them, the events that there are, and what leads where.

    `weights` are there where variants share some.
    """

    initial: str
    events: tuple[str, ...]
    states: tuple[DeployedState, ...]
    transitions: tuple[DeployedTransition, ...]
    weights: SharedWeights | None = None


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """Bytes for networks: their weights, the buffers between layers, and the tokens of all channels.

    Networks of one worker share buffers, since they take turns; workers add. `arenas` are the same on GPUs and DLAs,
    for networks that TensorRT runs. `sessions` is what ONNX Runtime keeps for those of networks in bands, beside one
    for each network.
    """

    weights: int
    buffers: int
    tokens: int
    arenas: int = 0
    sessions: int = 0

    @property
    def total(self) -> int:
        """All together; Python and the libraries are not in it."""
        return sum(self.figures.values())

    @property
    def figures(self) -> dict[str, int]:
        """By name, as files and reports have them: arenas and sessions only where there are any."""
        found = {"weights": self.weights, "buffers": self.buffers, "tokens": self.tokens}
        return found | {n: size for n, size in (("arenas", self.arenas), ("sessions", self.sessions)) if size}


@dataclass(frozen=True, slots=True)
class DeployedCrossing:
    """A channel between two parts of a program, as one of them sees it; `number` is the same at both ends.

    `task` and `port` are its end here, `other` the task at the other end, in the part `peer`. `outgoing`: it is written
    here. Initial tokens lie with the reader.
    """

    number: int
    outgoing: bool
    peer: str
    task: str
    port: str
    other: str
    channel: DeployedChannel


@dataclass(frozen=True, slots=True)
class DeployedPart:
    """What one machine of several has of a program: `whole` is the digest of all of it, `peers` are the other parts.

    `led` are its apps whose sources are all elsewhere, `passed` those whose frames end elsewhere only. Where not every
    part has channels to every other one, all are joined with the `hub`, and else only where there are channels.
    """

    machine: str
    peers: tuple[str, ...]
    whole: str
    led: tuple[str, ...]
    passed: tuple[str, ...]
    crossings: tuple[DeployedCrossing, ...]
    hub: str | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """`name` is the text's stem. `tensorrt` is the version of the platform, () = none.

    `planned` is None where there is no network, or where nobody knows what one takes. With a `scenario`, apps and
    processors are those of its states. With a `part` it is what one machine of several has.
    """

    name: str
    source: str
    platform: str
    search: str
    apps: tuple[DeployedApp, ...]
    processors: tuple[DeployedWorker, ...]
    tensorrt: tuple[int, ...] = ()
    planned: PlannedMemory | None = None
    scenario: DeployedScenario | None = None
    part: DeployedPart | None = None

    @property
    def every_app(self) -> tuple[DeployedApp, ...]:
        """The apps, in each of the states that they run in."""
        return self.apps if self.scenario is None else tuple(a for s in self.scenario.states for a in s.apps)

    @property
    def every_worker(self) -> tuple[DeployedWorker, ...]:
        """The workers, those of all states."""
        return (
            self.processors if self.scenario is None else tuple(w for s in self.scenario.states for w in s.processors)
        )

    @property
    def tasks(self) -> tuple[DeployedTask, ...]:
        """All of them, each once."""
        return tuple({t.name: t for a in self.every_app for t in a.tasks}.values())

    def to_json(self) -> str:
        """The text of deployment.json; deterministic for equal contents."""
        document: dict[str, Any] = {"version": DEPLOYMENT_VERSION, **asdict(self)}
        if self.scenario is None:
            del document["scenario"]
        elif self.scenario.weights is None:
            del document["scenario"]["weights"]
        if self.part is None:
            del document["part"]
        if self.planned is not None:
            document["planned"] = self.planned.figures
        return json.dumps(document, indent=1) + "\n"
