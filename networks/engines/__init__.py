"""All inference engines for networks on CPUs: the first one is that of a network without a pin.

An engine is one module (see `engine`), and a line here.
"""

from __future__ import annotations

from . import ncnn, onnxruntime, openvino
from .engine import Engine, Refusal

__all__ = ["ENGINES", "Engine", "Refusal", "engine_of"]

ENGINES: tuple[Engine, ...] = (
    onnxruntime.ENGINE,
    openvino.ENGINE,
    ncnn.ENGINE,
)


def engine_of(name: str) -> Engine:
    """The engine that a pin names (empty: none). Raises LookupError if there is no such engine."""
    if not name:
        return ENGINES[0]
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise LookupError(f"there is no engine {name}")
