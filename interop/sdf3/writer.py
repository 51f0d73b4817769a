"""An application to an SDF3 file (the XML of TU Eindhoven's SDF3); `importer` is the inverse.

In: an application and the time of a firing of each task. Out: the text of a file that SDF3 itself
reads: every port has one channel, all lists of an actor have one length, times are integers, and
self-edges let a task fire once at a time. Types of tokens become their sizes; SDF3 has no task
code, values of initial tokens, periods and priorities.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from xml.sax.saxutils import quoteattr

from ...model.application import Application, Channel, Port, Task
from ...model.diagnostic import Diagnostic, Errors
from ..names import identifiers

#: The type of the only processor of an exported file.
PROCESSOR = "cpu"
_SCHEMA = "http://www.w3.org/2001/XMLSchema-instance"


@dataclass(slots=True)
class _Actor:
    """A task while it is written: its lines of ports, and the port for each end of a channel.

    `joined` are the ports of the task with a channel; `own` are those of the self-edge.
    """

    task: Task
    name: str
    phases: int
    ports: list[str] = field(default_factory=list)
    ends: dict[tuple[str, str], str] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    own: tuple[str, str] = ("", "")


def write(
    app: Application, times: Mapping[str, tuple[Fraction, ...]], overlap: bool = False
) -> str:
    """The SDF3 file of one application.

    `times` are nanoseconds by full name of the task, one entry or one per phase; a task that it
    lacks gets none. With `overlap` the self-edges are left out: SDF3 then lets firings of one task
    overlap. Raises Errors (F704).
    """
    _refuse_windows(app)
    ends = defaultdict[tuple[str, str], list[Channel]](list)
    for c in app.channels:
        ends[c.source, c.source_port].append(c)
        ends[c.destination, c.destination_port].append(c)
    scale = 1
    kind = "sdf"
    actors = {}
    for task in app.tasks:
        own = times.get(task.name, ())
        scale = lcm(scale, *(time.denominator for time in own))
        actor = actors[task.name] = _actor(app, task, ends, len(own), overlap)
        if actor.phases > 1:
            kind = "csdf"
    elements = []
    properties = []
    for actor in actors.values():
        elements += _element(actor)
        properties += _times(actor, times, scale)
    names = {"name": app.name, "type": app.name}
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<sdf3 type="{kind}" version="1.0" xmlns:xsi="{_SCHEMA}"'
            f' xsi:noNamespaceSchemaLocation="http://www.es.ele.tue.nl/sdf3/xsd/sdf3-{kind}.xsd">',
            *_comment("  ", [*app.doc.splitlines(), *_remarks(app, scale)]),
            f"  {_tag('applicationGraph', {'name': app.name})}",
            f"    {_tag(kind, names)}",
            *elements,
            *_channels(app, actors, overlap),
            f"    </{kind}>",
            f"    <{kind}Properties>",
            *properties,
            *_sizes(app),
            f"    </{kind}Properties>",
            "  </applicationGraph>",
            "</sdf3>",
            "",
        ]
    )


def _refuse_windows(app: Application) -> None:
    help_text = "SDF3 frees the tokens that a firing takes; leave sliding windows out for an export"
    faults = []
    for c in app.channels:
        if c.frees:
            message = f"`{c.name}` frees other tokens than it takes"
            faults.append(Diagnostic("F704", message, c.span, help=help_text))
    if faults:
        raise Errors(faults)


def _remarks(app: Application, scale: int) -> list[str]:
    unit = "ns"
    if scale != 1:
        unit = f"1/{scale} ns, since SDF3 has whole numbers only"
    lines = [f"Written by flowc. Execution times are in {unit}."]
    for word, value in (("period", app.period_ns), ("deadline", app.deadline_ns)):
        if value is not None:
            lines += [f"The {word} of an iteration is {value} ns."]
    return lines


# -- actors ----------------------------------------------------------------------------------------
def _actor(
    app: Application,
    task: Task,
    channels: Mapping[tuple[str, str], Sequence[Channel]],
    listed: int,
    overlap: bool,
) -> _Actor:
    """Give every end of a channel a port of its own, and the self-edge two more."""
    phases = max(task.phases, listed)
    actor = _Actor(task, task.name.removeprefix(f"{app.name}."), phases)
    ends = []
    for p in task.inputs:
        for c in channels.get((task.name, p.name), ()):
            ends.append(("in", p, c))
    for p in task.outputs:
        for c in channels.get((task.name, p.name), ()):
            ends.append(("out", p, c))
    *names, own_in, own_out = identifiers(
        [*(p.name for _, p, _ in ends), "self_in", "self_out"], "port"
    )
    for name, (way, port, channel) in zip(names, ends, strict=True):
        actor.ends[way, channel.name] = name
        actor.joined.add(port.name)
        actor.ports.append(_port(name, way, _over(port.rates, phases)))
    if not overlap:
        actor.own = (own_in, own_out)
        actor.ports += [_port(own_in, "in", [1] * phases), _port(own_out, "out", [1] * phases)]
    return actor


def _port(name: str, way: str, rates: Sequence[int]) -> str:
    return _tag("port", {"name": name, "type": way, "rate": _list(rates)}, closed=True)


def _element(actor: _Actor) -> list[str]:
    start = f"      {_tag('actor', {'name': actor.name, 'type': actor.task.definition})}"
    said = []
    for p in actor.task.outputs:
        if p.name not in actor.joined:
            said.append(f"Left out, since it has no reader: {p.name}")
    for p in actor.task.inputs:
        if p.window:
            said.append(f"Sees {p.kept} tokens again, which no buffer size here counts: {p.name}")
    for p in actor.task.list_ports:
        said.append(f"Up to so many tokens at a firing: {p.name}")
    for p in actor.task.sized_ports:
        said.append(f"Tokens of up to so many bytes: {p.name}")
    doc = _comment("        ", [*actor.task.doc.splitlines(), *said])
    return [start, *doc, *(f"        {port}" for port in actor.ports), "      </actor>"]


def _channels(app: Application, actors: Mapping[str, _Actor], overlap: bool) -> list[str]:
    lines = []
    for number, c in enumerate(app.channels):
        source, destination = actors[c.source], actors[c.destination]
        ends = (
            source.name,
            source.ends["out", c.name],
            destination.name,
            destination.ends["in", c.name],
        )
        lines.append(_channel(_name(number), ends, c.delay))
    if not overlap:
        for actor in actors.values():
            own_in, own_out = actor.own
            ends = (actor.name, own_out, actor.name, own_in)
            lines.append(_channel(f"self_{actor.name}", ends, 1))
    return [f"      {line}" for line in lines]


def _channel(name: str, ends: tuple[str, str, str, str], tokens: int) -> str:
    words = dict(zip(("srcActor", "srcPort", "dstActor", "dstPort"), ends, strict=True))
    if tokens:
        words["initialTokens"] = str(tokens)
    return _tag("channel", {"name": name, **words}, closed=True)


def _name(number: int) -> str:
    return f"ch{number}"


# -- properties ------------------------------------------------------------------------------------
def _times(actor: _Actor, times: Mapping[str, tuple[Fraction, ...]], scale: int) -> list[str]:
    known = times.get(actor.task.name, ())
    if not known:
        return []
    listed = _list(_over([int(time * scale) for time in known], actor.phases))
    return [
        f"      {_tag('actorProperties', {'actor': actor.name})}",
        f'        <processor type="{PROCESSOR}" default="true">',
        f"          {_tag('executionTime', {'time': listed}, closed=True)}",
        "        </processor>",
        "      </actorProperties>",
    ]


def _sizes(app: Application) -> list[str]:
    lines = []
    ports: dict[tuple[str, str], Port] = {}
    for t in app.tasks:
        for p in t.outputs:
            ports[(t.name, p.name)] = p
    for number, c in enumerate(app.channels):
        kind = ports[c.source, c.source_port].type
        if kind is not None and not kind.open:
            size = _tag("tokenSize", {"sz": str(8 * kind.bytes)}, closed=True)
            of = _tag("channelProperties", {"channel": _name(number)})
            lines += [f"      {of}", f"        {size}", "      </channelProperties>"]
    return lines


# -- XML -------------------------------------------------------------------------------------------
def _over(numbers: Sequence[int], phases: int) -> list[int]:
    """SDF3 requires one length of all lists of an actor."""
    return list(numbers) * (phases // len(numbers))


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _tag(name: str, attributes: Mapping[str, str], *, closed: bool = False) -> str:
    words = "".join(f" {key}={quoteattr(_characters(value))}" for key, value in attributes.items())
    if closed:
        return f"<{name}{words}/>"
    return f"<{name}{words}>"


def _comment(indent: str, lines: Sequence[str]) -> list[str]:
    """A comment holds no `--` and does not end with `-`."""
    safe = [re.sub("-(?=-)", "- ", _characters(line)) for line in lines]
    return [f"{indent}<!-- {line} -->" for line in safe]


def _characters(text: str) -> str:
    """Replace characters that XML cannot hold by question marks."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
