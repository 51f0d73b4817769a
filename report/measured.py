"""Measurements of a program, read back: its report (`run --report`) and its trace (`run --trace`).

In: the bytes of a file that the user named. Out: data of known types, or a ValueError with the
fault and its place. Unused fields are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ..model.json_reader import parse_object

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
    """An app of a run: its frames, their time, and the latency of each path by (source, task)."""

    frames: int
    skipped: int
    seconds: float
    fps: float | None
    overruns: int
    latency: Latency
    paths: dict[tuple[str, str], Latency]


@dataclass(frozen=True, slots=True)
class RanTask:
    """A task of a run: its processor, its number of firings, and the time of a firing, in ns."""

    processors: tuple[str, ...]
    firings: int
    failed: int
    mean_ns: int | None
    max_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A run; `build` is the digest of the program, `channels` have (capacity, most), `changes` of
    state how long each took until all first frames had ended, in ns (None: they did not)."""

    build: str | None
    status: int
    failure: str
    apps: dict[str, RanApp]
    tasks: dict[str, RanTask]
    processors: dict[str, float]
    channels: dict[str, tuple[int, int]]
    states: dict[str, RanState] = field(default_factory=dict)
    changes: dict[tuple[str, str], list[int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RanState:
    """A state of a run: how long and how often the program was in it, and its power, if known."""

    seconds: float
    entered: int
    joules: float | None


@dataclass(slots=True)
class Traced:
    """A trace: firings (lane, task, firing, number of firings, start, duration), releases, frames,
    fills; all in ns."""

    build: str | None
    firings: list[tuple[str, str, int, int, int, int]] = field(default_factory=list)
    releases: list[tuple[str, int]] = field(default_factory=list)
    frames: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    fills: dict[str, list[int]] = field(default_factory=dict)


class _Place:
    """A part of a document, with its path in words."""

    def __init__(self, value: Any, path: str) -> None:
        self.value, self.path = value, path

    def _is(self, what: str) -> ValueError:
        shown = (
            type(self.value).__name__
            if isinstance(self.value, dict | list)
            else repr(self.value)[:60]
        )
        return ValueError(f"{self.path or 'the document'} is {shown}; expected {what}")

    def at(self, key: str) -> _Place:
        if not isinstance(self.value, dict):
            raise self._is("an object")
        if key not in self.value:
            raise ValueError(f"{self.path + '.' if self.path else ''}{key} is missing")
        return _Place(self.value[key], f"{self.path}.{key}".lstrip("."))

    def get(self, key: str, default: Any) -> _Place:
        return (
            self.at(key)
            if isinstance(self.value, dict) and key in self.value
            else _Place(default, key)
        )

    def items(self) -> list[tuple[str, _Place]]:
        if not isinstance(self.value, dict):
            raise self._is("an object")
        return [(key, _Place(value, f"{self.path}.{key}")) for key, value in self.value.items()]

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

    def whole(self) -> int:
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, int)
            or abs(self.value) > 10**18
        ):
            raise self._is("a whole number")
        return self.value

    def ns(self, unit: float) -> int | None:
        """A time in another unit as ns; None where it is null."""
        return None if self.value is None else round(self.number() * unit)

    def time(self) -> int:
        """A time of a trace, in us, as ns."""
        return round(self.number() * 1000)


def read_run(content: bytes) -> Ran:
    """The report of a run. Raises ValueError."""
    top = _Place(parse_object(content), "")
    return Ran(
        top.get("build", None).maybe_text(),
        top.get("status", 0).whole(),
        _failure(top.get("failure", None)),
        {name: _app(place) for name, place in top.at("apps").items()},
        {name: _task(place) for name, place in top.at("tasks").items()},
        {name: place.at("utilization").number() for name, place in top.at("processors").items()},
        {
            n: (p.at("capacity").whole(), p.at("most").whole())
            for n, p in top.get("channels", {}).items()
        },
        {name: _state(place) for name, place in top.get("states", {}).items()},
        _changes(top.get("switches", [])),
    )


def _state(place: _Place) -> RanState:
    joules = place.get("joules", None)
    return RanState(
        place.at("seconds").number(),
        place.at("entered").whole(),
        None if joules.value is None else joules.number(),
    )


def _changes(place: _Place) -> dict[tuple[str, str], list[int | None]]:
    found: dict[tuple[str, str], list[int | None]] = {}
    for change in place.list():
        ends = change.at("from").text(), change.at("to").text()
        found.setdefault(ends, []).append(change.at("first_ms").ns(1e6))
    return found


def _failure(place: _Place) -> str:
    if place.value is None:
        return ""
    task = place.get("task", None).maybe_text()
    return (f"{task}: " if task else "") + place.at("reason").text()


def _app(place: _Place) -> RanApp:
    fps = place.at("fps")
    frames, skipped = place.at("frames").whole(), place.get("skipped", 0).whole()
    return RanApp(
        frames,
        skipped,
        place.get("seconds", 0.0).number(),
        None if fps.value is None else fps.number(),
        place.at("overruns").whole(),
        _latency(place, frames - skipped),
        {
            (p.at("source").text(), p.at("task").text()): _latency(p, p.at("firings").whole())
            for p in place.get("paths", []).list()
        },
    )


def _latency(place: _Place, count: int) -> Latency:
    histogram = place.get("histogram", {"ns": [], "counts": []})
    edges = tuple(p.whole() for p in histogram.at("ns").list())
    counts = tuple(p.whole() for p in histogram.at("counts").list())
    if len(edges) != (len(counts) + 1 if counts else 0) or list(edges) != sorted(edges):
        raise ValueError(
            f"{histogram.path} has {len(edges)} edges of {len(counts)} bins, or not in order"
        )
    misses, figures = place.at("deadline_misses").whole(), place.at("latency_ms")
    mean, p50, p99, longest = (figures.at(key).ns(1e6) for key in ("mean", "p50", "p99", "max"))
    return Latency(count, misses, mean, p50, p99, longest, edges, counts)


def _task(place: _Place) -> RanTask:
    return RanTask(
        tuple(place.at("processor").text().split(", ")),
        place.at("firings").whole(),
        place.get("failed", 0).whole(),
        place.at("mean_us").ns(1e3),
        place.at("max_us").ns(1e3) or 0,
        place.at("share").number(),
    )


def read_trace(content: bytes) -> Traced:
    """The trace of a run. Raises ValueError."""
    top = _Place(parse_object(content), "")
    found = Traced(top.get("otherData", {}).get("build", None).maybe_text())
    lanes: dict[int, str] = {}
    begun: dict[str, tuple[str, int, int]] = {}
    late: dict[tuple[str, int], int] = {}
    for event in top.at("traceEvents").list():
        kind = event.at("ph").text()
        if (
            kind == "M"
            and event.at("name").text() == "thread_name"
            and event.get("pid", 1).value == 1
        ):
            lanes[event.at("tid").whole()] = event.at("args").at("name").text()
        elif kind == "X" and event.get("cat", "").value != "bands":
            said, start, duration = event.at("args"), event.at("ts").time(), event.at("dur").time()
            firing, group = said.at("firing").whole(), said.get("firings", 1).whole()
            lane = lanes.get(event.at("tid").whole(), "?")
            found.firings.append((lane, event.at("name").text(), firing, group, start, duration))
        elif kind == "C":
            tokens = event.at("args").at("tokens").whole()
            found.fills.setdefault(event.at("name").text(), []).extend(
                (event.at("ts").time(), tokens)
            )
        elif kind == "i" and event.at("name").text() == "release":
            found.releases.append((event.at("args").at("task").text(), event.at("ts").time()))
        elif (
            kind == "i"
            and event.at("name").text() == "deadline missed"
            and "late_us" in event.at("args").value
        ):
            said = event.at("args")
            late[said.at("app").text(), said.at("frame").whole()] = said.at("late_us").time()
        elif kind == "b":
            said = event.at("args")
            begun[event.at("id").text()] = (
                said.at("app").text(),
                said.at("frame").whole(),
                event.at("ts").time(),
            )
        elif kind == "e" and event.at("id").text() in begun:
            app, frame, start = begun.pop(event.at("id").text())
            found.frames.append(
                (app, frame, start, event.at("ts").time(), late.get((app, frame), 0))
            )
    found.frames = [(a, n, b, e, late.get((a, n), 0)) for a, n, b, e, _ in found.frames]
    return found
