"""Networks with sizes that vary: what follows for their outputs, and what they cannot have.

In: a network, made as if each size were the largest. Out: the same in one piece, with outputs that
vary wherever the file's sizes follow those of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..model.application import Network, Port, Task
from ..model.types import OPEN, TensorType
from ..networks.onnx.interface import Border, NetworkError, read_network
from . import syntax as s
from .context import Context
from .template import Template


def sized(template: Template, declaration: s.NetworkDecl, context: Context) -> Template | None:
    """A template whose network has ports that vary; None after a fault."""
    core = next(task for task in template.tasks if task.network is not None)
    assert core.network is not None
    outputs = _outputs(core, core.network, declaration, context)
    if outputs is None or _refused(declaration, context):
        return None
    tensors = [
        replace(tensor, type=port.type or tensor.type)
        for tensor, port in zip(core.network.outputs, outputs, strict=True)
    ]
    network = replace(core.network, outputs=tuple(tensors), one_piece="sizes that vary")
    types = {t.name: t.type for t in network.outputs}
    tasks = [
        replace(task, network=network, outputs=outputs)
        if task is core
        else replace(task, inputs=tuple(_after(port, types) for port in task.inputs))
        for task in template.tasks
    ]
    by_name = {port.name: port for port in outputs}
    seen = {
        name: (task, port if task else by_name[port.name])
        for name, (task, port) in template.outputs.items()
    }
    return replace(template, tasks=tuple(tasks), outputs=seen)


def _after(port: Port, types: dict[str, TensorType]) -> Port:
    """A port of a `post` has the type of the tensor that it reads."""
    return replace(port, type=types.get(port.name, port.type))


def _refused(declaration: s.NetworkDecl, context: Context) -> bool:
    """True after a fault: a setting that needs fixed sizes."""
    for item in declaration.items:
        if not isinstance(item, s.SettingDecl):
            continue
        if item.key == "batch" and not _is_one(item.value):
            message = "`batch` puts firings together, and these have sizes that vary"
        elif item.key == "precision" and _text(item.value) != "fp32":
            message = f"`{_text(item.value)}` is made for fixed sizes, and these vary"
        else:
            continue
        context.fault("F224", message, item.span, help=f"leave `{item.key}` out, or fix the sizes")
        return True
    return False


def _is_one(value: object) -> bool:
    return isinstance(value, s.Number) and value.value == 1


def _text(value: object) -> str:
    return value.text if isinstance(value, s.Word) else ""


def _outputs(
    core: Task, network: Network, declaration: s.NetworkDecl, context: Context
) -> tuple[Port, ...] | None:
    """The outputs of the network, with the axes along which they vary; None after a fault."""
    path, given = Path(network.path), {t.name: t.type for t in network.inputs}
    try:
        file = {b.name: b for b in read_network(path, {}, None).inputs}
        open_shapes = {name: _open(type_) for name, type_ in given.items()}
        made = {b.name: b for b in read_network(path, open_shapes, None).outputs}
    except NetworkError as fault:  # it can be read, but not with sizes that vary
        context.fault(fault.code, fault.message, declaration.span, help=fault.help)
        return None
    good = True
    for port, tensor in zip(core.inputs, network.inputs, strict=True):
        for axis in tensor.type.bounded:
            size = file[tensor.name].dims[axis]
            if isinstance(size, int):
                message = f"`{port.name}` is {tensor.type}, and the file has {size} there"
                help_text = f"write `{size}` instead of `up to`, or export it with an open size"
                context.fault("F224", message, port.span, help=help_text)
                good = False
    outputs = []
    written = {port.name.text for port in _typed(declaration)}
    for port, tensor in zip(core.outputs, network.outputs, strict=True):
        type_ = _type(tensor.type, made[tensor.name])
        if port.name in written and type_ != port.type:
            message = f"`{port.name}` is {port.type}, and the network makes {type_}"
            context.fault("F224", message, port.span, help=f"write {type_}")
            good = False
        outputs.append(replace(port, type=type_))
    return tuple(outputs) if good else None


def _typed(declaration: s.NetworkDecl) -> Iterator[s.NetPort]:
    """Ports that the text gives a type, which is that of their tensor."""
    for item in declaration.items:
        if isinstance(item, s.NetPort) and item.type is not None and item.wrap is None:
            yield item


def _open(type_: TensorType) -> tuple[int, ...]:
    return tuple(OPEN if axis in type_.bounded else n for axis, n in enumerate(type_.shape))


def _type(type_: TensorType, border: Border) -> TensorType:
    """The type of an output: it varies along the axes whose sizes the inputs do not fix."""
    if type_.open:
        return type_
    axes = [axis for axis, size in enumerate(border.dims) if not isinstance(size, int)]
    return TensorType(type_.dtype, type_.shape, tuple(axes))
