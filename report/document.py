"""The document behind a report: all results for an application, side by side.

`flowc report --json` prints it, and the page shows it; the page computes nothing that is not in it.
Times are whole ns, shares go from 0 to 1; None is unknown, and `missing` names the command that
would compute it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from ..model.mapping import TimeSlack
from .measured import ListSeen

VERSION = 1


@dataclass(frozen=True, slots=True)
class PortRow:
    """A port of a task: `way` is `in` or `out`, `rates` the label in pictures, `list` what a run
    saw of the lists that it wrote."""

    name: str
    way: str
    type: str
    rates: str
    list: ListSeen | None = None


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """A network: its layers with their mean times, and how many of them accelerators can run.

    `engine` runs it on a CPU (empty: it is elsewhere), `noise` says how near it is to 32 bits there
    (empty: it computes in these, or it was not compared yet).
    """

    file: str
    precision: str
    batch: int
    layers: tuple[tuple[str, int], ...]
    overhead_ns: int
    dla: str
    engine: str = ""
    noise: str = ""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task: its code, the prediction for a firing, and the measurements of a run.

    `kind` is `task`, `network`, `border`, `link`, or `resampling` for code on an arrow. `group` is
    the composite or network that it belongs to. `predicted_ns` is a mean, `worst_ns` the worst case
    in proofs, `times_from` the source of both. `error` is measured over predicted, less 1; `share`
    is the task's share of the running time.
    """

    name: str
    app: str
    kind: str
    group: str
    label: str
    definition: str
    doc: str
    place: str
    code: str
    firings: int
    processors: tuple[str, ...]
    ports: tuple[PortRow, ...]
    network: NetworkRow | None
    times_from: str
    predicted_ns: int | None
    worst_ns: int | None
    measured_ns: int | None = None
    measured_max_ns: int | None = None
    fired: int | None = None
    failed: int = 0
    share: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel: rates at its ends, and its sizes in tokens.

    `capacity` is that of the program, `least` the one without which the graph deadlocks,
    `for_period` the one that keeps the period, `most` the most tokens that it held in a run.
    """

    name: str
    app: str
    source: str
    source_port: str
    target: str
    target_port: str
    rates: tuple[str, str]
    delay: int
    type: str
    token_bytes: int | None
    capacity: int | None = None
    least: int | None = None
    for_period: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class PathRow:
    """A latency: of the frames of an app (`source` and `task` empty), from a source to another
    task, or over several apps: the age of data, or the reaction to an event (`kind` is `path`,
    `age` or `reaction`).

    `bound_ns` is proved for the mapped program, `least_ns` is
    the lower bound for all mappings. `above_bound` counts the measured ones above the bound, as
    exactly as the bins of the histogram permit. `supposed` is what the bound supposes, in words.
    """

    app: str
    kind: str
    source: str
    task: str
    deadline_ns: int | None
    bound_ns: int | None
    least_ns: int | None
    count: int | None = None
    mean_ns: int | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None
    deadline_misses: int | None = None
    above_bound: int | None = None
    edges_ns: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    supposed: str = ""


@dataclass(frozen=True, slots=True)
class ProcessorRow:
    """A processor, and its utilization: predicted by the mapping, and measured."""

    name: str
    kind: str
    predicted: float | None
    measured: float | None


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app: its verdicts, the limit of its period, the positions of its tasks in a picture, and
    its run.

    `schedulable_by` is what its verdict rests on where the text alone does not decide: `profile`
    (measured times) or `mapping` (its proved bounds, which suppose nothing).

    `columns`, from left to right, have names of tasks, and of places that arrows pass through:
    `routes` are these places of each channel. `back` are the channels that lead to the left.
    """

    name: str
    doc: str
    period_ns: int | None
    deadline_ns: int | None
    consistent: bool | None
    deadlock_free: bool | None
    schedulable: bool | None
    least_period_ns: int | None
    unit_times: bool
    critical_tasks: tuple[str, ...]
    critical_channels: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    routes: dict[str, tuple[str, ...]]
    back: tuple[str, ...]
    schedulable_by: str = ""
    frames: int | None = None
    skipped: int | None = None
    fps: float | None = None
    deadline_misses: int | None = None
    overruns: int | None = None


@dataclass(frozen=True, slots=True)
class ChartLane:
    """A row of a chart: firings one after the other, four numbers each: task (its index), firing,
    start, duration."""

    name: str
    bars: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A measured frame: from its release to the end of its last sink; `late_ns` behind its
    deadline, 0 in time."""

    app: str
    frame: int
    begin_ns: int
    end_ns: int
    late_ns: int = 0


@dataclass(frozen=True, slots=True)
class ChartRow:
    """Firings over time. `zero_ns` is the start of `frame`, the first frame with a full pipeline.

    `unit` means that no times are known and every firing takes 1. `releases` are times at which
    sources were due, `fills` the tokens of a channel over time, two numbers each. `said` describes
    what was left out.
    """

    app: str
    lanes: tuple[ChartLane, ...]
    releases: tuple[int, ...]
    zero_ns: int
    frame: int
    unit: bool = False
    frames: tuple[FrameRow, ...] = ()
    fills: dict[str, tuple[int, ...]] = field(default_factory=dict)
    said: str = ""


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """A step of the trade-off of an app: with these capacities, this is the least period."""

    app: str
    period_ns: int
    bytes: int | None
    tokens: int
    channels: dict[str, int]


@dataclass(frozen=True, slots=True)
class ContestantRow:
    """A configuration of a search, in the unit of its objective, and how often it ran; `pins` is
    the text that selects it."""

    name: str
    configuration: str
    predicted: float | None
    measured: float | None
    runs: int
    pins: str


@dataclass(frozen=True, slots=True)
class AcceleratorRow:
    """A network `on` an accelerator that does not take all layers: how many can run there, the
    rules that others break, and the longest legal runs."""

    network: str
    on: str
    layers: int
    legal: int
    rows: tuple[tuple[str, int, str, str], ...]
    runs: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class SearchRow:
    """A search, and its `contestants`.

    `history` has (seconds, evaluations, best value so far, bound) whenever one of the last two
    improved. `decided` says how the race at its end has ended, empty without one. `front` has, with
    deadlines, (maximum utilization, share of its deadline that the tightest needs, pins, watts,
    CPUs, bytes of networks) of the Pareto-optimal answers; the last three are None where power was
    not the objective. `used` are the pins of the mapping in use. `over` says
    among which mappings the answer is optimal. `priorities` is the order of apps, empty where it
    decides nothing.
    """

    name: str
    objective: str
    unit: str
    used: str
    seed: int
    evaluations: int
    measured_runs: int
    seconds: float
    optimal: bool
    over: str
    decided: str
    contestants: tuple[ContestantRow, ...]
    history: tuple[tuple[float, int, float | None, float | None], ...]
    front: tuple[tuple[float, float, str, float | None, int | None, int | None], ...]
    why: tuple[str, ...]
    priorities: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A number, or a text, that differs in the compared report; `change` is this over the other,
    less 1."""

    section: str
    name: str
    what: str
    here: float | str | None
    there: float | str | None
    change: float | None


@dataclass(frozen=True, slots=True)
class CompareRow:
    """A comparison: the differences, largest change first, and rows of only one side."""

    name: str
    differences: tuple[Difference, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateBoundRow:
    """The proved worst case of an app in a state, and its deadline there; `late`: the deadline is
    missed.

    `seen_ns` is the longest measured response when the mapping was found, `supposed` what the bound
    supposes, in words.
    """

    app: str
    bound_ns: int | None
    deadline_ns: int | None
    seen_ns: int | None
    late: bool
    supposed: str = ""


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state of a scenario: what `runs` there (apps with their periods, variants), its share of
    time, the clock rates and the mean power of its mapping, and the measurements of a run.

    `best` are networks of which the best variant was requested. `own_places` are the processors of
    tasks that have other places in the other states, `bounds` the proved bounds of apps.
    """

    name: str
    runs: tuple[str, ...]
    variants: tuple[str, ...]
    best: tuple[str, ...]
    weight: float
    own_places: dict[str, str]
    bounds: tuple[StateBoundRow, ...]
    clocks: str
    energy_mw: float | None
    seconds: float | None
    entered: int | None
    joules: float | None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change between two states: its bound, and how often it happened and how long it took in a
    run."""

    source: str
    target: str
    on: str
    bound_ns: int | None
    count: int | None
    mean_ns: int | None
    max_ns: int | None
    above_bound: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """All results for an application. `build` is the digest of the program that ran, with its exit
    `status` and the reason of a `failure` (empty: none).

    `machine` is the one that measured, or the origin of the times if they were `imported`. Of a
    `twin`, CPU threads of another machine played GPU, DLAs and NPUs in the run: nothing measured is
    compared with what is predicted or proved of the platform.
    `commands` made the data, and `missing` has, for data that is not known, the command that
    computes it (empty: none). `diagnostics` are (severity, code, message). `predicted` is a chart
    for each app, `measured` that of the trace, and `memory` the trade-off with the period.
    """

    name: str
    platform: str
    flowc: str
    machine: str
    imported: bool
    build: str | None
    status: int | None
    failure: str
    twin: bool
    commands: tuple[str, ...]
    diagnostics: tuple[tuple[str, str, str], ...]
    apps: tuple[AppRow, ...]
    processors: tuple[ProcessorRow, ...]
    tasks: tuple[TaskRow, ...]
    channels: tuple[ChannelRow, ...]
    paths: tuple[PathRow, ...]
    states: tuple[StateRow, ...]
    changes: tuple[ChangeRow, ...]
    predicted: tuple[ChartRow, ...]
    measured: ChartRow | None
    memory: tuple[MemoryPoint, ...]
    search: SearchRow | None
    dla: tuple[AcceleratorRow, ...]
    compare: CompareRow | None
    missing: dict[str, str]
    slack: tuple[TimeSlack, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document as plain data, with the version of its form."""
        return {"version": VERSION, **{f.name: _plain(getattr(self, f.name)) for f in fields(self)}}

    def to_json(self, indent: int | None = None) -> str:
        """The document as JSON; equal documents give equal text."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.to_dict(), indent=indent, separators=separators, allow_nan=False)


def _plain(value: Any) -> Any:
    """Values as JSON has them: long rows of numbers unchanged."""
    if isinstance(value, tuple):
        return (
            list(value) if value and isinstance(value[0], int) else [_plain(item) for item in value]
        )
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value
