"""Networks that a pin cuts into stages become chains of tasks, one per stage.

In: apps, and the pins of one platform. Out: the same apps with `App.net.stage1`, `App.net.stage2`,
... instead of `App.net`, each with a model of its own, and a pin for each. So checks, analyses,
searches and code generation see only tasks. Networks that cannot be cut are unchanged and reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ..model.application import Application, Channel, Network, PathDeadline, Port, Task, Tensor
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import Pin
from ..model.platform import Platform
from ..model.tensorrt import TensorRTVersion
from ..model.types import TensorType
from .precision import Precision
from .staged import BUILD_ONLY, Staged

#: How many stages a network may have whose cuts move.
MOVING = range(2, 5)

if TYPE_CHECKING:
    from ..networks.onnx.interface import Border
    from ..networks.onnx.split import SplitError, Stage, StageInput


@dataclass(frozen=True, slots=True)
class Stages:
    """Every network that a pin cuts becomes a chain of tasks."""

    def __call__(self, staged: Staged) -> Staged:
        cut = with_stages(staged.system.apps, staged.platform, staged.system.pins)
        shown = tuple(d for d in cut.diagnostics if d.code not in BUILD_ONLY)
        system = replace(staged.system, apps=cut.apps, pins=cut.pins)
        diagnostics = (*staged.diagnostics, *shown)
        return Precision()(replace(staged, system=system, diagnostics=diagnostics))


@dataclass(frozen=True, slots=True)
class CutApps:
    """Apps and pins after cutting, and faults."""

    apps: tuple[Application, ...]
    pins: tuple[Pin, ...]
    diagnostics: tuple[Diagnostic, ...]


def with_stages(apps: Iterable[Application], platform: Platform, pins: Iterable[Pin]) -> CutApps:
    """Cut every network that a pin of this platform gives several stages."""
    changed = {a.name: a for a in apps}
    kept: list[Pin] = []
    faults: list[Diagnostic] = []
    for pin in pins:
        if pin.platform != platform.name or not _cuts(pin):
            kept.append(pin)
            continue
        app = changed[pin.task.partition(".")[0]]
        task = app.task(pin.task)
        cut = _split(task, pin, platform)
        if isinstance(cut, Diagnostic):
            faults.append(cut)
            kept.append(pin)
        elif pin.wcet_ns is not None or (pin.adapt and len(pin.stages) not in MOVING):
            kept.append(pin)  # refused by targets/pins.py
        else:
            changed[app.name] = _with_cut(app, cut, pin)
            kept += _pins_of_stages(pin)
    apps = (in_precision(app, kept, platform.name) for app in changed.values())
    return CutApps(tuple(apps), tuple(kept), tuple(faults))


def in_precision(app: Application, pins: Iterable[Pin], platform: str) -> Application:
    """The app with networks in the precision of their pins."""
    wanted = {p.task: p.stages[0].precision for p in pins if p.platform == platform}
    tasks = []
    for task in app.tasks:
        precision = wanted.get(task.name)
        if task.network is not None and precision:
            task = replace(task, network=replace(task.network, precision=precision))
        tasks.append(task)
    return replace(app, tasks=tuple(tasks))


def _cuts(pin: Pin) -> bool:
    return len(pin.stages) > 1 or pin.stages[0].until is not None


@dataclass(frozen=True, slots=True)
class _Cut:
    """The stages of a task's network. The tensors `halved` go from one to others in 16 bits."""

    task: Task
    network: Network
    stages: tuple[Stage, ...]
    halved: frozenset[str]


def _with_cut(app: Application, cut: _Cut, pin: Pin) -> Application:
    """The app with the stages of a task; with `adapt`, their cut may move."""
    if not pin.adapt:
        return _replaced(app, cut)
    from .moving import moving

    layers = tuple(stage.until or "" for stage in pin.stages[:-1])
    return moving(app, cut.task, cut.network, layers)


def _pins_of_stages(pin: Pin) -> Iterator[Pin]:
    """A pin for each stage."""
    last = len(pin.stages)
    for number, stage in enumerate(pin.stages, 1):
        name = f"{pin.task}.stage{number}"
        pre = pin.pre if number == 1 else 1
        post = pin.post if number == last else 1
        own = (replace(stage, until=None),)
        yield Pin(pin.platform, name, own, None, pin.buffers, pin.span, pre, post)


def _split(task: Task, pin: Pin, platform: Platform) -> _Cut | Diagnostic:
    from ..networks.onnx.interface import NetworkError
    from ..networks.onnx.split import SplitError

    network = task.network
    if network is None:
        help_text = (
            "pin it to one processor, or several to share its firings: `-> processor, processor`"
        )
        return Diagnostic(
            "F507", f"`{task.name}` is no network: it has no layers", pin.span, help=help_text
        )
    fault = _unfit_network(task.name, network, pin) or _unfit_ends(pin)
    if fault is not None:
        return fault
    path = Path(network.path)
    fixed = tuple((t.name, t.type.shape) for t in network.inputs)
    layers = tuple(s.until or "" for s in pin.stages[:-1])
    try:
        stages = _stages(str(path), path.stat().st_mtime_ns, fixed, layers)
    except SplitError as error:
        return _fault(error, pin, network.file)
    except NetworkError as error:
        return Diagnostic(error.code, error.message, pin.span, help=error.help)
    halved = _halved(network, pin, stages, platform)
    return _unread(network, pin, stages) or _Cut(task, network, stages, halved)


def _halved(
    network: Network, pin: Pin, stages: tuple[Stage, ...], platform: Platform
) -> frozenset[str]:
    """The tensors of 32 bits between stages that compute in fp16.

    A strongly typed TensorRT gets a model in 16 bits (`passes.precision`);
    native programs have no TensorRT.
    """
    version = TensorRTVersion(platform.tensorrt)
    if not version or version.strongly_typed or platform.native:
        return frozenset()
    if (pin.stages[0].precision or network.precision) != "fp16":
        return frozenset()
    crossing = {
        border.name for stage in stages for border in stage.outputs if border.dtype == "float32"
    }
    crossing -= {t.name for t in network.outputs}
    for stage, own in zip(stages, pin.stages, strict=True):
        known = set(own.processors) & set(platform.processors)
        if any(platform.pool_of(p).kind == "cpu" for p in known):
            crossing -= {b.name for b in stage.outputs}
            crossing -= {i.tensor.name for i in stage.inputs}
    return frozenset(crossing)


def _unfit_network(name: str, network: Network, pin: Pin) -> Diagnostic | None:
    """Why a network cannot be cut, whatever its stages are."""
    if network.one_piece:
        message = f"`{name}` has {network.one_piece}: it stays in one piece"
        return Diagnostic(
            "F404", message, pin.span, help="pin it to one processor, without `until`"
        )
    if network.model:
        message = (
            f"`{name}` is an exit of `{network.file}`: its stages have to be pinned in the text"
        )
        return Diagnostic(
            "F507", message, pin.span, help="write the pin in a `mapping` of the text"
        )
    if network.batch > 1:
        message = f"`{name}` groups {network.batch} firings: such a network cannot be cut yet"
        return Diagnostic("F505", message, pin.span, help="leave `batch` out")
    return None


def _unfit_ends(pin: Pin) -> Diagnostic | None:
    """Every stage but the last one names its last layer."""
    *inner, last = pin.stages
    if last.until is not None:
        message = "the last stage goes to the end of the network"
        return Diagnostic(
            "F507", message, last.span, help=f'leave `until "{last.until}"` out, or add a stage'
        )
    for stage in inner:
        if stage.until is None:
            message = "the end of this stage is not given"
            return Diagnostic(
                "F507", message, stage.span, help='name its last layer: `until "LAYER"`'
            )
    return None


def _unread(network: Network, pin: Pin, stages: tuple[Stage, ...]) -> Diagnostic | None:
    """An input of the network that no stage reads, or a stage that gives nothing."""
    read, crossing = _read(stages)
    for tensor in network.inputs:
        if tensor.name not in read:
            message = f"input `{tensor.name}` of `{network.file}` is read by no layer"
            return Diagnostic("F507", message, pin.span, help="remove it from the network")
    wanted = {*crossing, *(t.name for t in network.outputs)}
    for stage, own in zip(stages, pin.stages, strict=True):
        if not any(b.name in wanted for b in stage.outputs):
            message = "the outputs of this stage are not read"
            return Diagnostic(
                "F507", message, own.span, help="leave it out: its layers belong to no port"
            )
    return None


def _read(stages: tuple[Stage, ...]) -> tuple[dict[str, None], dict[str, None]]:
    """The tensors that stages read: from outside, and from stages before; each once, in order."""
    outside: dict[str, None] = {}
    crossing: dict[str, None] = {}
    for stage in stages:
        for wanted in stage.inputs:
            names = outside if wanted.from_stage is None else crossing
            names[wanted.tensor.name] = None
    return outside, crossing


def _fault(fault: SplitError, pin: Pin, file: str) -> Diagnostic:
    """The fault with its place in the text and a remedy; names of layers may contain any
    character.
    """
    from ..networks.onnx.split import NoSuchLayer, OutOfOrder

    listed = f"`flowc analyze {file} --cuts` lists layers"
    if isinstance(fault, NoSuchLayer):
        at = next((s.span for s in pin.stages if s.until == fault.layer), pin.span)
        close = one_of(json.dumps(c) for c in fault.close)
        message = f"`{file}` has no layer {json.dumps(fault.layer)}"
        return Diagnostic(
            "F507", message, at, help=f"did you mean {close}?" if fault.close else listed
        )
    if isinstance(fault, OutOfOrder):
        at = next((s.span for s in pin.stages if s.until == fault.then), pin.span)
        message = f"layer {json.dumps(fault.then)} comes before {json.dumps(fault.first)}"
        return Diagnostic(
            "F507", message, at, help="name the last layers of stages from front to back"
        )
    return Diagnostic("F507", str(fault).replace("\n", " "), pin.span, help=listed)


@lru_cache(maxsize=2)  # whole models, with their weights
def _stages(
    path: str, modified: int, fixed: tuple[tuple[str, tuple[int, ...]], ...], after: tuple[str, ...]
) -> tuple[Stage, ...]:
    from ..networks.onnx.split import split

    return split(Path(path), dict(fixed), 1, after)


def _replaced(app: Application, cut: _Cut) -> Application:
    """The app with the stages as tasks; a tensor goes from the stage that makes it to every stage
    that reads it.
    """
    task, chain = cut.task, _Chain(cut)
    channels = list(chain.channels)
    for c in app.channels:
        source, out, readers = c.source, c.source_port, [c.destination]
        if c.source == task.name:
            source, out = chain.makers[c.source_port]
        if c.destination == task.name:
            readers = chain.readers[c.destination_port]
        for reader in readers:
            name = f"{source}.{out}->{reader}.{c.destination_port}"
            channels.append(
                replace(c, name=name, source=source, source_port=out, destination=reader)
            )
    position = app.tasks.index(task)
    tasks = (*app.tasks[:position], *chain.tasks, *app.tasks[position + 1 :])
    paths = ending_at(app, task, chain.tasks[-1])
    return replace(app, tasks=tasks, channels=tuple(channels), paths=paths)


def ending_at(app: Application, task: Task, last: Task) -> tuple[PathDeadline, ...]:
    """The deadlines of the app's paths, where the `last` stage ends what the `task` ended."""
    return tuple(replace(p, sink=last.name) if p.sink == task.name else p for p in app.paths)


#: A port of a stage, and the tensor of its model that it carries.
_Carried = tuple[Port, Tensor]


class _Chain:
    """The stages as tasks, the channels between them, and the stages of the network's ports.

    `makers[port]` is the (task, port) that gives an output, `readers[port]` are the tasks that take
    an input.
    """

    def __init__(self, cut: _Cut) -> None:
        task, network, stages = cut.task, cut.network, cut.stages
        self._task, self._network, self._halved = task, network, cut.halved
        self._inputs = {t.name: p for p, t in zip(task.inputs, network.inputs, strict=True)}
        self._outputs: dict[str, list[Port]] = {}
        for port, tensor in zip(task.outputs, network.outputs, strict=True):
            self._outputs.setdefault(tensor.name, []).append(port)
        _, crossing = _read(stages)
        self._names = _port_names(crossing, {p.name for p in (*task.inputs, *task.outputs)})
        self.tasks: list[Task] = []
        self.channels: list[Channel] = []
        self.makers: dict[str, tuple[str, str]] = {}
        self.readers: dict[str, list[str]] = {}
        self._made: dict[str, tuple[str, str]] = {}
        for number, stage in enumerate(stages, 1):
            name = f"{task.name}.stage{number}"
            taken = [self._take(name, i) for i in stage.inputs]
            outputs: list[_Carried] = []
            for border in stage.outputs:
                outputs += self._give(name, border)
            self.tasks.append(self._stage(name, stage, taken, outputs))

    def _take(self, name: str, wanted: StageInput) -> _Carried:
        tensor = Tensor(wanted.tensor.name, self._type(wanted.tensor))
        if wanted.from_stage is None:
            port = self._inputs[tensor.name]
            self.readers.setdefault(port.name, []).append(name)
            return port, tensor
        port = Port(self._names[tensor.name], "in", tensor.type, (1,), False, self._task.span)
        source, out = self._made[tensor.name]
        channel = f"{source}.{out}->{name}.{port.name}"
        self.channels.append(Channel(channel, source, out, name, port.name, 0, (), self._task.span))
        return port, tensor

    def _type(self, border: Border) -> TensorType:
        """The type of a tensor on its way between stages."""
        dtype = "float16" if border.name in self._halved else border.dtype
        return TensorType(dtype, border.shape)

    def _give(self, name: str, border: Border) -> Iterator[_Carried]:
        """The output ports of the whole that carry the tensor, or one for the stages that read
        it.
        """
        ports = self._outputs.get(border.name, [])
        if not ports and border.name in self._names:
            kind = self._type(border)
            ports = [Port(self._names[border.name], "out", kind, (1,), False, self._task.span)]
        for port in ports:
            assert port.type is not None
            self.makers[port.name] = self._made[border.name] = (name, port.name)
            yield port, Tensor(border.name, port.type)

    def _stage(
        self,
        name: str,
        stage: Stage,
        inputs: list[_Carried],
        outputs: list[_Carried],
    ) -> Task:
        whole = self._network
        file = PurePath(whole.file)
        # No instance is called so: a name has no `-`, and a file of the user is not expected to
        # have an `=`.
        own = re.sub(r"\[(\d+)\]", r"-\1", f"{file.stem}={name}{file.suffix}")
        network = replace(
            whole,
            file=str(file.with_name(own)),
            path=str(Path(whole.path).with_name(own)),
            inputs=tuple(tensor for _, tensor in inputs),
            outputs=tuple(tensor for _, tensor in outputs),
            external=(),
            content_hash=hashlib.sha256(stage.model).hexdigest(),
            model=stage.model,
            cut_from=whole,
            halved=tuple(
                tensor.name for _, tensor in (*inputs, *outputs) if tensor.name in self._halved
            ),
        )
        return replace(
            self._task,
            name=name,
            inputs=tuple(port for port, _ in inputs),
            outputs=tuple(port for port, _ in outputs),
            network=network,
        )


def _port_names(tensors: Iterable[str], taken: set[str]) -> dict[str, str]:
    """A port name for every tensor between stages: like the tensor, as far as a name allows."""
    names: dict[str, str] = {}
    used = set(taken)
    for tensor in tensors:
        plain = re.sub(r"\W", "_", tensor, flags=re.ASCII)
        name = base = plain if plain[:1].isalpha() else f"t{plain}"
        count = 1
        while name in used:
            count += 1
            name = f"{base}_{count}"
        used.add(name)
        names[tensor] = name
    return names
