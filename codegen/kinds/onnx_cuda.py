"""Networks on a GPU through ONNX Runtime, for platforms without TensorRT."""

from __future__ import annotations

from ...model.application import Task
from .engine import EngineCode, engine_code
from .kind import CodeSite, Kind


def _serves(task: Task, site: CodeSite) -> bool:
    return task.network is not None and not site.on_cpu and not site.platform.tensorrt


def _make(task: Task, site: CodeSite) -> EngineCode:
    return engine_code(task, site, "onnxruntime")


KIND = Kind("onnx_cuda", frozenset({"OnnxCuda"}), _serves, _make)
