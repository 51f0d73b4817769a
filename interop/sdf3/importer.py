"""SDF3 files (the XML of TU Eindhoven's SDF3) to `.flow` texts; `writer` is the inverse.

In: the bytes of a file. Out: a text of abstract tasks and one app with exactly its numbers, in the
layout of `flowc fmt`, and warnings about content that flowc does not support. Tasks, ports and
arrows have a canonical order, so that a graph that was written and read again gives the same text.
`xml_tree` and `graph` read the XML.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...model.diagnostic import Diagnostic
from .. import registry
from ..content import content
from ..names import capitalised, identifiers, listed, reserved_words, shown
from ..registry import Exported, Request, Source
from ..xml_tree import parse
from . import sequences
from .graph import Sdf3Actor, Sdf3Channel, Sdf3Graph, graph_of
from .writer import write

__all__ = ["ImportedGraph", "read", "write"]
#: Widest task on one line.
WIDEST = 110

End = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ImportedGraph:
    """`text` is the .flow source."""

    text: str
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a channel as a port of its task. SDF3's ports that several channels share become
    several ports."""

    port: str
    original: str
    channel: Sdf3Channel


def read(path: str, text: bytes, processor: str | None = None) -> ImportedGraph:
    """Import a graph. Times are those of `processor`, by default of the one that the file marks.

    `path` is for messages and the text's documentation. Raises Errors with all faults.
    """
    graph, warnings = graph_of(parse(path, text, "F701"), processor)
    without = _serial(graph)
    channels = [c for i, c in enumerate(graph.channels) if i not in without]
    if not without:
        warnings += tuple(_overlap(graph))
    instances = identifiers((a.name for a in graph.actors), "actor", reserved_words())
    app, *tasks = identifiers(
        [capitalised(graph.name, "graph"), *(capitalised(i, "task") for i in instances)], "task"
    )
    inputs, outputs = _ends(graph, channels)
    lines = []
    for i, actor in enumerate(graph.actors):
        lines.append(_task(actor, tasks[i], instances[i], inputs[i], outputs[i]))
    about = [
        f"Imported from {shown(PurePath(path).name)}, graph {shown(graph.name)} (SDF3"
        f" {graph.kind}). Times are ns."
    ]
    if graph.chosen:
        about.append(f"Execution times are those of processor {_processors(graph)}.")
    if without:
        about.append(
            "Self-edges that let an actor fire once at a time are left out: tasks do so anyway."
        )
    lines += ["", *(f"/// {line}" for line in about), f"app {app} {{"]
    for instance, task in zip(instances, tasks, strict=True):
        lines.append(f"    {instance}: {task}")
    arrows = list(_arrows(instances, inputs, outputs))
    if arrows:
        lines += ["", *arrows]
    lines.append("}")
    return ImportedGraph("\n".join(lines) + "\n", warnings)


def _processors(graph: Sdf3Graph) -> str:
    """The processors whose times are taken, and the others."""
    if graph.others:
        return f"{listed(graph.chosen)}; the file also has {listed(graph.others)}"
    return listed(graph.chosen)


# -- actors that overlap with themselves -----------------------------------------------------------
def _self_edges(graph: Sdf3Graph) -> dict[int, list[int]]:
    """By actor: its channels that let it fire once at a time."""
    found: dict[int, list[int]] = defaultdict(list)
    for i, channel in enumerate(graph.channels):
        (source, out), (destination, into) = channel.source, channel.destination
        ports = graph.actors[source].ports
        if source != destination or channel.tokens != 1:
            continue
        if sequences.always_one(ports[out].rates) and sequences.always_one(ports[into].rates):
            found[source].append(i)
    return found


def _serial(graph: Sdf3Graph) -> set[int]:
    """One self-edge of each actor, if all have one: together they mean flowc's default.

    The edge that an export adds is removed first, so that an original one stays.
    """
    edges = _self_edges(graph)
    if len(edges) < len(graph.actors):
        return set()
    degree = Counter(
        position for c in graph.channels for position in {c.source[0], c.destination[0]}
    )
    chosen: set[int] = set()
    for position, candidates in edges.items():
        actor = graph.actors[position]
        added = (i for i in candidates if graph.channels[i].name == f"self_{actor.name}")
        edge = next(added, candidates[0])
        # The number of phases has to be kept: an actor without other ports keeps its edge.
        if actor.phases == 1 or actor.times or degree[position] > 1:
            chosen.add(edge)
    return chosen


def _overlap(graph: Sdf3Graph) -> Iterable[Diagnostic]:
    free = len(graph.actors) - len(_self_edges(graph))
    if free:
        who = f"{free} of {len(graph.actors)} actors"
        if len(graph.actors) == 1:
            who = "the actor"
        whom = "itself" if free == 1 else "themselves"
        message = f"in SDF3 {who} may overlap with {whom}"
        help_text = (
            "flowc fires a task once at a time; `flowc analyze --auto-concurrency` counts like"
            " SDF3. A self-edge with one token on every actor means the same in both"
        )
        yield Diagnostic("F703", message, graph.span, help=help_text, severity="warning")


# -- the text --------------------------------------------------------------------------------------
def _ends(
    graph: Sdf3Graph, channels: Sequence[Sdf3Channel]
) -> tuple[list[list[_End]], list[list[_End]]]:
    """The inputs and the outputs of every task."""
    using: dict[tuple[str, End], list[Sdf3Channel]] = defaultdict(list)
    for channel in channels:
        using["out", channel.source].append(channel)
        using["in", channel.destination].append(channel)
    inputs: list[list[_End]] = []
    outputs: list[list[_End]] = []
    for i, actor in enumerate(graph.actors):
        into: list[tuple[str, Sdf3Channel]] = []
        out: list[tuple[str, Sdf3Channel]] = []
        for j, port in enumerate(actor.ports):
            ends = [(port.name, channel) for channel in using[port.direction, (i, j)]]
            if port.direction == "in":
                into += ends
            else:
                out += ends
        names = identifiers((name for name, _ in (*into, *out)), "port")
        made = []
        for name, (original, channel) in zip(names, (*into, *out), strict=True):
            made.append(_End(name, original, channel))
        inputs.append(made[: len(into)])
        outputs.append(made[len(into) :])
    return inputs, outputs


def _task(
    actor: Sdf3Actor,
    name: str,
    instance: str,
    inputs: Sequence[_End],
    outputs: Sequence[_End],
) -> str:
    """The task of an actor, with a line about names that had to change."""
    items: list[str] = []
    for end in inputs:
        items.append(f"in {_rated(end, actor, end.channel.destination)}")
    for end in outputs:
        items.append(f"out {_rated(end, actor, end.channel.source)}")
    if actor.times:
        items.append(f"wcet {sequences.written(sequences.over(actor.times, actor.phases))} ns")
    renamed = []
    if instance != actor.name:
        renamed.append(f"actor {shown(actor.name)}")
    for end in (*inputs, *outputs):
        if end.original != end.port:
            renamed.append(f"port {shown(end.original)} as {shown(end.port)}")
    doc = ""
    if renamed:
        doc = f"/// SDF3's {', '.join(renamed)}.\n"
    line = f"task {name} {{ }}"
    if items:
        line = f"task {name} {{ {'   '.join(items)} }}"
    if len(line) > WIDEST:
        line = "\n    ".join([f"task {name} {{", *items]) + "\n}"
    return doc + line


def _rated(end: _End, actor: Sdf3Actor, at: End) -> str:
    """A port with its rates."""
    _, port = at
    rates = sequences.written(sequences.over(actor.ports[port].rates, actor.phases))
    if rates == "1":
        return end.port
    return f"{end.port} rate {rates}"


def _arrows(
    instances: Sequence[str], inputs: Sequence[Sequence[_End]], outputs: Sequence[Sequence[_End]]
) -> Iterable[str]:
    """One line for each channel; a port is named if there are several."""

    def written(position: int, ends: Sequence[_End], end: _End) -> str:
        if len(ends) > 1:
            return f"{instances[position]}.{end.port}"
        return instances[position]

    targets = {id(end.channel): end for ends in inputs for end in ends}
    for position, ends in enumerate(outputs):
        for end in ends:
            to = end.channel.destination[0]
            delay = ""
            if end.channel.tokens:
                delay = f"delay {end.channel.tokens} -> "
            target = written(to, inputs[to], targets[id(end.channel)])
            yield f"    {written(position, ends, end)} -> {delay}{target}"


def imported(request: Request) -> registry.Imported:
    """The file of a request as a text. Raises Errors."""
    found = read(
        str(request.path), content(request.path, "F701"), request.options.get("processor", str)
    )
    return registry.Imported({request.target.name: found.text}, found.warnings)


def exported(source: Source, wanted: str | None) -> Exported:
    """An app, by default the only one, with the times that `analyze` uses. Raises Errors."""
    apps = {a.name: a for a in source.staged.apps}
    if wanted is None and len(apps) == 1:
        wanted = next(iter(apps))
    if wanted is None or wanted not in apps:
        raise registry.no_app(wanted or None, apps, "it is not clear which app to export")
    times = source.times.app(apps[wanted])
    known = {task: ns for task, ns in times.ns.items() if task not in times.guessed}
    return Exported(wanted, write(apps[wanted], known))
