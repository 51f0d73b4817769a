"""Where everything runs: what the user pinned, and what a search decided (`STEM.PLATFORM.mapping.json`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Annotated

from .json_reader import Between, parse_version, read
from .span import Span

MAPPING_VERSION = 1
#: What a pin or a mapping may ask for: more is a slip of the pen, and would be made one by one.
MOST_STREAMS, MOST_THREADS, MOST_BUFFERS = 256, 1024, 10_000
_Processors = Annotated[tuple[str, ...], Between(1, MOST_THREADS)]
_Streams = Annotated[int, Between(1, MOST_STREAMS)]
_Threads = Annotated[int, Between(1, MOST_THREADS)]
_Buffers = Annotated[int, Between(1, MOST_BUFFERS)]
#: A time in ns, 31 years at most.
_Ns = Annotated[float, Between(0, 10**18)]
_WholeNs = Annotated[int, Between(0, 10**18)]


@dataclass(frozen=True, slots=True)
class PinStage:
    """One stage of a pin: `processors` share its firings; `until` names its last layer (None = to the end).

    `streams` firings at once on each processor, `threads` of the inference library for each (the first runs on the
    processor itself); `process`: Python code runs in a process of its own; `graph`: kernels are recorded once and
    started together; `fallback`: what a DLA cannot run of it, its GPU runs.
    """

    processors: tuple[str, ...]
    until: str | None
    streams: int
    span: Span
    threads: int = 1
    process: bool = False
    graph: bool = False
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Pin:
    """The user's wish for one task on one platform. `wcet_ns` replaces measuring.

    For a network: `buffers` between its stages in frames, `pre` and `post` threads of the tasks around it, and whether
    its cut may `adapt` to the load at run time.
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
    """`processors[i % n]` runs iteration i of the task; more than one means that frames run in parallel.

    `streams`, `threads`, `process`, `graph` and `fallback` as in `PinStage`. `buffers` is the least capacity of the
    task's channels in iterations (None: what the order of firings needs).
    """

    task: str
    processors: _Processors
    streams: _Streams = 1
    threads: _Threads = 1
    process: bool = False
    buffers: _Buffers | None = None
    graph: bool = False
    fallback: bool = False

    @property
    def lanes(self) -> tuple[str, ...]:
        """Who takes the iterations in turn: each processor as often as it has streams (`volta`, `volta#2`, ...)."""
        more = (f"{p}#{s}" for s in range(2, self.streams + 1) for p in self.processors)
        return (*self.processors, *more)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage of a network, as in `PinStage`; `predicted_ns` is the time of one inference of it, 0 if unknown."""

    processors: _Processors
    until: str | None = None
    streams: _Streams = 1
    threads: _Threads = 1
    predicted_ns: _Ns = 0.0


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How a network runs: its stages from front to back, and the rest of what a pin can say."""

    task: str
    stages: Annotated[tuple[StagePlan, ...], Between(1, MOST_THREADS)]
    buffers: _Buffers | None = None
    pre: _Threads = 1
    post: _Threads = 1
    adapt: bool = False


def as_pin(plan: NetworkPlan, platform: str, span: Span) -> Pin:
    """A plan as if the user had written it."""
    stages = tuple(PinStage(s.processors, s.until, s.streams, span, s.threads) for s in plan.stages)
    return Pin(platform, plan.task, stages, None, plan.buffers, span, plan.pre, plan.post, plan.adapt)


def in_words(plan: NetworkPlan) -> str:
    """A plan as the text of a pin, without its task."""
    stages = []
    for s in plan.stages:
        words = [", ".join(s.processors)]
        words += [f"until {json.dumps(s.until, ensure_ascii=False)}"] if s.until is not None else []
        words += [f"streams {s.streams}"] if s.streams > 1 else []
        words += [f"threads {s.threads}"] if s.threads > 1 else []
        stages.append(" ".join(words))
    rest = [f"{word} {n}" for word, n in (("buffers", plan.buffers), ("pre", plan.pre), ("post", plan.post)) if n]
    rest = [word for word in rest if word not in ("pre 1", "post 1")]
    return " ".join([" | ".join(stages), *rest, *(["adapt"] if plan.adapt else [])])


@dataclass(frozen=True, slots=True)
class Contestant:
    """A configuration that a search looked at: the time between frames, predicted and (if it was run) measured."""

    name: str
    configuration: str
    predicted_ns: _Ns
    measured_ns: _Ns | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search did. `lower_bound_ns` is proved for the model's times; `optimal`: the answer reaches it."""

    objective: str = "throughput"
    seed: int = 0
    evaluations: int = 0
    measured_runs: int = 0
    seconds: float = 0.0
    lower_bound_ns: float | None = None
    optimal: bool = False


@dataclass(frozen=True, slots=True)
class PathBound:
    """The worst case of a path: a bound on its latency (None = none is known), and its deadline, if it has one.

    `met`: the deadline is proved. Where the program ran at its own pace, `seen_ns` is the longest latency of so many
    `firings` of the task at its end, of which so many were `missed`.
    """

    source: str
    task: str
    latency_ns: _WholeNs | None
    deadline_ns: _WholeNs | None
    met: bool
    seen_ns: _WholeNs | None = None
    firings: _WholeNs = 0
    missed: _WholeNs = 0


@dataclass(frozen=True, slots=True)
class GroupBound:
    """The worst case of an app under a mapping: a bound on its response time (None = none is known) and its deadline.

    Without a `deadline_ns` only those of `paths` count. `schedulable`: all of them are proved. `conditional`: that
    rests on times that were estimated. Where the program ran at its own pace, `seen_ns` is the longest response of its
    `frames`, of which so many were `missed`.
    """

    app: str
    response_ns: _WholeNs | None
    deadline_ns: _WholeNs | None
    schedulable: bool
    conditional: bool
    seen_ns: _WholeNs | None = None
    frames: _WholeNs = 0
    missed: _WholeNs = 0
    paths: tuple[PathBound, ...] = ()


@dataclass(frozen=True, slots=True)
class StateBound:
    """What holds in a state of a scenario: the worst cases of its apps, and the utilization of processors."""

    state: str
    groups: tuple[GroupBound, ...]
    utilization: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ChangeBound:
    """From one state of a scenario to another: how long it takes at most from the event until every app has ended a
    frame, beside what the controller itself takes (None = no bound is known)."""

    source: str
    target: str
    delay_ns: _WholeNs | None


@dataclass(frozen=True, slots=True)
class Mapping:
    """The answer of a search: one placement per task, and the period per app it predicts (ns, measured times).

    A network that is cut has a plan among `networks` and no placement; cutting it gives each stage one.
    `contestants` are sorted from best to worst. Where deadlines are to be met, `groups` has the bounds of apps,
    `utilization` the share of its time that each processor needs at worst, and `bound` what no mapping goes below; in a
    scenario `states` has the first two for each state, and `transitions` what a change takes.
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
    states: tuple[StateBound, ...] = ()
    transitions: tuple[ChangeBound, ...] = ()

    def of(self, task: str) -> tuple[str, ...]:
        """The processors of a task. Raises KeyError."""
        for p in self.placements:
            if p.task == task:
                return p.processors
        raise KeyError(task)

    def to_json(self, identity: dict[str, str]) -> str:
        """The file's text. `identity` says for what it was searched: a hash per task, and one over the pins."""
        document = {"version": MAPPING_VERSION, **asdict(self), "identity": identity}
        if not self.states:
            del document["states"], document["transitions"]
        document["predicted_period_ns"] = {app: round(ns) for app, ns in self.predicted_period_ns}
        return json.dumps(document, indent=1) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> tuple[Mapping, dict[str, str]]:
        """Inverse of `to_json`. Raises ValueError with the place and the reason when the text is something else."""
        document = parse_version(text, "mapping", MAPPING_VERSION)
        identity = read(_Identity, {"identity": document.pop("identity", {})})
        mapping = read(Mapping, document)
        for plans, where in ((mapping.placements, "placements"), (mapping.networks, "networks")):
            tasks = [p.task for p in plans]
            if len(set(tasks)) < len(tasks):
                twice = next(t for t in tasks if tasks.count(t) > 1)
                raise ValueError(f"{where} has `{twice}` twice")
        return mapping, identity.identity


@dataclass(frozen=True, slots=True)
class _Identity:
    """What the file says beside the mapping."""

    identity: dict[str, str]
