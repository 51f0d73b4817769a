"""Placement, orders and channels of a program, as plain data (deployment.json)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal, Protocol

from .application import OnError
from .reservation import Reservation
from .scenario import ChangeProtocol
from .server import Server

DEPLOYMENT_VERSION = 1

Plain = bool | int | float | str


@dataclass(frozen=True, slots=True)
class DataFile:
    """A parameter whose value is a file of the build (path relative to it)."""

    file: str


class Code(Protocol):
    """The code of a task: a frozen dataclass of its kind (`codegen.kinds`), stored with its
    fields.
    """

    @property
    def kind(self) -> str:
        """Its name in the file."""

    @property
    def batch(self) -> int:
        """Firings that share an inference."""

    @property
    def moves(self) -> bool:
        """True if the program selects at run time which part of a network this is."""


@dataclass(frozen=True, slots=True)
class DeployedPort:
    """A port with its type; -1 in `shape` is a size that depends on data, and `bounded` are the
    axes along which tokens may be smaller.

    `rates` has one number for each phase. `stacked`: a firing sees a leading axis of tokens.
    `window` is the number of tokens that every firing sees (0: those that it takes), `count` the
    name of the count of a list.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    rates: tuple[int, ...]
    stacked: bool
    window: int = 0
    count: str = ""
    bounded: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DeployedTask:
    """A task as in the text, with its `firings` per iteration. `fixed` are the parameters that
    cannot be changed at start; a `live` source keeps at most `keep` tokens. `wcet_ns` is the
    worst case of a firing that the text declares, where firings are timed one by one. `restart`: a
    task that begins anew is opened so often at most, with so many ns between two tries.
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
    wcet_ns: int | None = None
    restart: tuple[int, int] | None = None


#: What is measured between two tasks: within an app, or over several ones.
PathKind = Literal["path", "part", "age", "reaction"]


@dataclass(frozen=True, slots=True)
class DeployedPath:
    """From a source to a task; `newest`: for each firing of the task in an iteration, the source's
    newest firing that it depends on.

    Parts of ages and reactions are not measured by themselves; these lead over all their parts, and
    have no `newest` of their own.
    """

    kind: PathKind
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

    @property
    def last_tasks(self) -> tuple[DeployedTask, ...]:
        """Those that end an iteration: no other task reads in it what they make there."""
        tasks = {task.name: task for task in self.tasks}
        inside = set()
        for c in self.channels:
            task = tasks[c.source]
            rates = next(p.rates for p in task.outputs if p.name == c.source_port)
            made = sum(rates) * task.firings // len(rates)
            if c.source != c.destination and c.delay < made:
                inside.add(c.source)
        return tuple(task for task in self.tasks if task.name not in inside)


@dataclass(frozen=True, slots=True)
class Entry:
    """A step of a static order: fires `task` `times` times, from firing `first` of an iteration on.

    `stage` is how many iterations it lags behind, `replica` (r, n) means: only iterations i with
    i % n == r; `round` (j, m): the j-th of m iterations that its app has in one round.
    """

    task: str
    times: int
    first: int
    stage: int
    replica: tuple[int, int]
    round: tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeployedWorker:
    """One thread of a processor. `fixed_priority` is (core, priority) under that scheduler.

    A thread in the `background` runs below all others, and has the priority 0 on its core. One of
    an app with a share is above all others, as long as the budget of its `server` lasts. A
    `reservation` is what one may ask for whose work the text bounds. An ordinary one is `bound` to
    a core where CPUs differ. On a GPU with priorities, `urgency` is that of its stream, 0 the
    lowest.
    """

    processor: str
    scheduler: str
    order: tuple[Entry, ...]
    fixed_priority: tuple[int, int] | None
    background: bool = False
    server: Server | None = None
    reservation: Reservation | None = None
    bound: int | None = None
    urgency: int | None = None

    @property
    def paced(self) -> bool:
        """Does it belong to apps with a period, or are there none?"""
        return not self.background and self.server is None


@dataclass(frozen=True, slots=True)
class DeployedClock:
    """The clock rate of a pool, and its highest one, in Hz."""

    pool: str
    kind: str
    hz: int
    highest_hz: int


@dataclass(frozen=True, slots=True)
class DeployedState:
    """A state of a scenario, with the same contents as a `Deployment` without states.

    `choices` are its networks with their variants. `like` is another state that differs in these
    alone: one set of channels and workers serves both. `clocks` are the clock rates of a stored
    mapping, and `energy_mw` the mean power by the model, if known.
    """

    name: str
    apps: tuple[DeployedApp, ...]
    processors: tuple[DeployedWorker, ...]
    choices: tuple[tuple[str, str], ...] = ()
    like: str | None = None
    clocks: tuple[DeployedClock, ...] = ()
    energy_mw: float | None = None
    #: For a state with several rates: its name in the text, and the highest frame rate of its apps.
    level_of: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class DeployedTransition:
    """On `events`, or after `after_ns` in a state (an exact fraction as text).

    `bound_ns` bounds its duration; `protocol` is how the change is made.
    """

    source: str
    target: str
    events: tuple[str, ...]
    after_ns: str | None
    bound_ns: int | None
    protocol: ChangeProtocol = "idle"


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Bytes of weights of variants that share some: of all networks, without duplicates, and as
    built into the program."""

    separate: int
    distinct: int
    built: int


@dataclass(frozen=True, slots=True)
class DeployedScenario:
    """States, the initial one, events and transitions.

    `weights` is set if variants share some.
    """

    initial: str
    events: tuple[str, ...]
    states: tuple[DeployedState, ...]
    transitions: tuple[DeployedTransition, ...]
    weights: SharedWeights | None = None


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """Bytes for networks: their weights, the buffers between layers, and the tokens of all
    channels.

    Networks of one worker take turns and share buffers; the buffers of workers add up. `arenas` are
    the buffers on GPUs and DLAs, for networks that TensorRT runs. `sessions` is what ONNX Runtime
    keeps for the sessions of networks in bands, beyond one for each network.
    """

    weights: int
    buffers: int
    tokens: int
    arenas: int = 0
    sessions: int = 0

    @property
    def total(self) -> int:
        """The sum, without Python and the libraries."""
        return sum(self.figures.values())

    @property
    def figures(self) -> dict[str, int]:
        """By name, as in files and reports: arenas and sessions only if they are not 0."""
        bytes_of = {"weights": self.weights, "buffers": self.buffers, "tokens": self.tokens}
        return bytes_of | {
            n: size for n, size in (("arenas", self.arenas), ("sessions", self.sessions)) if size
        }


@dataclass(frozen=True, slots=True)
class DeployedCrossing:
    """A channel between two parts of a program, as one of them sees it; `number` is the same at
    both ends.

    `task` and `port` are its end here, `other` the task at the other end, in the part `peer`.
    `outgoing`: it is written here. The reader holds the initial tokens.
    """

    number: int
    outgoing: bool
    peer: str
    task: str
    port: str
    other: str
    channel: DeployedChannel


@dataclass(frozen=True, slots=True)
class DeployedStamp:
    """What two parts of a program tell each other of the times of a task, as one of them sees it.

    `outgoing`: the task is here, and `peer` asks about it; otherwise it is there, and has so many
    `firings` per iteration. What is told: the `releases` of its firings; and of a reader of a
    mailbox, the marks of the tokens that it finds, for `ages` and `reactions` from those sources.
    """

    outgoing: bool
    peer: str
    task: str
    firings: int
    releases: bool
    ages: tuple[str, ...]
    reactions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeployedPart:
    """The part of a program on one machine: `whole` is the digest of the program, `peers` are the
    other parts.

    `led` are its apps whose sources are all elsewhere, `passed` those whose frames end only
    elsewhere. If some pair of parts has no channel between them, all parts connect to the `hub`;
    otherwise parts connect only where there are channels or `stamps`.
    """

    machine: str
    peers: tuple[str, ...]
    whole: str
    led: tuple[str, ...]
    passed: tuple[str, ...]
    crossings: tuple[DeployedCrossing, ...]
    hub: str | None = None
    stamps: tuple[DeployedStamp, ...] = ()


@dataclass(frozen=True, slots=True)
class Deployment:
    """`name` is the text's stem. `tensorrt` is the version of the platform, () = none.

    `planned` is None if there is no network, or if the memory of one is not known. With a
    `scenario`, apps and processors are those of its states. With a `part` it is the part of one
    machine.
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
        """The apps of all states, once per state."""
        if self.scenario is None:
            return self.apps
        return tuple(chain.from_iterable(state.apps for state in self.scenario.states))

    @property
    def every_worker(self) -> tuple[DeployedWorker, ...]:
        """The workers of all states."""
        if self.scenario is None:
            return self.processors
        return tuple(chain.from_iterable(state.processors for state in self.scenario.states))

    @property
    def tasks(self) -> tuple[DeployedTask, ...]:
        """All tasks, each once."""
        tasks = chain.from_iterable(app.tasks for app in self.every_app)
        return tuple({task.name: task for task in tasks}.values())

    def to_json(self) -> str:
        """The text of deployment.json; deterministic for equal contents."""
        document: dict[str, Any] = {"version": DEPLOYMENT_VERSION, **asdict(self)}
        if self.scenario is None:
            del document["scenario"]
        elif self.scenario.weights is None:
            del document["scenario"]["weights"]
        if self.part is None:
            del document["part"]
        states = (document.get("scenario") or {}).get("states", ())
        for app in chain.from_iterable(part["apps"] for part in (document, *states)):
            for task in app["tasks"]:
                if task["restart"] is None:
                    del task["restart"]
        for workers in (document, *(document.get("scenario") or {}).get("states", ())):
            for worker in workers["processors"]:
                for part in ("server", "reservation"):
                    if worker[part] is None:
                        del worker[part]
                    else:
                        worker[part]["period_ns"] = str(worker[part]["period_ns"])
        if self.planned is not None:
            document["planned"] = self.planned.figures
        return json.dumps(document, indent=1) + "\n"
