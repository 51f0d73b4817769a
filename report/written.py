"""The report of a program on another machine, as the program writes it: every field is checked.

In: the bytes of `report.json` of a program without states. Out: data of known types, or a
ValueError with the fault and its place. `measured.py` reads reports that users name, and ignores
unused fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ..model.json_reader import Between, of_version, parse_object, read
from ..runtime.report import VERSION

#: A count, or a number of bytes.
_Count = Annotated[int, Between(0, 1 << 62)]
#: A time in ms, us or s, and a share.
_Time = Annotated[float, Between(0, 1 << 62)]
#: The same of what is counted while the program runs; None: its process has crashed.
_Counted = _Count | None
_Timed = _Time | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Quantiles of a latency."""

    mean: _Time | None
    p50: _Time | None
    p99: _Time | None
    max: _Time | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: edges, and one count less."""

    ns: tuple[_Count, ...]
    counts: tuple[_Count, ...]


@dataclass(frozen=True, slots=True)
class WrittenPath:
    """A path from a source to a task, an age or a reaction."""

    kind: Literal["path", "age", "reaction"]
    source: str
    task: str
    firings: _Counted
    deadline_ms: _Time | None
    deadline_misses: _Counted
    latency_ms: Figures
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class WrittenApp:
    """An app and its frames."""

    frames: _Counted
    skipped: _Counted
    seconds: _Timed
    fps: _Time | None
    deadline_ms: _Time | None
    deadline_misses: _Counted
    overruns: _Counted
    not_begun: _Counted
    latency_ms: Figures
    histogram: Histogram
    paths: tuple[WrittenPath, ...]


@dataclass(frozen=True, slots=True)
class WrittenLists:
    """The lists of a port `up to`: how many there were, and the tokens in them."""

    written: _Counted
    mean: _Time | None
    most: _Counted
    limit: _Count


@dataclass(frozen=True, slots=True)
class WrittenWait:
    """The longest time in which a live source waited for data behind its first ones, and its
    period."""

    max_us: _Time | None
    period_us: _Time | None


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A task and its firings."""

    processor: str
    firings: _Counted
    mean_us: _Time | None
    std_us: _Time | None
    max_us: _Timed
    share: _Timed
    failed: _Counted
    skipped: _Counted
    wcet_us: _Time | None = None
    engine: str | None = None
    lists: dict[str, WrittenLists] | None = None
    wait: WrittenWait | None = None


@dataclass(frozen=True, slots=True)
class WrittenProcessor:
    """A processor and its utilization."""

    utilization: _Time


@dataclass(frozen=True, slots=True)
class WrittenChannel:
    """A channel and its fill."""

    capacity: _Count
    most: _Count


@dataclass(frozen=True, slots=True)
class Dropped:
    """Tokens that were dropped."""

    written: _Counted
    dropped: _Counted


@dataclass(frozen=True, slots=True)
class WrittenMemory:
    """Memory in bytes."""

    planned: dict[str, _Count] | None
    process: _Count | None
    resident: _Count | None
    proportional: _Count | None
    before_networks: _Count | None
    arenas: dict[str, _Count] | None
    bands: dict[str, str]
    shared: dict[str, _Count | None] | None = None


@dataclass(frozen=True, slots=True)
class WrittenFailure:
    """The reason for the end."""

    app: str | None
    task: str | None
    firing: _Count | None
    reason: str


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of another part."""

    offset_ns: int
    round_trip_ns: _Count


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The view of a part on the others."""

    name: str
    passed: tuple[str, ...]
    clocks: dict[str, Clock]
    refused: _Count


@dataclass(frozen=True, slots=True)
class WrittenWhere:
    """Where and when it ran."""

    machine: str
    processor: str
    kernel: str
    python: str
    flowc: str | None
    started: str


@dataclass(frozen=True, slots=True)
class WrittenShare:
    """The share of a processor that an app has, and has used; `above`: by a priority."""

    part: _Time
    used: _Time
    above: bool


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The whole report."""

    status: Annotated[int, Between(-255, 255)]
    failure: WrittenFailure | None
    build: str | None
    where: WrittenWhere
    apps: dict[str, WrittenApp]
    processors: dict[str, WrittenProcessor]
    tasks: dict[str, WrittenTask]
    channels: dict[str, WrittenChannel]
    memory: WrittenMemory
    dropped: dict[str, Dropped]
    part: WrittenPart | None = None
    background: tuple[str, ...] = ()
    shares: dict[str, dict[str, WrittenShare]] = field(default_factory=dict)
    twin: bool = False


def written(content: bytes) -> tuple[WrittenReport, dict[str, Any]]:
    """The report, and the document that it was read from. Raises ValueError."""
    document = parse_object(content)
    return read(WrittenReport, of_version(document, "report of a run", VERSION)), document
