"""ONNX Runtime on CPUs: the engine of flowc, which takes all networks that flowc reads."""

from __future__ import annotations

from ...model.mapping import DEFAULT_ENGINE
from .engine import Engine

ENGINE = Engine(
    DEFAULT_ENGINE,
    "ONNX Runtime",
    ("onnxruntime", "onnxruntime-gpu"),
    "pip install onnxruntime",
    "",
    "running networks",
    "Network",
    ("fp32", "fp16", "int8"),
    lambda network: None,
)
