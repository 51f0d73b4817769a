"""A network as a dataflow graph on processors: a task per processor whose phases are parts of it.

In: an .onnx file, and a file with the processor of every layer (`networks.dataflow.places`). Out:
the graph as an app, with times per phase, for analyses and exports; and as rows, by flowc's phases
and by those of Minakova's thesis, each with the verdict and the least period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from ...analysis.dataflow.analyze import limits
from ...machines.host import HERE, own_platform
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors, one_of
from ...model.files import read_bytes, reason
from ...model.times import times_of
from ...networks.dataflow.layerwise import Phased, as_sdf, phased
from ...networks.dataflow.minakova import minakova
from ...networks.dataflow.places import CODE, LayerPlaces, read_places
from ...networks.onnx.interface import NetworkError
from ...networks.onnx.layers import Cnn
from ..text.check import Checked
from .networks import layers_of, network_app_name, network_checked, raised

#: How phases are cut: by flowc, where no deadlock is possible, or by the thesis's Algorithm 2.
RULES = {"levels": phased, "minakova": minakova}
#: Largest file of places.
MOST_BYTES = 1 << 24
#: A graph of one task per layer has no rule for phases.
LAYERS = "layers"


@dataclass(frozen=True, slots=True)
class MappedActor:
    """`phases` are the layers of each phase, `ns` their times (empty if none are known)."""

    name: str
    phases: tuple[tuple[str, ...], ...]
    ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MappedChannel:
    """Elements of the tensor per phase of either side."""

    source: str
    target: str
    produced: tuple[int, ...]
    consumed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MappedGraph:
    """A graph by one rule. `period_ns` is the least time between two frames with one firing of an
    actor at a time; None if the graph deadlocks, or if that was not found. Where no times are
    known (`timed`), it counts layers."""

    rule: str
    actors: tuple[MappedActor, ...]
    channels: tuple[MappedChannel, ...]
    deadlock_free: bool
    period_ns: Fraction | None
    timed: bool


def check_mapped(path: str | Path, places: str | Path, rule: str = "levels") -> Checked:
    """The network as an app of a task per processor of the file `places`, by a rule of `RULES`.

    Raises Errors.
    """
    if rule not in RULES:
        message = f"unknown phases `{rule}`"
        raise Errors([Diagnostic("F704", message, None, help=f"choose {one_of(RULES)}")])
    cnn = layers_of(path)
    given = _places(cnn, places)
    found = RULES[rule](cnn, given.processor, network_app_name(path))
    return network_checked(path, _timed(found, given))


def mapped_graphs(path: str | Path, places: str | Path | None) -> tuple[MappedGraph, ...]:
    """The graph of a network by every rule; without `places`, the one of a task per layer.

    Raises Errors.
    """
    cnn, name = layers_of(path), network_app_name(path)
    if places is None:
        app = as_sdf(cnn, name)
        own = {f"{name}.{layer.name}": ((layer.name,),) for layer in cnn.layers}
        return (_graph(LAYERS, app, own, timed=False),)
    given = _places(cnn, places)
    graphs = []
    for rule, make in RULES.items():
        found = make(cnn, given.processor, name)
        graphs.append(_graph(rule, _timed(found, given), found.phases, timed=given.timed))
    return tuple(graphs)


def _places(cnn: Cnn, file: str | Path) -> LayerPlaces:
    try:
        return read_places(cnn, read_bytes(file, MOST_BYTES), str(file))
    except OSError as error:
        message = f"`{file}` cannot be read: {reason(error)}"
        raise Errors([Diagnostic(CODE, message, None, help="name a JSON file")]) from error
    except NetworkError as fault:
        raise raised(fault) from fault


def _timed(found: Phased, given: LayerPlaces) -> Application:
    """The app with the time of each phase: the sum of its layers'."""
    tasks = []
    for task in found.app.tasks:
        times = [
            Fraction(sum(given.ns.get(layer, 0) for layer in part))
            for part in found.phases[task.name]
        ]
        tasks.append(replace(task, wcet_ns=tuple(times)))
    return replace(found.app, tasks=tuple(tasks))


def _graph(
    rule: str,
    app: Application,
    phases: Mapping[str, tuple[tuple[str, ...], ...]],
    *,
    timed: bool,
) -> MappedGraph:
    checked = network_checked(app.span.file, app)
    verdicts = checked.verdicts[app.name]
    times = times_of(checked.system, own_platform(HERE), None).app(app)
    period = limits(app, verdicts, times).period
    short = len(app.name) + 1
    actors = tuple(
        MappedActor(t.name[short:], phases[t.name], tuple(int(ns) for ns in t.wcet_ns))
        for t in app.tasks
    )
    channels = []
    for c in app.channels:
        made = app.task(c.source).port(c.source_port).rates
        taken = app.task(c.destination).port(c.destination_port).rates
        channels.append(MappedChannel(c.source[short:], c.destination[short:], made, taken))
    free = verdicts.deadlock_free.holds is True
    return MappedGraph(rule, actors, tuple(channels), free, period, timed)
