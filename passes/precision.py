"""Networks in 8 bits, or in fp16 for a TensorRT that computes in a model's types: converted once
and cached.

In: a loaded system. Out: the same with the converted files in place of the original ones, if they
exist; the conversion is a separate step, because it may run the network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..machines.whoami import version_of
from ..model.application import Application, Network, Task
from ..model.diagnostic import Diagnostic, Errors
from ..model.files import KEPT, make_folders, read_bytes, replace_file
from ..model.json_reader import parse, read
from ..model.system import System
from ..model.tensorrt import TensorRTVersion
from .staged import Staged

if TYPE_CHECKING:
    from ..networks.quantization.quantize import QuantizationLoss

#: Changes when the same network and data would be quantized, or the loss measured, differently.
RULES = 4


@dataclass(frozen=True, slots=True)
class Precision:
    """Converted networks in place of the original ones, as far as they are ready (`convert_network`
    makes them): for precisions of the text, and behind other passes for those that pins choose.
    """

    def __call__(self, staged: Staged) -> Staged:
        system, waiting, losses = with_precision(staged.system, staged.platform.tensorrt)
        return replace(
            staged,
            system=system,
            unquantized=tuple({t.definition: t for t in (*staged.unquantized, *waiting)}.values()),
            losses=staged.losses | losses,
        )


def with_precision(
    system: System, tensorrt: tuple[int, ...] = ()
) -> tuple[System, tuple[Task, ...], dict[str, tuple[QuantizationLoss, ...]]]:
    """The system with converted networks as far as they are ready, a task of each other one, and
    losses by network.
    """
    waiting: dict[str, Task] = {}
    losses: dict[str, tuple[QuantizationLoss, ...]] = {}

    def ready(task: Task) -> Task:
        network = task.network
        if network is None or not _converts(network, tensorrt):
            return task
        found = converted(system, task, tensorrt)
        if found is None:
            waiting.setdefault(network.definition, task)
            return task
        made, of_network = found
        if of_network is not None:
            losses[network.definition] = of_network
        return made

    apps = tuple(_each(app, ready) for app in system.apps)
    return replace(system, apps=apps), tuple(waiting.values()), losses


def converted(
    system: System, task: Task, tensorrt: tuple[int, ...] = ()
) -> tuple[Task, tuple[QuantizationLoss, ...] | None] | None:
    """The task with the converted file of its network, and the loss of 8 bits; None if that is not
    there yet."""
    network = task.network
    assert network is not None
    place = _place(system, network, tensorrt)
    file = place / _name(network, place)
    losses = None
    try:
        if network.precision == "int8":
            from ..networks.quantization.quantize import QuantizationLoss

            losses = read(tuple[QuantizationLoss, ...], parse(read_bytes(place / "loss.json")))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None
    made = replace(
        network, path=str(file), external=(), content_hash=digest, converted_from=network
    )
    return replace(task, network=made), losses


def _each(app: Application, change: Callable[[Task], Task]) -> Application:
    return replace(app, tasks=tuple(change(t) for t in app.tasks))


def _converts(network: Network, tensorrt: tuple[int, ...]) -> bool:
    if network.converted_from is not None or network.model or network.moving is not None:
        return False  # stages were cut from the converted file
    if network.precision == "fp16":
        return TensorRTVersion(tensorrt).strongly_typed
    return network.precision == "int8" and network.calibrate is not None


def _name(network: Network, place: Path) -> str:
    return f"{Path(network.path).stem}.{network.precision}-{place.name[:6]}.onnx"


def _place(system: System, network: Network, tensorrt: tuple[int, ...]) -> Path:
    """The folder of a converted network: by its content, that of its calibration data, and who
    converted it.
    """
    if network.calibrate is None or network.precision == "fp16":
        words = RULES, version_of("onnxruntime"), network.content_hash, network.precision
        digest = hashlib.sha256(repr(words).encode())
        return Path(system.path).parent / KEPT / digest.hexdigest()[:16]
    root, pattern = Path(network.calibrate.path), network.calibrate.text
    scheme: tuple[str, ...] = ()
    if tensorrt:
        scheme = ("fp16" if TensorRTVersion(tensorrt).strongly_typed else "ranges",)
    quantized = RULES, version_of("onnxruntime"), network.content_hash, pattern, *scheme
    digest = hashlib.sha256(repr(quantized).encode())
    for file in _files(root, pattern):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return Path(system.path).parent / KEPT / digest.hexdigest()[:16]


def _files(root: Path, pattern: str) -> Iterable[Path]:
    try:
        return sorted(p for p in root.glob(pattern) if p.is_file())
    except (ValueError, NotImplementedError):  # no pattern: reported when the network is quantized
        return ()


def convert_network(system: System, task: Task, tensorrt: tuple[int, ...] = ()) -> None:
    """Convert the network of a task and keep it, one of 8 bits with its loss. Raises Errors.

    For a platform with TensorRT, 8 bits are in its scheme, with the ranges of all tensors in the
    model; where types decide, what is not in 8 bits is in fp16.
    """
    from ..networks.onnx.interface import Border, NetworkError
    from ..networks.quantization.calibration import calibration
    from ..networks.quantization.half import in_half, rest_in_half
    from ..networks.quantization.implicit import with_ranges
    from ..networks.quantization.quantize import CPU, TENSORRT, loss, quantize

    network = task.network
    assert network is not None
    if network.precision == "fp16":
        import onnx

        place = _place(system, network, tensorrt)
        return _keep(place, {_name(network, place): in_half(onnx.load(network.path))})
    assert network.calibrate is not None
    borders = [Border(t.name, t.type.dtype, t.type.shape) for t in network.inputs]
    try:
        samples = calibration(network.calibrate.text, Path(network.calibrate.path), borders)
        model = quantize(Path(network.path), samples, TENSORRT if tensorrt else CPU)
        if TensorRTVersion(tensorrt).strongly_typed:
            model = rest_in_half(model)
        elif tensorrt:
            model = with_ranges(model, samples)
        losses = loss(Path(network.path), model, samples)
    except NetworkError as fault:
        span = task.span
        if fault.code == "F410":  # it is about the samples
            span = network.calibrate.span or span
        raise Errors([Diagnostic(fault.code, fault.message, span, help=fault.help)]) from fault
    place = _place(system, network, tensorrt)
    stored = json.dumps([asdict(x) for x in losses]).encode()
    _keep(place, {_name(network, place): model, "loss.json": stored})


def _keep(place: Path, files: dict[str, bytes]) -> None:
    try:
        make_folders(place.parent.parent, place.relative_to(place.parent.parent))
        for name, content in files.items():
            replace_file(place / name, content)
    except OSError as error:
        raise Errors(
            [Diagnostic("F605", f"cannot write `{place}`: {error.strerror}", None)]
        ) from error
