"""Single networks, as .onnx files: as graphs of layers, the memory they need, and where they can be
cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from time import monotonic

from ...analysis.dataflow.buffers import Buffers, least_capacities
from ...analysis.dataflow.check import check as check_app
from ...analysis.dataflow.graph import graph_of
from ...analysis.dataflow.repetition import repetition
from ...analysis.minakova import POPULATION
from ...dsl.load import Loaded
from ...machines.host import HERE, own_platform
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors, did_you_mean, one_of
from ...model.extras import require
from ...model.system import System
from ...networks.bands.blocked import read_blocked
from ...networks.bands.compare import BandComparison, compare
from ...networks.bands.net import read_net
from ...networks.dataflow import by_parts as parts
from ...networks.dataflow.layerwise import as_sdf
from ...networks.dataflow.reduced import Reduction, reduction
from ...networks.onnx.cuts import LayerChain, read_chain
from ...networks.onnx.interface import ANY_RANK, NetworkError, NetworkInterface, read_network
from ...networks.onnx.layers import Cnn
from ...networks.onnx.prepared import Wishes, prepared
from ...networks.onnx.read_layers import read_layers
from ...passes import Staged
from ...profiling.layers import LayerTimes, layer_times
from ..text.check import Checked


def with_shapes(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Path:
    """A network file with these sizes for its open dimensions: itself where there are none, else a
    model in `.flowc` beside it, in which what follows from sizes is computed. Raises Errors."""
    if not shapes:
        return path
    try:
        file = read_network(path, {}, None)
        for name, sizes in shapes.items():
            _require_fits(file, name, sizes)
        look = read_network(path, shapes, None)
        fixed = {
            b.name: tuple(d if isinstance(d, int) else -1 for d in b.dims) for b in look.inputs
        }
        named = frozenset(b.name for b in look.outputs)
        return prepared(path, look, Wishes(fixed, {}, named, sizes=True), path.parent)
    except NetworkError as fault:
        raise raised(fault) from fault


def _require_fits(file: NetworkInterface, name: str, sizes: tuple[int, ...]) -> None:
    """Raise NetworkError for sizes that an input cannot have."""
    borders = {b.name: b for b in file.inputs}
    border = borders.get(name)
    if border is None:
        help_text = did_you_mean(name, borders) or f"it has {one_of(borders)}"
        raise NetworkError("F405", f"the network has no input `{name}`", help_text)
    agrees = len(sizes) == len(border.dims) and all(
        d == n for d, n in zip(border.dims, sizes, strict=True) if isinstance(d, int)
    )
    if border.dims != (ANY_RANK,) and not agrees:
        shown = "x".join(map(str, sizes))
        raise NetworkError("F406", f"`--shape {name}={shown}`, but `{name}` is {border}")


def check_network(path: str | Path, *, by_parts: bool = False, loops: bool = False) -> Checked:
    """An ONNX network as an app: a task per layer, a token per element of its data.

    With `by_parts`, every layer works through its data row by row, and what it needs again stays in
    its buffer, or with `loops` goes through a self-loop (networks.dataflow.by_parts). Raises
    Errors.
    """
    cnn, name = layers_of(path), network_app_name(path)
    try:
        app = parts.by_parts(cnn, name, loops=loops) if by_parts else as_sdf(cnn, name)
    except NetworkError as fault:
        raise raised(fault) from fault
    return network_checked(path, app)


def network_app_name(path: str | Path) -> str:
    """The name of the app that a network becomes: an identifier."""
    stem = Path(path).stem
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in stem) or "network"


def network_checked(path: str | Path, app: Application) -> Checked:
    """An app that stands for a network, checked like one of a text."""
    verdicts, diagnostics = check_app(app)
    stem = Path(path).stem
    system, host = System(stem, str(path), (app,), (), (), {}), own_platform(HERE)
    return Checked(
        Loaded(system, host, ()), Staged(system, host), {app.name: verdicts}, diagnostics
    )


def layers_of(path: str | Path) -> Cnn:
    """The layers of a network. Raises Errors."""
    try:
        return read_layers(Path(path))
    except NetworkError as fault:
        raise raised(fault) from fault


def raised(fault: NetworkError) -> Errors:
    """The fault of a network as an error of a verb."""
    return Errors([Diagnostic(fault.code, fault.message, None, help=fault.help)])


@dataclass(frozen=True, slots=True)
class NetworkMemory:
    """Elements in the buffers between the layers of a network: each layer at once, by parts, and by
    Algorithm 4.

    If Algorithm 4 does not apply, `algorithm4` is None and `reason` tells why. `overlap` are the
    elements that it keeps in self-loops beside the buffers of the edges.
    """

    layerwise: int
    by_parts: int
    by_parts_proved: bool
    algorithm4: int | None
    overlap: int
    reason: str


def network_memory(path: str | Path) -> NetworkMemory:
    """Least buffers of a network in three execution modes. Raises Errors."""
    cnn = layers_of(path)
    ours = _least(parts.by_parts(cnn, "Net"))
    printed, overlap, reason = None, 0, ""
    try:
        app = parts.algorithm4(cnn, "Net")
    except parts.DoesNotApply as error:
        reason = str(error)
    else:
        least = _least(app)
        loops = {i for i, c in enumerate(app.channels) if c.source == c.destination}
        overlap = sum(n for c, n in least.capacities.items() if c in loops)
        printed = least.total
    return NetworkMemory(
        parts.layerwise_elements(cnn), ours.total, ours.proved, printed, overlap, reason
    )


def network_bands(path: str | Path) -> BandComparison:
    """The memory of a network between its layers, unsplit and in bands of rows. Raises Errors."""
    try:
        net = read_net(Path(path))
        return compare(net, blocked=read_blocked(net))
    except NetworkError as fault:
        raise raised(fault) from fault


@dataclass(frozen=True, slots=True)
class GeneticSearch:
    """How long Algorithm 9 of Minakova's thesis looks for layers that go by parts: for `seconds`,
    or, however long they take, for so many `looks`; each generation has a `population`."""

    seconds: float
    looks: int | None = None
    population: int = POPULATION


def network_by_thesis(path: str | Path, genetic: GeneticSearch | None = None) -> Reduction:
    """The same by the rules of Minakova's thesis, with its genetic search, if that is asked for.
    Raises Errors."""
    if genetic is None:
        return _by_rules(path, None, POPULATION)
    require("deap", "search", "Algorithm 9 of Minakova's thesis")
    end, most = monotonic() + genetic.seconds, genetic.looks
    if most is not None:
        return _by_rules(path, lambda looks: looks >= most, genetic.population)
    return _by_rules(path, lambda _: monotonic() > end, genetic.population)


def _by_rules(path: str | Path, enough: Callable[[int], bool] | None, population: int) -> Reduction:
    try:
        return reduction(layers_of(path), enough, population=population)
    except NetworkError as fault:
        raise raised(fault) from fault


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A place to cut a network: after `layer`; `share` of its work is done before.

    Work is multiplications, or measured time.
    """

    layer: str
    tensors: tuple[str, ...]
    bytes: int
    share: float


def network_cuts(path: str | Path) -> tuple[CutPoint, ...]:
    """The places where a network can be cut into stages without splitting a fused kernel. Raises
    Errors."""
    chain = _chain(path)
    return _cut_points(chain, {x.name: x.macs for x in chain.layers})


def measured_cuts(path: str | Path, seconds: float) -> tuple[tuple[CutPoint, ...], LayerTimes]:
    """The same by time on a CPU of this machine, and the times of the layers. Raises Errors."""
    chain = _chain(path)
    try:
        times = layer_times(Path(path), chain, seconds)
    except Exception as error:  # what ONNX Runtime raises has no common type
        message = str(error).strip().splitlines()[0]
        raise Errors([Diagnostic("F606", f"`{path}` does not run: {message}", None)]) from error
    return _cut_points(chain, times.mean_ns), times


def _chain(path: str | Path) -> LayerChain:
    try:
        return read_chain(Path(path))
    except NetworkError as fault:
        raise raised(fault) from fault


def _cut_points(chain: LayerChain, work: Mapping[str, float]) -> tuple[CutPoint, ...]:
    done = list(accumulate(work[layer.name] for layer in chain.layers))
    points = []
    for cut in chain.cuts():
        if not chain.fused(cut.after):
            share = done[cut.after] / done[-1] if done[-1] else 0.0
            points.append(CutPoint(cut.layer, cut.tensors, cut.bytes, share))
    return tuple(points)


def _least(app: Application) -> Buffers:
    return least_capacities(graph_of(app, repetition(app).vector, overlap=True))
