"""What a native program does not run, as far as only the places of tasks decide on it.

In: a deployment and its text. Out: diagnostics, each at its line. What a text says by itself is
found by `codegen.features`, before anything is measured or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...model.application import Task
from ...model.deployment import DeployedTask, Deployment
from ...model.diagnostic import Diagnostic
from ...model.span import Span
from ...model.supports import Use
from ...model.system import System
from ..features import refused
from ..kinds.border import BorderCode
from ..kinds.c import CCode
from ..kinds.cuda import CudaCode
from ..kinds.link import LinkCode
from ..kinds.onnx import OnnxCode
from ..kinds.onnx_cuda import OnnxCudaCode
from ..kinds.openvino import OpenVinoCode
from ..kinds.python import PythonCode
from ..kinds.resample import ResampleCode
from ..kinds.tensorrt import TensorRTCode
from .kernels import not_compilable
from .scope import lossy

#: The kinds of code of native programs.
_KINDS = (
    BorderCode | CCode | CudaCode | LinkCode | OnnxCode | OnnxCudaCode | OpenVinoCode | ResampleCode
)


def refused_places(deployment: Deployment, system: System) -> tuple[Diagnostic, ...]:
    """All reasons why tasks cannot be in a native program where they are."""
    tasks = {t.name: t for app in system.apps for t in app.tasks}
    spans = {name: task.span for name, task in tasks.items()}
    uses = [*_of_orders(deployment, tasks), *_of_open_ends(deployment, spans)]
    for task in deployment.tasks:
        uses += _of_kind(task, spans.get(task.name))
    return refused(uses, "native")


def _of_orders(deployment: Deployment, tasks: Mapping[str, Task]) -> Iterator[Use]:
    """How often tasks fire in a round, and on how many processors."""
    batches = {t.name: t.code.batch for t in deployment.tasks}
    for entry in (entry for worker in deployment.every_worker for entry in worker.order):
        task = tasks.get(entry.task)
        span, words = None if task is None else task.span, {"task": entry.task}
        if entry.times % batches[entry.task]:
            yield Use("a batch that is not full", span, words)
        if entry.replica[1] > 1 and task is not None and task.on_error == "restart":
            yield Use("`on error restart` in turn", span, words)


def _of_open_ends(deployment: Deployment, spans: Mapping[str, Span | None]) -> Iterator[Use]:
    """Results that may be missing at one end and be there at another."""
    incomplete = lossy(deployment)
    for app in deployment.every_app:
        ends = [t for t in app.tasks if isinstance(t.code, BorderCode) and t.inputs]
        if len(ends) > 1 and any(t.name in incomplete for t in ends):
            yield Use("several `out` after errors", spans.get(ends[0].name), {"app": app.name})


def _of_kind(task: DeployedTask, span: Span | None) -> Iterator[Use]:
    """The code of a task, where it is placed."""
    code = task.code
    words = {"task": task.name, "kind": code.kind}
    if isinstance(code, PythonCode):
        yield Use("Python on a CPU beside a GPU", span, words)
    elif isinstance(code, TensorRTCode):
        yield Use("TensorRT", span, words)
    elif not isinstance(code, _KINDS):
        yield Use("another kind of code", span, words)
    if isinstance(code, CudaCode | OnnxCudaCode) and task.on_error != "stop":
        yield Use("`on error` on a GPU", span, words)
    if not isinstance(code, CudaCode):
        return
    if code.graph:
        yield Use("a recorded graph of kernels", span, words)
    why = not_compilable(code)
    if why:
        yield Use("kernels that flowc does not compile", span, {**words, "why": why})
