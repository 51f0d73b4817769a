"""Measured times, and the file that keeps them (`STEM.PLATFORM.profile.json`, see contracts)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

PROFILE_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Times of one firing of `subject` (a task) on one kind of processor, in ns.

    `content_hash` covers code, parameters and types; `host_hash` the machine. `wcet_ns` is
    max(largest seen, mean + 6 sigma).
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


@dataclass(frozen=True, slots=True)
class Profile:
    """All that was measured for one text on one platform; `host` describes the machine in words."""

    platform: str
    host: str
    entries: tuple[ProfileEntry, ...]

    def to_json(self) -> str:
        """The file's text; deterministic for equal contents."""
        entries = [{**asdict(e), "layers": []} for e in self.entries]
        document = {
            "version": PROFILE_VERSION,
            "platform": self.platform,
            "host": self.host,
            "entries": entries,
            "transfers": [],
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
        names = ProfileEntry.__dataclass_fields__
        try:
            entries = tuple(
                ProfileEntry(**{k: v for k, v in entry.items() if k in names}) for entry in document["entries"]
            )
            return Profile(_text(document, "platform"), _text(document, "host"), entries)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"an entry is not complete: {error}") from error


def _text(document: dict[str, Any], key: str) -> str:
    return str(document.get(key, ""))
