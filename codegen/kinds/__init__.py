"""All kinds of code: the first one that serves a task where it is placed makes its code.

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
    onnx,
    onnx_cuda,
    python,
    resample,
    segments,
    tensorrt,
    transfer,
)
from .kind import BuildCode, CodeSite, Helpers, Kind

__all__ = ["KINDS", "BuildCode", "CodeSite", "Helpers", "Kind", "kind_of"]

KINDS: tuple[Kind, ...] = (
    link.KIND,
    border.KIND,
    resample.KIND,
    transfer.KIND,
    moving.KIND,
    bands.KIND,
    segments.KIND,
    onnx.KIND,
    onnx_cuda.KIND,
    tensorrt.KIND,
    cuda.KIND,
    c.KIND,
    python.KIND,
)


def kind_of(task: Task, site: CodeSite) -> Kind:
    """The kind that makes the code of a task without faults."""
    return next(k for k in KINDS if k.serves(task, site))
