"""Measurements of a program, read back: its report (`run --report`) and its trace (`run --trace`).

In: the bytes of a file that the user named. Out: data of known types, or a ValueError with the
fault and its place. Unused fields are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ..model.json_reader import of_version, parse_object
from ..runtime import report as written_report
from ..runtime import trace as written_trace

#: Most firings that are shown: the first ones, from the frame on that finds the pipeline full.
MOST_FIRINGS = 100_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies in ns; `edges_ns` has one entry more than `counts`. `misses` of `count` were
    late."""

    count: int
    misses: int
    mean_ns: int | None
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    edges_ns: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RanApp:
    """An app of a run: its frames, their time, and the latency of each path, age and reaction by
    (kind, source, task)."""

    frames: int
    skipped: int
    seconds: float
    fps: float | None
    overruns: int
    latency: Latency
    paths: dict[tuple[str, str, str], Latency]


@dataclass(frozen=True, slots=True)
class ListSeen:
    """The lists that a port wrote in a run: tokens in one, on average (None: there was none) and at
    most."""

    mean: float | None
    most: int


@dataclass(frozen=True, slots=True)
class RanTask:
    """A task of a run: its processor, its number of firings, and the time of a firing, in ns; the
    lists that it wrote, by port. Of a live source also how long it has waited for data at most, and
    its period, in us."""

    processors: tuple[str, ...]
    firings: int
    failed: int
    mean_ns: int | None
    max_ns: int
    share: float
    lists: dict[str, ListSeen] = field(default_factory=dict)
    wait_us: float | None = None
    period_us: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run; `build` is the digest of the program, `channels` have (capacity, most), `changes` of
    state how long each took until all first frames had ended, in ns (None: they did not). Of a
    `twin` times are those of CPU threads that played GPU, DLAs and NPUs."""

    build: str | None
    status: int
    failure: str
    apps: dict[str, RanApp]
    tasks: dict[str, RanTask]
    processors: dict[str, float]
    channels: dict[str, tuple[int, int]]
    states: dict[str, RanState] = field(default_factory=dict)
    changes: dict[tuple[str, str], list[int | None]] = field(default_factory=dict)
    twin: bool = False


@dataclass(frozen=True, slots=True)
class RanState:
    """A state of a run: how long and how often the program was in it, and its power, if known."""

    seconds: float
    entered: int
    joules: float | None


@dataclass(slots=True)
class Traced:
    """A trace: firings (lane, task, firing, number of firings, start, duration), releases, frames,
    fills; all in ns. `began_unix_us`: when its clock was 0, in us since 1970."""

    build: str | None
    began_unix_us: int | None = None
    firings: list[tuple[str, str, int, int, int, int]] = field(default_factory=list)
    releases: list[tuple[str, int]] = field(default_factory=list)
    frames: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    fills: dict[str, list[int]] = field(default_factory=dict)


class _Place:
    """A part of a document, with its path in words."""

    def __init__(self, value: Any, path: str) -> None:
        self.value, self.path = value, path

    def _is(self, what: str) -> ValueError:
        if isinstance(self.value, dict | list):
            shown = type(self.value).__name__
        else:
            shown = repr(self.value)[:60]
        return ValueError(f"{self.path or 'the document'} is {shown}; expected {what}")

    def at(self, key: str) -> _Place:
        if not isinstance(self.value, dict):
            raise self._is("an object")
        path = f"{self.path}.{key}" if self.path else key
        if key not in self.value:
            raise ValueError(f"{path} is missing")
        return _Place(self.value[key], path)

    def get(self, key: str, default: Any) -> _Place:
        if isinstance(self.value, dict) and key in self.value:
            return self.at(key)
        return _Place(default, key)

    def items(self) -> list[tuple[str, _Place]]:
        if not isinstance(self.value, dict):
            raise self._is("an object")
        return [(key, _Place(value, f"{self.path}.{key}")) for key, value in self.value.items()]

    def known(self, key: str) -> list[tuple[str, _Place]]:
        """Its items, without those whose `key` is null: what is counted of them is unknown."""
        return [(name, item) for name, item in self.items() if item.get(key, 0).value is not None]

    def list(self) -> list[_Place]:
        if not isinstance(self.value, list):
            raise self._is("a list")
        return [_Place(value, f"{self.path}[{k}]") for k, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self._is("a text")
        return self.value

    def maybe_text(self) -> str | None:
        return None if self.value is None else self.text()

    def number(self) -> float:
        good = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not good or not isfinite(self.value) or abs(self.value) > 1e18:
            raise self._is("a number")
        return float(self.value)

    def maybe_number(self) -> float | None:
        return None if self.value is None else self.number()

    def whole(self) -> int:
        good = isinstance(self.value, int) and not isinstance(self.value, bool)
        if not good or abs(self.value) > 10**18:
            raise self._is("a whole number")
        return int(self.value)

    def ns(self, unit: float) -> int | None:
        """A time in another unit as ns; None where it is null."""
        return None if self.value is None else round(self.number() * unit)

    def time(self) -> int:
        """A time of a trace, in us, as ns."""
        return round(self.number() * 1000)


def read_run(content: bytes) -> MeasuredRun:
    """The report of a run, without what a program could not tell that has crashed. Raises
    ValueError."""
    top = _Place(of_version(parse_object(content), "report of a run", written_report.VERSION), "")
    return MeasuredRun(
        top.get("build", None).maybe_text(),
        top.get("status", 0).whole(),
        _failure(top.get("failure", None)),
        {name: _app(place) for name, place in top.at("apps").known("frames")},
        {name: _task(place) for name, place in top.at("tasks").known("firings")},
        {
            n: place.at("utilization").number()
            for n, place in top.at("processors").known("utilization")
        },
        {name: _channel(place) for name, place in top.get("channels", {}).known("most")},
        {name: _state(place) for name, place in top.get("states", {}).known("seconds")},
        _changes(top.get("switches", [])),
        top.get("twin", False).value is True,
    )


def _channel(place: _Place) -> tuple[int, int]:
    """Its capacity, and the most tokens that were in it."""
    return place.at("capacity").whole(), place.at("most").whole()


def _state(place: _Place) -> RanState:
    return RanState(
        place.at("seconds").number(),
        place.at("entered").whole(),
        place.get("joules", None).maybe_number(),
    )


def _changes(place: _Place) -> dict[tuple[str, str], list[int | None]]:
    changes: dict[tuple[str, str], list[int | None]] = {}
    for change in place.list():
        ends = change.at("from").text(), change.at("to").text()
        changes.setdefault(ends, []).append(change.at("first_ms").ns(1e6))
    return changes


def _failure(place: _Place) -> str:
    if place.value is None:
        return ""
    task = place.get("task", None).maybe_text()
    reason = place.at("reason").text()
    return f"{task}: {reason}" if task else reason


def _app(place: _Place) -> RanApp:
    fps = place.at("fps")
    frames, skipped = place.at("frames").whole(), place.get("skipped", 0).whole()
    return RanApp(
        frames,
        skipped,
        place.get("seconds", 0.0).number(),
        fps.maybe_number(),
        place.at("overruns").whole(),
        _latency(place, frames - skipped),
        _paths(place.get("paths", [])),
    )


def _paths(place: _Place) -> dict[tuple[str, str, str], Latency]:
    """By kind, source and task."""
    paths = {}
    for path in place.list():
        kind = path.get("kind", "path").text()
        ends = kind, path.at("source").text(), path.at("task").text()
        paths[ends] = _latency(path, path.at("firings").whole())
    return paths


def _latency(place: _Place, count: int) -> Latency:
    histogram = place.get("histogram", {"ns": [], "counts": []})
    edges = tuple(p.whole() for p in histogram.at("ns").list())
    counts = tuple(p.whole() for p in histogram.at("counts").list())
    wanted = len(counts) + 1 if counts else 0
    if len(edges) != wanted or list(edges) != sorted(edges):
        raise ValueError(
            f"{histogram.path} has {len(edges)} edges of {len(counts)} bins, or not in order"
        )
    misses, figures = place.at("deadline_misses").whole(), place.at("latency_ms")
    mean, p50, p99, longest = (figures.at(key).ns(1e6) for key in ("mean", "p50", "p99", "max"))
    return Latency(count, misses, mean, p50, p99, longest, edges, counts)


def _task(place: _Place) -> RanTask:
    wait = place.get("wait", {})
    return RanTask(
        tuple(place.at("processor").text().split(", ")),
        place.at("firings").whole(),
        place.get("failed", 0).whole(),
        place.at("mean_us").ns(1e3),
        place.at("max_us").ns(1e3) or 0,
        place.at("share").number(),
        {port: _list(seen) for port, seen in place.get("lists", {}).items()},
        wait.get("max_us", None).maybe_number(),
        wait.get("period_us", None).maybe_number(),
    )


def _list(place: _Place) -> ListSeen:
    mean = place.at("mean")
    return ListSeen(None if mean.value is None else mean.number(), place.at("most").whole())


def read_trace(content: bytes) -> Traced:
    """The trace of a run. Raises ValueError."""
    top = _Place(parse_object(content), "")
    about = top.get("otherData", {})
    if isinstance(about.value, dict):
        of_version(about.value, "trace", written_trace.VERSION)
    began = about.get("began_unix_us", None)
    made = Traced(
        about.get("build", None).maybe_text(), None if began.value is None else began.whole()
    )
    reader = _TraceReader(made)
    for event in top.at("traceEvents").list():
        reader.take(event)
    return reader.traced()


class _TraceReader:
    """Reads the events of a trace in their order."""

    def __init__(self, empty: Traced) -> None:
        self._traced = empty
        self._lanes: dict[int, str] = {}
        #: By the id of a frame that has not ended: app, number of the frame, and start.
        self._begun: dict[str, tuple[str, int, int]] = {}
        self._late: dict[tuple[str, int], int] = {}

    def take(self, event: _Place) -> None:
        """One event; those of other kinds say nothing that is kept."""
        match event.at("ph").text():
            case "M":
                if event.at("name").text() == "thread_name" and event.get("pid", 1).value == 1:
                    self._lanes[event.at("tid").whole()] = event.at("args").at("name").text()
            case "X":
                if event.get("cat", "").value != "bands":
                    self._take_firing(event)
            case "C":
                tokens = event.at("args").at("tokens").whole()
                fills = self._traced.fills.setdefault(event.at("name").text(), [])
                fills.extend((event.at("ts").time(), tokens))
            case "i":
                self._take_mark(event)
            case "b":
                frame = event.at("args")
                app, number = frame.at("app").text(), frame.at("frame").whole()
                self._begun[event.at("id").text()] = app, number, event.at("ts").time()
            case "e":
                begun = self._begun.pop(event.at("id").text(), None)
                if begun is not None:
                    self._traced.frames.append((*begun, event.at("ts").time(), 0))

    def _take_firing(self, event: _Place) -> None:
        firing, start, duration = event.at("args"), event.at("ts").time(), event.at("dur").time()
        number, group = firing.at("firing").whole(), firing.get("firings", 1).whole()
        lane = self._lanes.get(event.at("tid").whole(), "?")
        task = event.at("name").text()
        self._traced.firings.append((lane, task, number, group, start, duration))

    def _take_mark(self, event: _Place) -> None:
        """A release of a source, or a deadline that was missed."""
        name = event.at("name").text()
        if name == "release":
            task = event.at("args").at("task").text()
            self._traced.releases.append((task, event.at("ts").time()))
        elif name == "deadline missed" and "late_us" in event.at("args").value:
            miss = event.at("args")
            late = miss.at("late_us").time()
            self._late[miss.at("app").text(), miss.at("frame").whole()] = late

    def traced(self) -> Traced:
        """What the trace says; deadlines may be reported before or after the ends of frames."""
        frames = []
        for app, number, begin, end, _ in self._traced.frames:
            frames.append((app, number, begin, end, self._late.get((app, number), 0)))
        self._traced.frames = frames
        return self._traced
