"""Measured times, and the file that keeps them (`STEM.PLATFORM.profile.json`, see docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import reduce
from math import ceil
from typing import Annotated, Any

from .json_reader import Between, parse_version, read
from .platform import ACCELERATORS
from .workload import WorkloadCurve, is_curve

PROFILE_VERSION = 1
#: Times in ns and energies in nJ of a file: at most 31 years, so that sums remain plausible.
_Whole = Annotated[int, Between(0, 10**18)]
_Real = Annotated[float, Between(0, 10**18)]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Mean time of a layer (named after its first output tensor) per inference; energy if
    measured.
    """

    layer: str
    mean_ns: _Real
    energy_nj: _Real | None = None


@dataclass(frozen=True, slots=True)
class TransferCost:
    """Cost of a tensor from another processor to its receiver: `fixed_ns` + bytes * `ns_per_byte`.

    `source` and `target` are kinds of processors.
    """

    source: str = field(metadata={"json": "from"})
    target: str = field(metadata={"json": "to"})
    fixed_ns: _Real
    ns_per_byte: _Real


@dataclass(frozen=True, slots=True)
class ListLength:
    """How many tokens the lists of a port had, on average and at most."""

    port: str
    mean: _Real
    most: _Whole


@dataclass(frozen=True, slots=True)
class PortCount:
    """The most that a firing was measured with at a port: tokens of a list, and places of one token
    along the dimensions in which it varies."""

    port: str
    tokens: _Whole
    places: _Whole


@dataclass(frozen=True, slots=True)
class RunTime:
    """Times of runs of a network that compute so many firings at once, in ns."""

    firings: Annotated[int, Between(1, 1 << 20)]
    samples: Annotated[int, Between(1, 10**15)]
    mean_ns: _Whole
    max_ns: _Whole
    wcet_ns: _Whole


@dataclass(frozen=True, slots=True)
class BandCosts:
    """Cost of bands of rows beyond the network's own time, in ns: per firing, per byte that is
    copied (`blocked`: in ONNX Runtime's own layout) or crosses a boundary (plain models), per byte
    of weights that another firing reads again. Repeated multiplications take `again` times as long
    as others.

    Fitted to runs of `plans` plans, half of which it predicts within `error`; with 0 plans it is an
    estimate. `whole_ns` is the time of the unsplit network beside these runs.
    """

    blocked: bool
    firing_ns: _Real
    byte_ns: _Real
    weight_ns: _Real
    again: _Real = 1.0
    whole_ns: _Real = 0.0
    plans: Annotated[int, Between(0, 10**6)] = 0
    error: _Real = 0.0


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Times of one firing of `subject` (a task) on one kind of processor, in ns.

    `content_hash` covers code, parameters and types; `host_hash` the machine. `wcet_ns` is
    max(largest seen, mean + 6 sigma), and `totals_ns` are those of a workload curve that begins
    with it. A network may have times of its `layers`, and `overhead_ns`: the rest of an inference.
    `held` is the share of its time in which a task holds Python's lock: such tasks delay each other
    on threads. `fired` is the share of its firings that had tokens, where there may be fewer; the
    times are those of these firings. `lists` are those that it wrote. `arena_bytes` is
    TensorRT's buffer between the layers of a network in one execution, `bands` the cost of bands of
    rows on a CPU. `engine` is the inference engine of a network on a CPU (empty: ONNX Runtime).

    Of a network with a `batch` the times are shares of a run, and `runs` are the times of whole
    runs. `counts` are the most that was measured at ports of lists and of sizes that vary.
    `depends` is an operator of a network whose work depends on the values of its data (empty: there
    is none).
    """

    processor: str
    subject: str
    implementation: str
    content_hash: str
    host_hash: str
    samples: Annotated[int, Between(0, 10**15)]
    mean_ns: _Whole
    std_ns: _Whole
    max_ns: _Whole
    wcet_ns: _Whole
    batch: Annotated[int, Between(1, 1 << 20)] = 1
    precision: str = "fp32"
    energy_nj: _Whole | None = None
    estimated: bool = False
    layers: tuple[LayerTime, ...] = ()
    overhead_ns: _Whole = 0
    held: Annotated[float, Between(0, 1)] | None = None
    totals_ns: tuple[_Whole, ...] = ()
    arena_bytes: _Whole | None = None
    bands: BandCosts | None = None
    fired: Annotated[float, Between(0, 1)] | None = None
    lists: tuple[ListLength, ...] = ()
    engine: str = ""
    runs: tuple[RunTime, ...] = ()
    counts: tuple[PortCount, ...] = ()
    depends: str = ""

    @property
    def on_engine(self) -> tuple[str, str]:
        """The engine, and the precision there; empty on ONNX Runtime, where the content tells."""
        return (self.engine, self.precision) if self.engine else ("", "")

    @property
    def on_cpu(self) -> bool:
        """Was it measured on a CPU, of whatever type?"""
        return self.processor not in ACCELERATORS

    @property
    def divided_by(self) -> int:
        """By how much its times may be too short: an older profile divides the time of a run by the
        whole batch, also where tokens were missing."""
        return self.batch if self.batch > 1 and not self.runs and self.fired is not None else 1

    @property
    def expected_ns(self) -> int:
        """Mean time of a firing, where those without tokens take none."""
        mean_ns = self.mean_ns * self.divided_by
        return mean_ns if self.fired is None else round(mean_ns * self.fired)

    @property
    def curve(self) -> WorkloadCurve | None:
        """The workload curve; None if only the worst case is known, or was edited in the file."""
        fits = is_curve(self.totals_ns) and self.totals_ns[0] == self.wcet_ns
        return WorkloadCurve(self.totals_ns) if fits else None


def slower(entry: ProfileEntry, factor: Fraction) -> ProfileEntry:
    """An estimate of the times on processors that take so many times as long, 1 or more or less;
    energies are unknown there."""
    if factor == 1:
        return entry

    def whole(ns: int) -> int:
        return ceil(ns * factor)

    layers = tuple(LayerTime(x.layer, x.mean_ns * float(factor)) for x in entry.layers)
    runs = tuple(
        replace(r, mean_ns=whole(r.mean_ns), max_ns=whole(r.max_ns), wcet_ns=whole(r.wcet_ns))
        for r in entry.runs
    )
    return replace(
        entry,
        mean_ns=whole(entry.mean_ns),
        std_ns=whole(entry.std_ns),
        max_ns=whole(entry.max_ns),
        wcet_ns=whole(entry.wcet_ns),
        energy_nj=None,
        estimated=True,
        layers=layers,
        overhead_ns=whole(entry.overhead_ns),
        totals_ns=tuple(whole(ns) for ns in entry.totals_ns),
        runs=runs,
    )


@dataclass(frozen=True, slots=True)
class SilentTask:
    """A task that did not fire while it was measured: nothing reached it. `content_hash` is as in
    an entry."""

    subject: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Profile:
    """All that was measured for one text on one platform; `host` describes the machine in words.

    `firing_ns` is the runtime's overhead of each firing on a CPU, `change_ns` its maximum overhead
    of a change of state; None if not measured. Tasks that are `silent` have no times.
    """

    platform: str
    host: str
    entries: tuple[ProfileEntry, ...]
    transfers: tuple[TransferCost, ...] = ()
    firing_ns: _Real | None = None
    change_ns: _Whole | None = None
    silent: tuple[SilentTask, ...] = ()

    @property
    def imported(self) -> bool:
        """True if all times are those of another tool, which `host` names."""
        return bool(self.entries) and not any(e.host_hash for e in self.entries)

    def with_entries(self, more: Iterable[ProfileEntry]) -> Profile:
        """With these entries in place of those of their tasks."""
        entries = {}
        for e in (*self.entries, *more):
            entries[e.processor, e.on_engine, e.subject] = e
        return replace(self, entries=tuple(entries.values()))

    def over(self, other: Profile) -> Profile:
        """With entries of another profile for tasks that this one lacks, and its layers, arenas and
        bands for unchanged tasks.
        """
        own = {(e.processor, e.on_engine, e.subject) for e in self.entries}
        known: dict[tuple[object, ...], list[ProfileEntry]] = {}
        for e in other.entries:
            known.setdefault((e.processor, e.on_engine, e.content_hash), []).append(e)
        entries = [
            reduce(_with, known.get((e.processor, e.on_engine, e.content_hash), []), e)
            for e in self.entries
        ]
        kept = (e for e in other.entries if (e.processor, e.on_engine, e.subject) not in own)
        firing_ns = other.firing_ns if self.firing_ns is None else self.firing_ns
        change_ns = other.change_ns if self.change_ns is None else self.change_ns
        transfers = self.transfers or other.transfers
        all_entries = (*entries, *kept)
        known_tasks = {e.subject for e in all_entries}
        own_silent = {s.subject: s for s in (*other.silent, *self.silent)}
        return replace(
            self,
            entries=all_entries,
            silent=tuple(s for name, s in own_silent.items() if name not in known_tasks),
            transfers=transfers,
            firing_ns=firing_ns,
            change_ns=change_ns,
        )

    def on_engines(self, engines: Mapping[str, tuple[str, str]]) -> Profile:
        """Only the times of networks on these engines with their precisions, by task: on ONNX
        Runtime where none is named."""
        entries = tuple(e for e in self.entries if e.on_engine == engines.get(e.subject, ("", "")))
        return replace(self, entries=entries)

    def to_json(self) -> str:
        """The file's text; deterministic for equal contents."""
        document = {
            "version": PROFILE_VERSION,
            "platform": self.platform,
            "host": self.host,
            "entries": [_entry(e) for e in self.entries],
            "transfers": [_transfer(t) for t in self.transfers],
            "firing_ns": self.firing_ns,
            **({} if self.change_ns is None else {"change_ns": self.change_ns}),
            **({"silent": [asdict(task) for task in self.silent]} if self.silent else {}),
        }
        return json.dumps(document, indent=1) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> Profile:
        """Inverse of `to_json`. Raises ValueError with the place and the reason."""
        return read(Profile, parse_version(text, "profile", PROFILE_VERSION))


def _with(e: ProfileEntry, known: ProfileEntry) -> ProfileEntry:
    """The entry with missing values filled in from another entry of the same content."""
    of = e if e.layers or not known.layers else known
    arena = known.arena_bytes if e.arena_bytes is None else e.arena_bytes
    energy = known.energy_nj if e.energy_nj is None else e.energy_nj
    return replace(
        e,
        layers=of.layers,
        energy_nj=energy,
        overhead_ns=of.overhead_ns,
        arena_bytes=arena,
        bands=e.bands or known.bands,
    )


def _entry(e: ProfileEntry) -> dict[str, Any]:
    held = None if e.held is None else round(e.held, 2)
    document = {**asdict(e), "layers": [_short(x) for x in e.layers], "held": held}
    rare_fields = ("arena_bytes", "bands", "fired", "lists", "engine", "runs", "counts", "depends")
    for rare in rare_fields:
        if document[rare] in (None, (), ""):
            del document[rare]
    return document


def _short(layer: LayerTime) -> dict[str, Any]:
    energy = {} if layer.energy_nj is None else {"energy_nj": layer.energy_nj}
    return {"layer": layer.layer, "mean_ns": round(layer.mean_ns), **energy}


def _transfer(t: TransferCost) -> dict[str, Any]:
    return {
        "from": t.source,
        "to": t.target,
        "fixed_ns": round(t.fixed_ns),
        "ns_per_byte": round(t.ns_per_byte, 6),
    }
