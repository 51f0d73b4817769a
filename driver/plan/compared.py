"""Engines against ONNX Runtime, before a program is built for them.

In: a valid system with pins. Out: errors for networks that another engine refuses, or for which it
gives other results on the same data. What was found is kept beside the text, since it takes seconds
for large networks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...codegen.sources import Sources
from ...machines.whoami import processor_name, version_of
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic
from ...model.files import KEPT, make_folders, read_bytes, replace_file, scratch
from ...model.json_reader import parse, read
from ...networks.engines import Engine, engine_of
from ...networks.engines.tolerance import ATOL, RTOL, least_db
from ...networks.onnx.interface import Border, NetworkError
from ...networks.quantization.calibration import calibration
from ...targets.inference import engines_in
from ..text.check import Valid

if TYPE_CHECKING:
    import numpy as np

#: Changes when the same network would be judged differently.
RULES = 1
#: So many samples are compared, if there are as many.
SAMPLES = 8


def engine_faults(valid: Valid) -> list[Diagnostic]:
    """Errors for the networks whose pins name an engine that does not give what ONNX Runtime
    gives."""
    faults = []
    for name, engine in engines_in(valid.system, valid.platform).items():
        task = valid.tasks.get(name)
        if task is not None and task.network is not None:
            reason = refused(task, task.network, engine_of(engine), Path(valid.system.path).parent)
            if reason:
                code, message = reason
                help_text = "leave `engine` out: ONNX Runtime runs it"
                faults.append(Diagnostic(code, message, task.span, help=help_text))
    return faults


def refused(task: Task, network: Network, engine: Engine, beside: Path) -> tuple[str, str] | None:
    """Code and message of an error if the engine does not run the network as ONNX Runtime does.

    The answer is kept in a folder `beside` the text.
    """
    place = beside / KEPT / f"engine-{_key(network, engine)}.json"
    with suppress(OSError, ValueError):
        code, reason = read(tuple[str, str], parse(read_bytes(place)))
        return (code, f"`{task.name}`: {reason}") if code else None
    found = _compared(network, engine) or ("", "")
    with suppress(OSError):  # then it is compared again
        make_folders(beside, Path(KEPT))
        replace_file(place, json.dumps(found).encode())
    code, reason = found
    return (code, f"`{task.name}`: {reason}") if code else None


def _key(network: Network, engine: Engine) -> str:
    """A hash over all that the comparison depends on."""
    shapes = [(t.name, str(t.type)) for t in (*network.inputs, *network.outputs)]
    data = None if network.calibrate is None else network.calibrate.text
    words = (RULES, engine.name, engine.version, version_of("onnxruntime"), processor_name())
    about = (network.content_hash, network.batch, shapes, data, SAMPLES)
    return hashlib.sha256(repr((*words, *about)).encode()).hexdigest()[:16]


def _compared(network: Network, engine: Engine) -> tuple[str, str] | None:
    """Run both on the same data; code and reason if they differ."""
    from ... import runtime
    from ...runtime.noise import Noise
    from ...runtime.tokens import Port, TaskError

    names = [t.name for t in network.inputs], [t.name for t in network.outputs]
    ports = [
        [Port(t.name, t.type.dtype, t.type.shape) for t in side]
        for side in (network.inputs, network.outputs)
    ]
    with scratch(None, "flowc-engine-") as home:
        file = _placed(network, home)
        codes = [getattr(runtime, word)(file, *names) for word in (engine_of("").word, engine.word)]
        try:
            for code in codes:
                code.open(str(home), *ports)
            noise, least = Noise(), least_db(network.precision)
            for number, sample in enumerate(_samples(network)):
                wanted, made = (code.fire(sample, number) for code in codes)
                noise.add(wanted, made)
                for tensor, one, other in zip(network.outputs, wanted, made, strict=True):
                    reason = _difference(one, other, exact=least is None)
                    if reason:
                        where = f"{engine.title} {engine.version} gives another `{tensor.name}`"
                        return "F541", f"{where} than ONNX Runtime: {reason}"
            if least is not None and not noise.within(least):
                where = f"{engine.title} {engine.version} in {network.precision}: {noise}"
                return "F541", f"{where}, at least {least:g} dB are asked for"
        except TaskError as error:
            return "F540", str(error)
        finally:
            for code in codes:
                code.close()
    return None


def _placed(network: Network, home: Path) -> str:
    """The network with its weights in a folder, as in a build; its path there."""
    sources = Sources(Path(network.path).parent)
    file = sources.place("networks", network.path, network.model or None)
    for name in network.external:
        sources.place("networks", Path(network.path).parent / name)
    for path, content in sources.plan.items():
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.symlink_to(Path(content).resolve())
    return file


def _samples(network: Network) -> Iterator[Sequence[np.ndarray]]:
    """Data for the inputs: the network's calibration files, else random numbers."""
    import numpy as np

    if network.calibrate is not None:
        borders = [Border(t.name, t.type.dtype, t.type.shape) for t in network.inputs]
        with suppress(NetworkError):  # which is reported where the network is quantized
            found = calibration(network.calibrate.text, Path(network.calibrate.path), borders)
            for sample in found[:SAMPLES]:
                yield [sample[t.name] for t in network.inputs]
            return
    random = np.random.default_rng(1)
    for _ in range(SAMPLES):
        yield [_drawn(t.type.dtype, t.type.shape, random) for t in network.inputs]


def _drawn(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Numbers of a type: normal ones, all bytes, and of other whole numbers 0 and 1, which may be
    indices."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    return random.integers(0, 256 if kind == np.uint8 else 2, shape).astype(kind)


def _difference(wanted: np.ndarray, made: np.ndarray, *, exact: bool) -> str:
    """How two arrays differ, in words; empty if they agree. Numbers count if they are `exact`."""
    import numpy as np

    if wanted.shape != made.shape or wanted.dtype != made.dtype:
        return f"{made.dtype} {list(made.shape)} for {wanted.dtype} {list(wanted.shape)}"
    if not exact:
        return ""
    if wanted.dtype.kind == "f":
        near = np.isclose(made, wanted, RTOL, ATOL, equal_nan=True)
    else:
        near = made == wanted
    if near.all():
        return ""
    return f"{near.size - int(near.sum())} of {near.size} numbers differ"
