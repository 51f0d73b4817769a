"""Measured times, and the file that keeps them (`STEM.PLATFORM.profile.json`, see contracts)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

PROFILE_VERSION = 1


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Mean time of a layer (called after its first output tensor) per inference; energy where it was measured."""

    layer: str
    mean_ns: float
    energy_nj: float | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a tensor costs its receiver when it comes from another processor: `fixed_ns` + bytes * `ns_per_byte`.

    `source` and `target` are kinds of processors.
    """

    source: str
    target: str
    fixed_ns: float
    ns_per_byte: float


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Times of one firing of `subject` (a task) on one kind of processor, in ns.

    `content_hash` covers code, parameters and types; `host_hash` the machine. `wcet_ns` is
    max(largest seen, mean + 6 sigma). A network may have its `layers` beside the whole, and `overhead_ns`: what an
    inference takes beyond them. `held` is the share of its time in which a task keeps Python's lock: such tasks hold
    each other up on threads.
    """

    processor: str
    subject: str
    implementation: str
    content_hash: str
    host_hash: str
    samples: int
    mean_ns: int
    std_ns: int
    max_ns: int
    wcet_ns: int
    batch: int = 1
    precision: str = "fp32"
    energy_nj: int | None = None
    estimated: bool = False
    layers: tuple[LayerTime, ...] = ()
    overhead_ns: int = 0
    held: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """All that was measured for one text on one platform; `host` describes the machine in words.

    `firing_ns` is what the runtime adds to each firing on a CPU, None where nobody measured it.
    """

    platform: str
    host: str
    entries: tuple[ProfileEntry, ...]
    transfers: tuple[Transfer, ...] = ()
    firing_ns: float | None = None

    def over(self, other: Profile) -> Profile:
        """With the entries of another profile for what this one does not speak of; its layers where they still hold."""
        own = {(e.processor, e.subject) for e in self.entries}
        layers = {(e.processor, e.content_hash): e for e in other.entries if e.layers}
        entries = []
        for e in self.entries:
            known = layers.get((e.processor, e.content_hash))
            if known is not None and not e.layers:
                e = replace(e, layers=known.layers, overhead_ns=known.overhead_ns)
            entries.append(e)
        kept = (e for e in other.entries if (e.processor, e.subject) not in own)
        firing_ns = other.firing_ns if self.firing_ns is None else self.firing_ns
        transfers = self.transfers or other.transfers
        return replace(self, entries=(*entries, *kept), transfers=transfers, firing_ns=firing_ns)

    def to_json(self) -> str:
        """The file's text; deterministic for equal contents."""
        document = {
            "version": PROFILE_VERSION,
            "platform": self.platform,
            "host": self.host,
            "entries": [
                {
                    **asdict(e),
                    "layers": [_short(x) for x in e.layers],
                    "held": None if e.held is None else round(e.held, 2),
                }
                for e in self.entries
            ],
            "transfers": [_transfer(t) for t in self.transfers],
            "firing_ns": None if self.firing_ns is None else round(self.firing_ns),
        }
        return json.dumps(document, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Profile:
        """Inverse of `to_json`. Raises ValueError with the reason when the text is something else."""
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("version") != PROFILE_VERSION:
            raise ValueError(f"not a profile of version {PROFILE_VERSION}")
        try:
            entries = tuple(_entry(e) for e in document["entries"])
            transfers = tuple(
                Transfer(str(t["from"]), str(t["to"]), float(t["fixed_ns"]), float(t["ns_per_byte"]))
                for t in document.get("transfers", [])
            )
            firing = document.get("firing_ns")
            firing_ns = None if firing is None else float(firing)
            return Profile(_text(document, "platform"), _text(document, "host"), entries, transfers, firing_ns)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"an entry is not complete: {error}") from error


def _entry(document: dict[str, Any]) -> ProfileEntry:
    names = ProfileEntry.__dataclass_fields__
    known = {k: v for k, v in document.items() if k in names}
    layers = known.pop("layers", [])
    found = tuple(LayerTime(str(x["layer"]), float(x["mean_ns"]), x.get("energy_nj")) for x in layers)
    return ProfileEntry(**known, layers=found)


def _short(layer: LayerTime) -> dict[str, Any]:
    energy = {} if layer.energy_nj is None else {"energy_nj": layer.energy_nj}
    return {"layer": layer.layer, "mean_ns": round(layer.mean_ns), **energy}


def _transfer(t: Transfer) -> dict[str, Any]:
    return {"from": t.source, "to": t.target, "fixed_ns": round(t.fixed_ns), "ns_per_byte": round(t.ns_per_byte, 6)}


def _text(document: dict[str, Any], key: str) -> str:
    return str(document.get(key, ""))
