"""What the engines of NPUs take. An engine is one module (see `engine`), and a line here."""

from __future__ import annotations

from . import openvino, qnn, rknn
from .engine import NpuEngine

__all__ = ["ENGINES", "NpuEngine", "engine_of"]

ENGINES: tuple[NpuEngine, ...] = (qnn.ENGINE, openvino.ENGINE, rknn.ENGINE)


def engine_of(name: str) -> NpuEngine:
    """The engine that a platform names. Raises LookupError if there is no such engine."""
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise LookupError(f"there is no engine {name} of NPUs")
