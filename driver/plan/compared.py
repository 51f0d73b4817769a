"""Engines against ONNX Runtime, before a program is built for them.

In: a valid system with pins. Out: errors for networks that another engine refuses, or for which it
gives other results on the same data. What was found is kept beside the text, since it takes seconds
for large networks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING

from ...codegen.sources import Sources
from ...machines.whoami import processor_name, version_of
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic
from ...model.files import KEPT, make_folders, read_bytes, replace_file, scratch
from ...model.json_reader import parse, read
from ...networks.engines import Engine, engine_of
from ...networks.engines.tolerance import ATOL, LEAST_DB, RTOL, least_db, least_db_of_engines
from ...networks.onnx.interface import Border, NetworkError
from ...networks.quantization.calibration import calibration
from ...networks.quantization.tails import Part, parts
from ...targets.inference import runs_in
from ..text.check import Valid

if TYPE_CHECKING:
    import numpy as np

    from ...runtime.code import Code

#: Changes when the same network would be judged differently.
RULES = 3
RANDOM, SOURCE = "of random numbers", "of its source"
#: Inputs of firings.
Samples = list[list["np.ndarray"]]
#: So many samples are compared, if there are as many: in 32 bits, and in fewer, where a ratio has
#: to settle.
SAMPLES, MORE_SAMPLES = 8, 32


@dataclass(frozen=True, slots=True)
class Compared:
    """How near the results of a network on an engine are to those of ONNX Runtime in 32 bits.

    `figure` is that in words, if its `precision` has fewer bits; after an error `code` and `reason`
    say why it is not built.
    """

    task: str
    network: str
    engine: str
    precision: str
    figure: str = ""
    code: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"`{self.network}` in {self.precision} on {self.engine}: {self.figure}"


@dataclass(frozen=True, slots=True)
class _Kept:
    """The part of it that is kept beside the text."""

    figure: str = ""
    code: str = ""
    reason: str = ""


def engine_comparisons(valid: Valid) -> list[Compared]:
    """The comparison of each network on another engine than ONNX Runtime, or in fewer bits that a
    pin or a mapping chose; those of the same definition and precision are compared once."""
    found: dict[tuple[str, str, str], Compared] = {}
    for name, (engine, precision) in runs_in(valid.system, valid.platform).items():
        task = valid.tasks.get(name)
        if task is not None and task.network is not None:
            key = task.network.content_hash, engine, precision
            if key not in found:
                found[key] = compared_on(task, engine_of(engine), valid)
    return list(found.values())


def engine_faults(valid: Valid) -> list[Diagnostic]:
    """Errors for the networks whose engine does not give what ONNX Runtime gives."""
    faults = []
    for one in engine_comparisons(valid):
        if one.code:
            span, help_text = valid.tasks[one.task].span, "leave `engine` out: ONNX Runtime runs it"
            network = valid.tasks[one.task].network
            if one.precision == "bf16" or (network is not None and network.any_precision):
                help_text = "leave `precision` out"
            message = f"`{one.task}`: {one.reason}"
            faults.append(Diagnostic(one.code, message, span, help=help_text))
    return [*faults, *_lossy(valid)]


def _lossy(valid: Valid) -> Iterator[Diagnostic]:
    """Errors for the networks that are in 8 bits further from 32 bits than their texts allow, and
    warnings for those whose outputs cannot be compared."""
    networks = {t.network.definition: t for t in valid.tasks.values() if t.network is not None}
    for definition, losses in valid.losses.items():
        task = networks.get(definition)
        network = None if task is None else task.network
        if task is None or network is None or network.any_precision:
            continue
        if not losses:
            message = (
                f"`{definition}` in int8 gives outputs of other sizes than in 32 bits: they cannot"
                " be compared"
            )
            help_text = "compare its answers on labelled data, or leave `precision` out"
            yield Diagnostic("F541", message, task.span, severity="warning", help=help_text)
            continue
        least = LEAST_DB if network.within_db is None else network.within_db
        worst = min(losses, key=lambda loss: loss.decibels)
        if worst.decibels < least:
            asked = "are asked for" if network.within_db is not None else "are the least"
            message = (
                f"`{definition}` in int8: {worst.decibels:.1f} dB at `{worst.name}` on its"
                f" calibration files, and {least:g} dB {asked}"
            )
            help_text = (
                "leave `precision` out, take `precision bf16`, or calibrate with more data of the"
                " application"
            )
            if worst.decibels >= 1:
                accepted = floor(worst.decibels)
                help_text += f"; `int8 within {accepted} dB` accepts the loss"
            yield Diagnostic("F541", message, task.span, help=help_text)


def compared_on(task: Task, engine: Engine, valid: Valid, data: Samples | None = None) -> Compared:
    """The comparison of a task's network, on `data` of its application if there are some, else on
    its calibration files or random numbers. It is kept beside the text.

    What was found on data of the application counts where there are none.
    """
    before = compared_before(task, engine, valid, of_source=data is not None)
    if before is not None:
        return before
    network = task.network
    assert network is not None
    kept = _compared(network, engine, data)
    place = _place(network, engine, valid, "" if data is None else SOURCE)
    with suppress(OSError):  # then it is compared again
        make_folders(place.parent.parent, Path(KEPT))
        replace_file(place, json.dumps(asdict(kept)).encode())
    return _of(task, network, engine, kept)


def compared_before(
    task: Task, engine: Engine, valid: Valid, *, of_source: bool
) -> Compared | None:
    """The comparison that is kept beside the text, one on data of the application if there is one;
    with `of_source` no other counts. None if there is none."""
    network = task.network
    assert network is not None
    kept = _read(_place(network, engine, valid, SOURCE))
    if kept is None and not of_source:
        kept = _read(_place(network, engine, valid))
    return None if kept is None else _of(task, network, engine, kept)


def _of(task: Task, network: Network, engine: Engine, kept: _Kept) -> Compared:
    about = (task.name, network.definition, engine.title, network.precision)
    return Compared(*about, kept.figure, kept.code, kept.reason)


def _place(network: Network, engine: Engine, valid: Valid, source: str = "") -> Path:
    """The file of a comparison."""
    beside = Path(valid.system.path).parent
    return beside / KEPT / f"engine-{_key(network, engine, source)}.json"


def _read(place: Path) -> _Kept | None:
    try:
        return read(_Kept, parse(read_bytes(place)))
    except (OSError, ValueError):
        return None


def _key(network: Network, engine: Engine, source: str = "") -> str:
    """A hash over all that the comparison depends on."""
    shapes = [(t.name, str(t.type)) for t in (*network.inputs, *network.outputs)]
    data = source if network.calibrate is None else network.calibrate.text
    words = (RULES, engine.name, engine.version, version_of("onnxruntime"), processor_name())
    about = (network.content_hash, network.precision, network.within_db, shapes, data)
    return hashlib.sha256(repr((*words, *about)).encode()).hexdigest()[:16]


def _compared(network: Network, engine: Engine, data: Samples | None) -> _Kept:
    """Run both on the same data."""
    from ...runtime.noise import Noise
    from ...runtime.tokens import TaskError

    least = least_db(network) if network.any_precision else least_db_of_engines(network)
    if data:
        samples, source = data, SOURCE
    else:
        samples, source = samples_of(network, SAMPLES if least is None else MORE_SAMPLES)
    if least is not None and source == RANDOM:
        least = min(least, LEAST_DB)  # the limit of the text is for data of the network
    noise, name = Noise(), f"{engine.title} {engine.version}"
    joined = {} if least is None else _parts(network, samples)
    try:
        with opened(network, engine) as (reference, other):
            for number, sample in enumerate(samples):
                wanted, made = reference.fire(sample, number), other.fire(sample, number)
                noise.add(*(_apart(network, joined, values) for values in (wanted, made)))
                for tensor, one, two in zip(network.outputs, wanted, made, strict=True):
                    reason = _difference(one, two, exact=least is None)
                    if reason:
                        where = f"{name} gives another `{tensor.name}` than ONNX Runtime"
                        return _Kept(code="F541", reason=f"{where}: {reason}")
    except TaskError as error:
        return _Kept(code="F540", reason=str(error))
    if least is None:
        return _Kept()
    figure = f"{noise} {source}"
    if noise.within(least):
        return _Kept(figure)
    reason = f"{name} in {network.precision}: {figure}, and {least:g} dB are asked for"
    return _Kept(figure, "F541", reason)


def _parts(network: Network, samples: Samples) -> dict[str, list[Part]]:
    """The parts of outputs that are judged by themselves, by tensor."""
    whole = network.converted_from or network
    if whole.model:
        return {}
    names = [t.name for t in whole.inputs]
    given = [dict(zip(names, sample, strict=True)) for sample in samples]
    with suppress(Exception):  # what ONNX Runtime raises has no common type: nothing is taken apart
        return parts(Path(whole.path), given)
    return {}


def _apart(
    network: Network, joined: Mapping[str, list[Part]], values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The outputs of a network, in parts where these are judged by themselves."""
    found: list[np.ndarray] = []
    for tensor, value in zip(network.outputs, values, strict=True):
        found += [part.of(value) for part in joined.get(tensor.name, ())] or [value]
    return found


@contextmanager
def opened(network: Network, engine: Engine, batch: int = 1) -> Iterator[tuple[Code, Code]]:
    """The network as programs run it, on ONNX Runtime and on another engine; in 32 bits there, if
    the text leaves the precision open. A run computes so many firings. Raises TaskError."""
    from ... import runtime
    from ...runtime.tokens import Port

    names = [t.name for t in network.inputs], [t.name for t in network.outputs]
    ports = [
        [Port(t.name, t.type.dtype, t.type.shape) for t in side]
        for side in (network.inputs, network.outputs)
    ]
    with scratch(None, "flowc-engine-") as home:
        whole = network.converted_from if network.any_precision else None
        its_file, file = _placed((whole or network, network), home)
        reference = runtime.Network(its_file, *names, batch=batch)
        options: dict[str, object] = {}
        if network.precision == "bf16":
            options["precision"] = "bf16"
        if batch > 1:
            options["batch"] = batch
        other = getattr(runtime, engine.word)(file, *names, **options)
        try:
            for code in (reference, other):
                code.open(str(home), *ports)
            yield reference, other
        finally:
            reference.close()
            other.close()


def _placed(networks: Iterable[Network], home: Path) -> list[str]:
    """Networks with their weights in a folder, as in a build; their paths there."""
    files = []
    sources = Sources(home)
    for network in networks:
        files.append(sources.place("networks", network.path, network.model or None))
        for name in network.external:
            sources.place("networks", Path(network.path).parent / name)
    for path, content in sources.plan.items():
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.symlink_to(Path(content).resolve())
    return files


def samples_of(network: Network, most: int) -> tuple[list[list[np.ndarray]], str]:
    """Data for the inputs, and what it is: the network's calibration files, else random numbers."""
    import numpy as np

    if network.calibrate is not None:
        borders = [Border(t.name, t.type.dtype, t.type.shape) for t in network.inputs]
        with suppress(NetworkError):  # which is reported where the network is quantized
            found = calibration(network.calibrate.text, Path(network.calibrate.path), borders)
            kept = [[sample[t.name] for t in network.inputs] for sample in found[:most]]
            return kept, "of its calibration files"
    random = np.random.default_rng(1)
    kept = [
        [_drawn(t.type.dtype, t.type.shape, random) for t in network.inputs] for _ in range(most)
    ]
    return kept, RANDOM


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
