"""Networks on a GPU through ONNX Runtime, for platforms without TensorRT."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from ..libraries import Library, cuda_python, onnxruntime_gpu
from .engine import EngineCode, engine_code, processors_of
from .kind import CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class OnnxCudaCode(EngineCode):
    """A network that ONNX Runtime runs on a GPU."""

    words = frozenset({"OnnxCuda"})

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime_gpu(), cuda_python(deployment.tensorrt))

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        return f"OnnxCuda({self.network_text}{self.batch_text})"


def _make(task: Task, site: CodeSite) -> OnnxCudaCode | None:
    if task.network is None or site.platform.tensorrt:
        return None
    return engine_code(OnnxCudaCode, "onnxruntime", task.network, site, processors_of(site))


KIND = Kind("onnx_cuda", OnnxCudaCode.words, frozenset({"gpu"}), _make)
