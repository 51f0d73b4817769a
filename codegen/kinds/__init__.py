"""All kinds of code: the first one that makes code of a task where it is placed counts.

A kind is one module (see `kind`), and a line here.
"""

from __future__ import annotations

from ...model.application import Task
from . import (
    bands,
    border,
    c,
    cuda,
    link,
    moving,
    moving_engine,
    ncnn,
    onnx,
    onnx_cuda,
    openvino,
    openvino_npu,
    python,
    qnn,
    resample,
    rknn,
    segments,
    tensorrt,
    transfer,
)
from .kind import BuildCode, CodeSite, Helpers, Kind, code_of

__all__ = ["KINDS", "BuildCode", "CodeSite", "Helpers", "Kind", "code_of", "made_for"]

KINDS: tuple[Kind, ...] = (
    link.KIND,
    border.KIND,
    resample.KIND,
    transfer.KIND,
    moving.KIND,
    moving_engine.KIND,
    bands.KIND,
    segments.KIND,
    onnx.KIND,
    openvino.KIND,
    ncnn.KIND,
    openvino_npu.KIND,
    qnn.KIND,
    rknn.KIND,
    onnx_cuda.KIND,
    tensorrt.KIND,
    cuda.KIND,
    c.KIND,
    python.KIND,
)


def made_for(task: Task, site: CodeSite) -> BuildCode:
    """The code of a task without faults. Raises LookupError if no kind serves its processor."""
    for kind in KINDS:
        if site.processor in kind.processors and site.place.engine in kind.engines:
            code = kind.make(task, site)
            if code is not None:
                return code
    raise LookupError(f"no kind of code serves `{task.name}` on a {site.processor}")
