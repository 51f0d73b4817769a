"""Where tasks run: the user's pins, and the result of a search (`STEM.PLATFORM.mapping.json`)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

from .conditions import Condition, ConditionName, condition_words
from .deployment import PlannedMemory
from .json_reader import Between, of_version, parse, read
from .priorities import PriorityOrder
from .scenario import ChangeProtocol
from .scope import NOTHING_MOVED, Scope
from .span import Span

MAPPING_VERSION = 2
#: Points of a history that a file keeps.
MOST_POINTS = 500
#: Limits of pins and mappings: larger values are mistakes, and each item would be created.
MOST_STREAMS, MOST_THREADS, MOST_BUFFERS, MOST_ROWS = 256, 1024, 10_000, 100_000
#: The engine of networks on CPUs that no pin gives another one.
DEFAULT_ENGINE = "onnxruntime"
_Processors = Annotated[tuple[str, ...], Between(1, MOST_THREADS)]
_Streams = Annotated[int, Between(1, MOST_STREAMS)]
_Threads = Annotated[int, Between(1, MOST_THREADS)]
_Rows = Annotated[int, Between(1, MOST_ROWS)]
_Buffers = Annotated[int, Between(1, MOST_BUFFERS)]
#: A time in ns, 31 years at most.
_Ns = Annotated[float, Between(0, 10**18)]
_WholeNs = Annotated[int, Between(0, 10**18)]
_Real = Annotated[float, Between(0, 10**18)]
_Hz = Annotated[int, Between(1, 10**15)]


@dataclass(frozen=True, slots=True)
class Bands:
    """The first layers of a network, up to the tensor `until` (None: all), run in bands of `rows`
    of its rows.

    Units end with the tensors of `keep`. Between units, rows that are needed again are kept; inside
    a unit they are recomputed.
    """

    rows: _Rows
    until: str | None = None
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PinStage:
    """One stage of a pin: `processors` share its firings; `until` names its last layer (None = to
    the end).

    `streams` firings at once on each processor, `threads` of the inference library for each (the
    first runs on the processor itself); `process`: Python code runs in a process of its own;
    `graph`: kernels are recorded once and launched together; `fallback`: the GPU runs layers that
    the DLA cannot. `bands` follow each other from the front of a network; the layers behind them
    run whole. `memory` limits its weights and the buffers between its layers, in bytes. `engine` is
    the inference engine of a network on CPUs (empty: ONNX Runtime), `precision` the one that it
    computes in where the text leaves it open (empty: fp32).
    """

    processors: tuple[str, ...]
    until: str | None
    streams: int
    span: Span
    threads: int = 1
    process: bool = False
    graph: bool = False
    fallback: bool = False
    bands: tuple[Bands, ...] = ()
    memory: int | None = None
    engine: str = ""
    precision: str = ""


@dataclass(frozen=True, slots=True)
class Pin:
    """The user's placement of one task on one platform. `wcet_ns` replaces measuring.

    For a network: `buffers` between its stages in frames, `pre` and `post` threads of the tasks
    around it; with `adapt` its cut follows the load at run time.
    """

    platform: str
    task: str
    stages: tuple[PinStage, ...]
    wcet_ns: Fraction | None
    buffers: int | None
    span: Span
    pre: int = 1
    post: int = 1
    adapt: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """`processors[i % n]` runs iteration i of the task; more than one means that frames run in
    parallel.

    `streams`, `threads`, `process`, `graph`, `fallback`, `bands`, `engine` (empty: ONNX Runtime on
    CPUs) and `precision` (empty: that of the text) are those of pins. `buffers` is the least
    capacity of the task's channels in iterations (None: what the order of firings needs).
    """

    task: str
    processors: _Processors
    streams: _Streams = 1
    threads: _Threads = 1
    process: bool = False
    buffers: _Buffers | None = None
    graph: bool = False
    fallback: bool = False
    bands: tuple[Bands, ...] = ()
    engine: str = ""
    precision: str = ""

    @property
    def lanes(self) -> tuple[str, ...]:
        """The workers that take iterations in turn: one per stream (`volta`, `volta#2`, ...)."""
        more = (f"{p}#{s}" for s in range(2, self.streams + 1) for p in self.processors)
        return (*self.processors, *more)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage of a network, as in a pin: `until` names its last layer (None = to the end).
    `predicted_ns` is the time of one inference of it, 0 if unknown.
    """

    processors: _Processors
    until: str | None = None
    streams: _Streams = 1
    threads: _Threads = 1
    predicted_ns: _Ns = 0.0
    bands: tuple[Bands, ...] = ()
    engine: str = ""
    precision: str = ""


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How a network runs: its stages from front to back, and the other options of a pin."""

    task: str
    stages: Annotated[tuple[StagePlan, ...], Between(1, MOST_THREADS)]
    buffers: _Buffers | None = None
    pre: _Threads = 1
    post: _Threads = 1
    adapt: bool = False


@dataclass(frozen=True, slots=True)
class ClockPin:
    """The user's clock rate of a pool of a platform in a state of the scenario."""

    platform: str
    pool: str
    state: str
    hz: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """The engine of a network on CPUs, and the precision if that is not the text's."""

    engine: str
    precision: str


def on_engine(plan: NetworkPlan, other: OtherEngine | None, cpus: Container[str]) -> NetworkPlan:
    """The plan with an engine for its stages on CPUs (None: ONNX Runtime)."""
    stages = []
    for stage in plan.stages:
        own = other if all(p in cpus for p in stage.processors) else None
        own = own or OtherEngine("", "")
        stages.append(replace(stage, engine=own.engine, precision=own.precision))
    return replace(plan, stages=tuple(stages))


def placed_on_engine(
    place: Placement, other: OtherEngine | None, cpus: Container[str]
) -> Placement:
    """The same for a network that is not planned in stages; as it is pinned without an engine."""
    if other is None or not all(p in cpus for p in place.processors):
        return place
    return replace(place, engine=other.engine, precision=other.precision)


def as_pin(plan: NetworkPlan, platform: str, span: Span) -> Pin:
    """A plan as if the user had written it."""
    stages = tuple(
        PinStage(
            s.processors,
            s.until,
            s.streams,
            span,
            s.threads,
            bands=s.bands,
            engine=s.engine,
            precision=s.precision,
        )
        for s in plan.stages
    )
    return Pin(
        platform, plan.task, stages, None, plan.buffers, span, plan.pre, plan.post, plan.adapt
    )


def as_plan(pin: Pin) -> NetworkPlan:
    """Inverse of `as_pin`, except for times."""
    stages = tuple(
        StagePlan(
            s.processors,
            s.until,
            s.streams,
            s.threads,
            bands=s.bands,
            engine=s.engine,
            precision=s.precision,
        )
        for s in pin.stages
    )
    return NetworkPlan(pin.task, stages, pin.buffers, pin.pre, pin.post, pin.adapt)


def as_placement(pin: Pin) -> Placement:
    """The placement of a pin with one stage."""
    (s,) = pin.stages
    return Placement(
        pin.task,
        s.processors,
        s.streams,
        s.threads,
        s.process,
        pin.buffers,
        s.graph,
        s.fallback,
        s.bands,
        s.engine,
        s.precision,
    )


def bands_in_words(bands: Bands) -> str:
    """Bands as written in a pin."""
    words = [f"bands {bands.rows}"]
    if bands.until is not None:
        words.append(f"until {_quoted(bands.until)}")
    if bands.keep:
        words.append("keep " + ", ".join(map(_quoted, bands.keep)))
    return " ".join(words)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def in_words(plan: NetworkPlan) -> str:
    """A plan as written in a pin, without its task."""
    stages = []
    for stage in plan.stages:
        words = [", ".join(stage.processors)]
        if stage.until is not None:
            words.append(f"until {_quoted(stage.until)}")
        if stage.streams > 1:
            words.append(f"streams {stage.streams}")
        if stage.threads > 1:
            words.append(f"threads {stage.threads}")
        if stage.engine:
            words.append(f"engine {stage.engine}")
        if stage.precision:
            words.append(f"precision {stage.precision}")
        words += [bands_in_words(bands) for bands in stage.bands]
        stages.append(" ".join(words))
    words = [" | ".join(stages)]
    if plan.buffers:
        words.append(f"buffers {plan.buffers}")
    if plan.pre > 1:
        words.append(f"pre {plan.pre}")
    if plan.post > 1:
        words.append(f"post {plan.post}")
    if plan.adapt:
        words.append("adapt")
    return " ".join(words)


def _placement_in_words(placement: Placement) -> str:
    """A placement as written in a pin, without its task."""
    options = {
        f"streams {placement.streams}": placement.streams > 1,
        f"threads {placement.threads}": placement.threads > 1,
        f"engine {placement.engine}": bool(placement.engine),
        f"precision {placement.precision}": bool(placement.precision),
        "process": placement.process,
        "graph": placement.graph,
        "fallback gpu": placement.fallback,
        f"buffers {placement.buffers}": bool(placement.buffers),
    }
    processors = ", ".join(placement.processors)
    return " ".join([processors, *(words for words, written in options.items() if written)])


def as_text(platform: str, placements: Iterable[Placement], networks: Iterable[NetworkPlan]) -> str:
    """A mapping as `.flow` text, for copying into the user's text."""
    lines = [f"{plan.task} -> {in_words(plan)}" for plan in networks]
    lines += [f"{placement.task} -> {_placement_in_words(placement)}" for placement in placements]
    return "\n".join([f"mapping on {platform} {{", *(f"    {line}" for line in lines), "}"])


#: How the race of measured configurations ended; empty without one. `separated`: the answer was
#: faster than every other one in a paired test; `tie`: the simplest of those that were not
#: separated; `lower latency`: of these, the one with a lower latency than simpler ones; `out of
#: budget`: the best plain way, as nothing better was certain in time.
Decision = Literal["", "separated", "tie", "lower latency", "out of budget"]


#: Latencies up to this many times a lower one are equal to it.
SAME_LATENCY = 1.1


def is_lower(latency_ns: float | None, other_ns: float | None) -> bool:
    """Is a latency clearly lower than another one? Not known of an unknown one."""
    if latency_ns is None or other_ns is None:
        return False
    return latency_ns * SAME_LATENCY < other_ns


@dataclass(frozen=True, slots=True)
class Contestant:
    """A configuration that a search evaluated: the time between frames, predicted and measured.

    `measured_ns` is None if it was not run, `runs` counts how often it was. `pins` is the text that
    selects it. `latency_ns` is the median time from start to end of a frame as it was measured,
    `predicted_latency_ns` as it is predicted; None if unknown.
    """

    name: str
    configuration: str
    predicted_ns: _Ns
    measured_ns: _Ns | None = None
    pins: str = ""
    runs: _WholeNs = 0
    latency_ns: _Ns | None = None
    predicted_latency_ns: _Ns | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """Progress of a search after `seconds` and `evaluations`.

    `value` is the best so far (ns, nJ, or with deadlines the maximum utilization; None: nothing
    that meets all deadlines), `bound` a lower bound.
    """

    seconds: Annotated[float, Between(0, 10**9)]
    evaluations: _WholeNs
    value: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A Pareto-optimal assignment: the maximum utilization, and the largest share of its deadline
    that an app or path needs in the worst case.

    `pins` is the text that selects it. If energy was the objective:
    `watts` at its best clock rates, the number of `cpus`, and the `bytes` that networks take.
    """

    utilization: float
    tightest: float
    pins: str
    watts: _Real | None = None
    cpus: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search did. `lower_bound_ns` is proved for the model's times; `optimal`: no mapping
    in the `scope` is better.

    `history` is its progress, `front` its Pareto front with deadlines. `decision` is how measured
    configurations were told apart.
    """

    objective: str = "throughput"
    seed: int = 0
    evaluations: int = 0
    measured_runs: int = 0
    seconds: float = 0.0
    lower_bound_ns: float | None = None
    optimal: bool = False
    history: Annotated[tuple[Point, ...], Between(0, MOST_POINTS)] = ()
    front: Annotated[tuple[FrontPoint, ...], Between(0, MOST_POINTS)] = ()
    decision: Decision = ""
    scope: Scope = NOTHING_MOVED


@dataclass(frozen=True, slots=True)
class PathBound:
    """The worst case of a path, or of an age or a reaction over several apps: a bound on its
    latency (None = none is known), and its deadline, if it has one.

    `met`: the deadline is proved, under the conditions of its app and its own `conditions`. If the
    program ran at its own periods, `seen_ns` is the longest latency over `firings` of the task at
    its end; `missed` of them missed the deadline.
    """

    source: str
    task: str
    latency_ns: _WholeNs | None
    deadline_ns: _WholeNs | None
    met: bool
    seen_ns: _WholeNs | None = None
    firings: _WholeNs = 0
    missed: _WholeNs = 0
    kind: Literal["path", "age", "reaction"] = "path"
    conditions: tuple[Condition, ...] = ()

    @property
    def name(self) -> str:
        """Its ends, and what it is where that is no path of an app."""
        kind = "" if self.kind == "path" else f"{self.kind} "
        return f"{kind}{self.source} -> {self.task.partition('.')[2]}"


@dataclass(frozen=True, slots=True)
class GroupBound:
    """The worst case of an app under a mapping: a bound on its response time (None = none is known)
    and its deadline.

    Without a `deadline_ns` only those of `paths` count. `schedulable`: all of them are proved,
    under the `conditions`. If the program ran at its own periods, `seen_ns` is the longest response
    over its `frames`; `missed` of them missed the deadline, those included that could not begin in
    time.
    """

    app: str
    response_ns: _WholeNs | None
    deadline_ns: _WholeNs | None
    schedulable: bool
    seen_ns: _WholeNs | None = None
    frames: _WholeNs = 0
    missed: _WholeNs = 0
    paths: tuple[PathBound, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def rests_on(self, name: ConditionName) -> bool:
        """Is that one of its conditions?"""
        return any(condition.name == name for condition in self.conditions)

    @property
    def supposed(self) -> str:
        """What its bounds suppose, in words; empty if nothing."""
        return condition_words(self.conditions)


@dataclass(frozen=True, slots=True)
class TimeSlack:
    """How much longer the firings of a task may take, `of` an app those of all its tasks, or "all":
    up to `most_ns` instead of `now_ns`, `factor` times as long, all deadlines are kept by the same
    bounds (None: with no time that was tried). With more the apps in `late` are; none: with no time
    that was tried.
    """

    of: str
    now_ns: _WholeNs
    most_ns: _WholeNs | None
    factor: _Real | None
    late: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateBound:
    """Bounds in a state of a scenario: the worst cases of its apps, and the utilization of
    processors.

    `clocks_hz` are the clock rates of pools that both assume, () = no frequency plan was requested.
    `energy_mw` is the mean power in mW (the energy of a second in mJ) by the platform's model at
    these rates, `highest_mw` at the highest rates, `greedy_mw` at those of a greedy rule; None =
    not known, or no such rates meet all deadlines. `choices` are the variants of its networks if
    the best ones were requested, `placements` those of tasks and whole networks that differ from
    the other states, `priorities` the order of its apps.
    """

    state: str
    groups: tuple[GroupBound, ...]
    utilization: tuple[tuple[str, float], ...]
    clocks_hz: tuple[tuple[str, _Hz], ...] = ()
    energy_mw: _Real | None = None
    highest_mw: _Real | None = None
    greedy_mw: _Real | None = None
    choices: tuple[tuple[str, str], ...] = ()
    placements: tuple[Placement, ...] = ()
    priorities: PriorityOrder | None = None


@dataclass(frozen=True, slots=True)
class ChangeBound:
    """A change of state: a bound on the time from the event until every app has completed a frame
    (None = none is known), and its protocol. `control_ns` is the controller's measured share of it;
    None = not measured and not included."""

    source: str
    target: str
    delay_ns: _WholeNs | None
    control_ns: _WholeNs | None = None
    protocol: ChangeProtocol = "idle"


@dataclass(frozen=True, slots=True)
class Supposed:
    """Assumptions of a search that replace the text's: frames per second of every app ("25",
    "1/3"), and the maximum number of cores of a CPU pool. None: as in the text.
    """

    fps: str | None = None
    cores: int | None = None

    def __str__(self) -> str:
        words = []
        if self.fps is not None:
            words.append(f"{self.fps} frames/s")
        if self.cores is not None:
            cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
            words.append(f"{cores} of a pool")
        return " on ".join(words)


@dataclass(frozen=True, slots=True)
class Mapping:
    """The answer of a search: one placement per task, and the predicted period per app in ns.

    A network that is cut has a plan in `networks` and no placement; cutting it gives each stage
    one. `contestants` are sorted from best to worst. With deadlines, `groups` has the bounds of
    apps, `utilization` the worst-case utilization of each processor, and `bound` a lower bound over
    all mappings; in a scenario `states` has the first two for each state, and `transitions` the
    bounds of changes. `memory` is set if memory was an objective or limit, `supposed` if
    assumptions replace the text's, `priorities` if they decide between apps,
    `slack` if it was asked for.
    """

    platform: str
    placements: tuple[Placement, ...]
    predicted_period_ns: tuple[tuple[str, _Ns], ...] = ()
    search: str = "file"
    networks: tuple[NetworkPlan, ...] = ()
    contestants: tuple[Contestant, ...] = ()
    effort: Effort = Effort()
    why: tuple[str, ...] = ()
    groups: tuple[GroupBound, ...] = ()
    utilization: tuple[tuple[str, float], ...] = ()
    bound: float | None = None
    memory: PlannedMemory | None = None
    states: tuple[StateBound, ...] = ()
    transitions: tuple[ChangeBound, ...] = ()
    supposed: Supposed | None = None
    priorities: PriorityOrder | None = None
    slack: tuple[TimeSlack, ...] = ()

    def of(self, task: str) -> tuple[str, ...]:
        """The processors of a task. Raises KeyError."""
        for p in self.placements:
            if p.task == task:
                return p.processors
        raise KeyError(task)

    def to_json(self, identity: dict[str, str]) -> str:
        """The file's text. `identity` identifies the input: a hash per task, and one over the
        pins.
        """
        document = {"version": MAPPING_VERSION, **asdict(self), "identity": identity}
        if not self.states:
            del document["states"], document["transitions"]
        for state in document.get("states", ()):
            if not state["placements"]:
                del state["placements"]
            if state["priorities"] is None:
                del state["priorities"]
        for name in ("supposed", "priorities", "slack"):
            if not document[name]:
                del document[name]
        document["predicted_period_ns"] = {app: round(ns) for app, ns in self.predicted_period_ns}
        return json.dumps(document, indent=1) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> tuple[Mapping, dict[str, str]]:
        """Inverse of `to_json`. Raises ValueError with the place and the reason."""
        document = of_version(_current(parse(text)), "mapping", MAPPING_VERSION)
        identity = read(_Identity, {"identity": document.pop("identity", {})})
        mapping = read(Mapping, document)
        listed = {
            "placements": [p.task for p in mapping.placements],
            "networks": [n.task for n in mapping.networks],
        }
        listed |= {
            f"placements of `{s.state}`": [p.task for p in s.placements] for s in mapping.states
        }
        for where, tasks in listed.items():
            if len(set(tasks)) < len(tasks):
                twice = next(t for t in tasks if tasks.count(t) > 1)
                raise ValueError(f"{where} has `{twice}` twice")
        return mapping, identity.identity


def _current(document: Any) -> dict[str, Any]:
    """A document as this version has it. Verdicts of version 1 have flags instead of conditions,
    and not for all that they rest on. Raises ValueError."""
    if not isinstance(document, dict) or "version" not in document:
        raise ValueError(f"not a mapping of version {MAPPING_VERSION}")
    if document["version"] != 1 or isinstance(document["version"], bool):
        return document
    states = [state for state in _listed(document, "states") if isinstance(state, dict)]
    for bounds in (_listed(document, "groups"), *(_listed(state, "groups") for state in states)):
        for bound in bounds:
            if isinstance(bound, dict):
                bound["conditions"] = [{"name": "older"}]
                for flag in ("conditional", "niceness", "interpreter"):
                    bound.pop(flag, None)
                for path in _listed(bound, "paths"):
                    if isinstance(path, dict):
                        path.pop("unskipped", None)
    return {**document, "version": MAPPING_VERSION}


def _listed(document: dict[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class _Identity:
    """The rest of the file."""

    identity: dict[str, str]


def race_in_words(mapping: Mapping) -> str:
    """How the race at the end of a search has ended; empty where there was none."""
    if not mapping.contestants:
        return ""
    first, decision = mapping.contestants[0], mapping.effort.decision
    if decision == "separated":
        return f"separated: `{first.name}` is faster than the others of the race in paired runs"
    if decision == "tie":
        return f"tie: no other one is surely faster than `{first.name}`, which is simpler"
    if decision == "lower latency":
        lowest = f"whose latency is lower: {(first.latency_ns or 0) / 1e6:.4g} ms"
        return f"tie: no other one is surely faster than `{first.name}`, {lowest}"
    if decision == "out of budget":
        return f"out of budget: the race was not decided, `{first.name}` is the answer so far"
    return ""
