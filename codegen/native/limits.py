"""What a native program cannot carry out yet: all reasons, before anything is measured or written.

In: the apps of a text with their pins. Out: diagnostics, each at its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...model.application import Task
from ...model.deployment import DeployedTask, Deployment
from ...model.diagnostic import Diagnostic
from ...model.mapping import Pin
from ...model.platform import Platform
from ...model.scenario import Scenario
from ...model.span import Span
from ...model.system import System
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
#: One processor would close what another one uses.
_ANEW_IN_TURN = "`{}` begins anew after errors, and is on several processors"
#: What else can be done about it.
_OTHERWISE = "leave `native` out of `--target`"


def refused(
    system: System, platform: Platform, scenario: Scenario | None
) -> tuple[Diagnostic, ...]:
    """All reasons why a text cannot be a native program; its `scenario`, if it has states."""
    faults: list[Diagnostic] = []
    if scenario is not None:
        faults += _of_chains(scenario)
    if platform.machines:
        faults.append(_not_in_cpp_yet("a native program runs on one machine", platform.span))
    gpu = any(pool.kind == "gpu" for pool in platform.pools)
    for app in system.apps:
        for task in app.tasks:
            faults += _of_task(task, gpu)
    pins = [pin for pin in system.pins if pin.platform == platform.name]
    faults += _unsupported_pins(pins, {t.name: t for app in system.apps for t in app.tasks})
    return tuple({(d.code, d.message, d.span): d for d in faults}.values())


def _of_chains(scenario: Scenario) -> Iterator[Diagnostic]:
    """Errors for what is measured over several apps."""
    for state in scenario.states:
        for app in state.apps:
            for chain in app.chains:
                message = f"the {chain.kind} of `{chain.sink}` leads over several apps with states"
                yield _not_in_cpp_yet(message, chain.span)


def _of_task(task: Task, gpu: bool) -> Iterator[Diagnostic]:
    """Errors for a task. Where there is a GPU, its place decides which of its codes is taken."""
    name = f"`{task.definition}`"
    if task.border is not None:
        yield from _of_border(task)
    elif task.link is None and not task.built_in and not (gpu and task.implementation_on("gpu")):
        yield from _of_code(task, name)


def _of_border(task: Task) -> Iterator[Diagnostic]:
    if task.within_ns is not None:
        yield _not_in_cpp_yet(f"open end `{task.name}` takes requests in batches", task.span)
    for port in (*task.inputs, *task.outputs):
        if port.varies or (port.count and task.within_ns is None):
            yield _not_in_cpp_yet(
                f"open end `{task.name}` has sizes that only data know", task.span
            )


def _of_code(task: Task, name: str) -> Iterator[Diagnostic]:
    """Errors for code in another language than C and C++."""
    network = task.network
    if network is not None:
        if network.moving is not None:
            yield _not_in_cpp_yet(f"the cut of {name} moves", task.span)
        if network.library:
            yield _not_in_cpp_yet(f"{name} has operators of its own", task.span)
        return
    code = task.implementation_on("cpu")
    if code is None:
        yield _not_in_cpp_yet(f"{name} has code for a GPU only", task.span)
    elif code.language == "python":
        what = f"`{code.file}:{code.symbol}` of {name} is in Python"
        message = f"{what}: a native program needs C or C++"
        instead = (
            f'write it in C, and `c "FILE.c:{code.symbol}"` in the text: `flowc headers` writes the'
            " prototype"
        )
        if task.definition.endswith((".pre", ".post")):
            instead = "let a task in C do it, and give the network its own tensors"
        help_text = f"{instead}; or {_OTHERWISE}"
        yield Diagnostic("F660", message, code.span, help=help_text)


def _unsupported_pins(pins: Iterable[Pin], tasks: Mapping[str, Task]) -> Iterator[Diagnostic]:
    for pin in pins:
        if pin.adapt:
            yield _not_in_cpp_yet(f"the cut of `{pin.task}` moves", pin.span)
        task = tasks.get(pin.task)
        for stage in pin.stages:
            if len(stage.processors) * stage.streams > 1 and _begins_anew(task):
                yield _not_in_cpp_yet(_ANEW_IN_TURN.format(pin.task), pin.span)
            if stage.bands:
                yield _not_in_cpp_yet(f"`{pin.task}` runs in bands", pin.span)
            if stage.process:
                yield _not_in_cpp_yet(f"`{pin.task}` has a process of its own", pin.span)


def _begins_anew(task: Task | None) -> bool:
    return task is not None and task.on_error == "restart"


def _not_in_cpp_yet(message: str, span: Span | None, instead: str = "") -> Diagnostic:
    text = f"{message}: native programs have no such thing yet"
    return Diagnostic("F661", text, span, help=f"{instead}{_OTHERWISE}")


def refused_places(deployment: Deployment, system: System) -> tuple[Diagnostic, ...]:
    """The same for what only the places of tasks decide on."""
    tasks = {t.name: t for app in system.apps for t in app.tasks}
    spans = {name: task.span for name, task in tasks.items()}
    faults = [
        *_of_orders(deployment, tasks),
        *_of_open_ends(deployment, spans),
        *(fault for t in deployment.tasks for fault in _of_kind(t, spans.get(t.name))),
    ]
    return tuple({fault.message: fault for fault in faults}.values())


def _of_orders(deployment: Deployment, tasks: Mapping[str, Task]) -> Iterator[Diagnostic]:
    """Errors for how often tasks fire in a round, and on how many processors."""
    batches = {t.name: t.code.batch for t in deployment.tasks}
    for entry in (entry for worker in deployment.every_worker for entry in worker.order):
        task = tasks.get(entry.task)
        span = None if task is None else task.span
        if entry.times % batches[entry.task]:
            yield _not_in_cpp_yet(f"`{entry.task}` has a batch that is not full", span)
        if entry.replica[1] > 1 and _begins_anew(task):
            yield _not_in_cpp_yet(_ANEW_IN_TURN.format(entry.task), span)


def _of_open_ends(deployment: Deployment, spans: Mapping[str, Span | None]) -> Iterator[Diagnostic]:
    """Errors for results that may be missing at one end and be there at another."""
    incomplete = lossy(deployment)
    for app in deployment.every_app:
        ends = [t for t in app.tasks if isinstance(t.code, BorderCode) and t.inputs]
        if len(ends) > 1 and any(t.name in incomplete for t in ends):
            message = f"app `{app.name}` goes on after errors, and has several `out`"
            yield _not_in_cpp_yet(message, spans.get(ends[0].name))


def _of_kind(task: DeployedTask, span: Span | None) -> Iterator[Diagnostic]:
    """Errors for the code of a task, where it is placed."""
    code = task.code
    if isinstance(code, PythonCode):
        message = f"the code of `{task.name}` for CPUs, where it runs or is measured, is in Python"
        help_text = (
            "give it `on cpu c`, or place it on the GPU and `build` it with `--no-measure`; or "
            f"{_OTHERWISE}"
        )
        yield Diagnostic("F660", message, span, help=help_text)
    elif isinstance(code, TensorRTCode):
        instead = (
            "place it on a CPU, or leave `tensorrt` out of the platform, whose GPU then has"
            " ONNX Runtime; or "
        )
        yield _not_in_cpp_yet(f"`{task.name}` runs in TensorRT", span, instead)
    elif not isinstance(code, _KINDS):
        yield _not_in_cpp_yet(f"`{task.name}` runs as code of the kind `{code.kind}`", span)
    if isinstance(code, CudaCode | OnnxCudaCode) and task.on_error != "stop":
        yield _not_in_cpp_yet(f"`{task.name}` goes on after errors, on a GPU", span)
    if not isinstance(code, CudaCode):
        return
    if code.graph:
        yield _not_in_cpp_yet(f"`{task.name}` is recorded as a graph", span)
    why = not_compilable(code)
    if why:
        message = f"the kernels of `{task.name}` cannot be compiled for a native program: {why}"
        yield Diagnostic("F661", message, span, help=_OTHERWISE)
