"""Everything that one `.flow` text (with what it uses) says."""

from __future__ import annotations

from dataclasses import dataclass

from .application import Application
from .mapping import Pin
from .platform import Platform


@dataclass(frozen=True, slots=True)
class System:
    """The compiled text. `stem` names the outputs; `sources` are the texts read, for excerpts (path -> text)."""

    stem: str
    path: str
    apps: tuple[Application, ...]
    platforms: tuple[Platform, ...]
    pins: tuple[Pin, ...]
    sources: dict[str, str]
