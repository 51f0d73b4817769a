"""Networks below operator set 7, converted by onnx's version converter: ONNX Runtime and TensorRT
lack their sums and products.

In: a loaded system. Out: the same with converted files in place of the original ones. Files that
cannot be converted stay, for engines to judge.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from ..machines.whoami import version_of
from ..model.application import Application, Network
from ..model.diagnostic import Diagnostic, Errors
from ..model.files import KEPT, make_folders, read_bytes, replace_file
from .staged import Staged

#: The first operator set whose operators broadcast as NumPy does.
LEAST = 7
#: Stands for a model that cannot be converted.
STAYS = b"it stays as it is"


@dataclass(frozen=True, slots=True)
class OperatorSets:
    """Every network has operator set 7 or later, as far as it can be converted."""

    def __call__(self, staged: Staged) -> Staged:
        root = Path(staged.system.path).parent
        apps = tuple(_app(app, root) for app in staged.system.apps)
        return replace(staged, system=replace(staged.system, apps=apps))


def _app(app: Application, root: Path) -> Application:
    tasks = []
    for task in app.tasks:
        if task.network is not None and _is_old(task.network):
            task = replace(task, network=_converted(task.network, root))
        tasks.append(task)
    return replace(app, tasks=tuple(tasks))


def _is_old(network: Network) -> bool:
    whole = not (network.model or network.segments or network.one_piece or network.library)
    return whole and 0 < network.opset < LEAST


def _converted(network: Network, root: Path) -> Network:
    """The network with its converted file, which is kept; itself if it cannot be converted."""
    from ..networks.onnx.upgrade import upgraded

    words = repr((LEAST, version_of("onnx"), network.content_hash, network.shapes))
    digest = hashlib.sha256(words.encode()).hexdigest()
    place = root / KEPT / digest[:16] / f"{Path(network.path).stem}.set{LEAST}-{digest[:6]}.onnx"
    try:
        content = read_bytes(place)
    except OSError:
        content = upgraded(Path(network.path), network.shapes, LEAST) or STAYS
        _keep(place, content, root)
    if content == STAYS:
        return network
    made = hashlib.sha256(content).hexdigest()
    return replace(network, path=str(place), external=(), content_hash=made, opset=LEAST)


def _keep(place: Path, content: bytes, root: Path) -> None:
    try:
        make_folders(root, place.parent.relative_to(root))
        replace_file(place, content)
    except OSError as error:
        if content == STAYS:
            return
        message = f"cannot write `{place}`: {error.strerror}"
        raise Errors([Diagnostic("F605", message, None)]) from error
