"""An application after flattening: tasks, channels and their requirements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from .span import Span
from .types import TensorType

#: Firings of a network that are grouped into one inference.
MOST_BATCH = 1 << 16
#: The count of an open end that takes requests in batches, which no text can write.
REQUESTS = "requests of a batch"

Value = bool | int | Fraction | str


@dataclass(frozen=True, slots=True)
class FilePath:
    """The value of a parameter of type `file`: an existing file, as the user wrote it and where it
    is. `span` is the place in the text.
    """

    text: str
    path: str
    span: Span | None = field(default=None, compare=False, repr=False)


Parameter = Value | FilePath
#: Reaction to a firing that raises: stop the program, skip its frame, or restart the task with the
#: next frame.
OnError = Literal["stop", "skip", "restart"]


@dataclass(frozen=True, slots=True)
class Restart:
    """How often a task that begins anew after an error is opened at most, until that works, and the
    time from one try to the next."""

    tries: int = 20
    pause_ns: Fraction = Fraction(500_000_000)


@dataclass(frozen=True, slots=True)
class Port:
    """`rates` holds tokens per firing, one entry per phase; a constant rate has one entry.

    `stacked`: a firing sees a leading axis of tokens (rate list, a rate above 1, or a window).
    `type` is None in abstract graphs. `window` is the number of tokens that every firing sees if
    that is more than it consumes: older ones first, then the new ones; 0 = only the consumed ones.

    `count` is set for a rate `up to N`, with `rates` (N,): a firing writes or reads as many tokens
    as there are. Ports of a task with the same name for their count always have as many.
    """

    name: str
    direction: Literal["in", "out"]
    type: TensorType | None
    rates: tuple[int, ...]
    stacked: bool
    span: Span
    window: int = 0
    count: str = ""

    @property
    def varies(self) -> bool:
        """True if its tokens have sizes of their own."""
        return self.type is not None and self.type.varies

    @property
    def kept(self) -> int:
        """Tokens that the reader keeps after consuming them, because a later firing sees them
        again.
        """
        return max(0, self.window - min(self.rates))

    def rate(self, firing: int) -> int:
        """Tokens of the given firing (counted from 0)."""
        return self.rates[firing % len(self.rates)]


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its arguments: the name of a port, scratch memory or state, or (dtype, value).

    `grid` is in blocks, `block` in threads, `shared` in bytes.
    """

    kernel: str
    arguments: tuple[str | tuple[str, Value], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@dataclass(frozen=True, slots=True)
class Implementation:
    """Code for one kind of processor. `passes` names the parameters it accepts, None = all.

    `launches` are the kernels of a firing, in order, where the language is CUDA.
    """

    kind: str
    language: str
    file: str
    path: str
    symbol: str
    span: Span
    is_class: bool = False
    passes: tuple[str, ...] | None = None
    launches: tuple[Launch, ...] = ()


@dataclass(frozen=True, slots=True)
class StateField:
    """A state variable of a task: each instance has its own, zero at the start."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor at the border of a network, with its ONNX name."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Part:
    """The model of a stage: ONNX with the tensors it reads and makes."""

    model: bytes = field(repr=False)
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """Cuts of a network after `layers`, selectable at run time, with the model of each stage;
    `work` of the stages is a ratio."""

    layers: tuple[str, ...]
    parts: tuple[Part, ...]
    work: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Moving:
    """A network in stages whose cuts may move among `variants`; they start with number `start`.

    This is one `stage`, counted from 0; `network` is the name of the whole. Between two stages one
    token stands for all tensors that cross. `others` is the load per frame of other tasks on the
    processors of each stage, in the unit of `work`; stages with equal `places` share a processor.
    """

    network: str
    stage: int
    variants: tuple[Variant, ...]
    start: int
    others: tuple[float, ...]
    places: tuple[int, ...]

    def crosses(self, port: Port) -> bool:
        """Does a port of this stage belong to a cut, not to the network?"""
        if port.direction == "in":
            return self.stage > 0
        return self.stage < len(self.others) - 1


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a network that runs by itself. Networks that share it have its `digest`.

    `reads` and `makes` are tensors of its `model`, each with the number of its value. Values are
    numbered: first the inputs of the network, then the results of segments. `weights` is in bytes.
    """

    model: bytes = field(repr=False)
    digest: str
    weights: int
    reads: tuple[tuple[str, int], ...]
    makes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OwnForm:
    """ONNX Runtime's own graph of the model with a `digest`, which takes the common weights with
    these `names` from their file. `weights` are the bytes that it keeps itself."""

    digest: str
    model: bytes = field(repr=False)
    names: tuple[str, ...]
    weights: int


@dataclass(frozen=True, slots=True)
class CommonWeights:
    """Weights that several models of a program need, in one copy, which is to lie in a `file`.

    `tensors` are names, types, shapes and first bytes in the `content`. All of it holds where ONNX
    Runtime has this version and such a `block`, which the model `probe` shows.
    """

    file: str
    content: bytes = field(repr=False)
    tensors: tuple[tuple[str, str, tuple[int, ...], int], ...]
    forms: tuple[OwnForm, ...]
    probe: bytes = field(repr=False)
    block: int
    onnxruntime: tuple[str, ...]

    @property
    def weights(self) -> int:
        """Bytes of the common weights."""
        return len(self.content)


@dataclass(frozen=True, slots=True)
class Segments:
    """A network in segments, in order; `outputs` are the numbers of its results, in port order.

    `common` are weights that some of them have in common with other places of the program.
    """

    segments: tuple[Segment, ...]
    outputs: tuple[int, ...]
    common: CommonWeights | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Network:
    """An imported ONNX model.

    `inputs` and `outputs` are the tensors of its ports, in port order, with the shapes of one
    firing. `batch` is the number of firings grouped into one inference (1 = none). `calibrate` is a
    pattern of files below the folder `path`, for `precision` int8. `content_hash` covers the file
    and its external data; `unread` are outputs without a port. `model` is the model itself if it
    has no file: a stage or an exit that was cut from `cut_from`. `moving` is set for a stage whose
    cut may move at run time, `segments` for a network that shares parts with others. `one_piece`
    says why it cannot be cut, converted, or run on anything but a CPU (empty: it can); `library` is
    the file with its own operators, if any. In fewer than 32 bits its results have to have a
    signal-to-noise ratio of `within_db`; with `any_precision` a mapping may choose the precision.
    `engine` is the inference engine that a search has chosen for it on CPUs, before its places
    (empty: none). A file in 8 or 16 bits was `converted_from` that of the text.

    `halved` tensors have 32 bits in the model of a stage,
    and 16 outside.
    """

    definition: str
    file: str
    path: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    batch: int
    precision: str
    calibrate: FilePath | None
    external: tuple[str, ...]
    content_hash: str
    opset: int
    model: bytes = field(default=b"", repr=False)
    moving: Moving | None = None
    cut_from: Network | None = field(default=None, repr=False)
    unread: tuple[str, ...] = ()
    segments: Segments | None = field(default=None, repr=False)
    one_piece: str = ""
    library: str = ""
    within_db: float | None = None
    any_precision: bool = False
    engine: str = ""
    converted_from: Network | None = field(default=None, repr=False)
    halved: tuple[str, ...] = ()

    @property
    def cuttable(self) -> bool:
        """Does it have layers that searches may cut, as far as its model goes?"""
        return not self.model and not self.one_piece

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs of one firing, by tensor."""
        return {t.name: t.type.shape for t in self.inputs}


@dataclass(frozen=True, slots=True)
class Link:
    """One end of a mailbox between two apps that keeps the newest tokens; both ends have its
    `name`.

    `keep` tokens are kept. `latest`: the reader gets the newest token, any number of times, zero
    before the first one; otherwise it takes each token once and waits for the next.
    """

    name: str
    keep: int
    latest: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Resampling:
    """What `repeat` or `last` on an arrow does to its tokens, in blocks of `block` tokens.

    `repeat`: each block is read `count` times in a row. `last`: the last of every `count` blocks is
    passed on.
    """

    word: Literal["repeat", "last"]
    count: int
    block: int

    def __str__(self) -> str:
        return f"{self.word} {self.count}" + (f" of {self.block}" if self.block > 1 else "")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Carries the tokens of a port to another machine; `processor` is that direction of their
    link.
    """

    processor: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Task:
    """One instance. `name` is `App.task`, in composites `App.graph.task`.

    `wcet_ns` has one entry per phase (or one for all); empty when unknown. `wcet_on` has the same
    for processors of one type or kind, in whose place `wcet_ns` is that of all others. `network` is
    set when the task is an inference. Tasks without implementation and ports without type are legal
    (abstract graphs). `scratch` is memory that the kernels of one firing share; `reference` is a
    CPU implementation of a task that runs elsewhere, equal up to `tolerance` (absolute, and
    relative for floating point). `fixed` are the parameters that types, rates or a `wcet` depend
    on: a program cannot change them.

    A `live` source waits for data from outside, and its data releases it; `keep` is the maximum
    number of its frames that wait for the rest of the app, then the oldest is dropped (None: the
    source waits). `every_ns` is the mean time between two of its firings. `link` is set for an end
    of a link to another app, `border` for an open end of its app, which the caller of the program
    writes or reads. An `in` with `within_ns` takes requests in batches, lists with the count
    REQUESTS: others that come within that time of the first. `resampling` is set for a `repeat` or
    `last` on an arrow: it takes no time, and `resampling.hosts` gives the task whose processor
    fires it. `transfer` is set for a transfer between two machines, on their link. `events` are
    those that its code may raise.
    """

    name: str
    definition: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[tuple[str, Parameter], ...]
    implementations: tuple[Implementation, ...]
    state: tuple[StateField, ...]
    stateless: bool
    wcet_ns: tuple[Fraction, ...]
    network: Network | None
    doc: str
    span: Span
    scratch: tuple[StateField, ...] = ()
    reference: Implementation | None = None
    tolerance: Fraction | None = None
    fixed: tuple[str, ...] = ()
    live: bool = False
    keep: int | None = None
    every_ns: Fraction | None = None
    on_error: OnError = "stop"
    restart: Restart = Restart()
    link: Link | None = None
    border: Literal["in", "out"] | None = None
    within_ns: Fraction | None = None
    resampling: Resampling | None = None
    events: tuple[str, ...] = ()
    transfer: Transfer | None = None
    wcet_on: tuple[tuple[str, tuple[Fraction, ...]], ...] = ()

    @property
    def phases(self) -> int:
        """Length of the cyclo-static cycle: 1 for plain SDF."""
        longest = max(1, len(self.wcet_ns), *(len(ns) for _, ns in self.wcet_on))
        for port in self.inputs + self.outputs:
            longest = max(longest, len(port.rates))
        return longest

    @property
    def built_in(self) -> bool:
        """True if flowc provides the task, so that it needs no code of the user."""
        ends = self.link is not None or self.border is not None
        return ends or self.resampling is not None or self.transfer is not None

    @property
    def open_ports(self) -> tuple[Port, ...]:
        """Ports whose tokens have a size that depends on data."""
        return tuple(p for p in (*self.inputs, *self.outputs) if p.type is not None and p.type.open)

    @property
    def list_ports(self) -> tuple[Port, ...]:
        """Ports with a rate `up to`."""
        return tuple(p for p in (*self.inputs, *self.outputs) if p.count)

    @property
    def sized_ports(self) -> tuple[Port, ...]:
        """Ports whose tokens have sizes of their own, within bounds."""
        return tuple(p for p in (*self.inputs, *self.outputs) if p.varies)

    @property
    def replicable(self) -> bool:
        """True if firings are independent of each other, so that several workers may share them."""
        if self.phases > 1 or not self.inputs or not self.outputs:
            return False
        if self.resampling is not None or self.transfer is not None:
            return False
        if self.network is not None:
            return True
        return self.stateless and not self.state

    def implementation_on(self, kind: str) -> Implementation | None:
        """The code that a processor of that kind runs: C is preferred to Python, as it is
        faster.
        """
        found = [i for i in self.implementations if i.kind == kind]
        return min(found, key=lambda i: ("c", "python", "cuda").index(i.language), default=None)

    def in_python_on(self, kind: str) -> bool:
        """Does a processor of that kind run it in Python, on a CPU also as its reference?"""
        code = self.implementation_on(kind) or (self.reference if kind == "cpu" else None)
        return self.network is None and code is not None and code.language == "python"

    def port(self, name: str) -> Port:
        """The port of that name. Raises KeyError."""
        for p in self.inputs + self.outputs:
            if p.name == name:
                return p
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Channel:
    """A FIFO from one output port to one input port.

    `delay` initial tokens; `values` gives their elements (one entry per token, or one for all), ()
    = zeros. `frees` is for analysis only: the tokens whose space each firing of the destination
    releases at its end, per phase, if that differs from what it consumes (a sliding window reads
    consumed rows again). () = what it consumes. The sums over a cycle of phases are equal, and
    space is never released before the token was consumed.
    """

    name: str
    source: str
    source_port: str
    destination: str
    destination_port: str
    delay: int
    values: tuple[Fraction, ...]
    span: Span
    frees: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PathDeadline:
    """From the release of the newest data of `source` that a firing of `sink` uses, to its end."""

    source: str
    sink: str
    deadline_ns: Fraction
    span: Span


#: What a deadline over several apps limits.
ChainKind = Literal["age", "reaction"]


@dataclass(frozen=True, slots=True)
class ChainDeadline:
    """From `source` to `sink`, over all mailboxes on the way.

    Of an *age*, from the release of the newest data of `source`, a task of another app, that a
    firing of `sink` uses, to its end. Of a *reaction*, from an event that `source` is just too late
    for, to the end of the first firing of `sink` that knows it.
    """

    kind: ChainKind
    source: str
    sink: str
    deadline_ns: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class Share:
    """What an app without a period gets of each CPU that it is on: this `part` of every
    `period_ns` (None: of a period that the other apps give)."""

    part: Fraction
    period_ns: Fraction | None
    span: Span


@dataclass(frozen=True, slots=True)
class Application:
    """`period_ns` is the period of one iteration, None = as fast as data allows.

    `deadline_ns` is the declared deadline; `paths` have deadlines of their own, and so have
    `chains` that end here. `parts` are where chains lead through the app: the task at which one
    enters, and the one with which it leaves. Larger `priority` = more urgent; None: neither the
    text nor a mapping gives one (`priorities`). `variants` are the instances of networks with
    variants, each with the selected one.
    """

    name: str
    tasks: tuple[Task, ...]
    channels: tuple[Channel, ...]
    period_ns: Fraction | None
    deadline_ns: Fraction | None
    priority: int | None
    doc: str
    span: Span
    paths: tuple[PathDeadline, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()
    chains: tuple[ChainDeadline, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    share: Share | None = None

    @property
    def windows(self) -> dict[str, Port]:
        """The inputs with a window, by the name of their channel."""
        ports = {(t.name, p.name): p for t in self.tasks for p in t.inputs if p.window}
        ends = {c.name: (c.destination, c.destination_port) for c in self.channels}
        return {name: ports[end] for name, end in ends.items() if end in ports}

    @property
    def deadlines(self) -> tuple[tuple[str, PathDeadline | ChainDeadline], ...]:
        """Those of paths within the app, and of ages and reactions that end here, by their
        kinds."""
        paths = [("path", path) for path in self.paths]
        return (*paths, *((chain.kind, chain) for chain in self.chains))

    @property
    def due_ns(self) -> Fraction | None:
        """When an iteration has to end, from its release; None = no limit.

        Without a deadline that is the end of its period, unless paths have deadlines.
        """
        return self.deadline_ns or (None if self.paths else self.period_ns)

    @property
    def shortest_deadline_ns(self) -> Fraction | None:
        """The shortest deadline of the app, of a path, or of an age or reaction that ends here;
        without any, its period."""
        dues = [deadline.deadline_ns for _, deadline in self.deadlines]
        if self.deadline_ns is not None:
            dues.append(self.deadline_ns)
        return min(dues, default=self.period_ns)

    def task(self, name: str) -> Task:
        """The task of that full name. Raises KeyError."""
        for t in self.tasks:
            if t.name == name:
                return t
        raise KeyError(name)


def all_tasks(apps: Iterable[Application]) -> Iterator[Task]:
    """The tasks of several apps."""
    for app in apps:
        yield from app.tasks


def reached(task: str, channels: Iterable[Channel]) -> set[str]:
    """All tasks that its tokens can reach."""
    following: dict[str, set[str]] = defaultdict(set)
    for channel in channels:
        following[channel.source].add(channel.destination)
    behind: set[str] = set()
    waiting = [task]
    while waiting:
        for name in following[waiting.pop()] - behind:
            behind.add(name)
            waiting.append(name)
    return behind
