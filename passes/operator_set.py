"""Networks below operator set 7, converted by onnx's version converter: ONNX Runtime and TensorRT
lack their sums and products.

In: a loaded system. Out: the same with converted files in place of the original ones. Files that
cannot be converted stay, with a warning.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from ..machines.whoami import version_of
from ..model.application import Application, Network
from ..model.diagnostic import Diagnostic
from ..model.files import KEPT, make_folders, read_bytes, replace_file
from ..networks.onnx.interface import LARGEST
from .staged import Staged

#: The first operator set whose operators broadcast as NumPy does.
LEAST = 7


@dataclass(frozen=True, slots=True)
class OperatorSets:
    """Every network has the operators of set 7, as far as it can be converted."""

    def __call__(self, staged: Staged) -> Staged:
        root = Path(staged.system.path).parent
        warnings: dict[str, Diagnostic] = {}
        apps = tuple(_app(app, root, warnings) for app in staged.system.apps)
        diagnostics = (*staged.diagnostics, *warnings.values())
        return replace(staged, system=replace(staged.system, apps=apps), diagnostics=diagnostics)


def _app(app: Application, root: Path, warnings: dict[str, Diagnostic]) -> Application:
    tasks = []
    for task in app.tasks:
        network = task.network
        if network is not None and _is_old(network):
            made = _converted(network, root)
            if isinstance(made, str):
                message = f"`{network.file}` stays in operator set {network.opset}: {made}"
                warnings[message] = Diagnostic(
                    "F402",
                    message,
                    task.span,
                    help=f"export it with operator set {LEAST} or later",
                    severity="warning",
                )
            else:
                task = replace(task, network=made)
        tasks.append(task)
    return replace(app, tasks=tuple(tasks))


def _is_old(network: Network) -> bool:
    whole = not (network.model or network.segments or network.one_piece or network.library)
    if not whole or not 0 < network.opset < LEAST:
        return False
    from ..networks.onnx.upgrade import is_old
    from ..networks.tensorrt.checks import BROADCASTS

    return is_old(Path(network.path), network.opset, LEAST, BROADCASTS)


def _converted(network: Network, root: Path) -> Network | str:
    """The network with its converted file, which is kept; the reason if there is none."""
    from ..networks.onnx.upgrade import upgraded

    makers = version_of("onnx"), version_of("onnxruntime")
    words = repr((LEAST, *makers, network.content_hash, network.shapes))
    digest = hashlib.sha256(words.encode()).hexdigest()
    place = root / KEPT / digest[:16] / f"{Path(network.path).stem}.set{LEAST}-{digest[:6]}.onnx"
    try:
        content = read_bytes(place, LARGEST)
    except OSError:
        made = upgraded(Path(network.path), network.shapes, LEAST)
        if made is None:
            return "its conversion takes too long"
        content = made
        try:
            make_folders(root, place.parent.relative_to(root))
            replace_file(place, content)
        except OSError as error:
            return f"`{place}` cannot be written ({error.strerror})"
    if not content:
        return "onnx cannot convert it, so that it computes the same"
    digest = hashlib.sha256(content).hexdigest()
    return replace(network, path=str(place), external=(), content_hash=digest, opset=LEAST)
