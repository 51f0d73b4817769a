"""The model that a text means by a file, kept in a folder beside the text.

In: a file, and what the text says about its tensors (`Wishes`). Out: the path of a model without
the inputs that the text makes constants, without outputs that no channel can carry, and without
control flow that these constants and sizes decide: the file itself where nothing changes. ONNX
Runtime computes what follows from constants, in a process with limits (`fold.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from ...model.files import KEPT, make_folders, read_bytes, reason, replace_file, scratch
from .extract import LIMIT
from .fold import SECONDS, Request
from .interface import LARGEST, NetworkError, NetworkInterface

#: Changes when the same file and wishes would make another model.
RULES = 1
#: What stands for a model that is the file itself.
SAME = b"the file itself"
#: The process that folds. Modules of the folder in which flowc was started are not its own.
_CHILD = "from flowc.networks.onnx.fold import limited_main; limited_main()"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a text says about the tensors of a file.

    `shapes` of inputs (-1: left open), `constants` in place of inputs, by their numbers, and the
    outputs that ports name (`named`), which stay whatever their type is; of those that a `ZipMap`
    makes its rows stay in any case. `sizes`: outputs with open
    dimensions are to be asked for.
    """

    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, tuple[str, ...]]
    named: frozenset[str]
    sizes: bool = False


def prepared(path: Path, look: NetworkInterface, wishes: Wishes, root: Path) -> Path:
    """The model that is meant, in `.flowc` below the folder `root` if it is not the file itself.

    `look` is the interface of the file. Raises NetworkError: F402 where ONNX Runtime refuses the
    model, F605 where it cannot be written.
    """
    cut = _outputs_to_cut(look, wishes)
    fold = bool(wishes.constants) or wishes.sizes or bool(look.one_piece)
    if not cut and not fold:
        return path
    if _size(path, look) > LIMIT:
        if cut or wishes.constants:
            message = f"`{path.name}` is larger than 2 GB: it cannot be changed as the text asks"
            raise NetworkError("F402", message, "export it as the text wants it")
        return path
    request = Request(
        str(path.resolve()),
        dict(wishes.shapes),
        dict(wishes.constants),
        tuple(cut),
        fold,
        not look.foreign,
    )
    place = _place(request, look, path.stem, root)
    try:
        same = place.stat().st_size == len(SAME)
    except OSError:
        content = _made(request, path.name)
        same = content is None
        _keep(place, content, root)
    return path if same else place


def _outputs_to_cut(look: NetworkInterface, wishes: Wishes) -> list[str]:
    """The outputs that no token carries and that the text does not name. If none was left, the
    outputs are faults of the text: then all stay."""
    kept = wishes.named.difference(look.zipped)
    cut = [b.name for b in look.outputs if not b.carried and b.name not in kept]
    leaves_none = len(cut) == len(look.outputs) and not look.zipped
    return [] if leaves_none else cut


def _place(request: Request, look: NetworkInterface, stem: str, root: Path) -> Path:
    """Where the model of a request is kept, by all that it depends on."""
    words = RULES, _versions(), look.content_hash
    said = json.dumps({**asdict(request), "path": ""}, sort_keys=True)
    digest = hashlib.sha256(f"{words} {said}".encode()).hexdigest()
    return root / KEPT / digest[:16] / f"{stem}.{digest[:6]}.onnx"


def _keep(place: Path, content: bytes | None, root: Path) -> None:
    """Write a model; None: the file itself is the model. Raises NetworkError where a model cannot
    be written."""
    try:
        make_folders(root, place.parent.relative_to(root))
        replace_file(place, content or SAME)
    except OSError as error:
        if content is not None:
            message = f"cannot write `{place}`: {reason(error)}"
            raise NetworkError("F605", message, "make its folder writable") from error


def _size(path: Path, look: NetworkInterface) -> int:
    """Bytes of a file with its weights outside of it."""
    files = [path, *(path.parent / name for name in look.external)]
    return sum(file.stat().st_size for file in files)


def _versions() -> dict[str, str]:
    """Which of the libraries would make the model."""
    found = {}
    for package in ("onnx", "onnxruntime"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _made(request: Request, name: str) -> bytes | None:
    """The model of a request; None where that is the file itself."""
    with scratch() as folder:
        (folder / "request.json").write_text(json.dumps(asdict(request)))
        command = [sys.executable, "-P", "-c", _CHILD, str(folder)]
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=2 * SECONDS,
                check=False,
            )
            status, said = ended.returncode, ended.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            status, said = -1, ""
        refused, made = folder / "refused.txt", folder / "model.onnx"
        if refused.is_file():
            lines = read_bytes(refused).decode(errors="replace").splitlines()
            line = next((x.strip() for x in lines if x.strip()), "")
            message = f"ONNX Runtime refuses `{name}`: {line[:400]}"
            raise NetworkError("F402", message, "export it again, or change what the text fixes")
        if status > 0:
            raise RuntimeError(f"`{name}` cannot be prepared: {said}")
        if status != 0:
            message = f"`{name}` takes too long to prepare, or too much memory"
            raise NetworkError("F402", message, "export it with constants computed")
        return read_bytes(made, LARGEST) if made.is_file() else None
